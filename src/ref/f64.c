/* The double oracle: the equations as they are written (forget, error, update, output), on the
 * transposed state, every quantity in double. */
#include <math.h>
#include "ref/ref.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* exp(A_log) is infinite from 710 on, and infinity times softplus = 0 is not a number. */
static double decay(const rdr_choices *c, double g, double dt, double A_log) {
  const double eA = exp(A_log > 700 ? 700 : A_log);
  switch (c->gate) {
  case RD_GATE_LOWER_BOUND:
    return exp(c->lower_bound * sigmoid(eA * (g + dt)));
  case RD_GATE_SOFTPLUS:
    return exp(-eA * softplus(g + dt));
  case RD_GATE_LOG:
    return exp(g);
  case RD_GATE_DECAY:
    return g;
  case RD_GATE_NONE:
    break;
  }
  return 1;
}

static double norm(const rdr_choices *c, int64_t K, const float *x) {
  double sum = 0;
  for (int64_t i = 0; i < K; i++) sum += (double)x[i] * (double)x[i];
  return c->l2norm ? 1 / sqrt(sum + c->eps) : 1;
}

void rdr_f64_operands(const rdr_choices *c, int64_t K, const float *q, const float *k,
                      const float *g, const float *dt, double A_log, double beta, double *k_out,
                      double *a_out, double *q_out, double *beta_out) {
  const double nk = norm(c, K, k), nq = norm(c, K, q) * c->scale;
  const int raw = c->gate == RD_GATE_LOWER_BOUND || c->gate == RD_GATE_SOFTPLUS;
  for (int64_t i = 0; i < K; i++) {
    const int64_t x = c->axis == RD_PER_CHANNEL ? i : 0;
    k_out[i] = (double)k[i] * nk;
    q_out[i] = (double)q[i] * nq;
    if (c->gate == RD_GATE_NONE)
      a_out[i] = 1;
    else
      a_out[i] =
          x == 0 && i > 0 ? a_out[0] : decay(c, (double)g[x], raw ? (double)dt[x] : 0, A_log);
  }
  *beta_out = (c->beta == RD_BETA_LOGIT ? sigmoid(beta) : beta) * c->beta_times;
}

void rdr_f64_step(double *St, int64_t K, int64_t V, const double *k, const double *a,
                  const double *q, double beta, const float *v, double *u, double *o) {
  for (int64_t r = 0; r < V; r++) u[r] = 0;
  for (int64_t c = 0; c < K; c++) {
    double *col = St + c * V;
    for (int64_t r = 0; r < V; r++) col[r] *= a[c];
    for (int64_t r = 0; r < V; r++) u[r] += col[r] * k[c];
  }
  for (int64_t r = 0; r < V; r++) u[r] = beta * ((double)v[r] - u[r]);
  for (int64_t r = 0; r < V; r++) o[r] = 0;
  for (int64_t c = 0; c < K; c++) {
    double *col = St + c * V;
    for (int64_t r = 0; r < V; r++) col[r] += u[r] * k[c];
    for (int64_t r = 0; r < V; r++) o[r] += col[r] * q[c];
  }
}

void rdr_f64_commit(double *St, int64_t K, int64_t V, const double *u, const double *k,
                    const double *a) {
  for (int64_t c = 0; c < K; c++)
    for (int64_t r = 0; r < V; r++) St[c * V + r] = St[c * V + r] * a[c] + u[r] * k[c];
}
