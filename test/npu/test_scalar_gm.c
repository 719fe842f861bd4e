/* GM that the launch writes, as S sees it: through a data cache of 64-byte lines.  Stale lines, lost
 * ones, and two cores on one line; what orders S with the other pipes; the values of it. */
#include "planted.h"

static uint64_t seed = 1;

#define AT(tensor, offset) RD_NPU_GM_ADDR(tensor, offset)
#define CLEAN(tensor, offset)                                                                      \
  data_cache_clean_and_invalid(AT(tensor, offset), RD_NPU_SINGLE_CACHE_LINE)
#define CLEAN_ALL() data_cache_clean_and_invalid(0, RD_NPU_ENTIRE_DATA_CACHE)
/* gm2, "state", is read and written: 4096 bytes of 0 before the launch. */
#define STORE2(gm, ub, blocks) copy_ubuf_to_gm(AT(2, gm), UB(ub), 1, blocks, 0, 0)

/* S reads a word, MTE3 writes it (or its neighbour), S reads it again. */
static void stale_read(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 2);
  EDGE(MTE2, MTE3, 0);
  uint64_t before = get_value(AT(2, 32), 4);
  if (!BAD || WHICH == 2) EDGE(S, MTE3, 0);
  STORE2(WHICH == 1 ? 0 : 32, 0, 1);
  if (!BAD || WHICH != 0) EDGE(MTE3, S, 0);
  if (!BAD) {
    if (WHICH)
      CLEAN(2, 4 * WHICH);
    else
      CLEAN_ALL();
  }
  uint64_t after = get_value(AT(2, WHICH == 1 ? 0 : 32), 4);
  if (!before && after == 0x30013000) STORE(0, 0, 2);
  pipe_barrier(PIPE_ALL);
}

/* S stores a word, MTE2 reads it. */
static void lost_store(rd_npu_core *c, const void *args) {
  bool late = BAD && WHICH == 1; /* cleaned, but after the event */
  set_value(AT(2, 64), 0x3F, 1);
  set_value(AT(2, 68), 0x40404040, 4);
  if (!BAD || WHICH == 2) CLEAN(2, 68);
  if (!BAD || WHICH != 2) EDGE(S, MTE2, 0);
  if (late) CLEAN_ALL();
  copy_gm_to_ubuf(UB(0), AT(2, 64), 1, 1, 0, 0);
  if (BAD && WHICH == 0) CLEAN(2, 64);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 1);
  pipe_barrier(PIPE_ALL);
}

/* A dirty line at the end: one of two, or all. */
static void never_cleaned(rd_npu_core *c, const void *args) {
  set_value(AT(2, 128), 7, 8);
  set_value(AT(2, 192), 7, 8);
  if (!BAD || WHICH == 1) CLEAN(2, 128);
  if (!BAD) CLEAN_ALL();
  pipe_barrier(PIPE_ALL);
}

/* S stores into a line of which MTE3 writes another part. */
static void shared_line(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 1);
  EDGE(MTE2, MTE3, 0);
  if (WHICH == 0) get_value(AT(2, 0), 8); /* the line is held before MTE3 writes */
  EDGE(S, MTE3, 0);
  if (WHICH != 2) STORE2(32, 0, 1);
  if (!BAD || WHICH == 0) EDGE(MTE3, S, 0);
  if (!BAD) CLEAN(2, 0);
  set_value(AT(2, 0), 9, 8);
  CLEAN(2, 0);
  if (WHICH == 2) { /* MTE3 writes after the cleaning, or maybe not */
    if (!BAD) EDGE(S, MTE3, 1);
    STORE2(32, 0, 1);
  }
  pipe_barrier(PIPE_ALL);
}

/* The stores of two cores: on one line, or on one each; the second core by MTE3 in case 1; case 2 reads
 * the neighbour's word. */
static void cores(rd_npu_core *c, const void *args) {
  uint64_t at = get_block_idx() * (BAD ? 32u : 64u);
  if (WHICH == 1 && get_block_idx()) {
    LOAD(0, 0, 1);
    EDGE(MTE2, MTE3, 0);
    STORE2(at, 0, 1);
  } else if (WHICH == 2 && get_block_idx()) {
    get_value(AT(2, BAD ? 0 : 8), 8);
  } else {
    set_value(AT(2, at), 5, 8);
    CLEAN_ALL();
  }
  pipe_barrier(PIPE_ALL);
}

/* Stores to every line of two tensors, scattered, each cleaned by itself but one. */
static void many_lines(rd_npu_core *c, const void *args) {
  for (uint32_t n = 0; n < 128; n++) {
    uint32_t line = n * 37 % 128;
    set_value(AT(1 + line % 2, line / 2 * 64 + 8), line, 8);
  }
  for (uint32_t n = 0; n < 128; n++) {
    uint32_t line = n * 91 % 128;
    if (!BAD || line != (uint32_t)WHICH) CLEAN(1 + line % 2, line / 2 * 64);
  }
  EDGE(S, MTE2, 0);
  copy_gm_to_ubuf(UB(0), AT(2, 0), 1, 128, 0, 0);
  pipe_barrier(PIPE_ALL);
}
static void one_of_many(void **state) {
  (void)state;
  for (int line = 1; line < 128; line += 14) {
    variant v = {false, line};
    rd_npu_report *r = run(many_lines, COUPLED, &v, RD_NPU_CHECKED, 1, false);
    if (rd_npu_report_count(r)) dump("all cleaned", r);
    assert_int_equal(rd_npu_report_count(r), 0);
    rd_npu_report_free(r);
    v.bad = true;
    r = run(many_lines, COUPLED, &v, RD_NPU_CHECKED, 1, false);
    const rd_npu_finding *f = find(r, RD_NPU_LOST_LINE, NULL);
    assert_non_null(f);
    assert_int_equal(f->first.begin, line / 2 * 64 + 8);
    rd_npu_report_free(r);
  }
}

static const planted cases[] = {
    {"no MTE3_S", stale_read, COUPLED, RD_NPU_RACE_RAW, "MTE3_S", 0},
    {"stale line, other half", stale_read, COUPLED, RD_NPU_STALE_LINE, NULL, 1},
    {"stale word", stale_read, COUPLED, RD_NPU_STALE_LINE, NULL, 2},
    {"stale word, A2", stale_read, RD_NPU_910B, RD_NPU_VECTOR, 1, RD_NPU_STALE_LINE, NULL, 2},
    {"read before cleaned", lost_store, COUPLED, RD_NPU_LOST_LINE, NULL, 0},
    {"cleaned after the event", lost_store, COUPLED, RD_NPU_RACE_RAW, "S_MTE2", 1},
    {"no S_MTE2", lost_store, COUPLED, RD_NPU_RACE_RAW, "S_MTE2", 2},
    {"never cleaned", never_cleaned, COUPLED, RD_NPU_LOST_LINE, NULL, 0},
    {"one cleaned", never_cleaned, COUPLED, RD_NPU_LOST_LINE, NULL, 1},
    {"store to a stale line", shared_line, COUPLED, RD_NPU_STALE_LINE, NULL, 0},
    {"line filled too early", shared_line, COUPLED, RD_NPU_STALE_LINE, NULL, 1},
    {"line written back late", shared_line, COUPLED, RD_NPU_RACE_WAW, "S_MTE3", 2},
    {"two cores store", cores, RD_NPU_310P, RD_NPU_COUPLED, 2, RD_NPU_RACE_CORES, NULL, 0},
    {"S and MTE3 of two cores", cores, RD_NPU_310P, RD_NPU_COUPLED, 2, RD_NPU_RACE_CORES, NULL, 1},
    {"store and read", cores, RD_NPU_310P, RD_NPU_COUPLED, 2, RD_NPU_RACE_CORES, NULL, 2},
};
#define CASES (sizeof cases / sizeof cases[0])

static rd_npu_kernel *inner;
static void first_core(rd_npu_core *c, const void *args) {
  if (get_block_idx() == 0) inner(c, args);
}

static void defects_and_twins(void **state) {
  (void)state;
  for (size_t n = 0; n < CASES; n++) {
    planted one = cases[n];
    inner = one.kernel;
    if (one.arch == RD_NPU_910B) one.kernel = first_core; /* both would store to one place */
    judge_planted(&one, 1, "test_scalar_gm.c:");
  }
}

/* MTE2 reads what MTE3 wrote: the event is enough, and on 910B a note when nothing else orders them. */
static void through_gm(rd_npu_core *c, const void *args) {
  if (get_block_idx()) return;
  LOAD(0, 0, 1);
  EDGE(MTE2, MTE3, 0);
  STORE2(0, 0, 1);
  if (WHICH == 0) EDGE(MTE3, MTE2, 0);
  if (WHICH == 1) pipe_barrier(PIPE_ALL);
  if (WHICH == 2) EDGE(MTE3, S, 0);
  copy_gm_to_ubuf(UB(32), AT(2, 0), 1, 1, 0, 0);
  EDGE(MTE2, MTE3, 1);
  STORE(0, 32, 1);
  pipe_barrier(PIPE_ALL);
}
static void notes(void **state) {
  (void)state;
  for (int arch = 0; arch < 3; arch++)
    for (int which = 0; which < 4; which++) {
      variant v = {false, which};
      rd_npu_report *r = run(through_gm, (rd_npu_arch)arch, arch ? RD_NPU_VECTOR : RD_NPU_COUPLED,
                             1, &v, RD_NPU_CHECKED, 1, false);
      bool noted = arch == RD_NPU_910B && which == 0;
      assert_int_equal(rd_npu_report_note_count(r), noted);
      assert_int_equal(rd_npu_report_count(r), which == 3);
      assert_int_equal(find(r, RD_NPU_RACE_RAW, "MTE3_MTE2") != NULL, which == 3);
      const rd_npu_finding *f = rd_npu_report_note_get(r, 0);
      if (noted) {
        assert_int_equal(f->kind, RD_NPU_GM_BY_FLAG);
        assert_string_equal(f->first.instruction, "copy_ubuf_to_gm");
        assert_string_equal(f->second.instruction, "copy_gm_to_ubuf");
        assert_true(f->second.begin == 0 && f->second.end == 32);
        assert_null(f->missing);
      }
      rd_npu_report_free(r);
    }
}

/* Pipes, instructions and bytes of both sides. */
static void sites(void **state) {
  (void)state;
  variant bad = {true, 2};
  rd_npu_report *r = run(stale_read, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
  const rd_npu_finding *f = find(r, RD_NPU_STALE_LINE, NULL);
  assert_string_equal(f->first.instruction, "copy_ubuf_to_gm");
  assert_string_equal(f->second.instruction, "get_value_gm");
  assert_string_equal(f->second.buffer, "state");
  assert_true(f->second.begin == 32 && f->second.end == 36);
  assert_non_null(strstr(f->message, "data_cache_clean_and_invalid is missing"));
  rd_npu_report_free(r);
  bad.which = 0;
  r = run(lost_store, COUPLED, &bad, RD_NPU_CHECKED, 1, false);
  f = find(r, RD_NPU_LOST_LINE, NULL);
  assert_string_equal(f->first.instruction, "set_value_gm");
  assert_string_equal(f->second.instruction, "copy_gm_to_ubuf");
  assert_int_equal(f->second.pipe, RD_NPU_PIPE_MTE2);
  assert_true(f->second.begin == 64 && f->second.end == 72);
  rd_npu_report_free(r);
  r = run(cores, RD_NPU_310P, RD_NPU_COUPLED, 2, &bad, RD_NPU_CHECKED, 2, false);
  f = find(r, RD_NPU_RACE_CORES, NULL);
  assert_true(f->count == 1 && f->first.begin == 0 && f->first.end == 64);
  assert_non_null(strstr(f->message, "one 64-byte line"));
  rd_npu_report_free(r);
}

/* What S holds is what it reads; what it does not clean does not arrive. */
static void values(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    variant v = {bad, 2};
    rd_npu_report_free(run(stale_read, COUPLED, &v, RD_NPU_VALUES, 1, false));
    assert_int_equal(memcmp(gm0, gm1, 64) == 0, !bad);
    v.which = 0;
    rd_npu_report_free(run(lost_store, COUPLED, &v, RD_NPU_VALUES, 1, false));
    uint32_t word;
    memcpy(&word, gm1 + 4, 4);
    assert_int_equal(word, bad ? 0 : 0x40404040);
    rd_npu_report_free(run(never_cleaned, COUPLED, &v, RD_NPU_VALUES, 1, false));
    assert_int_equal(gm2[128], bad ? 0 : 7);
  }
}

/* ---- a counter in GM that steers the kernel, and more lines than the cache has */

#define WORDS 300u

static void chained(rd_npu_core *c, const void *args) {
  (void)args;
  uint64_t n = 0;
  for (uint32_t k = 0; k < WORDS; k++) { /* every line once */
    n += get_value(AT(0, k * 64), 4);
    set_value(AT(1, k * 64), n, 8);
  }
  CLEAN_ALL();
  EDGE(S, MTE2, 0);
  copy_gm_to_ubuf(UB(0), AT(1, 64 * (WORDS - 1)), 1, 1, 0, 0);
  EDGE(MTE2, S, 0);
  uint64_t last = get_value(UB(0), 8);
  EDGE(S, V, 0);
  set_vector_mask(0, 0xFF);
  vector_dup(S32, UB(32), (int32_t)last, 1, 1, 8);
  EDGE(V, MTE3, 0);
  copy_ubuf_to_gm(AT(1, 64 * WORDS), UB(32), 1, 1, 0, 0);
  EDGE(MTE3, S, 0);
  /* two trips when the store arrived */
  for (int64_t k = load_gm_int(S32, AT(1, 64 * WORDS)) == (int64_t)n ? 2 : 1; k > 0; k--) {
    pipe_barrier(PIPE_MTE3);
    copy_ubuf_to_gm(AT(1, 64 * WORDS + 32 * (uint64_t)k), UB(32), 1, 1, 0, 0);
  }
  pipe_barrier(PIPE_ALL);
}

static uint32_t in[WORDS * 16];
static uint64_t out[WORDS * 8 + 16];

static void schedules_and_mutation(void **state) {
  (void)state;
  uint64_t s = seed, sum = 0;
  for (uint32_t k = 0; k < WORDS; k++) in[k * 16] = (uint32_t)(rng_next(&s) >> 44);
  rd_npu_tensor gm[2] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                         {"out", out, sizeof out, 4, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, chained, NULL, gm, 2};
  for (uint64_t k = 0; k < 12; k++) {
    rd_npu_options o = {.size = sizeof o,
                        .schedule = k == 0   ? RD_NPU_EAGER
                                    : k == 1 ? RD_NPU_LAZY
                                    : k == 2 ? RD_NPU_EXHAUSTIVE
                                             : RD_NPU_RANDOM,
                        .max_schedules = 100,
                        .seed = seed + k};
    rd_npu_report *r;
    memset(out, 0, sizeof out);
    rd_npu_status status = rd_npu_run(&l, &o, &r);
    if (status != RD_NPU_OK) dump("chained", r);
    assert_int_equal(status, RD_NPU_OK);
    rd_npu_report_free(r);
    sum = 0;
    for (uint32_t n = 0; n < WORDS; n++) assert_true(out[n * 8] == (sum += in[n * 16]));
    for (uint32_t n = 0; n < 3; n++)
      assert_int_equal((uint32_t)out[WORDS * 8 + n * 4], (uint32_t)sum);
  }
  memset(out, 0, sizeof out);
  rd_npu_mutation *m;
  rd_npu_status status = rd_npu_mutate(&l, 1, NULL, &m);
  char *text = rd_npu_mutation_text(m);
  if (status != RD_NPU_OK) print_error("%s", text);
  assert_int_equal(status, RD_NPU_OK);
  assert_non_null(strstr(text, ", 0 undetected\n"));
  for (size_t n = 0; n < sizeof out / 8; n++) assert_true(out[n] == 0);
  free(text);
  rd_npu_mutation_free(m);
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(defects_and_twins),
                                     cmocka_unit_test(sites),
                                     cmocka_unit_test(values),
                                     cmocka_unit_test(notes),
                                     cmocka_unit_test(one_of_many),
                                     cmocka_unit_test(schedules_and_mutation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
