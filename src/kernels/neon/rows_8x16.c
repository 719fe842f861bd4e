/* rows: u = beta (v - S kt), S <- S diag(a) + u k', o = S qt + u kq over <= 16 tokens, NEON.
 * Native tile. 2 value rows x 16 keys per step: 16 accumulators, 2 u and 6 temporaries of 32
 * registers; four pairs of rows (r, r + 4) make a block of 8. */
#include "kernels/neon/column.h"
#include "kernels/registry.h"
#include "kernels/neon/flush.h"
#include "kernels/rows_blocks.h"

enum { DOTS = 1, UPDATE = 2, STORE = 4, PAIR = 2 };

typedef struct rdi_sums {
  float32x4_t yk[2], yq[2]; /* rows 0..3, 4..7 */
} rdi_sums;

typedef struct partials { /* of one pair: [row][quarter of the 16 partial sums] */
  float32x4_t yk[PAIR][4], yq[PAIR][4];
} partials;

/* 4 keys of 2 rows; `left` of them exist. p, now: operand rows of the previous token and of this one. */
RDI_INLINE void four(int kind, int64_t left, int quarter, const char *in, char *out, int64_t stride,
                     operands p, operands now, const float32x4_t u[PAIR], partials *y) {
  float32x4_t k = vdupq_n_f32(0), a = k, kt = k, qt = k;
  if (kind & UPDATE) k = vld1q_f32(p.k), a = vld1q_f32(p.a);
  if (kind & DOTS) kt = vld1q_f32(now.kt), qt = vld1q_f32(now.qt);
  RDI_UNROLL
  for (int r = 0; r < PAIR; r++) {
    const float *from = (const float *)(const void *)(in + 4 * r * stride);
    float *to = (float *)(void *)(out + 4 * r * stride);
    float32x4_t s = rdi_some(from, left);
    if (kind & UPDATE) s = vfmaq_f32(vmulq_f32(a, s), u[r], k);
    if ((kind & UPDATE) && left < 4) s = rdi_mask(s, left); /* inf 0 at pads */
    if (kind & STORE) rdi_put(to, s, left);
    if (kind & DOTS) {
      y->yk[r][quarter] = vfmaq_f32(y->yk[r][quarter], s, kt);
      y->yq[r][quarter] = vfmaq_f32(y->yq[r][quarter], s, qt);
    }
  }
}

/* One pair, one token. The sums start at -0, which an fma adds without a trace: the first product
 * enters as it is. */
RDI_INLINE void pair(int kind, const char *in, char *out, int64_t stride, operands p, operands now,
                     const float32x4_t u[PAIR], int64_t K, partials *y) {
  int64_t c = 0;
  RDI_UNROLL
  for (int i = 0; i < 4 * PAIR; i++) y->yk[i / 4][i % 4] = y->yq[i / 4][i % 4] = vdupq_n_f32(-0.0f);
  for (; c + 16 <= K; c += 16) {
    RDI_UNROLL
    for (int i = 0; i < 4; i++) {
      int64_t d = c + 4 * i;
      four(kind, 4, i, in + 4 * d, out + 4 * d, stride, at(p, d), at(now, d), u, y);
    }
  }
  if (c == K) return;
  RDI_UNROLL
  for (int i = 0; i < 4; i++) {
    int64_t d = c + 4 * i;
    four(kind, K - d, i, in + 4 * d, out + 4 * d, stride, at(p, d), at(now, d), u, y);
  }
}

RDI_INLINE rdi_sums pass(int kind, const char *in, char *out, int64_t stride, operands p,
                         operands now, const float *u, int64_t K) {
  float32x4_t wk[ROWS], wq[ROWS];
  RDI_UNROLL
  for (int r = 0; r < 4; r++) {
    float32x4_t ub[PAIR] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    partials y;
    if (kind & UPDATE) ub[0] = vld1q_dup_f32(u + r), ub[1] = vld1q_dup_f32(u + r + 4);
    pair(kind, in + r * stride, out + r * stride, stride, p, now, ub, K, &y);
    wk[r] = rdi_fold16(y.yk[0]), wk[r + 4] = rdi_fold16(y.yk[1]);
    wq[r] = rdi_fold16(y.yq[0]), wq[r + 4] = rdi_fold16(y.yq[1]);
  }
  return (rdi_sums){{rdi_tree4(wk), rdi_tree4(wk + 4)}, {rdi_tree4(wq), rdi_tree4(wq + 4)}};
}

#define RDI_OUT static __attribute__((noinline))

RDI_OUT rdi_sums pass_dots(const char *in, int64_t stride, operands now, int64_t K) {
  return pass(DOTS, in, nowhere(in), stride, now, now, NULL, K);
}
RDI_OUT rdi_sums pass_all(const char *in, char *out, int64_t stride, operands p, operands now,
                          const float *u, int64_t K) {
  return pass(UPDATE | DOTS | STORE, in, out, stride, p, now, u, K);
}
RDI_OUT rdi_sums pass_last(const char *in, int64_t stride, operands p, operands now, const float *u,
                           int64_t K) {
  return pass(UPDATE | DOTS, in, nowhere(in), stride, p, now, u, K);
}
RDI_OUT void pass_update(const char *in, char *out, int64_t stride, operands p, const float *u,
                         int64_t K) {
  (void)pass(UPDATE | STORE, in, out, stride, p, p, u, K);
}

RDI_INLINE rdi_sums pass_chain(const char *in, char *out, const char *dots_in, int64_t stride,
                               operands p, const float *u, int64_t K, const char *near,
                               const char *far) {
  for (int64_t i = 0; i < K * ROWS / 16; i++) {
    __builtin_prefetch(near + 64 * i, 0, 3);
    __builtin_prefetch(far + 64 * i, 0, 2);
  }
  rdi_sums y = pass_dots(dots_in, stride, p, K);
  pass_update(in, out, stride, p, u, K);
  return y;
}

RDI_INLINE void finish(const rdi_rows_args *g, const block *b, int64_t t, rdi_sums y) {
  RDI_UNROLL
  for (int h = 0; h < 2; h++) {
    int64_t row = b->row + 4 * h, left = b->rows - 4 * h;
    float32x4_t v = rdi_some(g->v + t * g->v_stride + row, left);
    float32x4_t u = vmulq_n_f32(vsubq_f32(v, y.yk[h]), g->beta[t]);
    vst1q_f32(b->u + 4 * h, u);
    rdi_put(g->u + t * g->u_stride + row, u, left);
    if (g->o) rdi_put(g->o + t * g->o_stride + row, vfmaq_n_f32(y.yq[h], u, g->kq[t]), left);
  }
}

RDI_INLINE void prefetch_far(const char *p) { __builtin_prefetch(p, 0, 2); }

#define RDI_ROWS_BLOCKS_BODY
#include "kernels/rows_blocks.h"

int64_t rdi_rows_scratch_neon_8x16(int64_t R, int64_t K) {
  (void)R;
  return rows_scratch(K);
}

RDI_OUT void run_group_of_rows(const rdi_rows_args *g) { run_rows(g); }

void rdi_rows_neon_8x16(const rdi_rows_args *g) {
  _Alignas(64) float saved[SAVED];
  const int in_place = g->s_out == g->s_in;
  const int64_t step = rows_at_once(g->R, g->Kp, in_place);
  for (int64_t r = 0; r < g->R; r += step) {
    rdi_rows_args part = *g;
    part.R = g->R - r < step ? g->R - r : step;
    part.s_in = g->s_in + r * g->in_stride;
    if (g->s_out) part.s_out = g->s_out + r * g->out_stride;
    part.v = g->v + r, part.u = g->u + r;
    if (g->o) part.o = g->o + r;
    if (r + step < g->R) part.next = part.s_in + step * g->in_stride;
    if (in_place) save_rows(saved, g->Kp, part.s_in, g->in_stride, part.R, g->K);
    underflow_clear();
    run_group_of_rows(&part);
    if (!underflow()) continue;
    if (in_place) part.s_in = saved, part.in_stride = g->Kp;
    rdi_rows_scalar(&part);
  }
}
