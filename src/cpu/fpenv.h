/* The floating-point environment of C2 (docs/NUMERICS.md): round to nearest even, subnormals flushed
 * where the processor can do that, no traps. */
#ifndef RDI_CPU_FPENV_H
#define RDI_CPU_FPENV_H

#include <stdint.h>

#if !defined(__SSE2__) && !defined(__aarch64__)
#include <fenv.h>
#endif

/* The whole register of the thread, exception flags included. */
typedef struct rdi_fpenv {
#if defined(__SSE2__) || defined(__aarch64__)
  uint64_t control, status;
#else
  fenv_t env;
#endif
} rdi_fpenv;

/* Saves the environment and sets the canonical one with no flag raised; leave puts back what enter
 * found, so that neither modes nor flags of the caller change. */
void rdi_fpenv_enter(rdi_fpenv *saved);
void rdi_fpenv_leave(const rdi_fpenv *saved);

#endif
