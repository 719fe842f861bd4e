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
      if (ahead) _mm_prefetch(ahead + (c + j) * 64, _MM_HINT_T0);
      RDI_UNROLL
      for (int r = 0; r < rows; r++)
        y[r] = _mm512_fmadd_ps(x, _mm512_set1_ps(s[r * stride + c + j]), y[r]);
    }
  }
  for (; c < K; c++) {
    const __m512 x = _mm512_load_ps(lanes + c * 16);
    RDI_UNROLL
    for (int r = 0; r < rows; r++)
      y[r] = _mm512_fmadd_ps(x, _mm512_set1_ps(s[r * stride + c]), y[r]);
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) out[r] = y[r];
}

static __attribute__((noinline)) void sixteen(const float *s, int64_t stride, int64_t K,
                                              const float *lanes, const char *ahead,
                                              __m512 y[ROWS]) {
  products(s, stride, ROWS, K, lanes, ahead, y);
}

/* Any number of rows up to 16; the others become 0. */
static void some(const float *s, int64_t stride, int64_t rows, int64_t K, const float *lanes,
                 __m512 y[ROWS]) {
  int64_t r = 0;
  for (int i = 0; i < ROWS; i++) y[i] = _mm512_setzero_ps();
  for (; r + GROUP <= rows; r += GROUP)
    products(s + r * stride, stride, GROUP, K, lanes, NULL, y + r);
  for (; r < rows; r++) products(s + r * stride, stride, 1, K, lanes, NULL, y + r);
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

RDI_INLINE __m512 rows_in(const float *p, __mmask16 m, int full) {
  return full ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
}

RDI_INLINE void rows_out(float *p, __mmask16 m, int full, __m512 x) {
  if (full)
    _mm512_storeu_ps(p, x);
  else
    _mm512_mask_storeu_ps(p, m, x);
}

/* Tokens t .. t+m of one block of rows; x: lane sums, token by token. */
RDI_INLINE void substitute(const rdi_spread_args *g, int64_t t, int64_t m, int64_t row,
                           __mmask16 mask, int full, const float *dots, __m512 x[16]) {
  const int64_t before = g->past + t;
  float *u = g->u + row;
  for (int64_t s = 0; s < before; s++) {
    const __m512 us = rows_in(u + s * g->u_stride, mask, full);
    RDI_UNROLL
    for (int i = 0; i < 16; i++) x[i] = _mm512_fmadd_ps(us, _mm512_set1_ps(dots[s * 16 + i]), x[i]);
  }
  const float *d = dots + before * 16;
  RDI_UNROLL
  for (int i = 0; i < GROUP; i++) {
    if (i >= m) break;
    const __m512 v = rows_in(g->v + (t + i) * g->v_stride + row, mask, full);
    const __m512 ui = _mm512_mul_ps(_mm512_set1_ps(g->beta[t + i]), _mm512_sub_ps(v, x[i]));
    rows_out(u + (before + i) * g->u_stride, mask, full, ui);
    const __m512 o = _mm512_fmadd_ps(ui, _mm512_set1_ps(d[i * 16 + GROUP + i]), x[GROUP + i]);
    rows_out(g->o + (t + i) * g->o_stride + row, mask, full, o);
    RDI_UNROLL
    for (int j = i + 1; j < GROUP; j++) {
      x[j] = _mm512_fmadd_ps(ui, _mm512_set1_ps(d[i * 16 + j]), x[j]);
      x[GROUP + j] = _mm512_fmadd_ps(ui, _mm512_set1_ps(d[i * 16 + GROUP + j]), x[GROUP + j]);
    }
  }
}

/* One step of a substitution of 8 tokens and 16 rows: token i from its sums in x and the u before it. */
RDI_INLINE void step(const rdi_spread_args *g, int64_t row, int i, const float *dots,
                     const float *x, __m512 u[GROUP]) {
  __m512 y = _mm512_load_ps(x + 16 * i), z = _mm512_load_ps(x + 16 * (GROUP + i));
  RDI_UNROLL
  for (int s = 0; s < i; s++) {
    y = _mm512_fmadd_ps(u[s], _mm512_set1_ps(dots[s * 16 + i]), y);
    z = _mm512_fmadd_ps(u[s], _mm512_set1_ps(dots[s * 16 + GROUP + i]), z);
  }
  const __m512 v = _mm512_loadu_ps(g->v + i * g->v_stride + row);
  u[i] = _mm512_mul_ps(_mm512_set1_ps(g->beta[i]), _mm512_sub_ps(v, y));
  z = _mm512_fmadd_ps(u[i], _mm512_set1_ps(dots[i * 16 + GROUP + i]), z);
  _mm512_storeu_ps(g->u + i * g->u_stride + row, u[i]);
  _mm512_storeu_ps(g->o + i * g->o_stride + row, z);
}

/* The usual case, 8 tokens after the checkpoint: between the products of one block of rows go the steps
 * of the block before, whose chain of dependences would else stand alone. `keys` = K / 8. The sums are
 * those of products() and the additions those of substitute(), in the same order. */
static __attribute__((noinline)) void eight_tokens(const rdi_spread_args *g, int64_t row,
                                                   int64_t keys, const float *lanes,
                                                   const float *dots, const char *ahead, float *x) {
  const float *s = g->s + row * g->s_stride;
  __m512 y[ROWS], u[GROUP];
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) y[r] = _mm512_setzero_ps();
  RDI_UNROLL
  for (int i = 0; i < GROUP; i++) u[i] = _mm512_setzero_ps();
  RDI_UNROLL
  for (int i = 0; i < GROUP; i++) {
    for (int64_t c = 0; c < keys; c += 4, s += 4, lanes += 64, ahead += 256) {
      RDI_UNROLL
      for (int j = 0; j < 4; j++) {
        const __m512 l = _mm512_load_ps(lanes + 16 * j);
        _mm_prefetch(ahead + 64 * j, _MM_HINT_T0);
        RDI_UNROLL
        for (int r = 0; r < ROWS; r++)
          y[r] = _mm512_fmadd_ps(l, _mm512_set1_ps(s[r * g->s_stride + j]), y[r]);
      }
    }
    if (row > 0) step(g, row - ROWS, i, dots, x, u);
  }
  rdi_transpose16(y);
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) _mm512_store_ps(x + 16 * r, y[r]);
}

static int64_t run_eight(const rdi_spread_args *g, const float *lanes, const float *dots) {
  _Alignas(64) float x[16 * ROWS];
  __m512 u[GROUP];
  int64_t row = 0;
  if (g->K % 32 != 0) return 0;
  for (; row + ROWS <= g->R; row += ROWS) {
    const float *after = g->s + (row + ROWS) * g->s_stride;
    if (row + 2 * ROWS > g->R) after = g->next ? g->next : g->s;
    eight_tokens(g, row, g->K / GROUP, lanes, dots, (const char *)after, x);
  }
  RDI_UNROLL
  for (int i = 0; i < GROUP; i++)
    if (row > 0) step(g, row - ROWS, i, dots, x, u);
  return row;
}

static void run_rows(const rdi_spread_args *g, int64_t t, int64_t m, const float *lanes,
                     const float *dots) {
  const int eight = t == 0 && m == GROUP && g->past == 0;
  for (int64_t row = eight ? run_eight(g, lanes, dots) : 0; row < g->R; row += ROWS) {
    __m512 x[16];
    const float *s = g->s + row * g->s_stride;
    const int64_t rows = g->R - row < ROWS ? g->R - row : ROWS;
    const float *ahead = row + ROWS < g->R ? s + ROWS * g->s_stride : g->next;
    if (rows == ROWS)
      sixteen(s, g->s_stride, g->K, lanes, (const char *)(t || !ahead ? s : ahead), x);
    else
      some(s, g->s_stride, rows, g->K, lanes, x);
    rdi_transpose16(x);
    if (rows == ROWS)
      substitute(g, t, m, row, 0xffff, 1, dots, x); /* masked stores are slow */
    else
      substitute(g, t, m, row, rdi_lanes(rows), 0, dots, x);
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
