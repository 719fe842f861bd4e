/* What an instruction touches in one buffer: the one description that bounds checks, the race checker,
 * the cost model and (through the same addresses) execution agree on. */
#ifndef REDELTA_NPU_ISA_OPERAND_H
#define REDELTA_NPU_ISA_OPERAND_H

#include "npu/machine/insn.h"

enum {
  READ = 1,
  WRITE = 2,
  CONSUME = 4, /* a read whose bytes must be initialised */
  EXACT = 8    /* a read that may not touch the slack behind a GM tensor */
};

/* Bytes of the 32 at `offset` (a multiple of 32 from the base) that are covered but hold no data. */
typedef uint32_t operand_padding(const insn *i, rd_npu_arch arch, uint64_t offset);

/* `units` ranges of `bytes` at base + i*stride, or, when lanes > 0, the vector pattern of repeats,
 * 32-byte blocks and a lane mask. */
typedef struct operand {
  uint8_t buffer, access, elem;
  uint8_t home;   /* the buffer it must be in */
  uint16_t lanes; /* 0: plain ranges */
  uint16_t align; /* of base, bytes; 0: what the buffer asks for */
  uint32_t tensor;
  uint64_t base;
  uint64_t units, stride, bytes;
  uint32_t blk, rep;
  uint64_t lo, hi;
  operand_padding *padding; /* NULL: none */
} operand;
#define MAX_OPERANDS 4

operand rdn_ranges(unsigned home, uint64_t addr, unsigned access, uint64_t units, uint64_t stride,
                   uint64_t bytes);
/* A vector operand in UB, under the instruction's mask and repeat. */
operand rdn_lanes(const insn *i, uint64_t addr, unsigned access, uint32_t elem, uint32_t blk,
                  uint32_t rep);
uint16_t rdn_lane_count(const insn *i);

/* Of fractals in NZ order, as L0C has them: m1 rows of fractals, m x n elements of `size` bytes. */
uint32_t rdn_l0c_padding(uint32_t size, uint32_t m1, uint32_t m, uint32_t n, uint64_t offset);
/* The bytes of a block's elements of `size` bytes from element `from` on. */
uint32_t rdn_bytes_from(uint32_t size, uint32_t from);

/* Byte mask (bit = byte) of block b of a vector operand. */
uint32_t rdn_block_mask(const operand *o, unsigned block);
/* Exclusive end of the operand's furthest byte; 0 when it touches nothing. */
uint64_t rdn_operand_end(const operand *o);
/* Have two operands of one buffer a byte in common? */
bool rdn_operands_meet(const operand *a, const operand *b);

#endif
