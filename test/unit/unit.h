/* What every unit test here includes; cmocka wants these headers before its own. */
#ifndef RD_TEST_UNIT_H
#define RD_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "redelta/redelta.h"

/* A small deterministic generator; tests print the seed they start from. */
static inline uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static inline float next_uniform(uint64_t *state) { /* [-1, 1) */
  return (float)next_random(state) * 0x1p-30f - 1.0f;
}

static inline void fill_random(float *p, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) p[i] = next_uniform(&seed);
}

#define assert_status(ctx, expected, call)                                                         \
  do {                                                                                             \
    const rd_status got_ = (call);                                                                 \
    if (got_ != (expected))                                                                        \
      fail_msg("%s: expected %s, got %s (%s)", #call, rd_status_name(expected),                    \
               rd_status_name(got_), rd_last_error(ctx));                                          \
  } while (0)

#endif
