/* P10 (E4): the same bits for every thread count, executor, instruction set and repetition, under
 * any floating-point environment of caller or executor, and with contexts running at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kit/world.h"

static const int threads[] = {1, 2, 3, 7, 16};

static void everywhere(const data *d) {
  uint32_t isa[8];
  int n = cx_isas(isa);
  char s[320];
  pb_describe(&d->p, s, sizeof s);
  world *w = world_make(d);
  for (int i = 0; i < n; i++)
    for (size_t t = 0; t < PT_LEN(threads); t++)
      for (int kind = EX_POOL; kind <= EX_HOSTILE && !pt_broken(); kind++) {
        /* every instruction set with every executor; every thread count with the best */
        if (i < n - 1 && t != 2) continue;
        size_t mark = mem_mark();
        pt_note("%s | %s, %d threads, executor %d", s, cx_isa_name(isa[i]), threads[t], kind);
        rd_context *cx = cx_get(isa[i], threads[t], (ex_kind)kind);
        world_prefill(w, cx, NULL);
        world_decode(w, cx, NULL);
        world_speculate(w, cx, NULL);
        mem_release(mark);
      }
}

static void drawn(int64_t worlds) {
  for (int64_t i = 0; i < worlds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    int64_t len[3] = {rng_int(1, 20), rng_int(1, 7), rng_int(0, 33)};
    everywhere(data_make(&p, 3, len));
    mem_release(mark);
  }
}

static void drawn_few(void) { drawn(3); }
static void drawn_some(void) { drawn(15); }
static void drawn_many(void) { drawn(300); }

/* Rows of one head shared out over many threads: fewer heads than threads. */
static void few_big_heads(void) {
  rd_problem p = pb_default();
  p.Hk = p.Hv = 1;
  p.K = 100;
  p.V = 512;
  int64_t len = 9;
  everywhere(data_make(&p, 1, &len));
}

/* Enough work that the built-in pool really shares it out (a small call stays on its thread). */
static void worth_sharing(void) {
  rd_problem p = pb_default();
  p.Hk = 4;
  p.Hv = 8;
  p.K = p.V = 128;
  int64_t len[2] = {40, 33};
  everywhere(data_make(&p, 2, len));
}

static void denormals_everywhere(void) {
  rd_problem p = pb_default();
  p.out_dtype = RD_BF16;
  int64_t len[2] = {6, 3};
  data *d = data_make(&p, 2, len);
  for (int s = 0; s < 2; s++) {
    for (int64_t i = 0; i < data_state_n(d); i++) d->s[s].S0[i] = (float)(rng_normal() * 1e-39);
    for (int64_t i = 0; i < len[s] * p.Hv * p.V; i++) d->s[s].v[i] = (float)(rng_normal() * 1e-39);
  }
  everywhere(d);
}

/* Random problems, inputs around 2^-126: the bits of C2 with every instruction set, every verb. */
static void vanishing(int64_t worlds) {
  uint32_t isa[8];
  const int n = cx_isas(isa);
  for (int64_t i = 0; i < worlds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    int64_t len[3] = {rng_int(1, 20), rng_int(1, 7), rng_int(0, 33)};
    data *d = data_make(&p, 3, len);
    data_vanishing(d);
    world *w = world_make(d);
    char s[320];
    pb_describe(&p, s, sizeof s);
    for (int x = 0; x < n; x++) {
      pt_note("%s | %s", s, cx_isa_name(isa[x]));
      rd_context *cx = cx_get(isa[x], 1 + (int)(i % 3), x & 1 ? EX_HOSTILE : EX_POOL);
      world_prefill(w, cx, NULL);
      world_decode(w, cx, NULL);
      world_speculate(w, cx, NULL);
    }
    mem_release(mark);
  }
}

static void vanishing_few(void) { vanishing(8); }
static void vanishing_some(void) { vanishing(40); }
static void vanishing_many(void) { vanishing(800); }

static void repeats(void) {
  rd_problem p = pb_default();
  int64_t len[3] = {40, 3, 17};
  data *d = data_make(&p, 3, len);
  result first = run_prefill_all(cx_get(0, 1, EX_POOL), d, NULL);
  for (int i = 0; i < 100 && !pt_broken(); i++) {
    size_t mark = mem_mark();
    pt_note("repetition %d", i);
    ck_result("repeat", d, run_prefill_all(cx_get(0, threads[i % 5], EX_POOL), d, NULL), first);
    mem_release(mark);
  }
}

/* ------------------------------------------------------------------ caller environments ------ */
typedef struct prepared {
  call *c;
  pool *from, *to;
  rd_slots a, b;
  rd_plan *plan;
} prepared;

static prepared prepare(rd_context *cx, const data *d) {
  prepared r = {
      .c = call_all(d, NULL), .from = pool_make(&d->p, d->n, 0), .to = pool_make(&d->p, d->n, 0)};
  for (int64_t i = 0; i < d->n; i++) pool_put(r.from, i, d->s[i].S0);
  r.a = pool_view(r.from, d->n, NULL);
  r.b = pool_view(r.to, d->n, NULL);
  CK_OK(cx, rd_plan_create(cx, &r.c->p, &r.plan));
  return r;
}

static rd_status go(rd_context *cx, const prepared *r) {
  return rd_prefill(cx, r->plan, &r->c->seq, &r->c->act, &r->a, &r->b, NULL);
}

static result collect(const data *d, const prepared *r) {
  result x = {mem_heap(Z(d->n) * sizeof(float *)), mem_heap(Z(d->n) * sizeof(float *))};
  for (int64_t i = 0; i < d->n; i++) {
    x.out[i] = fl(d->s[i].len * d->p.Hv * d->p.V);
    x.S[i] = fl(data_state_n(d));
    call_out(r->c, i, x.out[i]);
    pool_get(r->to, i, x.S[i]);
  }
  return x;
}

static void hostile_caller(void) {
  static const int rounding[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
  rd_problem p = pb_default();
  p.gate = RD_GATE_LOWER_BOUND;
  p.out_dtype = RD_BF16;
  int64_t len[2] = {11, 4};
  data *d = data_make(&p, 2, len);
  for (int64_t i = 0; i < data_state_n(d); i++) d->s[1].S0[i] = (float)(rng_normal() * 1e-39);
  for (int t = 1; t <= 2; t++) {
    rd_context *cx = cx_get(0, t, EX_POOL);
    result want = run_prefill_all(cx, d, NULL);
    for (size_t r = 0; r < PT_LEN(rounding); r++)
      for (int flush = 0; flush < 2; flush++) {
        pt_note("caller rounds %zu, flushes %d, %d threads", r, flush, t);
        prepared x = prepare(cx, d);
        fenv_t env;
        fegetenv(&env);
        fesetround(rounding[r]);
        feclearexcept(FE_ALL_EXCEPT);
#if defined(__x86_64__)
        /* every exception traps in the caller */
        unsigned before = (_mm_getcsr() & ~0x1f80u) | (flush ? 0x8040u : 0);
        _mm_setcsr(before);
        rd_status st = go(cx, &x);
        unsigned after = _mm_getcsr();
        fesetenv(&env);
        CK(after == before, "caller's MXCSR %#x became %#x", before, after);
#else
        rd_status st = go(cx, &x);
        int now = fegetround(), flags = fetestexcept(FE_ALL_EXCEPT);
        fesetenv(&env);
        CK(now == rounding[r] && flags == 0, "caller's environment changed");
#endif
        ck_status("prefill", cx, st, RD_OK);
        ck_result("hostile caller", d, collect(d, &x), want);
        rd_plan_destroy(x.plan);
      }
  }
}

/* ------------------------------------------------------------------ two contexts ------------- */
typedef struct runner {
  rd_context *cx;
  prepared x;
  rd_status st;
} runner;

static void *run_many(void *arg) {
  runner *r = arg;
  for (int i = 0; i < 20 && r->st == RD_OK; i++) r->st = go(r->cx, &r->x);
  return NULL;
}

static void contexts_at_once(void) {
  enum { N = 4 };
  rd_problem p = pb_default();
  int64_t len[3] = {20, 7, 13};
  data *d = data_make(&p, 3, len);
  result want = run_prefill_all(cx_get(0, 1, EX_POOL), d, NULL);
  pthread_t id[N];
  runner r[N];
  for (int i = 0; i < N; i++) {
    r[i].cx = cx_fresh(0, 1 + i % 3, EX_POOL);
    r[i].x = prepare(r[i].cx, d);
    r[i].st = RD_OK;
  }
  /* plans may be shared by contexts with the same mask and threads; here each has its own */
  for (int i = 0; i < N; i++)
    if (pthread_create(&id[i], NULL, run_many, &r[i])) abort();
  for (int i = 0; i < N; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < N; i++) {
    ck_status("prefill beside others", r[i].cx, r[i].st, RD_OK);
    ck_result("beside others", d, collect(d, &r[i].x), want);
    rd_plan_destroy(r[i].x.plan);
    rd_context_destroy(r[i].cx);
  }
}

static void shared_plan(void) {
  rd_problem p = pb_default();
  int64_t len[2] = {5, 6};
  data *d = data_make(&p, 2, len);
  rd_context *a = cx_fresh(0, 1, EX_POOL), *b = cx_fresh(0, 3, EX_POOL);
  prepared x = prepare(a, d), y = prepare(b, d);
  rd_plan_destroy(y.plan);
  y.plan = x.plan;
  CK_OK(a, go(a, &x));
  CK_OK(b, go(b, &y));
  ck_result("one plan, two contexts", d, collect(d, &y), collect(d, &x));
  rd_plan_destroy(x.plan);
  rd_context_destroy(a);
  rd_context_destroy(b);
}

/* A warm plan allocates nothing, whatever the verb. */
static void warm_calls_allocate_nothing(void) {
  for (int t = 1; t <= 3; t++)
    for (int i = 0; i < 6; i++) {
      rd_problem p = pb_random();
      int64_t len[2] = {9, 4};
      data *d = data_make(&p, 2, len);
      rd_context *cx = cx_fresh(0, t, EX_POOL);
      prepared x = prepare(cx, d);
      recs *r = recs_make(&p, 2, 9);
      rd_tensor acc = tb_i32(2, (int32_t[]){2, 3}).t;
      int64_t before = cx_allocations;
      CK_OK(cx, go(cx, &x));
      CK_OK(cx, rd_verify(cx, x.plan, &x.c->seq, &x.c->act, &x.a, &r->r));
      CK_OK(cx, rd_commit(cx, x.plan, &r->r, &acc, &x.a));
      CK_OK(cx, rd_decode(cx, x.plan, &x.c->seq, &x.c->act, &x.a, NULL, NULL));
      CK(cx_allocations == before, "%lld allocations by a planned context",
         (long long)(cx_allocations - before));
      float got = 1, want = 1;
      ck_bits("(teeth need a comparison)", &got, &want, 1);
      rd_plan_destroy(x.plan);
      rd_context_destroy(cx);
    }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"drawn_few", drawn_few, PT_QUICK},
      {"denormals_everywhere", denormals_everywhere, PT_QUICK},
      {"vanishing_few", vanishing_few, PT_QUICK},
      {"vanishing_some", vanishing_some, PT_STD},
      {"vanishing_many", vanishing_many, PT_FULL},
      {"hostile_caller", hostile_caller, PT_QUICK},
      {"contexts_at_once", contexts_at_once, PT_QUICK},
      {"shared_plan", shared_plan, PT_QUICK},
      {"warm_calls_allocate_nothing", warm_calls_allocate_nothing, PT_QUICK},
      {"repeats", repeats, PT_STD},
      {"few_big_heads", few_big_heads, PT_STD},
      {"worth_sharing", worth_sharing, PT_STD},
      {"drawn_some", drawn_some, PT_STD},
      {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "p10_same_bits", cases, PT_LEN(cases));
}
