/* The 16-bit types by their definition: significand times a power of two, rounded by rint(). */
#include <math.h>
#include <string.h>
#include "ref/ref.h"

typedef struct format {
  int fraction; /* stored significand bits */
  int emin;     /* exponent of the smallest normal number */
  int emax;     /* exponent of the largest finite number */
} format;

static format format_of(rd_dtype dtype) {
  return dtype == RD_F16 ? (format){10, -14, 15} : (format){7, -126, 127};
}

float rdr_f32_of(uint16_t bits, rd_dtype dtype) {
  const format f = format_of(dtype);
  const int field = (bits & 0x7fff) >> f.fraction, m = bits & ((1 << f.fraction) - 1);
  double x;
  if (field == f.emax - f.emin + 2)
    x = m != 0 ? (double)NAN : (double)INFINITY;
  else if (field == 0)
    x = ldexp(m, f.emin - f.fraction);
  else
    x = ldexp(m + (1 << f.fraction), field - 1 + f.emin - f.fraction);
  return (float)((bits & 0x8000) != 0 ? -x : x);
}

uint16_t rdr_16_of(float x, rd_dtype dtype) {
  const format f = format_of(dtype);
  const unsigned sign = signbit(x) ? 0x8000u : 0u;
  const unsigned infinity = (unsigned)(f.emax - f.emin + 2) << f.fraction;
  if (isnan(x)) return (uint16_t)(sign | infinity | 1u << (f.fraction - 1));
  int e = f.emin;
  if (x != 0 && !isinf(x) && ilogbf(x) > e) e = ilogbf(x);
  /* In units of the last place of x's binade; the encodings of a sign are ordered, so a carry into
   * the next binade, or from subnormal to normal, is the next encoding. */
  const double units = isinf(x) ? INFINITY : rint(ldexp(fabs((double)x), f.fraction - e));
  if (ldexp(units, e) >= ldexp(1, f.emax + 1 + f.fraction)) return (uint16_t)(sign | infinity);
  return (uint16_t)(sign + ((unsigned)(e - f.emin) << f.fraction) + (unsigned)units);
}

double rdr_round(double x, rd_dtype dtype) {
  const float y = (float)x;
  return dtype == RD_F16 || dtype == RD_BF16 ? (double)rdr_f32_of(rdr_16_of(y, dtype), dtype)
                                             : (double)y;
}

double rdr_load(const void *data, rd_dtype dtype, int64_t i) {
  switch (dtype) {
  case RD_F32:
    return (double)((const float *)data)[i];
  case RD_F16:
  case RD_BF16:
    return (double)rdr_f32_of(((const uint16_t *)data)[i], dtype);
  case RD_I32:
    return ((const int32_t *)data)[i];
  case RD_I64:
    return (double)((const int64_t *)data)[i];
  case RD_ABSENT:
    break;
  }
  return 0;
}

int64_t rdr_elements(const rd_tensor *t) {
  if (t == NULL || t->dtype == RD_ABSENT) return 0;
  int64_t n = 1;
  for (int32_t d = 0; d < t->rank; d++) n *= t->shape[d];
  return n;
}

void rdr_dense(const rd_tensor *t, double *dst) {
  const int64_t n = rdr_elements(t);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, at = 0;
    for (int32_t d = t->rank - 1; d >= 0; d--) {
      at += rest % t->shape[d] * t->stride[d];
      rest /= t->shape[d];
    }
    dst[i] = rdr_load(t->data, t->dtype, at);
  }
}
