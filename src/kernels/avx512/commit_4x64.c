/* commit: S <- S diag(a) + u k' for m records, AVX-512. Native rows.
 * 4 rows x 64 keys of S stay in 16 registers while all records pass over them. */
#include "kernels/registry.h"
#include "kernels/avx512/tree.h"

enum { COLS = 4, ROWS = 4, KEYS = 16 * COLS };

/* One tile of `rows` rows at column c. full: all 64 keys exist. */
RDI_INLINE void tile(const rdi_commit_args *g, int64_t row, int64_t c, int rows, int full,
                     int decay) {
  __m512 s[ROWS][COLS];
  __mmask16 m[COLS];
  const float *in = g->s_in + row * g->in_stride + c, *k = g->k + c, *a = decay ? g->a + c : k,
              *u = g->u + row;
  float *out = g->s_out + row * g->out_stride + c;
  RDI_UNROLL
  for (int j = 0; j < COLS; j++) m[j] = full ? 0xffff : rdi_lanes(g->K - c - 16 * j);
  RDI_UNROLL
  for (int r = 0; r < rows; r++) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++)
      s[r][j] = full ? _mm512_loadu_ps(in + r * g->in_stride + 16 * j)
                     : _mm512_maskz_loadu_ps(m[j], in + r * g->in_stride + 16 * j);
  }
  for (int64_t i = 0; i < g->m; i++, k += g->Kp, a += g->Kp, u += g->u_stride) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) {
      __m512 kj = full ? _mm512_load_ps(k + 16 * j) : _mm512_maskz_loadu_ps(m[j], k + 16 * j);
      if (decay) {
        __m512 aj = full ? _mm512_load_ps(a + 16 * j) : _mm512_maskz_loadu_ps(m[j], a + 16 * j);
        RDI_UNROLL
        for (int r = 0; r < rows; r++) s[r][j] = _mm512_mul_ps(aj, s[r][j]);
      }
      RDI_UNROLL
      for (int r = 0; r < rows; r++) s[r][j] = _mm512_fmadd_ps(_mm512_set1_ps(u[r]), kj, s[r][j]);
    }
  }
  RDI_UNROLL
  for (int r = 0; r < rows; r++) {
    RDI_UNROLL
    for (int j = 0; j < COLS; j++) {
      float *to = out + r * g->out_stride + 16 * j;
      if (full)
        _mm512_storeu_ps(to, s[r][j]);
      else
        _mm512_mask_storeu_ps(to, m[j], s[r][j]);
    }
  }
}

#include "kernels/commit_rows.h"

void rdi_commit_avx512_4x64(const rdi_commit_args *g) { commit_rows(g); }
