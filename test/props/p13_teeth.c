/* P13: the tests bite. One flipped record, decay, accepted count or weight is seen; each of the
 * toolkit's own detectors catches its planted defect. (Every comparison of the other families is
 * also run on a flipped expectation: --teeth.) SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit.h"

enum { T = 5 };

typedef struct fixture {
  rd_context *cx;
  data *d;
  pool *pl;
  rd_slots at;
  call *c;
  recs *r;
  float *want; /* the state after T tokens */
} fixture;

static fixture setup(void) {
  rd_problem p = pb_default();
  int64_t len = T;
  fixture f = {.cx = cx_get(0, 2, EX_POOL), .d = data_make(&p, 1, &len)};
  f.pl = pool_make(&p, 1, 0);
  pool_put(f.pl, 0, f.d->s[0].S0);
  f.at = pool_view(f.pl, 1, NULL);
  f.c = call_all(f.d, NULL);
  f.r = recs_make(&p, 1, T);
  do_verify(f.cx, f.c, &f.at, f.r);
  f.want = fl_copy(f.d->s[0].S0, data_state_n(f.d));
  c1_run(f.d, 0, 0, T, f.want, NULL, NULL, NULL, NULL);
  return f;
}

static bool same_after_commit(fixture *f, int32_t m) {
  do_commit(f->cx, &f->c->p, f->r, &m, &f->at);
  float *S = fl(data_state_n(f->d));
  pool_get(f->pl, 0, S);
  pt_capture();
  ck_bits("state", S, f->want, data_state_n(f->d));
  return pt_captured() == 0;
}

static void flip(const tb *t, int64_t token, int64_t h, int64_t i) {
  uint32_t x, *p = tb_at(&t->t, 0, token, h, i);
  memcpy(&x, p, 4);
  x ^= 1u << 10; /* about 1e-4 of the value: what rounding away may not hide */
  memcpy(p, &x, 4);
}

static void flipped_records(void) {
  for (int64_t t = 0; t < T; t++) {
    fixture f = setup();
    CK(same_after_commit(&f, T), "the untouched records do not give the state");
    f = setup();
    flip(&f.r->u, t, rng_int(0, 3), rng_int(0, 31));
    CK(!same_after_commit(&f, T), "a flipped u of token %lld is not seen", (long long)t);
    f = setup();
    flip(&f.r->k, t, rng_int(0, 1), rng_int(0, 63));
    CK(!same_after_commit(&f, T), "a flipped k of token %lld is not seen", (long long)t);
    f = setup();
    flip(&f.r->decay, t, rng_int(0, 3), rng_int(0, 63));
    CK(!same_after_commit(&f, T), "a flipped decay of token %lld is not seen", (long long)t);
    f = setup();
    CK(!same_after_commit(&f, (int32_t)t), "accepting %lld is not seen", (long long)t);
  }
}

static void flipped_weights(void) {
  int64_t len = T;
  rd_problem p = pb_default();
  p.gate = RD_GATE_SOFTPLUS;
  data *d = data_make(&p, 1, &len);
  result want = run_prefill_all(cx_get(0, 2, EX_POOL), d, NULL);
  for (int which = 0; which < 7; which++) {
    data e = *d;
    seqdata s = d->s[0];
    e.s = &s;
    float **x[7] = {&e.A, &e.dt, &s.q, &s.k, &s.v, &s.beta, &s.g}, flipped;
    int64_t n[7] = {p.Hv,           p.Hv * p.K, T * p.Hk * p.K, T * p.Hk * p.K,
                    T * p.Hv * p.V, T * p.Hv,   T * p.Hv * p.K};
    *x[which] = fl_copy(*x[which], n[which]);
    float *at = &(*x[which])[rng_int(0, n[which] - 1)];
    flipped = *at * 1.01f;
    *at = flipped;
    result got = run_prefill_all(cx_get(0, 2, EX_POOL), &e, NULL);
    pt_capture();
    ck_result("prefill", d, got, want);
    CK(pt_captured() > 0, "a changed input %d is not seen", which);
  }
}

/* ------------------------------------------------------------------ the toolkit's detectors -- */
static void detectors(void) {
  fixture f = setup();
  float one = 1, other = nextafterf(1, 2), nan1 = NAN;
  double d1 = 1, d2 = 1 + 1e-5;
  pt_capture();
  ck_bits("x", &one, &other, 1);
  CK(pt_captured() == 1, "an ulp is not seen");
  pt_capture();
  ck_bits("x", &nan1, &one, 1);
  CK(pt_captured() == 1, "NaN for a number is not seen");
  float zero = 0, minus = -0.0f;
  pt_capture();
  ck_bits("x", &zero, &minus, 1);
  CK(pt_captured() == 1, "-0 for +0 is not seen");
  pt_capture();
  ck_close("x", &one, &d2, 1, 1, 1, 2e-6, 0, RD_F32);
  CK(pt_captured() == 1, "an error beyond the bound is not seen");
  pt_capture();
  ck_close("x", &nan1, &d1, 1, 1, 1, 2e-6, 0, RD_F32);
  CK(pt_captured() == 1, "NaN passes the relative comparison");
  pt_capture();
  ck_near("x", &nan1, &d1, 1, 1);
  CK(pt_captured() == 1, "NaN passes the absolute comparison");
  float *S = fl(data_state_n(f.d));
  pool_get(f.pl, 0, S);
  ck_bits("verify leaves the state", S, f.d->s[0].S0, data_state_n(f.d));
}

static void memory_detectors(void) {
  rd_problem p = pb_default();
  int64_t len[2] = {3, 2};
  data *d = data_make(&p, 2, len);
  size_t mark = mem_mark();
  blk *b = mem_guarded(100);
  b->p[-1] = 0;
  pt_capture();
  mem_release(mark);
  CK(pt_captured() == 1, "a write before a tensor is not seen");
  callopt o = {.strides = ST_TOKEN2, .extra_T = 1};
  call *c = call_all(d, &o);
  rd_context *cx = cx_get(0, 1, EX_POOL);
  do_prefill(cx, c, NULL, NULL);
  unsigned char *gap = (unsigned char *)tb_at(&c->out.t, 0, 0, p.Hv - 1, p.V - 1) + sizeof(float);
  *gap = 0;
  pt_capture();
  call_check_rest(c);
  CK(pt_captured() == 1, "a write into a gap is not seen");
  *gap = 0xff;
  tb_set(&c->out.t, 1, 2, 0, 0, -0.0f);
  pt_capture();
  call_check_rest(c);
  CK(pt_captured() == 1, "-0 in a row without a token is not seen");
  recs *r = recs_make(&p, 2, 4);
  r->r.lengths[0] = 3;
  r->r.lengths[1] = 2;
  tb_set(&r->decay.t, 1, 2, 0, 0, 1);
  pt_capture();
  recs_check_suffix(r);
  CK(pt_captured() == 1, "a record past the length is not seen");
  pool *pl = pool_make(&p, 3, 4);
  void *before = blk_copy(pl->t.b);
  tb_set(&pl->t.t, 1, 0, 0, 0, 1);
  pt_capture();
  pool_check_rest("pool", pl, before);
  CK(pt_captured() == 1, "a write to another slot is not seen");
  pool_allow(pl, 1, before);
  pool_check_rest("the allowed slot", pl, before);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"flipped_records", flipped_records, PT_QUICK},
      {"flipped_weights", flipped_weights, PT_QUICK},
      {"detectors", detectors, PT_QUICK},
      {"memory_detectors", memory_detectors, PT_QUICK},
  };
  return pt_main(argc, argv, "p13_teeth", cases, PT_LEN(cases));
}
