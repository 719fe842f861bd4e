/* The known-answer check notices what it is there for: contraction and x87 arithmetic (this file
 * and the check are built that way then), other rounding, flushed subnormals. */
#include "unit.h"

#include <fenv.h>
#include <math.h>

#include "core/known.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#ifndef EXPECTED
#define EXPECTED 1
#endif

static void this_build(void **state) {
  (void)state;
#if defined(__FMA__) && !EXPECTED
  if (!(rd_isa_usable() & RD_ISA_SCALAR_FMA)) skip(); /* the machine has no such instruction */
#endif
  assert_int_equal(rdi_known_answers(), EXPECTED);
}

#if EXPECTED
static void other_rounding(void **state) {
  (void)state;
  static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int i = 0; i < 3; i++) {
    fesetround(modes[i]);
    const int answer = rdi_known_answers();
    fesetround(FE_TONEAREST);
    assert_int_equal(answer, 0);
  }
  assert_int_equal(rdi_known_answers(), 1);
}

static void flushed_subnormals(void **state) {
  (void)state;
#if defined(__SSE2__)
  static const unsigned modes[] = {0x8000, 0x0040}; /* results, inputs */
  const unsigned before = _mm_getcsr();
  for (int i = 0; i < 2; i++) {
    _mm_setcsr(before | modes[i]);
    const int answer = rdi_known_answers();
    _mm_setcsr(before);
    assert_int_equal(answer, 0);
  }
#else
  skip();
#endif
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(this_build),
#if EXPECTED
    cmocka_unit_test(other_rounding),
    cmocka_unit_test(flushed_subnormals),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
