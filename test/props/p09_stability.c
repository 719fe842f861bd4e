/* P9: hard but legal numbers: correlated keys, gates from -1e-8 to -inf, saturated gates and betas,
 * denormals. Bits of C1, finite, and C1 within the bounds that docs/NUMERICS.md gives for this set.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/world.h"

static void all_finite(const char *what, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(x[i])) {
      pt_fail("%s: not finite at %lld", what, (long long)i);
      return;
    }
}

static void bounds(const world *w, bool double_too) {
  const data *d = w->d;
  const rd_problem *p = &d->p;
  for (int64_t i = 0; i < d->n; i++) {
    int64_t T = d->s[i].len, n = T * p->Hv * p->V, ns = data_state_n(d);
    all_finite("out", w->w[i].out, n);
    all_finite("state", w->w[i].S, ns);
    for (int mode = 0; mode < (double_too ? 2 : 1); mode++) {
      double *S = db_from(d->s[i].S0, ns), *out = db(n), z = world_abs(d, T);
      double b = 6e-6 * sqrt(fmax(1, (double)T / 256)) + (mode ? 6e-8 * (double)T : 0);
      orc_run(d, i, 0, T, mode ? ORC_DOUBLE : ORC_FED, S, out, NULL, NULL, NULL);
      ck_close(mode ? "out against all-double" : "out against double fed C1's operands",
               w->w[i].out, out, T, p->Hv, p->V, b, z, RD_F32);
      ck_close(mode ? "state against all-double" : "state against double fed C1's operands",
               w->w[i].S, S, 1, p->Hv, p->V * p->K, b, z, RD_F32);
    }
  }
}

static void check(const data *d, bool double_too) {
  world *w = world_make(d);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  bounds(w, double_too);
  world_prefill(w, cx, NULL);
  world_decode(w, cx, NULL);
  world_speculate(w, cx, NULL);
}

static rd_problem small(rd_gate g, rd_gate_axis axis) {
  rd_problem p = pb_default();
  p.Hk = 1;
  p.Hv = 2;
  p.K = 48;
  p.V = 16;
  p.gate = g;
  p.gate_axis = axis;
  return p;
}

/* Keys with cosine c to one direction: k = c e + sqrt(1-c^2) noise, unit. */
static void correlate(data *d, double c) {
  const rd_problem *p = &d->p;
  for (int64_t s = 0; s < d->n; s++) {
    float *e = d->s[s].k; /* the first token's key */
    for (int64_t t = 1; t < d->s[s].len; t++)
      for (int64_t h = 0; h < p->Hk; h++) {
        float *k = d->s[s].k + (t * p->Hk + h) * p->K, *e0 = e + h * p->K;
        double n = 0;
        for (int64_t i = 0; i < p->K; i++) {
          k[i] = (float)(c * (double)e0[i] + sqrt(1 - c * c) * (double)k[i]);
          n += (double)k[i] * (double)k[i];
        }
        for (int64_t i = 0; i < p->K; i++) k[i] = (float)((double)k[i] / sqrt(n));
      }
  }
}

static void set(float *x, int64_t n, double v) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)v;
}

static void correlated(const int64_t *T, size_t nT) {
  static const double cosine[] = {0.95, 0.99, 0.9999, 1}, gate[] = {0, -1e-8, -1e-3};
  for (size_t t = 0; t < nT; t++)
    for (size_t c = 0; c < PT_LEN(cosine); c++)
      for (size_t g = 0; g < PT_LEN(gate) && !pt_broken(); g++) {
        size_t mark = mem_mark();
        pt_note("T=%lld cosine=%g gate=%g", (long long)T[t], cosine[c], gate[g]);
        rd_problem p = small(RD_GATE_LOG, g & 1 ? RD_PER_HEAD : RD_PER_CHANNEL);
        data *d = data_make(&p, 1, &T[t]);
        correlate(d, cosine[c]);
        set(d->s[0].g, T[t] * p.Hv * d->G, gate[g]);
        for (int64_t i = 0; i < T[t] * p.Hv; i++) d->s[0].beta[i] = (float)rng_uniform(0.83, 1);
        check(d, true);
        mem_release(mark);
      }
}

static void correlated_short(void) { correlated((int64_t[]){16, 65}, 2); }
static void correlated_long(void) { correlated((int64_t[]){256, 2048}, 2); }
static void correlated_8192(void) {
  int64_t T = 8192;
  rd_problem p = small(RD_GATE_LOG, RD_PER_CHANNEL);
  data *d = data_make(&p, 1, &T);
  correlate(d, 0.97);
  set(d->s[0].g, T * p.Hv * d->G, -1e-8);
  for (int64_t i = 0; i < T * p.Hv; i++) d->s[0].beta[i] = (float)rng_uniform(0.83, 1);
  check(d, true);
}
static void correlated_full(void) { correlated((int64_t[]){1024, 4096, 8192}, 3); }

static void strong_gates(void) {
  static const double gate[] = {-1e-8, -5,   -20,   -80,  -100,      -103.9, -104,
                                -105,  -110, -2661, -1e4, -INFINITY, 0.5};
  for (size_t i = 0; i < PT_LEN(gate); i++)
    for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++) {
      pt_note("log gate %g axis %d", gate[i], axis);
      rd_problem p = small(RD_GATE_LOG, (rd_gate_axis)axis);
      int64_t len[2] = {33, 7};
      data *d = data_make(&p, 2, len);
      for (int s = 0; s < 2; s++)
        for (int64_t x = 0; x < len[s] * p.Hv * d->G; x++)
          if (s == 0 || x % 3 == 0) d->s[s].g[x] = (float)gate[i];
      check(d, true);
    }
}

static void alternating_channels(void) {
  rd_problem p = small(RD_GATE_LOG, RD_PER_CHANNEL);
  int64_t T = 600;
  data *d = data_make(&p, 1, &T);
  for (int64_t x = 0; x < T * p.Hv * p.K; x++) d->s[0].g[x] = x & 1 ? -5 : 0;
  check(d, true);
  for (int64_t x = 0; x < T * p.Hv * p.K; x++) d->s[0].g[x] = (x / p.K & 1) == (x & 1) ? -5 : 0;
  check(d, true);
}

static void tiny_decay(void) {
  for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++) {
    rd_problem p = small(RD_GATE_DECAY, (rd_gate_axis)axis);
    int64_t T = 40;
    data *d = data_make(&p, 1, &T);
    set(d->s[0].g, T * p.Hv * d->G, 1e-12);
    check(d, true);
    set(d->s[0].g, T * p.Hv * d->G, 0);
    check(d, true);
    set(d->s[0].g, T * p.Hv * d->G, 1);
    check(d, true);
  }
}

static void saturated_logits(void) {
  static const double x[] = {15, -15, 100, -100, 88.5, -88.5, 104, -104, 0};
  for (size_t i = 0; i < PT_LEN(x); i++)
    for (int32_t times = 1; times <= 2; times++) {
      pt_note("beta logit %g times %d", x[i], (int)times);
      rd_problem p = small(RD_GATE_LOG, RD_PER_CHANNEL);
      p.beta = RD_BETA_LOGIT;
      p.beta_times = times;
      int64_t T = 50;
      data *d = data_make(&p, 1, &T);
      set(d->s[0].beta, T * p.Hv, x[i]);
      check(d, true);
    }
}

static void betas_zero_and_one(void) {
  for (int b = 0; b < 2; b++) {
    rd_problem p = small(RD_GATE_NONE, RD_PER_HEAD);
    int64_t T = 100;
    data *d = data_make(&p, 1, &T);
    set(d->s[0].beta, T * p.Hv, b);
    check(d, true);
  }
}

/* Raw gates at and beyond every clamp. The document promises C1's f32 of the gate itself, so the
 * recurrence is compared with C1's operands, and the operands with double one by one. */
static void raw_gates(void) {
  static const double A[] = {-100, -3, 0, 3, 20, 60, 87.9, 88, 88.1, 100};
  static const double x[] = {-200, -104, -90, -20, -1, 0, 1, 19.9, 20, 20.1, 88, 89, 1000};
  for (int gate = RD_GATE_LOWER_BOUND; gate <= RD_GATE_SOFTPLUS; gate++)
    for (size_t i = 0; i < PT_LEN(A) && !pt_broken(); i++) {
      pt_note("gate %d A_log %g", gate, A[i]);
      size_t mark = mem_mark();
      rd_problem p = small((rd_gate)gate, RD_PER_CHANNEL);
      int64_t T = 20;
      data *d = data_make(&p, 1, &T);
      set(d->A, p.Hv, A[i]);
      set(d->dt, p.Hv * p.K, 0);
      for (int64_t j = 0; j < T * p.Hv * p.K; j++)
        d->s[0].g[j] = (float)x[rng_int(0, PT_LEN(x) - 1)];
      check(d, false);
      double *S = db_from(d->s[0].S0, data_state_n(d)), *a = db(T * p.Hv * p.K);
      orc_run(d, 0, 0, T, ORC_DOUBLE, S, NULL, NULL, NULL, a);
      float *c1 = fl(T * p.Hv * p.K), *F = fl_copy(d->s[0].S0, data_state_n(d));
      c1_run(d, 0, 0, T, F, NULL, NULL, NULL, c1);
      for (int64_t j = 0; j < T * p.Hv * p.K; j++) {
        double z = log(a[j]), g = (double)d->s[0].g[j];
        double tol = 4e-7 * (1 + fabs(z < -110 ? -110 : z)) * a[j] + 0x1p-126;
        if (!(fabs((double)c1[j] - a[j]) <= tol))
          pt_fail("decay of raw %g: got %.9g, want %.9g", g, (double)c1[j], a[j]);
        if (A[i] >= 0 && g <= -200 && c1[j] != 1.0f)
          pt_fail("raw -200 leaves decay %.9g", (double)c1[j]);
      }
      mem_release(mark);
    }
}

/* SOFTPLUS where exp(A_log) leaves f32 while the decay does not: the product of the two is of the size
 * of one wherever A_log + x is about 0. */
static void steep_softplus(void) {
  rd_problem p = small(RD_GATE_SOFTPLUS, RD_PER_CHANNEL);
  int64_t T = 1;
  data *d = data_make(&p, 1, &T);
  float *c1 = fl(p.Hv * p.K), *F = fl(data_state_n(d));
  double *S = db(data_state_n(d)), *a = db(p.Hv * p.K);
  set(d->dt, p.Hv * p.K, 0);
  int64_t middle = 0;
  for (int A = 80; A <= 100; A++) {
    pt_note("A_log %d", A);
    set(d->A, p.Hv, A);
    for (int64_t j = 0; j < p.Hv * p.K; j++)
      d->s[0].g[j] = (float)(j < p.K ? rng_uniform(-A - 20, -A + 8) : rng_uniform(-18, -16));
    check(d, false);
    orc_run(d, 0, 0, T, ORC_DOUBLE, S, NULL, NULL, NULL, a);
    c1_run(d, 0, 0, T, F, NULL, NULL, NULL, c1);
    for (int64_t j = 0; j < p.Hv * p.K; j++) {
      double z = a[j] > 0 ? log(a[j]) : -110;
      middle += a[j] > 0.1 && a[j] < 0.9;
      if (!(fabs((double)c1[j] - a[j]) <= 2e-6 * (1 + fabs(z)) * a[j] + 0x1p-126))
        pt_fail("decay of raw %.9g: got %.9g, want %.9g", (double)d->s[0].g[j], (double)c1[j],
                a[j]);
    }
  }
  CK(middle > 100, "only %lld decays that are neither 0 nor 1", (long long)middle);
}

static void key_norms(void) {
  static const double norm2[] = {0, 1e-30, 1e-12, 1e-6, 1e-3, 1, 100, 1e4};
  for (size_t i = 0; i < PT_LEN(norm2); i++) {
    pt_note("|k|^2 = %g", norm2[i]);
    rd_problem p = small(RD_GATE_LOG, RD_PER_CHANNEL);
    int64_t T = 64;
    data *d = data_make(&p, 1, &T); /* unit rows */
    d->p.qk_norm = RD_QK_L2;
    for (int64_t j = 0; j < T * p.Hk * p.K; j++) {
      d->s[0].k[j] = (float)((double)d->s[0].k[j] * sqrt(norm2[i]));
      d->s[0].q[j] = (float)((double)d->s[0].q[j] * sqrt(norm2[i]));
    }
    check(d, true);
  }
}

static void denormal_state(void) {
  static const double size[] = {1e-40, 1e-44, 1e-38, 3e-39};
  for (size_t i = 0; i < PT_LEN(size); i++)
    for (int gate = RD_GATE_NONE; gate <= RD_GATE_LOG; gate++) {
      pt_note("state %g gate %d", size[i], gate);
      rd_problem p = small((rd_gate)gate, RD_PER_CHANNEL);
      int64_t T = 20;
      data *d = data_make(&p, 1, &T);
      for (int64_t j = 0; j < data_state_n(d); j++) d->s[0].S0[j] = (float)(rng_normal() * size[i]);
      for (int64_t j = 0; j < T * p.Hv * p.V; j++) d->s[0].v[j] = (float)(rng_normal() * size[i]);
      check(d, true);
    }
}

/* What flushing takes stays within the absolute bound: inputs around 2^-126, without the special gates
 * of infinite length. */
static void vanishing_inputs(void) {
  for (int i = 0; i < 40 && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    p.state_dtype = p.record_dtype = p.decay_dtype = p.out_dtype = RD_F32;
    int64_t len[2] = {rng_int(1, 30), rng_int(1, 9)};
    data *d = data_make(&p, 2, len);
    data_vanishing(d);
    char s[320];
    pb_describe(&p, s, sizeof s);
    pt_note("%s", s);
    world_all(d, cx_get(0, 1, EX_POOL), NULL, true);
    mem_release(mark);
  }
}

/* The scalar functions themselves against double, densely. */
static void functions(void) {
  CK(c1_exp(0) == 1.0f, "exp_c(0) = %.9g", (double)c1_exp(0));
  CK(c1_exp(-INFINITY) == 0.0f && !signbit(c1_exp(-INFINITY)), "exp_c(-inf) is not +0");
  CK(isnan(c1_exp(NAN)) && isnan(c1_sigmoid(NAN)) && isnan(c1_softplus(NAN)), "NaN is lost");
  int64_t n = 4000;
  float *got = fl(n);
  double *want = db(n);
  for (int f = 0; f < 3; f++) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
      float x = (float)rng_uniform(f == 0 ? -87 : -80, 80);
      double y = (double)x;
      got[i] = f == 0 ? c1_exp(x) : f == 1 ? c1_sigmoid(x) : c1_softplus(x);
      want[i] = f == 0   ? exp(y)
                : f == 1 ? 1 / (1 + exp(-y))
                         : (y > 0 ? y + log1p(exp(-y)) : log1p(exp(y)));
      worst = fmax(worst, fabs((double)got[i] - want[i]) / want[i]);
    }
    CK(worst < 3e-7, "function %d: relative error %.3g", f, worst);
    for (int64_t i = 0; i < n; i++) got[i] /= (float)want[i], want[i] = 1;
    ck_near("function / double", got, want, n, 4e-7);
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"functions", functions, PT_QUICK},
      {"correlated_short", correlated_short, PT_QUICK},
      {"strong_gates", strong_gates, PT_QUICK},
      {"alternating_channels", alternating_channels, PT_QUICK},
      {"tiny_decay", tiny_decay, PT_QUICK},
      {"saturated_logits", saturated_logits, PT_QUICK},
      {"betas_zero_and_one", betas_zero_and_one, PT_QUICK},
      {"raw_gates", raw_gates, PT_QUICK},
      {"steep_softplus", steep_softplus, PT_QUICK},
      {"key_norms", key_norms, PT_QUICK},
      {"denormal_state", denormal_state, PT_QUICK},
      {"vanishing_inputs", vanishing_inputs, PT_QUICK},
      {"correlated_long", correlated_long, PT_STD},
      {"correlated_8192", correlated_8192, PT_STD},
      {"correlated_full", correlated_full, PT_FULL},
  };
  return pt_main(argc, argv, "p09_stability", cases, PT_LEN(cases));
}
