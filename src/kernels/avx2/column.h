/* A column (kernels/column.h) in two AVX2 registers. */
#ifndef RDI_KERNELS_AVX2_COLUMN_H
#define RDI_KERNELS_AVX2_COLUMN_H

#include "kernels/avx2/tree.h"
#include "redelta/types.h"

#include <string.h>

typedef struct rdi_col {
  __m256 lo, hi;
} rdi_col;
enum { WIDE = 2 };

#define C_ONE(name, op)                                                                            \
  RDI_INLINE rdi_col name(rdi_col a) { return (rdi_col){op(a.lo), op(a.hi)}; }
#define C_TWO(name, op)                                                                            \
  RDI_INLINE rdi_col name(rdi_col a, rdi_col b) {                                                  \
    return (rdi_col){op(a.lo, b.lo), op(a.hi, b.hi)};                                              \
  }
#define C_THREE(name, op)                                                                          \
  RDI_INLINE rdi_col name(rdi_col a, rdi_col b, rdi_col c) {                                       \
    return (rdi_col){op(a.lo, b.lo, c.lo), op(a.hi, b.hi, c.hi)};                                  \
  }

RDI_INLINE rdi_col c_fix(rdi_col a) {
  __asm__("" : "+x"(a.lo), "+x"(a.hi));
  return a;
}

/* p 2^n in two factors: the first product is exact, so the second rounds once. n is an integer; for
 * NaN the factors are arbitrary and p carries the NaN. */
RDI_INLINE __m256 pow2(__m256 p, __m256 n) {
  __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1), bias = _mm256_set1_epi32(127);
  __m256i rest = _mm256_sub_epi32(i, half);
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}
RDI_INLINE __m256 nearest(__m256 a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
RDI_INLINE __m256 flip(__m256 a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
RDI_INLINE __m256 below(__m256 a) { return _mm256_or_ps(a, _mm256_set1_ps(-0.0f)); }

C_TWO(c_add, _mm256_add_ps)
C_TWO(c_mul, _mm256_mul_ps)
C_TWO(c_div, _mm256_div_ps)
C_TWO(c_min, _mm256_min_ps)
C_TWO(c_max, _mm256_max_ps)
C_TWO(c_pow2, pow2)
C_ONE(c_sqrt, _mm256_sqrt_ps)
C_ONE(c_rint, nearest)
C_ONE(c_flip, flip)
C_ONE(c_below, below)
C_THREE(c_fma, _mm256_fmadd_ps)
C_THREE(c_nfma, _mm256_fnmadd_ps)

RDI_INLINE rdi_col c_set(float x) { return (rdi_col){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
RDI_INLINE rdi_col c_load(const float *p) {
  return (rdi_col){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
RDI_INLINE void c_store(float *p, rdi_col x) {
  _mm256_storeu_ps(p, x.lo), _mm256_storeu_ps(p + 8, x.hi);
}
RDI_INLINE rdi_col c_left(rdi_col x, rdi_col y, rdi_col a, rdi_col b) {
  return (rdi_col){_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, y.lo, _CMP_LT_OQ)),
                   _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, y.hi, _CMP_LT_OQ))};
}
RDI_INLINE float c_sum(rdi_col a) { return rdi_tree1(a.lo, a.hi); }

RDI_INLINE rdi_col c_keep(rdi_col a, int64_t left) {
  return (rdi_col){_mm256_and_ps(a.lo, _mm256_castsi256_ps(rdi_lanes(left))),
                   _mm256_and_ps(a.hi, _mm256_castsi256_ps(rdi_lanes(left - 8)))};
}

RDI_INLINE __m256 eight_of(const void *p, rd_dtype dtype) {
  __m128i h = _mm_loadu_si128(p);
  if (dtype == RD_F16) return _mm256_cvtph_ps(h);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

RDI_INLINE rdi_col c_any(const void *p, rd_dtype dtype, int64_t at, int64_t left) {
  if (dtype == RD_F32) {
    const float *f = (const float *)p + at;
    if (left >= 16) return c_load(f);
    return (rdi_col){_mm256_maskload_ps(f, rdi_lanes(left)),
                     _mm256_maskload_ps(f + 8, rdi_lanes(left - 8))};
  }
  const uint16_t *h = (const uint16_t *)p + at;
  uint16_t part[16] = {0};
  if (left < 16) {
    for (int64_t i = 0; i < left; i++) part[i] = h[i];
    h = part;
  }
  return (rdi_col){eight_of(h, dtype), eight_of(h + 8, dtype)};
}

RDI_INLINE void c_put(float *p, rdi_col x, int64_t left) {
  if (left >= 16) {
    c_store(p, x);
    return;
  }
  _mm256_maskstore_ps(p, rdi_lanes(left), x.lo);
  if (left > 8) _mm256_maskstore_ps(p + 8, rdi_lanes(left - 8), x.hi);
}

RDI_INLINE __m128i eight_to(__m256 x, rd_dtype dtype) {
  if (dtype == RD_F16) return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256i b = _mm256_castps_si256(x);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
  __m256i r = _mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i quiet = _mm256_or_si256(b, _mm256_set1_epi32(0x400000));
  r = _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  r = _mm256_srli_epi32(r, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}

RDI_INLINE void c_put16(void *p, rd_dtype dtype, rdi_col x, int64_t left) {
  uint16_t part[16], *h = left < 16 ? part : p;
  _mm_storeu_si128((__m128i *)(void *)h, eight_to(x.lo, dtype));
  _mm_storeu_si128((__m128i *)(void *)(h + 8), eight_to(x.hi, dtype));
  if (left < 16)
    for (int64_t i = 0; i < left; i++) ((uint16_t *)p)[i] = part[i];
}

#endif
