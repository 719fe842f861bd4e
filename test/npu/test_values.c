/* Scalars as C values: kernels steered by what S reads from UB, with and without the events that order
 * the read; what schedules, witnesses and mutation make of them; outputs that keep their bytes. */
#include "planted.h"

static uint64_t seed = 1;

/* gm0 as the tests set it: 16-bit elements 0x3000 + n % 256, so that word 0 is 0x30013000. */
enum { BRANCH, TRIPS, ADDRESS };

/* What S reads came with MTE2 (which 0..2) or from V (3..5). */
static void steered(rd_npu_core *c, const void *args) {
  bool from_v = WHICH > 2;
  int use = WHICH % 3;
  LOAD(0, 0, 16);
  if (from_v) {
    EDGE(MTE2, V, 0);
    vector_dup(S32, UB(2048), use == BRANCH ? 1 : use == TRIPS ? 3 : 256, 1, 1, 8);
    if (!BAD) EDGE(V, S, 0);
  } else if (!BAD)
    EDGE(MTE2, S, 0);
  uint64_t n = get_value(UB(from_v ? 2048 : 2), 1); /* 1, or what V wrote */
  int64_t word = get_value_int(S32, UB(from_v ? 2048 : 0));
  EDGE(MTE2, V, 1);
  if (use == BRANCH) {
    if (n == 1) {
      ADD(1024, 0, 0);
    } else {
      vector_dup(F32, UB(1024), 5.0f, 1, 1, 8);
    }
  } else if (use == TRIPS) {
    for (uint64_t k = 0; k < (from_v ? (uint64_t)word : n) && k < 4; k++) {
      ADD(1024, 0, 0);
      pipe_barrier(PIPE_V);
    }
  } else {
    ADD(1024, from_v ? (uint64_t)(word & 256) : (n & 1) * 32 - 32, 0);
  }
  EDGE(V, MTE3, 0);
  STORE(0, 1024, 8);
  pipe_barrier(PIPE_ALL);
}

/* A write by S that V reads, of every size. */
static void stores(rd_npu_core *c, const void *args) {
  static const uint32_t bytes[4] = {1, 2, 4, 8};
  uint32_t n = bytes[WHICH];
  for (uint32_t at = 0; at < 256; at += n) set_value(UB(at), 0x3F3F3F3F3F3F3F3Full, n);
  if (!BAD) EDGE(S, V, 0);
  ADD(256, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 256, 8);
  if (get_value(UB(0), n) != 0x3F3F3F3F3F3F3F3Full >> (64 - 8 * n)) STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}

/* V overwrites what S reads. */
static void overwritten(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, S, 0);
  EDGE(MTE2, V, 0);
  uint64_t n = get_value(UB(0), 8);
  if (!BAD) EDGE(S, V, 0);
  ADD(0, 0, 0);
  EDGE(V, MTE3, 0);
  if (n) STORE(0, 0, 8);
  pipe_barrier(PIPE_ALL);
}

static const planted cases[] = {
    {"branch, MTE2_S", steered, COUPLED, RD_NPU_RACE_RAW, "MTE2_S", BRANCH},
    {"trip count, MTE2_S", steered, COUPLED, RD_NPU_RACE_RAW, "MTE2_S", TRIPS},
    {"address, MTE2_S", steered, COUPLED, RD_NPU_RACE_RAW, "MTE2_S", ADDRESS},
    {"branch, V_S", steered, COUPLED, RD_NPU_RACE_RAW, "V_S", 3 + BRANCH},
    {"trip count, V_S", steered, COUPLED, RD_NPU_RACE_RAW, "V_S", 3 + TRIPS},
    {"address, V_S", steered, COUPLED, RD_NPU_RACE_RAW, "V_S", 3 + ADDRESS},
    {"branch, V_S, A2", steered, RD_NPU_910B, RD_NPU_VECTOR, 1, RD_NPU_RACE_RAW, "V_S", 3 + BRANCH},
    {"store 1", stores, COUPLED, RD_NPU_RACE_RAW, "S_V", 0},
    {"store 2", stores, COUPLED, RD_NPU_RACE_RAW, "S_V", 1},
    {"store 4", stores, COUPLED, RD_NPU_RACE_RAW, "S_V", 2},
    {"store 8", stores, COUPLED, RD_NPU_RACE_RAW, "S_V", 3},
    {"overwritten", overwritten, COUPLED, RD_NPU_RACE_WAR, "S_V", 0},
};
#define CASES (sizeof cases / sizeof cases[0])

/* One core, so that what two cores would store to the same place does not matter. */
static rd_npu_kernel *inner;
static void first_core(rd_npu_core *c, const void *args) {
  if (get_block_idx() == 0) inner(c, args);
}

static void defects_and_twins(void **state) {
  (void)state;
  planted one[CASES];
  for (size_t n = 0; n < CASES; n++) {
    one[n] = cases[n];
    inner = cases[n].kernel;
    one[n].kernel = first_core;
    judge_planted(&one[n], 1, "test_values.c:");
  }
}

static void sites(void **state) {
  (void)state;
  variant bad = {true, TRIPS};
  rd_npu_report *r = run(steered, COUPLED, &bad, RD_NPU_CHECKED, 1, false);
  const rd_npu_finding *f = find(r, RD_NPU_RACE_RAW, "MTE2_S");
  assert_string_equal(f->first.instruction, "copy_gm_to_ubuf");
  assert_string_equal(f->second.instruction, "get_value");
  assert_int_equal(f->first.pipe, RD_NPU_PIPE_MTE2);
  assert_int_equal(f->second.pipe, RD_NPU_PIPE_S);
  assert_string_equal(f->second.buffer, "UB");
  assert_int_equal(f->second.begin, 2);
  assert_int_equal(f->second.end, 3);
  rd_npu_report_free(r);
}

/* A witness of the missing event is the number that S would read. */
static void witnesses(void **state) {
  (void)state;
  for (int which = 0; which < 6; which++) {
    variant bad = {true, which};
    rd_npu_report *r = run(steered, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
    const rd_npu_finding *f = find(r, RD_NPU_RACE_RAW, which > 2 ? "V_S" : "MTE2_S");
    assert_int_equal(f->witness, RD_NPU_WITNESS_DIFFERS);
    assert_null(f->witness_tensor);
    assert_non_null(strstr(f->witness_site, "test_values.c:"));
    char *text = rd_npu_report_text(r), *json = rd_npu_report_json(r), expected[200];
    snprintf(expected, sizeof expected,
             "S would read %.9g instead of %.9g at test_values.c:", f->got, f->expected);
    assert_true(f->got == 255); /* poison */
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(json, "\"value_read\": \"test_values.c:"));
    free(text);
    free(json);
    rd_npu_report_free(r);
  }
}

/* What is found behind the value that no event orders belongs to one continuation; the read itself,
 * and what comes before it, does not. */
static void doubtful(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  if (!BAD) EDGE(MTE2, S, 0);
  uint64_t n = get_value(UB(2), 1);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  if (n) STORE(0, 256, 8); /* without V_MTE3 */
  pipe_barrier(PIPE_ALL);
}
static void continuations(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    variant v = {bad, 0};
    rd_npu_report *r = run(doubtful, COUPLED, &v, RD_NPU_CHECKED, 1, false);
    const rd_npu_finding *read = find(r, RD_NPU_RACE_RAW, "MTE2_S"),
                         *behind = find(r, RD_NPU_RACE_RAW, "V_MTE3");
    assert_int_equal(read != NULL, bad);
    assert_true(behind && behind->continuation == bad && !(read && read->continuation));
    char *text = rd_npu_report_text(r);
    assert_int_equal(strstr(text, "one possible continuation") != NULL, bad);
    free(text);
    rd_npu_report_free(r);
  }
}

/* Where S hangs nothing is read: the kernel goes on with 0, and what is found is a continuation. */
static void hangs(rd_npu_core *c, const void *args) {
  set_value(UB(0), 3, 8);
  if (BAD) wait_flag(PIPE_V, PIPE_S, 0);
  if (get_value(UB(0), 8) == 0) get_value(UB(1), 2); /* not aligned */
  pipe_barrier(PIPE_ALL);
}
static void behind_a_hang(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++)
    for (int mode = 0; mode < 3; mode++) {
      variant v = {bad, 0};
      rd_npu_report *r = run(hangs, COUPLED, &v, (rd_npu_mode)mode, 1, false);
      const rd_npu_finding *f = find(r, RD_NPU_BOUNDS, NULL);
      assert_int_equal(find(r, RD_NPU_DEADLOCK, NULL) != NULL, bad);
      assert_true(bad ? f && (mode == 1 || f->continuation) : !rd_npu_report_count(r));
      rd_npu_report_free(r);
    }
}

/* A trip count that is poison, and a loop that polls: both end, and say where. */
static void endless(rd_npu_core *c, const void *args) {
  set_value(UB(0), 2, 8);
  if (WHICH == 0) {
    if (BAD)
      LOAD(0, 0, 1); /* a race: 0x3003300230013000 */
    else
      EDGE(S, MTE2, 0);
    for (uint64_t n = get_value(UB(0), 8); n; n--) set_value(UB(256), n, 8);
  }
  for (uint32_t n = 0; WHICH == 1 && get_value(UB(0), 8) == 2 && (BAD || n < 9); n++) {
  }
  pipe_barrier(PIPE_ALL);
}
static void endings(void **state) {
  (void)state;
  for (int which = 0; which < 2; which++) {
    planted p = {"endless", endless, COUPLED, RD_NPU_SCHEDULE_VALUE, NULL, which};
    judge_planted(&p, 1, "test_values.c:");
  }
}

/* ---- many tiles: the length of each comes with its data */

typedef struct tiles {
  uint32_t count;
  bool without; /* V_S */
} tiles;

/* Tile t holds 64 floats; word 0 counts how often it is doubled. */
static void doubling(rd_npu_core *c, const void *args) {
  const tiles *a = args;
  uint64_t base = (uint64_t)get_block_idx() * a->count * 256;
  set_flag(PIPE_V, PIPE_MTE2, 0);
  set_flag(PIPE_MTE3, PIPE_V, 0);
  set_flag(PIPE_S, PIPE_V, 1);
  for (uint32_t t = 0; t < a->count; t++) {
    wait_flag(PIPE_V, PIPE_MTE2, 0);
    copy_gm_to_ubuf(UB(0), GM(0) + base + t * 256, 1, 8, 0, 0);
    set_flag(PIPE_MTE2, PIPE_V, 0);
    wait_flag(PIPE_MTE2, PIPE_V, 0);
    wait_flag(PIPE_S, PIPE_V, 1);
    pipe_barrier(PIPE_V);
    vmuls(S32, UB(512), UB(0), 1, 1, 1, 1, 8, 8);
    set_flag(PIPE_V, PIPE_S, 0);
    if (!a->without) wait_flag(PIPE_V, PIPE_S, 0);
    int64_t n = get_value_int(S32, UB(512));
    set_flag(PIPE_S, PIPE_V, 1);
    wait_flag(PIPE_MTE3, PIPE_V, 0);
    vmuls(S32, UB(1024), UB(0), 1, 1, 1, 1, 8, 8);
    for (int64_t k = 0; k < n && k < 3; k++) {
      pipe_barrier(PIPE_V);
      vadd(S32, UB(1024), UB(1024), UB(1024), 1, 1, 1, 1, 8, 8, 8);
    }
    set_flag(PIPE_V, PIPE_MTE2, 0);
    set_flag(PIPE_V, PIPE_MTE3, 0);
    wait_flag(PIPE_V, PIPE_MTE3, 0);
    copy_ubuf_to_gm(GM(1) + base + t * 256, UB(1024), 1, 8, 0, 0);
    set_flag(PIPE_MTE3, PIPE_V, 0);
    if (a->without) wait_flag(PIPE_V, PIPE_S, 0);
  }
  wait_flag(PIPE_V, PIPE_MTE2, 0);
  wait_flag(PIPE_MTE3, PIPE_V, 0);
  wait_flag(PIPE_S, PIPE_V, 1);
  pipe_barrier(PIPE_ALL);
}

#define CORES 3
#define MOST  4
static int32_t in[CORES * MOST * 64], out[CORES * MOST * 64];
static tiles shape;
static rd_npu_tensor gm[2];

static rd_npu_launch prepare(uint32_t count, uint32_t cores, bool without) {
  uint64_t s = seed;
  for (size_t i = 0; i < sizeof in / 4; i++)
    in[i] = i % 64 ? (int32_t)(rng_next(&s) >> 40) : (int32_t)(rng_next(&s) % 4);
  for (size_t i = 0; i < sizeof out / 4; i++) out[i] = -7;
  shape = (tiles){count, without};
  uint64_t bytes = (uint64_t)count * cores * 256;
  gm[0] = (rd_npu_tensor){"in", in, bytes, 4, RD_NPU_IN};
  gm[1] = (rd_npu_tensor){"out", out, bytes, 4, RD_NPU_OUT};
  return (rd_npu_launch){
      sizeof(rd_npu_launch), RD_NPU_310P, RD_NPU_COUPLED, 0, cores, doubling, &shape, gm, 2};
}

static void expect_doubled(const rd_npu_launch *l) {
  for (size_t i = 0; i < l->tensors[1].bytes / 4; i++) {
    int32_t n = in[i / 64 * 64];
    assert_int_equal(out[i], in[i] << (n < 3 ? n : 3));
  }
}

static void expect_untouched(void) {
  for (size_t i = 0; i < sizeof out / 4; i++) assert_int_equal(out[i], -7);
}

static void every_schedule(void **state) {
  (void)state;
  for (uint64_t k = 0; k < 24; k++) {
    rd_npu_launch l = prepare(MOST, CORES, false);
    rd_npu_options o = {.size = sizeof o,
                        .schedule = k == 0   ? RD_NPU_EAGER
                                    : k == 1 ? RD_NPU_LAZY
                                    : k == 2 ? RD_NPU_EXHAUSTIVE
                                             : RD_NPU_RANDOM,
                        .max_schedules = 200,
                        .seed = seed + k,
                        .threads = 1 + (uint32_t)k % 3,
                        .mode = k % 2 ? RD_NPU_VALUES : RD_NPU_CHECKED};
    rd_npu_report *r;
    assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_OK);
    rd_npu_report_free(r);
    expect_doubled(&l);
  }
}

/* Order-only runs and the trace read values, too, and leave the outputs alone. */
static void outputs_stay(void **state) {
  (void)state;
  rd_npu_launch l = prepare(MOST, CORES, false);
  rd_npu_options o = {.size = sizeof o, .mode = RD_NPU_ORDER};
  rd_npu_report *checked, *r;
  assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_OK);
  expect_untouched();
  rd_npu_trace_result t;
  assert_int_equal(rd_npu_trace(&l, NULL, NULL, NULL, NULL, NULL, &t), RD_NPU_OK);
  expect_untouched();
  o.mode = RD_NPU_CHECKED;
  assert_int_equal(rd_npu_run(&l, &o, &checked), RD_NPU_OK);
  assert_int_equal(rd_npu_report_instructions(r), rd_npu_report_instructions(checked));
  uint64_t adds = 0;
  for (uint32_t i = 0; i < CORES * MOST; i++) adds += (uint64_t)(in[i * 64] < 3 ? in[i * 64] : 3);
  assert_true(adds > 0);
  assert_int_equal(t.pipe[RD_NPU_PIPE_V].operations, 2 * CORES * MOST + adds);
  rd_npu_report_free(r);
  rd_npu_report_free(checked);
}

/* The lazy schedule reads early: it ends at the read and says what S would see. */
static void replays_differ(void **state) {
  (void)state;
  static const rd_npu_schedule kinds[] = {RD_NPU_LAZY, RD_NPU_EXHAUSTIVE};
  for (int k = 0; k < 2; k++) {
    rd_npu_launch l = prepare(2, 1, true);
    rd_npu_options o = {.size = sizeof o, .schedule = kinds[k], .mode = RD_NPU_VALUES};
    rd_npu_report *r;
    assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_FINDING);
    const rd_npu_finding *f = find(r, RD_NPU_SCHEDULE_VALUE, NULL);
    assert_non_null(f);
    assert_non_null(strstr(f->message, "S would read -1 instead of"));
    assert_non_null(strstr(f->first.site, "test_values.c:"));
    rd_npu_report_free(r);
  }
}

/* What the compiler inserts for S holds the read back. */
static void inserted_by_compiler(void **state) {
  (void)state;
  for (int k = 0; k < 6; k++) {
    rd_npu_launch l = prepare(2, 1, true);
    rd_npu_options o = {.size = sizeof o,
                        .auto_sync = RD_NPU_AUTO_SYNC_SCALAR,
                        .schedule = k == 0   ? RD_NPU_LAZY
                                    : k == 1 ? RD_NPU_EXHAUSTIVE
                                             : RD_NPU_RANDOM,
                        .max_schedules = 200,
                        .seed = seed + (uint64_t)k};
    rd_npu_report *r;
    rd_npu_status status = rd_npu_run(&l, &o, &r);
    if (status != RD_NPU_OK) dump("compiler", r);
    assert_int_equal(status, RD_NPU_OK);
    rd_npu_report_free(r);
    expect_doubled(&l);
  }
}

static void mutation(void **state) {
  (void)state;
  rd_npu_launch l = prepare(3, 2, false);
  rd_npu_options o = {.size = sizeof o, .threads = 2};
  rd_npu_mutation *m;
  rd_npu_status s = rd_npu_mutate(&l, 1, &o, &m);
  char *text = rd_npu_mutation_text(m);
  bool needed = false;
  for (size_t i = 0; i < rd_npu_mutation_count(m); i++) {
    const rd_npu_mutant *x = rd_npu_mutation_get(m, i);
    if (strcmp(x->what, "drop edge") == 0 && strncmp(x->unit, "V_S", 3) == 0) needed |= x->needed;
  }
  if (s != RD_NPU_OK || !needed) print_error("%s", text);
  assert_int_equal(s, RD_NPU_OK);
  assert_true(needed);
  assert_non_null(strstr(text, ", 0 undetected\n"));
  expect_untouched();
  free(text);
  rd_npu_mutation_free(m);
}

static void refused(rd_npu_core *c, const void *args) {
  set_value(UB(0), 1, 8);
  if (!BAD) return;
  if (WHICH == 0) get_value(UB(1), 2);
  if (WHICH == 1) get_value(UB(256 * 1024), 1);
  if (WHICH == 2) get_value(UB(0), 3);
  if (WHICH == 3) set_value(UB(4), 1, 8);
  if (WHICH == 4) get_value(L1(0), 4);
}
static void limits(void **state) {
  (void)state;
  for (int which = 0; which < 5; which++) {
    planted p = {"refused", refused, COUPLED, RD_NPU_BOUNDS, NULL, which};
    judge_planted(&p, 1, "test_values.c:");
  }
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(defects_and_twins),
                                     cmocka_unit_test(sites),
                                     cmocka_unit_test(witnesses),
                                     cmocka_unit_test(continuations),
                                     cmocka_unit_test(every_schedule),
                                     cmocka_unit_test(outputs_stay),
                                     cmocka_unit_test(replays_differ),
                                     cmocka_unit_test(mutation),
                                     cmocka_unit_test(inserted_by_compiler),
                                     cmocka_unit_test(behind_a_hang),
                                     cmocka_unit_test(endings),
                                     cmocka_unit_test(limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
