/* project: y = W x in the order W1, AVX-512. 8 rows times 16 outputs, one output per lane: a panel of the
 * weights is read once for 8 rows, and no sum crosses lanes. */
#include "kernels/avx512/tree.h"
#include "kernels/registry.h"

#include <string.h>

enum { ROWS = 8 };

RDI_INLINE __m512 low(__m512i pair) { return _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16)); }
RDI_INLINE __m512 high(__m512i pair) {
  return _mm512_castsi512_ps(_mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000u)));
}

RDI_INLINE __m512i pair_at(const uint16_t *p) {
  int32_t both;
  memcpy(&both, p, sizeof both);
  return _mm512_set1_epi32(both);
}

RDI_INLINE void panel_rows(const rdi_project_args *a, const uint16_t *w, const uint16_t *x,
                           float *y, __mmask16 wanted, int rows) {
  __m512 sum[ROWS], even[ROWS], odd[ROWS];
  RDI_UNROLL for (int m = 0; m < rows; m++) sum[m] = _mm512_setzero_ps();
  for (int64_t k = 0; k < a->Kp; k += 32) {
    RDI_UNROLL for (int m = 0; m < rows; m++) even[m] = odd[m] = _mm512_setzero_ps();
    for (int64_t i = k; i < k + 32; i += 2) {
      const __m512i both = _mm512_loadu_si512(w + i * 16);
      const __m512 w0 = low(both), w1 = high(both);
      RDI_UNROLL for (int m = 0; m < rows; m++) {
        const __m512i pair = pair_at(x + m * a->x_stride + i);
        even[m] = _mm512_fmadd_ps(low(pair), w0, even[m]);
        odd[m] = _mm512_fmadd_ps(high(pair), w1, odd[m]);
      }
    }
    RDI_UNROLL for (int m = 0; m < rows; m++) sum[m] =
        _mm512_add_ps(sum[m], _mm512_add_ps(even[m], odd[m]));
  }
  RDI_UNROLL for (int m = 0; m < rows; m++)
      _mm512_mask_storeu_ps(y + m * a->y_stride, wanted, sum[m]);
}

void rdi_project_avx512_8x16(const rdi_project_args *a) {
  for (int64_t n = 0; n < a->N; n += 16) {
    const uint16_t *w = a->w + n * a->Kp;
    const __mmask16 wanted = (__mmask16)(a->N - n >= 16 ? 0xffff : (1 << (a->N - n)) - 1);
    int64_t m = 0;
    for (; m + ROWS <= a->M; m += ROWS)
      panel_rows(a, w, a->x + m * a->x_stride, a->y + m * a->y_stride + n, wanted, ROWS);
    for (; m + 4 <= a->M; m += 4)
      panel_rows(a, w, a->x + m * a->x_stride, a->y + m * a->y_stride + n, wanted, 4);
    for (; m < a->M; m++)
      panel_rows(a, w, a->x + m * a->x_stride, a->y + m * a->y_stride + n, wanted, 1);
  }
}
