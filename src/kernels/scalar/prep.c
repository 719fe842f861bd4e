/* prep: q, k, g, beta of n tokens to k, a, kt = a k, qt = a q, kq = dot(k, q), beta */
#include "kernels/c1.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "kernels/scalar/names.h"

static void load(float *dst, const void *base, rd_dtype dtype, int64_t offset, int64_t n) {
  if (dtype == RD_F32) {
    memcpy(dst, (const float *)base + offset, (size_t)n * sizeof *dst);
    return;
  }
  const uint16_t *h = (const uint16_t *)base + offset;
  if (dtype == RD_F16)
    for (int64_t i = 0; i < n; i++) dst[i] = rdi_f32_from_f16(h[i]);
  else
    for (int64_t i = 0; i < n; i++) dst[i] = rdi_f32_from_bf16(h[i]);
}

/* a[i] from g[i]; dt is read for the raw gates only. */
static void decay(float *a, const rdi_prep_args *x, int64_t n) {
  switch (x->gate) {
  case RD_GATE_LOWER_BOUND:
    for (int64_t i = 0; i < n; i++)
      a[i] = rdi_exp_c(rdi_mul(x->lb, rdi_sig_c(rdi_mul(x->eA, rdi_add(a[i], x->dt[i])))));
    break;
  case RD_GATE_SOFTPLUS:
    for (int64_t i = 0; i < n; i++)
      a[i] = rdi_exp_c(-rdi_rate_c(x->A_log, x->eA, rdi_add(a[i], x->dt[i])));
    break;
  case RD_GATE_LOG:
    for (int64_t i = 0; i < n; i++) a[i] = rdi_exp_c(a[i]);
    break;
  case RD_GATE_NONE:
  case RD_GATE_DECAY:
    break;
  }
}

static void gate(float *a, const rdi_prep_args *x, int64_t t) {
  const int64_t n = x->axis == RD_PER_CHANNEL && x->gate != RD_GATE_NONE ? x->K : 1;
  if (x->gate == RD_GATE_NONE)
    a[0] = 1.0f;
  else
    load(a, x->g, x->g_dtype, t * x->g_stride, n);
  decay(a, x, n);
  for (int64_t c = n; c < x->K; c++) a[c] = a[0];
  for (int64_t c = x->K; c < x->Kp; c++) a[c] = 0.0f;
}

void RDI_NAME(prep)(const rdi_prep_args *x) {
  float q[RDI_MAX_DIM];
  for (int64_t t = 0; t < x->n; t++) {
    float *k = x->k_out + t * x->Kp, *a = x->a_out + t * x->Kp;
    load(k, x->k, x->qk_dtype, t * x->k_stride, x->K);
    load(q, x->q, x->qk_dtype, t * x->q_stride, x->K);
    for (int64_t c = x->K; c < x->Kp; c++) k[c] = 0.0f, q[c] = 0.0f;
    float nq = x->scale;
    if (x->l2norm) {
      const float nk = rdi_div(1.0f, rdi_sqrt(rdi_add(rdi_dot16(k, k, x->Kp), x->eps)));
      nq = rdi_div(x->scale, rdi_sqrt(rdi_add(rdi_dot16(q, q, x->Kp), x->eps)));
      for (int64_t c = 0; c < x->K; c++) k[c] = rdi_mul(k[c], nk);
    }
    for (int64_t c = 0; c < x->K; c++) q[c] = rdi_mul(q[c], nq);
    gate(a, x, t);
    for (int64_t c = 0; c < x->Kp; c++) {
      x->kt_out[t * x->Kp + c] = rdi_mul(a[c], k[c]);
      x->qt_out[t * x->Kp + c] = rdi_mul(a[c], q[c]);
    }
    x->kq_out[t] = rdi_dot16(k, q, x->Kp);
    float beta;
    load(&beta, x->beta, x->beta_dtype, t * x->beta_stride, 1);
    if (x->beta_kind == RD_BETA_LOGIT) beta = rdi_sig_c(beta);
    x->beta_out[t] = rdi_mul(beta, x->beta_times);
  }
}
