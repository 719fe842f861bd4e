/* The recurrence in double, from the equations of the operators' document alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   S <- S diag(a);  u = beta (v - S k);  S <- S + u k';  o = scale S q
 *
 * ORC_DOUBLE evaluates gates, sigmoid and normalisation in double from the stored inputs. ORC_FED
 * takes C1's own f32 a, k, q and beta instead: what remains is the error of the recurrence. */
#include "kit.h"

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static double decay_of(const data *d, int64_t hv, double g, double dt) {
  double A = exp((double)d->A[hv]);
  switch (d->p.gate) {
  case RD_GATE_LOWER_BOUND:
    return exp(d->p.lower_bound * sigmoid(A * (g + dt)));
  case RD_GATE_SOFTPLUS:
    return exp(-A * softplus(g + dt));
  case RD_GATE_LOG:
    return exp(g);
  case RD_GATE_DECAY:
    return g;
  default:
    return 1;
  }
}

typedef struct operands {
  double beta, k[512], q[512], a[512];
} operands;

static void normalise(double *x, int64_t n, double eps) {
  double s = 0;
  for (int64_t c = n - 1; c >= 0; c--) s += x[c] * x[c];
  for (int64_t c = 0; c < n; c++) x[c] /= sqrt(s + eps);
}

static void in_double(const data *d, int64_t s, int64_t t, int64_t hv, operands *o) {
  const rd_problem *p = &d->p;
  const seqdata *q = &d->s[s];
  int64_t K = p->K, at = (t * p->Hk + hk_of(p, hv)) * K, G = d->G;
  for (int64_t c = 0; c < K; c++) {
    o->k[c] = (double)q->k[at + c];
    o->q[c] = (double)q->q[at + c];
    int64_t i = G == K ? c : 0;
    o->a[c] =
        G ? decay_of(d, hv, (double)q->g[(t * p->Hv + hv) * G + i], (double)d->dt[hv * G + i]) : 1;
  }
  if (p->qk_norm == RD_QK_L2) {
    normalise(o->k, K, p->l2_eps);
    normalise(o->q, K, p->l2_eps);
  }
  double scale = p->has_scale ? p->scale : 1 / sqrt((double)K);
  for (int64_t c = 0; c < K; c++) o->q[c] *= scale;
  o->beta = (double)q->beta[t * p->Hv + hv];
  if (p->beta == RD_BETA_LOGIT) o->beta = sigmoid(o->beta);
  o->beta *= p->beta_times;
}

static void fed(const data *d, int64_t s, int64_t t, int64_t hv, operands *o, prep *f) {
  c1_prep(d, s, t, hv, f);
  o->beta = (double)f->beta;
  for (int64_t c = 0; c < d->p.K; c++) {
    o->k[c] = (double)f->k[c];
    o->q[c] = (double)f->q[c];
    o->a[c] = (double)f->a[c];
  }
}

static void head(const operands *o, int64_t K, int64_t V, const float *v, double *S, double *out,
                 double *u) {
  for (int64_t r = 0; r < V; r++) {
    double *s = S + r * K, sk = 0, sq = 0;
    for (int64_t c = 0; c < K; c++) {
      s[c] *= o->a[c];
      sk += s[c] * o->k[c];
    }
    double ur = o->beta * ((double)v[r] - sk);
    for (int64_t c = 0; c < K; c++) {
      s[c] += ur * o->k[c];
      sq += s[c] * o->q[c];
    }
    if (out) out[r] = sq;
    if (u) u[r] = ur;
  }
}

/* Heads outside, tokens inside: another order than the float specification's. */
void orc_run(const data *d, int64_t s, int64_t t0, int64_t len, orc_mode mode, double *S,
             double *out, double *u, double *k, double *a) {
  const rd_problem *p = &d->p;
  int64_t Hv = p->Hv, K = p->K, V = p->V, G = d->G;
  operands *o = calloc(1, sizeof *o);
  prep *f = calloc(1, sizeof *f);
  if (!o || !f) abort();
  for (int64_t h = 0; h < Hv; h++)
    for (int64_t t = 0; t < len; t++) {
      if (mode == ORC_DOUBLE)
        in_double(d, s, t0 + t, h, o);
      else
        fed(d, s, t0 + t, h, o, f);
      int64_t at = (t * Hv + h) * V;
      head(o, K, V, d->s[s].v + ((t0 + t) * Hv + h) * V, S + h * V * K, out ? out + at : NULL,
           u ? u + at : NULL);
      if (k) memcpy(k + (t * p->Hk + hk_of(p, h)) * K, o->k, Z(K) * sizeof(double));
      if (a && G) memcpy(a + (t * Hv + h) * G, o->a, Z(G) * sizeof(double));
    }
  free(o);
  free(f);
}

void orc_commit(const data *d, int64_t m, const double *u, const double *k, const double *a,
                double *S) {
  const rd_problem *p = &d->p;
  int64_t Hv = p->Hv, K = p->K, V = p->V, G = d->G;
  for (int64_t h = 0; h < Hv; h++)
    for (int64_t t = 0; t < m; t++)
      for (int64_t r = 0; r < V; r++)
        for (int64_t c = 0; c < K; c++) {
          double dec = G == 0 ? 1 : a[(t * Hv + h) * G + (G == K ? c : 0)];
          double *s = &S[(h * V + r) * K + c];
          *s = *s * dec + u[(t * Hv + h) * V + r] * k[(t * p->Hk + hk_of(p, h)) * K + c];
        }
}
