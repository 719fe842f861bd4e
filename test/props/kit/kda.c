/* Tensors of the named KDA operators. SPDX-License-Identifier: Apache-2.0 */
#include "kda.h"

rd_problem kda_problem(int64_t Hk, int64_t Hv, double lower_bound) {
  rd_problem p;
  rd_problem_init(&p);
  p.Hk = Hk;
  p.Hv = Hv;
  p.K = p.V = KDA_D;
  p.gate = RD_GATE_LOWER_BOUND;
  p.gate_axis = RD_PER_CHANNEL;
  p.lower_bound = lower_bound;
  p.beta = RD_BETA_LOGIT;
  p.qk_norm = RD_QK_L2;
  p.l2_eps = 1e-6;
  p.qkv_dtype = p.gate_dtype = p.beta_dtype = p.out_dtype = RD_BF16;
  p.record_dtype = RD_F16;
  return p;
}

void kda_short(data *d) {
  for (int64_t b = 0; b < d->n; b++)
    for (int64_t i = 0; i < d->s[b].len * d->p.Hk * KDA_D; i++)
      d->s[b].q[i] *= 1e-4f, d->s[b].k[i] *= 1e-4f;
  data_requantise(d);
}

const char *kda_layout_name(rd_layout_qkv l) {
  return l == RD_BSND ? "BSND" : l == RD_BNSD ? "BNSD" : "TND";
}

kda kda_make(const data *d, rd_layout_qkv layout, int64_t S) {
  kda x = {.d = d, .layout = layout, .B = d->n, .S = S};
  x.row0 = mem_heap(Z(d->n + 1) * sizeof(int64_t));
  for (int64_t b = 0; b < d->n; b++) {
    x.row0[b + 1] = x.row0[b] + d->s[b].len;
    if (d->s[b].len > x.S) x.S = d->s[b].len;
  }
  x.rows = x.row0[d->n];
  return x;
}

tb kda_tensor(const kda *x, rd_dtype t, int64_t H, int64_t n) {
  int64_t bsnd[4] = {x->B, x->S, H, n}, bnsd[4] = {x->B, H, x->S, n}, tnd[3] = {x->rows, H, n};
  int less = n == 0;
  if (x->layout == RD_TND) return tb_make(t, 3 - less, tnd, NULL);
  return tb_make(t, 4 - less, x->layout == RD_BSND ? bsnd : bnsd, NULL);
}

void *kda_at(const kda *x, const rd_tensor *t, int64_t b, int64_t tok, int64_t h) {
  if (x->layout == RD_TND) return tb_at(t, x->row0[b] + tok, h, 0, 0);
  return x->layout == RD_BSND ? tb_at(t, b, tok, h, 0) : tb_at(t, b, h, tok, 0);
}

void kda_put(const kda *x, const tb *t, const float *const *per_sequence, int64_t H, int64_t n,
             int64_t head0, int64_t heads) {
  (void)H;
  size_t size = rd_dtype_size(t->t.dtype);
  for (int64_t b = 0; b < x->B; b++)
    for (int64_t tok = 0; tok < x->d->s[b].len; tok++)
      for (int64_t h = 0; h < heads; h++) {
        unsigned char *to = kda_at(x, &t->t, b, tok, head0 + h);
        for (int64_t i = 0; i < n; i++)
          dt_store(t->t.dtype, to + Z(i) * size, per_sequence[b][(tok * heads + h) * n + i]);
      }
}

void kda_get(const kda *x, const tb *t, int64_t b, int64_t heads, int64_t n, float *dst) {
  size_t size = rd_dtype_size(t->t.dtype);
  for (int64_t tok = 0; tok < x->d->s[b].len; tok++)
    for (int64_t h = 0; h < heads; h++) {
      const unsigned char *from = kda_at(x, &t->t, b, tok, h);
      for (int64_t i = 0; i < n; i++)
        dst[(tok * heads + h) * n + i] = dt_load(t->t.dtype, from + Z(i) * size);
    }
}

static const float **field(const data *d, size_t offset) {
  const float **p = mem_heap(Z(d->n) * sizeof *p);
  for (int64_t i = 0; i < d->n; i++) memcpy(&p[i], (const char *)&d->s[i] + offset, sizeof *p);
  return p;
}

tb kda_mixed(const kda *x) {
  const rd_problem *p = &x->d->p;
  int64_t N = p->Hv, H = 3 * N;
  tb t = kda_tensor(x, RD_BF16, H, KDA_D);
  kda_put(x, &t, field(x->d, offsetof(seqdata, q)), H, KDA_D, 0, N);
  kda_put(x, &t, field(x->d, offsetof(seqdata, k)), H, KDA_D, N, N);
  kda_put(x, &t, field(x->d, offsetof(seqdata, v)), H, KDA_D, 2 * N, N);
  mem_readonly(t.b);
  int64_t bsnd[3] = {x->B, x->S, H * KDA_D}, tnd[2] = {x->rows, H * KDA_D};
  if (x->layout == RD_BSND) t.t = rd_tensor_contiguous(t.b->p, RD_BF16, 3, bsnd);
  if (x->layout == RD_TND) t.t = rd_tensor_contiguous(t.b->p, RD_BF16, 2, tnd);
  return t;
}

tb kda_beta(const kda *x, bool trailing_one) {
  tb t = kda_tensor(x, RD_BF16, x->d->p.Hv, trailing_one ? 1 : 0);
  kda_put(x, &t, field(x->d, offsetof(seqdata, beta)), x->d->p.Hv, 1, 0, x->d->p.Hv);
  mem_readonly(t.b);
  return t;
}

tb kda_g(const kda *x) {
  tb t = kda_tensor(x, RD_BF16, x->d->p.Hv, KDA_D);
  kda_put(x, &t, field(x->d, offsetof(seqdata, g)), x->d->p.Hv, KDA_D, 0, x->d->p.Hv);
  mem_readonly(t.b);
  return t;
}

tb kda_state(const kda *x) {
  int64_t Hv = x->d->p.Hv, shape[4] = {x->B, Hv, KDA_D, KDA_D};
  tb t = tb_make(RD_F32, 4, shape, NULL);
  size_t n = Z(data_state_n(x->d)) * sizeof(float);
  for (int64_t b = 0; b < x->B; b++) memcpy(t.b->p + Z(b) * n, x->d->s[b].S0, n);
  return t;
}

tb kda_weights(const float *w, int64_t Hv, int64_t n) {
  int64_t shape[2] = {Hv, n};
  tb t = tb_make(RD_F32, n ? 2 : 1, shape, NULL);
  memcpy(t.b->p, w, t.b->bytes);
  mem_readonly(t.b);
  return t;
}

tb kda_cu(const kda *x) {
  int32_t *c = mem_heap(Z(x->B + 1) * sizeof *c);
  for (int64_t b = 0; b <= x->B; b++) c[b] = (int32_t)x->row0[b];
  return tb_i32(x->B + 1, c);
}

void kda_check_pads(const kda *x, const tb *out) {
  if (x->layout == RD_TND) return;
  size_t row = KDA_D * rd_dtype_size(out->t.dtype);
  for (int64_t b = 0; b < x->B; b++)
    for (int64_t t = x->d->s[b].len; t < x->S; t++)
      for (int64_t h = 0; h < x->d->p.Hv; h++) {
        const unsigned char *p = kda_at(x, &out->t, b, t, h);
        for (size_t i = 0; i < row; i++)
          if (p[i]) {
            pt_fail("row %lld of sequence %lld past its length is not +0", (long long)t,
                    (long long)b);
            return;
          }
      }
}

kda_ref kda_expect(const data *d) {
  const rd_problem *p = &d->p;
  size_t n = Z(d->n) * sizeof(float *);
  kda_ref r = {mem_heap(n), mem_heap(n), mem_heap(n), mem_heap(n), mem_heap(n), mem_heap(n)};
  for (int64_t b = 0; b < d->n; b++) {
    int64_t T = d->s[b].len, no = T * p->Hv * p->V, nk = T * p->Hk * p->K, na = T * p->Hv * p->K;
    r.out[b] = fl(no);
    r.u[b] = fl(no);
    r.k[b] = fl(nk);
    r.a[b] = fl(na);
    r.S[b] = fl_copy(d->s[b].S0, data_state_n(d));
    r.dout[b] = db(no);
    double *S = db_from(d->s[b].S0, data_state_n(d));
    orc_run(d, b, 0, T, ORC_DOUBLE, S, r.dout[b], NULL, NULL, NULL);
    c1_run(d, b, 0, T, r.S[b], r.out[b], r.u[b], r.k[b], r.a[b]);
    round_all(p->out_dtype, r.out[b], no);
    round_all(p->record_dtype, r.u[b], no);
    round_all(p->record_dtype, r.k[b], nk);
  }
  return r;
}
