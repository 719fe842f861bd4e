/* The body of the `fold` kernels over columns (kernels/column.h, kernels/fast.h). */
#include "kernels/column.h"
#include "kernels/fast.h"

/* Leading tokens in range: asked only after a block left it. p: P before the block, overwritten. */
static int64_t leading(const rdi_fold_args *g, float *p) {
  for (int64_t t = 0; t < g->n; t++) {
    int inside = 1;
    for (int64_t c = 0; c < g->K; c++) {
      p[c] *= g->a[t * g->Kp + c];
      inside &= p[c] >= RDI_FAST_LOW && p[c] <= 1.0f;
    }
    if (!inside) return t;
  }
  return g->n;
}

typedef struct range {
  rdi_col low, high, nan;
} range;

/* 16 keys through all tokens. */
RDI_INLINE void fold_keys(const rdi_fold_args *g, int64_t c, int64_t left, range *r) {
  const rdi_col ones = c_set(1.0f), zero = c_set(0.0f);
  const rdi_col pads =
      left < 16 ? c_fma(c_keep(c_set(-1.0f), left), ones, ones) : zero; /* 1 at pads */
  rdi_col P = c_load(g->P + c);
  for (int64_t t = 0; t < g->n; t++) {
    const int64_t x = t * g->Kp + c;
    c_store(g->kf + x, c_mul(c_load(g->kt + x), P));
    c_store(g->qf + x, c_mul(c_load(g->qt + x), P));
    rdi_col a = c_load(g->a + x);
    if (left < 16) a = c_add(a, pads);
    P = c_mul(P, a);
    c_store(g->kh + x, c_div(c_load(g->k + x), P));
    r->low = c_min(P, r->low), r->high = c_max(P, r->high);
    r->nan = c_fma(P, zero, r->nan); /* infinities, too */
  }
  c_store(g->P + c, P);
}

/* One gate for all keys: one division per token. */
RDI_INLINE void fold_head(const rdi_fold_args *g, range *r) {
  float before[16] = {0}, inverse[16] = {0};
  float p = g->P[0];
  rdi_col P = c_set(1.0f);
  for (int64_t t = 0; t < g->n; t++) {
    before[t] = p;
    p *= g->a[t * g->Kp];
    inverse[t] = p;
    P = c_set(p);
    r->low = c_min(P, r->low), r->high = c_max(P, r->high);
    r->nan = c_fma(P, c_set(0.0f), r->nan);
  }
  c_store(inverse, c_div(c_set(1.0f), c_load(inverse)));
  for (int64_t t = 0; t < g->n; t++) {
    rdi_col b = c_set(before[t]), i = c_set(inverse[t]);
    for (int64_t x = t * g->Kp; x < (t + 1) * g->Kp; x += 16) {
      c_store(g->kf + x, c_mul(c_load(g->kt + x), b));
      c_store(g->qf + x, c_mul(c_load(g->qt + x), b));
      c_store(g->kh + x, c_mul(c_load(g->k + x), i));
    }
  }
  for (int64_t c = 0; c < g->Kp; c += 16) c_store(g->P + c, P);
}

RDI_INLINE int in_range(const range *r) {
  float low[16], high[16], nan[16];
  int ok = 1;
  c_store(low, r->low), c_store(high, r->high), c_store(nan, r->nan);
  for (int i = 0; i < 16; i++) ok &= low[i] >= RDI_FAST_LOW && high[i] <= 1.0f && nan[i] == 0.0f;
  return ok;
}

RDI_INLINE int64_t rdi_fold(const rdi_fold_args *g) {
  float before[RDI_MAX_DIM];
  range r = {c_set(1.0f), c_set(0.0f), c_set(0.0f)};
  memcpy(before, g->P, (size_t)g->Kp * sizeof *before);
  if (g->head) {
    fold_head(g, &r);
  } else {
    int64_t c = 0;
    for (; c + 16 <= g->K; c += 16) fold_keys(g, c, 16, &r);
    if (c < g->K) fold_keys(g, c, g->K - c, &r);
  }
  for (int64_t t = 1; g->ck && t < g->n; t += 2) {
    const float *kh = g->kh + (t - 1) * g->Kp, *kf = g->kf + t * g->Kp, *qf = g->qf + t * g->Kp;
    rdi_col ck = c_set(0.0f), cq = ck;
    for (int64_t c = 0; c < g->Kp; c += 16) {
      rdi_col h = c_load(kh + c);
      ck = c_fma(h, c_load(kf + c), ck), cq = c_fma(h, c_load(qf + c), cq);
    }
    g->ck[t] = c_sum(ck), g->cq[t] = c_sum(cq);
  }
  if (in_range(&r)) return g->n;
  return g->whole ? 0 : leading(g, before);
}
