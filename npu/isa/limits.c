/* The limits an instruction must keep whatever the values: buffers, capacity, alignment, strides,
 * repeats, overlap of its own operands.  A violation is reported and the instruction dropped. */
#include "npu/isa/class.h"

#include <stdarg.h>
#include <stdio.h>

bool rdn_fail(char *why, size_t size, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(why, size, format, list);
  va_end(list);
  return false;
}

static uint32_t alignment(const rd_npu_launch *l, const operand *o) {
  if (o->align) return o->align;
  if (o->buffer == RD_NPU_GM) return l->tensors[o->tensor].elem_bytes;
  return o->buffer == RD_NPU_L0A || o->buffer == RD_NPU_L0B ? 512 : 32;
}

static bool check_operand(const rd_npu_launch *l, uint64_t slack, const operand *o, char *why,
                          size_t size) {
  const char *role = o->access & WRITE ? "destination" : "source";
  if (o->buffer != o->home)
    return rdn_fail(why, size, "%s is in %s, must be in %s", role,
                    o->buffer < RD_NPU_BUFFERS ? rd_npu_buffer_name(o->buffer) : "no buffer",
                    rd_npu_buffer_name(o->home));
  uint64_t capacity = rd_npu_arch_get(l->arch)->capacity[o->buffer];
  const char *name = rd_npu_buffer_name(o->buffer);
  if (o->buffer == RD_NPU_GM) {
    if (o->tensor >= l->tensor_count)
      return rdn_fail(why, size, "GM tensor %u of %u", o->tensor, l->tensor_count);
    const rd_npu_tensor *t = &l->tensors[o->tensor];
    bool write = o->access & WRITE;
    capacity = t->bytes + (write || o->access & EXACT ? 0 : slack);
    name = t->name;
    if (write && t->mode == RD_NPU_IN)
      return rdn_fail(why, size, "writes the input tensor %s", name);
  }
  uint32_t align = alignment(l, o);
  if (align && (o->base % align || (o->buffer == RD_NPU_GM && o->units > 1 && o->stride % align)))
    return rdn_fail(why, size, "%s %s+0x%llx is not aligned to %u bytes", role, name,
                    (unsigned long long)o->base, align);
  uint64_t end = rdn_operand_end(o);
  if (end > capacity)
    return rdn_fail(why, size, "%s ends at byte %llu of %s, which has %llu", role,
                    (unsigned long long)end, name, (unsigned long long)capacity);
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

bool rdn_vector_limits(const insn *i, char *why, size_t size) {
  if (i->v.repeat > 255) return rdn_fail(why, size, "repeat %u, at most 255", i->v.repeat);
  const uint16_t stride[] = {i->v.dst_blk, i->v.src0_blk, i->v.src1_blk,
                             i->v.dst_rep, i->v.src0_rep, i->v.src1_rep};
  for (unsigned n = 0; n < 6; n++)
    if (stride[n] > 255)
      return rdn_fail(why, size, "%s stride %u, at most 255", n < 3 ? "block" : "repeat",
                      stride[n]);
  return true;
}

/* The high word of the mask has no lanes to select among 64.  A full register, as it is when a kernel
 * starts, serves every type. */
static bool mask_fits(const insn *i, const operand *masked, char *why, size_t size) {
  bool full = !~i->v.lo && !~i->v.hi;
  if (masked->lanes > 64 || !i->v.hi || full) return true;
  return rdn_fail(why, size, "mask bits 64 to 127 are set and a repeat has 64 lanes");
}

bool rdn_vector_relations(const insn *i, const operand *o, unsigned count, const operand *masked,
                          char *why, size_t size) {
  const operand *dst = &o[count - 1];
  if (masked && i->v.repeat && !(masked->lo | masked->hi))
    return rdn_fail(why, size, "no active lane in the mask");
  if (masked && !mask_fits(i, masked, why, size)) return false;
  if (dst->lanes && dst->blk == 0 && rdn_block_mask(dst, 0) && rdn_block_mask(dst, 1))
    return rdn_fail(why, size, "destination block stride 0 writes one block twice in a repeat");
  bool accumulates = rdn_ops[i->op].traits & ACCUMULATES;
  for (unsigned s = 0; s + 1 < count; s++)
    if (!overlap_ok(&o[s], dst, accumulates && s == 1))
      return rdn_fail(why, size, "source overlaps the destination other than lane for lane");
  if (dst->access & READ && !overlap_ok(dst, dst, false))
    return rdn_fail(why, size, "a repeat reads what an earlier repeat of the instruction wrote");
  return true;
}

bool rdn_validate(const rd_npu_launch *l, uint64_t slack, const insn *i, char *why, size_t size) {
  const rdn_class *k = rdn_class_of(i);
  if (k->limits && !k->limits(i, why, size)) return false;
  operand o[MAX_OPERANDS];
  unsigned count = rdn_operands(i, o);
  for (unsigned n = 0; n < count; n++)
    if (!check_operand(l, slack, &o[n], why, size)) return false;
  return !k->relations || k->relations(i, o, count, why, size);
}
