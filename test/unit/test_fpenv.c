/* The FP environment: whatever the calling thread and the executor's threads run with, results are
 * the same bits and every register comes back as it was. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* feenableexcept */
#endif
#include "layer.h"

#include <fenv.h>
#include <pthread.h>

#include "cpu/fpenv.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#define HAVE_MODES 1
static uint64_t modes_get(void) { return _mm_getcsr(); }
static void modes_set(uint64_t x) { _mm_setcsr((unsigned)x); }
/* Subnormals kept, round up, inexact raised. */
static const uint64_t hostile = 0x1f80 | 0x4000 | 0x0020;
#elif defined(__aarch64__)
#define HAVE_MODES 1
static uint64_t modes_get(void) {
  uint64_t x;
  __asm__ volatile("mrs %0, fpcr" : "=r"(x));
  return x;
}
static void modes_set(uint64_t x) { __asm__ volatile("msr fpcr, %0" ::"r"(x)); }
static const uint64_t hostile = 1u << 22; /* subnormals kept, round up */
#else
#define HAVE_MODES 0
#endif

static void enter_and_leave(void **state) {
  (void)state;
#if HAVE_MODES
  const uint64_t before = modes_get();
  rdi_fpenv saved;
  modes_set(hostile);
  rdi_fpenv_enter(&saved);
  const uint64_t inside = modes_get();
  volatile float tiny = 0x1p-126f, third = 3.0f;
  volatile float half = tiny * 0.5f,
                 q = 1.0f / third; /* raises flags, needs flushing and nearest */
  rdi_fpenv_leave(&saved);
  const uint64_t after = modes_get();
  modes_set(before);
  assert_int_equal(after, hostile);
  assert_int_not_equal(inside, hostile);
  assert_true(half == 0.0f);
  assert_true(q == 0x1.555556p-2f);
#else
  skip();
#endif
}

static int hostile_run(void *self, rd_slice_fn fn, void *arg, int64_t n);

#if HAVE_MODES
typedef struct job {
  rd_slice_fn fn;
  void *arg;
  int64_t i;
  int kept;
} job;

static void *hostile_thread(void *p) {
  job *j = p;
  modes_set(hostile);
  j->fn(j->arg, j->i);
  j->kept = modes_get() == hostile;
  return NULL;
}

static uint64_t seen_by_executor;

static int hostile_run(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  seen_by_executor = modes_get();
  for (int64_t i = 0; i < n; i++) {
    job j = {fn, arg, i, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, hostile_thread, &j)) return 1;
    pthread_join(thread, NULL);
    *(int *)self += j.kept;
  }
  return 0;
}
#else
static int hostile_run(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  for (int64_t i = 0; i < n; i++) fn(arg, i);
  *(int *)self += (int)n;
  return 0;
}
#endif

/* A subnormal state, so that a thread that keeps such numbers would show. */
static void prepare(layer *l) {
  layer_init(l, 9);
  for (size_t i = 0; i < LSTATE; i++) l->pool[i] *= 0x1p-130f;
}

static void any_thread_gives_the_same_bits(void **state) {
  (void)state;
  layer *x = malloc(sizeof *x), *y = malloc(sizeof *y);
  prepare(x);
  prepare(y);
  int kept = 0;
  rd_context *ctx, *plain;
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1;
  assert_int_equal(rd_context_create(&o, &plain), RD_OK);
  o.executor = (rd_executor){.run = hostile_run, .self = &kept, .concurrency = 3};
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  rd_plan *plan = NULL, *plain_plan;
  assert_status(plain, RD_OK, rd_plan_create(plain, &y->problem, &plain_plan));
  assert_status(plain, RD_OK, layer_step(plain, plain_plan, y));
#if HAVE_MODES
  const uint64_t before = modes_get();
  modes_set(hostile); /* the calling thread, too */
#endif
  rd_status status = rd_plan_create(ctx, &x->problem, &plan);
  if (status == RD_OK) status = layer_step(ctx, plan, x);
#if HAVE_MODES
  const uint64_t after = modes_get();
  modes_set(before);
  assert_int_equal(after, hostile);
  assert_int_equal(seen_by_executor, hostile); /* the caller's code keeps the caller's modes */
#endif
  assert_status(ctx, RD_OK, status);
  assert_true(kept > 3);
  assert_memory_equal(x->out, y->out, sizeof x->out);
  assert_memory_equal(x->pool, y->pool, sizeof x->pool);
  assert_memory_equal(x->u, y->u, sizeof x->u);
  assert_memory_equal(x->decay, y->decay, sizeof x->decay);
  rd_plan_destroy(plan);
  rd_plan_destroy(plain_plan);
  rd_context_destroy(ctx);
  rd_context_destroy(plain);
  free(x);
  free(y);
}

/* A caller that traps on everything: neither plans (scale is rounded there) nor verbs may raise,
 * and no flag of ours may be left behind to trap later. */
static void a_trapping_caller(void **state) {
  (void)state;
#if defined(__GLIBC__) && defined(__x86_64__)
  layer *l = malloc(sizeof *l);
  prepare(l);
  l->problem.has_scale = 1;
  l->problem.scale = 0.1;
  rd_context *ctx = NULL;
  rd_plan *plan = NULL;
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_ALL_EXCEPT);
  rd_status status = rd_context_create(NULL, &ctx);
  if (status == RD_OK) status = rd_plan_create(ctx, &l->problem, &plan);
  if (status == RD_OK) status = layer_step(ctx, plan, l);
  const int raised = fetestexcept(FE_ALL_EXCEPT), enabled = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  assert_int_equal(status, RD_OK);
  assert_int_equal(raised, 0);
  assert_int_equal(enabled, FE_ALL_EXCEPT);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  free(l);
#else
  skip();
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(enter_and_leave),
      cmocka_unit_test(any_thread_gives_the_same_bits),
      cmocka_unit_test(a_trapping_caller),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
