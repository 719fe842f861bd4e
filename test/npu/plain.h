/*
 * Plain definitions for the tests of the AI Core model: addresses and arithmetic written out from
 * the documentation with the slowest obvious means (ldexp, rint, libm), sharing nothing with npu/.
 */
#ifndef TEST_NPU_PLAIN_H
#define TEST_NPU_PLAIN_H

#include <redelta/npu_intrinsics.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t rng_next(uint64_t *s) {
  uint64_t z = (*s += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static inline uint32_t rng_below(uint64_t *s, uint32_t n) {
  return (uint32_t)(rng_next(s) >> 32) % n;
}

/* mantissa bits, exponent bias, storage bits of the 16-bit formats */
static inline double plain_decode(uint16_t h, int mantissa, int bias) {
  int exponent = (h & 0x7FFF) >> mantissa, fraction = h & ((1 << mantissa) - 1),
      top = (0x7FFF >> mantissa);
  double x;
  if (exponent == top)
    x = fraction ? (double)NAN : (double)INFINITY;
  else if (exponent == 0)
    x = ldexp(fraction, 1 - bias - mantissa);
  else
    x = ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  return h & 0x8000 ? -x : x;
}
static inline uint16_t plain_encode(double x, int mantissa, int bias) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  int top = 0x7FFF >> mantissa;
  x = fabs(x);
  if (isnan(x)) return (uint16_t)(sign | top << mantissa | 1 << (mantissa - 1));
  if (isinf(x)) return (uint16_t)(sign | top << mantissa);
  int e = x > 0 ? ilogb(x) : -bias;
  if (e < 1 - bias) e = 1 - bias;
  double units = rint(ldexp(x, mantissa - e)); /* nearest even */
  long code = ((long)(e + bias - 1) << mantissa) + (long)units;
  if (code >= (long)top << mantissa) code = (long)top << mantissa;
  return (uint16_t)(sign | (uint16_t)code);
}
static inline double plain_f16(uint16_t h) { return plain_decode(h, 10, 15); }
static inline double plain_bf16(uint16_t h) { return plain_decode(h, 7, 127); }
static inline uint16_t plain_to_f16(double x) { return plain_encode(x, 10, 15); }
static inline uint16_t plain_to_bf16(double x) { return plain_encode(x, 7, 127); }

/* Infinity becomes the largest number, NaN becomes +0. */
static inline void plain_saturate(uint8_t *f16) {
  uint16_t h;
  memcpy(&h, f16, 2);
  double x = plain_f16(h);
  h = isnan(x) ? 0 : plain_to_f16(fmax(-65504, fmin(x, 65504)));
  memcpy(f16, &h, 2);
}

static inline double plain_get(const uint8_t *p, rd_npu_type t) {
  uint16_t h;
  float f;
  int32_t s;
  switch (t) {
  case RD_NPU_F16:
    memcpy(&h, p, 2);
    return plain_f16(h);
  case RD_NPU_BF16:
    memcpy(&h, p, 2);
    return plain_bf16(h);
  case RD_NPU_F32:
    memcpy(&f, p, 4);
    return (double)f;
  default:
    memcpy(&s, p, 4);
    return s;
  }
}
static inline void plain_put(uint8_t *p, rd_npu_type t, double x) {
  uint16_t h;
  float f;
  switch (t) {
  case RD_NPU_F16:
    h = plain_to_f16(x), memcpy(p, &h, 2);
    break;
  case RD_NPU_BF16:
    h = plain_to_bf16(x), memcpy(p, &h, 2);
    break;
  default:
    f = (float)x, memcpy(p, &f, 4);
    break;
  }
}
static inline uint32_t plain_size(rd_npu_type t) {
  return t == RD_NPU_F32 || t == RD_NPU_S32 ? 4 : t == RD_NPU_S64 ? 8 : 2;
}

/* Bytes equal, two NaNs of the type counting as equal. */
static inline bool plain_same(const uint8_t *a, const uint8_t *b, rd_npu_type t) {
  if (memcmp(a, b, plain_size(t)) == 0) return true;
  if (t == RD_NPU_S32) return false;
  return isnan(plain_get(a, t)) && isnan(plain_get(b, t));
}

/* Values that matter: ordinary ones, zeros, infinities, NaN, subnormals, extremes. */
static inline void plain_random(uint64_t *s, uint8_t *p, rd_npu_type t) {
  uint64_t r = rng_next(s);
  uint32_t kind = (uint32_t)(r >> 56) % 16;
  if (t == RD_NPU_S32 || kind == 15) {
    memcpy(p, &r, plain_size(t));
    return;
  }
  static const double special[] = {0.0,   -0.0,  INFINITY, -INFINITY,     0x1p-24,
                                   65504, 65520, 0x1p-149, 0x1.fffffep127};
  double x = kind == 14 ? special[r % 9]
                        : ((double)(int64_t)(r << 8) * 0x1p-63) * ldexp(1, (int)(r >> 50 & 7) - 4);
  plain_put(p, t, x);
}

#define CHECK_MEMORY 262144u /* bytes of UB on 310P and 950 */

#endif
