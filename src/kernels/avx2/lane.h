/* Vectors of values (kernels/lanes.h), AVX2. */
#ifndef RDI_KERNELS_AVX2_LANE_H
#define RDI_KERNELS_AVX2_LANE_H

#include "kernels/avx2/tree.h"

typedef __m256 V;
typedef __m256i part;
enum { LANES = 8, ONCE = 4 };

RDI_INLINE part v_part(int64_t left) { return rdi_lanes(left); }
RDI_INLINE V v_load(const float *p, part m) { return _mm256_maskload_ps(p, m); }
RDI_INLINE void v_store(float *p, V x, part m) { _mm256_maskstore_ps(p, m, x); }
RDI_INLINE V v_full(const float *p) { return _mm256_loadu_ps(p); }
RDI_INLINE void v_store_full(float *p, V x) { _mm256_storeu_ps(p, x); }
RDI_INLINE V v_set(float x) { return _mm256_set1_ps(x); }
RDI_INLINE V v_add(V a, V b) { return _mm256_add_ps(a, b); }
RDI_INLINE V v_sub(V a, V b) { return _mm256_sub_ps(a, b); }
RDI_INLINE V v_mul(V a, V b) { return _mm256_mul_ps(a, b); }
RDI_INLINE V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }

#endif
