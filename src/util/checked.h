/* Size arithmetic that cannot wrap: each returns 1 and stores the result, or 0 when it does not
 * fit. */
#ifndef RDI_UTIL_CHECKED_H
#define RDI_UTIL_CHECKED_H

#include <stddef.h>
#include <stdint.h>

static inline int rdi_mul64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

static inline int rdi_add64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

static inline int rdi_mulsz(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

static inline int rdi_addsz(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

/* n rounded up to a multiple of `to` (a power of two). */
static inline int rdi_round_up(size_t n, size_t to, size_t *out) {
  size_t up;
  if (!rdi_addsz(n, to - 1, &up)) return 0;
  *out = up & ~(to - 1);
  return 1;
}

static inline int64_t rdi_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rdi_max64(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
