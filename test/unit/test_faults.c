/* Every allocation and every thread start of a session fails once, the first, the second, ... until
 * one session runs clean: each failure has its status, leaks nothing, and leaves outputs alone. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "layer.h"

#include <dlfcn.h>
#include <pthread.h>

static int threads_left = -1; /* thread starts until one fails; -1: none does */

/* Takes the place of the C library's for the whole program. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                   void *arg) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (threads_left == 0) return 11; /* EAGAIN */
  if (threads_left > 0) threads_left--;
  return real(thread, attr, start, arg);
}

typedef struct faulty {
  int64_t left, live; /* allocations until one fails */
} faulty;

static void *faulty_alloc(void *self, size_t size, size_t align) {
  faulty *f = self;
  if (f->left-- == 0) return NULL;
  f->live++;
  return aligned_alloc(align, (size + align - 1) / align * align);
}

static void faulty_release(void *self, void *p, size_t size) {
  faulty *f = self;
  (void)size;
  f->live--;
  free(p);
}

/* All verbs on a plan that was made elsewhere or for less, so that they must grow the arena, too.
 */
static rd_status session(faulty *f, layer *l, const rd_plan *foreign, int *started) {
  rd_context *ctx;
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 3;
  o.allocator = (rd_allocator){faulty_alloc, faulty_release, f};
  rd_status status = rd_context_create(&o, &ctx);
  if (status != RD_OK) return status;
  rd_tensor pool = {0};
  rd_plan *plan = NULL;
  *started = 0;
  status = layer_step(ctx, foreign, l);
  if (status == RD_OK) *started = 1;
  if (status == RD_OK) status = rd_plan_create(ctx, &l->problem, &plan);
  if (status == RD_OK) status = rd_pool_alloc(ctx, 2, LHV, LV, LK, RD_STATE_KV, RD_F16, &pool);
  if (status == RD_OK) status = rd_context_reserve(ctx, rd_context_reserved(ctx) + 1);
  if (status != RD_OK) assert_string_not_equal(rd_last_error(ctx), "");
  assert_int_equal(rd_pool_free(ctx, &pool), RD_OK);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  return status;
}

static rd_plan *foreign_plan(rd_context **ctx, const layer *l) {
  rd_plan *plan;
  assert_int_equal(rd_context_create(NULL, ctx), RD_OK);
  assert_status(*ctx, RD_OK, rd_plan_create(*ctx, &l->problem, &plan));
  return plan;
}

static void allocations_fail_one_by_one(void **state) {
  (void)state;
  layer *l = malloc(sizeof *l), *before = malloc(sizeof *before);
  layer_init(l, 3);
  rd_context *ctx;
  rd_plan *plan = foreign_plan(&ctx, l);
  int64_t n = 0;
  for (;; n++) {
    faulty f = {.left = n};
    int started = 0;
    layer_init(l, 3);
    memcpy(before, l, sizeof *l);
    const rd_status status = session(&f, l, plan, &started);
    assert_int_equal(f.live, 0);
    if (status == RD_OK && f.left >= 0) break;
    assert_int_equal(status, RD_E_NOMEM);
    if (!started) assert_memory_equal(before, l, sizeof *l);
    assert_true(n < 50);
  }
  assert_true(n >= 4); /* context, pool of threads, arena, plan, pool */
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  free(l);
  free(before);
}

static void thread_starts_fail_one_by_one(void **state) {
  (void)state;
  layer *l = malloc(sizeof *l);
  layer_init(l, 3);
  rd_context *ctx;
  rd_plan *plan = foreign_plan(&ctx, l);
  for (int n = 0;; n++) {
    faulty f = {.left = -1};
    int started;
    threads_left = n;
    const rd_status status = session(&f, l, plan, &started);
    const int clean = threads_left > 0 || n == 2;
    threads_left = -1;
    assert_int_equal(f.live, 0);
    assert_int_equal(status, clean ? RD_OK : RD_E_SYSTEM);
    if (clean) {
      assert_int_equal(n, 2); /* two beside the caller */
      break;
    }
  }
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  free(l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocations_fail_one_by_one),
      cmocka_unit_test(thread_starts_fail_one_by_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
