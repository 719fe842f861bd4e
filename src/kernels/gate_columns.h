/* What a gate and beta are per head, over columns whose lanes are tokens: the part of `prep` that kernels of
 * whole chunks need, too. */
#ifndef RDI_KERNELS_GATE_COLUMNS_H
#define RDI_KERNELS_GATE_COLUMNS_H

#include "kernels/column.h"

/* The number of each token that is head-wide (gate, beta), in lanes. */
RDI_INLINE void tokens_of(rdi_col x[WIDE], const void *p, rd_dtype dtype, int64_t stride,
                          int64_t n) {
  float y[RDI_TOKENS] = {0};
  if (stride == 1)
    x[0] = c_any(p, dtype, 0, n);
  else {
    for (int64_t t = 0; t < n; t++) c_put(y + t, c_any(p, dtype, t * stride, 1), 1);
    x[0] = c_load(y);
  }
  RDI_UNROLL
  for (int i = 1; i < WIDE; i++) x[i] = c_set(0.0f);
}

/* A raw gate has two exponentials with a division between. They are separate steps so that one vector's
 * division runs behind another's exponential. */
RDI_INLINE void inner(const rdi_prep_args *g, rd_gate gate, rdi_col x[WIDE],
                      const rdi_col dt[WIDE]) {
  if (gate == RD_GATE_LOWER_BOUND) {
    RDI_EACH x[i] = c_mul(c_set(g->eA), c_add(x[i], dt[i]));
    rdi_sig(x);
  }
  if (gate == RD_GATE_SOFTPLUS) {
    RDI_EACH x[i] = c_add(x[i], dt[i]);
    rdi_rate(x, g->A_log, g->eA);
  }
}

RDI_INLINE void outer(const rdi_prep_args *g, rd_gate gate, rdi_col x[WIDE]) {
  if (gate == RD_GATE_DECAY) return;
  if (gate == RD_GATE_LOWER_BOUND) RDI_EACH x[i] = c_mul(c_set(g->lb), x[i]);
  if (gate == RD_GATE_SOFTPLUS) RDI_EACH x[i] = c_flip(x[i]);
  rdi_exp(x);
}

/* a per head: one lane per token. */
static __attribute__((noinline)) void heads(const rdi_prep_args *g, float a[RDI_TOKENS]) {
  rdi_col x[WIDE], dt[WIDE];
  const int raw = g->gate == RD_GATE_LOWER_BOUND || g->gate == RD_GATE_SOFTPLUS;
  if (g->gate == RD_GATE_NONE)
    x[0] = c_set(1.0f);
  else
    tokens_of(x, g->g, g->g_dtype, g->g_stride, g->n);
  RDI_EACH dt[i] = c_set(raw ? g->dt[0] : 0.0f);
  if (g->gate == RD_GATE_LOWER_BOUND) {
    inner(g, RD_GATE_LOWER_BOUND, x, dt);
    outer(g, RD_GATE_LOWER_BOUND, x);
  }
  if (g->gate == RD_GATE_SOFTPLUS) {
    inner(g, RD_GATE_SOFTPLUS, x, dt);
    outer(g, RD_GATE_SOFTPLUS, x);
  }
  if (g->gate == RD_GATE_LOG) outer(g, RD_GATE_LOG, x);
  c_store(a, x[0]);
}

static __attribute__((noinline)) void betas(const rdi_prep_args *g) {
  rdi_col x[WIDE];
  tokens_of(x, g->beta, g->beta_dtype, g->beta_stride, g->n);
  if (g->beta_kind == RD_BETA_LOGIT) rdi_sig(x);
  c_put(g->beta_out, c_mul(x[0], c_set(g->beta_times)), g->n);
}

#endif
