/* Whole launches: races between cores, reports for any number of host threads, launches refused. */
#include "planted.h"

#include <pthread.h>

static void cores_write(rd_npu_core *c, const void *args) {
  uint64_t at = BAD ? 0 : 256 * (uint64_t)get_block_idx();
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  EDGE(V, MTE3, 0);
  copy_ubuf_to_gm(GM(1) + at, UB(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}
static void cores_read(rd_npu_core *c, const void *args) { /* reads the last row of the neighbour */
  uint64_t at = 256 * (uint64_t)get_block_idx();
  copy_gm_to_ubuf(UB(256), GM(2) + at, 1, BAD ? 9 : 8, 0, 0);
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  EDGE(MTE2, MTE3, 1);
  EDGE(V, MTE3, 0);
  copy_ubuf_to_gm(GM(2) + at, UB(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static const planted cases[] = {
    {"cores write", cores_write, RD_NPU_310P, RD_NPU_COUPLED, 3, RD_NPU_RACE_CORES, NULL, 0},
    {"cores read", cores_read, RD_NPU_310P, RD_NPU_COUPLED, 3, RD_NPU_RACE_CORES, NULL, 0},
};

static void defects_and_twins(void **state) {
  (void)state;
  judge_planted(cases, sizeof cases / sizeof cases[0], "test_launches.c:");
}

/* The same report for every number of host threads, and helpers' call sites told apart. */
static void helper_at(rd_npu_core *c, rd_npu_site site, uint64_t ub) {
  rd_npu_vadd(c, RD_VIA(site), RD_NPU_F32, ub + 256, ub, ub, 1, 1, 1, 1, 8, 8, 8);
}
static void two_call_sites(rd_npu_core *c, const void *args) {
  (void)args;
  LOAD(0, 0, 16);
  helper_at(c, RD_SITE, UB(0));
  helper_at(c, RD_SITE, UB(1024));
  pipe_barrier(PIPE_ALL);
}

static void reload(rd_npu_core *c, const void *args) { /* MTE2 refills what V still reads */
  (void)args;
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  LOAD(0, 256, 8);
  pipe_barrier(PIPE_ALL);
}

static void thread_counts(void **state) {
  (void)state;
  variant v = {true, 0};
  rd_npu_kernel *kernels[] = {cores_write, cores_read, two_call_sites, reload};
  for (size_t k = 0; k < 4; k++) {
    char *first = NULL;
    for (uint32_t threads = 1; threads <= 7; threads += 2) {
      /* cores that race on GM would race on the host's memory, too: order only */
      rd_npu_report *r = run(kernels[k], RD_NPU_310P, RD_NPU_COUPLED, 8, &v,
                             k == 2 ? RD_NPU_CHECKED : RD_NPU_ORDER, threads, k == 2);
      char *text = rd_npu_report_json(r);
      if (first)
        assert_string_equal(text, first);
      else
        first = strdup(text);
      free(text);
      rd_npu_report_free(r);
    }
    if (k == 2) {
      assert_non_null(strstr(first, "called from test_launches.c"));
      const char *one = strstr(first, "uninitialised read");
      assert_non_null(one);
    }
    free(first);
  }
}

/* Not inlined: a frame that is cancelled leaves AddressSanitizer's marks on the stack. */
static __attribute__((noinline)) void launch_with(uint32_t threads) {
  variant v = {false, 0};
  rd_npu_report_free(
      run(two_call_sites, RD_NPU_310P, RD_NPU_COUPLED, 8, &v, RD_NPU_CHECKED, threads, true));
}

/* A caller that is cancelled while it waits for its host threads ends the launch first. */
static void *cancelled_caller(void *ended) {
  for (uint32_t threads = 1; threads <= 3; threads++) {
    pthread_cancel(pthread_self());
    launch_with(threads);
    ++*(int *)ended;
  }
  pthread_testcancel();
  return NULL;
}

static void cancellation(void **state) {
  (void)state;
  pthread_t caller;
  void *end;
  int ended = 0;
  assert_int_equal(pthread_create(&caller, NULL, cancelled_caller, &ended), 0);
  assert_int_equal(pthread_join(caller, &end), 0);
  assert_int_equal(ended, 3);
  assert_ptr_equal(end, PTHREAD_CANCELED);
}

static void bad_launches(void **state) {
  (void)state;
  variant v = {false, 0};
  rd_npu_tensor gm[2] = {{"in", gm0, sizeof gm0, 2, RD_NPU_IN},
                         {"out", gm0 + 32, 64, 2, RD_NPU_OUT}};
  rd_npu_launch good = {sizeof good, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, cores_write, &v, gm, 1};
  rd_npu_report *r;
  struct {
    rd_npu_launch l;
    rd_npu_options o;
  } bad[13];
  for (int i = 0; i < 13; i++)
    bad[i].l = good, bad[i].o = (rd_npu_options){.size = sizeof(rd_npu_options)};
  bad[0].l.size = 1;
  bad[1].l.arch = (rd_npu_arch)9;
  bad[2].l.kind = RD_NPU_VECTOR;
  bad[3].l.block_num = 9;
  bad[4].l.block_num = 0;
  bad[5].l.tensor_count = 2; /* overlapping memory, one written */
  bad[6].o.without = "M-V";
  bad[7].l.kernel = NULL;
  bad[8].o.without = "M_V,"; /* an empty shell variable behind the comma */
  bad[9].o.without = ",M_V";
  bad[10].o.with = "M_V,";
  bad[11].o.with = "pipe_barrier(S)";
  bad[12].o.with = "M_V", bad[12].o.mode = RD_NPU_VALUES; /* nothing would be judged */
  for (int i = 0; i < 13; i++) {
    assert_int_equal(rd_npu_run(&bad[i].l, &bad[i].o, &r), RD_NPU_BAD_INPUT);
    assert_non_null(strstr(rd_npu_report_summary(r), "invalid launch"));
    rd_npu_report_free(r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defects_and_twins), cmocka_unit_test(thread_counts),
      cmocka_unit_test(cancellation), cmocka_unit_test(bad_launches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
