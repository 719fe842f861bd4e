/* Two readings of the documents, written apart, agree: this directory's C1 with the specification's
 * bit for bit (scalar functions, dots, operands of a token, whole verbs), and the two double
 * oracles. SPDX-License-Identifier: Apache-2.0 */
#include "kit/world.h"
#include "ref/ref.h"

static float any_float(void) {
  uint32_t u = (uint32_t)rng_u64();
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static void scalar_functions(void) {
  int64_t n = pt_level == PT_FULL ? 20000000 : 300000;
  float *a = fl(3), *b = fl(3);
  for (int64_t i = 0; i < n && !pt_broken(); i++) {
    float x = i % 3 == 0 ? any_float() : (float)rng_uniform(-110, 110);
    a[0] = c1_exp(x), b[0] = rdr_c1_exp(x);
    a[1] = c1_sigmoid(x), b[1] = rdr_c1_sig(x);
    a[2] = c1_softplus(x), b[2] = rdr_c1_softplus(x);
    if (i < 200 || memcmp(a, b, 12)) ck_bits("exp, sigmoid, softplus", a, b, 3);
  }
}

static void sixteen_bit_types(void) {
  for (int t = RD_F16; t <= RD_BF16; t++)
    for (int64_t i = 0; i < 400000 && !pt_broken(); i++) {
      uint16_t h = (uint16_t)i, mine;
      float x = i < 65536 ? rdr_f32_of(h, (rd_dtype)t)
                : i & 1   ? any_float()
                          : (float)(rng_normal() * 1e-5);
      dt_store((rd_dtype)t, &mine, x);
      float back = dt_load((rd_dtype)t, &mine),
            ref = rdr_f32_of(rdr_16_of(x, (rd_dtype)t), (rd_dtype)t);
      if (i < 100 || memcmp(&back, &ref, 4)) ck_bits("rounding to 16 bits", &back, &ref, 1);
      if (i < 65536 && x == x) CK(mine == h, "16-bit value %#x does not survive", (unsigned)h);
    }
}

static void dots(void) {
  float a[512], b[512];
  for (int64_t n = 1; n <= 512; n++) {
    for (int64_t i = 0; i < n; i++) a[i] = (float)rng_normal(), b[i] = (float)rng_normal();
    float x = c1_dot(a, b, n), y = rdr_c1_dot(a, b, n);
    ck_bits("dot", &x, &y, 1);
  }
}

static void floats_of(const double *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
}

static void whole_runs(int64_t worlds) {
  for (int64_t i = 0; i < worlds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    p.state_dtype = p.out_dtype = p.record_dtype = p.decay_dtype = RD_F32;
    char s[320];
    pb_describe(&p, s, sizeof s);
    pt_note("%s", s);
    int64_t len = rng_int(1, 20), no = len * p.Hv * p.V, ns = p.Hv * p.V * p.K,
            nk = len * p.Hk * p.K;
    data *d = data_make(&p, 1, &len);
    call *c = call_all(d, NULL);
    int64_t G = d->G ? d->G : 1, na = len * p.Hv * G;
    pool *pl = pool_make(&p, 1, 0);
    pool_put(pl, 0, d->s[0].S0);
    rd_slots at = pool_view(pl, 1, NULL);
    static const int modes[3] = {RDR_C1, RDR_F64, RDR_F64_C1};
    for (int m = 0; m < 3; m++) {
      rdr_results r = {.out = db(no),
                       .state = db(ns),
                       .u = db(no),
                       .k = db(nk),
                       .decay = db(len * p.Hv * p.K),
                       .C = len};
      CK(rdr_verify(modes[m], &c->p, &c->seq, &c->act, &at, &r) == 0, "out of memory");
      float *o = fl(no), *S = fl(ns), *u = fl(no), *k = fl(nk), *a = fl(na);
      floats_of(r.out, o, no);
      floats_of(r.u, u, no);
      floats_of(r.k, k, nk);
      if (d->G) floats_of(r.decay, a, na);
      rdr_results q = {.out = db(no), .state = db(ns)};
      CK(rdr_decode(modes[m], &c->p, &c->seq, &c->act, &at, &q) == 0, "out of memory");
      floats_of(q.state, S, ns);
      if (m == 0) {
        world *w = world_make(d);
        ck_bits("out", o, w->w[0].out, no);
        ck_bits("state", S, w->w[0].S, ns);
        ck_bits("u", u, w->w[0].u, no);
        ck_bits("k", k, w->w[0].k, nk);
        if (d->G) ck_bits("decay", a, w->w[0].a, na);
      } else {
        double *S1 = db_from(d->s[0].S0, ns), *o1 = db(no), *u1 = db(no), *k1 = db(nk),
               *a1 = db(na);
        orc_run(d, 0, 0, len, m == 1 ? ORC_DOUBLE : ORC_FED, S1, o1, u1, k1, a1);
        /* as floats; eps, lower bound and scale may have been rounded to f32 on one side */
        ck_close("out (double)", o, o1, len, p.Hv, p.V, 3e-7, 1e-7, RD_F32);
        ck_close("state (double)", S, S1, 1, p.Hv, p.V * p.K, 3e-7, 1e-7, RD_F32);
        ck_close("u (double)", u, u1, len, p.Hv, p.V, 3e-7, 1e-7, RD_F32);
        ck_close("k (double)", k, k1, len, p.Hk, p.K, 3e-7, 1e-7, RD_F32);
        if (d->G) ck_close("decay (double)", a, a1, len, p.Hv, d->G, 3e-7, 1e-7, RD_F32);
      }
    }
    mem_release(mark);
  }
}

static void runs_few(void) { whole_runs(30); }
static void runs_some(void) { whole_runs(400); }
static void runs_many(void) { whole_runs(5000); }

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"scalar_functions", scalar_functions, PT_QUICK},
      {"sixteen_bit_types", sixteen_bit_types, PT_QUICK},
      {"dots", dots, PT_QUICK},
      {"runs_few", runs_few, PT_QUICK},
      {"runs_some", runs_some, PT_STD},
      {"runs_many", runs_many, PT_FULL},
  };
  return pt_main(argc, argv, "p00_references", cases, PT_LEN(cases));
}
