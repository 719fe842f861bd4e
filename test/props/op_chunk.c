/* chunk_gated_delta_rule: the bits of C1 for every element type, with and without g, lengths from 0
 * to T, strided views, states KV in place. SPDX-License-Identifier: Apache-2.0 */
#include "kit/world.h"
#include "ref/ref.h"

typedef struct setup {
  rd_dtype type, state;
  bool g, in_place;
  int64_t Hk, Hv, K, V, extra;
  stride_mode view; /* ST_COMPACT, or ST_TOKEN2: [B,T,H,D] memory seen as [B,H,T,D] */
} setup;

static tb heads_first(const setup *s, rd_dtype t, int64_t B, int64_t H, int64_t T, int64_t n) {
  int64_t shape[4] = {B, H, T, n}, stride[4] = {T * H * n, n, H * n, 1};
  return tb_make(t, n ? 4 : 3, shape, n && s->view == ST_TOKEN2 ? stride : NULL);
}

static void fill(const tb *t, int64_t b, int64_t len, int64_t H, int64_t n, const float *src) {
  for (int64_t x = 0; x < len; x++)
    for (int64_t h = 0; h < H; h++) {
      if (n)
        tb_set_row(&t->t, b, h, x, n, src + (x * H + h) * n);
      else
        tb_set(&t->t, b, h, x, 0, src[x * H + h]);
    }
}

static rd_problem problem(const setup *s) {
  rd_problem p = pb_default();
  p.gate = s->g ? RD_GATE_LOG : RD_GATE_NONE;
  p.gate_axis = RD_PER_HEAD;
  p.Hk = s->Hk;
  p.Hv = s->Hv;
  p.K = s->K;
  p.V = s->V;
  p.qkv_dtype = p.beta_dtype = p.out_dtype = s->type;
  p.state_dtype = s->state;
  p.state_layout = RD_STATE_KV;
  p.has_scale = 1;
  p.scale = 1.0 / sqrt((double)s->K);
  return p;
}

static void check_out(const data *d, const tb *out, int64_t b, int64_t T, const float *want) {
  const rd_problem *p = &d->p;
  int64_t len = d->s[b].len, row = p->Hv * p->V;
  float *got = fl(T * row), *all = fl(T * row); /* rows past the length: +0 */
  memcpy(all, want, Z(len * row) * sizeof(float));
  for (int64_t t = 0; t < T; t++)
    for (int64_t h = 0; h < p->Hv; h++)
      tb_get_row(&out->t, b, h, t, p->V, got + (t * p->Hv + h) * p->V);
  ck_bits("out", got, all, T * row);
}

static void run(rd_context *cx, const setup *s, int64_t B, const int64_t *len) {
  size_t mark = mem_mark();
  rd_problem p = problem(s);
  char text[320];
  pb_describe(&p, text, sizeof text);
  pt_note("%s view %d in place %d", text, s->view, s->in_place);
  data *d = data_make(&p, B, len);
  int64_t T = s->extra, n = data_state_n(d);
  for (int64_t b = 0; b < B; b++)
    if (len[b] + s->extra > T) T = len[b] + s->extra;
  tb q = heads_first(s, s->type, B, s->Hk, T, s->K), k = heads_first(s, s->type, B, s->Hk, T, s->K),
     v = heads_first(s, s->type, B, s->Hv, T, s->V), beta = heads_first(s, s->type, B, s->Hv, T, 0),
     g = heads_first(s, RD_F32, B, s->Hv, T, 0), out = heads_first(s, s->type, B, s->Hv, T, s->V);
  pool *from = pool_make(&p, B, 0), *to = pool_make(&p, B, 0);
  int32_t *lens = mem_heap(Z(B) * sizeof *lens);
  for (int64_t b = 0; b < B; b++) {
    lens[b] = (int32_t)len[b];
    fill(&q, b, len[b], s->Hk, s->K, d->s[b].q);
    fill(&k, b, len[b], s->Hk, s->K, d->s[b].k);
    fill(&v, b, len[b], s->Hv, s->V, d->s[b].v);
    fill(&beta, b, len[b], s->Hv, 0, d->s[b].beta);
    if (s->g) fill(&g, b, len[b], s->Hv, 0, d->s[b].g);
    pool_put(from, b, d->s[b].S0);
  }
  const tb *in[] = {&q, &k, &v, &beta, &g};
  for (int i = 0; i < 5; i++) mem_readonly(in[i]->b);
  rd_chunk_gated_delta_rule_params o;
  rd_chunk_gated_delta_rule_init(&o);
  o.query = q.t;
  o.key = k.t;
  o.value = v.t;
  o.beta = beta.t;
  o.state = from->t.t;
  o.actual_seq_lengths = tb_i32(B, lens).t;
  if (s->g) o.g = g.t;
  o.scale_value = p.scale;
  o.out = out.t;
  o.final_state = s->in_place ? from->t.t : to->t.t;
  double *ro = db(rdr_elements(&out.t)), *rs = db(B * n), *dense = db(rdr_elements(&out.t));
  CK(rdr_chunk_gated_delta_rule(RDR_C1 | RDR_ROUND, &o, ro, rs) == 0, "out of memory");
  if (!s->in_place) mem_readonly(from->t.b);
  if (CK_OK(cx, rd_chunk_gated_delta_rule(cx, &o))) {
    world *w = world_make(d);
    float *S = fl(n);
    for (int64_t b = 0; b < B; b++) {
      check_out(d, &out, b, T, w->w[b].out);
      pool_get(s->in_place ? from : to, b, S);
      ck_bits("final_state", S, w->w[b].S, n);
    }
    world_check_oracle(w);
    rdr_dense(&out.t, dense);
    int64_t no = rdr_elements(&out.t);
    float *x = fl(no), *y = fl(no);
    for (int64_t i = 0; i < no; i++) x[i] = (float)dense[i], y[i] = (float)ro[i];
    ck_bits("out against the specification's operator", x, y, no);
  }
  mem_release(mark);
}

static void types(void) {
  static const int64_t len[3] = {5, 0, 3};
  for (int t = RD_F32; t <= RD_BF16; t++)
    for (int f32 = 0; f32 < 2; f32++)
      for (int g = 0; g < 2; g++)
        for (int64_t r = 1; r <= 3; r++) {
          setup s = {(rd_dtype)t, f32 ? RD_F32 : (rd_dtype)t,     g, r == 2, 2, 2 * r, 64, 32,
                     r - 1,       r == 3 ? ST_TOKEN2 : ST_COMPACT};
          run(cx_get(0, 2, EX_POOL), &s, 3, len);
        }
}

static void drawn(int64_t n) {
  for (int64_t i = 0; i < n && !pt_broken(); i++) {
    rd_dtype t = (rd_dtype)rng_int(RD_F32, RD_BF16);
    int64_t Hk = rng_int(1, 3), len[4];
    setup s = {t,
               rng_int(0, 1) ? RD_F32 : t,
               rng_int(0, 1),
               rng_int(0, 1),
               Hk,
               Hk * rng_int(1, 3),
               rng_int(16, 130),
               rng_int(16, 130),
               rng_int(0, 3),
               rng_int(0, 1) ? ST_COMPACT : ST_TOKEN2};
    for (int b = 0; b < 4; b++) len[b] = rng_int(0, 20);
    run(cx_get(0, (int)rng_int(1, 3), EX_POOL), &s, rng_int(1, 4), len);
  }
}

static void drawn_few(void) { drawn(6); }
static void drawn_some(void) { drawn(80); }
static void drawn_many(void) { drawn(1000); }

static void nothing(void) {
  setup s = {RD_F16, RD_F32, true, false, 1, 2, 32, 16, 0, ST_COMPACT};
  run(cx_get(0, 1, EX_POOL), &s, 2, (int64_t[]){0, 0});
  s.extra = 2;
  run(cx_get(0, 1, EX_POOL), &s, 2, (int64_t[]){0, 0});
}

/* The demo's shape: one head pair of the Qwen3.5 layer would do for bits; this is the whole of it.
 */
static void qwen_shape(void) {
  setup s = {RD_F16, RD_F16, true, false, 16, 32, 128, 128, 0, ST_COMPACT};
  run(cx_get(0, 2, EX_POOL), &s, 1, (int64_t[]){pt_level == PT_FULL ? 512 : 70});
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"types", types, PT_QUICK},         {"nothing", nothing, PT_QUICK},
      {"drawn_few", drawn_few, PT_QUICK}, {"drawn_some", drawn_some, PT_STD},
      {"qwen_shape", qwen_shape, PT_STD}, {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "op_chunk", cases, PT_LEN(cases));
}
