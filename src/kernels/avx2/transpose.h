/* 8 x 8 transposition and the panels of FAST prefill, for AVX2 and above. */
#ifndef RDI_KERNELS_AVX2_TRANSPOSE_H
#define RDI_KERNELS_AVX2_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) void rdi_transpose8(__m256 r[8]) {
  __m256 a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    a[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
    b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
    b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
    b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

/* n x m from src to its transpose in dst. */
static inline void rdi_transpose_part(float *dst, int64_t dst_stride, const float *src,
                                      int64_t src_stride, int64_t n, int64_t m) {
  __m256 r[8];
  if (n == 8 && m == 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(src + i * src_stride);
    rdi_transpose8(r);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) _mm256_storeu_ps(dst + i * dst_stride, r[i]);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) dst[j * dst_stride + i] = src[i * src_stride + j];
}

static inline void rdi_transpose(float *dst, int64_t dst_stride, const float *src,
                                 int64_t src_stride, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t j = 0; j < m; j += 8)
      rdi_transpose_part(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride,
                         n - i < 8 ? n - i : 8, m - j < 8 ? m - j : 8);
}

static inline void rdi_to_panel(float *panel, int64_t width, const float *s, int64_t stride,
                                int64_t R, int64_t K) {
  if (R < width) memset(panel, 0, (size_t)(K * width) * sizeof *panel);
  rdi_transpose(panel, width, s, stride, R, K);
}

#endif
