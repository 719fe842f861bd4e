/* The kernels of FAST (docs/NUMERICS.md): prefill and verify without the decay in the inner loops.
 *
 * Within a block of at most 16 tokens the state is kept undecayed, relative to the block's start. With
 * P[t] = a[0] a[1] .. a[t] (per key), S[t] = Z[t] diag(P[t]), the recurrence loses its decay:
 *
 *   u = beta (v - Z kf)   Z <- Z + u kh'   o = Z qf        kf = k P   qf = q P   kh = k / P
 *
 * All factors stay within e^40 as long as P stays in [e^-40, 1]; the core runs EXACT where it leaves.
 * Unlike the other kernels these promise no common bits across instruction sets, only the accuracy
 * and the invariances of docs/NUMERICS.md, whose block of 32 tokens is one chunk here or two such blocks.
 * There is no scalar form: without them FAST runs EXACT. */
#ifndef RDI_KERNELS_FAST_H
#define RDI_KERNELS_FAST_H

#include "redelta/core.h"

#define RDI_FAST_LOW 0x1.397924p-58f /* e^-40 */

enum {
  RDI_FAST_TOKENS = 64, /* longest FAST verify */
  RDI_FAST_BLOCK = 32   /* prefill may be split at multiples of it, with the same bits */
};

/* ---- fold: the operands of n <= 16 tokens, from those of EXACT ------------------------------------
 * Returns how many leading tokens keep P inside [RDI_FAST_LOW, 1] for every key; the rows of those are
 * right whatever comes after them. */
typedef struct rdi_fold_args {
  int64_t n, K, Kp;
  int head;                     /* a is the same for all keys */
  int whole;                    /* only n itself is of use: return 0 when it is less */
  const float *k, *a, *kt, *qt; /* [n][Kp], as in rdi_rows_args */
  float *P;                     /* [Kp]: before the first token, after the last; pads 1 */
  float *kh, *kf, *qf;          /* [n][Kp], pads +0 */
  float *ck, *cq;               /* [n]: kh[t-1].kf[t], kh[t-1].qf[t] of odd t; NULL: not wanted */
} rdi_fold_args;

/* ---- pairs: prefill of one panel, two tokens per pass over it -------------------------------------
 * A panel is [K][rdi_fast_kernels.panel] floats, values along the lanes, pads +0. In: the state before
 * the block; out: after it, decayed by `end`. */
typedef struct rdi_pairs_args {
  int64_t R, K, Kp, n; /* R <= panel */
  float *panel;
  const float *kh, *kf, *qf; /* [n][Kp] */
  const float *end;          /* [Kp]: P after the last token */
  const float *kq, *beta, *ck, *cq;
  const float *v;
  float *o;
  int64_t v_stride, o_stride;
} rdi_pairs_args;

/* ---- spread: verify of n <= 16 tokens that follow `past` others since the checkpoint --------------
 * S broadcast against lanes of tokens, then forward substitution. s is read only. u has past + n rows:
 * those of the past are read, the others written. */
typedef struct rdi_spread_args {
  int64_t R, K, Kp, n, past;
  const float *s; /* native */
  int64_t s_stride;
  const float *kh;       /* [past + n][Kp] */
  const float *kf, *qf;  /* [n][Kp] */
  const float *beta, *v; /* of the n tokens */
  float *u, *o;
  int64_t v_stride, u_stride, o_stride;
  float *scratch;
  const float *next;
} rdi_spread_args;

typedef struct rdi_chunk_args rdi_chunk_args; /* chunk: kernel.h */

typedef int64_t (*rdi_fold_fn)(const rdi_fold_args *);
typedef void (*rdi_pairs_fn)(const rdi_pairs_args *);
typedef void (*rdi_panel_fn)(float *panel, const float *s, int64_t stride, int64_t R, int64_t K);
typedef void (*rdi_unpanel_fn)(float *s, int64_t stride, const float *panel, int64_t R, int64_t K);
typedef void (*rdi_spread_fn)(const rdi_spread_args *);
typedef int64_t (*rdi_spread_scratch_fn)(int64_t K); /* floats */

typedef int (*rdi_chunk_fn)(const rdi_chunk_args *);
typedef int64_t (*rdi_chunk_scratch_fn)(int64_t K); /* floats */

typedef struct rdi_fast_kernels { /* pairs NULL: FAST runs EXACT */
  rdi_fold_fn fold;
  rdi_pairs_fn pairs;
  int64_t panel;
  rdi_panel_fn to_panel;
  rdi_unpanel_fn from_panel;
  rdi_spread_fn spread;
  rdi_spread_scratch_fn spread_scratch;
  rdi_chunk_fn chunk; /* NULL: `pairs` does it all */
  rdi_chunk_scratch_fn chunk_scratch;
} rdi_fast_kernels;

/* Whether prefill goes to `chunk`: the problem says so, never its data. q, k and v have one type. */
static inline int rdi_has_chunks(const rdi_fast_kernels *f, int32_t gate, int32_t axis,
                                 int32_t dtype, int64_t K) {
  return f->chunk && (axis == RD_PER_HEAD || gate == RD_GATE_NONE) && gate != RD_GATE_DECAY &&
         dtype == RD_BF16 && K % 32 == 0;
}

#endif
