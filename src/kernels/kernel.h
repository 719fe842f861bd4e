/* The contract between the core and the kernels. Everything a kernel may assume is written here; the
 * core guarantees it, the harness (test/kernels) breaks it on purpose. The arithmetic is that of
 * docs/NUMERICS.md and nothing else: a kernel of any instruction set returns the bits of src/ref/c1.c.
 * It is called in the FP environment of cpu/fpenv.h and leaves its modes as they were.
 *
 * Kp = K rounded up to a multiple of 16. Operand rows (k, a, kt, qt) are Kp long, 64-byte aligned,
 * with +0 in [K, Kp). A kernel touches a state row at [0, K) only.
 *
 * States. A row block of a state is R rows of K floats, stride apart: in the caller's memory when that
 * is how it lies (no copy), else in scratch.
 */
#ifndef RDI_KERNELS_KERNEL_H
#define RDI_KERNELS_KERNEL_H

#include "kernels/fast.h"
#include "redelta/core.h"

enum { RDI_TOKENS = 16, RDI_MAX_DIM = 512 };

/* ---- rows: the recurrence of one row block over n <= RDI_TOKENS tokens ---------------------------
 * for t in 0..n-1, for each row r:
 *   yk = dot(S[r], kt[t])   yq = dot(S[r], qt[t])
 *   u[t][r] = beta[t] * (v[t][r] - yk)
 *   S[r][c] = fma(u, k[t][c], a[t][c] * S[r][c])      c < K
 *   o[t][r] = fma(u, kq[t], yq)
 * s_in is read at token 0; s_out == s_in: in place; s_out == NULL: the state after the last token is
 * not wanted (verify) and the last update may be skipped; otherwise s_out receives it and s_in is
 * never written. n >= 1, R >= 1. `scratch` has rows_scratch(R, K) floats, 64-byte aligned. */
typedef struct rdi_rows_args {
  int64_t R, K, Kp, n;
  const float *s_in;
  float *s_out;
  int64_t in_stride, out_stride; /* floats between rows */
  const float *k, *a, *kt, *qt;  /* [n][Kp] */
  const float *kq, *beta;        /* [n] */
  const float *v;                /* [n] rows of R floats, v_stride apart */
  float *u, *o;                  /* same; o may be NULL (outputs not wanted) */
  int64_t v_stride, u_stride, o_stride;
  float *scratch;
  const float *next; /* state of the next work item to prefetch, or NULL */
} rdi_rows_args;

/* ---- commit: m updates of one row block, s_in may equal s_out ------------------------------------
 *   S[r][c] = fma(u[i][r], k[i][c], a[i][c] * S[r][c])   i = 0..m-1 in order, m >= 1 (any size)
 * a == NULL: a = 1 (no multiplication takes place; 1*x == x, so the bits agree with the formula). */
typedef struct rdi_commit_args {
  int64_t R, K, Kp, m;
  const float *s_in;
  float *s_out;
  int64_t in_stride, out_stride;
  const float *k, *a; /* [m][Kp] */
  const float *u;     /* [m] rows of R floats */
  int64_t u_stride;
  const float *next;
} rdi_commit_args;

/* ---- lanes and lanes_commit: the same two on a block that lies key by key, [K][R] --------------------
 * Strides are between keys, s_in and s_out point at value 0 of key 0; a kernel touches values [0, R) only.
 * `scratch` has lanes_scratch(R, K) floats; `next` is a state of the same form and stride. An instruction
 * set has both or none: the core then transposes.
 * turn: dst[j][i] = src[i][j], i < n, j < m; comes with lanes, for what still wants rows. */

/* ---- project: y = W x in the order W1 (docs/NUMERICS.md), bf16 operands, M rows, N outputs ------------
 * Kp = K rounded up to a multiple of 32. w is packed: for every 16 outputs, for every 32 k, 16 pairs
 * (k = 2i, 2i+1) of each of the 16 outputs, +0 where there is no output or no k; 64-byte aligned.
 * A row of x has Kp elements, +0 in [K, Kp), any alignment of the element. y is touched at outputs
 * [0, N) only. M >= 1, N >= 1, Kp >= 32. A result depends on its row of x and its row of W alone. */
typedef struct rdi_project_args {
  int64_t M, N, Kp;
  const uint16_t *x, *w;
  float *y;
  int64_t x_stride, y_stride; /* elements between rows */
} rdi_project_args;

/* ---- prep: operands of n <= RDI_TOKENS tokens of one value head ----------------------------------
 * From q, k, g, beta as the caller stores them to k, a, kt, qt, kq, beta (C1 "per token"). Scalars are
 * already f32: scale, eps, lb, beta_times; A_log and eA = exp_c(min(A_log, 88)) of the head. */
typedef struct rdi_prep_args {
  int64_t n, K, Kp;
  const void *q, *k;
  int64_t q_stride, k_stride; /* elements between tokens */
  rd_dtype qk_dtype;
  int32_t l2norm;
  float eps, scale;
  rd_gate gate;
  rd_gate_axis axis;
  const void *g;
  int64_t g_stride;
  rd_dtype g_dtype;
  float lb, A_log, eA;
  const float *dt; /* K floats, or 1 per head; contiguous */
  const void *beta;
  int64_t beta_stride;
  rd_dtype beta_dtype;
  rd_beta beta_kind;
  float beta_times;                       /* 1 or 2 */
  float *k_out, *a_out, *kt_out, *qt_out; /* [n][Kp] */
  float *kq_out, *beta_out;               /* [n] */
} rdi_prep_args;

/* ---- chunk: prefill of n <= 32 tokens of one head on AMX, with one gate per head and bf16 q and k --------
 * In raw form the norms, scale and decays are factors of rows, q and k exact operands of matrix products:
 *
 *   Y = K S, W = Q S           u[t] = beta (v - nk[t] d(0..t) Y[t] - sum_{s<t} nk[t] nk[s] d(s+1..t) k[t].k[s] u[s])
 *   o[t] = nq[t] (d(0..t) W[t] + sum_{s<=t} nk[s] d(s+1..t) q[t].k[s] u[s])       d(i..j) = a[i] .. a[j]
 *   S <- d(0..n-1) S + sum_s k[s]' nk[s] d(s+1..n-1) u[s]
 *
 * S and nk d u enter as sums of three truncated bf16 terms, so every product is exact. The state lies in
 * panels of 32 values as for `pairs`. Of `from`, what describes q, k, gate and beta is read, n <= 32.
 * Returns 0, with nothing written, when a decay is not in [0, 1]. */
struct rdi_chunk_args {
  rdi_prep_args from; /* K a multiple of 32 */
  int64_t n, R;
  float *panel;  /* [R / 32 rounded up][K][32] */
  const void *v; /* [n] rows of R elements */
  int64_t v_stride;
  rd_dtype v_dtype;
  void *o; /* the same */
  int64_t o_stride;
  rd_dtype o_dtype;
  float *scratch; /* chunk_scratch(K) floats, 64-byte aligned */
};

/* ---- widen/narrow: n contiguous elements between a 16-bit (or f32) type and f32; narrow rounds to
 * nearest even with subnormals, overflow to infinity; a NaN stays a (quiet) NaN. src, dst disjoint,
 * any alignment of the element. */

typedef void (*rdi_rows_fn)(const rdi_rows_args *);
typedef void (*rdi_commit_fn)(const rdi_commit_args *);
typedef void (*rdi_prep_fn)(const rdi_prep_args *);
typedef void (*rdi_widen_fn)(float *dst, const void *src, rd_dtype src_dtype, int64_t n);
typedef void (*rdi_narrow_fn)(void *dst, rd_dtype dst_dtype, const float *src, int64_t n);
typedef void (*rdi_project_fn)(const rdi_project_args *);
typedef void (*rdi_turn_fn)(float *dst, int64_t dst_stride, const float *src, int64_t src_stride,
                            int64_t n, int64_t m);
typedef int64_t (*rdi_scratch_fn)(int64_t R, int64_t K); /* floats */

/* What there are kernels for. Those from fold on serve FAST only, and need not have one. */
/* clang-format off */
#define RDI_SLOT_LIST(X)                                                                           \
  X(rows) X(commit) X(prep) X(widen) X(narrow) X(lanes) X(lanes_commit) X(project)                 \
  X(fold) X(pairs) X(spread) X(chunk)
/* clang-format on */
typedef enum rdi_slot {
#define RDI_SLOT_ID(name) RDI_SLOT_##name,
  RDI_SLOT_LIST(RDI_SLOT_ID)
#undef RDI_SLOT_ID
      RDI_ALL_SLOTS,
  RDI_SLOTS = RDI_SLOT_fold /* those of EXACT */
} rdi_slot;

/* The kernel that serves a slot; isa 0: none does. */
typedef struct rdi_serving {
  const char *name;
  uint32_t isa;
} rdi_serving;

/* What one context runs. Filled scalar first, then overridden per instruction set in rising order by
 * those entries whose ISA is usable and allowed: one line per kernel in registry.def. */
typedef struct rdi_kernels {
  rdi_rows_fn rows;
  rdi_scratch_fn rows_scratch;
  rdi_commit_fn commit;
  rdi_prep_fn prep;
  rdi_widen_fn widen;
  rdi_narrow_fn narrow;
  rdi_rows_fn lanes; /* NULL: none, and no lanes_commit either */
  rdi_scratch_fn lanes_scratch;
  rdi_turn_fn turn;
  rdi_commit_fn lanes_commit;
  rdi_project_fn project;
  rdi_fast_kernels fast;
  rdi_serving serving[RDI_ALL_SLOTS];
} rdi_kernels;

/* isa_mask: rd_isa bits, already intersected with the usable ones; RD_ISA_SCALAR must be reachable:
 * the scalar kernels serve every slot that nothing else does. RD_ISA_SOFT (registry.h) alone: the
 * kernels that flush subnormals in software. */
void rdi_kernels_select(rdi_kernels *out, uint32_t isa_mask);

#endif
