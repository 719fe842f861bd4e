/* spread: FAST verify, AVX2 + FMA. Rows of S x 8 tokens: a register of kf and one of qf, an element of S
 * broadcast to both; then 8 values along the lanes and forward substitution. */
#include "kernels/avx2/transpose.h"
#include "kernels/avx2/tree.h"
#include "kernels/fast.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

enum {
  GROUP = 8,
  ROWS = 8,
  STEP = 4
}; /* STEP rows: 8 accumulators and 3 operands of 16 registers */

/* Scratch: lanes of the group's operands [Kp][kf(8) qf(8)], products of every kh with them. */
int64_t rdi_spread_scratch_avx2_8x8(int64_t K) {
  return (K + 15) / 16 * 16 * 16 + (RDI_FAST_TOKENS + 16) * 16;
}

/* lanes[c]: kf of the m tokens, then qf, 0 where there is no token. */
static void lanes_of(const rdi_spread_args *g, int64_t t, int64_t m, float *lanes) {
  for (int64_t c = 0; c < g->Kp; c += 8)
    for (int q = 0; q < 2; q++) {
      const float *from = (q ? g->qf : g->kf) + t * g->Kp + c;
      __m256 x[GROUP];
      RDI_UNROLL
      for (int i = 0; i < GROUP; i++)
        x[i] = i < m ? _mm256_load_ps(from + i * g->Kp) : _mm256_setzero_ps();
      rdi_transpose8(x);
      RDI_UNROLL
      for (int i = 0; i < GROUP; i++) _mm256_store_ps(lanes + (c + i) * 16 + 8 * q, x[i]);
    }
}

/* yk[r], yq[r] = sums over keys of s[r][c] lanes[c], one chain each. ahead: what to bring near. */
RDI_INLINE void products(const float *s, int64_t stride, int rows, int64_t K, const float *lanes,
                         const char *ahead, __m256 yk[ROWS], __m256 yq[ROWS]) {
  __m256 k[STEP], q[STEP];
  RDI_UNROLL
  for (int r = 0; r < rows; r++) k[r] = q[r] = _mm256_setzero_ps();
  for (int64_t c = 0; c < K; c++) {
    const __m256 x = _mm256_load_ps(lanes + c * 16), y = _mm256_load_ps(lanes + c * 16 + 8);
    if ((c & 1) == 0) _mm_prefetch(ahead + c * 32, _MM_HINT_T0);
    RDI_UNROLL
    for (int r = 0; r < rows; r++) {
      __m256 e = _mm256_broadcast_ss(s + r * stride + c);
      k[r] = _mm256_fmadd_ps(x, e, k[r]);
      q[r] = _mm256_fmadd_ps(y, e, q[r]);
    }
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) yk[r] = k[r], yq[r] = q[r];
}

static __attribute__((noinline)) void four(const float *s, int64_t stride, int64_t K,
                                           const float *lanes, const char *ahead, __m256 yk[ROWS],
                                           __m256 yq[ROWS]) {
  products(s, stride, STEP, K, lanes, ahead, yk, yq);
}

/* Any number of rows up to 8; the others become 0. ahead: rows to bring near, or the same ones. */
static void some(const float *s, int64_t stride, int64_t rows, int64_t K, const float *lanes,
                 const float *ahead, __m256 yk[ROWS], __m256 yq[ROWS]) {
  int64_t r = 0;
  for (int i = 0; i < ROWS; i++) yk[i] = yq[i] = _mm256_setzero_ps();
  for (; r + STEP <= rows; r += STEP)
    four(s + r * stride, stride, K, lanes, (const char *)(ahead + r * K), yk + r, yq + r);
  for (; r < rows; r++)
    products(s + r * stride, stride, 1, K, lanes, (const char *)(s + r * stride), yk + r, yq + r);
}

/* dots[i][0..15]: kh[i] with the lanes, i < count. */
static void dots_of(const rdi_spread_args *g, int64_t count, const float *lanes, float *dots) {
  for (int64_t i = 0; i < count; i += ROWS) {
    __m256 k[ROWS], q[ROWS];
    const int64_t rows = count - i < ROWS ? count - i : ROWS;
    const float *kh = g->kh + i * g->Kp;
    some(kh, g->Kp, rows, g->K, lanes, kh, k, q);
    for (int64_t r = 0; r < rows; r++) {
      _mm256_store_ps(dots + (i + r) * 16, k[r]);
      _mm256_store_ps(dots + (i + r) * 16 + 8, q[r]);
    }
  }
}

/* Tokens t .. t+m of one block of rows; x, z: lane sums of kf and qf, token by token. */
static void substitute(const rdi_spread_args *g, int64_t t, int64_t m, int64_t row, int64_t rows,
                       const float *dots, __m256 x[GROUP], __m256 z[GROUP]) {
  const __m256i mask = rdi_lanes(rows);
  const int64_t before = g->past + t;
  float *u = g->u + row;
  for (int64_t s = 0; s < before; s++) {
    const __m256 us = _mm256_maskload_ps(u + s * g->u_stride, mask);
    for (int i = 0; i < GROUP; i++) {
      x[i] = _mm256_fmadd_ps(us, _mm256_broadcast_ss(dots + s * 16 + i), x[i]);
      z[i] = _mm256_fmadd_ps(us, _mm256_broadcast_ss(dots + s * 16 + 8 + i), z[i]);
    }
  }
  const float *d = dots + before * 16;
  for (int64_t i = 0; i < m; i++) {
    const __m256 v = _mm256_maskload_ps(g->v + (t + i) * g->v_stride + row, mask);
    const __m256 ui = _mm256_mul_ps(_mm256_broadcast_ss(g->beta + t + i), _mm256_sub_ps(v, x[i]));
    _mm256_maskstore_ps(u + (before + i) * g->u_stride, mask, ui);
    for (int64_t j = i; j < m; j++) {
      x[j] = _mm256_fmadd_ps(ui, _mm256_broadcast_ss(d + i * 16 + j), x[j]);
      z[j] = _mm256_fmadd_ps(ui, _mm256_broadcast_ss(d + i * 16 + 8 + j), z[j]);
    }
    _mm256_maskstore_ps(g->o + (t + i) * g->o_stride + row, mask, z[i]);
  }
}

void rdi_spread_avx2_8x8(const rdi_spread_args *g) {
  float *lanes = g->scratch, *dots = lanes + g->Kp * 16;
  for (int64_t t = 0; t < g->n; t += GROUP) {
    const int64_t m = g->n - t < GROUP ? g->n - t : GROUP;
    lanes_of(g, t, m, lanes);
    dots_of(g, g->past + t + m, lanes, dots);
    for (int64_t row = 0; row < g->R; row += ROWS) {
      __m256 k[ROWS], q[ROWS];
      const float *s = g->s + row * g->s_stride;
      const int64_t rows = g->R - row < ROWS ? g->R - row : ROWS;
      const float *ahead = row + ROWS < g->R ? s + ROWS * g->s_stride : g->next ? g->next : s;
      some(s, g->s_stride, rows, g->K, lanes, t ? s : ahead, k, q);
      rdi_transpose8(k);
      rdi_transpose8(q);
      substitute(g, t, m, row, rows, dots, k, q);
    }
  }
}
