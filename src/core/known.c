#include "core/known.h"

#include <float.h>
#include <stddef.h>

#include "kernels/c1.h"

/* The answers were computed in exact rational arithmetic with one rounding per operation. */

static int rounding_ok(void) {
  /* a*b is exactly halfway between 1 and 1 + 2^-23: only c decides, and a sum in double loses c. */
  volatile float a = 24929.0f, b = 673.0f / 16777216.0f, c = 0x1p-80f;
  if (rdi_f32_bits(fmaf(a, b, c)) != 0x3f800001u) return 0;
  c = -0x1p-80f;
  if (rdi_f32_bits(fmaf(a, b, c)) != 0x3f800000u) return 0;
  /* Contracted or excess precision would leave the product's tail. */
  volatile float x = 1.0f + 0x1p-12f, y = -(1.0f + 0x1p-11f);
  return x * x + y == 0.0f && fmaf(x, x, y) == 0x1p-24f;
}

static int dot_ok(void) {
  volatile float va[16], vb[16];
  float a[16], b[16];
  for (uint32_t i = 0; i < 16; i++) {
    const uint32_t sign = i % 3 == 1 ? 0x80000000u : 0u;
    va[i] = rdi_f32_from_bits(0x3f800000u | (i * 2654435761u + 12345u) >> 9);
    vb[i] = rdi_f32_from_bits((sign | 0x3f000000u) +
                              ((i % 4) << 23 | (i * 2246822519u + 197975u) >> 9));
  }
  for (int i = 0; i < 16; i++) a[i] = va[i], b[i] = vb[i];
  return rdi_f32_bits(rdi_dot16(a, b, 16)) == 0x420a86a9u; /* other orders and fused sums: ...aa */
}

static int exp_ok(void) {
  static const uint32_t known[][2] = {
      {0x00000000u, 0x3f800000u}, {0x3f800000u, 0x402df854u}, {0xbf800000u, 0x3ebc5ab2u},
      {0x3e99999au, 0x3facc82cu}, {0xc0a00000u, 0x3bdcc9ffu}, {0xc155eb85u, 0x35d18d6du},
      {0x42b16666u, 0x7f7a37fcu}, {0xff800000u, 0x00000000u},
  };
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    volatile float x = rdi_f32_from_bits(known[i][0]);
    if (rdi_f32_bits(rdi_exp_c(x)) != known[i][1]) return 0;
  }
  return 1;
}

#ifndef RDI_ASSUME_FLUSH
/* Flushed by the processor, or, as AArch64 does with what lies just below 2^-126 before rounding,
 * announced: the NEON kernels look at the underflow flag (kernels/neon/flush.h). */
static int border(float r) {
  int announced = 0;
#if defined(__aarch64__)
  uint64_t fpsr;
  __asm__ volatile("mrs %0, fpsr" : "=r"(fpsr)::"memory");
  announced = rdi_f32_bits(r) == 0 && (fpsr & 8) != 0;
#endif
  return rdi_f32_bits(r) == 0x00800000u || announced;
}

static void no_flags(void) {
#if defined(__aarch64__)
  __asm__ volatile("msr fpsr, %0" ::"r"((uint64_t)0) : "memory");
#endif
}

static int flush_ok(void) {
#if defined(__SSE2__) || defined(__aarch64__)
  volatile float tiny = 0x1p-126f, half = 0.5f, big = 0x1p126f;
  volatile float sub = rdi_f32_from_bits(0x80400000u), r;
  r = tiny * half; /* results, and as zeros of their sign */
  if (rdi_f32_bits(r) != 0) return 0;
  r = -tiny / (half * 8.0f);
  if (rdi_f32_bits(r) != 0x80000000u) return 0;
  r = sub * big; /* inputs */
  if (rdi_f32_bits(r) != 0x80000000u) return 0;
  volatile float zero = 0.0f;
  r = fmaf(zero, big, sub);
  if (rdi_f32_bits(r) != 0) return 0;
  volatile float root = 0x1p-63f,
                 less = rdi_f32_from_bits(0x20000000u - 4u), /* 2^-63 (1 - 2^-22) */
      more = rdi_f32_from_bits(0x20000000u + 2u);            /* 2^-63 (1 + 2^-22) */
  no_flags();
  r = less * more; /* 2^-126 (1 - 2^-44) */
  if (!border(r)) return 0;
  no_flags();
  r = fmaf(less, more, -0.0f);
  if (!border(r)) return 0;
  r = root * rdi_f32_from_bits(0x20000000u - 1u); /* 2^-126 (1 - 2^-24) is tiny */
  if (rdi_f32_bits(r) != 0) return 0;
  volatile float x = -88.5f;
  return rdi_f32_bits(rdi_exp_c(x)) == 0;
#else
  return 0; /* nothing is known about this processor's modes */
#endif
}
#else
static int flush_ok(void) { return 1; }
#endif

rdi_answers rdi_known_answers(void) {
  if (FLT_EVAL_METHOD != 0 || !rounding_ok() || !dot_ok() || !exp_ok()) return RDI_ANSWERS_WRONG;
  return flush_ok() ? RDI_ANSWERS_RIGHT : RDI_ANSWERS_UNFLUSHED;
}
