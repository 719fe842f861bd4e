/* A small reproducible generator (splitmix64). */
#ifndef RDT_RANDOM_H
#define RDT_RANDOM_H

#include <math.h>
#include <stdint.h>

typedef struct rng {
  uint64_t s;
} rng;

static inline uint64_t rng_u64(rng *g) {
  uint64_t z = (g->s += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static inline int64_t rng_below(rng *g, int64_t n) { return (int64_t)(rng_u64(g) % (uint64_t)n); }

/* [0, 1) */
static inline double rng_unit(rng *g) { return (double)(rng_u64(g) >> 11) * 0x1p-53; }

static inline double rng_normal(rng *g) {
  const double u = 1 - rng_unit(g), v = rng_unit(g);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

#endif
