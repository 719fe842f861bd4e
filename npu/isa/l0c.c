/* Results leave L0C: fractal for fractal into UB (CC_UB), or row major into GM (CC_GM). */
#include "npu/isa/burst.h"
#include "npu/isa/class.h"

static uint16_t fractal_bytes(uint8_t type) { return (uint16_t)(256 * type_size(type)); }

static unsigned ub_operands(const insn *i, operand *o) {
  uint64_t from = fractal_bytes(i->type_src), to = fractal_bytes(i->type_dst);
  uint64_t len = i->copy.len, n = i->copy.n;
  o[0] = rdn_ranges(RD_NPU_L0C, i->copy.src, READ, n, (len + i->copy.src_gap) * from, len * from);
  o[1] = rdn_ranges(RD_NPU_UB, i->copy.dst, WRITE, n, len * to + 32 * (uint64_t)i->copy.dst_gap,
                    len * to);
  o[0].align = fractal_bytes(i->type_src);
  return 2;
}

/* Whole fractals are read; rows and columns that are not stored need not be initialised. */
static uint32_t stored_padding(const insn *i, rd_npu_arch arch, uint64_t offset) {
  (void)arch;
  return rdn_l0c_padding(type_size(i->type_src), i->copy.len / 16, i->copy.n, i->copy.src_gap,
                         offset);
}

static unsigned gm_operands(const insn *i, operand *o) {
  uint64_t m = i->copy.len, n = i->copy.src_gap, size = type_size(i->type_dst);
  o[0] = rdn_ranges(RD_NPU_L0C, i->copy.src, READ | CONSUME, 1, 0,
                    m * ((n + 15) / 16 * 16) * type_size(i->type_src));
  o[0].padding = stored_padding;
  o[1] = rdn_ranges(RD_NPU_GM, i->copy.dst, WRITE, i->copy.n, i->copy.dst_gap * size, n * size);
  o[0].align = fractal_bytes(i->type_src);
  return 2;
}

static uint32_t units(const insn *i) { return i->copy.n; }

static bool converts(const insn *i, bool bf16, char *why, size_t size) {
  bool source = i->type_src == RD_NPU_F32 || i->type_src == RD_NPU_F16;
  bool narrows = i->type_src == RD_NPU_F32 &&
                 (i->type_dst == RD_NPU_F16 || (bf16 && i->type_dst == RD_NPU_BF16));
  if (source && (i->type_dst == i->type_src || narrows)) return true;
  return rdn_fail(why, size, "no conversion between these types");
}

static bool ub_limits(const insn *i, char *why, size_t size) {
  return rdn_burst_limits(i, why, size) && converts(i, false, why, size);
}

static bool gm_limits(const insn *i, char *why, size_t size) {
  if (!converts(i, true, why, size)) return false;
  if (i->copy.len % 16 || i->copy.n > i->copy.len || !i->copy.src_gap)
    return rdn_fail(why, size, "m must be a multiple of 16, rows at most m, n at least 1");
  return true;
}

static bool to_ub(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  operand o[MAX_OPERANDS];
  rdn_operands(i, o);
  for (uint32_t u = begin; u < end; u++)
    rdn_convert(m, local(m, i->copy.dst) + u * o[1].stride, local(m, i->copy.src) + u * o[0].stride,
                i->type_dst, i->type_src, (size_t)i->copy.len * 256);
  return true;
}

static bool to_gm(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t rows = i->copy.len, n = i->copy.src_gap, to = type_size(i->type_dst),
           from = type_size(i->type_src);
  uint8_t *gm = m->gm[addr_tensor(i->copy.dst)] + addr_offset(i->copy.dst);
  const uint8_t *src = local(m, i->copy.src);
  for (uint32_t r = begin; r < end; r++)
    for (uint32_t c = 0; c < n; c += 16)
      rdn_convert(m, gm + ((uint64_t)r * i->copy.dst_gap + c) * to,
                  src + (((uint64_t)(c / 16) * rows / 16 + r / 16) * 256 + r % 16 * 16) * from,
                  i->type_dst, i->type_src, n - c < 16 ? n - c : 16);
  return true;
}

static uint64_t cost(const insn *i) { return 32 + rdn_moved_bytes(i) / 256; }

/* The byte of an f32 source that starts the element: its bytes are initialised together. */
static int64_t ub_source_byte(const insn *i, uint64_t b) {
  return (int64_t)(b / type_size(i->type_dst) * type_size(i->type_src));
}

const rdn_class rdn_class_CC_UB = {.operands = ub_operands,
                                   .units = units,
                                   .limits = ub_limits,
                                   .execute = to_ub,
                                   .cost = cost,
                                   .source_byte = ub_source_byte,
                                   .copies = true};

const rdn_class rdn_class_CC_GM = {.operands = gm_operands,
                                   .units = units,
                                   .limits = gm_limits,
                                   .execute = to_gm,
                                   .cost = cost,
                                   .copies = true};
