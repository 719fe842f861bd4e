/* commit: S <- S diag(a) + u k' for m records, AVX2 + FMA. Native rows.
 * 2 rows x 32 keys of S stay in 8 registers while all records pass over them. */
#include "kernels/avx2/tree.h"
#include "kernels/registry.h"

enum { COLS = 4, ROWS = 2, KEYS = 8 * COLS };

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

#include "kernels/commit_rows.h"

void rdi_commit_avx2_2x32(const rdi_commit_args *g) { commit_rows(g); }
