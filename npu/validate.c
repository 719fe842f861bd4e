/* The limits an instruction must keep whatever the values: buffers, capacity, alignment, strides,
 * repeats, overlap of its own operands.  A violation is reported and the instruction dropped. */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 3, 4))) static bool fail(char *why, size_t size, const char *format,
                                                       ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(why, size, format, list);
  va_end(list);
  return false;
}

uint64_t rdn_tensor_padded(const rd_npu_tensor *t) {
  return (t->bytes + GRANULE - 1) / GRANULE * GRANULE + GM_SLACK;
}

/* The buffer each operand of an instruction must be in, in the order of rdn_operands. */
static void operand_buffers(const insn *i, uint8_t want[MAX_OPERANDS]) {
  enum { G = RD_NPU_GM, U = RD_NPU_UB, L = RD_NPU_L1 };
  static const uint8_t table[OP_COUNT][2] = {[OP_copy_gm_to_ubuf] = {G, U},
                                             [OP_copy_ubuf_to_gm] = {U, G},
                                             [OP_copy_gm_to_cbuf] = {G, L},
                                             [OP_copy_ubuf_to_cbuf] = {U, L},
                                             [OP_copy_ubuf_to_ubuf] = {U, U},
                                             [OP_copy_gm_to_ubuf_align] = {G, U},
                                             [OP_copy_ubuf_to_gm_align] = {U, G},
                                             [OP_load_cbuf_to_ca] = {L, RD_NPU_L0A},
                                             [OP_load_cbuf_to_cb] = {L, RD_NPU_L0B},
                                             [OP_copy_matrix_cc_to_ubuf] = {RD_NPU_L0C, U},
                                             [OP_copy_matrix_cc_to_gm] = {RD_NPU_L0C, G},
                                             [OP_mad] = {RD_NPU_L0A, RD_NPU_L0B},
                                             [OP_load_gm] = {G, G}};
  bool listed = i->op <= OP_copy_matrix_cc_to_gm || i->op == OP_load_gm;
  want[0] = listed ? table[i->op][0] : U;
  want[1] = listed ? table[i->op][1] : U;
  want[2] = i->op == OP_mad ? RD_NPU_L0C : U;
  want[3] = U;
}

static uint32_t alignment(const rd_npu_launch *l, const insn *i, const operand *o) {
  switch (o->buffer) {
  case RD_NPU_GM:
    return l->tensors[o->tensor].elem_bytes;
  case RD_NPU_L0A:
  case RD_NPU_L0B:
    return 512;
  case RD_NPU_L0C:
    return 256 * type_size(i->op == OP_mad ? i->type_dst : i->type_src);
  default:
    break;
  }
  if (rdn_ops[i->op].class == CLASS_S_UB) return 4;
  if (i->op == OP_vcadd && (o->access & WRITE)) return type_size(i->type_dst);
  return 32;
}

static bool check_operand(const rd_npu_launch *l, const insn *i, const operand *o, unsigned want,
                          char *why, size_t size) {
  const char *role = o->access & WRITE ? "destination" : "source";
  if (o->buffer != want)
    return fail(why, size, "%s is in %s, must be in %s", role,
                o->buffer < RD_NPU_BUFFERS ? rd_npu_buffer_name(o->buffer) : "no buffer",
                rd_npu_buffer_name(want));
  uint64_t capacity = rd_npu_arch_get(l->arch)->capacity[o->buffer];
  const char *name = rd_npu_buffer_name(o->buffer);
  if (o->buffer == RD_NPU_GM) {
    if (o->tensor >= l->tensor_count)
      return fail(why, size, "GM tensor %u of %u", o->tensor, l->tensor_count);
    const rd_npu_tensor *t = &l->tensors[o->tensor];
    bool write = o->access & WRITE;
    capacity = write || i->op == OP_load_gm ? t->bytes : rdn_tensor_padded(t);
    name = t->name;
    if (write && t->mode == RD_NPU_IN) return fail(why, size, "writes the input tensor %s", name);
  }
  uint32_t align = alignment(l, i, o);
  if (align && (o->base % align || (o->buffer == RD_NPU_GM && o->units > 1 && o->stride % align)))
    return fail(why, size, "%s %s+0x%llx is not aligned to %u bytes", role, name,
                (unsigned long long)o->base, align);
  uint64_t end = rdn_operand_end(o);
  if (end > capacity)
    return fail(why, size, "%s ends at byte %llu of %s, which has %llu", role,
                (unsigned long long)end, name, (unsigned long long)capacity);
  return true;
}

static bool check_limits(const insn *i, char *why, size_t size) {
  uint8_t class = rdn_ops[i->op].class;
  if (class == CLASS_BURST || class == CLASS_ALIGN || class == CLASS_CC_UB) {
    uint32_t most = class == CLASS_ALIGN ? 1u << 21 : 65535;
    if (i->copy.n > 4095) return fail(why, size, "%u bursts, at most 4095", i->copy.n);
    if (i->copy.n && (i->copy.len == 0 || i->copy.len > most))
      return fail(why, size, "burst length %u, must be 1..%u", i->copy.len, most);
    if (class != CLASS_ALIGN && (i->copy.src_gap > 65535 || i->copy.dst_gap > 65535))
      return fail(why, size, "gap above 65535");
  }
  if (class == CLASS_CC_UB || class == CLASS_CC_GM) {
    bool same = i->type_dst == i->type_src;
    bool known =
        (i->type_src == RD_NPU_F32 || i->type_src == RD_NPU_F16) &&
        (same || (i->type_src == RD_NPU_F32 && i->type_dst == RD_NPU_F16) ||
         (class == CLASS_CC_GM && i->type_src == RD_NPU_F32 && i->type_dst == RD_NPU_BF16));
    if (!known) return fail(why, size, "no conversion between these types");
  }
  if (class == CLASS_CC_GM &&
      (i->copy.len % 16 || i->copy.src_gap % 16 || i->copy.n > i->copy.len || !i->copy.src_gap))
    return fail(why, size, "m and n must be multiples of 16 and rows at most m");
  if (class == CLASS_LOAD &&
      (i->load.repeat > 255 || i->load.stride > 65535 || i->load.gap > 65535))
    return fail(why, size, "repeat above 255 or stride above 65535");
  if (class == CLASS_MAD) {
    uint32_t m = i->mad.m, k = i->mad.k, n = i->mad.n;
    if (!m || !k || !n || m % 16 || k % 16 || n % 16 || m > 4095 || k > 4095 || n > 4095)
      return fail(why, size, "m,k,n = %u,%u,%u: multiples of 16 up to 4080 (M = 1 is another mode)",
                  m, k, n);
    bool types =
        (i->type_dst == RD_NPU_F32 && (i->type_src == RD_NPU_F16 || i->type_src == RD_NPU_BF16)) ||
        (i->type_dst == RD_NPU_F16 && i->type_src == RD_NPU_F16);
    if (!types) return fail(why, size, "products are f16 or bf16 into f32, or f16 into f16");
  }
  return true;
}

/* One repeat's bytes of an operand, from its base. */
static uint64_t repeat_extent(const operand *o) {
  operand one = *o;
  if (one.units > 1) one.units = 1;
  uint64_t end = rdn_operand_end(&one);
  return end > o->base ? end - o->base : 0;
}

/* Does the read of one repeat of src meet the write of one repeat of dst, their bases given?
 * exact: lane-for-lane coincidence does not count. */
static bool repeats_meet(const operand *src, uint64_t s, const operand *dst, uint64_t d,
                         bool exact) {
  unsigned sb = src->lanes ? src->lanes * src->elem / GRANULE : 1;
  unsigned db = dst->lanes ? dst->lanes * dst->elem / GRANULE : 1;
  for (unsigned a = 0; a < sb; a++)
    for (unsigned b = 0; b < db; b++) {
      uint32_t sm = src->lanes ? rdn_block_mask(src, a) : 1;
      uint32_t dm = dst->lanes ? rdn_block_mask(dst, b) : 1;
      if (!sm || !dm || (exact && a == b)) continue;
      uint64_t s0 = s + 32ull * a * src->blk, d0 = d + 32ull * b * dst->blk;
      uint64_t sl = src->lanes ? GRANULE : src->bytes, dl = dst->lanes ? GRANULE : dst->bytes;
      if (s0 < d0 + dl && d0 < s0 + sl && (s0 != d0 || !src->lanes || !dst->lanes || (sm & dm)))
        return true;
    }
  return false;
}

/* Within a repeat: exactly the same lanes or none in common; across repeats: no read of what an
 * earlier repeat wrote, except where the arithmetic is defined to run in order. */
static bool overlap_ok(const operand *src, const operand *dst, bool may_accumulate) {
  uint64_t se = rdn_operand_end(src), de = rdn_operand_end(dst);
  if (!se || !de || src->base >= de || dst->base >= se) return true;
  bool same = src->base == dst->base && src->lanes == dst->lanes && src->elem == dst->elem &&
              src->blk == dst->blk;
  if (same && may_accumulate && (src->rep == 0 || dst->rep == 0)) return true;
  uint64_t s_extent = repeat_extent(src), d_extent = repeat_extent(dst);
  if (same && src->stride == dst->stride && (src->units < 2 || src->stride >= s_extent))
    return true;
  bool lockstep = src->stride == dst->stride; /* only the distance r - w matters then */
  for (uint64_t r = 0; r < src->units; r++)
    for (uint64_t w = 0; w <= (lockstep ? 0 : r); w++) {
      uint64_t s = src->base + r * src->stride, d = dst->base + w * dst->stride;
      if (s >= d + d_extent || d >= s + s_extent) continue;
      bool exact = r == w && src->lanes && dst->lanes && s == d && src->blk == dst->blk &&
                   src->elem == dst->elem;
      if (repeats_meet(src, s, dst, d, exact)) return false;
    }
  return true;
}

static bool check_vector(const insn *i, const operand *o, unsigned count, char *why, size_t size) {
  if (i->v.repeat > 255) return fail(why, size, "repeat %u, at most 255", i->v.repeat);
  uint8_t class = rdn_ops[i->op].class;
  const operand *dst = &o[count - 1];
  if (class == CLASS_VEC1 || class == CLASS_VEC2 || class == CLASS_VEC3 || class == CLASS_VRED ||
      class == CLASS_VGATHER) {
    const operand *masked = class == CLASS_VRED ? &o[0] : dst;
    if (i->v.repeat && !(masked->lo | masked->hi))
      return fail(why, size, "no active lane in the mask");
  }
  if (class == CLASS_VTRANS) {
    uint32_t m = i->v.extra >> 16, ch = i->v.extra & 0xFFFF;
    if (i->op == OP_v4dtrans &&
        (!m || !ch || m > 4095 || ch > 4095 || (m * ch * type_size(i->type_dst)) % 32))
      return fail(why, size, "m and channels 1..4095 and whole 32-byte blocks");
  }
  if (dst->lanes && dst->blk == 0 && rdn_block_mask(dst, 0) && rdn_block_mask(dst, 1))
    return fail(why, size, "destination block stride 0 writes one block twice in a repeat");
  bool arithmetic = i->op >= OP_vadd && i->op <= OP_vmin;
  for (unsigned s = 0; s + 1 < count; s++)
    if (!overlap_ok(&o[s], dst, arithmetic && s == 1))
      return fail(why, size, "source overlaps the destination other than lane for lane");
  if (dst->access & READ && !overlap_ok(dst, dst, false))
    return fail(why, size, "a repeat reads what an earlier repeat of the instruction wrote");
  return true;
}

bool rdn_validate(const rd_npu_launch *l, const insn *i, char *why, size_t size) {
  if (!check_limits(i, why, size)) return false;
  operand o[MAX_OPERANDS];
  unsigned count = rdn_operands(i, o);
  uint8_t want[MAX_OPERANDS], class = rdn_ops[i->op].class;
  operand_buffers(i, want);
  for (unsigned n = 0; n < count; n++)
    if (!check_operand(l, i, &o[n], want[n], why, size)) return false;
  if (i->pipe == RD_NPU_PIPE_V && class >= CLASS_VEC3 && class <= CLASS_VGATHER)
    return check_vector(i, o, count, why, size);
  if (i->op == OP_copy_ubuf_to_ubuf && o[0].base < rdn_operand_end(&o[1]) &&
      o[1].base < rdn_operand_end(&o[0]))
    for (uint64_t a = 0; a < o[0].units; a++)
      for (uint64_t b = 0; b < o[1].units; b++)
        if (o[0].base + a * o[0].stride < o[1].base + b * o[1].stride + o[1].bytes &&
            o[1].base + b * o[1].stride < o[0].base + a * o[0].stride + o[0].bytes)
          return fail(why, size, "source and destination overlap");
  return true;
}
