/* rd_prefill with snapshots: the states and outputs of rd_decode with them, whatever starts the
 * sequences and wherever the states go; and which pools may be one. */
#include "unit.h"

#include "layer.h"

enum { STATES = LB * LT, GAP = 3 };

typedef struct shots {
  layer l;
  float states[(STATES + LB + GAP) * LSTATE], final[LB * LSTATE];
  int32_t index[STATES];
  rd_slots snap, to;
} shots;

static void setup(shots *x, uint64_t seed) {
  layer_init(&x->l, seed);
  for (size_t i = 0; i < sizeof x->states / sizeof x->states[0]; i++) x->states[i] = -7;
  for (size_t i = 0; i < sizeof x->final / sizeof x->final[0]; i++) x->final[i] = -7;
  rd_slots_init(&x->snap);
  x->snap.pool = LAYER_TENSOR(x->states, STATES + LB + GAP, LHV, LV, LK);
  for (int i = 0; i < STATES; i++) x->index[i] = STATES - 1 - i;
  x->index[1] = -1; /* a token whose state nobody wants */
  x->snap.slots = rd_tensor_contiguous(x->index, RD_I32, 2, (int64_t[]){LB, LT});
  rd_slots_init(&x->to);
  x->to.pool = LAYER_TENSOR(x->final, LB, LHV, LV, LK);
}

static rd_context *ctx;

static rd_plan *plan_of(const rd_problem *p) {
  rd_plan *plan;
  assert_int_equal(rd_plan_create(ctx, p, &plan), RD_OK);
  return plan;
}

static void same(const shots *a, const shots *b) {
  assert_memory_equal(a->l.out, b->l.out, sizeof a->l.out);
  assert_memory_equal(a->states, b->states, sizeof a->states);
  assert_memory_equal(a->final, b->final, sizeof a->final);
  assert_memory_equal(a->l.pool, b->l.pool, sizeof a->l.pool);
}

static void as_decode(void **state) {
  (void)state;
  static shots a, b;
  for (int fast = 0; fast < 2; fast++) {
    setup(&a, 3);
    setup(&b, 3);
    rd_plan *plan = plan_of(&a.l.problem);
    b.l.problem.numerics = fast ? RD_FAST : RD_EXACT; /* runs EXACT when it has snapshots */
    rd_plan *other = plan_of(&b.l.problem);
    layer *l = &a.l, *m = &b.l;
    assert_int_equal(rd_decode(ctx, plan, &l->seq, &l->act, &l->state, &a.to, &a.snap), RD_OK);
    assert_int_equal(rd_prefill(ctx, other, &m->seq, &m->act, &m->state, &b.to, &b.snap), RD_OK);
    same(&a, &b);
    assert_true(a.states[(STATES - 1) * LSTATE] != -7 && a.final[0] != -7);
    rd_plan_destroy(plan);
    rd_plan_destroy(other);
  }
}

static void from_nothing(void **state) {
  (void)state;
  static shots a, b;
  setup(&a, 4);
  setup(&b, 4);
  rd_plan *plan = plan_of(&a.l.problem);
  memset(a.l.pool, 0, sizeof a.l.pool);
  assert_int_equal(rd_decode(ctx, plan, &a.l.seq, &a.l.act, &a.l.state, &a.to, &a.snap), RD_OK);
  assert_int_equal(rd_prefill(ctx, plan, &b.l.seq, &b.l.act, NULL, &b.to, &b.snap), RD_OK);
  memset(b.l.pool, 0, sizeof b.l.pool);
  same(&a, &b);

  /* Without final states, and with nothing but pads: only the outputs. */
  setup(&b, 4);
  for (int i = 0; i < STATES; i++) b.index[i] = -1;
  assert_int_equal(rd_prefill(ctx, plan, &b.l.seq, &b.l.act, NULL, NULL, &b.snap), RD_OK);
  assert_memory_equal(a.l.out, b.l.out, sizeof a.l.out);
  for (size_t i = 0; i < sizeof b.states / sizeof b.states[0]; i++) assert_true(b.states[i] == -7);
  rd_plan_destroy(plan);
}

/* Snapshots beside `write`: both are what the plain call leaves, the last snapshot and all. */
static void beside_write(void **state) {
  (void)state;
  static shots a, b;
  setup(&a, 9);
  setup(&b, 9);
  rd_plan *plan = plan_of(&a.l.problem);
  for (int verb = 0; verb < 2; verb++) {
    setup(&b, 9);
    memcpy(a.final, a.l.pool, sizeof a.final);
    layer *l = &a.l, *m = &b.l;
    assert_int_equal(rd_decode(ctx, plan, &l->seq, &l->act, &l->state, &a.to, NULL), RD_OK);
    assert_int_equal(verb ? rd_prefill(ctx, plan, &m->seq, &m->act, &m->state, &b.to, &b.snap)
                          : rd_decode(ctx, plan, &m->seq, &m->act, &m->state, &b.to, &b.snap),
                     RD_OK);
    assert_memory_equal(l->out, m->out, sizeof l->out);
    assert_memory_equal(a.final, b.final, sizeof a.final);
    assert_memory_equal(l->pool, m->pool, sizeof l->pool); /* read only */
    for (int s = 0; s < LB; s++) {
      const int32_t last = b.index[s * LT + l->lengths[s] - 1];
      assert_memory_equal(a.final + s * LSTATE, b.states + last * LSTATE, LSTATE * sizeof(float));
    }
    /* A slot of `write` that is no slot is refused, with snapshots as without. */
    int32_t at[LB] = {0, 1, LB};
    b.to.slots = rd_tensor_contiguous(at, RD_I32, 1, (int64_t[]){LB});
    assert_int_equal(rd_decode(ctx, plan, &m->seq, &m->act, &m->state, &b.to, &b.snap),
                     RD_E_SLOT_RANGE);
    at[2] = 1;
    assert_int_equal(rd_decode(ctx, plan, &m->seq, &m->act, &m->state, &b.to, &b.snap),
                     RD_E_SLOT_DUPLICATE);
  }
  rd_plan_destroy(plan);
}

/* Snapshots may go into exactly the pool of the final states, or of the initial ones. */
static void one_pool(void **state) {
  (void)state;
  static shots a, b;
  int32_t at[LB];
  for (int i = 0; i < LB; i++) at[i] = STATES + GAP + i;
  for (int verb = 0; verb < 2; verb++) {
    setup(&a, 6);
    setup(&b, 6);
    rd_plan *plan = plan_of(&a.l.problem);
    assert_int_equal(rd_prefill(ctx, plan, &a.l.seq, &a.l.act, &a.l.state, &a.to, &a.snap), RD_OK);
    rd_slots to = {sizeof to, b.snap.pool, rd_tensor_contiguous(at, RD_I32, 1, (int64_t[]){LB})};
    assert_int_equal(verb ? rd_decode(ctx, plan, &b.l.seq, &b.l.act, &b.l.state, &to, &b.snap)
                          : rd_prefill(ctx, plan, &b.l.seq, &b.l.act, &b.l.state, &to, &b.snap),
                     RD_OK);
    assert_memory_equal(a.final, b.states + (STATES + GAP) * LSTATE, sizeof a.final);
    assert_memory_equal(a.states, b.states, (STATES + GAP) * LSTATE * sizeof(float));

    /* Another view of the same bytes is none of them. */
    b.snap.pool.shape[0]--;
    assert_int_equal(rd_prefill(ctx, plan, &b.l.seq, &b.l.act, NULL, &to, &b.snap), RD_E_ALIAS);
    /* A slot for two tokens, and one that is a final state's. */
    b.snap.pool.shape[0]++;
    b.index[2] = b.index[3];
    assert_int_equal(rd_prefill(ctx, plan, &b.l.seq, &b.l.act, NULL, &to, &b.snap),
                     RD_E_SLOT_DUPLICATE);
    b.index[2] = at[1];
    assert_int_equal(rd_prefill(ctx, plan, &b.l.seq, &b.l.act, NULL, &to, &b.snap),
                     RD_E_SLOT_DUPLICATE);
    rd_plan_destroy(plan);
  }
}

int main(void) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 2;
  if (rd_context_create(&o, &ctx) != RD_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_decode), cmocka_unit_test(from_nothing),
                                     cmocka_unit_test(one_pool), cmocka_unit_test(beside_write)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rd_context_destroy(ctx);
  return failed;
}
