/* The float specification: docs/NUMERICS.md, line by line. What these loops return is right by
 * definition; kernels are compared with them bit by bit. Subnormals are flushed by software (C2), so
 * that nothing depends on the caller's modes; the integers of test/kernels/model.h vouch for it. */
#include <math.h>
#include <string.h>
#include "ref/ref.h"
#include "util/c2.h"

static float bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static float add(float a, float b) { return rdi_c2_add(a, b); }
static float sub(float a, float b) { return rdi_c2_sub(a, b); }
static float mul(float a, float b) { return rdi_c2_mul(a, b); }
static float fma1(float a, float b, float c) { return rdi_c2_fma(a, b, c); }
static float over(float a, float b) { return rdi_c2_div(a, b); }

float rdr_c1_exp(float x) {
  static const uint32_t E[6] = {0x39506967, 0x3AB743CE, 0x3C088908,
                                0x3D2AA9C1, 0x3E2AAAAA, 0x3F000000};
  if (isnan(x)) return x;
  if (x > 89) x = 89;
  if (x < -105) x = -105;
  const float n = rintf(mul(x, bits(0x3FB8AA3B)));
  float r = fma1(-n, bits(0x3F317200), x);
  r = fma1(-n, bits(0x35BFBE8E), r);
  float p = bits(E[0]);
  for (int i = 1; i < 6; i++) p = fma1(p, r, bits(E[i]));
  p = fma1(p, mul(r, r), add(r, 1));
  return rdi_c2_in(
      ldexpf(p, (int)n)); /* p has 24 bits: what is tiny is tiny before rounding, too */
}

float rdr_c1_sig(float x) { return over(1, add(1, rdr_c1_exp(-x))); }

float rdr_c1_softplus(float x) {
  static const uint32_t L[6] = {0x3D9D89D9, 0x3DBA2E8C, 0x3DE38E39,
                                0x3E124925, 0x3E4CCCCD, 0x3EAAAAAB};
  const float z = rdr_c1_exp(-fabsf(x));
  const float s = over(z, add(2, z));
  const float w = mul(s, s);
  float p = bits(L[0]);
  for (int i = 1; i < 6; i++) p = fma1(p, w, bits(L[i]));
  p = fma1(p, w, 1);
  return fma1(mul(2, s), p, x > 0 ? x : 0);
}

static float cap(float x) { return x > 88 ? 88 : x; }

float rdr_c1_eA(float A_log) { return rdr_c1_exp(cap(A_log)); }

float rdr_c1_dot(const float *a, const float *b, int64_t K) {
  float p[16];
  for (int r = 0; r < 16; r++) p[r] = r < K ? mul(a[r], b[r]) : 0;
  for (int64_t j = 16; j < K; j += 16) {
    const int64_t m = K - j < 16 ? K - j : 16;
    for (int64_t r = 0; r < m; r++) p[r] = fma1(a[j + r], b[j + r], p[r]);
    for (int64_t r = m; r < 16; r++) p[r] = add(p[r], 0); /* the pads: fma(0, 0, p): -0 into +0 */
  }
  for (int h = 8; h >= 1; h /= 2)
    for (int r = 0; r < h; r++) p[r] = add(p[r], p[r + h]);
  return p[0];
}

/* exp(A_log) softplus(x), whose left end goes to zero before exp(A_log) could make it large again. */
static float rate(float A_log, float x) {
  if (x < -17) return rdr_c1_exp(cap(add(A_log, x)));
  return mul(rdr_c1_eA(A_log), rdr_c1_softplus(x));
}

static float c1_decay(const rdr_choices *c, float g, float dt, float A_log) {
  const float lb = rdi_c2_narrow(c->lower_bound);
  switch (c->gate) {
  case RD_GATE_LOWER_BOUND:
    return rdr_c1_exp(mul(lb, rdr_c1_sig(mul(rdr_c1_eA(A_log), add(g, dt)))));
  case RD_GATE_SOFTPLUS:
    return rdr_c1_exp(-rate(A_log, add(g, dt)));
  case RD_GATE_LOG:
    return rdr_c1_exp(g);
  case RD_GATE_DECAY:
    return g;
  case RD_GATE_NONE:
    break;
  }
  return 1;
}

void rdr_c1_operands(const rdr_choices *c, int64_t K, const float *q, const float *k,
                     const float *g, const float *dt, float A_log, float beta, float *k_out,
                     float *a_out, float *q_out, float *beta_out) {
  const float scale = rdi_c2_narrow(c->scale), eps = rdi_c2_narrow(c->eps);
  const int raw = c->gate == RD_GATE_LOWER_BOUND || c->gate == RD_GATE_SOFTPLUS;
  float nq = scale, nk = 1;
  if (c->l2norm) {
    nk = over(1, rdi_c2_sqrt(add(rdr_c1_dot(k, k, K), eps)));
    nq = over(scale, rdi_c2_sqrt(add(rdr_c1_dot(q, q, K), eps)));
  }
  for (int64_t i = 0; i < K; i++) {
    const int64_t x = c->axis == RD_PER_CHANNEL ? i : 0;
    k_out[i] = c->l2norm ? mul(k[i], nk) : k[i];
    q_out[i] = mul(q[i], nq);
    if (c->gate == RD_GATE_NONE)
      a_out[i] = 1;
    else
      a_out[i] = x == 0 && i > 0 ? a_out[0] : c1_decay(c, g[x], raw ? dt[x] : 0, A_log);
  }
  *beta_out = mul(c->beta == RD_BETA_LOGIT ? rdr_c1_sig(beta) : beta, (float)c->beta_times);
}

void rdr_c1_derive(int64_t K, const float *k, const float *a, const float *q, float *kt, float *qt,
                   float *kq) {
  for (int64_t c = 0; c < K; c++) kt[c] = mul(a[c], k[c]);
  for (int64_t c = 0; c < K; c++) qt[c] = mul(a[c], q[c]);
  *kq = rdr_c1_dot(k, q, K);
}

void rdr_c1_step(float *S, int64_t K, int64_t V, const float *k, const float *a, const float *kt,
                 const float *qt, float kq, float beta, const float *v, float *u, float *o) {
  for (int64_t r = 0; r < V; r++) {
    float *row = S + r * K;
    const float yk = rdr_c1_dot(row, kt, K);
    const float yq = rdr_c1_dot(row, qt, K);
    u[r] = mul(beta, sub(v[r], yk));
    for (int64_t c = 0; c < K; c++) row[c] = fma1(u[r], k[c], mul(a[c], row[c]));
    o[r] = fma1(u[r], kq, yq);
  }
}

void rdr_c1_commit(float *S, int64_t K, int64_t V, const float *u, const float *k, const float *a) {
  for (int64_t r = 0; r < V; r++)
    for (int64_t c = 0; c < K; c++) S[r * K + c] = fma1(u[r], k[c], mul(a[c], S[r * K + c]));
}
