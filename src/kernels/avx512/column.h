/* A column (kernels/column.h) in one AVX-512 register. */
#ifndef RDI_KERNELS_AVX512_COLUMN_H
#define RDI_KERNELS_AVX512_COLUMN_H

#include "kernels/avx512/tree.h"
#include "redelta/types.h"

#include <stdint.h>

/* Without optimisation GCC's intrinsics with constants are macros, whose own conversions it warns of. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__)
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

typedef __m512 rdi_col;
enum { WIDE = 4 };

RDI_INLINE rdi_col c_set(float x) { return _mm512_set1_ps(x); }
RDI_INLINE rdi_col c_load(const float *p) { return _mm512_loadu_ps(p); }
RDI_INLINE void c_store(float *p, rdi_col x) { _mm512_storeu_ps(p, x); }
RDI_INLINE rdi_col c_add(rdi_col a, rdi_col b) { return _mm512_add_ps(a, b); }
RDI_INLINE rdi_col c_mul(rdi_col a, rdi_col b) { return _mm512_mul_ps(a, b); }
RDI_INLINE rdi_col c_div(rdi_col a, rdi_col b) { return _mm512_div_ps(a, b); }
RDI_INLINE rdi_col c_sqrt(rdi_col a) { return _mm512_sqrt_ps(a); }
RDI_INLINE rdi_col c_rint(rdi_col a) { return _mm512_roundscale_ps(a, 0); }
RDI_INLINE rdi_col c_fma(rdi_col a, rdi_col b, rdi_col c) { return _mm512_fmadd_ps(a, b, c); }
RDI_INLINE rdi_col c_nfma(rdi_col a, rdi_col b, rdi_col c) { return _mm512_fnmadd_ps(a, b, c); }
RDI_INLINE rdi_col c_min(rdi_col a, rdi_col b) { return _mm512_min_ps(a, b); }
RDI_INLINE rdi_col c_max(rdi_col a, rdi_col b) { return _mm512_max_ps(a, b); }
RDI_INLINE rdi_col c_flip(rdi_col a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
RDI_INLINE rdi_col c_below(rdi_col a) { return _mm512_or_ps(a, _mm512_set1_ps(-0.0f)); }
RDI_INLINE rdi_col c_pow2(rdi_col p, rdi_col n) { return _mm512_scalef_ps(p, n); }
RDI_INLINE rdi_col c_left(rdi_col x, rdi_col y, rdi_col a, rdi_col b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
RDI_INLINE rdi_col c_fix(rdi_col a) {
  __asm__("" : "+v"(a));
  return a;
}
RDI_INLINE float c_sum(rdi_col a) { return rdi_tree1(a); }

RDI_INLINE rdi_col c_keep(rdi_col a, int64_t left) {
  return _mm512_maskz_mov_ps(rdi_lanes(left), a);
}

RDI_INLINE rdi_col c_any(const void *p, rd_dtype dtype, int64_t at, int64_t left) {
  const __mmask16 m = rdi_lanes(left);
  if (dtype == RD_F32) {
    const float *f = (const float *)p + at;
    return left >= 16 ? _mm512_loadu_ps(f) : _mm512_maskz_loadu_ps(m, f);
  }
  const uint16_t *x = (const uint16_t *)p + at;
  __m256i h = left >= 16 ? _mm256_loadu_si256((const __m256i *)(const void *)x)
                         : _mm256_maskz_loadu_epi16(m, x);
  if (dtype == RD_F16) return _mm512_cvtph_ps(h);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

RDI_INLINE void c_put(float *p, rdi_col x, int64_t left) {
  if (left >= 16)
    _mm512_storeu_ps(p, x);
  else
    _mm512_mask_storeu_ps(p, rdi_lanes(left), x);
}

RDI_INLINE void c_put16(void *p, rd_dtype dtype, rdi_col x, int64_t left) {
  __m256i h;
  if (dtype == RD_F16) {
    h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    __m512i b = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, b, _mm512_set1_epi32(0x400000));
    h = _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
  }
  if (left >= 16)
    _mm256_storeu_si256((__m256i *)p, h);
  else
    _mm256_mask_storeu_epi16(p, rdi_lanes(left), h);
}

#endif
