/* spread: FAST verify, NEON. Rows of S x 8 tokens: two registers of kf and two of qf, an element of S
 * broadcast to them; then 4 values along the lanes and forward substitution. */
#include "kernels/neon/column.h"

#include "kernels/fast.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

enum { GROUP = 8, ROWS = 4, SUMS = 2 * GROUP };

/* Scratch: operands of the group [Kp][kf(8) qf(8)], products of every kh with them. */
int64_t rdi_spread_scratch_neon_4x8(int64_t K) {
  return (K + 15) / 16 * 16 * SUMS + (RDI_FAST_TOKENS + 16) * SUMS;
}

static void lanes_of(const rdi_spread_args *g, int64_t t, int64_t m, float *lanes) {
  for (int64_t c = 0; c < g->Kp; c++)
    for (int64_t i = 0; i < GROUP; i++) {
      lanes[c * SUMS + i] = i < m ? g->kf[(t + i) * g->Kp + c] : 0.0f;
      lanes[c * SUMS + GROUP + i] = i < m ? g->qf[(t + i) * g->Kp + c] : 0.0f;
    }
}

/* out[r][0..15] = sum over keys of s[r][c] lanes[c], one chain each. */
RDI_INLINE void products(const float *s, int64_t stride, int rows, int64_t K, const float *lanes,
                         float *out) {
  rdi_col y[ROWS];
  RDI_UNROLL
  for (int r = 0; r < rows; r++) y[r] = c_set(0.0f);
  for (int64_t c = 0; c < K; c++) {
    const rdi_col x = c_load(lanes + c * SUMS);
    RDI_UNROLL
    for (int r = 0; r < rows; r++) y[r] = c_fma(x, c_set(s[r * stride + c]), y[r]);
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) c_store(out + r * SUMS, y[r]);
}

static void some(const float *s, int64_t stride, int64_t rows, int64_t K, const float *lanes,
                 float *out) {
  if (rows == ROWS)
    products(s, stride, ROWS, K, lanes, out);
  else
    for (int64_t r = 0; r < rows; r++)
      products(s + r * stride, stride, 1, K, lanes, out + r * SUMS);
}

/* Tokens t .. t+m of up to four rows, whose sums are in y. */
static void substitute(const rdi_spread_args *g, int64_t t, int64_t m, int64_t row, int64_t rows,
                       const float *dots, const float *y) {
  const int64_t before = g->past + t;
  float32x4_t x[SUMS];
  for (int i = 0; i < SUMS; i++)
    x[i] = (float32x4_t){y[i], y[SUMS + i], y[2 * SUMS + i], y[3 * SUMS + i]};
  for (int64_t s = 0; s < before; s++) {
    const float32x4_t u = rdi_some(g->u + s * g->u_stride + row, rows);
    for (int i = 0; i < SUMS; i++) x[i] = vfmaq_n_f32(x[i], u, dots[s * SUMS + i]);
  }
  const float *d = dots + before * SUMS;
  for (int64_t i = 0; i < m; i++, d += SUMS) {
    const float32x4_t v = rdi_some(g->v + (t + i) * g->v_stride + row, rows);
    const float32x4_t u = vmulq_n_f32(vsubq_f32(v, x[i]), g->beta[t + i]);
    rdi_put(g->u + (before + i) * g->u_stride + row, u, rows);
    for (int64_t j = i; j < m; j++) {
      x[j] = vfmaq_n_f32(x[j], u, d[j]);
      x[GROUP + j] = vfmaq_n_f32(x[GROUP + j], u, d[GROUP + j]);
    }
    rdi_put(g->o + (t + i) * g->o_stride + row, x[GROUP + i], rows);
  }
}

void rdi_spread_neon_4x8(const rdi_spread_args *g) {
  float *lanes = g->scratch, *dots = lanes + g->Kp * SUMS;
  for (int64_t t = 0; t < g->n; t += GROUP) {
    const int64_t m = g->n - t < GROUP ? g->n - t : GROUP, count = g->past + t + m;
    lanes_of(g, t, m, lanes);
    for (int64_t i = 0; i < count; i += ROWS)
      some(g->kh + i * g->Kp, g->Kp, count - i < ROWS ? count - i : ROWS, g->K, lanes,
           dots + i * SUMS);
    for (int64_t row = 0; row < g->R; row += ROWS) {
      float y[ROWS * SUMS] = {0};
      const int64_t rows = g->R - row < ROWS ? g->R - row : ROWS;
      some(g->s + row * g->s_stride, g->s_stride, rows, g->K, lanes, y);
      substitute(g, t, m, row, rows, dots, y);
    }
  }
}
