/* chunk_gated_delta_rule at the Qwen3.5 size.  With the argument `all` every correlated input, too. */
#include "chunk_310p.h"

#define SEED 7u

static bool all;

static void qwen_checked(void **state) {
  (void)state;
  rdn_call *call = ready_call(chunk_kernel()->presets[1].shape, SEED);
  rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
  double start = seconds();
  run_clean(call, &o, "qwen3.5");
  print_message("  checked launch: %.1f s\n", seconds() - start);
  judge(call, "qwen3.5");
  drop_call(call);
}

static void qwen_schedules(void **state) {
  (void)state;
  rdn_call *call = ready_call(chunk_kernel()->presets[1].shape, SEED);
  double start = seconds();
  same_bits(call, "qwen3.5");
  print_message("  unchecked launch: %.1f s on average\n", (seconds() - start) / 32);
  judge(call, "qwen3.5");
  drop_call(call);
}

static void qwen_correlated(void **state) {
  (void)state;
  static const char *const shapes[] = {
      "B=1,Hk=1,Hv=2,T=512,K=128,V=128,gate=none,cosine=1,beta=1",
      "B=1,Hk=1,Hv=2,T=512,K=128,V=128,gate=none,cosine=0.95,beta=0.83",
      "B=1,Hk=1,Hv=2,T=512,K=128,V=128,gate=slow,cosine=0.99,beta=0.83",
      "B=1,Hk=1,Hv=2,T=512,K=128,V=128,gate=slow,cosine=1,beta=0.83",
      "B=1,Hk=1,Hv=2,T=512,K=128,V=128,gate=slow,cosine=0.99,beta=1",
      "B=1,Hk=1,Hv=2,T=512,K=128,V=128,gate=hard,cosine=0.99,beta=0.83",
  };
  const size_t count = all ? sizeof shapes / sizeof shapes[0] : 1;
  for (size_t i = 0; i < count; i++) {
    rdn_call *call = ready_call(shapes[i], SEED);
    rd_npu_options o = options(RD_NPU_VALUES, RD_NPU_EAGER, 0);
    run_clean(call, &o, shapes[i]);
    judge(call, shapes[i]);
    drop_call(call);
  }
}

int main(int argc, char **argv) {
  all = argc > 1 && strcmp(argv[1], "all") == 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(qwen_checked),
      cmocka_unit_test(qwen_schedules),
      cmocka_unit_test(qwen_correlated),
  };
  print_message("seed %u\n", SEED);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
