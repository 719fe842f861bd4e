/* io/rng.h - the random numbers of gen, demo and the tests. SPDX-License-Identifier: Apache-2.0
 *
 * Counter-based: number i of a stream is a function of (seed, stream name, i) alone, so tensors can
 * be filled in any order, by any number of threads, and in another language:
 *
 *   mix(x):      x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^=
 * x >> 31 stream key = mix(mix(seed + G) ^ fnv1a64(name))           G = 0x9e3779b97f4a7c15 bits(i)
 * = mix(key + (i + 1) * G)                       (SplitMix64 with random access) uniform(i) =
 * (bits(i) >> 11) * 2^-53                      in [0, 1) normal(i)  = sqrt(-2 ln(1 - uniform(2i)))
 * cos(2 pi uniform(2i + 1))
 *
 * The logarithm and cosine are made of + - * / and sqrt here, so the same numbers come out with
 * every C library and compiler.
 */
#ifndef RD_IO_RNG_H
#define RD_IO_RNG_H

#include <stdint.h>

typedef struct rng {
  uint64_t key;
} rng;

rng rng_stream(uint64_t seed, const char *name);
uint64_t rng_bits(rng r, uint64_t i);
double rng_uniform(rng r, uint64_t i);
double rng_normal(rng r, uint64_t i);

/* A whole number in [0, n), n >= 1 and below 2^32; the bias is below n * 2^-64. */
uint32_t rng_below(rng r, uint64_t i, uint32_t n);

#endif
