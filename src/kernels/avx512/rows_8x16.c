/* rows: u = beta (v - S kt), S <- S diag(a) + u k', o = S qt + u kq over <= 16 tokens, AVX-512.
 * Native tile. 8 value rows x 16 keys per step: one load of S serves the update of the previous token
 * and the dot products of this one, 16 accumulators + 8 u + 6 = 30 registers. */
#include "kernels/avx512/tree.h"
#include "kernels/registry.h"
#include "kernels/rows_blocks.h"

enum { DOTS = 1, UPDATE = 2, STORE = 4 };

typedef __m512 rdi_sums;

RDI_INLINE __m512 load(const char *p, __mmask16 m) {
  return m == 0xffff ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
}

RDI_INLINE void store(char *p, __mmask16 m, __m512 x) {
  if (m == 0xffff)
    _mm512_storeu_ps(p, x);
  else
    _mm512_mask_storeu_ps(p, m, x);
}

/* 16 keys of 8 rows. p, now: operand rows of the previous token and of this one, at this column. */
RDI_INLINE void column(int kind, __mmask16 m, const char *in, char *out, int64_t stride, operands p,
                       operands now, const __m512 u[8], __m512 yk[8], __m512 yq[8]) {
  __m512 k = {0}, a = {0}, kt = {0}, qt = {0};
  if (kind & UPDATE) k = _mm512_load_ps(p.k), a = _mm512_load_ps(p.a);
  if (kind & DOTS) kt = _mm512_load_ps(now.kt), qt = _mm512_load_ps(now.qt);
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) {
    __m512 s = load(in + r * stride, m);
    if (kind & UPDATE) { /* pads stay +0: an infinite u times their zero k would be NaN */
      const __m512 x = _mm512_mul_ps(a, s);
      s = m == 0xffff ? _mm512_fmadd_ps(u[r], k, x) : _mm512_maskz_fmadd_ps(m, u[r], k, x);
    }
    if (kind & STORE) store(out + r * stride, m, s);
    if (kind & DOTS) {
      __asm__("" : "+v"(s)); /* one load: without this gcc folds it into both fmas */
      yk[r] = _mm512_fmadd_ps(s, kt, yk[r]);
      yq[r] = _mm512_fmadd_ps(s, qt, yq[r]);
    }
  }
}

/* One block, one token: returns 8 yk and 8 yq. The sums start at -0, which an fma adds without a
 * trace: the first product enters as it is. */
RDI_INLINE __m512 pass(int kind, const char *in, char *out, int64_t stride, operands p,
                       operands now, const float *u, int64_t K) {
  __m512 yk[ROWS], yq[ROWS], ub[ROWS];
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) {
    yk[r] = yq[r] = _mm512_set1_ps(-0.0f);
    ub[r] = kind & UPDATE ? _mm512_set1_ps(u[r]) : _mm512_setzero_ps();
  }
  int64_t c = 0;
  /* What a kind does not touch is NULL, and no place is computed from it. */
#define COLUMN(m)                                                                                  \
  column(kind, m, in + 4 * c, kind & STORE ? out + 4 * c : out, stride,                            \
         kind & UPDATE ? at(p, c) : p, kind & DOTS ? at(now, c) : now, ub, yk, yq)
  for (; c + 16 <= K; c += 16) COLUMN(0xffff);
  if (c < K) COLUMN(rdi_lanes(K - c));
#undef COLUMN
  return kind & DOTS ? rdi_tree16(yk, yq) : _mm512_setzero_ps();
}

#define RDI_OUT static __attribute__((noinline))

RDI_OUT __m512 pass_dots(const char *in, int64_t stride, operands now, int64_t K) {
  return pass(DOTS, in, nowhere(in), stride, now, now, NULL, K);
}
RDI_OUT __m512 pass_all(const char *in, char *out, int64_t stride, operands p, operands now,
                        const float *u, int64_t K) {
  return pass(UPDATE | DOTS | STORE, in, out, stride, p, now, u, K);
}
RDI_OUT __m512 pass_last(const char *in, int64_t stride, operands p, operands now, const float *u,
                         int64_t K) {
  return pass(UPDATE | DOTS, in, nowhere(in), stride, p, now, u, K);
}
RDI_OUT void pass_update(const char *in, char *out, int64_t stride, operands p, const float *u,
                         int64_t K) {
  (void)pass(UPDATE | STORE, in, out, stride, p, p, u, K);
}

RDI_OUT __m512 pass_chain(const char *in, char *out, const char *dots_in, int64_t stride,
                          operands p, const float *u, int64_t K, const char *near,
                          const char *far) {
  __m512 yk[ROWS], yq[ROWS], ub[ROWS];
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) {
    yk[r] = yq[r] = _mm512_set1_ps(-0.0f);
    ub[r] = _mm512_set1_ps(u[r]);
  }
  int64_t c = 0;
  for (; c + 16 <= K; c += 16, near += ROWS * 64, far += ROWS * 64) {
    RDI_UNROLL
    for (int r = 0; r < ROWS; r++) {
      _mm_prefetch(near + r * 64, _MM_HINT_T0);
      _mm_prefetch(far + r * 64, _MM_HINT_T1);
    }
    column(DOTS, 0xffff, dots_in + 4 * c, NULL, stride, at(p, c), at(p, c), ub, yk, yq);
    column(UPDATE | STORE, 0xffff, in + 4 * c, out + 4 * c, stride, at(p, c), at(p, c), ub, yk, yq);
  }
  if (c < K) {
    __mmask16 m = rdi_lanes(K - c);
    column(DOTS, m, dots_in + 4 * c, NULL, stride, at(p, c), at(p, c), ub, yk, yq);
    column(UPDATE | STORE, m, in + 4 * c, out + 4 * c, stride, at(p, c), at(p, c), ub, yk, yq);
  }
  return rdi_tree16(yk, yq);
}

RDI_INLINE void finish(const rdi_rows_args *g, const block *b, int64_t t, __m512 y) {
  __m256 yk = _mm512_castps512_ps256(y), yq = _mm512_extractf32x8_ps(y, 1);
  const float *v_in = g->v + t * g->v_stride + b->row;
  float *u_out = g->u + t * g->u_stride + b->row,
        *o_out = g->o ? g->o + t * g->o_stride + b->row : NULL;
  const __mmask8 rows = (__mmask8)rdi_lanes(b->rows);
  const int full = b->rows == ROWS; /* masked stores are slow */
  __m256 v = full ? _mm256_loadu_ps(v_in) : _mm256_maskz_loadu_ps(rows, v_in);
  __m256 u = _mm256_mul_ps(_mm256_set1_ps(g->beta[t]), _mm256_sub_ps(v, yk));
  __m256 o = _mm256_fmadd_ps(u, _mm256_set1_ps(g->kq[t]), yq);
  _mm256_store_ps(b->u, u);
  if (full) {
    _mm256_storeu_ps(u_out, u);
    if (o_out) _mm256_storeu_ps(o_out, o);
  } else {
    _mm256_mask_storeu_ps(u_out, rows, u);
    if (o_out) _mm256_mask_storeu_ps(o_out, rows, o);
  }
}

RDI_INLINE void prefetch_far(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }

#define RDI_ROWS_BLOCKS_BODY
#include "kernels/rows_blocks.h"

int64_t rdi_rows_scratch_avx512_8x16(int64_t R, int64_t K) {
  (void)R;
  return rows_scratch(K);
}

void rdi_rows_avx512_8x16(const rdi_rows_args *g) { run_rows(g); }
