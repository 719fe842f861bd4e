/* commit: S <- S diag(a) + u k' for m records, NEON. Native rows.
 * 4 rows x 16 keys of S stay in 16 registers while all records pass over them. */
#include "kernels/neon/column.h"
#include "kernels/registry.h"

enum { COLS = 4, ROWS = 4 };

/* One tile of `rows` rows at column c, of which `left` keys exist. */
RDI_INLINE void tile(const rdi_commit_args *g, int64_t row, int64_t c, int64_t left, int rows,
                     int decay) {
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

RDI_INLINE void run(const rdi_commit_args *g, int decay) {
  int64_t row = 0, all = g->R * g->in_stride, near = 2048; /* floats; S about 8 KiB ahead */
  for (; row + ROWS <= g->R; row += ROWS) {
    int64_t x = row * g->in_stride + near, c = 0;
    const float *ahead = x < all ? g->s_in + x : g->next ? g->next + (x - all) : NULL;
    for (; c + 4 * COLS <= g->K; c += 4 * COLS) {
      if (ahead)
        for (int i = 0; i < ROWS; i++) __builtin_prefetch(ahead + ROWS * c + 16 * i, 0, 3);
      tile(g, row, c, 4 * COLS, ROWS, decay);
    }
    if (c < g->K) tile(g, row, c, g->K - c, ROWS, decay);
  }
  for (; row < g->R; row++)
    for (int64_t c = 0; c < g->K; c += 4 * COLS) tile(g, row, c, g->K - c, 1, decay);
}

void rdi_commit_neon_4x16(const rdi_commit_args *g) {
  if (g->a)
    run(g, 1);
  else
    run(g, 0);
}
