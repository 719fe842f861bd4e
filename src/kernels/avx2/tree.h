/* The halving tree of C1 with 8 lanes, and the masks of partial vectors. */
#ifndef RDI_KERNELS_AVX2_TREE_H
#define RDI_KERNELS_AVX2_TREE_H

#include <immintrin.h>
#include <stdint.h>

/* Loops over registers: arrays of vectors only become registers when these vanish. */
#define RDI_UNROLL _Pragma("GCC unroll 16")
#define RDI_INLINE static inline __attribute__((always_inline))

/* p[r] + p[r+h] for two vectors in one addition: a blend keeps the halves that stay, a shuffle brings
 * those that move. The second operand's halves are added the other way round, which IEEE addition
 * does not see. */
RDI_INLINE __m256 rdi_fold4(__m256 a, __m256 b) { /* [a(4) | b(4)] */
  return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}

RDI_INLINE __m256 rdi_fold2(__m256 a, __m256 b) { /* in each 128-bit lane: a(2) b(2) */
  __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
  return _mm256_add_ps(_mm256_castpd_ps(_mm256_blend_pd(x, y, 10)),
                       _mm256_castpd_ps(_mm256_shuffle_pd(x, y, 5)));
}

RDI_INLINE __m256 rdi_fold1(__m256 a, __m256 b) { /* in each 128-bit lane: a a b b */
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

/* Eight sums of which p[i] holds, 4 lanes each, numbers i and i + 4. */
RDI_INLINE __m256 rdi_tree4x2(const __m256 p[4]) {
  return rdi_fold1(rdi_fold2(p[0], p[1]), rdi_fold2(p[2], p[3]));
}

/* One sum of 16 partials. */
RDI_INLINE float rdi_tree1(__m256 lo, __m256 hi) {
  __m256 p = _mm256_add_ps(lo, hi);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(p), _mm256_extractf128_ps(p, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* The first `left` lanes. */
RDI_INLINE __m256i rdi_lanes(int64_t left) {
  int n = left > 8 ? 8 : left < 0 ? 0 : (int)left;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#endif
