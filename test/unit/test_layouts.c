/* The layout and type of states against the verbs: neither changes what is computed. */
#include "unit.h"

#include "core/context.h"
#include "core/states.h"

enum { B = 2, T = 20, HK = 1, HV = 2, K = 24, V = 70, C = 21, STATE = HV * V * K };

static rd_context *context(void) {
  rd_context *ctx;
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1;
  o.isa_mask = RD_ISA_SCALAR;
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  return ctx;
}

/* ---------------------------------------------------------------- all verbs ------------------- */

typedef struct run_data {
  float q[B * T * HK * K], k[B * T * HK * K], v[B * T * HV * V], g[B * T * HV * K],
      beta[B * T * HV];
  float out[4][B * T * HV * V], u[B * C * HV * V], rk[B * C * HK * K], decay[B * C * HV * K];
  float f32[STATE * B];     /* values of the pools */
  float pool[3][STATE * B]; /* room for any type: initial, final, working */
  float shots[STATE * B * T];
  int32_t lengths[B], made[B], accepted[B], slots[B * T];
} run_data;

static rd_tensor tensor(void *p, rd_dtype dtype, int32_t rank, int64_t a, int64_t b, int64_t c,
                        int64_t d) {
  return rd_tensor_contiguous(p, dtype, rank, (int64_t[]){a, b, c, d});
}

static rd_slots pool_of(const rd_problem *p, void *data, int64_t slots) {
  const int vk = p->state_layout == RD_STATE_VK;
  return (rd_slots){.struct_size = sizeof(rd_slots),
                    .pool = tensor(data, p->state_dtype, 4, slots, HV, vk ? V : K, vk ? K : V)};
}

static void run_verbs(rd_context *ctx, run_data *d, rd_state_layout layout, rd_dtype dtype) {
  memset(d, 0, sizeof *d);
  fill_random(d->q, sizeof d->q / 4, 1), fill_random(d->k, sizeof d->k / 4, 2);
  fill_random(d->v, sizeof d->v / 4, 3), fill_random(d->g, sizeof d->g / 4, 4);
  fill_random(d->beta, sizeof d->beta / 4, 5), fill_random(d->f32, sizeof d->f32 / 4, 6);
  for (size_t i = 0; i < sizeof d->g / 4; i++) d->g[i] -= 1.0f;
  rd_problem p;
  rd_problem_init(&p);
  p.beta = RD_BETA_LOGIT, p.qk_norm = RD_QK_L2;
  p.Hk = HK, p.Hv = HV, p.K = K, p.V = V, p.max_batch = B, p.max_tokens = T;
  p.state_layout = layout, p.state_dtype = dtype;
  rd_plan *plan;
  assert_status(ctx, RD_OK, rd_plan_create(ctx, &p, &plan));
  rd_problem f32 = p; /* the same matrices in every layout */
  f32.state_dtype = RD_F32, f32.state_layout = RD_STATE_VK;
  const rd_tensor values = pool_of(&f32, d->f32, B).pool;
  for (int i = 0; i < 3; i++) {
    const rd_tensor to = pool_of(&p, d->pool[i], B).pool;
    assert_status(ctx, RD_OK, rd_pool_convert(ctx, &values, RD_STATE_VK, &to, layout));
  }
  d->lengths[0] = T, d->lengths[1] = 5, d->accepted[0] = 18, d->accepted[1] = 5;
  for (int i = 0; i < B * T; i++) d->slots[i] = i % 3 ? i : -1;
  rd_sequences seq = {.struct_size = sizeof seq, .batch = B};
  seq.lengths = tensor(d->lengths, RD_I32, 1, B, 0, 0, 0);
  rd_activations act = {.struct_size = sizeof act};
  act.q = tensor(d->q, RD_F32, 4, B, T, HK, K), act.k = tensor(d->k, RD_F32, 4, B, T, HK, K);
  act.v = tensor(d->v, RD_F32, 4, B, T, HV, V), act.g = tensor(d->g, RD_F32, 4, B, T, HV, K);
  act.beta = tensor(d->beta, RD_F32, 3, B, T, HV, 0);
  rd_records rec = {.struct_size = sizeof rec, .lengths = d->made};
  rec.u = tensor(d->u, RD_F32, 4, B, C, HV, V), rec.k = tensor(d->rk, RD_F32, 4, B, C, HK, K);
  rec.decay = tensor(d->decay, RD_F32, 4, B, C, HV, K);
  const rd_tensor accepted = tensor(d->accepted, RD_I32, 1, B, 0, 0, 0);
  const rd_slots initial = pool_of(&p, d->pool[0], B), final = pool_of(&p, d->pool[1], B);
  const rd_slots working = pool_of(&p, d->pool[2], B);
  rd_slots shots = pool_of(&p, d->shots, B * T);
  shots.slots = tensor(d->slots, RD_I32, 2, B, T, 0, 0);
#define RUN(i, call)                                                                               \
  act.out = tensor(d->out[i], RD_F32, 4, B, T, HV, V);                                             \
  assert_status(ctx, RD_OK, call)
  RUN(0, rd_prefill(ctx, plan, &seq, &act, &initial, &final, NULL));
  RUN(1, rd_verify(ctx, plan, &seq, &act, &working, &rec));
  RUN(1, rd_commit(ctx, plan, &rec, &accepted, &working));
  RUN(2, rd_decode(ctx, plan, &seq, &act, &working, NULL, &shots));
  RUN(3, rd_decode(ctx, plan, &seq, &act, &working, NULL, NULL));
#undef RUN
  rd_plan_destroy(plan);
}

/* The layout of a state changes no bit of an output, a record, or a value of the state. */
static void layouts_agree(void **state) {
  (void)state;
  rd_context *ctx = context();
  run_data *x = malloc(sizeof *x), *y = malloc(sizeof *y);
  float *turned = malloc(sizeof x->f32);
  for (int dtype = RD_F32; dtype <= RD_BF16; dtype++) {
    run_verbs(ctx, x, RD_STATE_VK, (rd_dtype)dtype);
    run_verbs(ctx, y, RD_STATE_KV, (rd_dtype)dtype);
    assert_memory_equal(x->out, y->out, sizeof x->out);
    assert_memory_equal(x->out[0], x->out[1], sizeof x->out[0]); /* and prefill = verify */
    assert_memory_equal(x->u, y->u, sizeof x->u);
    for (int i = 1; i < 3; i++) {
      const rd_tensor kv = tensor(y->pool[i], (rd_dtype)dtype, 4, B, HV, K, V);
      const rd_tensor vk = tensor(turned, (rd_dtype)dtype, 4, B, HV, V, K);
      assert_status(ctx, RD_OK, rd_pool_convert(ctx, &kv, RD_STATE_KV, &vk, RD_STATE_VK));
      assert_memory_equal(turned, x->pool[i], B * STATE * rd_dtype_size((rd_dtype)dtype));
    }
  }
  free(x);
  free(y);
  free(turned);
  rd_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
