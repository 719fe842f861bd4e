/* fused_recurrent_kda: a snapshot after every token, where the indices say; start slots by accepted
 * counts; f32 and bf16 pools (the running state stays f32, each snapshot is rounded once); other
 * slots keep their bytes. SPDX-License-Identifier: Apache-2.0 */
#include "kit/kda.h"
#include "ref/ref.h"

typedef struct setup {
  rd_layout_qkv layout;
  rd_dtype type;
  int64_t R;               /* 0: the number of tokens */
  const int32_t *indices;  /* NULL: absent */
  const int32_t *accepted; /* NULL: absent */
} setup;

static void run(const data *d, const setup *s) {
  kda x = kda_make(d, s->layout, 0);
  const rd_problem *p = &d->p;
  rd_context *cx = cx_get(0, 2, EX_POOL);
  int64_t N = p->Hv, tokens = x.rows, n = data_state_n(d), R = s->R ? s->R : tokens;
  rd_problem q = *p;
  q.state_dtype = s->type;
  pool *pl = pool_make(&q, R, 0);
  float *all = fl(R * n), *S = fl(n);
  for (int64_t i = 0; i < R * n; i++) all[i] = dt_round(s->type, (float)(0.3 * rng_normal()));
  for (int64_t r = 0; r < R; r++) pool_put(pl, r, all + r * n);
  tb mixed = kda_mixed(&x), beta = kda_beta(&x, true), g = kda_g(&x), A = kda_weights(d->A, N, 0),
     dt = kda_weights(d->dt, N, KDA_D), out = kda_tensor(&x, RD_BF16, N, KDA_D), cu = {0},
     idx = {0}, acc = {0};
  rd_fused_recurrent_kda_params o;
  rd_fused_recurrent_kda_init(&o);
  o.mixedqkv = mixed.t;
  o.state = pl->t.t;
  o.beta = beta.t;
  o.g = g.t;
  o.A_log = A.t;
  o.dt_bias = dt.t;
  o.lower_bound = p->lower_bound;
  o.layout_qkv = s->layout;
  if (s->layout == RD_TND) cu = kda_cu(&x), o.cu_seqlens = cu.t;
  if (s->indices) idx = tb_i32(tokens, s->indices), o.ssm_state_indices = idx.t;
  if (s->accepted) acc = tb_i32(d->n, s->accepted), o.num_accepted_tokens = acc.t;
  o.out = out.t;
  double *ref_state = db(R * n), *ref_out = db(rdr_elements(&out.t)),
         *dense = db(rdr_elements(&out.t));
  CK(rdr_fused_recurrent_kda(RDR_C1 | RDR_ROUND, &o, ref_state, ref_out) == 0, "out of memory");
  void *before = blk_copy(pl->t.b);
  if (!CK_OK(cx, rd_fused_recurrent_kda(cx, &o))) return;
  float *got = fl(tokens * N * KDA_D), *want = fl(tokens * N * KDA_D), *snap = fl(n), *G = fl(n);
  for (int64_t b = 0; b < d->n; b++) {
    int64_t a = s->accepted && s->accepted[b] > 1 ? s->accepted[b] : 1, first = x.row0[b] + a - 1;
    memcpy(S, all + (s->indices ? s->indices[first] : first) * n, Z(n) * sizeof(float));
    for (int64_t t = 0; t < d->s[b].len; t++) {
      c1_run(d, b, t, 1, S, want + t * N * KDA_D, NULL, NULL, NULL);
      int64_t slot = s->indices ? s->indices[x.row0[b] + t] : x.row0[b] + t;
      memcpy(snap, S, Z(n) * sizeof(float));
      round_all(s->type, snap, n);
      pool_get(pl, slot, G);
      ck_bits("snapshot", G, snap, n);
      pool_allow(pl, slot, before);
    }
    int64_t no = d->s[b].len * N * KDA_D;
    round_all(RD_BF16, want, no);
    kda_get(&x, &out, b, N, KDA_D, got);
    ck_bits("out", got, want, no);
  }
  pool_check_rest("slots without a token", pl, before);
  rdr_dense(&out.t, dense);
  int64_t no = rdr_elements(&out.t);
  float *u = fl(no), *w = fl(no);
  for (int64_t i = 0; i < no; i++) u[i] = (float)dense[i], w[i] = (float)ref_out[i];
  ck_bits("out against the specification's operator", u, w, no);
}

static void each_layout(int64_t N, int64_t B, const int64_t *len, setup s) {
  bool equal = true;
  for (int64_t b = 1; b < B; b++) equal = equal && len[b] == len[0];
  rd_problem p = kda_problem(N, N, -5);
  for (int l = RD_BSND; l <= RD_TND; l++)
    for (int t = 0; t < 2; t++) {
      if (l != RD_TND && !equal) continue;
      size_t mark = mem_mark();
      s.layout = (rd_layout_qkv)l;
      s.type = t ? RD_BF16 : RD_F32;
      pt_note("%s N=%lld %s pool", kda_layout_name(s.layout), (long long)N, t ? "bf16" : "f32");
      run(data_make(&p, B, len), &s);
      mem_release(mark);
    }
}

static void defaults(void) {
  each_layout(2, 2, (int64_t[]){3, 3}, (setup){.R = 0});
  each_layout(1, 1, (int64_t[]){1}, (setup){.R = 0});
  each_layout(3, 3, (int64_t[]){2, 4, 1}, (setup){.R = 9});
}

static void drawn_slots(void) {
  static const int32_t idx[] = {11, 3, 0, 7, 9, 2};
  each_layout(2, 2, (int64_t[]){3, 3}, (setup){.R = 12, .indices = idx});
  each_layout(1, 3, (int64_t[]){1, 3, 2}, (setup){.R = 12, .indices = idx});
}

static void accepted_counts(void) {
  static const int32_t idx[] = {11, 3, 0, 7, 9, 2}, acc[] = {3, 2}, none[] = {0, 1},
                       three[] = {1, 0, 2};
  each_layout(2, 2, (int64_t[]){3, 3}, (setup){.R = 12, .indices = idx, .accepted = acc});
  each_layout(2, 2, (int64_t[]){3, 3}, (setup){.R = 6, .accepted = none});
  each_layout(1, 3, (int64_t[]){1, 3, 2}, (setup){.R = 12, .indices = idx, .accepted = three});
}

static void short_vectors(void) {
  rd_problem p = kda_problem(2, 2, -5);
  int64_t len[2] = {3, 3};
  data *d = data_make(&p, 2, len);
  kda_short(d);
  run(d, &(setup){.layout = RD_BSND, .type = RD_F32});
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"defaults", defaults, PT_QUICK},
      {"drawn_slots", drawn_slots, PT_QUICK},
      {"accepted_counts", accepted_counts, PT_QUICK},
      {"short_vectors", short_vectors, PT_QUICK},
  };
  return pt_main(argc, argv, "op_fused_recurrent", cases, PT_LEN(cases));
}
