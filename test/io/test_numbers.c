/* Conversions and random numbers. */
#include "unit.h"
#include "io/convert.h"
#include "io/rng.h"

#include <math.h>

/* Every half is its own rounding; every midpoint between neighbours goes to the even one, and the
 * numbers just beside a midpoint to the nearer one. */
static void test_halves(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x7c00u; bits++) {
    float x = io_f16_to_f32((uint16_t)bits);
    assert_int_equal(io_f32_to_f16(x), bits);
    assert_int_equal(io_f32_to_f16(-x), bits | 0x8000u);
    float next = bits + 1 == 0x7c00u ? 65536.0f : io_f16_to_f32((uint16_t)(bits + 1));
    float middle = 0.5f * (x + next);
    assert_int_equal(io_f32_to_f16(middle), bits + (bits & 1u));
    assert_int_equal(io_f32_to_f16(nextafterf(middle, 0)), bits);
    assert_int_equal(io_f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
  }
  assert_int_equal(io_f32_to_f16(INFINITY), 0x7c00);
  assert_int_equal(io_f32_to_f16(1e30f), 0x7c00);
  assert_int_equal(io_f32_to_f16(NAN) & 0x7e00, 0x7e00);
  assert_int_equal(io_f32_to_f16(1e-30f), 0);
  assert_true(isnan(io_f16_to_f32(0xfe00)));
  assert_true(isinf(io_f16_to_f32(0xfc00)));
}

static void test_bfloats(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x7f80u; bits++) {
    float x = io_bf16_to_f32((uint16_t)bits);
    assert_int_equal(io_f32_to_bf16(x), bits);
    assert_int_equal(io_f32_to_bf16(-x), bits | 0x8000u);
    uint32_t middle_bits = bits << 16 | 0x8000u;
    float middle;
    memcpy(&middle, &middle_bits, 4);
    assert_int_equal(io_f32_to_bf16(middle), bits + (bits & 1u));
    assert_int_equal(io_f32_to_bf16(nextafterf(middle, 0)), bits);
    assert_int_equal(io_f32_to_bf16(nextafterf(middle, INFINITY)), bits + 1);
  }
  assert_true(isnan(io_bf16_to_f32(io_f32_to_bf16(NAN))));
  uint32_t low_nan = 0x7f800001u; /* its upper half alone would be infinity */
  float nan;
  memcpy(&nan, &low_nan, 4);
  assert_true(isnan(io_bf16_to_f32(io_f32_to_bf16(nan))));
}

static void test_rng_values(void **state) {
  (void)state;
  /* Fixed forever: files made by gen with a seed must stay the same files. */
  rng r = rng_stream(1, "query");
  assert_true(rng_bits(r, 0) == 0x15ff17d8b2e20780u);
  assert_true(rng_bits(rng_stream(1, "key"), 0) != rng_bits(r, 0));
  assert_true(rng_bits(rng_stream(2, "query"), 0) != rng_bits(r, 0));
}

static void test_rng_moments(void **state) {
  (void)state;
  enum { N = 200000 };
  rng r = rng_stream(7, "moments");
  double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0;
  int below[3] = {0};
  for (uint64_t i = 0; i < N; i++) {
    double u = rng_uniform(r, i), n = rng_normal(r, i);
    assert_true(u >= 0 && u < 1);
    u1 += u, u2 += u * u, n1 += n, n2 += n * n, n4 += n * n * n * n;
    below[rng_below(r, i, 3)]++;
    /* The logarithm and cosine inside agree with the C library's. */
    double libm =
        sqrt(-2 * log(1 - rng_uniform(r, 2 * i))) * cos(2 * acos(-1) * rng_uniform(r, 2 * i + 1));
    assert_true(fabs(libm - n) < 1e-13 * (1 + fabs(n)));
  }
  assert_true(fabs(u1 / N - 0.5) < 0.004 && fabs(u2 / N - 1.0 / 3) < 0.004);
  assert_true(fabs(n1 / N) < 0.012 && fabs(n2 / N - 1) < 0.015 && fabs(n4 / N - 3) < 0.12);
  for (int i = 0; i < 3; i++) assert_true(abs(below[i] - N / 3) < 1100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_bfloats),
      cmocka_unit_test(test_rng_values),
      cmocka_unit_test(test_rng_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
