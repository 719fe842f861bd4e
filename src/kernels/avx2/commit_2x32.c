/* commit: S <- S diag(a) + u k' for m records, AVX2 + FMA. Native rows.
 * 2 rows x 32 keys of S stay in 8 registers while all records pass over them. */
#include "kernels/avx2/tree.h"
#include "kernels/registry.h"

enum { COLS = 4, ROWS = 2 };

/* One tile of `rows` rows at column c. full: all 32 keys exist. */
RDI_INLINE void tile(const rdi_commit_args *g, int64_t row, int64_t c, int rows, int full,
                     int decay) {
  __m256 s[ROWS][COLS];
  __m256i m[COLS];
  const float *in = g->s_in + row * g->in_stride + c, *u = g->u + row;
  float *out = g->s_out + row * g->out_stride + c;
  RDI_UNROLL
  for (int j = 0; j < COLS; j++) m[j] = rdi_lanes(g->K - c - 8 * j);
  RDI_UNROLL
  for (int r = 0; r < rows; r++) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) {
      const float *from = in + r * g->in_stride + 8 * j;
      s[r][j] = full ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, m[j]);
    }
  }
  for (int64_t i = 0; i < g->m; i++, u += g->u_stride) {
    const float *k = g->k + i * g->Kp + c, *a = decay ? g->a + i * g->Kp + c : k;
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) {
      __m256 kj = full ? _mm256_load_ps(k + 8 * j) : _mm256_maskload_ps(k + 8 * j, m[j]);
      __m256 aj = full ? _mm256_load_ps(a + 8 * j) : _mm256_maskload_ps(a + 8 * j, m[j]);
      RDI_UNROLL
      for (int r = 0; r < rows; r++) {
        __m256 x = decay ? _mm256_mul_ps(aj, s[r][j]) : s[r][j];
        s[r][j] = _mm256_fmadd_ps(_mm256_broadcast_ss(u + r), kj, x);
      }
    }
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) {
      float *to = out + r * g->out_stride + 8 * j;
      if (full)
        _mm256_storeu_ps(to, s[r][j]);
      else
        _mm256_maskstore_ps(to, m[j], s[r][j]);
    }
  }
}

/* The state `floats` further than the row, past the end that of the next item: 8 KiB ahead into the
 * first cache, 32 KiB ahead into the second. */
RDI_INLINE const char *rows_ahead(const rdi_commit_args *g, int64_t row, int64_t floats) {
  const int64_t at = row * g->in_stride + floats, all = g->R * g->in_stride;
  return (const char *)(at < all || !g->next ? g->s_in + at : g->next + (at - all));
}

RDI_INLINE void run(const rdi_commit_args *g, int decay) {
  int64_t row = 0;
  for (; row + ROWS <= g->R; row += ROWS) {
    const char *near = rows_ahead(g, row, 2048), *far = rows_ahead(g, row, 8192);
    int64_t c = 0;
    for (; c + 8 * COLS <= g->K; c += 8 * COLS) {
      for (int i = 0; i < COLS; i++) {
        _mm_prefetch(near + (ROWS * c + 16 * i) * 4, _MM_HINT_T0);
        _mm_prefetch(far + (ROWS * c + 16 * i) * 4, _MM_HINT_T1);
      }
      tile(g, row, c, ROWS, 1, decay);
    }
    if (c < g->K) tile(g, row, c, ROWS, 0, decay);
  }
  for (; row < g->R; row++)
    for (int64_t c = 0; c < g->K; c += 8 * COLS) tile(g, row, c, 1, 0, decay);
}

void rdi_commit_avx2_2x32(const rdi_commit_args *g) {
  if (g->a)
    run(g, 1);
  else
    run(g, 0);
}
