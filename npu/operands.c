/* What each instruction touches: the one description that bounds checks, the race checker, the cost
 * model and (through the same addresses) execution agree on. */
#include "model.h"

#include <stdio.h>

const op_info rdn_ops[OP_COUNT] = {
#define X(name, class, pipe, archs, types)                                                         \
  [OP_##name] = {#name, CLASS_##class, RD_NPU_PIPE_##pipe, archs, types},
    RD_NPU_OPS(X)
#undef X
};

static operand ranges(uint64_t addr, uint8_t access, uint64_t units, uint64_t stride,
                      uint64_t bytes) {
  operand o = {.buffer = (uint8_t)addr_buffer(addr), .access = access, .elem = 1};
  o.tensor = o.buffer == RD_NPU_GM ? addr_tensor(addr) : 0;
  o.base = addr_offset(addr);
  o.units = units, o.stride = stride, o.bytes = bytes;
  return o;
}

static operand lanes(const insn *i, uint64_t addr, uint8_t access, uint16_t count, uint32_t elem,
                     uint32_t blk, uint32_t rep) {
  operand o = ranges(addr, access, i->v.repeat, 32u * (uint64_t)rep, 0);
  o.elem = (uint8_t)elem, o.lanes = count, o.blk = blk, o.rep = rep;
  o.lo = i->v.lo, o.hi = count > 64 ? i->v.hi : 0;
  return o;
}

static uint16_t lane_count(const insn *i) {
  return type_size(i->type_dst) == 4 || type_size(i->type_src) == 4 ? 64 : 128;
}

uint32_t rdn_block_mask(const operand *o, unsigned block) {
  unsigned per = GRANULE / o->elem, first = block * per;
  uint64_t word = first < 64 ? o->lo >> first : o->hi >> (first - 64);
  uint32_t mask = 0, ones = (uint32_t)((1ull << o->elem) - 1);
  for (unsigned l = 0; l < per; l++)
    if (word >> l & 1) mask |= ones << (l * o->elem);
  return mask;
}

uint64_t rdn_operand_end(const operand *o) {
  if (!o->units) return 0;
  uint64_t last = o->base + (o->units - 1) * o->stride;
  if (!o->lanes) return o->bytes ? last + o->bytes : 0;
  unsigned blocks = o->lanes * o->elem / GRANULE;
  uint64_t end = 0;
  for (unsigned b = 0; b < blocks; b++)
    if (rdn_block_mask(o, b)) {
      uint64_t e = last + 32u * (uint64_t)b * o->blk + GRANULE;
      if (e > end) end = e;
    }
  return end;
}

uint32_t rdn_units(const insn *i) {
  switch (rdn_ops[i->op].class) {
  case CLASS_BURST:
  case CLASS_ALIGN:
  case CLASS_CC_UB:
  case CLASS_CC_GM:
    return i->copy.n;
  case CLASS_LOAD:
    return i->load.repeat;
  case CLASS_MAD:
    return (i->mad.m / 16) * (i->mad.n / 16);
  case CLASS_VEC3:
  case CLASS_VEC2:
  case CLASS_VEC1:
  case CLASS_VRED:
  case CLASS_VBRCB:
  case CLASS_VGATHER:
    return i->v.repeat;
  default:
    return 1;
  }
}

bool rdn_moves(const insn *i) {
  switch (rdn_ops[i->op].class) {
  case CLASS_BURST:
    return i->op != OP_copy_ubuf_to_gm;
  case CLASS_ALIGN:
    return i->op != OP_copy_ubuf_to_gm_align;
  case CLASS_LOAD:
  case CLASS_CC_UB:
    return true;
  default:
    return false;
  }
}

static unsigned burst_operands(const insn *i, operand *o) {
  uint8_t read = rdn_moves(i) ? READ : READ | CONSUME;
  uint64_t len = i->copy.len, n = i->copy.n;
  o[0] = ranges(i->copy.src, read, n, (len + i->copy.src_gap) * 32, len * 32);
  o[1] = ranges(i->copy.dst, WRITE, n, (len + i->copy.dst_gap) * 32, len * 32);
  return 2;
}

static unsigned align_operands(const insn *i, operand *o) {
  uint8_t read = rdn_moves(i) ? READ : READ | CONSUME;
  uint64_t len = i->copy.len, n = i->copy.n, blocks = (len + 31) / 32;
  bool load = i->op == OP_copy_gm_to_ubuf_align;
  uint64_t gm = len + (load ? i->copy.src_gap : i->copy.dst_gap);
  uint64_t ub = (blocks + (load ? i->copy.dst_gap : i->copy.src_gap)) * 32;
  o[0] = ranges(i->copy.src, read, n, load ? gm : ub, len);
  o[1] = ranges(i->copy.dst, WRITE, n, load ? ub : gm, load ? blocks * 32 : len);
  return 2;
}

static unsigned cc_operands(const insn *i, operand *o) {
  uint64_t from = 256u * type_size(i->type_src), to = 256u * type_size(i->type_dst);
  if (i->op == OP_copy_matrix_cc_to_gm) {
    uint64_t m = i->copy.len, n = i->copy.src_gap, size = type_size(i->type_dst);
    o[0] = ranges(i->copy.src, READ | CONSUME, 1, 0, m * n * type_size(i->type_src));
    o[1] = ranges(i->copy.dst, WRITE, i->copy.n, i->copy.dst_gap * size, n * size);
    return 2;
  }
  uint64_t len = i->copy.len, n = i->copy.n;
  o[0] = ranges(i->copy.src, READ, n, (len + i->copy.src_gap) * from, len * from);
  o[1] = ranges(i->copy.dst, WRITE, n, len * to + 32 * (uint64_t)i->copy.dst_gap, len * to);
  return 2;
}

static unsigned mad_operands(const insn *i, operand *o) {
  uint64_t m = i->mad.m, k = i->mad.k, n = i->mad.n;
  o[0] = ranges(i->mad.a, READ | CONSUME, 1, 0, m * k * 2);
  o[1] = ranges(i->mad.b, READ | CONSUME, 1, 0, k * n * 2);
  o[2] = ranges(i->mad.dst, (uint8_t)(WRITE | (i->mad.init ? 0 : READ | CONSUME)), 1, 0,
                m * n * type_size(i->type_dst));
  return 3;
}

static unsigned vector_operands(const insn *i, operand *o) {
  uint32_t dst = type_size(i->type_dst), src = type_size(i->type_src);
  uint16_t count = lane_count(i);
  uint8_t in = READ | CONSUME, class = rdn_ops[i->op].class;
  bool fused = i->op == OP_vmla || i->op == OP_vmadd || i->op == OP_vaxpy;
  unsigned n = 0;
  if (class != CLASS_VEC1)
    o[n++] = lanes(i, i->v.src0, in, count, src, i->v.src0_blk, i->v.src0_rep);
  if (class == CLASS_VEC3)
    o[n++] = lanes(i, i->v.src1, in, count, src, i->v.src1_blk, i->v.src1_rep);
  o[n++] = lanes(i, i->v.dst, fused ? WRITE | in : WRITE, count, dst, i->v.dst_blk, i->v.dst_rep);
  return n;
}

static unsigned special_operands(const insn *i, operand *o) {
  uint32_t size = type_size(i->type_dst), repeat = i->v.repeat;
  uint8_t in = READ | CONSUME;
  switch (i->op) {
  case OP_vcadd:
    o[0] = lanes(i, i->v.src0, in, lane_count(i), size, i->v.src0_blk, i->v.src0_rep);
    o[1] = ranges(i->v.dst, WRITE, repeat, i->v.dst_rep * (uint64_t)size, size);
    return 2;
  case OP_vcgadd:
    o[0] = lanes(i, i->v.src0, in, lane_count(i), size, i->v.src0_blk, i->v.src0_rep);
    o[1] = ranges(i->v.dst, WRITE, repeat, i->v.dst_rep * 8 * (uint64_t)size, 8 * size);
    return 2;
  case OP_vbrcb:
    o[0] = ranges(i->v.src0, in, repeat, 8 * size, 8 * size);
    o[1] = lanes(i, i->v.dst, WRITE, 64, 4, i->v.dst_blk, i->v.dst_rep);
    o[1].lo = ~0ull;
    return 2;
  case OP_vgather:
    o[0] = lanes(i, i->v.src0, in, lane_count(i), 4, 1, lane_count(i) / 8);
    o[1] = ranges(i->v.src1, in, repeat != 0, 0, i->v.extra);
    o[2] = lanes(i, i->v.dst, WRITE, lane_count(i), size, 1, i->v.dst_rep);
    return 3;
  default: {
    uint64_t bytes =
        i->op == OP_vtranspose ? 512 : (uint64_t)(i->v.extra >> 16) * (i->v.extra & 0xFFFF) * size;
    o[0] = ranges(i->v.src0, in, 1, 0, bytes);
    o[1] = ranges(i->v.dst, WRITE, 1, 0, bytes);
    return 2;
  }
  }
}

unsigned rdn_operands(const insn *i, operand o[MAX_OPERANDS]) {
  switch (rdn_ops[i->op].class) {
  case CLASS_BURST:
    return burst_operands(i, o);
  case CLASS_ALIGN:
    return align_operands(i, o);
  case CLASS_LOAD: {
    uint64_t n = i->load.repeat;
    o[0] = ranges(i->load.src + 512 * (uint64_t)i->load.start, READ, n,
                  512 * (uint64_t)i->load.stride, 512);
    o[1] = ranges(i->load.dst, WRITE, n, 512 * (1 + (uint64_t)i->load.gap), 512);
    return 2;
  }
  case CLASS_CC_UB:
  case CLASS_CC_GM:
    return cc_operands(i, o);
  case CLASS_MAD:
    return mad_operands(i, o);
  case CLASS_VEC1:
  case CLASS_VEC2:
  case CLASS_VEC3:
    return vector_operands(i, o);
  case CLASS_VRED:
  case CLASS_VBRCB:
  case CLASS_VTRANS:
  case CLASS_VGATHER:
    return special_operands(i, o);
  case CLASS_S_GM:
    o[0] = ranges(i->s.addr, READ | CONSUME, 1, 0, type_size(i->type_src));
    return 1;
  case CLASS_S_UB:
    o[0] = ranges(i->s.addr, i->op == OP_load_ub ? READ | CONSUME : WRITE, 1, 0, 4);
    return 1;
  default:
    return 0;
  }
}
