/* Lane-wise vector instructions with two sources (VEC3), one (VEC2) or none (VEC1). */
#include "npu/isa/class.h"
#include "npu/machine/vector.h"

#include <string.h>

static unsigned operands(const insn *i, operand *o) {
  uint32_t dst = type_size(i->type_dst), src = type_size(i->type_src);
  unsigned in = READ | CONSUME, cls = rdn_ops[i->op].cls, n = 0;
  if (cls != CLASS_VEC1) o[n++] = rdn_lanes(i, i->v.src0, in, src, i->v.src0_blk, i->v.src0_rep);
  if (cls == CLASS_VEC3) o[n++] = rdn_lanes(i, i->v.src1, in, src, i->v.src1_blk, i->v.src1_rep);
  unsigned out = WRITE | (rdn_ops[i->op].traits & READS_DST ? in : 0);
  o[n++] = rdn_lanes(i, i->v.dst, out, dst, i->v.dst_blk, i->v.dst_rep);
  return n;
}

uint32_t rdn_vector_units(const insn *i) { return i->v.repeat; }

bool rdn_vector_empty(const insn *i) { return !i->v.lo && (rdn_lane_count(i) == 64 || !i->v.hi); }

static bool relations(const insn *i, const operand *o, unsigned count, char *why, size_t size) {
  return rdn_vector_relations(i, o, count, &o[count - 1], why, size);
}

typedef struct lane_run {
  uint8_t *dst, *a, *b;
  uint32_t size_dst, size_src, chunk; /* lanes per chunk: one block of the widest operand */
  bool src0, src1;
} lane_run;

/* One repeat, chunk by chunk; a partly masked chunk is computed aside and only active lanes land.
 */
static void vector_repeat(const lane_run *v, const insn *i, uint32_t r, vector_fn *fn,
                          uint32_t scalar, uint32_t lanes) {
  for (uint32_t l = 0; l < lanes; l += v->chunk) {
    uint64_t on = mask_bits(i, l, v->chunk), full = (1ull << v->chunk) - 1;
    if (!on) continue;
    uint8_t *d = v->dst + 32ull * r * i->v.dst_rep + lane_at(l, v->size_dst, i->v.dst_blk);
    const uint8_t *a =
        v->src0 ? v->a + 32ull * r * i->v.src0_rep + lane_at(l, v->size_src, i->v.src0_blk) : NULL;
    const uint8_t *b =
        v->src1 ? v->b + 32ull * r * i->v.src1_rep + lane_at(l, v->size_src, i->v.src1_blk) : a;
    if (on == full) {
      fn(d, a, b, scalar, v->chunk);
      continue;
    }
    uint64_t aside[4];
    memcpy(aside, d, (size_t)v->chunk * v->size_dst);
    fn(aside, a, b, scalar, v->chunk);
    for (uint32_t x = 0; x < v->chunk; x++)
      if (on >> x & 1) memcpy(d + x * v->size_dst, (uint8_t *)aside + x * v->size_dst, v->size_dst);
  }
}

static bool execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint8_t cls = rdn_ops[i->op].cls;
  lane_run v = {.dst = local(m, i->v.dst),
                .size_dst = type_size(i->type_dst),
                .size_src = type_size(i->type_src)};
  v.src0 = cls != CLASS_VEC1, v.src1 = cls == CLASS_VEC3;
  if (v.src0) v.a = local(m, i->v.src0);
  if (v.src1) v.b = local(m, i->v.src1);
  bool wide = v.size_dst == 4 || v.size_src == 4;
  uint32_t lanes = wide ? 64 : 128;
  v.chunk = wide ? 8 : 16;
  vector_fn *fn = rdn_vector_fn(i->op, i->type_dst == RD_NPU_F16 && wide ? RD_NPU_F32 : i->type_dst,
                                m->saturates);
  uint32_t scalar = rdn_scalar_bits(m, i->v.scalar, i->type_dst);
  bool all = i->v.lo == ~0ull && (wide || i->v.hi == ~0ull);
  uint32_t drep = lanes * v.size_dst / 32, srep = lanes * v.size_src / 32;
  bool row = all && i->v.dst_blk == 1 && (!v.src0 || i->v.src0_blk == 1) &&
             (!v.src1 || i->v.src1_blk == 1);
  if (row && i->v.dst_rep == drep && (!v.src0 || i->v.src0_rep == srep) &&
      (!v.src1 || i->v.src1_rep == srep)) {
    const uint8_t *a = v.src0 ? v.a + 32ull * begin * srep : NULL;
    fn(v.dst + 32ull * begin * drep, a, v.src1 ? v.b + 32ull * begin * srep : a, scalar,
       (size_t)(end - begin) * lanes);
    return true;
  }
  for (uint32_t r = begin; r < end; r++) {
    if (!row) {
      vector_repeat(&v, i, r, fn, scalar, lanes);
      continue;
    }
    const uint8_t *a = v.src0 ? v.a + 32ull * r * i->v.src0_rep : NULL;
    fn(v.dst + 32ull * r * i->v.dst_rep, a, v.src1 ? v.b + 32ull * r * i->v.src1_rep : a, scalar,
       lanes);
  }
  return true;
}

static uint64_t cost(const insn *i) {
  return 16 + (uint64_t)i->v.repeat * (rdn_ops[i->op].traits & SLOW ? 4 : 1);
}

#define VECTOR                                                                                     \
  {                                                                                                \
    .operands = operands, .units = rdn_vector_units, .empty = rdn_vector_empty,                    \
    .limits = rdn_vector_limits, .relations = relations, .execute = execute, .cost = cost          \
  }
const rdn_class rdn_class_VEC3 = VECTOR;
const rdn_class rdn_class_VEC2 = VECTOR;
const rdn_class rdn_class_VEC1 = VECTOR;
