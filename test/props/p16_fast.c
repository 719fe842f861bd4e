/* FAST: what the inexact forms still promise - the bounds, the same bits for any threads, batch,
 * pads and strides, splits at multiples of 32, verify's tokens independent of T, causality from the
 * token's 32-block on - and that decode and commit stay EXACT. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "kit/world.h"

static rd_problem fast(rd_problem p) {
  p.numerics = RD_FAST;
  return p;
}

/* Every other one may go to a matrix unit: bf16, whole blocks of 32 keys, one gate per head. */
static rd_problem fast_random(int64_t i) {
  rd_problem p = fast(pb_random());
  if (i % 2 == 0) return p;
  p.qkv_dtype = RD_BF16;
  p.gate_axis = RD_PER_HEAD;
  p.K = 32 * rng_int(1, 4);
  if (p.gate == RD_GATE_DECAY) p.gate = RD_GATE_LOG;
  return p;
}

static void note(const rd_problem *p, int64_t T) {
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s T=%lld", s, (long long)T);
}

static void within_bounds(const data *d) {
  const rd_problem *p = &d->p;
  rd_context *cx = cx_get(0, 2, EX_POOL);
  result got = run_prefill_all(cx, d, NULL);
  call *c = call_all(d, NULL);
  int64_t longest = c->p.max_tokens;
  recs *r = recs_make(p, d->n, longest);
  pool *pl = pool_make(p, d->n, 0);
  for (int64_t i = 0; i < d->n; i++) pool_put(pl, i, d->s[i].S0);
  rd_slots at = pool_view(pl, d->n, NULL);
  do_verify(cx, c, &at, r);
  for (int64_t i = 0; i < d->n; i++) {
    int64_t T = d->s[i].len, n = T * p->Hv * p->V;
    double *S = db_from(d->s[i].S0, data_state_n(d)), *out = db(n), *u = db(n),
           b = world_bound(d, T), z = world_abs(d, T);
    float *v = fl(n), *ru = fl(n);
    orc_run(d, i, 0, T, ORC_DOUBLE, S, out, u, NULL, NULL);
    ck_close("prefill out", got.out[i], out, T, p->Hv, p->V, b, z, p->out_dtype);
    ck_close("prefill state", got.S[i], S, 1, p->Hv, p->V * p->K, b, z, p->state_dtype);
    call_out(c, i, v);
    recs_get(r, i, T, ru, NULL, NULL);
    ck_close("verify out", v, out, T, p->Hv, p->V, b, z, p->out_dtype);
    ck_close("verify u", ru, u, T, p->Hv, p->V, b, z, p->record_dtype);
  }
  world *w = world_make(d);
  world_decode(w, cx, NULL); /* bits of C1 */
}

static void bounds(int64_t n, int64_t longest) {
  for (int64_t i = 0; i < n && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = fast_random(i);
    if (p.K < 15) p.K += 32;
    if (p.V < 15) p.V += 32;
    int64_t len[2] = {rng_int(2, longest), rng_int(2, longest)};
    note(&p, len[0]);
    within_bounds(data_make(&p, 2, len));
    mem_release(mark);
  }
}

/* The random problems above need not have met all of them. */
static void every_gate(void) {
  for (int gate = RD_GATE_NONE; gate <= RD_GATE_DECAY; gate++)
    for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++) {
      size_t mark = mem_mark();
      rd_problem p = fast(pb_default());
      p.gate = gate;
      p.gate_axis = axis;
      p.K = p.V = 48;
      int64_t len[2] = {40, 17};
      note(&p, len[0]);
      within_bounds(data_make(&p, 2, len));
      mem_release(mark);
    }
}

static void bounds_few(void) { bounds(10, 40); }
static void bounds_some(void) { bounds(80, 150); }
static void bounds_many(void) { bounds(1000, 300); }

/* Blocks whose cumulative decay leaves [-40, 0] run EXACT; the mixture is within the bounds too. */
static void strong_decay(void) {
  for (int i = 0; i < 12; i++) {
    rd_problem p = fast(pb_default());
    p.gate_axis = i & 1 ? RD_PER_HEAD : RD_PER_CHANNEL;
    int64_t len = 100;
    note(&p, len);
    data *d = data_make(&p, 1, &len);
    static const double big[] = {-3, -20, -80, -2661, -INFINITY, 0.2};
    for (int64_t x = 0; x < len * p.Hv * d->G; x++)
      if (rng_int(0, 40) == 0) d->s[0].g[x] = (float)big[i / 2];
    within_bounds(d);
  }
}

/* Keys all alike are what an inverse by products of powers does not survive. */
static void correlated_keys(void) {
  for (int i = 0; i < 6; i++) {
    rd_problem p = fast(pb_default());
    p.gate_axis = RD_PER_HEAD, p.qk_norm = RD_QK_L2;
    p.qkv_dtype = i % 2 ? RD_F32 : RD_BF16, p.K = 64, p.V = 40;
    int64_t len = 130;
    note(&p, len);
    data *d = data_make(&p, 1, &len);
    for (int64_t x = 0; x < len * p.Hk * p.K; x++)
      d->s[0].k[x] = 0.05f * (float)i * d->s[0].k[x] + d->s[0].k[x % (p.Hk * p.K)];
    for (int64_t x = 0; x < len * p.Hv; x++) d->s[0].g[x] *= 0.02f;
    data_requantise(d);
    within_bounds(d);
  }
}

static int64_t subnormals(const float *x, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += x[i] != 0 && fabsf(x[i]) < 0x1p-126f;
  return count;
}

/* Nothing that arithmetic makes is subnormal, and what is lost by that stays within the bound. */
static void vanishing_inputs(void) {
  uint32_t isa[8];
  int n = cx_isas(isa);
  for (int i = 0; i < (pt_level ? 60 : 12) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = fast_random(i);
    p.state_dtype = p.out_dtype = p.record_dtype = RD_F32;
    p.K += 20, p.V += 20;
    int64_t len[2] = {rng_int(2, 50), rng_int(2, 20)}, row = p.Hv * p.V;
    note(&p, len[0]);
    data *d = data_make(&p, 2, len);
    for (int s = 0; s < 2; s++) { /* weak gates keep blocks FAST, the state is what vanishes */
      for (int64_t x = 0; x < data_state_n(d); x++) d->s[s].S0[x] *= i & 1 ? 1e-38f : 0x1p-126f;
      for (int64_t x = 0; x < len[s] * row; x++) d->s[s].v[x] *= 1e-38f;
    }
    if (i % 4 == 3) data_vanishing(d);
    data_requantise(d);
    within_bounds(d);
    for (int x = 0; x < n; x++) {
      rd_context *cx = cx_get(isa[x], 2, EX_POOL);
      result got = run_prefill_all(cx, d, NULL);
      for (int s = 0; s < 2; s++) {
        int64_t bad = subnormals(got.out[s], len[s] * row) + subnormals(got.S[s], data_state_n(d));
        CK(bad == 0, "%s leaves %lld subnormal numbers", cx_isa_name(isa[x]), (long long)bad);
      }
    }
    mem_release(mark);
  }
}

static void same_for_threads_batch_and_strides(void) {
  uint32_t isa[8];
  int n = cx_isas(isa);
  for (int i = 0; i < (pt_level ? 20 : 4) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = fast_random(i);
    int64_t len[3] = {rng_int(1, 50), rng_int(1, 50), rng_int(0, 50)};
    note(&p, len[0]);
    data *d = data_make(&p, 3, len);
    for (int s = 0; s < n; s++) {
      result want = run_prefill_all(cx_get(isa[s], 1, EX_POOL), d, NULL);
      for (int t = 2; t <= 3; t++) {
        callopt o = {.strides = (stride_mode)rng_int(0, ST_CHANNELS_FIRST),
                     .extra_T = t,
                     .layout = t == 2 ? RD_PADDED : RD_PACKED};
        ck_result("threads and strides", d, run_prefill_all(cx_get(isa[s], t, EX_HOSTILE), d, &o),
                  want);
      }
      data one = *d;
      one.n = 1;
      result alone = run_prefill_all(cx_get(isa[s], 3, EX_REVERSED), &one, NULL);
      ck_result("alone", &one, alone, want);
    }
    mem_release(mark);
  }
}

static void splits_at_32(void) {
  for (int i = 0; i < (pt_level ? 30 : 5) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = fast_random(i);
    p.state_dtype = RD_F32;
    int64_t len = rng_int(33, 120), cut = 32 * rng_int(1, (len - 1) / 32), row = p.Hv * p.V;
    note(&p, len);
    data *d = data_make(&p, 1, &len);
    rd_context *cx = cx_get(0, 2, EX_POOL);
    result want = run_prefill_all(cx, d, NULL);
    pool *pl = pool_make(&p, 1, 0);
    pool_put(pl, 0, d->s[0].S0);
    rd_slots at = pool_view(pl, 1, NULL);
    float *out = fl(len * row), *S = fl(data_state_n(d));
    for (int half = 0; half < 2; half++) {
      piece pc = {0, half ? cut : 0, half ? len - cut : cut};
      call *c = call_make(d, &pc, 1, NULL);
      do_prefill(cx, c, &at, &at);
      call_out(c, 0, out + pc.t0 * row);
    }
    pool_get(pl, 0, S);
    ck_bits("out of two parts", out, want.out[0], len * row);
    ck_bits("state of two parts", S, want.S[0], data_state_n(d));
    mem_release(mark);
  }
}

static void verify_first(rd_context *cx, const data *d, int64_t T, float *out, float *u) {
  piece pc = {0, 0, T};
  call *c = call_make(d, &pc, 1, NULL);
  pool *pl = pool_make(&d->p, 1, 0);
  pool_put(pl, 0, d->s[0].S0);
  rd_slots at = pool_view(pl, 1, NULL);
  recs *r = recs_make(&d->p, 1, T);
  do_verify(cx, c, &at, r);
  call_out(c, 0, out);
  recs_get(r, 0, T, u, NULL, NULL);
}

/* Decays that are given as they are have no logarithm to stay in range by: FAST runs EXACT. */
static void given_decays_run_exact(void) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++) {
    rd_problem p = fast(pb_default());
    p.gate = RD_GATE_DECAY;
    p.gate_axis = axis;
    int64_t len = 40, row = p.Hv * p.V;
    note(&p, len);
    data *d = data_make(&p, 1, &len), exact = *d;
    exact.p.numerics = RD_EXACT;
    ck_result("FAST with given decays", d, run_prefill_all(cx, d, NULL),
              run_prefill_all(cx, &exact, NULL));
    float *out = fl(len * row), *u = fl(len * row), *o2 = fl(len * row), *u2 = fl(len * row);
    verify_first(cx, d, len, out, u);
    verify_first(cx, &exact, len, o2, u2);
    ck_bits("verify with given decays: out", out, o2, len * row);
    ck_bits("verify with given decays: u", u, u2, len * row);
  }
}

/* The document promises it up to 64 tokens; beyond, verify runs EXACT. */
static void verify_does_not_see_T(void) {
  for (int i = 0; i < (pt_level ? 20 : 4) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = fast_random(i);
    int64_t len = 64, row = p.Hv * p.V;
    note(&p, len);
    data *d = data_make(&p, 1, &len);
    rd_context *cx = cx_get(0, 2, EX_POOL);
    float *out = fl(len * row), *u = fl(len * row), *o2 = fl(len * row), *u2 = fl(len * row);
    verify_first(cx, d, len, out, u);
    for (int e = 0; e < 6; e++) {
      int64_t T = e == 0 ? 1 : rng_int(1, 63);
      verify_first(cx, d, T, o2, u2);
      ck_bits("first tokens' out", o2, out, T * row);
      ck_bits("first tokens' u", u2, u, T * row);
    }
    mem_release(mark);
  }
}

static void later_blocks_only(void) {
  for (int i = 0; i < (pt_level ? 20 : 4) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = fast_random(i);
    int64_t len = rng_int(40, 120), t = rng_int(32, len - 1), row = p.Hv * p.V;
    note(&p, len);
    data *d = data_make(&p, 1, &len);
    rd_context *cx = cx_get(0, 2, EX_POOL);
    result a = run_prefill_all(cx, d, NULL);
    for (int64_t x = t * row; x < len * row; x++) d->s[0].v[x] = (float)rng_normal();
    for (int64_t x = t * p.Hv * d->G; x < len * p.Hv * d->G; x++)
      d->s[0].g[x] = p.gate == RD_GATE_DECAY ? 0.5f : -0.5f;
    data_requantise(d);
    result b = run_prefill_all(cx, d, NULL);
    ck_bits("outputs before the block", b.out[0], a.out[0], t / 32 * 32 * row);
    mem_release(mark);
  }
}

/* Which kernels these promises were held against; a set without them is skipped, not passed. */
static void kernels(void) {
  uint32_t isa[8];
  int n = cx_isas(isa), with = 0;
  for (int i = 0; i < n; i++) {
    rd_context *cx = cx_get(isa[i], 2, EX_POOL);
    rd_problem p = fast(pb_default());
    p.max_batch = 3;
    p.max_tokens = 64;
    rd_plan *plan = NULL;
    rd_plan_info info = {.struct_size = sizeof info};
    if (!CK_OK(cx, rd_plan_create(cx, &p, &plan))) return;
    CK(rd_plan_get_info(plan, &info) == RD_OK, "plan info");
    const char *a = info.fast_prefill_kernel, *b = info.fast_verify_kernel;
    printf("  %s: prefill %s, verify %s\n", cx_isa_name(isa[i]), a ? a : "exact", b ? b : "exact");
    with += a || b;
    rd_plan_destroy(plan);
  }
  float x = 1;
  ck_bits("(teeth need a comparison)", &x, &x, 1);
  if (!with) pt_skip("no FAST kernels here: everything ran EXACT");
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"kernels", kernels, PT_QUICK},
      {"bounds_few", bounds_few, PT_QUICK},
      {"every_gate", every_gate, PT_QUICK},
      {"strong_decay", strong_decay, PT_QUICK},
      {"correlated_keys", correlated_keys, PT_QUICK},
      {"vanishing_inputs", vanishing_inputs, PT_QUICK},
      {"same_for_threads_batch_and_strides", same_for_threads_batch_and_strides, PT_QUICK},
      {"splits_at_32", splits_at_32, PT_QUICK},
      {"verify_does_not_see_T", verify_does_not_see_T, PT_QUICK},
      {"later_blocks_only", later_blocks_only, PT_QUICK},
      {"given_decays_run_exact", given_decays_run_exact, PT_QUICK},
      {"bounds_some", bounds_some, PT_STD},
      {"bounds_many", bounds_many, PT_FULL},
  };
  return pt_main(argc, argv, "p16_fast", cases, PT_LEN(cases));
}
