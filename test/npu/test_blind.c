/* The mutation engine's teeth: with a checker that has been blinded to races, mutants must come out
 * undetected, because their values change under some schedule. */
#include "npu/check/checker.h"
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

void __real_rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f);
void __wrap_rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f);

static bool blind;

void __wrap_rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f) {
  finding_list unseen = {0};
  __real_rdn_checker_step(k, i, position, blind ? &unseen : f);
  rdn_finding_free(&unseen);
}

static void kernel(rd_npu_core *c, const void *args) {
  (void)args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  vmuls(F32, UB(256), UB(0), 2.0f, 1, 1, 1, 8, 8);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(256), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void undetected_mutants(void **state) {
  (void)state;
  float in[64], out[64] = {0};
  for (int i = 0; i < 64; i++) in[i] = (float)i + 1;
  rd_npu_tensor gm[2] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                         {"out", out, sizeof out, 4, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, kernel, NULL, gm, 2};
  for (int round = 0; round < 2; round++) {
    blind = round;
    rd_npu_mutation *m;
    rd_npu_status s = rd_npu_mutate(&l, 1, NULL, &m);
    uint64_t needed, redundant, undetected;
    rd_npu_mutation_totals(m, &needed, &redundant, &undetected);
    assert_int_equal(s, blind ? RD_NPU_FINDING : RD_NPU_OK);
    assert_true(blind ? undetected >= 2 : undetected == 0);
    bool edge = false;
    for (size_t i = 0; i < rd_npu_mutation_count(m); i++) {
      const rd_npu_mutant *x = rd_npu_mutation_get(m, i);
      if (x->undetected && strcmp(x->what, "drop edge") == 0)
        edge |= strcmp(x->reason, "changes values under a schedule") == 0;
    }
    assert_int_equal(edge, blind);
    rd_npu_mutation_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(undetected_mutants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
