/* 16 x 16 transposition in registers. */
#ifndef RDI_KERNELS_AVX512_TRANSPOSE_H
#define RDI_KERNELS_AVX512_TRANSPOSE_H

#include "kernels/avx512/tree.h"

RDI_INLINE void rdi_transpose16(__m512 r[16]) {
  __m512 a[16], b[16];
  RDI_UNROLL
  for (int i = 0; i < 8; i++) {
    a[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  RDI_UNROLL
  for (int i = 0; i < 4; i++) { /* b[4i+j]: column 4l + j of rows 4i.. in 128-bit lane l */
    b[4 * i] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
    b[4 * i + 1] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
    b[4 * i + 2] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
    b[4 * i + 3] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
  }
  RDI_UNROLL
  for (int j = 0; j < 4; j++) {
    __m512 x = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x88),
           y = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xdd);
    __m512 z = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x88);
    __m512 w = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xdd);
    r[j] = _mm512_shuffle_f32x4(x, z, 0x88);
    r[8 + j] = _mm512_shuffle_f32x4(x, z, 0xdd);
    r[4 + j] = _mm512_shuffle_f32x4(y, w, 0x88);
    r[12 + j] = _mm512_shuffle_f32x4(y, w, 0xdd);
  }
}

#endif
