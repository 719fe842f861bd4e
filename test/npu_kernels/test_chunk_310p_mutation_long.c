/* Every piece of the chunk kernel's synchronisation is taken away in turn, on the mutation shapes.
 */
#include "chunk_310p.h"

#define SEED 7u

static void mutation(void **state) {
  (void)state;
  rdn_call *calls[16];
  rd_npu_launch launches[16];
  uint32_t n = 0;
  for (const char *const *s = chunk_kernel()->mutation_shapes; *s; s++, n++) {
    calls[n] = ready_call(*s, SEED);
    launches[n] = calls[n]->launch;
  }
  rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
  rd_npu_mutation *m = NULL;
  double start = seconds();
  rd_npu_status status = rd_npu_mutate(launches, n, &o, &m);
  for (size_t i = 0; i < rd_npu_mutation_count(m); i++) {
    const rd_npu_mutant *x = rd_npu_mutation_get(m, i);
    if (!x->needed) printf("%s %s: %s\n", x->what, x->unit, x->reason);
  }
  assert_int_equal(status, RD_NPU_OK);
  uint64_t needed, redundant, undetected;
  rd_npu_mutation_totals(m, &needed, &redundant, &undetected);
  printf("mutation: %llu needed, %llu redundant, %llu undetected (%.0f s)\n",
         (unsigned long long)needed, (unsigned long long)redundant, (unsigned long long)undetected,
         seconds() - start);
  assert_true(needed > 100);
  assert_true(undetected == 0);
  /* chunk_gated_delta_rule_moves.h explains each of these; a new one is to be removed or explained.
   */
  assert_true(redundant <= 21);
  rd_npu_mutation_free(m);
  while (n > 0) drop_call(calls[--n]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(mutation)};
  print_message("seed %u\n", SEED);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
