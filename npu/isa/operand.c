#include "npu/isa/operand.h"

operand rdn_ranges(unsigned home, uint64_t addr, unsigned access, uint64_t units, uint64_t stride,
                   uint64_t bytes) {
  operand o = {.buffer = (uint8_t)addr_buffer(addr), .access = (uint8_t)access, .elem = 1};
  o.home = (uint8_t)home;
  o.tensor = o.buffer == RD_NPU_GM ? addr_tensor(addr) : 0;
  o.base = addr_offset(addr);
  o.units = units, o.stride = stride, o.bytes = bytes;
  return o;
}

uint16_t rdn_lane_count(const insn *i) {
  return type_size(i->type_dst) == 4 || type_size(i->type_src) == 4 ? 64 : 128;
}

operand rdn_lanes(const insn *i, uint64_t addr, unsigned access, uint32_t elem, uint32_t blk,
                  uint32_t rep) {
  operand o = rdn_ranges(RD_NPU_UB, addr, access, i->v.repeat, 32u * (uint64_t)rep, 0);
  o.elem = (uint8_t)elem, o.lanes = rdn_lane_count(i), o.blk = blk, o.rep = rep;
  o.lo = i->v.lo, o.hi = o.lanes > 64 ? i->v.hi : 0;
  return o;
}

uint32_t rdn_bytes_from(uint32_t size, uint32_t from) {
  uint32_t at = from * size;
  return at >= GRANULE ? 0 : UINT32_MAX << at;
}

uint32_t rdn_l0c_padding(uint32_t size, uint32_t m1, uint32_t m, uint32_t n, uint64_t offset) {
  uint64_t fractal = offset / (256 * size), first = offset % (256 * size) / size;
  uint64_t row = fractal % m1 * 16 + first / 16, column = fractal / m1 * 16 + first % 16;
  if (row >= m || column >= n) return UINT32_MAX;
  return rdn_bytes_from(size, (uint32_t)(n - column));
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

/* Piece n of an operand: where it starts and its bytes; 0 when no lane of it is active. */
static uint64_t piece(const operand *o, uint64_t n, uint64_t *begin, uint32_t *mask) {
  *mask = UINT32_MAX;
  if (!o->lanes) {
    *begin = o->base + n * o->stride;
    return o->bytes;
  }
  unsigned blocks = o->lanes * o->elem / GRANULE, b = (unsigned)(n % blocks);
  *begin = o->base + n / blocks * o->stride + 32ull * b * o->blk;
  *mask = rdn_block_mask(o, b);
  return *mask ? GRANULE : 0;
}

static uint64_t pieces(const operand *o) {
  return o->lanes ? o->units * (o->lanes * o->elem / GRANULE) : o->units;
}

bool rdn_operands_meet(const operand *a, const operand *b) {
  if (a->base >= rdn_operand_end(b) || b->base >= rdn_operand_end(a)) return false;
  for (uint64_t x = 0; x < pieces(a); x++)
    for (uint64_t y = 0; y < pieces(b); y++) {
      uint64_t ab, bb;
      uint32_t am, bm;
      uint64_t an = piece(a, x, &ab, &am), bn = piece(b, y, &bb, &bm);
      uint64_t from = ab > bb ? ab : bb, to = ab + an < bb + bn ? ab + an : bb + bn;
      for (uint64_t at = from; an && bn && at < to; at++)
        if ((!a->lanes || am >> (at - ab) & 1) && (!b->lanes || bm >> (at - bb) & 1)) return true;
    }
  return false;
}
