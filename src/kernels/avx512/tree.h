/* The halving tree of C1 for 16 dot products at once. */
#ifndef RDI_KERNELS_AVX512_TREE_H
#define RDI_KERNELS_AVX512_TREE_H

#include <immintrin.h>

/* Loops over registers: arrays of vectors only become registers when these vanish. */
#define RDI_UNROLL _Pragma("GCC unroll 16")
#define RDI_INLINE static inline __attribute__((always_inline))

/* p[r] + p[r+h] for two vectors in one addition: one blend keeps the halves that stay, one shuffle
 * brings those that move. The second operand's halves are added the other way round, which IEEE
 * addition does not see. */
RDI_INLINE __m512 rdi_fold8(__m512 a, __m512 b) { /* [a(8) | b(8)] */
  return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}

RDI_INLINE __m512 rdi_fold4(__m512 a, __m512 b) { /* 128-bit lanes a0 b0 a1 b1 of [x|y] inputs */
  __m512 stay = _mm512_mask_blend_ps(0xf0f0, a, b), move = _mm512_mask_blend_ps(0xf0f0, b, a);
  return _mm512_add_ps(stay, _mm512_shuffle_f32x4(move, move, 0xb1));
}

RDI_INLINE __m512 rdi_fold2(__m512 a, __m512 b) { /* in each 128-bit lane: a(2) b(2) */
  __m512 stay = _mm512_mask_blend_ps(0xcccc, a, b);
  __m512 move = _mm512_castpd_ps(
      _mm512_shuffle_pd(_mm512_castps_pd(a), _mm512_castps_pd(b), 0x55));
  return _mm512_add_ps(stay, move);
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
  return left >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << (left > 0 ? left : 0)) - 1u);
}

#endif
