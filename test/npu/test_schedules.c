/* Schedules, exhaustive exploration, witnesses, dropped channels and mutation on a two-slot
 * pipeline. */
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 1;

typedef struct pipeline {
  uint32_t tiles;
  bool redundant; /* an extra event that orders nothing new */
} pipeline;

#define TILE 256u /* bytes */

/* out = in + in, two UB slots: loads run ahead of the adds, adds ahead of the stores. */
static void stream(rd_npu_core *c, const void *args) {
  const pipeline *p = args;
  uint64_t base = (uint64_t)get_block_idx() * p->tiles * TILE;
  for (uint32_t slot = 0; slot < 2; slot++) {
    set_flag(PIPE_V, PIPE_MTE2, slot);
    set_flag(PIPE_MTE3, PIPE_V, slot);
  }
  for (uint32_t t = 0; t < p->tiles; t++) {
    uint32_t slot = t % 2;
    uint64_t in = UB(slot * TILE), out = UB(1024 + slot * TILE);
    wait_flag(PIPE_V, PIPE_MTE2, slot);
    copy_gm_to_ubuf(in, GM(0) + base + t * TILE, 1, TILE / 32, 0, 0);
    set_flag(PIPE_MTE2, PIPE_V, slot);
    wait_flag(PIPE_MTE2, PIPE_V, slot);
    wait_flag(PIPE_MTE3, PIPE_V, slot);
    vadd(F32, out, in, in, 1, 1, 1, 1, 8, 8, 8);
    set_flag(PIPE_V, PIPE_MTE2, slot);
    set_flag(PIPE_V, PIPE_MTE3, slot);
    wait_flag(PIPE_V, PIPE_MTE3, slot);
    if (p->redundant) {
      set_flag(PIPE_V, PIPE_MTE3, 2 + slot);
      wait_flag(PIPE_V, PIPE_MTE3, 2 + slot);
    }
    copy_ubuf_to_gm(GM(1) + base + t * TILE, out, 1, TILE / 32, 0, 0);
    set_flag(PIPE_MTE3, PIPE_V, slot);
  }
  for (uint32_t slot = 0; slot < 2; slot++) {
    wait_flag(PIPE_V, PIPE_MTE2, slot);
    wait_flag(PIPE_MTE3, PIPE_V, slot);
  }
  pipe_barrier(PIPE_ALL);
}

typedef struct bench {
  pipeline p;
  float in[8 * 64 * 4], out[8 * 64 * 4];
  rd_npu_tensor gm[2];
  rd_npu_launch l;
} bench;

static void prepare(bench *b, uint32_t tiles, uint32_t cores, bool redundant) {
  memset(b, 0, sizeof *b);
  uint64_t s = seed;
  for (size_t i = 0; i < sizeof b->in / 4; i++) b->in[i] = (float)(int32_t)rng_next(&s) * 0x1p-20f;
  b->p = (pipeline){tiles, redundant};
  uint64_t bytes = (uint64_t)tiles * cores * TILE;
  b->gm[0] = (rd_npu_tensor){"in", b->in, bytes, 4, RD_NPU_IN};
  b->gm[1] = (rd_npu_tensor){"out", b->out, bytes, 4, RD_NPU_OUT};
  b->l =
      (rd_npu_launch){sizeof b->l, RD_NPU_310P, RD_NPU_COUPLED, 0, cores, stream, &b->p, b->gm, 2};
}

static void expect_values(const bench *b) {
  for (size_t i = 0; i < b->gm[1].bytes / 4; i++) assert_true(b->out[i] == b->in[i] + b->in[i]);
}

static void same_bits(void **state) {
  (void)state;
  static bench b;
  prepare(&b, 4, 3, false);
  for (uint64_t k = 0; k < 40; k++) {
    rd_npu_options o = {.size = sizeof o,
                        .schedule = k == 0   ? RD_NPU_EAGER
                                    : k == 1 ? RD_NPU_LAZY
                                             : RD_NPU_RANDOM,
                        .seed = seed + k,
                        .threads = 1 + (uint32_t)k % 3,
                        .mode = k % 2 ? RD_NPU_VALUES : RD_NPU_CHECKED};
    rd_npu_report *r;
    memset(b.out, 0, sizeof b.out);
    assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
    rd_npu_report_free(r);
    expect_values(&b);
  }
}

static void explored(void **state) {
  (void)state;
  static bench b;
  rd_npu_report *r;
  bool capped;
  prepare(&b, 5, 1, false);
  rd_npu_options o = {.size = sizeof o, .schedule = RD_NPU_EXHAUSTIVE};
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
  uint64_t two = rd_npu_report_schedules(r, &capped);
  assert_true(two > 10 && !capped);
  rd_npu_report_free(r);
  o.deviations = UINT32_MAX; /* the full space */
  o.max_schedules = 30000;
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
  uint64_t full = rd_npu_report_schedules(r, &capped);
  print_message("2 deviations: %llu schedules, full space: %llu%s\n", (unsigned long long)two,
                (unsigned long long)full, capped ? " (capped)" : "");
  assert_true(full > two && !capped);
  rd_npu_report_free(r);
  o.max_schedules = 5;
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
  assert_int_equal(rd_npu_report_schedules(r, &capped), 5);
  assert_true(capped);
  rd_npu_report_free(r);
  /* an exhaustive run finds the order that breaks an unsynchronised kernel */
  o = (rd_npu_options){
      .size = sizeof o, .schedule = RD_NPU_EXHAUSTIVE, .without = "MTE2_V", .mode = RD_NPU_VALUES};
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_FINDING);
  assert_int_equal(rd_npu_report_get(r, 0)->kind, RD_NPU_SCHEDULE_VALUE);
  assert_string_equal(rd_npu_report_get(r, 0)->first.instruction, "copy_ubuf_to_gm");
  assert_non_null(strstr(rd_npu_report_get(r, 0)->first.site, "test_schedules.c:"));
  rd_npu_report_free(r);
}

static void dropped_channels(void **state) {
  (void)state;
  static bench b;
  static const struct {
    const char *channel;
    rd_npu_finding_kind kind;
  } drops[] = {{"MTE2_V", RD_NPU_RACE_RAW},
               {"V_MTE2", RD_NPU_RACE_WAR},
               {"V_MTE3", RD_NPU_RACE_RAW},
               {"MTE3_V", RD_NPU_RACE_WAR}};
  prepare(&b, 4, 2, false);
  for (int d = 0; d < 4; d++) {
    rd_npu_options o = {.size = sizeof o, .without = drops[d].channel, .witnesses = true};
    rd_npu_report *r;
    assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_FINDING);
    bool found = false, differs = false;
    for (size_t i = 0; i < rd_npu_report_count(r); i++) {
      const rd_npu_finding *f = rd_npu_report_get(r, i);
      if (f->kind != drops[d].kind || strcmp(f->missing, drops[d].channel) != 0) continue;
      found = true;
      differs |= f->witness == RD_NPU_WITNESS_DIFFERS;
    }
    assert_true(found && differs);
    rd_npu_report_free(r);
    expect_values(&b); /* eager is program order: the values are right all the same */
    o.witnesses = false;
    o.with = drops[d].channel; /* put back by the model: clean, and right in every order */
    for (int kind = RD_NPU_EAGER; kind <= RD_NPU_RANDOM; kind++) {
      o.schedule = (rd_npu_schedule)kind;
      memset(b.out, 0, sizeof b.out);
      assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
      assert_non_null(strstr(rd_npu_report_summary(r), "events added at"));
      rd_npu_report_free(r);
      expect_values(&b);
    }
    o.with = NULL;
    o.schedule = RD_NPU_LAZY;
    memset(b.out, 0, sizeof b.out);
    assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_FINDING);
    rd_npu_report_free(r);
  }
}

static void behind_a_barrier(rd_npu_core *c, const void *args) {
  (void)args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, TILE / 32, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  vadd(F32, UB(1024), UB(0), UB(0), 1, 1, 1, 1, 8, 8, 8);
  pipe_barrier(PIPE_ALL);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(1024), 1, TILE / 32, 0, 0);
  pipe_barrier(PIPE_ALL);
}

/* What implies such an event is no chain of events. */
static void implied_by_a_barrier(void **state) {
  (void)state;
  static bench b;
  prepare(&b, 1, 1, false);
  b.l.kernel = behind_a_barrier;
  rd_npu_mutation *m;
  assert_int_equal(rd_npu_mutate(&b.l, 1, NULL, &m), RD_NPU_OK);
  char *t = rd_npu_mutation_text(m);
  if (!strstr(t, "implied by a barrier")) fail_msg("%s", t);
  free(t);
  rd_npu_mutation_free(m);
}

static void mutation(void **state) {
  (void)state;
  static bench b[2];
  for (int redundant = 0; redundant < 2; redundant++) {
    prepare(&b[0], 3, 1, redundant);
    prepare(&b[1], 5, 2, redundant);
    rd_npu_launch l[2] = {b[0].l, b[1].l};
    rd_npu_options o = {.size = sizeof o, .threads = 2};
    rd_npu_mutation *m;
    rd_npu_status status = rd_npu_mutate(l, 2, &o, &m);
    uint64_t needed, extra, undetected;
    rd_npu_mutation_totals(m, &needed, &extra, &undetected);
    char *t = rd_npu_mutation_text(m);
    uint64_t edges = 0, spare = 0, implied = 0;
    for (size_t i = 0; i < rd_npu_mutation_count(m); i++) {
      const rd_npu_mutant *x = rd_npu_mutation_get(m, i);
      if (strcmp(x->what, "drop edge") != 0) continue;
      edges++;
      spare += !x->needed;
      if (x->needed) continue;
      implied += strstr(x->reason, "redundant on these paths: implied by V_MTE3") != NULL;
      if (!strstr(x->reason, ": implied by "))
        assert_non_null(strstr(x->reason, ": no conflicting accesses need it"));
    }
    if (implied != (unsigned)redundant) print_error("%s", t);
    assert_int_equal(implied, redundant);
    if (undetected || edges != 4u + (unsigned)redundant || spare != 2u * (unsigned)redundant)
      print_error("%s", t);
    assert_int_equal(status, RD_NPU_OK);
    assert_int_equal(undetected, 0);
    assert_int_equal(edges,
                     4 + redundant); /* one class per channel: priming and draining belong to it */
    assert_int_equal(spare, 2 * redundant); /* each makes the other superfluous */
    char last[100];
    snprintf(last, sizeof last, "mutation: %llu needed, %llu redundant, 0 undetected\n",
             (unsigned long long)needed, (unsigned long long)extra);
    assert_string_equal(t + strlen(t) - strlen(last), last);
    free(t);
    t = rd_npu_mutation_json(m);
    assert_non_null(strstr(t, "\"undetected\": 0}"));
    free(t);
    rd_npu_mutation_free(m);
    for (size_t i = 0; i < b[0].gm[1].bytes / 4; i++)
      assert_true(b[0].out[i] == 0); /* outputs keep their bytes */
  }
}

/* MTE2 -> V directly, and round by MTE3. */
static void two_ways(rd_npu_core *c, const void *args) {
  (void)args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8, 0, 0);
  set_flag(PIPE_MTE2, PIPE_MTE3, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE3, 0);
  set_flag(PIPE_MTE3, PIPE_V, 0);
  wait_flag(PIPE_MTE3, PIPE_V, 0);
  set_flag(PIPE_MTE2, PIPE_V, 1);
  wait_flag(PIPE_MTE2, PIPE_V, 1);
  vadd(F32, UB(256), UB(0), UB(0), 1, 1, 1, 1, 8, 8, 8);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(256), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void implied_edges(void **state) {
  (void)state;
  static bench b;
  prepare(&b, 1, 1, false);
  b.l.kernel = two_ways;
  rd_npu_options o = {.size = sizeof o, .without = "MTE2_V"};
  rd_npu_report *r;
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
  assert_int_equal(rd_npu_report_dropped_count(r), 1);
  const rd_npu_dropped *d = rd_npu_report_dropped_get(r, 0);
  assert_true(d->total == 1 && d->implied == 1);
  assert_string_equal(d->implied_by, "MTE2_MTE3 MTE3_V");
  rd_npu_report_free(r);
  o.without = "MTE2_V,MTE3_V";
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_FINDING);
  assert_int_equal(rd_npu_report_dropped_count(r), 2);
  for (size_t i = 0; i < 2; i++) assert_int_equal(rd_npu_report_dropped_get(r, i)->implied, 0);
  char *t = rd_npu_report_text(r); /* either is redundant alone, so the text says what was asked */
  assert_non_null(strstr(t, "asked: with all of these left out"));
  free(t);
  rd_npu_report_free(r);
}

/* S -> MTE2 directly, and by way of V back to S, which then issues the load. */
static void round_trip(rd_npu_core *c, const void *args) {
  (void)args;
  store_ub(F32, UB(0), rd_npu_f32(1.0f));
  set_flag(PIPE_S, PIPE_MTE2, 0);
  set_flag(PIPE_S, PIPE_V, 0);
  wait_flag(PIPE_S, PIPE_V, 0);
  set_flag(PIPE_V, PIPE_S, 0);
  wait_flag(PIPE_V, PIPE_S, 0);
  wait_flag(PIPE_S, PIPE_MTE2, 0);
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}
static void implied_by_a_round_trip(void **state) {
  (void)state;
  static bench b;
  prepare(&b, 1, 1, false);
  b.l.kernel = round_trip;
  rd_npu_options o = {.size = sizeof o, .without = "S_MTE2"};
  rd_npu_report *r;
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_OK);
  const rd_npu_dropped *d = rd_npu_report_dropped_get(r, 0);
  assert_true(d->total == 1 && d->implied == 1);
  assert_string_equal(d->implied_by, "S_V V_S S_MTE2");
  rd_npu_report_free(r);
  o.without = "S_MTE2,V_S";
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_FINDING);
  rd_npu_report_free(r);
}

/* A set between two loads fires after the first and holds the second up no more than its absence would. */
static void set_between(rd_npu_core *c, const void *args) {
  (void)args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  copy_gm_to_ubuf(UB(0), GM(0) + TILE, 1, 8, 0, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  pipe_barrier(PIPE_ALL);
  copy_ubuf_to_gm(GM(1), UB(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void sets_hold_nothing_up(void **state) {
  (void)state;
  static bench b;
  prepare(&b, 2, 1, false);
  b.l.kernel = set_between;
  rd_npu_options o = {.size = sizeof o, .schedule = RD_NPU_EXHAUSTIVE, .mode = RD_NPU_VALUES};
  rd_npu_report *r;
  assert_int_equal(rd_npu_run(&b.l, &o, &r), RD_NPU_FINDING);
  assert_int_equal(rd_npu_report_get(r, 0)->kind, RD_NPU_SCHEDULE_VALUE);
  rd_npu_report_free(r);
}

typedef struct sink {
  char text[4096];
  size_t used;
} sink;

static bool keep(void *user, const char *bytes, size_t count) {
  sink *s = user;
  if (count >= sizeof s->text - s->used) return false;
  memcpy(s->text + s->used, bytes, count);
  s->used += count;
  s->text[s->used] = 0;
  return true;
}

/* A timeline short enough to add up by hand: 256 bytes in (204 cycles), one repeat (17), 256 out
 * (204), each issued one cycle after the other and held by the events between. */
static void timeline(void **state) {
  (void)state;
  static bench b;
  static sink json, lines;
  prepare(&b, 1, 1, false);
  b.l.kernel = two_ways;
  rd_npu_trace_result t;
  assert_int_equal(rd_npu_trace(&b.l, NULL, keep, &json, keep, &lines, &t), RD_NPU_OK);
  assert_int_equal(t.pipe[RD_NPU_PIPE_MTE2].busy, 204);
  assert_int_equal(t.pipe[RD_NPU_PIPE_V].busy, 17);
  assert_int_equal(t.pipe[RD_NPU_PIPE_MTE3].busy, 204);
  assert_int_equal(t.pipe[RD_NPU_PIPE_MTE2].bytes, 256);
  assert_int_equal(t.cycles, 1 + 204 + 17 + 204);
  assert_int_equal(t.pipe[RD_NPU_PIPE_S].waiting, t.cycles - 11); /* the barrier, after 11 issues */
  assert_non_null(strstr(json.text, "\"name\": \"wait MTE3_V 0\", \"cat\": \"wait\""));
  assert_non_null(strstr(json.text, "{\"displayTimeUnit\""));
  assert_non_null(strstr(lines.text, "vadd"));
  assert_non_null(strstr(lines.text, " | r in[0x0, 0x100) | w UB[0x0, 0x100)\n"));
  assert_non_null(
      strstr(lines.text, " | r UB[0x0, 0x100) | r UB[0x0, 0x100) | w UB[0x100, 0x200)\n"));
  size_t count = 0;
  for (const char *p = lines.text; (p = strchr(p, '\n')); p++) count++;
  assert_int_equal(count, 12); /* one line per instruction */
}

/* What never came to be is empty, not a crash. */
static void no_mutation(void **state) {
  (void)state;
  uint64_t n[3] = {7, 7, 7};
  rd_npu_mutation_totals(NULL, &n[0], &n[1], &n[2]);
  assert_int_equal(n[0] + n[1] + n[2], 0);
  assert_int_equal(rd_npu_mutation_count(NULL), 0);
  assert_null(rd_npu_mutation_get(NULL, 0));
  assert_null(rd_npu_mutation_text(NULL));
  assert_null(rd_npu_mutation_json(NULL));
  rd_npu_mutation_free(NULL);
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_mutation),
                                     cmocka_unit_test(same_bits),
                                     cmocka_unit_test(explored),
                                     cmocka_unit_test(sets_hold_nothing_up),
                                     cmocka_unit_test(dropped_channels),
                                     cmocka_unit_test(mutation),
                                     cmocka_unit_test(implied_by_a_barrier),
                                     cmocka_unit_test(implied_edges),
                                     cmocka_unit_test(implied_by_a_round_trip),
                                     cmocka_unit_test(timeline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
