/* What must hold for every random kernel. */
#ifndef TEST_NPU_RANDOM_PROPERTIES_H
#define TEST_NPU_RANDOM_PROPERTIES_H

#include "second.h"

typedef enum property {
  HOLDS,
  GENERATOR, /* a kernel that the model refuses: the generator's mistake */
  SAME_PAIRS,
  SAME_FLAGS,
  EQUAL_BITS,
  PAIRS_HAPPEN,
  MUTANTS_DETECTED
} property;

typedef struct depth {
  uint32_t random;   /* schedules of a kernel without findings */
  uint64_t explored; /* cap of explored schedules; 0: none */
  bool mutate;
  bool reports_only; /* compare what the two checkers say, run nothing */
  defect planted;    /* in the second checker */
} depth;

typedef struct tally {
  uint64_t kernels, clean, racy, deadlocked, other, pairs, by_rule, schedules, mutants;
  uint64_t seen[R_COUNT];
} tally;

extern const char *const property_names[];
/* The property that fails, and how. */
property examine(const random_kernel *k, const depth *d, tally *t, char *why, size_t size);

#endif
