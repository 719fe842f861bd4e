/* Memory and threads that fail, the first, the second, … until a run comes through: every failure
 * is RD_NPU_NO_MEMORY, never a crash or a leak (sanitizer builds look), never a wrong report. */
#include "plain.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <cmocka.h>

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
char *__real_strdup(const char *);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_aligned_alloc(size_t, size_t);
char *__wrap_strdup(const char *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static atomic_long countdown; /* the call that brings it to 0 fails; below: all succeed */
static atomic_long thread_countdown;
static bool fails(void) { return atomic_fetch_sub(&countdown, 1) == 1; }

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t s) { return fails() ? NULL : __real_calloc(n, s); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t a, size_t n) {
  return fails() ? NULL : __real_aligned_alloc(a, n);
}
char *__wrap_strdup(const char *s) { return fails() ? NULL : __real_strdup(s); }
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
  return atomic_fetch_sub(&thread_countdown, 1) == 1 ? 11 : __real_pthread_create(t, a, f, x);
}

static void kernel(rd_npu_core *c, const void *args) {
  (void)args;
  uint64_t at = 256 * (uint64_t)get_block_idx();
  copy_gm_to_ubuf(UB(0), GM(0) + at, 1, 8, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  vmuls(F32, UB(256), UB(0), 2.0f, 1, 1, 1, 8, 8);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  set_flag(PIPE_V, PIPE_S, 0);
  wait_flag(PIPE_V, PIPE_S, 0);
  get_value(UB(256), 4); /* recordings without values allocate what executes it */
  copy_ubuf_to_gm(GM(1) + at, UB(256), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static float in[256], out[256];
static rd_npu_tensor gm[2] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                              {"out", out, sizeof out, 4, RD_NPU_OUT}};
static rd_npu_launch launch = {
    sizeof(rd_npu_launch), RD_NPU_310P, RD_NPU_COUPLED, 0, 3, kernel, NULL, gm, 2};

static void try_runs(const rd_npu_options *o, rd_npu_status expected) {
  long n = 1;
  for (; n < 100000; n++) {
    rd_npu_report *r = NULL;
    atomic_store(&countdown, n);
    rd_npu_status s = rd_npu_run(&launch, o, &r);
    char *text = s == expected ? rd_npu_report_text(r) : NULL;
    char *json = s == expected ? rd_npu_report_json(r) : NULL;
    bool through = atomic_exchange(&countdown, 0) > 0;
    if (s != expected) assert_int_equal(s, RD_NPU_NO_MEMORY);
    if (through) assert_true(s == expected && text && json);
    free(text);
    free(json);
    rd_npu_report_free(r);
    if (through) break;
  }
  assert_in_range(n, 10, 99999);
}

static void runs(void **state) {
  (void)state;
  rd_npu_options o = {.size = sizeof o};
  try_runs(&o, RD_NPU_OK);
  o.schedule = RD_NPU_RANDOM;
  try_runs(&o, RD_NPU_OK);
  o.schedule = RD_NPU_EXHAUSTIVE;
  try_runs(&o, RD_NPU_OK);
  o = (rd_npu_options){.size = sizeof o, .without = "MTE2_V", .witnesses = true};
  try_runs(&o, RD_NPU_FINDING);
  o.with = "MTE2_V", o.witnesses = false;
  try_runs(&o, RD_NPU_OK);
}

static bool discard(void *user, const char *bytes, size_t count) {
  (void)user, (void)bytes, (void)count;
  return true;
}

static void mutation_and_trace(void **state) {
  (void)state;
  rd_npu_options o = {.size = sizeof o};
  bool through = false;
  for (long n = 1; !through; n++) {
    rd_npu_mutation *m = NULL;
    atomic_store(&countdown, n);
    rd_npu_status s = rd_npu_mutate(&launch, 1, &o, &m);
    through = atomic_exchange(&countdown, 0) > 0;
    if (s != (through ? RD_NPU_OK : RD_NPU_NO_MEMORY)) print_error("allocation %ld\n", n);
    assert_int_equal(s, through ? RD_NPU_OK : RD_NPU_NO_MEMORY);
    rd_npu_mutation_free(m);
  }
  through = false;
  for (long n = 1; !through; n++) {
    rd_npu_trace_result t;
    atomic_store(&countdown, n);
    rd_npu_status s = rd_npu_trace(&launch, &o, discard, NULL, discard, NULL, &t);
    through = atomic_exchange(&countdown, 0) > 0;
    if (s != (through ? RD_NPU_OK : RD_NPU_NO_MEMORY)) print_error("allocation %ld\n", n);
    assert_int_equal(s, through ? RD_NPU_OK : RD_NPU_NO_MEMORY);
  }
}

/* Without threads the calling one does all the work. */
static void threads(void **state) {
  (void)state;
  for (long n = 1; n < 4; n++) {
    rd_npu_options o = {.size = sizeof o, .threads = 3};
    rd_npu_report *r = NULL;
    atomic_store(&thread_countdown, n);
    assert_int_equal(rd_npu_run(&launch, &o, &r), RD_NPU_OK);
    atomic_store(&thread_countdown, 0);
    rd_npu_report_free(r);
    for (int i = 0; i < 192; i++) assert_true(out[i] == 2 * in[i]);
  }
}

int main(void) {
  for (int i = 0; i < 256; i++) in[i] = (float)i;
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(mutation_and_trace),
                                     cmocka_unit_test(threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
