/* Random programs hold the checker to its word: what it finds no fault with must give the bits of
 * program order under lazy, random and explored schedules.  Most of the others must show a value.
 * usage: test-npu-programs [seed [programs]] */
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 1;
static uint32_t programs = 3000;

enum { LOCATIONS = 4, STEPS = 14, SLOTS = 256 };
typedef enum kind { LOAD, STORE, ADD, COPY, SCALAR, SET, WAIT, BARRIER } kind;
typedef struct step {
  kind kind;
  uint32_t a, b, d; /* locations, or pipes and id */
} step;
typedef struct random_program {
  rd_npu_arch arch;
  uint32_t count;
  step list[SLOTS];
} random_program;

#define AT(location) UB(256 * (location))

static void kernel(rd_npu_core *c, const void *args) {
  const random_program *p = args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8 * LOCATIONS, 0, 0);
  pipe_barrier(PIPE_ALL);
  for (uint32_t i = 0; i < p->count; i++) {
    const step *s = &p->list[i];
    switch (s->kind) {
    case LOAD:
      copy_gm_to_ubuf(AT(s->d), GM(0) + 256 * (s->a + LOCATIONS), 1, 8, 0, 0);
      break;
    case STORE:
      copy_ubuf_to_gm(GM(1) + 256 * i, AT(s->a), 1, 8, 0, 0);
      break;
    case ADD:
      if (s->d != s->a && s->d != s->b)
        vsub(F32, AT(s->d), AT(s->a), AT(s->b), 1, 1, 1, 1, 8, 8, 8);
      break;
    case COPY:
      if (s->d != s->a) copy_ubuf_to_ubuf(AT(s->d), AT(s->a), 2, 4, 0, 0);
      break;
    case SCALAR:
      store_ub(F32, AT(s->d), load_ub(F32, AT(s->a)));
      break;
    case SET:
      set_flag((rd_npu_pipe)s->a, (rd_npu_pipe)s->b, s->d);
      break;
    case WAIT:
      wait_flag((rd_npu_pipe)s->a, (rd_npu_pipe)s->b, s->d);
      break;
    case BARRIER:
      pipe_barrier((rd_npu_pipe)s->a);
      break;
    }
  }
  pipe_barrier(PIPE_ALL);
  copy_ubuf_to_gm(GM(2), UB(0), 1, 8 * LOCATIONS, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void make(random_program *p, uint64_t *s) {
  static const uint32_t pipes[] = {RD_NPU_PIPE_S, RD_NPU_PIPE_V, RD_NPU_PIPE_MTE2,
                                   RD_NPU_PIPE_MTE3};
  memset(p, 0, sizeof *p);
  uint32_t operations = 3 + rng_below(s, STEPS - 3), held[8] = {0}, holding = 0,
           sync = 1 + rng_below(s, 10);
  step waits[8];
  for (uint32_t i = 0; i < operations; i++) {
    uint32_t kinds = rng_below(s, 5);
    p->list[p->count++] = (step){(kind)kinds, rng_below(s, LOCATIONS), rng_below(s, LOCATIONS),
                                 rng_below(s, LOCATIONS)};
    for (uint32_t k = 0; k < sync && p->count + 12 < SLOTS; k++) {
      uint32_t a = pipes[rng_below(s, 4)], b = pipes[rng_below(s, 4)], id = rng_below(s, 8);
      if (a == b) {
        if (a != RD_NPU_PIPE_S) p->list[p->count++] = (step){BARRIER, a, 0, 0};
      } else if (!held[id]) { /* one set in flight per id: its wait comes now or some steps later */
        p->list[p->count++] = (step){SET, a, b, id};
        if (rng_below(s, 3)) {
          p->list[p->count++] = (step){WAIT, a, b, id};
        } else {
          held[id] = 1;
          waits[holding++] = (step){WAIT, a, b, id};
        }
      }
    }
    if (holding && (rng_below(s, 2) || i + 1 == operations)) {
      for (uint32_t k = 0; k < holding; k++) p->list[p->count++] = waits[k], held[waits[k].d] = 0;
      holding = 0;
    }
  }
}

static float in[512], stored[SLOTS * 64], out[256], first_stored[SLOTS * 64], first_out[256];

static rd_npu_status run(const random_program *p, const rd_npu_options *o, rd_npu_report **r) {
  rd_npu_tensor gm[3] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                         {"stored", stored, sizeof stored, 4, RD_NPU_OUT},
                         {"out", out, sizeof out, 4, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, kernel, p, gm, 3};
  memset(stored, 0, sizeof stored);
  memset(out, 0, sizeof out);
  return rd_npu_run(&l, o, r);
}

static bool same_as_first(void) {
  return memcmp(stored, first_stored, sizeof stored) == 0 &&
         memcmp(out, first_out, sizeof out) == 0;
}

static void clean_programs_are_deterministic(void **state) {
  (void)state;
  uint32_t clean = 0, racy = 0, shown = 0, reused = 0;
  for (int i = 0; i < 512; i++) in[i] = (float)(i * i % 1009) * 0.5f + 1;
  for (uint32_t n = 0; n < programs; n++) {
    uint64_t s = seed * 0x9E3779B97F4A7C15u + n;
    random_program p;
    make(&p, &s);
    rd_npu_options o = {.size = sizeof o, .witnesses = true};
    rd_npu_report *r;
    rd_npu_status status = run(&p, &o, &r);
    memcpy(first_stored, stored, sizeof stored);
    memcpy(first_out, out, sizeof out);
    bool differs = false, flags = false;
    for (size_t i = 0; i < rd_npu_report_count(r); i++) {
      differs |= rd_npu_report_get(r, i)->witness == RD_NPU_WITNESS_DIFFERS;
      flags |= rd_npu_report_get(r, i)->kind == RD_NPU_FLAG_REUSE;
      assert_true(rd_npu_report_get(r, i)->kind <=
                  RD_NPU_FLAG_REUSE); /* nothing else can go wrong here */
    }
    rd_npu_report_free(r);
    if (status == RD_NPU_FINDING) {
      racy++;
      shown += differs;
      reused += flags;
      continue;
    }
    assert_int_equal(status, RD_NPU_OK);
    clean++;
    for (uint32_t k = 0; k < 12; k++) {
      o = (rd_npu_options){.size = sizeof o,
                           .mode = RD_NPU_VALUES,
                           .schedule = k ? RD_NPU_RANDOM : RD_NPU_LAZY,
                           .seed = k};
      status = run(&p, &o, &r);
      rd_npu_report_free(r);
      if (status != RD_NPU_OK || !same_as_first())
        print_error("seed %llu program %u schedule %u\n", (unsigned long long)seed, n, k);
      assert_true(status == RD_NPU_OK && same_as_first());
    }
    o = (rd_npu_options){.size = sizeof o,
                         .mode = RD_NPU_VALUES,
                         .schedule = RD_NPU_EXHAUSTIVE,
                         .max_schedules = 60};
    status = run(&p, &o, &r);
    rd_npu_report_free(r);
    if (status != RD_NPU_OK)
      print_error("seed %llu program %u exhaustive\n", (unsigned long long)seed, n);
    assert_int_equal(status, RD_NPU_OK);
  }
  print_message("%u clean, %u with findings (%u shown by a value, %u with flag reuse)\n", clean,
                racy, shown, reused);
  assert_true(clean > programs / 20 && racy > programs / 20 && shown > racy / 4);
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  if (argc > 2) programs = (uint32_t)strtoul(argv[2], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(clean_programs_are_deterministic)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
