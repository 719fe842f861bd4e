/* C2 (docs/NUMERICS.md) on AArch64. FPCR.FZ flushes by the value before rounding: where the exact result
 * lies in [2^-126 (1 - 2^-25), 2^-126), C2 asks for 2^-126 and the processor gives zero. It raises the
 * underflow flag whenever it flushes a result. So the kernels run with FZ, and a call that raised the
 * flag runs again as the scalar kernel, which flushes in software (util/c2.h). That costs time where
 * numbers vanish, never bits. Included after registry.h. */
#ifndef RDI_KERNELS_NEON_FLUSH_H
#define RDI_KERNELS_NEON_FLUSH_H

#include <stdint.h>
#include <string.h>

enum { UFC = 1 << 3 };

/* Calls between the two must not be inlined there: the flag belongs to all of their work. */
static inline void underflow_clear(void) {
  uint64_t fpsr;
  __asm__ volatile("mrs %0, fpsr" : "=r"(fpsr)::"memory");
  __asm__ volatile("msr fpsr, %0" ::"r"(fpsr & ~(uint64_t)UFC) : "memory");
}

static inline int underflow(void) {
  uint64_t fpsr;
  __asm__ volatile("mrs %0, fpsr" : "=r"(fpsr)::"memory");
  return (fpsr & UFC) != 0;
}

/* What is worked on in place is saved first, 16 KiB of rows at a time. */
enum { SAVED = 4096 };

static inline int64_t rows_at_once(int64_t R, int64_t Kp, int in_place) {
  const int64_t most = SAVED / Kp / 8 * 8; /* at least 8: Kp <= 512 */
  return !in_place || R < most ? R : most;
}

static inline void save_rows(float *to, int64_t to_stride, const float *from, int64_t from_stride,
                             int64_t rows, int64_t K) {
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * to_stride, from + r * from_stride, (size_t)K * sizeof *to);
}

#endif
