/* Flags that count: waits queued before their sets, ids taken again, queues of buffers, and what a
 * compiler synchronises.  Each defect has a twin that is silent but for notes. */
#include "planted.h"

/* V is given its work before MTE2 is given what V waits for. */
static void wait_first(rd_npu_core *c, const void *args) {
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  ADD(256, 0, 0);
  if (!BAD || WHICH != 1) set_flag(PIPE_V, PIPE_MTE3, 0);
  if (BAD && WHICH == 0) set_flag(PIPE_MTE2, PIPE_V, 0);
  LOAD(0, 0, 8);
  if (!BAD || WHICH != 0) set_flag(PIPE_MTE2, PIPE_V, 0);
  if (!BAD || WHICH != 1) wait_flag(PIPE_V, PIPE_MTE3, 0);
  STORE(0, 256, 8);
  pipe_barrier(PIPE_ALL);
}

/* An id whose wait is still queued is taken again. */
static void fetched_id(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  if (BAD && WHICH == 0) set_flag(PIPE_MTE2, PIPE_V, 0);
  LOAD(256, 256, 8);
  if (!BAD || WHICH != 0) set_flag(PIPE_MTE2, PIPE_V, 0);
  if (!BAD || WHICH != 1) wait_flag(PIPE_MTE2, PIPE_V, 0);
  ADD(512, 0, 256);
  if (BAD && WHICH == 1) wait_flag(PIPE_MTE2, PIPE_V, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}

/* Queues of two buffers: EnQue and FreeTensor take the lowest free id and set, DeQue and AllocTensor
 * wait and give it back. */
typedef struct ids {
  uint32_t free, of[8], head, count;
} ids;
static uint32_t take_id(ids *i) {
  uint32_t id = (uint32_t)__builtin_ctz(i->free);
  i->free &= ~(1u << id);
  i->of[(i->head + i->count++) % 8] = id;
  return id;
}
static uint32_t give_back(ids *i) {
  uint32_t id = i->of[i->head];
  i->head = (i->head + 1) % 8;
  i->count--;
  i->free |= 1u << id;
  return id;
}
static void queues(rd_npu_core *c, const void *args) {
  ids in = {.free = 255}, in_back = in, out_back = in;
  for (uint32_t t = 0; t < 7; t++) {
    uint32_t a = t % 2 * 256, b = 1024 + t % 2 * 256;
    if (t >= 2 && !(BAD && WHICH == 0)) wait_flag(PIPE_V, PIPE_MTE2, give_back(&in_back));
    LOAD(a, 256 * t, 8);
    if (!(BAD && WHICH == 1)) set_flag(PIPE_MTE2, PIPE_V, take_id(&in));
    if (t >= 2 && !(BAD && WHICH == 2)) wait_flag(PIPE_MTE3, PIPE_V, give_back(&out_back));
    if (!(BAD && WHICH == 1)) wait_flag(PIPE_MTE2, PIPE_V, give_back(&in));
    ADD(b, a, a);
    if (!(BAD && WHICH == 0)) set_flag(PIPE_V, PIPE_MTE2, take_id(&in_back));
    if (!(BAD && WHICH == 3)) EDGE(V, MTE3, 7);
    STORE(256 * t, b, 8);
    if (!(BAD && WHICH == 2)) set_flag(PIPE_MTE3, PIPE_V, take_id(&out_back));
  }
  while (in_back.count) wait_flag(PIPE_V, PIPE_MTE2, give_back(&in_back));
  while (out_back.count) wait_flag(PIPE_MTE3, PIPE_V, give_back(&out_back));
  pipe_barrier(PIPE_ALL);
}

/* The pairs of pipes that no vector kernel meets. */
static void pairs(rd_npu_core *c, const void *args) {
  bool bad[6];
  for (int n = 0; n < 6; n++) bad[n] = BAD && WHICH == n;
  copy_gm_to_cbuf(L1(0), GM(0), 1, 512, 0, 0);
  if (!bad[0]) EDGE(MTE2, MTE1, 0);
  load_cbuf_to_ca(L0A(0), L1(0), 0, 16, 1, 0, false);
  load_cbuf_to_cb(L0B(0), L1(0), 0, 16, 1, 0, false);
  if (!bad[1]) EDGE(MTE1, M, 0);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 64, 64, true);
  if (!bad[2]) EDGE(M, MTE1, 0);
  load_cbuf_to_ca(L0A(0), L1(0), 0, 16, 1, 0, false);
  LOAD(0, 0, 8);
  if (!bad[3]) EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 8);
  if (!bad[4]) EDGE(MTE3, MTE2, 0);
  LOAD(0, 256, 8);
  EDGE(MTE2, MTE3, 1);
  pipe_barrier(PIPE_MTE3);
  STORE(0, 0, 8);
  if (!bad[5]) EDGE(MTE3, V, 0);
  vector_dup(F32, UB(0), 0.0f, 1, 1, 8);
  pipe_barrier(PIPE_ALL);
}

static void hangs(rd_npu_core *c, const void *args) { /* a loop that takes one set too many */
  for (int n = 0; n < 3; n++) wait_flag(PIPE_MTE2, PIPE_V, 0);
  for (int n = 0; n < (BAD ? 2 : 3); n++) set_flag(PIPE_MTE2, PIPE_V, 0);
  pipe_barrier(PIPE_ALL);
}
static void set_set(rd_npu_core *c, const void *args) { /* wait, set, set is none too many */
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  if (BAD) set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  if (BAD) wait_flag(PIPE_MTE2, PIPE_V, 0);
  pipe_barrier(PIPE_ALL);
}

static const planted cases[] = {
    {"set too early", wait_first, COUPLED, RD_NPU_RACE_WAR, "V_MTE2", 0},
    {"no V_MTE3", wait_first, COUPLED, RD_NPU_RACE_RAW, "V_MTE3", 1},
    {"id again, set early", fetched_id, COUPLED, RD_NPU_RACE_RAW, "MTE2_V", 0},
    {"id again, wait late", fetched_id, COUPLED, RD_NPU_RACE_RAW, "MTE2_V", 1},
    {"queue in, back", queues, COUPLED, RD_NPU_RACE_WAR, "V_MTE2", 0},
    {"queue in", queues, COUPLED, RD_NPU_RACE_RAW, "MTE2_V", 1},
    {"queue out, back", queues, COUPLED, RD_NPU_RACE_WAR, "MTE3_V", 2},
    {"queue out", queues, COUPLED, RD_NPU_RACE_RAW, "V_MTE3", 3},
    {"MTE2_MTE1", pairs, COUPLED, RD_NPU_RACE_RAW, "MTE2_MTE1", 0},
    {"MTE1_M", pairs, COUPLED, RD_NPU_RACE_RAW, "MTE1_M", 1},
    {"M_MTE1", pairs, COUPLED, RD_NPU_RACE_WAR, "M_MTE1", 2},
    {"MTE2_MTE3", pairs, COUPLED, RD_NPU_RACE_RAW, "MTE2_MTE3", 3},
    {"MTE3_MTE2", pairs, COUPLED, RD_NPU_RACE_WAR, "MTE3_MTE2", 4},
    {"MTE3_V", pairs, COUPLED, RD_NPU_RACE_WAR, "MTE3_V", 5},
    {"one wait too many", hangs, COUPLED, RD_NPU_DEADLOCK, NULL, 0},
    {"one set too many", set_set, COUPLED, RD_NPU_DOUBLE_SET, NULL, 0},
};

static void defects_and_twins(void **state) {
  (void)state;
  judge_planted(cases, sizeof cases / sizeof cases[0], "test_counters.c:");
}

/* Without findings, every schedule gives the bits of the reference order. */
static void same_bits(void **state) {
  (void)state;
  static rd_npu_kernel *const kernels[] = {wait_first, fetched_id, queues};
  static uint8_t expected[sizeof gm1];
  variant clean = {false, 0};
  for (size_t k = 0; k < 3; k++)
    for (uint64_t n = 0; n < 34; n++) {
      rd_npu_options o = {.size = sizeof o, .seed = n};
      o.schedule = n == 0 ? RD_NPU_EAGER : n == 1 ? RD_NPU_LAZY : RD_NPU_RANDOM;
      rd_npu_report *r = run_with(kernels[k], COUPLED, &clean, &o);
      assert_int_equal(rd_npu_report_count(r), 0);
      rd_npu_report_free(r);
      if (n == 0) memcpy(expected, gm1, sizeof gm1);
      assert_memory_equal(expected, gm1, sizeof gm1);
      assert_int_not_equal(gm1[1], 0);
    }
}

static void witnessed(void **state) {
  (void)state;
  variant bad = {true, 0};
  rd_npu_report *r = run(wait_first, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
  const rd_npu_finding *f = find(r, RD_NPU_RACE_WAR, "V_MTE2");
  assert_string_equal(f->first.instruction, "vadd"); /* issued first, whichever runs first */
  assert_int_equal(f->witness, RD_NPU_WITNESS_DIFFERS);
  rd_npu_report_free(r);
}

/* S runs ahead: `which` instructions wait in V's queue. */
static void deep(rd_npu_core *c, const void *args) {
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  for (int n = 1; n < WHICH; n++) ADD(256 + 256 * (uint32_t)n, 0, 0);
  LOAD(0, 0, 8);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}
static void deep_queues(void **state) {
  (void)state;
  for (int n = 32; n < 60; n += n == 32 ? 1 : 13)
    for (int s = RD_NPU_EAGER; s <= RD_NPU_EXHAUSTIVE; s++) {
      variant v = {false, n};
      rd_npu_options o = {.size = sizeof o, .schedule = (rd_npu_schedule)s, .deviations = 1};
      rd_npu_report *r = run_with(deep, COUPLED, &v, &o);
      assert_int_equal(rd_npu_report_count(r), 0);
      assert_int_equal(find_note(r, RD_NPU_DEEP_QUEUE, NULL) != NULL, n > 32);
      rd_npu_report_free(r);
    }
}

/* Two updates race on V with `which` sets between them, which hold up nothing: all of it is queued while
 * V waits for the load, and the second may overtake the first however many they are. */
static void many_sets(rd_npu_core *c, const void *args) {
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  vmuls(F32, UB(512), UB(0), 3.0f, 1, 1, 1, 8, 8);
  for (uint32_t n = 0; n < (uint32_t)WHICH; n++) EDGE(V, MTE3, n % 8);
  if (!BAD) pipe_barrier(PIPE_V);
  vmuls(F32, UB(0), UB(0), 0.0f, 1, 1, 1, 8, 8);
  LOAD(0, 0, 8);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}
static void sets_hold_up_nothing(void **state) {
  (void)state;
  for (int n = 1; n < 60; n += 29)
    for (int bad = 0; bad < 2; bad++) {
      variant v = {bad, n};
      rd_npu_options o = {.size = sizeof o, .mode = RD_NPU_VALUES, .schedule = RD_NPU_EXHAUSTIVE};
      rd_npu_report *r = run_with(many_sets, COUPLED, &v, &o);
      assert_int_equal(find(r, RD_NPU_SCHEDULE_VALUE, NULL) != NULL, bad);
      rd_npu_report_free(r);
    }
}

/* S depends on MTE2, V on S, S on V, and MTE2 on V, which no compiler orders. */
static void scalar(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 1);
  store_ub(F32, UB(64), load_ub(F32, UB(0)));
  set_vector_mask(0, 1);
  ADD(512, 64, 64);
  store_ub(F32, UB(516), load_ub(F32, UB(512)));
  if (!BAD) EDGE(V, MTE2, 0);
  copy_gm_to_ubuf(UB(512), GM(0), (uint32_t)WHICH, 1, 0, 0);
  if (WHICH) EDGE(MTE2, MTE3, 0);
  if (!WHICH) EDGE(S, MTE3, 0);
  if (!WHICH) EDGE(V, MTE3, 0);
  STORE(0, 512, 1);
  pipe_barrier(PIPE_ALL);
}
static void vectors(rd_npu_core *c, const void *args) {
  (void)args;
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  ADD(512, 256, 256);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}
static rd_npu_report *synced(rd_npu_kernel *k, const variant *v, rd_npu_auto_sync sync,
                             uint64_t seed) {
  rd_npu_options o = {.size = sizeof o, .seed = seed, .auto_sync = sync, .witnesses = true};
  o.schedule = seed ? RD_NPU_RANDOM : RD_NPU_LAZY;
  return run_with(k, COUPLED, v, &o);
}
static void auto_sync(void **state) {
  (void)state;
  variant v = {false, 1};
  rd_npu_report *r = synced(scalar, &v, RD_NPU_AUTO_SYNC_NONE, 0);
  assert_non_null(find(r, RD_NPU_RACE_RAW, "MTE2_S"));
  assert_non_null(find(r, RD_NPU_RACE_RAW, "S_V"));
  assert_non_null(find(r, RD_NPU_RACE_RAW, "V_S"));
  rd_npu_report_free(r);
  for (uint64_t seed = 0; seed < 16; seed++) /* the stalls keep the values */
    for (v.which = 1; v.which < 2; v.which++) {
      r = synced(scalar, &v, RD_NPU_AUTO_SYNC_SCALAR, seed);
      if (rd_npu_report_count(r)) dump("scalar", r);
      assert_int_equal(rd_npu_report_count(r), 0);
      rd_npu_report_free(r);
      float x, y;
      memcpy(&x, gm0, 4);
      memcpy(&y, gm1, 4);
      assert_true(y == (v.which ? x : x + x));
    }
  v = (variant){true, 1}; /* V_S and S's own order do not heal V before MTE2 */
  r = synced(scalar, &v, RD_NPU_AUTO_SYNC_SCALAR, 0);
  assert_non_null(find(r, RD_NPU_RACE_WAW, "V_MTE2"));
  rd_npu_report_free(r);
  for (int sync = 0; sync <= RD_NPU_AUTO_SYNC_ALL; sync++) {
    r = synced(vectors, &v, (rd_npu_auto_sync)sync, 0);
    const rd_npu_finding *f = find(r, RD_NPU_RACE_RAW, "pipe_barrier(V)");
    assert_int_equal(f != NULL, sync != RD_NPU_AUTO_SYNC_ALL);
    if (f) assert_non_null(strstr(f->message, "--auto-sync all"));
    rd_npu_report_free(r);
  }
}

/* Witnesses keep to what the compiler inserts: V before MTE3 is unordered (0), or ordered by an S that
 * waits for V before it issues the load (1), which is no order to rely on, but no run reverses it. */
static void beside_s(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  store_ub(F32, UB(1024), load_ub(F32, UB(0)));
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  if (WHICH == 1) store_ub(F32, UB(1028), load_ub(F32, UB(256)));
  if (!BAD) EDGE(V, MTE3, 0);
  STORE(0, 256, 8);
  pipe_barrier(PIPE_ALL);
}
static void witnesses_beside_s(void **state) {
  (void)state;
  for (int which = 0; which < 2; which++) {
    variant v = {true, which};
    rd_npu_report *r = synced(beside_s, &v, RD_NPU_AUTO_SYNC_SCALAR, 0);
    const rd_npu_finding *f = find(r, RD_NPU_RACE_RAW, "V_MTE3");
    assert_non_null(f);
    assert_int_equal(f->witness, which ? RD_NPU_WITNESS_SAME : RD_NPU_WITNESS_DIFFERS);
    rd_npu_report_free(r);
    v.bad = false;
    r = synced(beside_s, &v, RD_NPU_AUTO_SYNC_SCALAR, 0);
    assert_int_equal(rd_npu_report_count(r), 0);
    rd_npu_report_free(r);
  }
}

/* The compiler puts V in order where it depends on V, and nowhere else: the second add may run first,
 * and S, which waits for it, then issues the load over what the first has yet to write. */
static void independent(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(1024, 0, 0);
  ADD(512, 0, 0);
  store_ub(F32, UB(768), load_ub(F32, UB(512)));
  if (!BAD) EDGE(V, MTE2, 0);
  LOAD(1024, 256, 8);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 1024, 8);
  pipe_barrier(PIPE_ALL);
}
static void independent_vectors(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    variant v = {bad, 0};
    rd_npu_options o = {.size = sizeof o,
                        .mode = RD_NPU_VALUES,
                        .schedule = RD_NPU_EXHAUSTIVE,
                        .auto_sync = RD_NPU_AUTO_SYNC_ALL};
    rd_npu_report *r = run_with(independent, COUPLED, &v, &o);
    assert_int_equal(find(r, RD_NPU_SCHEDULE_VALUE, NULL) != NULL, bad);
    rd_npu_report_free(r);
  }
}

/* Many records of one granule: V reads it `which` times, S stores, ordered by the compiler alone, and
 * MTE2 loads it again, which nothing orders after V's reads. */
static void crowded(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  set_vector_mask(0, 1); /* the word that S stores */
  for (uint32_t n = 0; n < (uint32_t)WHICH; n++)
    vmuls(F32, UB(512 + 256 * n), UB(0), 2.0f, 1, 1, 1, 8, 8);
  store_ub(F32, UB(0), rd_npu_f32(1.0f));
  if (!BAD) EDGE(V, MTE2, 0);
  LOAD(0, 0, 1);
  pipe_barrier(PIPE_ALL);
}
static void crowded_granule(void **state) {
  (void)state;
  for (int n = 1; n < 70; n++)
    for (int bad = 0; bad < 2; bad++) {
      variant v = {bad, n};
      rd_npu_report *r = synced(crowded, &v, RD_NPU_AUTO_SYNC_SCALAR, 0);
      if (!bad && rd_npu_report_count(r)) dump("crowded", r);
      assert_int_equal(find(r, RD_NPU_RACE_WAR, "V_MTE2") != NULL, bad);
      assert_int_equal(rd_npu_report_count(r) != 0, bad);
      rd_npu_report_free(r);
    }
}

/* Notes neither refuse a kernel nor make a mutant needed, and the k-th set belongs to the k-th wait
 * though the wait is issued first. */
static void mutation(void **state) {
  (void)state;
  static rd_npu_kernel *const kernels[] = {wait_first, fetched_id, queues, deep};
  static const uint64_t edges[] = {2, 3, 4, 2};
  for (size_t k = 0; k < 4; k++) {
    variant v = {false, 40};
    memset(gm1, 0, sizeof gm1);
    rd_npu_tensor gm[3] = {{"in", gm0, sizeof gm0, 2, RD_NPU_IN},
                           {"out", gm1, sizeof gm1, 2, RD_NPU_OUT},
                           {"state", gm2, sizeof gm2, 2, RD_NPU_INOUT}};
    rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, kernels[k], &v, gm, 3};
    rd_npu_mutation *m;
    rd_npu_status s = rd_npu_mutate(&l, 1, NULL, &m);
    uint64_t found = 0;
    for (size_t i = 0; i < rd_npu_mutation_count(m); i++) {
      const rd_npu_mutant *x = rd_npu_mutation_get(m, i);
      found += strcmp(x->what, "drop edge") == 0;
      assert_null(strstr(x->reason, "flag reuse"));
      assert_null(strstr(x->reason, "deep queue"));
    }
    if (s != RD_NPU_OK || found != edges[k]) {
      char *t = rd_npu_mutation_text(m);
      print_error("%zu: %s", k, t);
      free(t);
    }
    assert_int_equal(s, RD_NPU_OK);
    assert_int_equal(found, edges[k]);
    rd_npu_mutation_free(m);
  }
}

static bool count_lines(void *user, const char *bytes, size_t count) {
  for (size_t n = 0; n < count; n++) *(int *)user += bytes[n] == '\n';
  return true;
}

/* The add waits for the load although it is issued before it: 204 cycles, 17, 204. */
static void timeline(void **state) {
  (void)state;
  variant v = {false, 0};
  rd_npu_tensor gm[3] = {{"in", gm0, sizeof gm0, 2, RD_NPU_IN},
                         {"out", gm1, sizeof gm1, 2, RD_NPU_OUT},
                         {"state", gm2, sizeof gm2, 2, RD_NPU_INOUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, wait_first, &v, gm, 3};
  rd_npu_trace_result t;
  int lines = 0;
  assert_int_equal(rd_npu_trace(&l, NULL, NULL, NULL, count_lines, &lines, &t), RD_NPU_OK);
  assert_int_equal(lines, 8);
  assert_int_equal(t.cycles, 4 + 204 + 17 + 204); /* the load is the fourth to be issued */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(defects_and_twins),
                                     cmocka_unit_test(same_bits),
                                     cmocka_unit_test(witnessed),
                                     cmocka_unit_test(deep_queues),
                                     cmocka_unit_test(sets_hold_up_nothing),
                                     cmocka_unit_test(auto_sync),
                                     cmocka_unit_test(witnesses_beside_s),
                                     cmocka_unit_test(independent_vectors),
                                     cmocka_unit_test(crowded_granule),
                                     cmocka_unit_test(mutation),
                                     cmocka_unit_test(timeline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
