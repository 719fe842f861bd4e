/* Counter-based random numbers. SPDX-License-Identifier: Apache-2.0 */
#include "io/rng.h"

#include <math.h>

#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

rng rng_stream(uint64_t seed, const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char *c = name; *c != '\0'; c++) {
    hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  }
  return (rng){mix(mix(seed + GOLDEN) ^ hash)};
}

uint64_t rng_bits(rng r, uint64_t i) { return mix(r.key + (i + 1) * GOLDEN); }

double rng_uniform(rng r, uint64_t i) { return (double)(rng_bits(r, i) >> 11) * 0x1p-53; }

/* ln of a number in (0, 1]: m * 2^e with m in [sqrt(1/2), sqrt(2)), then the artanh series in
 * s = (m-1)/(m+1), |s| < 0.1716; its first omitted term is below 1e-17. */
static double natural_log(double x) {
  int e;
  double m = frexp(x, &e);
  if (m < 0.70710678118654752440) {
    m *= 2;
    e--;
  }
  double s = (m - 1) / (m + 1), w = s * s, sum = 0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * w + 1.0 / n;
  return 2 * s * sum + e * 0.69314718055994530942;
}

/* cos(2 pi u) for u in [0, 1): folded to |angle| <= pi/2, then the Taylor series to the 22nd power.
 */
static double cos_turn(double u) {
  double t = u <= 0.5 ? u : 1 - u; /* cos(2 pi u) = cos(2 pi (1 - u)) */
  double sign = t <= 0.25 ? 1 : -1;
  if (t > 0.25) t = 0.5 - t;
  double w = 6.28318530717958647693 * t, x = w * w, sum = 1;
  for (int n = 22; n >= 2; n -= 2) sum = 1 - sum * x / (n * (n - 1));
  return sign * sum;
}

double rng_normal(rng r, uint64_t i) {
  double radius = sqrt(-2 * natural_log(1 - rng_uniform(r, 2 * i)));
  return radius * cos_turn(rng_uniform(r, 2 * i + 1));
}

uint32_t rng_below(rng r, uint64_t i, uint32_t n) {
  return (uint32_t)(((__uint128_t)rng_bits(r, i) * n) >> 64);
}
