/* commit: S <- S diag(a) + u k' for m records, NEON. Native rows.
 * 4 rows x 16 keys of S stay in 16 registers while all records pass over them. */
#include "kernels/neon/column.h"
#include "kernels/registry.h"
#include "kernels/neon/flush.h"

enum { COLS = 4, ROWS = 4, KEYS = 4 * COLS };

/* One tile of `rows` rows at column c. full: all 16 keys exist. */
RDI_INLINE void tile(const rdi_commit_args *g, int64_t row, int64_t c, int rows, int full,
                     int decay) {
  const int64_t left = full ? KEYS : g->K - c;
  float32x4_t s[ROWS][COLS];
  const float *in = g->s_in + row * g->in_stride + c, *u = g->u + row;
  float *out = g->s_out + row * g->out_stride + c;
  RDI_UNROLL
  for (int r = 0; r < rows; r++) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) s[r][j] = rdi_some(in + r * g->in_stride + 4 * j, left - 4 * j);
  }
  for (int64_t i = 0; i < g->m; i++, u += g->u_stride) {
    const float *k = g->k + i * g->Kp + c, *a = decay ? g->a + i * g->Kp + c : k;
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) {
      float32x4_t kj = vld1q_f32(k + 4 * j), aj = vld1q_f32(a + 4 * j);
      RDI_UNROLL
      for (int r = 0; r < rows; r++)
        s[r][j] = vfmaq_f32(decay ? vmulq_f32(aj, s[r][j]) : s[r][j], vld1q_dup_f32(u + r), kj);
    }
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) rdi_put(out + r * g->out_stride + 4 * j, s[r][j], left - 4 * j);
  }
}

#include "kernels/commit_rows.h"

static __attribute__((noinline)) void commit_group(const rdi_commit_args *g) { commit_rows(g); }

void rdi_commit_neon_4x16(const rdi_commit_args *g) {
  _Alignas(64) float saved[SAVED];
  const int in_place = g->s_out == g->s_in;
  const int64_t step = rows_at_once(g->R, g->Kp, in_place);
  for (int64_t r = 0; r < g->R; r += step) {
    rdi_commit_args part = *g;
    part.R = g->R - r < step ? g->R - r : step;
    part.s_in = g->s_in + r * g->in_stride, part.s_out = g->s_out + r * g->out_stride;
    part.u = g->u + r;
    if (r + step < g->R) part.next = part.s_in + step * g->in_stride;
    if (in_place) save_rows(saved, g->Kp, part.s_in, g->in_stride, part.R, g->K);
    underflow_clear();
    commit_group(&part);
    if (!underflow()) continue;
    if (in_place) part.s_in = saved, part.in_stride = g->Kp;
    rdi_commit_scalar(&part);
  }
}
