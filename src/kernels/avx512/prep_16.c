/* prep: k, a, kt = a k, qt = a q, kq = k.q and beta of <= 16 tokens of one value head, AVX-512.
 * The sums of eight tokens share one reduction tree; gates and sigmoids run four vectors abreast. */
#include "kernels/avx512/math.h"
#include "kernels/registry.h"

enum { TOKENS = 8 };

/* The number of each token's head-wide gate or beta, in lanes. */
RDI_INLINE __m512 lanes_of(const void *p, rd_dtype dtype, int64_t stride, int64_t n) {
  _Alignas(64) float x[RDI_TOKENS] = {0};
  for (int64_t t = 0; t < n; t++) {
    __m512 one = rdi_load(p, dtype, t * stride, 1);
    x[t] = _mm512_cvtss_f32(one);
  }
  return _mm512_load_ps(x);
}

RDI_INLINE void decay(const rdi_prep_args *g, rd_gate gate, __m512 x[WIDE], const __m512 dt[WIDE]) {
  const __m512 eA = _mm512_set1_ps(g->eA), lb = _mm512_set1_ps(g->lb);
  if (gate == RD_GATE_DECAY) return;
  if (gate == RD_GATE_LOWER_BOUND || gate == RD_GATE_SOFTPLUS) {
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) x[i] = _mm512_add_ps(x[i], dt[i]);
  }
  if (gate == RD_GATE_LOWER_BOUND) {
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) x[i] = _mm512_mul_ps(eA, x[i]);
    rdi_sig(x);
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) x[i] = _mm512_mul_ps(lb, x[i]);
  }
  if (gate == RD_GATE_SOFTPLUS) {
    rdi_softplus(x);
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) x[i] = rdi_flip(_mm512_mul_ps(eA, x[i]));
  }
  rdi_exp(x);
}

/* a of a gate per channel: 64 keys at a time. */
RDI_INLINE void channels(const rdi_prep_args *g, rd_gate gate, rd_dtype dtype) {
  const int raw = gate == RD_GATE_LOWER_BOUND || gate == RD_GATE_SOFTPLUS;
  for (int64_t c = 0; c < g->K; c += 16 * WIDE) {
    __m512 dt[WIDE], x[WIDE];
    __mmask16 m[WIDE];
    RDI_UNROLL
    for (int i = 0; i < WIDE; i++) {
      m[i] = rdi_lanes(g->K - c - 16 * i);
      dt[i] = raw ? _mm512_maskz_loadu_ps(m[i], g->dt + c + 16 * i) : _mm512_setzero_ps();
    }
    for (int64_t t = 0; t < g->n; t++) {
      RDI_UNROLL
      for (int i = 0; i < WIDE; i++) x[i] = rdi_load(g->g, dtype, t * g->g_stride + c + 16 * i, m[i]);
      decay(g, gate, x, dt);
      float *a = g->a_out + t * g->Kp + c;
      RDI_UNROLL
      for (int i = 0; i < WIDE; i++)
        if (c + 16 * i < g->Kp) _mm512_store_ps(a + 16 * i, _mm512_maskz_mov_ps(m[i], x[i]));
    }
  }
}

#define CHANNELS(name, gate)                                                                        \
  static __attribute__((noinline)) void name(const rdi_prep_args *g) {                              \
    if (g->g_dtype == RD_F32) channels(g, gate, RD_F32);                                            \
    else if (g->g_dtype == RD_F16) channels(g, gate, RD_F16);                                       \
    else channels(g, gate, RD_BF16);                                                                \
  }
CHANNELS(channels_lower_bound, RD_GATE_LOWER_BOUND)
CHANNELS(channels_softplus, RD_GATE_SOFTPLUS)
CHANNELS(channels_log, RD_GATE_LOG)
CHANNELS(channels_decay, RD_GATE_DECAY)

/* a per head: one lane per token. Unused vectors of the four cost nothing against their latency. */
static __attribute__((noinline)) void heads(const rdi_prep_args *g, float a[RDI_TOKENS]) {
  __m512 x[WIDE], dt[WIDE];
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) x[i] = dt[i] = _mm512_setzero_ps();
  if (g->gate == RD_GATE_NONE) {
    _mm512_store_ps(a, _mm512_set1_ps(1.0f));
    return;
  }
  x[0] = lanes_of(g->g, g->g_dtype, g->g_stride, g->n);
  if (g->gate == RD_GATE_LOWER_BOUND || g->gate == RD_GATE_SOFTPLUS) dt[0] = _mm512_set1_ps(g->dt[0]);
  switch (g->gate) {
  case RD_GATE_LOWER_BOUND: decay(g, RD_GATE_LOWER_BOUND, x, dt); break;
  case RD_GATE_SOFTPLUS: decay(g, RD_GATE_SOFTPLUS, x, dt); break;
  case RD_GATE_LOG: decay(g, RD_GATE_LOG, x, dt); break;
  case RD_GATE_NONE:
  case RD_GATE_DECAY: break;
  }
  _mm512_store_ps(a, x[0]);
}

static __attribute__((noinline)) void betas(const rdi_prep_args *g) {
  __m512 x[WIDE];
  RDI_UNROLL
  for (int i = 0; i < WIDE; i++) x[i] = _mm512_setzero_ps();
  x[0] = lanes_of(g->beta, g->beta_dtype, g->beta_stride, g->n);
  if (g->beta_kind == RD_BETA_LOGIT) rdi_sig(x);
  _mm512_mask_storeu_ps(g->beta_out, rdi_lanes(g->n), _mm512_mul_ps(x[0], _mm512_set1_ps(g->beta_times)));
}

/* nk and nq of `tokens` (1 or 8) tokens from t on. */
RDI_INLINE void norms(const rdi_prep_args *g, rd_dtype dtype, int64_t t, int tokens, float *nk, float *nq) {
  __m512 kk[TOKENS], qq[TOKENS];
  RDI_UNROLL
  for (int i = 0; i < tokens; i++) kk[i] = qq[i] = _mm512_set1_ps(-0.0f);
  for (int64_t c = 0; c < g->K; c += 16) {
    __mmask16 m = rdi_lanes(g->K - c);
    RDI_UNROLL
    for (int i = 0; i < tokens; i++) {
      __m512 k = rdi_load(g->k, dtype, (t + i) * g->k_stride + c, m);
      __m512 q = rdi_load(g->q, dtype, (t + i) * g->q_stride + c, m);
      kk[i] = _mm512_fmadd_ps(k, k, kk[i]);
      qq[i] = _mm512_fmadd_ps(q, q, qq[i]);
    }
  }
  if (tokens == 1) {
    __m128 y = _mm_set_ps(0, 0, rdi_tree1(qq[0]), rdi_tree1(kk[0]));
    y = _mm_sqrt_ps(_mm_add_ps(y, _mm_set1_ps(g->eps)));
    y = _mm_div_ps(_mm_set_ps(1, 1, g->scale, 1), y);
    nk[0] = _mm_cvtss_f32(y);
    nq[0] = _mm_cvtss_f32(_mm_movehdup_ps(y));
    return;
  }
  __m512 y = _mm512_sqrt_ps(_mm512_add_ps(rdi_tree16(kk, qq), _mm512_set1_ps(g->eps)));
  y = _mm512_div_ps(_mm512_mask_blend_ps(0xff00, _mm512_set1_ps(1.0f), _mm512_set1_ps(g->scale)), y);
  _mm256_storeu_ps(nk, _mm512_castps512_ps256(y));
  _mm256_storeu_ps(nq, _mm512_extractf32x8_ps(y, 1));
}

/* k, kt, qt of one token; returns the 16 partial sums of kq. a_head: NULL when a is in place. */
RDI_INLINE __m512 token(const rdi_prep_args *g, rd_dtype dtype, int64_t t, __m512 nk, __m512 nq,
                        const float *a_head, int64_t K) {
  float *k_out = g->k_out + t * g->Kp, *a_out = g->a_out + t * g->Kp;
  float *kt_out = g->kt_out + t * g->Kp, *qt_out = g->qt_out + t * g->Kp;
  __m512 kq = _mm512_set1_ps(-0.0f), a = a_head ? _mm512_set1_ps(a_head[t]) : kq;
  for (int64_t c = 0; c < K; c += 16) {
    __mmask16 m = rdi_lanes(K - c);
    __m512 k = rdi_load(g->k, dtype, t * g->k_stride + c, m);
    __m512 q = rdi_load(g->q, dtype, t * g->q_stride + c, m);
    if (g->l2norm) k = _mm512_maskz_mul_ps(m, k, nk);
    q = _mm512_maskz_mul_ps(m, q, nq);
    if (a_head) _mm512_store_ps(a_out + c, _mm512_maskz_mov_ps(m, a));
    else a = _mm512_load_ps(a_out + c);
    _mm512_store_ps(k_out + c, k);
    _mm512_store_ps(kt_out + c, _mm512_maskz_mul_ps(m, a, k));
    _mm512_store_ps(qt_out + c, _mm512_maskz_mul_ps(m, a, q));
    kq = _mm512_fmadd_ps(k, q, kq);
  }
  return kq;
}

RDI_INLINE void run(const rdi_prep_args *g, rd_dtype dtype, const float *a_head) {
  float nk[RDI_TOKENS], nq[RDI_TOKENS];
  int64_t t = 0;
  for (int i = 0; i < RDI_TOKENS; i++) nk[i] = 1, nq[i] = g->scale;
  if (g->l2norm) {
    for (; t + TOKENS <= g->n; t += TOKENS) norms(g, dtype, t, TOKENS, nk + t, nq + t);
    for (; t < g->n; t++) norms(g, dtype, t, 1, nk + t, nq + t);
  }
  for (t = 0; t < g->n; t += TOKENS) {
    __m512 y[TOKENS], none[TOKENS];
    int64_t end = g->n - t < TOKENS ? g->n - t : TOKENS;
    if (end < TOKENS / 2) { /* a few tokens: one sum each */
      for (int64_t i = t; i < t + end; i++)
        g->kq_out[i] = rdi_tree1(
            token(g, dtype, i, _mm512_set1_ps(nk[i]), _mm512_set1_ps(nq[i]), a_head, g->K));
      continue;
    }
    for (int64_t i = 0; i < TOKENS; i++)
      y[i] = i < end ? token(g, dtype, t + i, _mm512_set1_ps(nk[t + i]), _mm512_set1_ps(nq[t + i]), a_head, g->K)
                     : _mm512_setzero_ps();
    RDI_UNROLL
    for (int i = 0; i < TOKENS; i++) none[i] = _mm512_setzero_ps();
    _mm512_mask_storeu_ps(g->kq_out + t, rdi_lanes(end), rdi_tree16(y, none));
  }
}

void rdi_prep_avx512_16(const rdi_prep_args *g) {
  _Alignas(64) float a[RDI_TOKENS];
  const float *a_head = NULL;
  betas(g);
  if (g->axis == RD_PER_HEAD || g->gate == RD_GATE_NONE) {
    heads(g, a);
    a_head = a;
  } else if (g->gate == RD_GATE_LOWER_BOUND) channels_lower_bound(g);
  else if (g->gate == RD_GATE_SOFTPLUS) channels_softplus(g);
  else if (g->gate == RD_GATE_LOG) channels_log(g);
  else channels_decay(g);
  if (g->qk_dtype == RD_F32) run(g, RD_F32, a_head);
  else if (g->qk_dtype == RD_F16) run(g, RD_F16, a_head);
  else run(g, RD_BF16, a_head);
}
