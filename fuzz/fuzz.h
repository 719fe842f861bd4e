/* Every fuzz target is one function of libFuzzer's shape; standalone.c runs it without clang. */
#ifndef RD_FUZZ_FUZZ_H
#define RD_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold in every build: assert() would vanish in a release. */
#define FUZZ_MUST(condition)                                                                       \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

#endif
