/* fused_recurrent_kda_replayssm and commit_recurrent_kda_replayssm: the bits of C1 in every layout,
 * the double oracle within 0.005 + 0.005|r|, records, suffixes, checkpoint, block_num, accepted 0.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kit/kda.h"
#include "ref/ref.h"

typedef struct verify {
  kda x;
  int64_t C;
  tb mixed, beta, g, state, A, dt, u, k, decay, cu, out;
  rd_fused_recurrent_kda_replayssm_params p;
} verify;

static verify make(const data *d, rd_layout_qkv layout, int64_t C) {
  verify v = {.x = kda_make(d, layout, 0), .C = C};
  int64_t N = d->p.Hv, rec[4] = {d->n, C, N, KDA_D};
  v.mixed = kda_mixed(&v.x);
  v.beta = kda_beta(&v.x, true);
  v.g = kda_g(&v.x);
  v.state = kda_state(&v.x);
  mem_readonly(v.state.b);
  v.A = kda_weights(d->A, N, 0);
  v.dt = kda_weights(d->dt, N, KDA_D);
  v.u = tb_make(RD_F16, 4, rec, NULL);
  v.k = tb_make(RD_F16, 4, rec, NULL);
  v.decay = tb_make(RD_F32, 4, rec, NULL);
  v.out = kda_tensor(&v.x, RD_BF16, N, KDA_D);
  rd_fused_recurrent_kda_replayssm_init(&v.p);
  v.p.mixedqkv = v.mixed.t;
  v.p.recurrent_state = v.state.t;
  v.p.beta = v.beta.t;
  v.p.g = v.g.t;
  v.p.A_log = v.A.t;
  v.p.dt_bias = v.dt.t;
  v.p.lower_bound = d->p.lower_bound;
  v.p.layout_qkv = layout;
  v.p.replay_u = v.u.t;
  v.p.replay_k = v.k.t;
  v.p.replay_decay = v.decay.t;
  v.p.out = v.out.t;
  if (d->p.has_scale) v.p.has_scale = 1, v.p.scale = d->p.scale;
  if (layout == RD_TND) {
    v.cu = kda_cu(&v.x);
    v.p.cu_seqlens = v.cu.t;
  }
  return v;
}

static void suffix(const char *what, const tb *t, int64_t b, int64_t from, int64_t C) {
  size_t row = Z(t->t.stride[1]) * rd_dtype_size(t->t.dtype);
  unsigned char *want = mem_heap(Z(C - from) * row);
  memset(want, 0xff, Z(C - from) * row);
  if (from < C) ck_bytes(what, tb_at(&t->t, b, from, 0, 0), want, Z(C - from) * row);
}

static void rows(const tb *t, int64_t b, int64_t n, int64_t N, float *dst) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t h = 0; h < N; h++) tb_get_row(&t->t, b, i, h, KDA_D, dst + (i * N + h) * KDA_D);
}

static void check_verify(const verify *v, const kda_ref *w) {
  const data *d = v->x.d;
  int64_t N = d->p.Hv;
  for (int64_t b = 0; b < d->n; b++) {
    int64_t T = d->s[b].len, n = T * N * KDA_D;
    float *x = fl(n);
    kda_get(&v->x, &v->out, b, N, KDA_D, x);
    ck_bits("out", x, w->out[b], n);
    ck_near("out against the double oracle", x, w->dout[b], n, 0.005);
    rows(&v->u, b, T, N, x);
    ck_bits("replay_u", x, w->u[b], n);
    rows(&v->k, b, T, N, x);
    ck_bits("replay_k", x, w->k[b], n);
    rows(&v->decay, b, T, N, x);
    ck_bits("replay_decay", x, w->a[b], n);
    suffix("suffix of replay_u", &v->u, b, T, v->C);
    suffix("suffix of replay_k", &v->k, b, T, v->C);
    suffix("suffix of replay_decay", &v->decay, b, T, v->C);
  }
}

/* The specification's own front of the operator reads the layouts the same way. */
static void check_reference(const verify *v) {
  int64_t n = rdr_elements(&v->out.t), nr = rdr_elements(&v->u.t);
  double *out = db(n), *u = db(nr), *k = db(nr), *a = db(nr), *mine = db(n);
  for (int64_t i = 0; i < nr; i++) u[i] = k[i] = a[i] = NAN;
  CK(rdr_fused_recurrent_kda_replayssm(RDR_C1 | RDR_ROUND, &v->p, out, u, k, a) == 0,
     "out of memory");
  rdr_dense(&v->out.t, mine);
  float *x = fl(n), *y = fl(n);
  for (int64_t i = 0; i < n; i++) x[i] = (float)mine[i], y[i] = (float)out[i];
  ck_bits("out against the specification's operator", x, y, n);
  double *mr = db(nr);
  float *xr = fl(nr), *yr = fl(nr);
  rdr_dense(&v->decay.t, mr);
  for (int64_t i = 0; i < nr; i++) xr[i] = (float)mr[i], yr[i] = (float)a[i];
  ck_bits("decay against the specification's operator", xr, yr, nr);
}

static void commit(const verify *v, const kda_ref *w, const int32_t *m, int32_t block_num) {
  const data *d = v->x.d;
  rd_context *cx = cx_get(0, 2, EX_POOL);
  tb state = kda_state(&v->x), acc = tb_i32(d->n, m);
  rd_commit_recurrent_kda_replayssm_params p;
  rd_commit_recurrent_kda_replayssm_init(&p);
  p.recurrent_state = state.t;
  p.replay_u = v->u.t;
  p.replay_k = v->k.t;
  p.replay_decay = v->decay.t;
  p.num_accepted_tokens = acc.t;
  p.block_num = block_num;
  mem_readonly(v->u.b);
  mem_readonly(v->k.b);
  mem_readonly(v->decay.b);
  CK_OK(cx, rd_commit_recurrent_kda_replayssm(cx, &p));
  mem_writable(v->u.b);
  mem_writable(v->k.b);
  mem_writable(v->decay.b);
  int64_t n = data_state_n(d);
  for (int64_t b = 0; b < d->n; b++) {
    const float *got = (const float *)(const void *)(state.b->p) + b * n;
    float *S = fl_copy(d->s[b].S0, n);
    c1_commit(d, m[b], w->u[b], w->k[b], w->a[b], S);
    ck_bits("committed state", got, S, n);
    if (m[b] == 0) ck_bytes("accepted 0", got, d->s[b].S0, Z(n) * sizeof(float));
    double *D = db_from(d->s[b].S0, n);
    orc_run(d, b, 0, m[b], ORC_DOUBLE, D, NULL, NULL, NULL, NULL);
    ck_near("committed state against the double oracle", got, D, n, 0.005);
  }
}

static void all_layouts(int64_t N, int64_t B, const int64_t *len, const int32_t *m, rd_problem p) {
  bool equal = true;
  for (int64_t b = 1; b < B; b++) equal = equal && len[b] == len[0];
  size_t mark = mem_mark();
  data *d = data_make(&p, B, len);
  kda_ref w = kda_expect(d);
  static const int32_t blocks[] = {0, 8, 24, 28, 32};
  rd_context *cx = cx_get(0, 2, EX_POOL);
  for (int l = RD_BSND; l <= RD_TND; l++) {
    if (l != RD_TND && !equal) continue;
    for (int i = 0; i < (N > 8 ? 2 : 5); i++) {
      size_t inner = mem_mark();
      pt_note("%s N=%lld block_num %d", kda_layout_name((rd_layout_qkv)l), (long long)N, blocks[i]);
      verify v = make(d, (rd_layout_qkv)l, len[0] + 2);
      v.p.block_num = blocks[i];
      if (CK_OK(cx, rd_fused_recurrent_kda_replayssm(cx, &v.p))) {
        check_verify(&v, &w);
        if (i == 0) check_reference(&v);
        commit(&v, &w, m, blocks[i]);
      }
      mem_release(inner);
    }
  }
  mem_release(mark);
}

static void small(void) {
  all_layouts(1, 1, (int64_t[]){8}, (int32_t[]){8}, kda_problem(1, 1, -5));
  all_layouts(2, 2, (int64_t[]){3, 3}, (int32_t[]){0, 2}, kda_problem(2, 2, -5));
}

static void ragged(void) {
  all_layouts(3, 3, (int64_t[]){5, 1, 3}, (int32_t[]){5, 0, 2}, kda_problem(3, 3, -5));
}

static void scale_and_bound(void) {
  rd_problem p = kda_problem(2, 2, -1.5);
  p.has_scale = 1;
  p.scale = 0.25;
  all_layouts(2, 2, (int64_t[]){4, 4}, (int32_t[]){4, 1}, p);
  p = kda_problem(2, 2, 0);
  all_layouts(2, 2, (int64_t[]){4, 4}, (int32_t[]){4, 1}, p);
}

static void short_vectors(void) {
  rd_problem p = kda_problem(2, 2, -5);
  int64_t len[1] = {4};
  int32_t m = 3;
  data *d = data_make(&p, 1, len);
  kda_short(d);
  kda_ref w = kda_expect(d);
  verify v = make(d, RD_BSND, 4);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  if (!CK_OK(cx, rd_fused_recurrent_kda_replayssm(cx, &v.p))) return;
  check_verify(&v, &w);
  commit(&v, &w, &m, 0);
}

static void seventeen_heads(void) {
  all_layouts(17, 2, (int64_t[]){9, 9}, (int32_t[]){0, 9}, kda_problem(17, 17, -5));
}

static void many_heads(void) {
  all_layouts(96, 2, (int64_t[]){3, 3}, (int32_t[]){3, 1}, kda_problem(96, 96, -5));
}

static void long_windows(void) {
  all_layouts(2, 1, (int64_t[]){70}, (int32_t[]){33}, kda_problem(2, 2, -5));
}

/* accepted counts reach to C: the bare records know no length. */
static void accept_up_to_capacity(void) {
  rd_problem p = kda_problem(2, 2, -5);
  int64_t len[1] = {4};
  data *d = data_make(&p, 1, len);
  kda_ref w = kda_expect(d);
  verify v = make(d, RD_BSND, 4);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  CK_OK(cx, rd_fused_recurrent_kda_replayssm(cx, &v.p));
  for (int32_t m = 0; m <= 4; m++) commit(&v, &w, &m, 0);
}

static void every_isa_and_thread_count(void) {
  rd_problem p = kda_problem(3, 3, -5);
  int64_t len[2] = {5, 2};
  data *d = data_make(&p, 2, len);
  kda_ref w = kda_expect(d);
  uint32_t isa[8];
  int n = cx_isas(isa);
  for (int i = 0; i < n; i++)
    for (int t = 1; t <= 7; t += 3)
      for (int kind = EX_POOL; kind <= EX_HOSTILE; kind++) {
        pt_note("%s, %d threads, executor %d", cx_isa_name(isa[i]), t, kind);
        rd_context *cx = cx_get(isa[i], t, (ex_kind)kind);
        verify v = make(d, RD_TND, 5);
        if (CK_OK(cx, rd_fused_recurrent_kda_replayssm(cx, &v.p))) check_verify(&v, &w);
      }
}

/* A second call of the same shape allocates nothing. */
static void warm_calls(void) {
  rd_problem p = kda_problem(2, 2, -5);
  int64_t len[2] = {4, 4};
  data *d = data_make(&p, 2, len);
  rd_context *cx = cx_fresh(0, 2, EX_POOL);
  verify v = make(d, RD_BSND, 4);
  CK_OK(cx, rd_fused_recurrent_kda_replayssm(cx, &v.p));
  int64_t before = cx_allocations;
  CK_OK(cx, rd_fused_recurrent_kda_replayssm(cx, &v.p));
  CK(cx_allocations == before, "a warm call allocates %lld times",
     (long long)(cx_allocations - before));
  kda_ref w = kda_expect(d);
  check_verify(&v, &w);
  rd_context_destroy(cx);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"small", small, PT_QUICK},
      {"ragged", ragged, PT_QUICK},
      {"scale_and_bound", scale_and_bound, PT_QUICK},
      {"short_vectors", short_vectors, PT_QUICK},
      {"accept_up_to_capacity", accept_up_to_capacity, PT_QUICK},
      {"warm_calls", warm_calls, PT_QUICK},
      {"seventeen_heads", seventeen_heads, PT_STD},
      {"long_windows", long_windows, PT_STD},
      {"every_isa_and_thread_count", every_isa_and_thread_count, PT_STD},
      {"many_heads", many_heads, PT_FULL},
  };
  return pt_main(argc, argv, "op_replayssm", cases, PT_LEN(cases));
}
