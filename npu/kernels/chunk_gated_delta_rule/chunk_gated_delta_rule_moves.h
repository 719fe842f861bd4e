/* chunk_gated_delta_rule_moves.h - memory map, events and data movement of the 310P chunk kernel.
 */
/* clang-format off */
/*
 * Matrices in UB are f32 in fractal column order ("NZ", as L0C delivers them): strip s holds columns
 * 16s..16s+15, row r of a strip is 64 bytes = two blocks.  Converting to f16 element by element gives
 * the NZ order that L1 wants, so nothing is ever transposed or shuffled by the vector unit.
 *
 * A per-row factor is kept "expanded": one block of 8 equal lanes per row.  The 310P cannot broadcast
 * lanes to blocks, but vcgadd can: reading one block eight times (block stride 0) under a mask that
 * selects one lane of each block, it writes eight equal sums of a single term.
 *
 * Events (id in brackets).  P = primed once at the start and drained at the end.
 *   M    -> V       [L0C slot]    product finished: l0c_to_ub may copy
 *   V    -> M     P [L0C slot]    copied: mad_to_slot may overwrite
 *   MTE1 -> M       [L0 slot]     operands loaded
 *   M    -> MTE1  P [L0 slot]     operands consumed
 *   MTE2 -> MTE1    [input slot]  q, k in L1
 *   MTE1 -> MTE2  P [input slot]  q, k consumed; and v, beta, g too, because the last product of a
 *                                 chunk needs them: there is no V -> MTE2 event for those
 *   MTE2 -> V       [input slot]  v, beta, g in UB        [2] initial state in UB
 *   V    -> MTE2    [2]           X and Y may receive the initial state
 *   V    -> MTE3    [0] HI filled [1] LO filled           [2] zeros made, or f32 state final
 *   MTE3 -> V     P [0] HI sent   [1] LO sent             [2] f32 state sent (not primed)
 *   MTE3 -> MTE1    [0] P, T, residual  [1] v'  [2] v''  [3] state  [4 + input slot] zero rows of q, k
 *   MTE3 -> MTE2  P [0]           zero rows and passed-through states written
 *   MTE2 -> MTE3    [0]           state to pass through is in UB
 *
 * Tiles that the vector unit produces need no MTE1 -> MTE3 event: the values of the next chunk come out
 * of a product that M starts after the last product that read the old tile, and M has waited for those
 * loads.  The input tiles come from GM and have no such path: MTE1 -> MTE2 is what orders them.
 *
 * Some events are implied by others at single call sites.  They stay because the function that issues
 * them is shared with call sites that need them, and a special case would be one more thing to keep right:
 *   V -> M     before T r and the first half of k^T v'': their operands were computed from what was copied
 *              out of the slot
 *   M -> V     before the copy of q S: T r, already copied, is a later product
 *   MTE3 -> V  before v' is staged: it came out of a product of what was staged before; and after v'' is:
 *              LO is next filled from what k^T v'' gives
 *   the waits at the end of the kernel: nothing races there, but the next launch would find the flags set
 * And some could stand one instruction further without harm:
 *   MTE3 -> MTE1 [1] [2] [3] guard the B tile of a product whose A tile is loaded first; they stand before
 *              the product so that mad_to_slot need not know where its operands come from
 *   MTE1 -> MTE2 is set after the last product of a chunk, whose very last load reads v'' and not k
 *   MTE3 -> MTE2 is drained where the zero rows end, one load before UB is written again, so that the
 *              prologue balances its own flags
 */
/* clang-format on */
#ifndef REDELTA_NPU_CHUNK_GATED_DELTA_RULE_MOVES_H
#define REDELTA_NPU_CHUNK_GATED_DELTA_RULE_MOVES_H

#include "chunk_gated_delta_rule.h"

#include <redelta/npu_intrinsics.h>

#define CG_CHUNK 64u

/* UB, bytes.  Sizes are those of K = V = 128; smaller problems use the front of each part. */
enum {
  UB_S = 0,          /* state f32 [K,V], 64 KiB, kept over all chunks of a head */
  UB_X = 64 << 10,   /* landing zones f32 [64,128], 32 KiB each; X and Y are adjacent: together */
  UB_Y = 96 << 10,   /* they take the initial state */
  UB_A = 128 << 10,  /* k k^T, then A, f32 [64,64] */
  UB_D = 144 << 10,  /* decays, then P */
  UB_T = 160 << 10,  /* inverse of I + A */
  UB_V = 176 << 10,  /* v f16 [64,128], two input slots of 16 KiB */
  UB_HI = 208 << 10, /* staging to L1 and GM, f16, 16 KiB each */
  UB_LO = 224 << 10,
  UB_G = 240 << 10,        /* cumulative log decay, expanded: 64 blocks = 2 KiB */
  UB_EG = UB_G + 2048,     /* e^G, expanded */
  UB_EL = UB_EG + 2048,    /* e^(G_last - G), expanded */
  UB_BETA = UB_EL + 2048,  /* beta, expanded */
  UB_COL = UB_BETA + 2048, /* one column of A, expanded */
  UB_TJ = UB_COL + 2048,   /* one row of T, negated */
  UB_G0 = UB_TJ + 256,     /* clamped log decay, one lane per row */
  UB_GROW = UB_G0 + 256,   /* G, one lane per row */
  UB_BROW = UB_GROW + 256, /* beta f32, one lane per row */
  UB_GIN = UB_BROW + 256,  /* g f32, two input slots */
  UB_BIN = UB_GIN + 512,   /* beta f16, two input slots */
  UB_ZERO = UB_BIN + 256,  /* 15 rows of one strip */
  UB_END = UB_ZERO + 512
};

/* L1, bytes: f16 tiles in NZ order.  HI + LO of a pair add up to the f32 value within 2^-22. */
enum {
  L1_K = 0,          /* two input slots of 16 KiB */
  L1_Q = 32 << 10,   /* two input slots */
  L1_SHI = 64 << 10, /* [128,128] */
  L1_SLO = 96 << 10,
  L1_PHI = 128 << 10, /* [64,64] */
  L1_PLO = 136 << 10,
  L1_THI = 144 << 10, /* [64,64] */
  L1_TLO = 152 << 10,
  L1_RHI = 160 << 10, /* residual [64,128] */
  L1_RLO = 176 << 10,
  L1_UHI = 192 << 10, /* v' */
  L1_ULO = 208 << 10,
  L1_WHI = 224 << 10, /* v'' */
  L1_WLO = 240 << 10
};
#define CG_INPUT_SLOT (16u << 10)
#define CG_L0A_SLOT   (16u << 10)
#define CG_L0B_SLOT   (32u << 10)
#define CG_L0C_SLOT   (64u << 10)

/* What one core knows while it works. */
typedef struct rdn_cg {
  const rdn_cg_args *a;
  uint32_t ring; /* L0C slot of the next product */
  uint32_t l0;   /* L0A/L0B slot of the next operand pair */
  uint32_t slot; /* input slot of the current chunk */
  uint32_t rows; /* tokens of the current chunk, 1..64 */
  uint32_t pad;  /* rows rounded up to 16 */
} rdn_cg;

/* One product term: L1 tiles; *_t = the tile holds the transposed operand. */
typedef struct rdn_cg_term {
  uint64_t a;
  uint64_t b;
  bool a_t, b_t;
} rdn_cg_term;

typedef void rdn_cg_vec3(RD_NPU_VEC3);
typedef void rdn_cg_vconv(RD_NPU_VCONV);

/* C[m,n] = sum of a[m,k] b[k,n] over the terms, into the next slot of the ring; returns the slot.
 */
uint32_t rdn_cg_mad_to_slot(rd_npu_core *c, rd_npu_site site, rdn_cg *w, uint32_t m, uint32_t k,
                            uint32_t n, const rdn_cg_term *terms, uint32_t count);
#define mad_to_slot(...) rdn_cg_mad_to_slot(c, RD_SITE, __VA_ARGS__)

/* The only way from L0C to UB: m x n f32 of a slot to `ub`. */
void rdn_cg_l0c_to_ub(rd_npu_core *c, rd_npu_site site, uint32_t slot, uint32_t ub, uint32_t m,
                      uint32_t n);
#define l0c_to_ub(...) rdn_cg_l0c_to_ub(c, RD_SITE, __VA_ARGS__)

/* f32 at src (n <= 8192 elements, a multiple of 64) as f16 pair hi + lo to the L1 tiles; tmp: n f32
 * of scratch. */
void rdn_cg_split_to_l1(rd_npu_core *c, rd_npu_site site, uint32_t src, uint32_t tmp, uint32_t n,
                        uint32_t l1_hi, uint32_t l1_lo);
#define split_to_l1(...) rdn_cg_split_to_l1(c, RD_SITE, __VA_ARGS__)

/* f32 NZ [pad, 16*strips] at src, first `rows` rows, as f16 to row-major GM with `ld` blocks per
 * row. */
void rdn_cg_store_f16(rd_npu_core *c, rd_npu_site site, uint64_t gm, uint32_t src, uint32_t rows,
                      uint32_t pad, uint32_t strips, uint32_t ld);
#define store_f16(...) rdn_cg_store_f16(c, RD_SITE, __VA_ARGS__)

/* n f32 (a multiple of 64), element by element. */
void rdn_cg_flat(rd_npu_core *c, rd_npu_site site, rdn_cg_vec3 *op, uint32_t dst, uint32_t s0,
                 uint32_t s1, uint32_t n);
#define flat(...) rdn_cg_flat(c, RD_SITE, __VA_ARGS__)

void rdn_cg_fill(rd_npu_core *c, rd_npu_site site, uint32_t dst, float x, uint32_t n);
#define fill(...) rdn_cg_fill(c, RD_SITE, __VA_ARGS__)

void rdn_cg_widen(rd_npu_core *c, rd_npu_site site, uint32_t dst, uint32_t src, uint32_t n);
#define widen(...) rdn_cg_widen(c, RD_SITE, __VA_ARGS__)

/* x[r][:] *= factor[r] for NZ x [pad, 16*strips] and an expanded factor. */
void rdn_cg_scale_rows(rd_npu_core *c, rd_npu_site site, uint32_t x, uint32_t factor, uint32_t pad,
                       uint32_t strips);
#define scale_rows(...) rdn_cg_scale_rows(c, RD_SITE, __VA_ARGS__)

#endif
