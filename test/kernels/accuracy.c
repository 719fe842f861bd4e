/* Elementary functions and 16-bit types: the kernels' inline forms (kernels/c1.h, util/half.h) give
 * the bits of the specification, and both stay within the stated distance of the true value.
 *   accuracy [stride]   every stride-th f32 is tried (default 4099; 1 tries them all) */
#include <math.h>
#include <stdlib.h>
#include "cpu/fpenv.h"
#include "kernels/c1.h"
#include "ref/ref.h"
#include "report.h"

typedef struct function {
  const char *name;
  float (*kernel)(float);
  float (*spec)(float);
  double (*truth)(double);
  double ulps; /* bound on the error, in units in the last place of the true value as f32 */
  double from; /* for true values from here on */
} function;

static double true_sig(double x) { return 1 / (1 + exp(-x)); }
static double true_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* The largest errors seen, over every third and every seventh f32, are 1.259, 3.180 and 3.803. What
 * is not clearly above 2^-126 may be flushed. */
static const function functions[] = {
    {"exp_c", rdi_exp_c, rdr_c1_exp, exp, 1.3, 0x1.00001p-126},
    {"sig", rdi_sig_c, rdr_c1_sig, true_sig, 3.2, 0x1p-126},
    {"softplus", rdi_softplus_c, rdr_c1_softplus, true_softplus, 4.0,
     4.2e-8}, /* used from -17 on */
};

static int same(float a, float b) {
  return rdi_f32_bits(a) == rdi_f32_bits(b) || (isnan(a) && isnan(b));
}

/* The distance between neighbouring f32 at |y|. */
static double ulp(double y) {
  const int e = y == 0 || !isfinite(y) ? -126 : ilogb(y);
  return ldexp(1, (e < -126 ? -126 : e) - 23);
}

static void try_function(report *r, const function *f, uint32_t stride) {
  long wrong_bits = 0, nan_lost = 0;
  double worst = 0;
  float worst_at = 0;
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  for (uint64_t u = 0; u <= 0xffffffffu; u += stride) {
    const float x = rdi_f32_from_bits((uint32_t)u), y = f->kernel(x);
    wrong_bits += !same(y, f->spec(x));
    nan_lost += isnan(x) != isnan(y);
    /* What overflows or vanishes in f32 is no matter of accuracy; the clamps decide there. */
    const double t = f->truth((double)x);
    if (!(t >= f->from) || t >= 0x1.fffffep127) continue;
    const double error = fabs((double)y - t) / ulp(t);
    if (error > worst) worst = error, worst_at = x;
  }
  rdi_fpenv_leave(&env);
  printf("%-8s worst %.4f ulp at %a\n", f->name, worst, (double)worst_at);
  CHECK(r, wrong_bits == 0, "%s: %ld values differ from the specification", f->name, wrong_bits);
  CHECK(r, nan_lost == 0, "%s: %ld NaNs lost or made", f->name, nan_lost);
  CHECK(r, worst <= f->ulps, "%s: %.4f ulp at %a, bound %.2f", f->name, worst, (double)worst_at,
        f->ulps);
}

static void edges(report *r) {
  CHECK(r, same(rdi_exp_c(0), 1) && same(rdi_exp_c(-0.0f), 1), "exp_c(0) is 1");
  CHECK(r, same(rdi_exp_c(-INFINITY), 0), "exp_c(-inf) is +0");
  CHECK(r, same(rdi_exp_c(INFINITY), INFINITY), "exp_c(inf)");
  CHECK(r, isnan(rdi_exp_c(NAN)) && isnan(rdi_sig_c(NAN)) && isnan(rdi_softplus_c(NAN)),
        "NaN stays");
  CHECK(r, same(rdi_sig_c(-INFINITY), 0) && same(rdi_sig_c(INFINITY), 1), "sig saturates");
  CHECK(r, same(rdi_softplus_c(-INFINITY), 0) && same(rdi_softplus_c(INFINITY), INFINITY),
        "softplus");
  CHECK(r, isfinite(rdi_eA_c(3e38f)) && isnan(rdi_eA_c(NAN)), "exp(A_log) is finite");
  CHECK(r, same(rdi_f32_from_bits(RDI_C1_EPS), 1e-6f), "eps");
}

static void halves(report *r, rd_dtype dtype, float (*widen)(uint16_t), uint16_t (*narrow)(float)) {
  long widened = 0, narrowed = 0, returned = 0, lost = 0;
  for (uint32_t h = 0; h < 65536; h++) {
    const float x = widen((uint16_t)h);
    widened += !same(x, rdr_f32_of((uint16_t)h, dtype));
    if (isnan(x)) continue;
    returned += narrow(x) != h;
    /* Around this value and around the middle to the next: where rounding decides. */
    const float next = widen((uint16_t)(h + 1u));
    const float middle = isfinite(next) ? (float)(((double)x + (double)next) / 2) : x;
    for (int i = -2; i <= 2; i++) {
      const float a = rdi_f32_from_bits(rdi_f32_bits(x) + (uint32_t)i);
      const float b = rdi_f32_from_bits(rdi_f32_bits(middle) + (uint32_t)i);
      if (!isnan(a)) narrowed += narrow(a) != rdr_16_of(a, dtype);
      if (!isnan(b)) narrowed += narrow(b) != rdr_16_of(b, dtype);
    }
  }
  for (uint64_t u = 0; u <= 0xffffffffu; u += 4099) {
    const float x = rdi_f32_from_bits((uint32_t)u);
    const float y = widen(narrow(x));
    lost += isnan(x) != isnan(y);
    if (!isnan(x)) narrowed += narrow(x) != rdr_16_of(x, dtype);
  }
  const char *name = dtype == RD_F16 ? "f16" : "bf16";
  CHECK(r, widened == 0, "%s: %ld widened wrongly", name, widened);
  CHECK(r, returned == 0, "%s: %ld do not survive the round trip", name, returned);
  CHECK(r, narrowed == 0, "%s: %ld rounded wrongly", name, narrowed);
  CHECK(r, lost == 0, "%s: %ld NaNs lost or made", name, lost);
}

int main(int argc, char **argv) {
  const unsigned long stride = argc > 1 ? strtoul(argv[1], NULL, 10) : 4099;
  report r = {0};
  if (stride == 0 || stride > 1u << 20) return fprintf(stderr, "usage: accuracy [stride]\n"), 2;
  printf("stride %lu\n", stride);
  edges(&r);
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
    try_function(&r, &functions[i], (uint32_t)stride);
  halves(&r, RD_F16, rdi_f32_from_f16, rdi_f16_from_f32);
  halves(&r, RD_BF16, rdi_f32_from_bf16, rdi_bf16_from_f32);
  return report_end(&r);
}
