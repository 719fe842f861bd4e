/* Conversions between f32 and the two 16-bit types in integer arithmetic: the same bits on every
 * machine and in every FP environment. Rounding to nearest even, subnormals kept, overflow to
 * infinity, a NaN stays a quiet NaN. */
#ifndef RDI_UTIL_HALF_H
#define RDI_UTIL_HALF_H

#include <stdint.h>
#include <string.h>

static inline float rdi_f32_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t rdi_f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float rdi_f32_from_bf16(uint16_t h) { return rdi_f32_from_bits((uint32_t)h << 16); }

static inline uint16_t rdi_bf16_from_f32(float x) {
  const uint32_t u = rdi_f32_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
  /* Half of the last kept place minus one, plus the last kept bit: ties go to even; a carry out of
   * the significand raises the exponent, up to infinity. */
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float rdi_f32_from_f16(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u;
  uint32_t m = h & 0x3ffu;
  if (exponent == 31u)
    return rdi_f32_from_bits(sign | 0x7f800000u | (m << 13) | (m != 0 ? 0x400000u : 0u));
  if (exponent != 0) return rdi_f32_from_bits(sign | ((exponent + 112u) << 23) | (m << 13));
  if (m == 0) return rdi_f32_from_bits(sign);
  uint32_t e = 113; /* subnormal: m * 2^-24, normalised by shifting the leading one to bit 10 */
  while ((m & 0x400u) == 0) m <<= 1, e--;
  return rdi_f32_from_bits(sign | (e << 23) | ((m & 0x3ffu) << 13));
}

static inline uint16_t rdi_f16_from_f32(float x) {
  const uint32_t u = rdi_f32_bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
  if (a >= 0x38800000u)                                    /* 2^-14: normal */
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
  if (a <= 0x33000000u) return (uint16_t)sign;                              /* 2^-25 ties to zero */
  const uint32_t shift = 126u - (a >> 23), m = (a & 0x7fffffu) | 0x800000u; /* 14..24 */
  const uint32_t half = 1u << (shift - 1u);
  return (uint16_t)(sign | ((m + half - 1u + ((m >> shift) & 1u)) >> shift));
}

#endif
