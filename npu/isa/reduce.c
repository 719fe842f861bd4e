/* Sums of the lanes of a repeat (VRED): all of them, or one per 32-byte block. */
#include "npu/isa/class.h"
#include "npu/machine/float16.h"

#include <string.h>

static uint32_t sums(const insn *i) { return i->op == OP_vcgadd ? 8 : 1; }

static unsigned operands(const insn *i, operand *o) {
  uint32_t size = type_size(i->type_dst), bytes = size * sums(i);
  o[0] = rdn_lanes(i, i->v.src0, READ | CONSUME, size, i->v.src0_blk, i->v.src0_rep);
  o[1] = rdn_ranges(RD_NPU_UB, i->v.dst, WRITE, i->v.repeat, i->v.dst_rep * (uint64_t)bytes, bytes);
  if (i->op == OP_vcadd) o[1].align = (uint16_t)size;
  return 2;
}

static bool relations(const insn *i, const operand *o, unsigned count, char *why, size_t size) {
  return rdn_vector_relations(i, o, count, &o[0], why, size);
}

/* Lanes of one repeat in f32, inactive ones +0. */
static uint32_t gather_lanes(const memory *m, const insn *i, uint32_t r, float out[128]) {
  uint32_t size = type_size(i->type_src), lanes = size == 4 ? 64 : 128;
  const uint8_t *src = local(m, i->v.src0) + 32ull * r * i->v.src0_rep;
  for (uint32_t l = 0; l < lanes; l++) {
    out[l] = 0;
    if (!mask_bits(i, l, 1)) continue;
    uint16_t h;
    if (size == 4) {
      memcpy(&out[l], src + lane_at(l, 4, i->v.src0_blk), 4);
    } else {
      memcpy(&h, src + lane_at(l, 2, i->v.src0_blk), 2);
      out[l] = f16_to_float(h);
    }
  }
  return lanes;
}

static uint16_t round_half(const memory *m, float x) {
  return m->saturates ? f16_saturate(f16_from_float(x)) : f16_from_float(x);
}

/* Adjacent pairs, each sum rounded to the type. */
static float tree_sum(const memory *m, float *x, uint32_t n, bool half) {
  for (; n > 1; n /= 2)
    for (uint32_t l = 0; l < n / 2; l++) {
      float s = x[2 * l] + x[2 * l + 1];
      x[l] = half ? f16_to_float(round_half(m, s)) : s;
    }
  return x[0];
}

static bool execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  bool half = i->type_dst == RD_NPU_F16, groups = i->op == OP_vcgadd;
  uint32_t size = half ? 2 : 4;
  for (uint32_t r = begin; r < end; r++) {
    float x[128];
    uint32_t lanes = gather_lanes(m, i, r, x), count = groups ? 8 : 1;
    uint8_t *dst = local(m, i->v.dst) + (uint64_t)r * i->v.dst_rep * size * count;
    for (uint32_t g = 0; g < count; g++) {
      float s = tree_sum(m, x + g * (lanes / count), lanes / count, half);
      uint16_t h = round_half(m, s);
      memcpy(dst + g * size, half ? (const void *)&h : (const void *)&s, size);
    }
  }
  return true;
}

static uint64_t cost(const insn *i) { return 16 + 2 * (uint64_t)i->v.repeat; }

const rdn_class rdn_class_VRED = {.operands = operands,
                                  .units = rdn_vector_units,
                                  .empty = rdn_vector_empty,
                                  .limits = rdn_vector_limits,
                                  .relations = relations,
                                  .execute = execute,
                                  .cost = cost};
