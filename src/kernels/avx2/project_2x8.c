/* project: y = W x in the order W1, AVX2. 2 rows times 8 outputs, one output per lane. */
#include "kernels/avx2/tree.h"
#include "kernels/registry.h"

#include <string.h>

enum { ROWS = 2 };

RDI_INLINE __m256 low(__m256i pair) { return _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)); }
RDI_INLINE __m256 high(__m256i pair) {
  return _mm256_castsi256_ps(_mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000u)));
}

RDI_INLINE __m256i pair_at(const uint16_t *p) {
  int32_t both;
  memcpy(&both, p, sizeof both);
  return _mm256_set1_epi32(both);
}

/* w: pair 0 of the 8 outputs; left: how many of them are wanted. */
RDI_INLINE void panel_rows(const rdi_project_args *a, const uint16_t *w, const uint16_t *x,
                           float *y, int64_t left, int rows) {
  __m256 sum[ROWS], even[ROWS], odd[ROWS];
  RDI_UNROLL for (int m = 0; m < rows; m++) sum[m] = _mm256_setzero_ps();
  for (int64_t k = 0; k < a->Kp; k += 32) {
    RDI_UNROLL for (int m = 0; m < rows; m++) even[m] = odd[m] = _mm256_setzero_ps();
    for (int64_t i = k; i < k + 32; i += 2) {
      const __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)(w + i * 16));
      const __m256 w0 = low(both), w1 = high(both);
      RDI_UNROLL for (int m = 0; m < rows; m++) {
        const __m256i pair = pair_at(x + m * a->x_stride + i);
        even[m] = _mm256_fmadd_ps(low(pair), w0, even[m]);
        odd[m] = _mm256_fmadd_ps(high(pair), w1, odd[m]);
      }
    }
    RDI_UNROLL for (int m = 0; m < rows; m++) sum[m] =
        _mm256_add_ps(sum[m], _mm256_add_ps(even[m], odd[m]));
  }
  RDI_UNROLL for (int m = 0; m < rows; m++) {
    float last[8];
    _mm256_storeu_ps(last, sum[m]);
    memcpy(y + m * a->y_stride, last, (size_t)(left < 8 ? left : 8) * sizeof *last);
  }
}

void rdi_project_avx2_2x8(const rdi_project_args *a) {
  for (int64_t n = 0; n < a->N; n += 8) {
    const uint16_t *w = a->w + n / 16 * 16 * a->Kp + n % 16 * 2;
    int64_t m = 0;
    for (; m + ROWS <= a->M; m += ROWS)
      panel_rows(a, w, a->x + m * a->x_stride, a->y + m * a->y_stride + n, a->N - n, ROWS);
    for (; m < a->M; m++)
      panel_rows(a, w, a->x + m * a->x_stride, a->y + m * a->y_stride + n, a->N - n, 1);
  }
}
