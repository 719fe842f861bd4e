/* P7: NaN in everything unused never reaches a result (every test of this directory fills unused
 * inputs, outputs, stale slots and fresh workspace with NaN); a NaN in a used input spreads exactly
 * as docs/NUMERICS.md says. SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit.h"

enum { T = 6, SEQ = 3 };
typedef enum where { IN_V, IN_STATE, IN_K, IN_G, IN_BETA, IN_Q } where;

typedef struct ran {
  float *out[SEQ], *S[SEQ];
} ran;

static ran run(const data *d, bool decode) {
  ran r;
  rd_context *cx = cx_get(0, 2, EX_POOL);
  call *c = call_all(d, NULL);
  pool *pl = pool_make(&d->p, SEQ, 0);
  for (int i = 0; i < SEQ; i++) pool_put(pl, i, d->s[i].S0);
  rd_slots at = pool_view(pl, SEQ, NULL);
  if (decode)
    do_decode(cx, c, &at, NULL, NULL);
  else
    do_prefill(cx, c, &at, &at);
  for (int i = 0; i < SEQ; i++) {
    r.out[i] = fl(d->s[i].len * d->p.Hv * d->p.V);
    r.S[i] = fl(data_state_n(d));
    call_out(c, i, r.out[i]);
    pool_get(pl, i, r.S[i]);
  }
  return r;
}

typedef struct planted {
  where w;
  int64_t s, t, hk, hv, row, ch;
} planted;

static void plant(data *d, const planted *x) {
  const rd_problem *p = &d->p;
  seqdata *s = &d->s[x->s];
  switch (x->w) {
  case IN_V:
    s->v[(x->t * p->Hv + x->hv) * p->V + x->row] = NAN;
    break;
  case IN_STATE:
    s->S0[(x->hv * p->V + x->row) * p->K + x->ch] = NAN;
    break;
  case IN_K:
    s->k[(x->t * p->Hk + x->hk) * p->K + x->ch] = NAN;
    break;
  case IN_Q:
    s->q[(x->t * p->Hk + x->hk) * p->K + x->ch] = NAN;
    break;
  case IN_G:
    s->g[(x->t * p->Hv + x->hv) * d->G + (d->G == 1 ? 0 : x->ch)] = NAN;
    break;
  case IN_BETA:
    s->beta[x->t * p->Hv + x->hv] = NAN;
    break;
  }
}

static bool head_hit(const rd_problem *p, const planted *x, int64_t hv) {
  return x->w == IN_K || x->w == IN_Q ? hk_of(p, hv) == x->hk : hv == x->hv;
}

static bool row_hit(const planted *x, int64_t row) {
  return (x->w != IN_V && x->w != IN_STATE) || row == x->row;
}

static bool out_hit(const rd_problem *p, const planted *x, int64_t s, int64_t t, int64_t hv,
                    int64_t row) {
  bool when = x->w == IN_STATE || (x->w == IN_Q ? t == x->t : t >= x->t);
  return s == x->s && when && head_hit(p, x, hv) && row_hit(x, row);
}

static void expect(const data *d, const planted *x, ran *r) {
  const rd_problem *p = &d->p;
  for (int64_t s = 0; s < SEQ; s++) {
    for (int64_t i = 0; i < d->s[s].len * p->Hv * p->V; i++)
      if (out_hit(p, x, s, i / (p->Hv * p->V), i / p->V % p->Hv, i % p->V)) r->out[s][i] = NAN;
    for (int64_t i = 0; i < data_state_n(d); i++) {
      int64_t hv = i / (p->V * p->K), row = i / p->K % p->V;
      if (s == x->s && x->w != IN_Q && head_hit(p, x, hv) && row_hit(x, row)) r->S[s][i] = NAN;
    }
  }
}

static void spreads(where w, int worlds) {
  static const int64_t len[SEQ] = {T, T - 1, T};
  for (int i = 0; i < worlds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    if (w == IN_G && p.gate == RD_GATE_NONE) p.gate = RD_GATE_SOFTPLUS;
    char s[320];
    pb_describe(&p, s, sizeof s);
    data *d = data_make(&p, SEQ, len);
    bool decode = rng_int(0, 1);
    ran want = run(d, decode);
    planted x = {w,
                 rng_int(0, SEQ - 1),
                 rng_int(0, T - 2),
                 rng_int(0, p.Hk - 1),
                 rng_int(0, p.Hv - 1),
                 rng_int(0, p.V - 1),
                 rng_int(0, p.K - 1)};
    pt_note("%s NaN in input %d of sequence %lld token %lld head %lld", s, (int)w, (long long)x.s,
            (long long)x.t, (long long)x.hv);
    expect(d, &x, &want);
    plant(d, &x);
    ran got = run(d, decode);
    for (int q = 0; q < SEQ; q++) {
      ck_bits("outputs", got.out[q], want.out[q], len[q] * p.Hv * p.V);
      ck_bits("states", got.S[q], want.S[q], data_state_n(d));
    }
    mem_release(mark);
  }
}

static int worlds(void) { return pt_level == PT_QUICK ? 4 : pt_level == PT_STD ? 25 : 300; }
static void nan_in_v(void) { spreads(IN_V, worlds()); }
static void nan_in_state(void) { spreads(IN_STATE, worlds()); }
static void nan_in_k(void) { spreads(IN_K, worlds()); }
static void nan_in_g(void) { spreads(IN_G, worlds()); }
static void nan_in_beta(void) { spreads(IN_BETA, worlds()); }
static void nan_in_q(void) { spreads(IN_Q, worlds()); }

/* A_log and dt_bias belong to their head alone, whatever the sequence. */
static void nan_in_weights(void) {
  static const int64_t len[SEQ] = {T, T - 1, T};
  for (int gate = RD_GATE_LOWER_BOUND; gate <= RD_GATE_SOFTPLUS; gate++)
    for (int which = 0; which < 2; which++) {
      rd_problem p = pb_default();
      p.gate = (rd_gate)gate;
      data *d = data_make(&p, SEQ, len);
      ran want = run(d, false);
      if (which)
        d->A[2] = NAN;
      else
        d->dt[2 * d->G + 5] = NAN;
      ran got = run(d, false);
      for (int s = 0; s < SEQ; s++) {
        planted x = {IN_BETA, s, 0, 0, 2, 0, 0};
        expect(d, &x, &want);
      }
      for (int s = 0; s < SEQ; s++) {
        ck_bits("outputs", got.out[s], want.out[s], len[s] * p.Hv * p.V);
        ck_bits("states", got.S[s], want.S[s], data_state_n(d));
      }
    }
}

/* Infinite and huge inputs: whatever C1 says, in every verb's hands the same. */
static void infinities(void) {
  int64_t n = T;
  for (int i = 0; i < (pt_level ? 60 : 10) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    char s[320];
    pb_describe(&p, s, sizeof s);
    pt_note("%s", s);
    data *d = data_make(&p, 1, &n);
    static const float odd[] = {INFINITY, -INFINITY, 3e38f, -0.0f, 1e-40f, NAN};
    for (int e = 0; e < 3; e++) {
      float x = odd[rng_int(0, PT_LEN(odd) - 1)];
      d->s[0].v[rng_int(0, T * p.Hv * p.V - 1)] = x;
      d->s[0].S0[rng_int(0, data_state_n(d) - 1)] = odd[rng_int(0, PT_LEN(odd) - 1)];
      if (i & 1) d->s[0].k[rng_int(0, T * p.Hk * p.K - 1)] = x;
      if (i & 2 && d->G) d->s[0].g[rng_int(0, T * p.Hv * d->G - 1)] = x;
    }
    data_requantise(d);
    result got = run_prefill_all(cx_get(0, 2, EX_POOL), d, NULL);
    float *S = fl_copy(d->s[0].S0, data_state_n(d)), *out = fl(T * p.Hv * p.V);
    c1_run(d, 0, 0, T, S, out, NULL, NULL, NULL);
    round_all(p.state_dtype, S, data_state_n(d));
    round_all(p.out_dtype, out, T * p.Hv * p.V);
    ck_bits("out", got.out[0], out, T * p.Hv * p.V);
    ck_bits("state", got.S[0], S, data_state_n(d));
    mem_release(mark);
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"nan_in_v", nan_in_v, PT_QUICK},
      {"nan_in_state", nan_in_state, PT_QUICK},
      {"nan_in_k", nan_in_k, PT_QUICK},
      {"nan_in_g", nan_in_g, PT_QUICK},
      {"nan_in_beta", nan_in_beta, PT_QUICK},
      {"nan_in_q", nan_in_q, PT_QUICK},
      {"nan_in_weights", nan_in_weights, PT_QUICK},
      {"infinities", infinities, PT_QUICK},
  };
  return pt_main(argc, argv, "p07_poison", cases, PT_LEN(cases));
}
