/* A column (kernels/column.h) in four NEON registers, and the pieces of it the row kernels use. */
#ifndef RDI_KERNELS_NEON_COLUMN_H
#define RDI_KERNELS_NEON_COLUMN_H

#include "redelta/types.h"

#include <arm_neon.h>
#include <string.h>

/* Loops over registers: arrays of vectors only become registers when these vanish. */
#define RDI_UNROLL _Pragma("GCC unroll 16")
#define RDI_INLINE static inline __attribute__((always_inline))

typedef struct rdi_col {
  float32x4_t q[4];
} rdi_col;
enum { WIDE = 1 };

#define C_EACH                                                                                     \
  RDI_UNROLL                                                                                       \
  for (int j = 0; j < 4; j++)
#define C_MAP(name, args, expression)                                                              \
  RDI_INLINE rdi_col name args {                                                                   \
    rdi_col y;                                                                                     \
    C_EACH y.q[j] = expression;                                                                    \
    return y;                                                                                      \
  }

RDI_INLINE rdi_col c_fix(rdi_col a) {
  C_EACH __asm__("" : "+w"(a.q[j]));
  return a;
}

/* p 2^n by the exponent field, p in [0.5, 2): no flag is raised where the result is flushed or
 * infinite. n is an integer (0 for NaN, which p carries). */
RDI_INLINE float32x4_t pow2(float32x4_t p, float32x4_t n) {
  const int32x4_t i = vcvtnq_s32_f32(n), bits = vreinterpretq_s32_f32(p);
  const int32x4_t field = vaddq_s32(vshrq_n_s32(bits, 23), i);
  int32x4_t y = vaddq_s32(bits, vshlq_n_s32(i, 23));
  y = vbslq_s32(vcleq_s32(field, vdupq_n_s32(0)), vdupq_n_s32(0), y);
  y = vbslq_s32(vcgeq_s32(field, vdupq_n_s32(255)), vdupq_n_s32(0x7f800000), y);
  return vbslq_f32(vceqq_f32(p, p), vreinterpretq_f32_s32(y), p);
}

C_MAP(c_set, (float x), vdupq_n_f32(x))
C_MAP(c_load, (const float *p), vld1q_f32(p + 4 * j))
C_MAP(c_add, (rdi_col a, rdi_col b), vaddq_f32(a.q[j], b.q[j]))
C_MAP(c_mul, (rdi_col a, rdi_col b), vmulq_f32(a.q[j], b.q[j]))
C_MAP(c_div, (rdi_col a, rdi_col b), vdivq_f32(a.q[j], b.q[j]))
C_MAP(c_min, (rdi_col a, rdi_col b), vminq_f32(a.q[j], b.q[j]))
C_MAP(c_max, (rdi_col a, rdi_col b), vmaxq_f32(a.q[j], b.q[j]))
C_MAP(c_sqrt, (rdi_col a), vsqrtq_f32(a.q[j]))
C_MAP(c_rint, (rdi_col a), vrndnq_f32(a.q[j]))
C_MAP(c_flip, (rdi_col a), vnegq_f32(a.q[j]))
C_MAP(c_below, (rdi_col a), vnegq_f32(vabsq_f32(a.q[j])))
C_MAP(c_fma, (rdi_col a, rdi_col b, rdi_col c), vfmaq_f32(c.q[j], a.q[j], b.q[j]))
C_MAP(c_nfma, (rdi_col a, rdi_col b, rdi_col c), vfmsq_f32(c.q[j], a.q[j], b.q[j]))
C_MAP(c_pow2, (rdi_col p, rdi_col n), pow2(p.q[j], n.q[j]))
C_MAP(c_left, (rdi_col x, rdi_col edge, rdi_col a, rdi_col b),
      vbslq_f32(vcltq_f32(x.q[j], edge.q[j]), a.q[j], b.q[j]))

RDI_INLINE void c_store(float *p, rdi_col x) { C_EACH vst1q_f32(p + 4 * j, x.q[j]); }

/* The first two steps of the halving tree: 16 partial sums become 4. */
RDI_INLINE float32x4_t rdi_fold16(const float32x4_t p[4]) {
  return vaddq_f32(vaddq_f32(p[0], p[2]), vaddq_f32(p[1], p[3]));
}

/* The last two steps for four sums at once. */
RDI_INLINE float32x4_t rdi_tree4(const float32x4_t p[4]) {
  float32x4_t x = vaddq_f32(vcombine_f32(vget_low_f32(p[0]), vget_low_f32(p[1])),
                            vcombine_f32(vget_high_f32(p[0]), vget_high_f32(p[1])));
  float32x4_t y = vaddq_f32(vcombine_f32(vget_low_f32(p[2]), vget_low_f32(p[3])),
                            vcombine_f32(vget_high_f32(p[2]), vget_high_f32(p[3])));
  return vpaddq_f32(x, y);
}

RDI_INLINE float c_sum(rdi_col a) {
  float32x4_t p = rdi_fold16(a.q);
  float32x2_t h = vadd_f32(vget_low_f32(p), vget_high_f32(p));
  return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}

RDI_INLINE uint32x4_t rdi_lanes(int64_t left) { /* the first `left` lanes */
  static const int32_t lane[4] = {0, 1, 2, 3};
  return vcgtq_s32(vdupq_n_s32((int32_t)(left > 4 ? 4 : left)), vld1q_s32(lane));
}

/* Up to four floats, none beyond `left` touched. */
RDI_INLINE float32x4_t rdi_some(const float *p, int64_t left) {
  float x[4] = {0};
  if (left >= 4) return vld1q_f32(p);
  for (int64_t i = 0; i < left; i++) x[i] = p[i];
  return vld1q_f32(x);
}

RDI_INLINE void rdi_put(float *p, float32x4_t x, int64_t left) {
  float y[4];
  if (left >= 4) {
    vst1q_f32(p, x);
    return;
  }
  vst1q_f32(y, x);
  for (int64_t i = 0; i < left; i++) p[i] = y[i];
}

RDI_INLINE float32x4_t rdi_mask(float32x4_t x, int64_t left) {
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), rdi_lanes(left)));
}

C_MAP(c_keep, (rdi_col a, int64_t left), rdi_mask(a.q[j], left - 4 * j))

RDI_INLINE rdi_col c_any(const void *p, rd_dtype dtype, int64_t at, int64_t left) {
  rdi_col y;
  if (dtype == RD_F32) {
    const float *f = (const float *)p + at;
    C_EACH y.q[j] = rdi_some(f + 4 * j, left - 4 * j);
    return y;
  }
  const uint16_t *h = (const uint16_t *)p + at;
  uint16_t part[16] = {0};
  if (left < 16) {
    for (int64_t i = 0; i < left; i++) part[i] = h[i];
    h = part;
  }
  C_EACH {
    uint16x4_t b = vld1_u16(h + 4 * j);
    y.q[j] = dtype == RD_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(b))
                             : vreinterpretq_f32_u32(vshll_n_u16(b, 16));
  }
  return y;
}

RDI_INLINE void c_put(float *p, rdi_col x, int64_t left) {
  C_EACH rdi_put(p + 4 * j, x.q[j], left - 4 * j);
}

RDI_INLINE uint16x4_t four_to(float32x4_t x, rd_dtype dtype) {
  if (dtype == RD_F16) return vreinterpret_u16_f16(vcvt_f16_f32(x));
  uint32x4_t b = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(b, 16), vdupq_n_u32(1));
  uint32x4_t r = vaddq_u32(b, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  uint32x4_t quiet = vorrq_u32(b, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), r, quiet), 16);
}

RDI_INLINE void c_put16(void *p, rd_dtype dtype, rdi_col x, int64_t left) {
  uint16_t part[16], *h = left < 16 ? part : p;
  C_EACH vst1_u16(h + 4 * j, four_to(x.q[j], dtype));
  if (left < 16)
    for (int64_t i = 0; i < left; i++) ((uint16_t *)p)[i] = part[i];
}

#endif
