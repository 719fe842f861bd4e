/*
 * The arithmetic of the vector unit: one line per instruction and type.
 *
 * A definition is written for n lanes in a row; npu/isa/vector.c cuts repeats and masks into such runs.
 * f16 is computed in f32 (or in a double rounded to odd) and rounded once: for + - * / and sqrt a
 * second rounding from f32 to f16 cannot change the result, because 24 >= 2*11 + 2.
 */
#include "npu/machine/vector.h"
#include "npu/machine/float16.h"

#include <math.h>

/* In-place use is lane for lane (npu/isa/limits.c), so the loops carry no dependence. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* exp in double to about 1 ulp: rounding to f32 is then correct for every f32 argument (the test
 * enumerates them).  |x| is cut where f32 has long become inf or 0; a NaN passes both cuts. */
static inline double exp_double(double x) {
  const double log2e = 0x1.71547652b82fep+0, ln2hi = 0x1.62e42fefa38p-1,
               ln2lo = 0x1.ef35793c7673p-45;
  const double shift = 0x1.8p52;
  x = x > 200 ? 200 : x;
  x = x < -200 ? -200 : x;
  double t = x * log2e + shift, n = t - shift;
  double r = (x - n * ln2hi) - n * ln2lo;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = 1.0 + (r + r * r * p);
  /* 2^n by exponent: the low bits of t hold n */
  return p * double_from((double_bits(t) + 1023u) << 52);
}

float rdn_exp(float x) { return (float)exp_double((double)x); }

static inline float max_float(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
static inline float min_float(float a, float b) { return a != a ? a : b != b ? b : a < b ? a : b; }
static inline int32_t add_s32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static inline int32_t sub_s32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
static inline int32_t mul_s32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

#define ROUND_F16(x)    _Generic((x), float : f16_from_float, double : f16_from_double)(x)

#define SATURATE_F16(x) f16_saturate(ROUND_F16(x))

#define LANES(name, dst_t, src_t, load, store, expr)                                               \
  static void name(void *dst, const void *src0, const void *src1, uint32_t scalar, size_t n) {     \
    dst_t *dp = dst;                                                                               \
    const src_t *ap = src0, *bp = src1;                                                            \
    (void)ap, (void)bp, (void)scalar;                                                              \
    INDEPENDENT for (size_t i = 0; i < n; i++) {                                                   \
      DECLARE_##load;                                                                              \
      dp[i] = store(expr);                                                                         \
    }                                                                                              \
  }
/* The names that a definition may use: a = src0, b = src1, d = old dst, s = scalar.  Where there is
 * no src1, the caller passes src0 again. */
#define DECLARE_F32                                                                                \
  float a = ap[i], b = bp[i], d = dp[i], s = float_from(scalar);                                   \
  (void)a, (void)b, (void)d, (void)s
#define DECLARE_F16                                                                                \
  float a = f16_to_float(ap[i]), b = f16_to_float(bp[i]), d = f16_to_float(dp[i]),                 \
        s = f16_to_float((uint16_t)scalar);                                                        \
  (void)a, (void)b, (void)d, (void)s
#define DECLARE_S32                                                                                \
  int32_t a = ap[i], b = bp[i], d = dp[i], s = (int32_t)scalar;                                    \
  (void)a, (void)b, (void)d, (void)s
#define FLOAT_OP(name, expr)                                                                       \
  LANES(name##_f32, float, float, F32, (float), expr)                                              \
  LANES(name##_f16, uint16_t, uint16_t, F16, ROUND_F16, expr)                                      \
  LANES(name##_clamped, uint16_t, uint16_t, F16, SATURATE_F16, expr)
#define ARITH_OP(name, expr, expr_s32)                                                             \
  FLOAT_OP(name, expr)                                                                             \
  LANES(name##_s32, int32_t, int32_t, S32, (int32_t), expr_s32)

ARITH_OP(vadd, a + b, add_s32(a, b))
ARITH_OP(vsub, a - b, sub_s32(a, b))
ARITH_OP(vmul, a *b, mul_s32(a, b))
ARITH_OP(vmax, max_float(a, b), (a > b ? a : b))
ARITH_OP(vmin, min_float(a, b), (a < b ? a : b))
FLOAT_OP(vdiv, a / b)
FLOAT_OP(vmla, fma_odd(a, b, d))
FLOAT_OP(vmadd, fma_odd(a, d, b))
FLOAT_OP(vsqrt, sqrtf(a))
FLOAT_OP(vexp, exp_double((double)a))
ARITH_OP(vmuls, a *s, mul_s32(a, s))
ARITH_OP(vadds, a + s, add_s32(a, s))
ARITH_OP(vmaxs, max_float(a, s), (a > s ? a : s))
ARITH_OP(vmins, min_float(a, s), (a < s ? a : s))
FLOAT_OP(vaxpy, fma_odd(s, a, d))

#define CONVERT(name, dst_t, src_t, convert)                                                       \
  static void name(void *dst, const void *src0, const void *src1, uint32_t scalar, size_t n) {     \
    dst_t *dp = dst;                                                                               \
    const src_t *ap = src0;                                                                        \
    (void)src1, (void)scalar;                                                                      \
    INDEPENDENT for (size_t i = 0; i < n; i++) dp[i] = convert;                                    \
  }
CONVERT(vconv_f162f32, float, uint16_t, f16_to_float(ap[i]))
CONVERT(vconv_f322f16, uint16_t, float, f16_from_float(ap[i]))
CONVERT(vconv_f322f16_clamped, uint16_t, float, f16_saturate(f16_from_float(ap[i])))
CONVERT(vconv_bf162f32, float, uint16_t, bf16_to_float(ap[i]))
CONVERT(vconv_f322bf16, uint16_t, float, bf16_from_float(ap[i]))
CONVERT(vector_dup_32, uint32_t, uint32_t, ((void)ap, scalar))
CONVERT(vector_dup_16, uint16_t, uint16_t, ((void)ap, (uint16_t)scalar))

/* By instruction, then for 16-bit types, f32, s32, and f16 where it saturates. */
#define FLOAT_ROW(name) [OP_##name] = {name##_f16, name##_f32, NULL, name##_clamped}
#define ARITH_ROW(name) [OP_##name] = {name##_f16, name##_f32, name##_s32, name##_clamped}
#define SAME_ROW(name)  [OP_##name] = {name, name, name}
static vector_fn *const table[OP_COUNT][4] = {
    ARITH_ROW(vadd),          ARITH_ROW(vsub),
    ARITH_ROW(vmul),          ARITH_ROW(vmax),
    ARITH_ROW(vmin),          FLOAT_ROW(vdiv),
    FLOAT_ROW(vmla),          FLOAT_ROW(vmadd),
    FLOAT_ROW(vsqrt),         FLOAT_ROW(vexp),
    ARITH_ROW(vmuls),         ARITH_ROW(vadds),
    ARITH_ROW(vmaxs),         ARITH_ROW(vmins),
    FLOAT_ROW(vaxpy),         SAME_ROW(vconv_f162f32),
    SAME_ROW(vconv_f322f16),  SAME_ROW(vconv_bf162f32),
    SAME_ROW(vconv_f322bf16), [OP_vector_dup] = {vector_dup_16, vector_dup_32, vector_dup_32},
};

vector_fn *rdn_vector_fn(op o, rd_npu_type type, bool saturates) {
  if (saturates && o == OP_vconv_f322f16) return vconv_f322f16_clamped;
  if (saturates && type == RD_NPU_F16 && table[o][3]) return table[o][3];
  return table[o][type == RD_NPU_S32 ? 2 : type_size((uint8_t)type) == 4];
}
