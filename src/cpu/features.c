/* What the processor and the operating system let us use. A CPU flag alone is not enough: the
 * system must also save the wide registers, which XCR0 tells. */
#include "redelta/exec.h"

#if defined(__x86_64__)

#include <cpuid.h>

static uint64_t xcr0(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

uint32_t rd_isa_usable(void) {
  enum { YMM = 0x06, ZMM = 0xe6 }; /* XCR0: SSE, AVX; and the opmasks, ZMM_Hi256, Hi16_ZMM */
  uint32_t usable = RD_ISA_SCALAR, a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return usable;
  const uint32_t need1 = bit_FMA | bit_AVX | bit_F16C | bit_OSXSAVE;
  if ((c & need1) != need1) return usable;
  const uint64_t saved = xcr0();
  if ((saved & YMM) != YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return usable;
  if (!(b & bit_AVX2)) return usable;
  usable |= RD_ISA_SCALAR_FMA | RD_ISA_AVX2;
  const uint32_t need7 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  if ((b & need7) == need7 && (saved & ZMM) == ZMM) usable |= RD_ISA_AVX512;
#ifdef RDI_EMULATE_AMX
  const int tiles = 1;
#else
  enum {
    AMX = 1 << 22 | 1 << 24,
    TILES = 0x60000
  }; /* AMX-BF16, AMX-TILE; their two parts of XCR0 */
  const int tiles = (d & AMX) == AMX && (saved & TILES) == TILES;
#endif
  if (tiles && (usable & RD_ISA_AVX512)) usable |= RD_ISA_AMX; /* its kernels use both */
  return usable;
}

#elif defined(__aarch64__)

uint32_t rd_isa_usable(void) {
  return RD_ISA_SCALAR | RD_ISA_NEON;
} /* part of the base architecture */

#else

uint32_t rd_isa_usable(void) { return RD_ISA_SCALAR; }

#endif
