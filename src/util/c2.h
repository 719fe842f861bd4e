/* The operations of C2 (docs/NUMERICS.md) in software: a subnormal input reads as a zero of its sign,
 * and a result that is tiny after rounding - below 2^-126 when rounded to 24 bits with an unbounded
 * exponent - becomes a zero of its sign. The answers are the same whether the processor keeps
 * subnormals, flushes before or flushes after rounding; only rounding to nearest is asked of it.
 *
 * A result of at most 2^-126 is settled by the same operation with one operand times 2^64, where
 * nothing is tiny: |r| < 2^-62 there means |x| < 2^-126 here. Everything else the processor has right.
 * Sums, roots and comparisons never come near enough to the border to need that. */
#ifndef RDI_UTIL_C2_H
#define RDI_UTIL_C2_H

#include <math.h>
#include "util/half.h"

/* 2^-126 (1 - 2^-25): the smallest magnitude that rounds to 2^-126. */
#define RDI_C2_BORDER 0x1.ffffffp-127

static inline float rdi_c2_in(float x) {
  const uint32_t u = rdi_f32_bits(x);
  return (u & 0x7f800000u) != 0 ? x : rdi_f32_from_bits(u & 0x80000000u);
}

/* By the bits: a comparison of floats would depend on the mode. */
static inline int rdi_c2_tiny(float r) { return (rdi_f32_bits(r) & 0x7fffffffu) <= 0x00800000u; }

/* r: the result times 2^64 */
static inline float rdi_c2_settle(float r) {
  return fabsf(r) < 0x1p-62f ? copysignf(0.0f, r) : r * 0x1p-64f;
}

static inline float rdi_c2_mul_small(float a, float b) {
  const int a_less = fabsf(a) < fabsf(b);
  return rdi_c2_settle((a_less ? a : b) * 0x1p64f * (a_less ? b : a));
}

static inline float rdi_c2_mul(float a, float b) {
  a = rdi_c2_in(a), b = rdi_c2_in(b);
  const float r = a * b;
  return rdi_c2_tiny(r) ? rdi_c2_mul_small(a, b) : r;
}

/* With |c| >= 2^-60, c and the product's last places lie above 2^-108: the sum is exactly zero. */
static inline float rdi_c2_fma_small(float a, float b, float c, float r) {
  if (fabsf(c) >= 0x1p-60f) return r;
  const int a_less = fabsf(a) < fabsf(b);
  return rdi_c2_settle(fmaf((a_less ? a : b) * 0x1p64f, a_less ? b : a, c * 0x1p64f));
}

static inline float rdi_c2_fma(float a, float b, float c) {
  a = rdi_c2_in(a), b = rdi_c2_in(b), c = rdi_c2_in(c);
  const float r = fmaf(a, b, c);
  return rdi_c2_tiny(r) ? rdi_c2_fma_small(a, b, c, r) : r;
}

/* A quotient of at most 2^-126 has |a| <= 4, unless b is infinite. */
static inline float rdi_c2_div(float a, float b) {
  a = rdi_c2_in(a), b = rdi_c2_in(b);
  const float r = a / b;
  return rdi_c2_tiny(r) && fabsf(a) <= 4.0f ? rdi_c2_settle(a * 0x1p64f / b) : r;
}

static inline float rdi_c2_add(float a, float b) {
  return rdi_c2_in(rdi_c2_in(a) + rdi_c2_in(b)); /* a subnormal sum is exact */
}

static inline float rdi_c2_sub(float a, float b) { return rdi_c2_in(rdi_c2_in(a) - rdi_c2_in(b)); }

static inline float rdi_c2_sqrt(float a) { return sqrtf(rdi_c2_in(a)); }

/* p 2^n for p near 1 and n in [-152, 129]: the first of two products is exact. */
static inline float rdi_c2_scale(float p, int n) {
  const int half = n / 2, rest = n - half;
  p = p * rdi_f32_from_bits((uint32_t)(127 + half) << 23);
  return rdi_c2_mul(p, rdi_f32_from_bits((uint32_t)(127 + rest) << 23));
}

static inline float rdi_c2_narrow(double x) {
  const double m = fabs(x);
  const float sign = signbit(x) ? -1.0f : 1.0f;
  if (m < RDI_C2_BORDER) return copysignf(0.0f, sign);
  return m < 0x1p-126 ? copysignf(0x1p-126f, sign) : (float)x;
}

#endif
