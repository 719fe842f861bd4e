/* Problems and their values. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit.h"

rd_problem pb_default(void) {
  rd_problem p;
  rd_problem_init(&p);
  p.Hk = 2;
  p.Hv = 4;
  p.K = 64;
  p.V = 32;
  return p;
}

static const char *dt_name(rd_dtype t) {
  return t == RD_F32 ? "f32" : t == RD_F16 ? "f16" : t == RD_BF16 ? "bf16" : "?";
}

void pb_describe(const rd_problem *p, char *buf, size_t n) {
  static const char *gates[] = {"?", "none", "log", "lower_bound", "softplus", "decay"};
  snprintf(buf, n,
           "Hk=%lld Hv=%lld K=%lld V=%lld %s gate=%s/%s beta=%s*%d %s %s state=%s/%s qkv=%s g=%s "
           "b=%s out=%s "
           "rec=%s/%s scale=%g%s",
           (long long)p->Hk, (long long)p->Hv, (long long)p->K, (long long)p->V,
           p->layout == RD_PADDED ? "padded" : "packed", gates[p->gate],
           p->gate_axis == RD_PER_HEAD ? "head" : "channel",
           p->beta == RD_BETA_LOGIT ? "logit" : "value", (int)p->beta_times,
           p->qk_norm == RD_QK_L2 ? "l2" : "asis",
           p->head_map == RD_HEADS_TILED ? "tiled" : "grouped",
           p->state_layout == RD_STATE_VK ? "VK" : "KV", dt_name(p->state_dtype),
           dt_name(p->qkv_dtype), dt_name(p->gate_dtype), dt_name(p->beta_dtype),
           dt_name(p->out_dtype), dt_name(p->record_dtype), dt_name(p->decay_dtype), p->scale,
           p->has_scale ? "" : " (default)");
}

static int32_t any_float(void) {
  static const rd_dtype t[] = {RD_F32, RD_F16, RD_BF16};
  return t[rng_int(0, 2)];
}

rd_problem pb_random(void) {
  static const int64_t sizes[] = {1,  2,  3,  5,  8,  15, 16, 17,  24,
                                  31, 32, 33, 48, 64, 80, 96, 100, 128};
  rd_problem p = pb_default();
  p.layout = rng_int(0, 1) ? RD_PADDED : RD_PACKED;
  p.gate = (rd_gate)rng_int(RD_GATE_NONE, RD_GATE_DECAY);
  p.gate_axis = rng_int(0, 1) ? RD_PER_HEAD : RD_PER_CHANNEL;
  p.lower_bound = rng_int(0, 3) ? -5 : rng_uniform(-5, 0);
  p.beta = rng_int(0, 1) ? RD_BETA_VALUE : RD_BETA_LOGIT;
  p.beta_times = (int32_t)rng_int(1, 2);
  p.qk_norm = rng_int(0, 1) ? RD_QK_AS_IS : RD_QK_L2;
  p.has_scale = 1 - (int32_t)rng_int(0, 1);
  p.scale = rng_uniform(-2, 2);
  p.head_map = rng_int(0, 1) ? RD_HEADS_GROUPED : RD_HEADS_TILED;
  p.Hk = rng_int(1, 3);
  p.Hv = p.Hk * rng_int(1, 3);
  p.K = sizes[rng_int(0, PT_LEN(sizes) - 1)];
  p.V = sizes[rng_int(0, PT_LEN(sizes) - 1)];
  p.qkv_dtype = any_float();
  p.gate_dtype = any_float();
  p.beta_dtype = any_float();
  p.out_dtype = any_float();
  p.state_layout = rng_int(0, 1) ? RD_STATE_VK : RD_STATE_KV;
  p.state_dtype = rng_int(0, 2) ? RD_F32 : any_float();
  p.record_dtype = rng_int(0, 2) ? RD_F32 : RD_F16;
  p.decay_dtype = rng_int(0, 2) ? RD_F32 : RD_F16;
  p.pad_slot = rng_int(0, 1) ? -1 : 100000;
  return p;
}

int64_t data_gate_numbers(const rd_problem *p) {
  return p->gate == RD_GATE_NONE ? 0 : p->gate_axis == RD_PER_HEAD ? 1 : p->K;
}

int64_t hk_of(const rd_problem *p, int64_t hv) {
  return p->head_map == RD_HEADS_GROUPED ? hv / (p->Hv / p->Hk) : hv % p->Hk;
}

int64_t data_state_n(const data *d) { return d->p.Hv * d->p.V * d->p.K; }

static void unit_rows(float *x, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (double)x[r * n + i] * (double)x[r * n + i];
    for (int64_t i = 0; i < n; i++) x[r * n + i] = (float)((double)x[r * n + i] / sqrt(s));
  }
}

static double draw_gate(const rd_problem *p) {
  switch (p->gate) {
  case RD_GATE_LOG:
    return -(rng_uniform(0, 1) + 0.01);
  case RD_GATE_DECAY:
    return rng_uniform(0.3, 1);
  default:
    return rng_normal();
  }
}

static float *draw(int64_t n, double sd) {
  float *x = fl(n);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(sd * rng_normal());
  return x;
}

static seqdata draw_sequence(const data *d, int64_t len) {
  const rd_problem *p = &d->p;
  seqdata s = {.len = len};
  s.q = draw(len * p->Hk * p->K, 1);
  s.k = draw(len * p->Hk * p->K, 1);
  if (p->qk_norm == RD_QK_AS_IS) {
    unit_rows(s.q, len * p->Hk, p->K);
    unit_rows(s.k, len * p->Hk, p->K);
  }
  s.v = draw(len * p->Hv * p->V, 1);
  int64_t ng = len * p->Hv * d->G;
  s.g = d->G ? fl(ng) : NULL;
  for (int64_t i = 0; i < ng; i++) s.g[i] = (float)draw_gate(p);
  s.beta = fl(len * p->Hv);
  for (int64_t i = 0; i < len * p->Hv; i++)
    s.beta[i] = (float)(p->beta == RD_BETA_VALUE ? rng_uniform(0.15, 1) : fmax(-1.7, rng_normal()));
  s.S0 = draw(data_state_n(d), 0.3);
  return s;
}

void data_requantise(data *d) {
  const rd_problem *p = &d->p;
  for (int64_t i = 0; i < d->n; i++) {
    seqdata *s = &d->s[i];
    round_all(p->qkv_dtype, s->q, s->len * p->Hk * p->K);
    round_all(p->qkv_dtype, s->k, s->len * p->Hk * p->K);
    round_all(p->qkv_dtype, s->v, s->len * p->Hv * p->V);
    if (s->g) round_all(p->gate_dtype, s->g, s->len * p->Hv * d->G);
    round_all(p->beta_dtype, s->beta, s->len * p->Hv);
    round_all(p->state_dtype, s->S0, data_state_n(d));
  }
}

data *data_make(const rd_problem *p, int64_t n, const int64_t *len) {
  data *d = mem_heap(sizeof *d);
  d->p = *p;
  d->n = n;
  d->G = data_gate_numbers(p);
  d->A = draw(p->Hv, 0.5);
  d->dt = draw(p->Hv * (d->G ? d->G : 1), 0.5);
  d->s = mem_heap(Z(n) * sizeof *d->s);
  for (int64_t i = 0; i < n; i++) d->s[i] = draw_sequence(d, len[i]);
  data_requantise(d);
  return d;
}

/* Subnormal, or a few places around a power of two where a product with its like meets 2^-126. */
static float vanishing(void) {
  static const int exponents[] = {-63, -63, -63, -126, -126, -125, -127, -103, -64};
  double x =
      ldexp(1 + (double)rng_int(-3, 3) * 0x1p-23, exponents[rng_int(0, PT_LEN(exponents) - 1)]);
  if (rng_int(0, 4) == 0) x = ldexp(rng_uniform(1, 2), (int)rng_int(-149, -100));
  return (float)(rng_int(0, 1) ? x : -x);
}

static void sink(float *x, int64_t n) { /* nearly all of them */
  for (int64_t i = 0; i < n; i++)
    if (rng_int(0, 15)) x[i] = vanishing();
}

void data_vanishing(data *d) {
  static const double gates[] = {0,   -1,  -20, -45,  -60,  -80,  -86,   -87.3,
                                 -88, -95, -98, -103, -104, -110, -2661, -INFINITY};
  const rd_problem *p = &d->p;
  for (int64_t i = 0; i < d->n; i++) {
    seqdata *s = &d->s[i];
    for (int64_t t = 0; t < s->len; t++) {
      if (rng_int(0, 2)) sink(s->v + t * p->Hv * p->V, p->Hv * p->V);
      if (rng_int(0, 2) == 0) sink(s->k + t * p->Hk * p->K, p->Hk * p->K);
      if (rng_int(0, 2) == 0) sink(s->q + t * p->Hk * p->K, p->Hk * p->K);
    }
    for (int64_t j = 0; s->g && j < s->len * p->Hv * d->G; j++) {
      double g = gates[rng_int(0, PT_LEN(gates) - 1)];
      if (p->gate == RD_GATE_DECAY) g = rng_int(0, 3) ? exp(g) : (double)vanishing();
      if (rng_int(0, 1)) s->g[j] = (float)g;
    }
    for (int64_t j = 0; j < s->len * p->Hv; j++)
      if (p->beta == RD_BETA_VALUE && rng_int(0, 7) == 0) s->beta[j] = fabsf(vanishing());
    sink(s->S0, data_state_n(d));
  }
  data_requantise(d);
}
