/* spread: FAST verify, AVX-512. 16 rows of S x 8 tokens: one lane for each token's kf, one for its qf,
 * an element of S broadcast to all of them; then 16 values along the lanes and forward substitution. */
#include "kernels/avx512/transpose.h"
#include "kernels/fast.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

enum { GROUP = 8, ROWS = 16 };

/* Scratch: lanes of the group's operands [Kp][16], products of every kh with them [64 + 16][16]. */
int64_t rdi_spread_scratch_avx512_16x16(int64_t K) {
  return (K + 15) / 16 * 16 * 16 + (RDI_FAST_TOKENS + 16) * 16;
}

/* lanes[c]: kf of the m tokens, then qf, 0 where there is no token. */
static void lanes_of(const rdi_spread_args *g, int64_t t, int64_t m, float *lanes) {
  for (int64_t c = 0; c < g->Kp; c += 16) {
    __m512 x[16];
    RDI_UNROLL
    for (int i = 0; i < GROUP; i++) {
      const int64_t at = (t + i) * g->Kp + c;
      x[i] = i < m ? _mm512_load_ps(g->kf + at) : _mm512_setzero_ps();
      x[GROUP + i] = i < m ? _mm512_load_ps(g->qf + at) : _mm512_setzero_ps();
    }
    rdi_transpose16(x);
    RDI_UNROLL
    for (int i = 0; i < 16; i++) _mm512_store_ps(lanes + (c + i) * 16, x[i]);
  }
}

/* out[r] = sum over keys of s[r][c] lanes[c], one chain per row. ahead: what to bring near meanwhile. */
RDI_INLINE void products(const float *s, int64_t stride, int rows, int64_t K, const float *lanes,
                         const char *ahead, __m512 out[ROWS]) {
  __m512 y[ROWS];
  RDI_UNROLL
  for (int r = 0; r < rows; r++) y[r] = _mm512_setzero_ps();
  int64_t c = 0;
  for (; c + 4 <= K; c += 4) {
    RDI_UNROLL
    for (int j = 0; j < 4; j++) {
      const __m512 x = _mm512_load_ps(lanes + (c + j) * 16);
      _mm_prefetch(ahead + (c + j) * 64, _MM_HINT_T0);
      RDI_UNROLL
      for (int r = 0; r < rows; r++)
        y[r] = _mm512_fmadd_ps(x, _mm512_set1_ps(s[r * stride + c + j]), y[r]);
    }
  }
  for (; c < K; c++) {
    const __m512 x = _mm512_load_ps(lanes + c * 16);
    RDI_UNROLL
    for (int r = 0; r < rows; r++) y[r] = _mm512_fmadd_ps(x, _mm512_set1_ps(s[r * stride + c]), y[r]);
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) out[r] = y[r];
}

static __attribute__((noinline)) void sixteen(const float *s, int64_t stride, int64_t K,
                                              const float *lanes, const char *ahead, __m512 y[ROWS]) {
  products(s, stride, ROWS, K, lanes, ahead, y);
}

/* Any number of rows up to 16; the others become 0. */
static void some(const float *s, int64_t stride, int64_t rows, int64_t K, const float *lanes,
                 __m512 y[ROWS]) {
  int64_t r = 0;
  for (int i = 0; i < ROWS; i++) y[i] = _mm512_setzero_ps();
  for (; r + GROUP <= rows; r += GROUP) products(s + r * stride, stride, GROUP, K, lanes, (const char *)s, y + r);
  for (; r < rows; r++) products(s + r * stride, stride, 1, K, lanes, (const char *)s, y + r);
}

/* dots[i][0..15]: kh[i] with the lanes, i < count. */
static void dots_of(const rdi_spread_args *g, int64_t count, const float *lanes, float *dots) {
  for (int64_t i = 0; i < count; i += ROWS) {
    __m512 y[ROWS];
    const int64_t rows = count - i < ROWS ? count - i : ROWS;
    some(g->kh + i * g->Kp, g->Kp, rows, g->K, lanes, y);
    for (int64_t r = 0; r < rows; r++) _mm512_store_ps(dots + (i + r) * 16, y[r]);
  }
}

/* Tokens t .. t+m of one block of rows; x: lane sums, token by token. */
RDI_INLINE void substitute(const rdi_spread_args *g, int64_t t, int64_t m, int64_t row, int64_t rows,
                           const float *dots, __m512 x[16]) {
  const __mmask16 mask = rdi_lanes(rows);
  const int64_t before = g->past + t;
  float *u = g->u + row;
  for (int64_t s = 0; s < before; s++) {
    const __m512 us = _mm512_maskz_loadu_ps(mask, u + s * g->u_stride);
    RDI_UNROLL
    for (int i = 0; i < 16; i++) x[i] = _mm512_fmadd_ps(us, _mm512_set1_ps(dots[s * 16 + i]), x[i]);
  }
  const float *d = dots + before * 16;
  RDI_UNROLL
  for (int i = 0; i < GROUP; i++) {
    if (i >= m) break;
    const __m512 v = _mm512_maskz_loadu_ps(mask, g->v + (t + i) * g->v_stride + row);
    const __m512 ui = _mm512_mul_ps(_mm512_set1_ps(g->beta[t + i]), _mm512_sub_ps(v, x[i]));
    _mm512_mask_storeu_ps(u + (before + i) * g->u_stride, mask, ui);
    const __m512 o = _mm512_fmadd_ps(ui, _mm512_set1_ps(d[i * 16 + GROUP + i]), x[GROUP + i]);
    _mm512_mask_storeu_ps(g->o + (t + i) * g->o_stride + row, mask, o);
    RDI_UNROLL
    for (int j = i + 1; j < GROUP; j++) {
      x[j] = _mm512_fmadd_ps(ui, _mm512_set1_ps(d[i * 16 + j]), x[j]);
      x[GROUP + j] = _mm512_fmadd_ps(ui, _mm512_set1_ps(d[i * 16 + GROUP + j]), x[GROUP + j]);
    }
  }
}

static void run_rows(const rdi_spread_args *g, int64_t t, int64_t m, const float *lanes,
                     const float *dots) {
  for (int64_t row = 0; row < g->R; row += ROWS) {
    __m512 x[16];
    const float *s = g->s + row * g->s_stride;
    const int64_t rows = g->R - row < ROWS ? g->R - row : ROWS;
    const float *ahead = row + ROWS < g->R ? s + ROWS * g->s_stride : g->next;
    if (rows == ROWS) sixteen(s, g->s_stride, g->K, lanes, (const char *)(t || !ahead ? s : ahead), x);
    else some(s, g->s_stride, rows, g->K, lanes, x);
    rdi_transpose16(x);
    substitute(g, t, m, row, rows, dots, x);
  }
}

void rdi_spread_avx512_16x16(const rdi_spread_args *g) {
  float *lanes = g->scratch, *dots = lanes + g->Kp * 16;
  for (int64_t t = 0; t < g->n; t += GROUP) {
    const int64_t m = g->n - t < GROUP ? g->n - t : GROUP;
    lanes_of(g, t, m, lanes);
    dots_of(g, g->past + t + m, lanes, dots);
    run_rows(g, t, m, lanes, dots);
  }
}
