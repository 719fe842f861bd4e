/* Copies in bursts: of 32-byte blocks (BURST), and of bytes between GM and UB (ALIGN). */
#include "npu/isa/burst.h"
#include "npu/isa/class.h"

#include <string.h>

static unsigned access_of_source(const insn *i) { return rdn_moves(i) ? READ : READ | CONSUME; }

static unsigned burst_operands(const insn *i, operand *o) {
  const op_info *info = &rdn_ops[i->op];
  uint64_t len = i->copy.len, n = i->copy.n;
  o[0] = rdn_ranges(info->from, i->copy.src, access_of_source(i), n, (len + i->copy.src_gap) * 32,
                    len * 32);
  o[1] = rdn_ranges(info->to, i->copy.dst, WRITE, n, (len + i->copy.dst_gap) * 32, len * 32);
  return 2;
}

static unsigned align_operands(const insn *i, operand *o) {
  const op_info *info = &rdn_ops[i->op];
  uint64_t len = i->copy.len, n = i->copy.n, blocks = (len + 31) / 32;
  bool load = info->from == RD_NPU_GM;
  uint64_t gm = len + (load ? i->copy.src_gap : i->copy.dst_gap);
  uint64_t ub = (blocks + (load ? i->copy.dst_gap : i->copy.src_gap)) * 32;
  o[0] = rdn_ranges(info->from, i->copy.src, access_of_source(i), n, load ? gm : ub, len);
  o[1] = rdn_ranges(info->to, i->copy.dst, WRITE, n, load ? ub : gm, load ? blocks * 32 : len);
  return 2;
}

static uint32_t bursts(const insn *i) { return i->copy.n; }

bool rdn_burst_empty(const insn *i) { return i->copy.n && !i->copy.len; }

static bool check_bursts(const insn *i, uint32_t longest, char *why, size_t size) {
  if (i->copy.n > 4095) return rdn_fail(why, size, "%u bursts, at most 4095", i->copy.n);
  if (i->copy.n && (i->copy.len == 0 || i->copy.len > longest))
    return rdn_fail(why, size, "burst length %u, must be 1..%u", i->copy.len, longest);
  return true;
}

bool rdn_burst_limits(const insn *i, char *why, size_t size) {
  if (!check_bursts(i, 65535, why, size)) return false;
  if (i->copy.src_gap > 65535 || i->copy.dst_gap > 65535)
    return rdn_fail(why, size, "gap above 65535");
  return true;
}

static bool align_limits(const insn *i, char *why, size_t size) {
  return check_bursts(i, 1u << 21, why, size);
}

/* Within one buffer no burst may meet another's destination. */
static bool burst_relations(const insn *i, const operand *o, unsigned count, char *why,
                            size_t size) {
  (void)i, (void)count;
  if (o[0].buffer != o[1].buffer || o[0].base >= rdn_operand_end(&o[1]) ||
      o[1].base >= rdn_operand_end(&o[0]))
    return true;
  for (uint64_t a = 0; a < o[0].units; a++)
    for (uint64_t b = 0; b < o[1].units; b++)
      if (o[0].base + a * o[0].stride < o[1].base + b * o[1].stride + o[1].bytes &&
          o[1].base + b * o[1].stride < o[0].base + a * o[0].stride + o[0].bytes)
        return rdn_fail(why, size, "source and destination overlap");
  return true;
}

/* From GM; bytes past the tensor (the slack that may be copied) read as poison. */
static void gm_load(const memory *m, uint8_t *dst, uint64_t addr, uint64_t bytes) {
  const rd_npu_tensor *t = &m->tensors[addr_tensor(addr)];
  uint64_t at = addr_offset(addr), have = at < t->bytes ? t->bytes - at : 0;
  if (have > bytes) have = bytes;
  if (have) memcpy(dst, m->gm[addr_tensor(addr)] + at, have);
  if (have < bytes) memset(dst + have, 0xFF, bytes - have);
}

static void copy_range(const memory *m, uint64_t dst, uint64_t src, uint64_t bytes) {
  if (addr_buffer(src) == RD_NPU_GM)
    gm_load(m, local(m, dst), src, bytes);
  else if (addr_buffer(dst) == RD_NPU_GM)
    memcpy(m->gm[addr_tensor(dst)] + addr_offset(dst), local(m, src), bytes);
  else
    memmove(local(m, dst), local(m, src), bytes);
}

static bool copy_units(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  operand o[MAX_OPERANDS];
  rdn_operands(i, o);
  for (uint32_t u = begin; u < end; u++) {
    copy_range(m, i->copy.dst + u * o[1].stride, i->copy.src + u * o[0].stride, o[0].bytes);
    if (o[1].bytes > o[0].bytes) /* the padding of an unaligned burst */
      memset(local(m, i->copy.dst + u * o[1].stride) + o[0].bytes, 0xFF, o[1].bytes - o[0].bytes);
  }
  return true;
}

static uint64_t burst_cost(const insn *i) {
  uint64_t bytes = rdn_moved_bytes(i);
  bool gm = rdn_ops[i->op].from == RD_NPU_GM || rdn_ops[i->op].to == RD_NPU_GM;
  return gm ? 200 + bytes / 64 : 32 + bytes / 128;
}

const rdn_class rdn_class_BURST = {.operands = burst_operands,
                                   .units = bursts,
                                   .empty = rdn_burst_empty,
                                   .limits = rdn_burst_limits,
                                   .relations = burst_relations,
                                   .execute = copy_units,
                                   .cost = burst_cost,
                                   .copies = true};

const rdn_class rdn_class_ALIGN = {.operands = align_operands,
                                   .units = bursts,
                                   .empty = rdn_burst_empty,
                                   .limits = align_limits,
                                   .execute = copy_units,
                                   .cost = burst_cost,
                                   .copies = true};
