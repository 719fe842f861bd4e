#include "cpu/fpenv.h"

#if defined(__SSE2__)

#include <xmmintrin.h>

enum { CANONICAL = 0x9fc0 }; /* all exceptions masked, nearest, FTZ, DAZ, no flags */

void rdi_fpenv_enter(rdi_fpenv *saved) {
  saved->control = _mm_getcsr();
  saved->status = 0;
  if (saved->control != CANONICAL) _mm_setcsr(CANONICAL);
}

void rdi_fpenv_leave(const rdi_fpenv *saved) { _mm_setcsr((unsigned)saved->control); }

#elif defined(__aarch64__)

/* FZ alone: nearest, FZ16, DN and AH off, traps off. FPSR holds the sticky flags. */
enum { FZ = 1 << 24 };

void rdi_fpenv_enter(rdi_fpenv *saved) {
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved->control)::"memory");
  __asm__ volatile("mrs %0, fpsr" : "=r"(saved->status)::"memory");
  __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)FZ) : "memory");
  __asm__ volatile("msr fpsr, %0" ::"r"((uint64_t)0) : "memory");
}

void rdi_fpenv_leave(const rdi_fpenv *saved) {
  __asm__ volatile("msr fpcr, %0" ::"r"(saved->control) : "memory");
  __asm__ volatile("msr fpsr, %0" ::"r"(saved->status) : "memory");
}

#else

void rdi_fpenv_enter(rdi_fpenv *saved) {
  fegetenv(&saved->env);
  fesetenv(FE_DFL_ENV);
}

void rdi_fpenv_leave(const rdi_fpenv *saved) { fesetenv(&saved->env); }

#endif
