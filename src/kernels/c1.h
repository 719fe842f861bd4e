/* The canonical arithmetic (docs/NUMERICS.md), for kernels and the core. Every constant is given by
 * its bits; tools/check_constants.py derives them again. FP32, round to nearest even, subnormals
 * flushed (C2), one rounding per operation written here, fma only where written.
 *
 * The flushing is the processor's (cpu/fpenv.h) where it does exactly what C2 says, which is x86 with
 * FTZ and DAZ; with RDI_SOFT, and on every other architecture, it is done by util/c2.h. */
#ifndef RDI_KERNELS_C1_H
#define RDI_KERNELS_C1_H

#include <math.h>
#include "util/c2.h"
#include "util/half.h"

#ifdef __FAST_MATH__
#error "the bits of the results are part of the contract: compile without -ffast-math"
#endif

#define RDI_C1_LOG2E 0x3FB8AA3Bu
#define RDI_C1_LN2HI 0x3F317200u
#define RDI_C1_LN2LO 0x35BFBE8Eu
#define RDI_C1_E0    0x39506967u
#define RDI_C1_E1    0x3AB743CEu
#define RDI_C1_E2    0x3C088908u
#define RDI_C1_E3    0x3D2AA9C1u
#define RDI_C1_E4    0x3E2AAAAAu
#define RDI_C1_E5    0x3F000000u
#define RDI_C1_L6    0x3D9D89D9u
#define RDI_C1_L5    0x3DBA2E8Cu
#define RDI_C1_L4    0x3DE38E39u
#define RDI_C1_L3    0x3E124925u
#define RDI_C1_L2    0x3E4CCCCDu
#define RDI_C1_L1    0x3EAAAAABu
#define RDI_C1_EPS   0x358637BDu /* 1e-6, the usual eps of the l2 norm */
#define RDI_C1_LEFT  (-17.0f)    /* where softplus becomes exp: exp(-17) = 4e-8 */

#if defined(RDI_SOFT) || !defined(__SSE2__)
static inline float rdi_add(float a, float b) { return rdi_c2_add(a, b); }
static inline float rdi_sub(float a, float b) { return rdi_c2_sub(a, b); }
static inline float rdi_mul(float a, float b) { return rdi_c2_mul(a, b); }
static inline float rdi_div(float a, float b) { return rdi_c2_div(a, b); }
static inline float rdi_fma(float a, float b, float c) { return rdi_c2_fma(a, b, c); }
static inline float rdi_sqrt(float a) { return rdi_c2_sqrt(a); }
#else
static inline float rdi_add(float a, float b) { return a + b; }
static inline float rdi_sub(float a, float b) { return a - b; }
static inline float rdi_mul(float a, float b) { return a * b; }
static inline float rdi_div(float a, float b) { return a / b; }
static inline float rdi_fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline float rdi_sqrt(float a) { return sqrtf(a); }
#endif

/* exp(x) within 1.3 ulp where it is at least 2^-126, else +0; exp_c(0) = 1, exp_c(-inf) = +0,
 * exp_c(x > 89) = +inf, NaN stays. */
static inline float rdi_exp_c(float x) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, ties to even */
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  const float t = rdi_add(rdi_mul(x, rdi_f32_from_bits(RDI_C1_LOG2E)), magic);
  const float n = t - magic;
  float r = rdi_fma(-n, rdi_f32_from_bits(RDI_C1_LN2HI), x);
  r = rdi_fma(-n, rdi_f32_from_bits(RDI_C1_LN2LO), r);
  float p = rdi_f32_from_bits(RDI_C1_E0);
  p = rdi_fma(p, r, rdi_f32_from_bits(RDI_C1_E1));
  p = rdi_fma(p, r, rdi_f32_from_bits(RDI_C1_E2));
  p = rdi_fma(p, r, rdi_f32_from_bits(RDI_C1_E3));
  p = rdi_fma(p, r, rdi_f32_from_bits(RDI_C1_E4));
  p = rdi_fma(p, r, rdi_f32_from_bits(RDI_C1_E5));
  p = rdi_fma(p, rdi_mul(r, r), rdi_add(r, 1.0f));
  /* p * 2^n in two factors: the first product is exact (n in [-151, 128], p near 1), so the result
   * is rounded once. For NaN the factors are arbitrary and p is NaN. */
  const uint32_t shifted = rdi_f32_bits(t) - rdi_f32_bits(magic) + 256u; /* n + 256 > 0 */
  const uint32_t n1 = shifted >> 1, n2 = shifted - n1;
  return rdi_mul(p * rdi_f32_from_bits((n1 - 1u) << 23), rdi_f32_from_bits((n2 - 1u) << 23));
}

/* 1 / (1 + exp(-x)) */
static inline float rdi_sig_c(float x) { return rdi_div(1.0f, rdi_add(1.0f, rdi_exp_c(-x))); }

/* log(1 + exp(x)) = max(x, 0) + 2 atanh(z / (2 + z)), z = exp(-|x|) */
static inline float rdi_softplus_c(float x) {
  const float z = rdi_exp_c(-fabsf(x));
  const float s = rdi_div(z, rdi_add(2.0f, z)), w = rdi_mul(s, s);
  float p = rdi_f32_from_bits(RDI_C1_L6);
  p = rdi_fma(p, w, rdi_f32_from_bits(RDI_C1_L5));
  p = rdi_fma(p, w, rdi_f32_from_bits(RDI_C1_L4));
  p = rdi_fma(p, w, rdi_f32_from_bits(RDI_C1_L3));
  p = rdi_fma(p, w, rdi_f32_from_bits(RDI_C1_L2));
  p = rdi_fma(p, w, rdi_f32_from_bits(RDI_C1_L1));
  p = rdi_fma(p, w, 1.0f);
  return rdi_fma(rdi_mul(2.0f, s), p, x > 0.0f ? x : 0.0f);
}

/* exp(A_log) of the raw gates, capped so that it stays finite (inf * 0 would be NaN); NaN stays. */
static inline float rdi_eA_c(float A_log) { return rdi_exp_c(A_log > 88.0f ? 88.0f : A_log); }

/* exp(A_log) softplus(x). Far to the left softplus(x) is exp(x), which would flush to zero while
 * exp(A_log) is huge: there the exponents are added first. */
static inline float rdi_rate_c(float A_log, float eA, float x) {
  if (!(x < RDI_C1_LEFT)) return rdi_mul(eA, rdi_softplus_c(x));
  const float y = rdi_add(A_log, x);
  return rdi_exp_c(y > 88.0f ? 88.0f : y);
}

/* The halving tree over 16 partial sums; p is overwritten. */
static inline float rdi_tree16(float *p) {
  for (int r = 0; r < 8; r++) p[r] = rdi_add(p[r], p[r + 8]);
  for (int r = 0; r < 4; r++) p[r] = rdi_add(p[r], p[r + 4]);
  for (int r = 0; r < 2; r++) p[r] = rdi_add(p[r], p[r + 2]);
  return rdi_add(p[0], p[1]);
}

/* dot(a, b) over Kp (a multiple of 16, at least 16) elements: partial sums by index mod 16. */
static inline float rdi_dot16(const float *a, const float *b, int64_t Kp) {
  float p[16];
  for (int r = 0; r < 16; r++) p[r] = rdi_mul(a[r], b[r]);
  for (int64_t j = 16; j < Kp; j += 16)
#pragma GCC unroll 1 /* unrolled, gcc keeps 16 scalar chains instead of two vectors */
    for (int r = 0; r < 16; r++) p[r] = rdi_fma(a[j + r], b[j + r], p[r]);
  return rdi_tree16(p);
}

#endif
