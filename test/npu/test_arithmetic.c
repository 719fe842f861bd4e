/* The model's own arithmetic against libm: conversions of every 16-bit value, fused additions, exp.
 * usage: test-npu-arithmetic [seed [step]]; step 1 visits every float argument that matters to exp.
 */
#include "npu/machine/float16.h"
#include "npu/machine/vector.h"
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 1;
static uint32_t step = 4099;

static void sixteen_bits(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    double f = plain_f16((uint16_t)h), b = plain_bf16((uint16_t)h);
    if (isnan(f))
      assert_true(isnan(f16_to_float((uint16_t)h)) &&
                  (f16_from_float(f16_to_float((uint16_t)h)) & 0x7C00) == 0x7C00);
    else {
      assert_true((double)f16_to_float((uint16_t)h) == f);
      assert_int_equal(f16_from_float((float)f), h);
    }
    if (!isnan(b)) {
      assert_true((double)bf16_to_float((uint16_t)h) == b);
      assert_int_equal(bf16_from_float((float)b), h);
    }
  }
}

static void narrowing(void **state) {
  (void)state;
  uint64_t s = seed;
  for (int i = 0; i < 2000000; i++) {
    uint64_t r = rng_next(&s);
    float f = float_from((uint32_t)r);
    double d = (double)(int64_t)r * ldexp(1, (int)(rng_next(&s) % 90) - 100);
    if (i % 3 == 0)
      d = plain_f16((uint16_t)r) + ldexp(1, (int)(rng_next(&s) % 60) - 60); /* near halves */
    if (!isnan(f)) {
      assert_int_equal(f16_from_float(f), plain_to_f16((double)f));
      assert_int_equal(bf16_from_float(f), plain_to_bf16((double)f));
    } else
      assert_true((f16_from_float(f) & 0x7FFF) > 0x7C00 && (bf16_from_float(f) & 0x7FFF) > 0x7F80);
    if (!isnan(d)) {
      assert_int_equal(f16_from_double(d), plain_to_f16(d));
      assert_int_equal(bf16_from_double(d), plain_to_bf16(d));
    }
  }
}

static void fused_additions(void **state) {
  (void)state;
  uint64_t s = seed;
  for (int i = 0; i < 3000000; i++) {
    uint64_t r = rng_next(&s), q = rng_next(&s);
    float a = float_from((uint32_t)r), b = float_from((uint32_t)(r >> 32)),
          c = float_from((uint32_t)q);
    if (i % 2) { /* comparable magnitudes, so that the rounding is at stake */
      a = (float)(int32_t)r * 0x1p-31f, b = (float)(int32_t)(r >> 32) * 0x1p-31f;
      c = (float)(int32_t)q * ldexpf(1, (int)(q >> 40) % 60 - 60);
    }
    if (i % 5 == 0) c = -(a * b); /* cancellation */
    if (i % 7 == 0)
      a = ldexpf(a, -100), b = ldexpf(b, -40), c = ldexpf(c, -140); /* subnormal results */
    float got = fma_float(a, b, c), expected = fmaf(a, b, c);
    assert_true((isnan(got) && isnan(expected)) || float_bits(got) == float_bits(expected));
  }
}

static void exponential(void **state) {
  (void)state;
  assert_true(rdn_exp(-INFINITY) == 0 && rdn_exp(INFINITY) == INFINITY && isnan(rdn_exp(NAN)));
  assert_true(rdn_exp(0.0f) == 1 && rdn_exp(-0.0f) == 1);
  /* below 2^-27 the result is 1, above 112 it is inf or 0: a sample is enough there */
  for (uint64_t u = 0, by; u <= 0xFF800000u; u += by) {
    uint32_t magnitude = (uint32_t)u & 0x7FFFFFFFu;
    by = magnitude < 0x32000000u || magnitude >= 0x42E00000u ? 4099 : step;
    float x = float_from((uint32_t)u);
    if (isnan(x)) continue;
    assert_true(rdn_exp(x) == (float)expl((long double)x));
  }
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  if (argc > 2) step = (uint32_t)strtoul(argv[2], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_bits), cmocka_unit_test(narrowing),
                                     cmocka_unit_test(fused_additions),
                                     cmocka_unit_test(exponential)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
