/* The halving tree of C1 for 16 dot products at once. */
#ifndef RDI_KERNELS_AVX512_TREE_H
#define RDI_KERNELS_AVX512_TREE_H

#include <immintrin.h>

/* Loops over registers: arrays of vectors only become registers when these vanish. */
#define RDI_UNROLL _Pragma("GCC unroll 16")
#define RDI_INLINE static inline __attribute__((always_inline))

/* p[r] + p[r+h] for two vectors at once: one shuffle brings the halves that move, and each half is
 * added where it stays. The second operand's halves meet the other way round, which IEEE addition does
 * not see. Two masked additions instead of a blend and one: they leave the multipliers' ports alone. */
RDI_INLINE __m512 rdi_meet(__m512 a, __m512 b, __mmask16 from_b, __m512 moved) {
  return _mm512_mask_add_ps(_mm512_add_ps(a, moved), from_b, b, moved);
}

RDI_INLINE __m512 rdi_fold8(__m512 a, __m512 b) { /* [a(8) | b(8)] */
  return rdi_meet(a, b, 0xff00, _mm512_shuffle_f32x4(a, b, 0x4e));
}

RDI_INLINE __m512 rdi_fold4(__m512 a, __m512 b) { /* 128-bit lanes a0 b0 a1 b1 of [x|y] inputs */
  const __m512i other = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
  __m512d moved = _mm512_permutex2var_pd(_mm512_castps_pd(a), other, _mm512_castps_pd(b));
  return rdi_meet(a, b, 0xf0f0, _mm512_castpd_ps(moved));
}

RDI_INLINE __m512 rdi_fold2(__m512 a, __m512 b) { /* in each 128-bit lane: a(2) b(2) */
  __m512d moved = _mm512_shuffle_pd(_mm512_castps_pd(a), _mm512_castps_pd(b), 0x55);
  return rdi_meet(a, b, 0xcccc, _mm512_castpd_ps(moved));
}

RDI_INLINE __m512 rdi_fold1(__m512 a, __m512 b) { /* in each 128-bit lane: a a b b */
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Lanes 0..7: the sums of lo[0..7]; lanes 8..15: those of hi[0..7]. */
RDI_INLINE __m512 rdi_tree16(const __m512 lo[8], const __m512 hi[8]) {
  __m512 p[8], w[4];
  RDI_UNROLL
  for (int r = 0; r < 8; r++) p[r] = rdi_fold8(lo[r], hi[r]);
  RDI_UNROLL
  for (int r = 0; r < 4; r++) w[r] = rdi_fold4(p[r], p[r + 4]);
  return rdi_fold1(rdi_fold2(w[0], w[1]), rdi_fold2(w[2], w[3]));
}

/* One sum. */
RDI_INLINE float rdi_tree1(__m512 p) {
  __m256 h = _mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* Lanes of a column of 16 keys that exist. */
RDI_INLINE __mmask16 rdi_lanes(long long left) {
  const unsigned lanes = left >= 16 ? 0xffffu : (1u << (left > 0 ? left : 0)) - 1u;
  return (__mmask16)lanes;
}

#endif
