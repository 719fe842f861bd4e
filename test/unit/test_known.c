/* The known-answer check notices what it is there for: contraction and x87 arithmetic (this file
 * and the check are built that way then), other rounding, subnormals that are kept. */
#include "unit.h"

#include <fenv.h>
#include <math.h>

#include "core/known.h"
#include "cpu/fpenv.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#ifndef EXPECTED
#define EXPECTED RDI_ANSWERS_RIGHT
#define PLAIN_BUILD
#endif

static rdi_answers answers(unsigned clear) { /* in the library's environment without these bits */
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
#if defined(__SSE2__)
  _mm_setcsr(_mm_getcsr() & ~clear);
#endif
  const rdi_answers a = rdi_known_answers();
  rdi_fpenv_leave(&env);
  return a;
}

static void this_build(void **state) {
  (void)state;
#if defined(__FMA__) && !defined(PLAIN_BUILD)
  if (!(rd_isa_usable() & RD_ISA_SCALAR_FMA)) skip(); /* the machine has no such instruction */
#endif
  assert_int_equal(answers(0), EXPECTED);
}

#ifdef PLAIN_BUILD
static void other_rounding(void **state) {
  (void)state;
  static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int i = 0; i < 3; i++) {
    fesetround(modes[i]);
    const int answer = rdi_known_answers();
    fesetround(FE_TONEAREST);
    assert_int_equal(answer, RDI_ANSWERS_WRONG);
  }
  assert_int_equal(answers(0), RDI_ANSWERS_RIGHT);
}

/* Gradual underflow, and either half of it, calls for the other kernels; it is no error. */
static void kept_subnormals(void **state) {
  (void)state;
#if defined(__SSE2__)
  assert_int_equal(answers(0x8000), RDI_ANSWERS_UNFLUSHED); /* results */
  assert_int_equal(answers(0x0040), RDI_ANSWERS_UNFLUSHED); /* inputs */
  assert_int_equal(answers(0x8040), RDI_ANSWERS_UNFLUSHED);
#else
  skip();
#endif
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(this_build),
#ifdef PLAIN_BUILD
      cmocka_unit_test(other_rounding),
      cmocka_unit_test(kept_subnormals),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
