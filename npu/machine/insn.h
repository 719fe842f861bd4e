/* One issued instruction. */
#ifndef REDELTA_NPU_MACHINE_INSN_H
#define REDELTA_NPU_MACHINE_INSN_H

#include "npu/machine/isa.h"

typedef struct insn {
  uint8_t op, pipe;
  uint8_t type_dst, type_src;
  uint32_t site;
  uint32_t index; /* 1-based position in its pipe's queue */
  union {
    struct {
      uint64_t dst, src0, src1, lo, hi;
      rd_npu_scalar scalar;
      uint16_t dst_blk, src0_blk, src1_blk, dst_rep, src0_rep, src1_rep;
      uint32_t repeat;
      uint32_t extra; /* vgather: table bytes; v4dtrans: m << 16 | channels, scalar.bits = to hwc */
    } v;
    struct {
      uint64_t dst, src;
      uint32_t n, len, src_gap, dst_gap;
    } copy; /* BURST, ALIGN, CC_UB (fractals); CC_GM: n = rows, len = m, src_gap = n, dst_gap = ld
             */
    struct {
      uint64_t dst, src;
      uint32_t start, repeat, stride, gap;
      bool transpose;
    } load;
    struct {
      uint64_t dst, a, b;
      uint32_t m, k, n;
      bool init;
    } mad;
    struct {
      uint8_t src, dst, id;
      bool dropped; /* control list only: taken out of the program */
    } flag;
    struct {
      uint32_t ends[RD_NPU_PIPES]; /* control list only: newest instruction of each pipe */
      uint8_t pipe;
    } barrier;
    struct {
      uint64_t addr;
      rd_npu_scalar a, b;
      uint32_t reg;
      uint32_t bytes; /* S_VALUE: 1, 2, 4 or 8 */
      uint64_t value; /* S_VALUE: what a read gave when it was issued; what a write stores */
    } s;
  };
} insn;

/* Fractals of 16 x 16 results of a mad. */
static inline uint32_t rdn_mad_fractals(const insn *i) {
  return ((i->mad.m + 15) / 16) * ((i->mad.n + 15) / 16);
}

#endif
