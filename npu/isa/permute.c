/* Elements change places: one per block (VBRCB), transposed (VTRANS), from a table (VGATHER). */
#include "npu/isa/class.h"

#include <string.h>

static bool unmasked_relations(const insn *i, const operand *o, unsigned count, char *why,
                               size_t size) {
  return rdn_vector_relations(i, o, count, NULL, why, size);
}

/* ---- vbrcb */

static unsigned broadcast_operands(const insn *i, operand *o) {
  uint32_t size = type_size(i->type_dst);
  o[0] = rdn_ranges(RD_NPU_UB, i->v.src0, READ | CONSUME, i->v.repeat, 8 * size, 8 * size);
  o[1] = rdn_lanes(i, i->v.dst, WRITE, 4, i->v.dst_blk, i->v.dst_rep);
  o[1].lanes = 64, o[1].lo = ~0ull; /* whole blocks, whatever the type and mask */
  return 2;
}

static bool broadcast(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t size = type_size(i->type_dst);
  for (uint32_t r = begin; r < end; r++) {
    uint8_t row[32]; /* read before writing: the step reads first */
    memcpy(row, local(m, i->v.src0) + 8ull * r * size, 8 * size);
    for (uint32_t j = 0; j < 8; j++) {
      uint8_t *dst =
          local(m, i->v.dst) + 32ull * ((uint64_t)r * i->v.dst_rep + (uint64_t)j * i->v.dst_blk);
      for (uint32_t x = 0; x < 32; x += size) memcpy(dst + x, row + j * size, size);
    }
  }
  return true;
}

static uint64_t broadcast_cost(const insn *i) { return 16 + (uint64_t)i->v.repeat; }

const rdn_class rdn_class_VBRCB = {.operands = broadcast_operands,
                                   .units = rdn_vector_units,
                                   .limits = rdn_vector_limits,
                                   .relations = unmasked_relations,
                                   .execute = broadcast,
                                   .cost = broadcast_cost};

/* ---- vtranspose, v4dtrans */

static unsigned transpose_operands(const insn *i, operand *o) {
  uint64_t count = (uint64_t)(i->v.extra >> 16) * (i->v.extra & 0xFFFF);
  uint64_t bytes = i->op == OP_vtranspose ? 512 : count * type_size(i->type_dst);
  o[0] = rdn_ranges(RD_NPU_UB, i->v.src0, READ | CONSUME, 1, 0, bytes);
  o[1] = rdn_ranges(RD_NPU_UB, i->v.dst, WRITE, 1, 0, bytes);
  return 2;
}

static bool transpose_relations(const insn *i, const operand *o, unsigned count, char *why,
                                size_t size) {
  uint32_t m = i->v.extra >> 16, ch = i->v.extra & 0xFFFF;
  if (i->op == OP_v4dtrans &&
      (!m || !ch || m > 4095 || ch > 4095 || (m * ch * type_size(i->type_dst)) % 32))
    return rdn_fail(why, size, "m and channels 1..4095 and whole 32-byte blocks");
  return unmasked_relations(i, o, count, why, size);
}

static bool transpose(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  (void)begin, (void)end; /* one unit */
  uint32_t size = i->op == OP_vtranspose ? 2 : type_size(i->type_dst);
  uint32_t rows = 16, columns = 16;
  if (i->op == OP_v4dtrans) {
    uint32_t length = i->v.extra >> 16, channels = i->v.extra & 0xFFFF;
    bool to_hwc = i->v.scalar.bits;
    rows = to_hwc ? channels : length;
    columns = to_hwc ? length : channels;
  }
  const uint8_t *src = local(m, i->v.src0);
  uint8_t *dst = local(m, i->v.dst);
  for (uint64_t r = 0; r < rows; r++)
    for (uint64_t c = 0; c < columns; c++)
      memcpy(dst + (c * rows + r) * size, src + (r * columns + c) * size, size);
  return true;
}

static uint64_t transpose_cost(const insn *i) {
  operand o[MAX_OPERANDS];
  transpose_operands(i, o);
  return 16 + o[0].bytes / 32;
}

const rdn_class rdn_class_VTRANS = {.operands = transpose_operands,
                                    .relations = transpose_relations,
                                    .execute = transpose,
                                    .cost = transpose_cost};

/* ---- vgather */

static unsigned gather_operands(const insn *i, operand *o) {
  uint16_t lanes = rdn_lane_count(i);
  unsigned in = READ | CONSUME;
  o[0] = rdn_lanes(i, i->v.src0, in, 4, 1, lanes / 8);
  o[1] = rdn_ranges(RD_NPU_UB, i->v.src1, in, i->v.repeat != 0, 0, i->v.extra);
  o[2] = rdn_lanes(i, i->v.dst, WRITE, type_size(i->type_dst), 1, i->v.dst_rep);
  return 3;
}

static bool gather_relations(const insn *i, const operand *o, unsigned count, char *why,
                             size_t size) {
  return rdn_vector_relations(i, o, count, &o[count - 1], why, size);
}

static bool gather(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t size = type_size(i->type_dst), lanes = size == 4 ? 64 : 128;
  bool inside = true;
  for (uint32_t r = begin; r < end; r++)
    for (uint32_t l = 0; l < lanes; l++) {
      if (!mask_bits(i, l, 1)) continue;
      uint32_t offset;
      memcpy(&offset, local(m, i->v.src0) + 4ull * (r * lanes + l), 4);
      if (offset % size || (uint64_t)offset + size > i->v.extra) {
        inside = false;
        continue;
      }
      memcpy(local(m, i->v.dst) + 32ull * r * i->v.dst_rep + lane_at(l, size, 1),
             local(m, i->v.src1) + offset, size);
    }
  return inside;
}

static uint64_t gather_cost(const insn *i) { return 16 + 32 * (uint64_t)i->v.repeat; }

const rdn_class rdn_class_VGATHER = {.operands = gather_operands,
                                     .units = rdn_vector_units,
                                     .empty = rdn_vector_empty,
                                     .limits = rdn_vector_limits,
                                     .relations = gather_relations,
                                     .execute = gather,
                                     .cost = gather_cost};
