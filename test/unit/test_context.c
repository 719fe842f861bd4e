/* Contexts: options, arena, messages, one call at a time, executors. */
#include "layer.h"

#include "core/context.h"

typedef struct allocations {
  int64_t calls, live, bytes;
} allocations;

static void *counting_alloc(void *self, size_t size, size_t align) {
  allocations *a = self;
  a->calls++, a->live++, a->bytes += (int64_t)size;
  return aligned_alloc(align, (size + align - 1) / align * align);
}

static void counting_release(void *self, void *p, size_t size) {
  allocations *a = self;
  a->live--, a->bytes -= (int64_t)size;
  free(p);
}

static void options_are_checked(void **state) {
  (void)state;
  rd_context *ctx = (rd_context *)1;
  rd_context_options o;
  assert_int_equal(rd_context_create(NULL, NULL), RD_E_NULL);
  rd_context_options_init(&o);
  o.struct_size--;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_STRUCT_SIZE);
  assert_null(ctx);
  rd_context_options_init(&o);
  o.threads = -1;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ENUM);
  o.threads = 1025;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ENUM);
  rd_context_options_init(&o);
  o.allocator.alloc = counting_alloc;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ENUM);
  char why[80] = "?";
  rd_context_options_init(&o);
  o.message = why, o.message_size = sizeof why;
  o.executor.reserved = 1;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_PRESENCE);
  assert_non_null(strstr(why, "executor.reserved"));
  rd_context_options_init(&o);
  o.isa_mask = ~rd_isa_usable() & ~(1u << 31);
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ISA);
  o.isa_mask = 1u << 20;
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ISA);
  rd_context_destroy(NULL);
  assert_int_equal(rd_context_threads(NULL), 0);
  assert_int_equal(rd_context_reserved(NULL), 0);
  assert_non_null(rd_last_error(NULL));
}

static void every_usable_set_makes_a_context(void **state) {
  (void)state;
  assert_true(rd_isa_built() & RD_ISA_SCALAR);
  for (uint32_t isa = 1; isa <= RD_ISA_AMX; isa <<= 1) {
    assert_non_null(rd_isa_name((rd_isa)isa));
    if (!(rd_isa_usable() & rd_isa_built() & isa)) continue;
    rd_context *ctx;
    rd_context_options o;
    rd_context_options_init(&o);
    const uint32_t beside = isa == RD_ISA_AMX ? RD_ISA_AVX512 | RD_ISA_SCALAR : RD_ISA_SCALAR;
    o.isa_mask = isa | (beside & RD_ISA_AVX512);
    o.threads = 1;
    assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
    for (int32_t i = 0; i < rd_kernel_slots(); i++) {
      assert_non_null(rd_kernel_slot_name(i));
      assert_non_null(rd_kernel_chosen(ctx, i));
      if (strcmp(rd_kernel_chosen(ctx, i), "exact") != 0)
        assert_true(rd_kernel_isa(ctx, i) & (isa | beside));
      else /* a FAST slot, which only some sets fill */
        assert_true(rd_kernel_isa(ctx, i) == 0 && i >= 5);
    }
    assert_null(rd_kernel_chosen(ctx, -1));
    assert_null(rd_kernel_chosen(ctx, rd_kernel_slots()));
    rd_context_destroy(ctx);
  }
  assert_null(rd_isa_name((rd_isa)3));
  assert_null(rd_kernel_slot_name(rd_kernel_slots()));
}

static void arena_grows_and_stays(void **state) {
  (void)state;
  allocations a = {0};
  rd_context *ctx;
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1;
  o.allocator = (rd_allocator){counting_alloc, counting_release, &a};
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  assert_status(ctx, RD_OK, rd_context_reserve(ctx, 1000));
  assert_true(rd_context_reserved(ctx) >= 1000);
  assert_status(ctx, RD_E_OVERFLOW, rd_context_reserve(ctx, SIZE_MAX - 10));
  assert_string_not_equal(rd_last_error(ctx), "");
  assert_status(ctx, RD_OK, rd_context_reserve(ctx, 500));
  assert_string_equal(rd_last_error(ctx), "");

  /* A call whose second request does not fit: both stay valid, and its next run allocates nothing.
   */
  for (int round = 0; round < 2; round++) {
    const int64_t before = a.calls;
    assert_status(ctx, RD_OK, rdi_enter(ctx));
    char *p[3];
    for (int i = 0; i < 3; i++) {
      p[i] = rdi_scratch_take(ctx, 800 + 1000 * (size_t)i);
      assert_non_null(p[i]);
      assert_int_equal((uintptr_t)p[i] % 64, 0);
      memset(p[i], i, 800 + 1000 * (size_t)i);
    }
    for (int i = 0; i < 3; i++)
      for (size_t j = 0; j < 800 + 1000 * (size_t)i; j++) assert_int_equal(p[i][j], i);
    assert_status(ctx, RD_OK, rdi_leave(ctx, RD_OK));
    if (round == 1) assert_int_equal(a.calls, before);
  }
  rd_context_destroy(ctx);
  assert_int_equal(a.live, 0);
  assert_int_equal(a.bytes, 0);
}

static void warm_verbs_allocate_nothing(void **state) {
  (void)state;
  allocations a = {0};
  rd_context *ctx;
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 3;
  o.allocator = (rd_allocator){counting_alloc, counting_release, &a};
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  layer *l = malloc(sizeof *l);
  layer_init(l, 1);
  rd_plan *plan;
  assert_status(ctx, RD_OK, rd_plan_create(ctx, &l->problem, &plan));
  const int64_t before = a.calls;
  for (int round = 0; round < 3; round++) assert_status(ctx, RD_OK, layer_step(ctx, plan, l));
  assert_int_equal(a.calls, before);
  rd_plan_info info = {.struct_size = sizeof info};
  assert_int_equal(rd_plan_get_info(plan, &info), RD_OK);
  assert_true(rd_context_reserved(ctx) >= info.scratch_bytes);
  assert_int_equal(info.record_bytes_per_token, 4 * (LHK * LK + LHV * LV + LHV * LK));
  assert_int_equal(info.snapshot_bytes_per_token, 4 * LSTATE);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  assert_int_equal(a.live, 0);
  free(l);
}

/* ---------------------------------------------------------------- executors ------------------- */

typedef struct executor {
  rd_context *ctx;
  int calls, fail, busy;
} executor;

static int backwards(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  executor *e = self;
  e->calls++;
  if (e->busy) { /* a second call while the first one runs */
    assert_int_equal(rd_context_reserve(e->ctx, 1), RD_E_BUSY);
    assert_int_equal(rd_pool_reset(e->ctx, NULL, 0), RD_E_BUSY);
  }
  if (e->fail) return 7;
  for (int64_t i = n - 1; i >= 0; i--) fn(arg, i);
  return 0;
}

static void executors_run_fail_and_block(void **state) {
  (void)state;
  executor e = {0};
  rd_context *ctx, *own;
  rd_context_options o;
  rd_context_options_init(&o);
  o.executor = (rd_executor){.run = backwards, .self = &e, .concurrency = 0};
  assert_int_equal(rd_context_create(&o, &ctx), RD_E_ENUM);
  o.executor.concurrency = 4;
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  assert_int_equal(rd_context_threads(ctx), 4);
  o.executor.run = NULL;
  o.threads = 1;
  assert_int_equal(rd_context_create(&o, &own), RD_OK);
  e.ctx = ctx;
  e.busy = 1;
  layer *x = malloc(sizeof *x), *y = malloc(sizeof *y);
  layer_init(x, 5);
  layer_init(y, 5);
  rd_plan *plan, *own_plan;
  assert_status(ctx, RD_OK, rd_plan_create(ctx, &x->problem, &plan));
  assert_status(own, RD_OK, rd_plan_create(own, &y->problem, &own_plan));
  const size_t reserved = rd_context_reserved(ctx); /* for the full cut, which an executor gets */
  assert_status(ctx, RD_OK, layer_step(ctx, plan, x));
  assert_status(own, RD_OK, layer_step(own, own_plan, y));
  assert_int_equal(e.calls, 3); /* one round each */
  assert_int_equal(rd_context_reserved(ctx), reserved);
  assert_memory_equal(x->out, y->out, sizeof x->out);
  assert_memory_equal(x->pool, y->pool, sizeof x->pool);
  assert_memory_equal(x->u, y->u, sizeof x->u);

  e.fail = 1;
  assert_status(ctx, RD_E_EXECUTOR, rd_verify(ctx, plan, &x->seq, &x->act, &x->state, &x->records));
  assert_non_null(strstr(rd_last_error(ctx), "7"));
  e.fail = 0; /* records of a broken run are no records */
  assert_status(ctx, RD_E_RECORDS, rd_commit(ctx, plan, &x->records, &x->accepted, &x->state));
  assert_status(ctx, RD_OK, layer_step(ctx, plan, x));
  rd_plan_destroy(plan);
  rd_plan_destroy(own_plan);
  rd_context_destroy(ctx);
  rd_context_destroy(own);
  free(x);
  free(y);
}

static void plans_know_their_mask(void **state) {
  (void)state;
  rd_context *any, *scalar;
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1;
  assert_int_equal(rd_context_create(&o, &any), RD_OK);
  o.isa_mask = RD_ISA_SCALAR;
  assert_int_equal(rd_context_create(&o, &scalar), RD_OK);
  layer *l = malloc(sizeof *l);
  layer_init(l, 2);
  rd_plan *plan;
  assert_status(any, RD_OK, rd_plan_create(any, &l->problem, &plan));
  if (rd_isa_usable() != RD_ISA_SCALAR)
    assert_status(scalar, RD_E_PLAN, layer_step(scalar, plan, l));
  assert_status(any, RD_E_NULL, layer_step(any, NULL, l));
  l->problem.max_batch = LB - 1;
  rd_plan_destroy(plan);
  assert_status(any, RD_OK, rd_plan_create(any, &l->problem, &plan));
  assert_status(any, RD_E_PLAN, layer_step(any, plan, l));
  rd_plan_destroy(plan);
  l->problem.max_batch = LB;
  l->problem.max_tokens = LT - 1;
  assert_status(any, RD_OK, rd_plan_create(any, &l->problem, &plan));
  assert_status(any, RD_E_PLAN, layer_step(any, plan, l));
  l->lengths[0] = LT - 1; /* the longest counts, not the tensor */
  l->accept[0] = 0;
  assert_status(any, RD_OK, layer_step(any, plan, l));
  rd_plan_destroy(plan);
  l->problem.max_batch = l->problem.max_tokens = RD_UNLIMITED;
  assert_status(any, RD_OK, rd_plan_create(any, &l->problem, &plan));
  rd_plan_info info;
  rd_plan_info_init(&info);
  assert_int_equal(rd_plan_get_info(plan, &info), RD_OK);
  assert_int_equal(info.work_items, 0);
  assert_int_equal(info.row_block, l->problem.V);
  assert_status(any, RD_OK, layer_step(any, plan, l));
  rd_plan_destroy(plan);
  rd_plan_destroy(NULL);
  free(l);
  rd_context_destroy(any);
  rd_context_destroy(scalar);
}

static void status_names(void **state) {
  (void)state;
  for (int s = 0; s <= RD_E_SYSTEM; s++) assert_null(strchr(rd_status_name((rd_status)s), '?'));
  assert_string_equal(rd_status_name((rd_status)99), "RD_E_?");
  assert_string_equal(rd_version(), RD_VERSION_STRING);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(every_usable_set_makes_a_context),
      cmocka_unit_test(arena_grows_and_stays),
      cmocka_unit_test(warm_verbs_allocate_nothing),
      cmocka_unit_test(executors_run_fail_and_block),
      cmocka_unit_test(plans_know_their_mask),
      cmocka_unit_test(status_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
