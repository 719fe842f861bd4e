/* The canonical functions of C1 on 16 lanes, and loads of 16 elements of any activation type.
 * Every line is the scalar formula of docs/NUMERICS.md; nothing here approximates. */
#ifndef RDI_KERNELS_AVX512_MATH_H
#define RDI_KERNELS_AVX512_MATH_H

#include "kernels/avx512/tree.h"
#include "redelta/types.h"

#include <stdint.h>

enum { WIDE = 4 }; /* vectors per step: as many as hide the latency of a chain of fmas */

RDI_INLINE __m512 rdi_bits(uint32_t b) { return _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)b)); }

RDI_INLINE void rdi_exp(__m512 x[WIDE]) {
  static const uint32_t e[6] = {0x39506967, 0x3AB743CE, 0x3C088908,
                                0x3D2AA9C1, 0x3E2AAAAA, 0x3F000000};
  __m512 n[WIDE], r[WIDE], p[WIDE];
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) { /* the second operand survives when the first is not a number */
    x[i] = _mm512_min_ps(_mm512_set1_ps(89.0f), x[i]);
    x[i] = _mm512_max_ps(_mm512_set1_ps(-105.0f), x[i]);
    n[i] = _mm512_roundscale_ps(_mm512_mul_ps(x[i], rdi_bits(0x3FB8AA3B)), 0);
  }
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) {
    r[i] = _mm512_fnmadd_ps(n[i], rdi_bits(0x3F317200), x[i]);
    r[i] = _mm512_fnmadd_ps(n[i], rdi_bits(0x35BFBE8E), r[i]);
    p[i] = rdi_bits(e[0]);
  }
  RDI_UNROLL
  for (int j = 1; j < 6; j++) {
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) p[i] = _mm512_fmadd_ps(p[i], r[i], rdi_bits(e[j]));
  }
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) {
    p[i] = _mm512_fmadd_ps(p[i], _mm512_mul_ps(r[i], r[i]), _mm512_add_ps(r[i], _mm512_set1_ps(1.0f)));
    x[i] = _mm512_scalef_ps(p[i], n[i]); /* rounds once, subnormals too */
  }
}

RDI_INLINE __m512 rdi_flip(__m512 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

RDI_INLINE void rdi_sig(__m512 x[WIDE]) {
  const __m512 one = _mm512_set1_ps(1.0f);
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) x[i] = rdi_flip(x[i]);
  rdi_exp(x);
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) x[i] = _mm512_div_ps(one, _mm512_add_ps(one, x[i]));
}

RDI_INLINE void rdi_softplus(__m512 x[WIDE]) {
  static const uint32_t l[6] = {0x3D9D89D9, 0x3DBA2E8C, 0x3DE38E39,
                                0x3E124925, 0x3E4CCCCD, 0x3EAAAAAB};
  __m512 z[WIDE], s[WIDE], w[WIDE], p[WIDE];
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) z[i] = _mm512_or_ps(x[i], _mm512_set1_ps(-0.0f));
  rdi_exp(z);
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) {
    s[i] = _mm512_div_ps(z[i], _mm512_add_ps(_mm512_set1_ps(2.0f), z[i]));
    w[i] = _mm512_mul_ps(s[i], s[i]);
    p[i] = rdi_bits(l[0]);
  }
  RDI_UNROLL
  for (int j = 1; j < 6; j++) {
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) p[i] = _mm512_fmadd_ps(p[i], w[i], rdi_bits(l[j]));
  }
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) {
    p[i] = _mm512_fmadd_ps(p[i], w[i], _mm512_set1_ps(1.0f));
    x[i] = _mm512_fmadd_ps(_mm512_add_ps(s[i], s[i]), p[i],
                           _mm512_max_ps(x[i], _mm512_setzero_ps())); /* NaN: p carries it */
  }
}

/* 16 elements, absent lanes +0 and not touched. */
RDI_INLINE __m512 rdi_load(const void *p, rd_dtype dtype, int64_t at, __mmask16 m) {
  if (dtype == RD_F32) return _mm512_maskz_loadu_ps(m, (const float *)p + at);
  __m256i h = _mm256_maskz_loadu_epi16(m, (const uint16_t *)p + at);
  if (dtype == RD_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

RDI_INLINE void rdi_store16(void *p, rd_dtype dtype, __mmask16 m, __m512 x) {
  if (dtype == RD_F16) {
    _mm256_mask_storeu_epi16(p, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return;
  }
  __m512i b = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), one);
  __m512i r = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, nan, b, _mm512_set1_epi32(0x400000));
  _mm256_mask_storeu_epi16(p, m, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

#endif
