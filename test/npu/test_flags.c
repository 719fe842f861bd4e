/* The discipline of flags: reuse, waits that hang, what is left at the end, ids. */
#include "planted.h"

static void flag_reuse(rd_npu_core *c, const void *args) {
  for (uint32_t i = 0; i < 3; i++) {
    if (i && !BAD) wait_flag(PIPE_V, PIPE_MTE2, 0);
    LOAD(256 * i, 256 * i, 8); /* own buffers: only the flag itself is at stake */
    set_flag(PIPE_MTE2, PIPE_V, 0);
    wait_flag(PIPE_MTE2, PIPE_V, 0);
    ADD(1024 + 256 * i, 256 * i, 256 * i);
    if (i < 2 && !BAD) set_flag(PIPE_V, PIPE_MTE2, 0);
  }
  EDGE(V, MTE3, 0);
  STORE(0, 1024, 24);
  pipe_barrier(PIPE_ALL);
}
static void double_set(rd_npu_core *c, const void *args) {
  set_flag(PIPE_MTE2, PIPE_V, 0);
  if (BAD) set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  if (BAD) wait_flag(PIPE_MTE2, PIPE_V, 0);
  pipe_barrier(PIPE_ALL);
}
static void deadlock(rd_npu_core *c, const void *args) {
  if (BAD && WHICH == 0) wait_flag(PIPE_MTE3, PIPE_MTE2, 5); /* never set */
  if (BAD && WHICH == 1) wait_flag(PIPE_M, PIPE_S, 2);       /* S never reaches the set */
  set_flag(PIPE_M, PIPE_S, 2);
  if (!BAD || WHICH == 0) wait_flag(PIPE_M, PIPE_S, 2);
  if (BAD && WHICH == 2) wait_flag(PIPE_M, PIPE_V, 3); /* each behind the other's wait */
  if (WHICH == 2) set_flag(PIPE_V, PIPE_M, 4);
  if (WHICH == 2) wait_flag(PIPE_V, PIPE_M, 4);
  if (WHICH == 2) set_flag(PIPE_M, PIPE_V, 3);
  if (!BAD && WHICH == 2) wait_flag(PIPE_M, PIPE_V, 3);
  LOAD(0, 0, 8);
  pipe_barrier(PIPE_ALL);
}
static void leftover_flag(rd_npu_core *c, const void *args) {
  set_flag(PIPE_M, PIPE_V, 1);
  if (!BAD) wait_flag(PIPE_M, PIPE_V, 1);
  pipe_barrier(PIPE_ALL);
}
static void leftover_op(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 8);
  if (!BAD) pipe_barrier(PIPE_ALL);
}
static void leftover_but_waited(rd_npu_core *c,
                                const void *args) { /* S waiting for the last store is enough ... */
  LOAD(0, 0, 8);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 8);
  EDGE(MTE3, S, 0);
  if (BAD) LOAD(256, 0, 8); /* ... unless something follows */
}
static void id_range(rd_npu_core *c, const void *args) {
  uint32_t id = BAD ? 8 : 7;
  EDGE(MTE2, V, id);
  pipe_barrier(PIPE_ALL);
}

static const planted cases[] = {
    {"double set", double_set, COUPLED, RD_NPU_DOUBLE_SET, "a wait between the two sets", 0},
    {"wait never set", deadlock, COUPLED, RD_NPU_DEADLOCK, NULL, 0},
    {"S waits before the set", deadlock, COUPLED, RD_NPU_DEADLOCK, NULL, 1},
    {"two waits hold each other", deadlock, COUPLED, RD_NPU_DEADLOCK, NULL, 2},
    {"leftover flag", leftover_flag, COUPLED, RD_NPU_LEFTOVER_FLAG, NULL, 0},
    {"leftover op", leftover_op, COUPLED, RD_NPU_LEFTOVER_OP, NULL, 0},
    {"leftover after wait", leftover_but_waited, COUPLED, RD_NPU_LEFTOVER_OP, NULL, 0},
    {"id range", id_range, COUPLED, RD_NPU_ID_RANGE, NULL, 0},
};

static void defects_and_twins(void **state) {
  (void)state;
  judge_planted(cases, sizeof cases / sizeof cases[0], "test_flags.c:");
}

static void hanging_texts(void **state) {
  (void)state;
  variant bad = {true, 0};
  rd_npu_report *r = run(deadlock, COUPLED, &bad, RD_NPU_CHECKED, 1, false);
  const rd_npu_finding *f = find(r, RD_NPU_DEADLOCK, NULL);
  assert_non_null(strstr(f->message, "none issued"));
  assert_non_null(strstr(f->message, "MTE2 at wait_flag for flag MTE3_MTE2 5"));
  assert_non_null(strstr(f->message, "S at pipe_barrier(ALL)"));
  rd_npu_report_free(r);
  bad.which = 2;
  r = run(deadlock, COUPLED, &bad, RD_NPU_CHECKED, 1, false);
  f = find(r, RD_NPU_DEADLOCK, NULL);
  assert_non_null(strstr(f->message, "held behind another wait"));
  assert_non_null(f->second.site);
  rd_npu_report_free(r);
  bad.which = 1;
  r = run(deadlock, COUPLED, &bad, RD_NPU_VALUES, 1,
          false); /* hangs are found without the checker too */
  assert_non_null(find(r, RD_NPU_DEADLOCK, NULL));
  rd_npu_report_free(r);
}

/* Flags count: what a binary flag could lose is a note, and an error only where flags are binary. */
static void binary_flags(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    variant v = {bad, 0};
    rd_npu_options o = {.size = sizeof o};
    rd_npu_report *r = run_with(flag_reuse, COUPLED, &v, &o);
    assert_int_equal(rd_npu_report_count(r), 0);
    assert_int_equal(rd_npu_report_note_count(r), bad);
    const rd_npu_finding *note = find_note(r, RD_NPU_FLAG_REUSE, "V_MTE2");
    assert_int_equal(note != NULL, bad);
    if (bad) assert_non_null(strstr(note->first.site, "test_flags.c:"));
    char *text = rd_npu_report_text(r), *json = rd_npu_report_json(r);
    assert_int_equal(strstr(text, "note: flag reuse: flag MTE2_V 0") != NULL, bad);
    assert_int_equal(strstr(json, "\"notes\": [{\"kind\": \"flag reuse\"") != NULL, bad);
    free(text);
    free(json);
    rd_npu_report_free(r);
    o.flags = RD_NPU_FLAGS_BINARY;
    r = run_with(flag_reuse, COUPLED, &v, &o);
    assert_int_equal(rd_npu_report_note_count(r), 0);
    assert_int_equal(rd_npu_report_count(r), bad);
    assert_int_equal(find(r, RD_NPU_FLAG_REUSE, "V_MTE2") != NULL, bad);
    rd_npu_report_free(r);
  }
}

/* Both later waits are queued before their sets, which may fire while V is still adding. */
static void run_ahead(rd_npu_core *c, const void *args) {
  (void)args;
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(1024, 0, 0);
  pipe_barrier(PIPE_V);
  for (uint32_t i = 1; i < 3; i++) wait_flag(PIPE_MTE2, PIPE_V, 0);
  for (uint32_t i = 1; i < 3; i++) {
    LOAD(256 * i, 256 * i, 8);
    set_flag(PIPE_MTE2, PIPE_V, 0);
  }
  ADD(1280, 256, 512);
  EDGE(V, MTE3, 0);
  STORE(0, 1024, 16);
  pipe_barrier(PIPE_ALL);
}

/* A set is lost where flags are binary, and only there. */
static void lost_sets(void **state) {
  (void)state;
  for (int binary = 0; binary < 2; binary++) {
    bool lost = false;
    for (uint64_t seed = 1; seed <= 32; seed++) {
      rd_npu_options o = {.size = sizeof o,
                          .mode = RD_NPU_VALUES,
                          .schedule = RD_NPU_RANDOM,
                          .seed = seed,
                          .flags = binary ? RD_NPU_FLAGS_BINARY : RD_NPU_FLAGS_COUNT};
      rd_npu_report *r = run_with(run_ahead, COUPLED, NULL, &o);
      lost |= rd_npu_report_count(r) > 0;
      rd_npu_report_free(r);
    }
    assert_int_equal(lost, binary);
  }
}

/* What is left over is counted. */
static void three_left(rd_npu_core *c, const void *args) {
  (void)args;
  set_flag(PIPE_M, PIPE_V, 1);
  for (int n = 0; n < 3; n++) set_flag(PIPE_M, PIPE_V, 1);
  wait_flag(PIPE_M, PIPE_V, 1);
  pipe_barrier(PIPE_ALL);
}
static void leftovers_counted(void **state) {
  (void)state;
  rd_npu_report *r = run(three_left, COUPLED, NULL, RD_NPU_CHECKED, 1, false);
  const rd_npu_finding *f = find(r, RD_NPU_LEFTOVER_FLAG, NULL);
  assert_non_null(strstr(f->message, "3 more sets than waits"));
  assert_int_equal(f->count, 3);
  rd_npu_report_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(binary_flags), cmocka_unit_test(lost_sets),
                                     cmocka_unit_test(leftovers_counted),
                                     cmocka_unit_test(defects_and_twins),
                                     cmocka_unit_test(hanging_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
