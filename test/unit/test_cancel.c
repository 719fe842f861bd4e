/* A thread may be cancelled at any time: a call that it is inside of ends as ever, and the context,
 * its memory and its threads stay whole. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/context.h"
#include "layer.h"

typedef struct victim {
  rd_context *ctx;
  rd_plan *plan;
  layer *l;
  rd_status status;
  int done, state_before, state_after;
  pthread_t self;
  atomic_int workers;
  void (*body)(struct victim *v);
} victim;

/* The cancellation is pending through all of the body, and acts at the first point that lets it. No
 * variables that have an address: a cancelled frame leaves AddressSanitizer's marks behind. */
static void *doomed(void *arg) {
  victim *v = arg;
  v->self = pthread_self();
  pthread_setcancelstate(v->state_before, &v->state_after);
  pthread_cancel(pthread_self());
  v->body(v);
  v->done++;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &v->state_after);
  pthread_testcancel();
  return NULL;
}

static void run(victim *v, int state, void (*body)(victim *v)) {
  const int done = v->done;
  v->body = body;
  v->state_before = state;
  pthread_t thread;
  void *end;
  assert_int_equal(pthread_create(&thread, NULL, doomed, v), 0);
  assert_int_equal(pthread_join(thread, &end), 0);
  assert_int_equal(v->done, done + 1);
  assert_ptr_equal(end, PTHREAD_CANCELED);           /* afterwards it does act, */
  assert_int_equal(v->state_after, v->state_before); /* for every call left the state as it was */
}

static const int states[] = {PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE};

/* ---------------------------------------------------------------- the built-in pool ----------- */

/* The caller's slice ends when a worker has one, which lasts longer than the caller spins. */
static void uneven(void *arg, int64_t slice) {
  victim *v = arg;
  (void)slice;
  if (pthread_equal(pthread_self(), v->self)) {
    while (!atomic_load(&v->workers)) sched_yield();
    return;
  }
  atomic_fetch_add(&v->workers, 1);
  usleep(30000);
  atomic_fetch_sub(&v->workers, 1);
}

static void wait_for_workers(victim *v) {
  v->status = rdi_enter(v->ctx);
  if (v->status == RD_OK) v->status = rdi_leave(v->ctx, rdi_execute(v->ctx, uneven, v, 4));
}

static void waiting_is_no_cancellation_point(void **state) {
  (void)state;
  victim v = {0};
  assert_int_equal(rd_context_create(NULL, &v.ctx), RD_OK);
  rd_context_destroy(v.ctx);
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 3;
  assert_int_equal(rd_context_create(&o, &v.ctx), RD_OK);
  for (int i = 0; i < 2; i++) {
    run(&v, states[i], wait_for_workers);
    assert_int_equal(v.status, RD_OK);
    assert_int_equal(atomic_load(&v.workers), 0); /* nobody works on a stack that is gone */
    assert_status(v.ctx, RD_OK, rd_context_reserve(v.ctx, 1000));
  }
  rd_context_destroy(v.ctx);
}

/* ---------------------------------------------------------------- executors ------------------- */

typedef struct executor {
  int runs, cancelled;
} executor;

static int with_cancellation_points(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  executor *e = self;
  e->runs++;
  for (int64_t i = 0; i < n; i++) {
    pthread_testcancel();
    fn(arg, i);
  }
  return 0;
}

typedef struct share {
  rd_slice_fn fn;
  void *arg;
  int64_t slice;
} share;

static void *cancelled_thread(void *arg) {
  const share *s = arg;
  pthread_cancel(pthread_self());
  s->fn(s->arg, s->slice);
  pthread_testcancel();
  return NULL;
}

/* Each slice on a thread of its own, that is cancelled before the slice begins. */
static int on_cancelled_threads(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  executor *e = self;
  e->runs++;
  for (int64_t i = 0; i < n; i++) {
    share s = {fn, arg, i};
    pthread_t thread;
    void *end;
    if (pthread_create(&thread, NULL, cancelled_thread, &s) || pthread_join(thread, &end)) return 1;
    e->cancelled += end == PTHREAD_CANCELED;
  }
  return 0;
}

static void step(victim *v) { v->status = layer_step(v->ctx, v->plan, v->l); }

static void executors_and_their_threads(void **state) {
  (void)state;
  int (*const runs[])(void *, rd_slice_fn, void *, int64_t) = {with_cancellation_points,
                                                               on_cancelled_threads};
  layer *plain = malloc(sizeof *plain), *l = malloc(sizeof *l);
  rd_context *ctx;
  rd_plan *plan;
  layer_init(plain, 5);
  assert_int_equal(rd_context_create(NULL, &ctx), RD_OK);
  assert_status(ctx, RD_OK, rd_plan_create(ctx, &plain->problem, &plan));
  assert_status(ctx, RD_OK, layer_step(ctx, plan, plain));
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  for (int i = 0; i < 4; i++) {
    executor e = {0};
    victim v = {.l = l};
    rd_context_options o;
    rd_context_options_init(&o);
    o.executor = (rd_executor){.run = runs[i / 2], .self = &e, .concurrency = 4};
    layer_init(l, 5);
    assert_int_equal(rd_context_create(&o, &v.ctx), RD_OK);
    assert_status(v.ctx, RD_OK, rd_plan_create(v.ctx, &l->problem, &v.plan));
    run(&v, states[i % 2], step);
    assert_status(v.ctx, RD_OK, v.status);
    assert_true(e.runs >= 3);
    assert_true(i / 2 == 0 || e.cancelled > e.runs);
    assert_memory_equal(l->out, plain->out, sizeof l->out);
    assert_memory_equal(l->pool, plain->pool, sizeof l->pool);
    rd_plan_destroy(v.plan);
    rd_context_destroy(v.ctx);
  }
  free(plain);
  free(l);
}

/* ---------------------------------------------------------------- life ------------------------ */

static atomic_int live;

static void *alloc(void *self, size_t size, size_t align) {
  (void)self;
  pthread_testcancel(); /* the caller's functions run inside of calls, too */
  live++;
  return aligned_alloc(align, (size + align - 1) / align * align);
}

static void release(void *self, void *p, size_t size) {
  (void)self;
  (void)size;
  pthread_testcancel();
  live--;
  free(p);
}

static void whole_life(victim *v) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 3;
  o.allocator = (rd_allocator){alloc, release, NULL};
  v->status = rd_context_create(&o, &v->ctx);
  if (v->status != RD_OK) return;
  v->status = rd_plan_create(v->ctx, &v->l->problem, &v->plan);
  if (v->status == RD_OK) v->status = layer_step(v->ctx, v->plan, v->l);
  rd_plan_destroy(v->plan);
  rd_context_destroy(v->ctx);
}

/* rd_context_destroy waits for the threads to end. */
static void nothing_is_left(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    victim v = {.l = malloc(sizeof *v.l)};
    layer_init(v.l, 6);
    run(&v, states[i], whole_life);
    assert_int_equal(v.status, RD_OK);
    assert_int_equal(live, 0);
    free(v.l);
  }
}

/* A call that is refused leaves the state as it was, too: of no context, and of a busy one. */
static void refused(victim *v) {
  v->status = rd_context_reserve(NULL, 1);
  if (v->status == RD_E_NULL) v->status = rd_context_reserve(v->ctx, 1);
}

static void refused_calls_change_nothing(void **state) {
  (void)state;
  victim v = {0};
  assert_int_equal(rd_context_create(NULL, &v.ctx), RD_OK);
  assert_int_equal(rdi_enter(v.ctx), RD_OK);
  for (int i = 0; i < 2; i++) {
    run(&v, states[i], refused);
    assert_int_equal(v.status, RD_E_BUSY);
  }
  assert_int_equal(rdi_leave(v.ctx, RD_OK), RD_OK);
  rd_context_destroy(v.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(waiting_is_no_cancellation_point),
      cmocka_unit_test(executors_and_their_threads),
      cmocka_unit_test(nothing_is_left),
      cmocka_unit_test(refused_calls_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
