/* Records carved from one block are those of separate arrays; scratch of a plan in another context. */
#include "unit.h"

#include "layer.h"

static rd_context *context(int threads) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = threads;
  rd_context *ctx;
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  return ctx;
}

static int inside(const void *p, size_t n, const char *block, size_t bytes) {
  return (const char *)p >= block && (const char *)p + n <= block + bytes && (uintptr_t)p % 64 == 0;
}

static void carved(void **state) {
  (void)state;
  rd_context *ctx = context(1);
  static layer a, b;
  for (int gate = RD_GATE_NONE; gate <= RD_GATE_LOWER_BOUND; gate += 2) {
    layer_init(&a, 9);
    layer_init(&b, 9);
    if (gate == RD_GATE_NONE) {
      memset(&a.act.g, 0, sizeof a.act.g);
      a.act.A_log = a.act.dt_bias = a.act.g;
      b.act.g = b.act.A_log = b.act.dt_bias = a.records.decay = a.act.g;
    }
    a.problem.gate = b.problem.gate = gate;
    rd_plan *plan;
    assert_int_equal(rd_plan_create(ctx, &a.problem, &plan), RD_OK);
    size_t bytes;
    assert_int_equal(rd_records_bytes(ctx, plan, LB, LC, &bytes), RD_OK);
    char *block = aligned_alloc(64, bytes);
    memset(block, 0xa5, bytes);
    rd_records_init(&b.records);
    assert_int_equal(rd_records_carve(ctx, plan, LB, LC, block, bytes, &b.records), RD_OK);
    const rd_records *r = &b.records;
    assert_true(inside(r->u.data, sizeof b.u, block, bytes));
    assert_true(inside(r->k.data, sizeof b.rk, block, bytes));
    assert_true(inside(r->lengths, sizeof b.made, block, bytes));
    assert_true(inside(r->generation, sizeof *r->generation, block, bytes));
    assert_true(inside(r->parents.data, sizeof(int32_t[LB][LC]), block, bytes));
    assert_int_equal(r->decay.dtype, gate == RD_GATE_NONE ? RD_ABSENT : RD_F32);
    assert_int_equal(layer_step(ctx, plan, &a), RD_OK); /* the alias check sees that none overlap */
    assert_int_equal(layer_step(ctx, plan, &b), RD_OK);
    assert_memory_equal(a.out, b.out, sizeof a.out);
    assert_memory_equal(a.pool, b.pool, sizeof a.pool);
    assert_memory_equal(a.made, r->lengths, sizeof a.made);
    assert_int_equal(*r->generation, 2); /* a verify and a commit */

    rd_records before = b.records;
    assert_int_equal(rd_records_carve(ctx, plan, LB, LC, block, bytes - 1, &b.records),
                     RD_E_BUFFER);
    assert_int_equal(rd_records_carve(ctx, plan, LB, LC, block + 32, bytes, &b.records),
                     RD_E_STRIDE);
    assert_int_equal(rd_records_carve(ctx, plan, LB, LC, NULL, bytes, &b.records), RD_E_NULL);
    assert_int_equal(rd_records_carve(ctx, plan, LB, LC, block, bytes, NULL), RD_E_NULL);
    assert_int_equal(rd_records_carve(ctx, NULL, LB, LC, block, bytes, &b.records), RD_E_NULL);
    assert_int_equal(rd_records_carve(ctx, plan, -1, LC, block, bytes, &b.records), RD_E_SHAPE);
    assert_int_equal(rd_records_bytes(ctx, plan, LB, -1, &bytes), RD_E_SHAPE);
    assert_int_equal(rd_records_bytes(ctx, plan, INT64_MAX / 2, 3, &bytes), RD_E_OVERFLOW);
    assert_int_equal(rd_records_bytes(ctx, plan, LB, LC, NULL), RD_E_NULL);
    assert_memory_equal(&before, &b.records, sizeof before);
    assert_int_equal(*r->generation, 2);
    free(block);
    rd_plan_destroy(plan);
  }
  rd_context_destroy(ctx);
}

/* rd_plan_scratch tells a context with more threads what to reserve: it never grows afterwards. */
static void scratch_elsewhere(void **state) {
  (void)state;
  rd_context *ctx = context(1), *other = context(7);
  static layer l;
  layer_init(&l, 2);
  rd_plan *plan;
  assert_int_equal(rd_plan_create(ctx, &l.problem, &plan), RD_OK);
  rd_plan_info info;
  rd_plan_info_init(&info);
  assert_int_equal(rd_plan_get_info(plan, &info), RD_OK);
  size_t here = 0, there = 0;
  assert_int_equal(rd_plan_scratch(ctx, plan, &here), RD_OK);
  assert_int_equal(rd_plan_scratch(other, plan, &there), RD_OK);
  assert_int_equal(here, info.scratch_bytes);
  assert_true(there > here);
  assert_int_equal(rd_context_reserve(other, there), RD_OK);
  const size_t reserved = rd_context_reserved(other);
  assert_int_equal(layer_step(other, plan, &l), RD_OK);
  assert_int_equal(rd_context_reserved(other), reserved);
  assert_int_equal(rd_plan_scratch(ctx, NULL, &here), RD_E_NULL);
  assert_int_equal(rd_plan_scratch(ctx, plan, NULL), RD_E_NULL);
  assert_int_equal(rd_plan_scratch(NULL, plan, &here), RD_E_NULL);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  rd_context_destroy(other);
}

/* The checks of slots take scratch, too, most of it in pools much larger than the batch; a plan has
 * counted it, also where the activations have more rows than the sequences. */
enum { WIDE = 4096, TOKENS = 2, ROWS = 5 * WIDE, POOL = 1 << 20 };

static void scratch_of_slot_checks(void **state) {
  (void)state;
  rd_context *ctx = context(1);
  rd_problem p;
  rd_problem_init(&p);
  p.layout = RD_PACKED;
  p.gate = RD_GATE_NONE;
  p.Hk = p.Hv = p.K = p.V = 1;
  p.max_batch = WIDE;
  p.max_tokens = TOKENS;
  rd_plan *plan;
  assert_status(ctx, RD_OK, rd_plan_create(ctx, &p, &plan));
  size_t need;
  assert_status(ctx, RD_OK, rd_plan_scratch(ctx, plan, &need));
  const size_t reserved = rd_context_reserved(ctx);
  assert_true(reserved >= need && reserved < need + 64);
  float *x = calloc(ROWS, sizeof *x), *out = calloc(ROWS, sizeof *out);
  float *pool = calloc(POOL, sizeof *pool), *shots = calloc(POOL, sizeof *shots);
  int32_t *cu = calloc(WIDE + 1, sizeof *cu), *at = calloc(ROWS, sizeof *at);
  for (int i = 0; i <= WIDE; i++) cu[i] = TOKENS * i;
  for (int i = 0; i < ROWS; i++) at[i] = 50 * i;
  rd_sequences seq;
  rd_sequences_init(&seq);
  seq.batch = WIDE;
  seq.cu_seqlens = rd_tensor_contiguous(cu, RD_I32, 1, (int64_t[]){WIDE + 1});
  rd_slots state_at, shots_at;
  rd_slots_init(&state_at);
  rd_slots_init(&shots_at);
  state_at.slots = rd_tensor_contiguous(at, RD_I32, 1, (int64_t[]){WIDE});
  for (int rows = TOKENS * WIDE; rows <= ROWS; rows += ROWS - TOKENS * WIDE)
    for (int64_t slots = POOL; slots >= 50 * ROWS; slots -= POOL - 50 * ROWS) {
      rd_activations act;
      rd_activations_init(&act);
      act.q = act.k = act.v = LAYER_TENSOR(x, rows, 1, 1);
      act.beta = LAYER_TENSOR(x, rows, 1);
      act.out = LAYER_TENSOR(out, rows, 1, 1);
      state_at.pool = LAYER_TENSOR(pool, slots, 1, 1, 1);
      shots_at.pool = LAYER_TENSOR(shots, slots, 1, 1, 1);
      shots_at.slots = rd_tensor_contiguous(at, RD_I32, 1, (int64_t[]){rows});
      assert_status(ctx, RD_OK, rd_decode(ctx, plan, &seq, &act, &state_at, NULL, NULL));
      assert_status(ctx, RD_OK, rd_decode(ctx, plan, &seq, &act, &state_at, &state_at, &shots_at));
      assert_int_equal(rd_context_reserved(ctx), reserved);
      if (slots == 50 * ROWS) break;
    }
  free(x), free(out), free(pool), free(shots), free(cu), free(at);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(carved), cmocka_unit_test(scratch_elsewhere),
                                     cmocka_unit_test(scratch_of_slot_checks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
