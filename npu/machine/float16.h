/*
 * 16-bit floats and one-rounding arithmetic from plain C operations.
 * Everything is branch-light so the loops around it become vector code on any machine.
 */
#ifndef REDELTA_NPU_FLOAT16_H
#define REDELTA_NPU_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
static inline float float_from(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}
static inline uint64_t double_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}
static inline double double_from(uint64_t u) {
  double x;
  memcpy(&x, &u, 8);
  return x;
}

/* Exact.  Normal and subnormal values come from one multiplication by 2^112, which rebiases the
 * exponent; infinities and NaNs keep their payload. */
static inline float f16_to_float(uint16_t h) {
  uint32_t magnitude = (uint32_t)(h & 0x7FFFu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t finite = float_bits(float_from(magnitude) * 0x1p112f);
  uint32_t special = magnitude | 0x7F800000u;
  return float_from((magnitude >= 0x0F800000u ? special : finite) | sign);
}

/* Nearest even, overflow to infinity, NaN kept (quiet). */
static inline uint16_t f16_from_float(float x) {
  uint32_t u = float_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
  /* normal results: rebias, round half to even in the 13 dropped bits */
  uint32_t normal = (a - 0x38000000u + 0xFFFu + (a >> 13 & 1u)) >> 13;
  /* subnormal results: adding 0.5 aligns the significand to 2^-24 and rounds in hardware */
  uint32_t subnormal = float_bits(float_from(a) + 0.5f) - 0x3F000000u;
  uint32_t h = a < 0x38800000u ? subnormal : normal;
  h = a >= 0x477FF000u ? 0x7C00u : h;
  h = a > 0x7F800000u ? (0x7E00u | (a >> 13 & 0x3FFu)) : h;
  return (uint16_t)(h | sign);
}

/* Where only saturation exists: infinity becomes the largest number, NaN becomes +0. */
static inline uint16_t f16_saturate(uint16_t h) {
  uint32_t magnitude = h & 0x7FFFu;
  uint32_t finite = magnitude == 0x7C00u ? h - 1u : h;
  return (uint16_t)(magnitude > 0x7C00u ? 0u : finite);
}

static inline float bf16_to_float(uint16_t h) { return float_from((uint32_t)h << 16); }

static inline uint16_t bf16_from_float(float x) {
  uint32_t u = float_bits(x);
  uint32_t rounded = (u + 0x7FFFu + (u >> 16 & 1u)) >> 16;
  return (uint16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? (u >> 16 | 0x40u) : rounded);
}

/* A double squeezed to float by rounding to odd: a second rounding to 16 bits is then correct. */
static inline float float_odd(double x) {
  float f = (float)x;
  uint32_t u = float_bits(f);
  double back = (double)f;
  int inexact = back < x || back > x;
  int away = inexact && (x < 0 ? back < x : back > x);
  /* truncate, then make odd: an infinity reached by rounding steps back to the largest float */
  if (inexact) u = (u - (uint32_t)away) | 1u;
  return float_from(u);
}
static inline uint16_t f16_from_double(double x) { return f16_from_float(float_odd(x)); }
static inline uint16_t bf16_from_double(double x) { return bf16_from_float(float_odd(x)); }

/* a*b + c for floats, before the last rounding: the exact product plus c in double, rounded to odd,
 * so that rounding the result to float (or less) gives the fused result. */
static inline double fma_odd(float a, float b, float c) {
  double p = (double)a * (double)b, d = (double)c, s = p + d;
  double t = s - p, error = (p - (s - t)) + (d - t);
  uint64_t u = double_bits(s);
  /* inexact sum with an even last bit: move one step towards the error */
  uint64_t step = ((error > 0) == (s > 0)) ? 1u : ~(uint64_t)0;
  uint64_t move = ((error > 0 || error < 0) && !(u & 1u)) ? step : 0u;
  return double_from(u + move);
}
static inline float fma_float(float a, float b, float c) { return (float)fma_odd(a, b, c); }

#endif
