/* The canonical functions of C1 and the conversion kernels, written once over a "column": 16 floats in
 * as many registers as an instruction set needs. Included after <isa>/column.h, which defines
 *
 *   rdi_col; enum { WIDE }             columns that run abreast to hide the latency of an fma
 *   c_set(x) c_load(p) c_store(p, x)   all lanes; 16 floats, any alignment
 *   c_add c_mul c_div c_sqrt c_rint    IEEE, nearest even
 *   c_fma(a,b,c) = ab+c                c_nfma(a,b,c) = c-ab, one rounding
 *   c_min c_max                        a NaN in the second operand survives
 *   c_flip(x) = -x                     c_below(x) = -|x|
 *   c_pow2(p, n) = p 2^n               n an integer in [-152, 129], p near 1; rounded once
 *   c_left(x, y, a, b)                 x < y ? a : b, lane by lane
 *   c_fix(x) = x                       a value the compiler may not look behind
 *   c_any(p, dtype, at, left)          elements at.. of f32, f16 or bf16; lanes from `left` on are +0
 *                                      and their memory is not touched
 *   c_keep(x, left)                    lanes from `left` on become +0
 *   c_put(p, x, left)                  stores the first `left` lanes as f32
 *   c_put16(p, dtype, x, left)         the same as f16 or bf16, nearest even
 *   c_sum(x)                           the halving tree
 */
#ifndef RDI_KERNELS_COLUMN_H
#define RDI_KERNELS_COLUMN_H

#include "kernels/kernel.h"

#include <string.h>

RDI_INLINE rdi_col c_bits(uint32_t b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return c_set(x);
}

#define RDI_EACH                                                                                   \
  RDI_UNROLL                                                                                       \
  for (int i = 0; i < WIDE; i++)

RDI_INLINE void rdi_exp(rdi_col x[WIDE]) {
  static const uint32_t e[6] = {0x39506967, 0x3AB743CE, 0x3C088908,
                                0x3D2AA9C1, 0x3E2AAAAA, 0x3F000000};
  rdi_col n[WIDE], r[WIDE], p[WIDE];
  RDI_EACH {
    x[i] = c_max(c_set(-105.0f), c_min(c_set(89.0f), x[i]));
    n[i] = c_rint(c_mul(x[i], c_bits(0x3FB8AA3B)));
  }
  RDI_EACH {
    r[i] = c_nfma(n[i], c_bits(0x35BFBE8E), c_nfma(n[i], c_bits(0x3F317200), x[i]));
    p[i] = c_bits(e[0]);
  }
  RDI_UNROLL
  for (int j = 1; j < 6; j++) RDI_EACH p[i] = c_fma(p[i], r[i], c_bits(e[j]));
  RDI_EACH {
    p[i] = c_fma(p[i], c_mul(r[i], r[i]), c_add(r[i], c_set(1.0f)));
    x[i] = c_pow2(p[i], n[i]);
  }
}

RDI_INLINE void rdi_sig(rdi_col x[WIDE]) {
  RDI_EACH x[i] = c_flip(x[i]);
  rdi_exp(x);
  RDI_EACH x[i] = c_div(c_set(1.0f), c_add(c_set(1.0f), x[i]));
}

/* exp(A_log) softplus(x), and left of -17 exp(min(A_log + x, 88)): both need one exponential. */
RDI_INLINE void rdi_rate(rdi_col x[WIDE], float A_log, float eA) {
  static const uint32_t l[6] = {0x3D9D89D9, 0x3DBA2E8C, 0x3DE38E39,
                                0x3E124925, 0x3E4CCCCD, 0x3EAAAAAB};
  const rdi_col edge = c_set(-17.0f);
  rdi_col z[WIDE], s[WIDE], w[WIDE], p[WIDE];
  RDI_EACH z[i] = c_left(x[i], edge, c_min(c_set(88.0f), c_add(c_set(A_log), x[i])), c_below(x[i]));
  rdi_exp(z);
  RDI_EACH {
    s[i] = c_left(x[i], edge, c_set(1.0f), z[i]); /* no underflow in lanes that do not count */
    s[i] = c_div(s[i], c_add(c_set(2.0f), s[i]));
    w[i] = c_mul(s[i], s[i]);
    p[i] = c_bits(l[0]);
  }
  RDI_UNROLL
  for (int j = 1; j < 6; j++) RDI_EACH p[i] = c_fma(p[i], w[i], c_bits(l[j]));
  RDI_EACH {
    p[i] = c_fma(p[i], w[i], c_set(1.0f));
    /* of NaN, p tells */
    p[i] = c_mul(c_set(eA), c_fma(c_add(s[i], s[i]), p[i], c_max(x[i], c_set(0.0f))));
    x[i] = c_left(x[i], edge, z[i], p[i]);
  }
}

RDI_INLINE void rdi_widen(float *dst, const void *src, rd_dtype dtype, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) c_store(dst + i, c_any(src, dtype, i, 16));
  if (i < n) c_put(dst + i, c_any(src, dtype, i, n - i), n - i);
}

RDI_INLINE void rdi_narrow(uint16_t *dst, rd_dtype dtype, const float *src, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) c_put16(dst + i, dtype, c_load(src + i), 16);
  if (i < n) c_put16(dst + i, dtype, c_any(src, RD_F32, i, n - i), n - i);
}

#endif
