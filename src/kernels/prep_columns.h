/* The body of the `prep` kernels over columns (kernels/column.h): k, a, kt = a k, qt = a q, kq = k.q
 * and beta of <= 16 tokens of one value head. Included once by a kernel file. */
#include "kernels/gate_columns.h"

RDI_INLINE void finish_a(const rdi_prep_args *g, rd_gate gate, int64_t t, int64_t c,
                         rdi_col x[WIDE], int64_t left) {
  float *a = g->a_out + t * g->Kp + c;
  outer(g, gate, x);
  RDI_EACH if (left > 16 * i) c_store(a + 16 * i, c_keep(x[i], left - 16 * i));
}

/* Up to 16 WIDE keys from c on, all tokens. */
RDI_INLINE void channels_of(const rdi_prep_args *g, rd_gate gate, rd_dtype dtype, int64_t c,
                            int64_t left) {
  const int raw = gate == RD_GATE_LOWER_BOUND || gate == RD_GATE_SOFTPLUS;
  rdi_col dt[WIDE], x[WIDE], before[WIDE];
  RDI_EACH dt[i] = raw ? c_any(g->dt, RD_F32, c + 16 * i, left - 16 * i) : c_set(0.0f);
  RDI_EACH before[i] = c_any(g->g, dtype, c + 16 * i, left - 16 * i);
  inner(g, gate, before, dt);
  for (int64_t t = 1; t < g->n; t++) {
    RDI_EACH x[i] = c_any(g->g, dtype, t * g->g_stride + c + 16 * i, left - 16 * i);
    inner(g, gate, x, dt);
    finish_a(g, gate, t - 1, c, before, left);
    RDI_EACH before[i] = x[i];
  }
  finish_a(g, gate, g->n - 1, c, before, left);
}

/* a of a gate per channel. */
RDI_INLINE void channels(const rdi_prep_args *g, rd_gate gate, rd_dtype dtype) {
  int64_t c = 0;
  for (; c + 16 * WIDE <= g->K; c += 16 * WIDE) channels_of(g, gate, dtype, c, 16 * WIDE);
  if (c < g->K) channels_of(g, gate, dtype, c, g->K - c);
}

#define RDI_CHANNELS(name, gate)                                                                   \
  static __attribute__((noinline)) void name(const rdi_prep_args *g) {                             \
    if (g->g_dtype == RD_F32)                                                                      \
      channels(g, gate, RD_F32);                                                                   \
    else if (g->g_dtype == RD_F16)                                                                 \
      channels(g, gate, RD_F16);                                                                   \
    else                                                                                           \
      channels(g, gate, RD_BF16);                                                                  \
  }
RDI_CHANNELS(channels_lower_bound, RD_GATE_LOWER_BOUND)
RDI_CHANNELS(channels_softplus, RD_GATE_SOFTPLUS)
RDI_CHANNELS(channels_log, RD_GATE_LOG)
RDI_CHANNELS(channels_decay, RD_GATE_DECAY)

/* nk = 1/sqrt(k.k + eps), nq = scale/sqrt(q.q + eps). Sums start at -0, which an fma adds without a
 * trace: the first product enters as it is. */
RDI_INLINE void norms(const rdi_prep_args *g, rd_dtype dtype, float nk[RDI_TOKENS],
                      float nq[RDI_TOKENS]) {
  for (int64_t t = 0; t < g->n; t++) {
    rdi_col kk = c_set(-0.0f), qq = kk;
    int64_t c = 0;
    for (; c + 16 <= g->K; c += 16) {
      rdi_col k = c_any(g->k, dtype, t * g->k_stride + c, 16);
      rdi_col q = c_any(g->q, dtype, t * g->q_stride + c, 16);
      kk = c_fma(k, k, kk), qq = c_fma(q, q, qq);
    }
    if (c < g->K) {
      rdi_col k = c_any(g->k, dtype, t * g->k_stride + c, g->K - c);
      rdi_col q = c_any(g->q, dtype, t * g->q_stride + c, g->K - c);
      kk = c_fma(k, k, kk), qq = c_fma(q, q, qq);
    }
    nk[t] = c_sum(kk), nq[t] = c_sum(qq);
  }
  rdi_col eps = c_set(g->eps);
  c_store(nk, c_div(c_set(1.0f), c_sqrt(c_add(c_load(nk), eps))));
  c_store(nq, c_div(c_set(g->scale), c_sqrt(c_add(c_load(nq), eps))));
}

typedef struct prep_row { /* what stays the same for one token */
  rdi_col nk, nq, a;
  int l2norm, head; /* head: a is the same for all channels */
} prep_row;

/* 16 keys of one token; returns the partial sums of kq so far. */
RDI_INLINE rdi_col sixteen(const rdi_prep_args *g, const prep_row *w, rd_dtype dtype, int64_t t,
                           int64_t c, int64_t left, rdi_col kq) {
  int64_t x = t * g->Kp + c;
  rdi_col k = c_any(g->k, dtype, t * g->k_stride + c, left);
  rdi_col q = c_mul(c_any(g->q, dtype, t * g->q_stride + c, left), w->nq), a = w->a;
  /* A k given as is keeps its subnormals. clang would multiply it by 1 where there is no norm, which
   * flushes them. */
  if (w->l2norm) k = c_fix(c_mul(k, w->nk));
  if (!w->head) a = c_load(g->a_out + x);
  if (left < 16) k = c_keep(k, left), q = c_keep(q, left), a = c_keep(a, left);
  if (w->head) c_store(g->a_out + x, a);
  c_store(g->k_out + x, k);
  c_store(g->kt_out + x, c_mul(a, k));
  c_store(g->qt_out + x, c_mul(a, q));
  return c_fma(k, q, kq);
}

RDI_INLINE void run(const rdi_prep_args *g, rd_dtype dtype, const float *a_head) {
  float nk[RDI_TOKENS] = {0}, nq[RDI_TOKENS] = {0};
  if (g->l2norm) norms(g, dtype, nk, nq);
  for (int64_t t = 0; t < g->n; t++) {
    prep_row w = {c_set(nk[t]), c_set(g->l2norm ? nq[t] : g->scale),
                  c_set(a_head ? a_head[t] : 0.0f), g->l2norm, a_head != NULL};
    rdi_col kq = c_set(-0.0f);
    int64_t c = 0;
    for (; c + 16 <= g->K; c += 16) kq = sixteen(g, &w, dtype, t, c, 16, kq);
    if (c < g->K) kq = sixteen(g, &w, dtype, t, c, g->K - c, kq);
    g->kq_out[t] = c_sum(kq);
  }
}

RDI_INLINE void rdi_prep(const rdi_prep_args *g) {
  float a[RDI_TOKENS];
  const int head = g->axis == RD_PER_HEAD || g->gate == RD_GATE_NONE;
  betas(g);
  if (head)
    heads(g, a);
  else if (g->gate == RD_GATE_LOWER_BOUND)
    channels_lower_bound(g);
  else if (g->gate == RD_GATE_SOFTPLUS)
    channels_softplus(g);
  else if (g->gate == RD_GATE_LOG)
    channels_log(g);
  else
    channels_decay(g);
  if (g->qk_dtype == RD_F32)
    run(g, RD_F32, head ? a : NULL);
  else if (g->qk_dtype == RD_F16)
    run(g, RD_F16, head ? a : NULL);
  else
    run(g, RD_BF16, head ? a : NULL);
}
