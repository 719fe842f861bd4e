/* Counting and the closing line of our own test programs. */
#ifndef RDT_REPORT_H
#define RDT_REPORT_H

#include <stdio.h>

typedef struct report {
  long passed, failed, skipped;
} report;

static inline int report_end(const report *r) {
  printf("%ld passed, %ld failed, %ld skipped\n", r->passed, r->failed, r->skipped);
  return r->failed != 0;
}

/* One named check; the line that failed is printed in full. */
#define CHECK(r, condition, ...)                                                                   \
  do {                                                                                             \
    if (condition) {                                                                               \
      (r)->passed++;                                                                               \
    } else {                                                                                       \
      (r)->failed++;                                                                               \
      printf("FAILED %s:%d %s: ", __FILE__, __LINE__, #condition);                                 \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
    }                                                                                              \
  } while (0)

#endif
