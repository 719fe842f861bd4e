/* Vectors of values (kernels/lanes.h), AVX-512. */
#ifndef RDI_KERNELS_AVX512_LANE_H
#define RDI_KERNELS_AVX512_LANE_H

#include "kernels/avx512/tree.h"

#include <stdint.h>

typedef __m512 V;
typedef __mmask16 part;
enum { LANES = 16, ONCE = 8 };

RDI_INLINE part v_part(int64_t left) { return rdi_lanes(left); }
RDI_INLINE V v_load(const float *p, part m) { return _mm512_maskz_loadu_ps(m, p); }
RDI_INLINE void v_store(float *p, V x, part m) { _mm512_mask_storeu_ps(p, m, x); }
RDI_INLINE V v_full(const float *p) { return _mm512_loadu_ps(p); }
RDI_INLINE void v_store_full(float *p, V x) { _mm512_storeu_ps(p, x); }
RDI_INLINE V v_set(float x) { return _mm512_set1_ps(x); }
RDI_INLINE V v_add(V a, V b) { return _mm512_add_ps(a, b); }
RDI_INLINE V v_sub(V a, V b) { return _mm512_sub_ps(a, b); }
RDI_INLINE V v_mul(V a, V b) { return _mm512_mul_ps(a, b); }
RDI_INLINE V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

#endif
