/* flash_kda and flash_kda_metadata: the bits of C1 in every layout, with and without a schedule,
 * grouped heads, per-batch lengths, zero lengths, states in place. SPDX-License-Identifier:
 * Apache-2.0 */
#include "kit/kda.h"
#include "ref/ref.h"

typedef struct flash {
  kda x;
  tb q, k, v, g, beta, state, A, dt, out, fin, cu, meta;
  rd_flash_kda_params p;
} flash;

static const float **pointers(const data *d, int which) {
  const float **p = mem_heap(Z(d->n) * sizeof *p);
  for (int64_t i = 0; i < d->n; i++)
    p[i] = which == 0 ? d->s[i].q : which == 1 ? d->s[i].k : d->s[i].v;
  return p;
}

static flash make(const data *d, rd_layout_qkv layout, int64_t S) {
  flash f = {.x = kda_make(d, layout, S)};
  const rd_problem *p = &d->p;
  tb *t[3] = {&f.q, &f.k, &f.v};
  for (int i = 0; i < 3; i++) {
    int64_t H = i < 2 ? p->Hk : p->Hv;
    *t[i] = kda_tensor(&f.x, RD_BF16, H, KDA_D);
    kda_put(&f.x, t[i], pointers(d, i), H, KDA_D, 0, H);
    mem_readonly(t[i]->b);
  }
  f.g = kda_g(&f.x);
  f.beta = kda_beta(&f.x, false);
  f.state = kda_state(&f.x);
  f.fin = tb_make(RD_F32, 4, f.state.t.shape, NULL);
  f.A = kda_weights(d->A, p->Hv, 0);
  f.dt = kda_weights(d->dt, p->Hv, KDA_D);
  f.out = kda_tensor(&f.x, RD_BF16, p->Hv, KDA_D);
  rd_flash_kda_init(&f.p);
  f.p.q = f.q.t;
  f.p.k = f.k.t;
  f.p.v = f.v.t;
  f.p.g = f.g.t;
  f.p.beta = f.beta.t;
  f.p.initial_state = f.state.t;
  f.p.A_log = f.A.t;
  f.p.dt_bias = f.dt.t;
  f.p.lower_bound = p->lower_bound;
  f.p.layout_qkv = layout;
  f.p.out = f.out.t;
  f.p.final_state = f.fin.t;
  if (p->has_scale) f.p.has_scale = 1, f.p.scale = p->scale;
  return f;
}

/* cu_type RD_ABSENT: the metadata of full lengths. */
static void schedule(flash *f, rd_context *cx, rd_dtype cu_type) {
  rd_flash_kda_metadata_params m;
  rd_flash_kda_metadata_init(&m);
  m.q = f->q.t;
  m.v = f->v.t;
  m.initial_state = f->state.t;
  m.q.data = m.v.data = m.initial_state.data = NULL; /* shapes only */
  m.layout_qkv = f->x.layout;
  if (cu_type == RD_I32) f->cu = kda_cu(&f->x);
  if (cu_type == RD_I64) f->cu = tb_i64(f->x.B + 1, f->x.row0);
  m.cu_seqlens = f->cu.t;
  int64_t n = -1;
  CK_OK(cx, rd_flash_kda_metadata_size(cx, &m, &n));
  CK(n > 0 && n < 100000000, "metadata of %lld numbers", (long long)n);
  if (n <= 0) return;
  f->meta = tb_make(RD_I32, 1, &n, NULL);
  m.metadata = f->meta.t;
  CK_OK(cx, rd_flash_kda_metadata(cx, &m));
  mem_readonly(f->meta.b);
  f->p.metadata = f->meta.t;
}

static void check(flash *f, rd_context *cx, const kda_ref *w, bool in_place) {
  const data *d = f->x.d;
  int64_t Hv = d->p.Hv, n = data_state_n(d);
  if (in_place)
    f->p.final_state = f->p.initial_state;
  else
    mem_readonly(f->state.b);
  if (!CK_OK(cx, rd_flash_kda(cx, &f->p))) return;
  const unsigned char *fin = in_place ? f->state.b->p : f->fin.b->p;
  for (int64_t b = 0; b < d->n; b++) {
    int64_t no = d->s[b].len * Hv * KDA_D;
    float *x = fl(no), *S = fl(n);
    kda_get(&f->x, &f->out, b, Hv, KDA_D, x);
    ck_bits("out", x, w->out[b], no);
    ck_near("out against the double oracle", x, w->dout[b], no, 0.005);
    memcpy(S, fin + Z(b * n) * sizeof(float), Z(n) * sizeof(float));
    ck_bits("final_state", S, w->S[b], n);
  }
  kda_check_pads(&f->x, &f->out);
}

static void check_reference(const flash *f) {
  int64_t n = rdr_elements(&f->out.t), ns = rdr_elements(&f->fin.t);
  double *out = db(n), *fin = db(ns), *mine = db(n);
  CK(rdr_flash_kda(RDR_C1 | RDR_ROUND, &f->p, f->cu.b ? &f->cu.t : NULL, out, fin) == 0,
     "out of memory");
  rdr_dense(&f->out.t, mine);
  float *x = fl(n), *y = fl(n);
  for (int64_t i = 0; i < n; i++) x[i] = (float)mine[i], y[i] = (float)out[i];
  ck_bits("out against the specification's operator", x, y, n);
}

static void layouts(int64_t Hk, int64_t Hv, int64_t B, const int64_t *len, int64_t S,
                    rd_problem p) {
  (void)Hk;
  size_t mark = mem_mark();
  rd_context *cx = cx_get(0, 2, EX_POOL);
  data *d = data_make(&p, B, len);
  kda_ref w = kda_expect(d);
  bool equal = S == 0;
  for (int64_t b = 1; b < B; b++) equal = equal && len[b] == len[0];
  for (int l = RD_BSND; l <= RD_TND; l++)
    for (int how = 0; how < 4;
         how++) { /* no metadata; of full lengths; of i32 and i64 prefix sums */
      bool lengths = how >= 2;
      if (!lengths && l == RD_TND && (B != 1 || how == 1)) continue;
      if (!lengths && l != RD_TND && !equal) continue;
      size_t inner = mem_mark();
      pt_note("%s Hv=%lld B=%lld len0=%lld metadata %d", kda_layout_name((rd_layout_qkv)l),
              (long long)Hv, (long long)B, (long long)len[0], how);
      flash f = make(d, (rd_layout_qkv)l, S);
      if (how) schedule(&f, cx, how == 2 ? RD_I32 : how == 3 ? RD_I64 : RD_ABSENT);
      check(&f, cx, &w, how == 3);
      if (how == 2) check_reference(&f);
      mem_release(inner);
    }
  mem_release(mark);
}

static void grouped_heads(void) {
  for (int64_t ratio = 1; ratio <= 3; ratio++)
    layouts(2, 2 * ratio, 2, (int64_t[]){5, 5}, 0, kda_problem(2, 2 * ratio, -5));
}

static void ragged(void) {
  layouts(2, 2, 3, (int64_t[]){5, 1, 7}, 0, kda_problem(2, 2, -5));
  layouts(1, 2, 3, (int64_t[]){5, 1, 7}, 9, kda_problem(1, 2, -5));
}

static void zero_lengths(void) {
  layouts(1, 1, 3, (int64_t[]){0, 6, 0}, 0, kda_problem(1, 1, -5));
  layouts(1, 1, 3, (int64_t[]){4, 0, 0}, 6, kda_problem(1, 1, -5));
}

static void scale_and_bound(void) {
  rd_problem p = kda_problem(1, 2, -2.25);
  p.has_scale = 1;
  p.scale = -0.5;
  layouts(1, 2, 1, (int64_t[]){20}, 0, p);
}

static void short_vectors(void) {
  rd_problem p = kda_problem(1, 2, -5);
  int64_t len[2] = {6, 3};
  data *d = data_make(&p, 2, len);
  kda_short(d);
  kda_ref w = kda_expect(d);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  flash f = make(d, RD_BNSD, 0);
  schedule(&f, cx, RD_I32);
  check(&f, cx, &w, false);
}

static void longer(void) { layouts(1, 2, 2, (int64_t[]){130, 64}, 140, kda_problem(1, 2, -5)); }

/* One schedule serves every layer of the same shapes, and changes no bit. */
static void one_schedule_many_layers(void) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  rd_problem p = kda_problem(2, 4, -5);
  int64_t len[2] = {6, 3};
  tb meta = {0}, cu = {0};
  for (int layer = 0; layer < 3; layer++) {
    data *d = data_make(&p, 2, len);
    kda_ref w = kda_expect(d);
    flash f = make(d, RD_BNSD, 8);
    if (layer == 0) {
      schedule(&f, cx, RD_I32);
      meta = f.meta;
      cu = f.cu;
    }
    f.meta = meta;
    f.cu = cu;
    f.p.metadata = meta.t;
    check(&f, cx, &w, false);
  }
}

static void every_isa_and_thread_count(void) {
  rd_problem p = kda_problem(1, 2, -5);
  int64_t len[2] = {17, 4};
  data *d = data_make(&p, 2, len);
  kda_ref w = kda_expect(d);
  uint32_t isa[8];
  int n = cx_isas(isa);
  for (int i = 0; i < n; i++)
    for (int t = 1; t <= 7; t += 3)
      for (int kind = EX_POOL; kind <= EX_HOSTILE; kind++) {
        pt_note("%s, %d threads, executor %d", cx_isa_name(isa[i]), t, kind);
        rd_context *cx = cx_get(isa[i], t, (ex_kind)kind);
        flash f = make(d, RD_BSND, 0);
        schedule(&f, cx, RD_I32);
        check(&f, cx, &w, false);
      }
}

static void warm_calls(void) {
  rd_problem p = kda_problem(1, 2, -5);
  int64_t len[1] = {9};
  data *d = data_make(&p, 1, len);
  kda_ref w = kda_expect(d);
  rd_context *cx = cx_fresh(0, 2, EX_POOL);
  flash f = make(d, RD_TND, 0);
  check(&f, cx, &w, false);
  int64_t before = cx_allocations;
  CK_OK(cx, rd_flash_kda(cx, &f.p));
  CK(cx_allocations == before, "a warm call allocates %lld times",
     (long long)(cx_allocations - before));
  rd_context_destroy(cx);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"grouped_heads", grouped_heads, PT_QUICK},
      {"ragged", ragged, PT_QUICK},
      {"zero_lengths", zero_lengths, PT_QUICK},
      {"scale_and_bound", scale_and_bound, PT_QUICK},
      {"short_vectors", short_vectors, PT_QUICK},
      {"one_schedule_many_layers", one_schedule_many_layers, PT_QUICK},
      {"warm_calls", warm_calls, PT_QUICK},
      {"longer", longer, PT_STD},
      {"every_isa_and_thread_count", every_isa_and_thread_count, PT_STD},
  };
  return pt_main(argc, argv, "op_flash_kda", cases, PT_LEN(cases));
}
