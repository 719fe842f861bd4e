/* P4 (E4): sequences, heads and pad rows do not see each other: permuting, adding or removing them,
 * changing layout, padding, slots or capacity leaves the bits of the others.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/kit.h"

static void note(const rd_problem *p) {
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s", s);
}

typedef struct alone {
  float *out, *S, *u, *k, *a;
} alone;

static alone run_alone(rd_context *cx, const data *d, int64_t s) {
  const rd_problem *p = &d->p;
  int64_t T = d->s[s].len, G = d->G ? d->G : 1;
  alone r = {fl(T * p->Hv * p->V), fl(data_state_n(d)), fl(T * p->Hv * p->V), fl(T * p->Hk * p->K),
             fl(T * p->Hv * G)};
  piece pc = {s, 0, T};
  call *c = call_make(d, &pc, 1, NULL);
  pool *from = pool_make(p, 1, 0), *to = pool_make(p, 1, 0);
  pool_put(from, 0, d->s[s].S0);
  rd_slots a = pool_view(from, 1, NULL), b = pool_view(to, 1, NULL);
  recs *x = recs_make(p, 1, T);
  do_prefill(cx, c, &a, &b);
  call_dirty(c);
  do_verify(cx, c, &a, x);
  call_out(c, 0, r.out);
  pool_get(to, 0, r.S);
  recs_get(x, 0, T, r.u, r.k, d->G ? r.a : NULL);
  return r;
}

static void compare_records(const data *d, const recs *x, int64_t b, int64_t s, const alone *w) {
  const rd_problem *p = &d->p;
  int64_t T = d->s[s].len, G = d->G ? d->G : 1;
  float *u = fl(T * p->Hv * p->V), *k = fl(T * p->Hk * p->K), *a = fl(T * p->Hv * G);
  recs_get(x, b, T, u, k, d->G ? a : NULL);
  ck_bits("u", u, w->u, T * p->Hv * p->V);
  ck_bits("k", k, w->k, T * p->Hk * p->K);
  if (d->G) ck_bits("decay", a, w->a, T * p->Hv * G);
}

/* A drawn selection of sequences, pad rows between, drawn slots, layout, padding and capacity. */
static void crowd(rd_context *cx, const data *d, const alone *w) {
  size_t mark = mem_mark();
  const rd_problem *p = &d->p;
  int64_t B = rng_int(1, 2 * d->n), slots = B + 3, C = 0;
  piece *pc = mem_heap(Z(B) * sizeof *pc);
  int32_t *idx = mem_heap(Z(B) * sizeof *idx), *free_slot = mem_heap(Z(slots) * sizeof *idx);
  for (int64_t i = 0; i < slots; i++) free_slot[i] = (int32_t)i;
  for (int64_t i = slots - 1; i > 0; i--) {
    int64_t j = rng_int(0, i);
    int32_t x = free_slot[i];
    free_slot[i] = free_slot[j];
    free_slot[j] = x;
  }
  callopt o = {.layout = rng_int(0, 1) ? RD_PADDED : RD_PACKED, .extra_T = rng_int(0, 3)};
  o.len_type = rng_int(0, 1) ? RD_I32 : RD_I64;
  pool *pl = pool_make(p, slots, 5);
  for (int64_t i = 0; i < B; i++) {
    int64_t s = rng_int(-1, d->n - 1);
    pc[i] = s < 0 ? (piece){-1, 0, rng_int(0, 3)} : (piece){s, 0, d->s[s].len};
    idx[i] = s < 0 ? p->pad_slot : free_slot[i];
    if (s >= 0) pool_put(pl, idx[i], d->s[s].S0);
    if (pc[i].len > C) C = pc[i].len;
  }
  call *c = call_make(d, pc, B, &o);
  recs *x = recs_make(p, B, C + rng_int(0, 4));
  rd_slots at = pool_view(pl, B, idx);
  void *before = blk_copy(pl->t.b);
  mem_readonly(pl->t.b);
  bool ok = do_verify(cx, c, &at, x);
  mem_writable(pl->t.b);
  call_dirty(c);
  ok = ok && do_prefill(cx, c, &at, &at);
  float *S = fl(data_state_n(d));
  for (int64_t i = 0; ok && i < B; i++) {
    int64_t s = pc[i].seq;
    if (s < 0) continue;
    float *out = fl(pc[i].len * p->Hv * p->V);
    call_out(c, i, out);
    ck_bits("out", out, w[s].out, pc[i].len * p->Hv * p->V);
    pool_get(pl, idx[i], S);
    ck_bits("state", S, w[s].S, data_state_n(d));
    pool_allow(pl, idx[i], before);
    compare_records(d, x, i, s, &w[s]);
  }
  pool_check_rest("slots of nobody", pl, before);
  mem_release(mark);
}

static void crowds(int64_t worlds, int64_t each) {
  for (int64_t i = 0; i < worlds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    note(&p);
    int64_t len[4] = {rng_int(1, 7), rng_int(1, 20), rng_int(0, 5), 3};
    data *d = data_make(&p, 4, len);
    alone w[4];
    for (int s = 0; s < 4; s++) w[s] = run_alone(cx_get(0, 1, EX_POOL), d, s);
    for (int64_t e = 0; e < each && !pt_broken(); e++)
      crowd(cx_get(0, (int)rng_int(1, 3), EX_POOL), d, w);
    mem_release(mark);
  }
}

static void crowds_few(void) { crowds(8, 3); }
static void crowds_some(void) { crowds(60, 6); }
static void crowds_many(void) { crowds(600, 10); }

/* dst head h of every per-head array := src head map[h]. */
static void take_heads(float *dst, const float *src, int64_t rows, int64_t Hd, int64_t Hs,
                       int64_t n, const int64_t *map) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < Hd; h++)
      memcpy(dst + (r * Hd + h) * n, src + (r * Hs + map[h]) * n, Z(n) * sizeof(float));
}

/* The problem with a subset (in any order) of key-head groups. */
static data *with_groups(const data *d, int64_t groups, const int64_t *g) {
  const rd_problem *p = &d->p;
  int64_t ratio = p->Hv / p->Hk, hv[16], G = d->G ? d->G : 1;
  for (int64_t h = 0; h < groups * ratio; h++)
    hv[h] = p->head_map == RD_HEADS_GROUPED ? g[h / ratio] * ratio + h % ratio
                                            : h / groups * p->Hk + g[h % groups];
  data *e = mem_heap(sizeof *e);
  *e = *d;
  e->p.Hk = groups;
  e->p.Hv = groups * ratio;
  e->s = mem_heap(Z(d->n) * sizeof *e->s);
  e->A = fl(e->p.Hv);
  e->dt = fl(e->p.Hv * G);
  take_heads(e->A, d->A, 1, e->p.Hv, p->Hv, 1, hv);
  take_heads(e->dt, d->dt, 1, e->p.Hv, p->Hv, G, hv);
  for (int64_t i = 0; i < d->n; i++) {
    const seqdata *s = &d->s[i];
    seqdata *t = &e->s[i];
    int64_t T = t->len = s->len;
    t->q = fl(T * groups * p->K);
    t->k = fl(T * groups * p->K);
    t->v = fl(T * e->p.Hv * p->V);
    t->beta = fl(T * e->p.Hv);
    t->S0 = fl(e->p.Hv * p->V * p->K);
    take_heads(t->q, s->q, T, groups, p->Hk, p->K, g);
    take_heads(t->k, s->k, T, groups, p->Hk, p->K, g);
    take_heads(t->v, s->v, T, e->p.Hv, p->Hv, p->V, hv);
    take_heads(t->beta, s->beta, T, e->p.Hv, p->Hv, 1, hv);
    take_heads(t->S0, s->S0, 1, e->p.Hv, p->Hv, p->V * p->K, hv);
    if (d->G) {
      t->g = fl(T * e->p.Hv * G);
      take_heads(t->g, s->g, T, e->p.Hv, p->Hv, G, hv);
    }
  }
  return e;
}

static void heads(void) {
  for (int i = 0; i < (pt_level ? 40 : 8) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    p.Hk = 3;
    p.Hv = 3 * rng_int(1, 3);
    note(&p);
    int64_t len[2] = {rng_int(1, 9), rng_int(1, 9)}, ratio = p.Hv / 3;
    data *d = data_make(&p, 2, len);
    static const int64_t pick[][3] = {{2, 0, 1}, {1, 0, 0}, {2, 0, 0}}, count[] = {3, 2, 1};
    int which = i % 3;
    data *e = with_groups(d, count[which], pick[which]);
    result all = run_prefill_all(cx_get(0, 2, EX_POOL), d, NULL),
           got = run_prefill_all(cx_get(0, 2, EX_POOL), e, NULL);
    int64_t hv[16], H = e->p.Hv, c = count[which];
    for (int64_t h = 0; h < H; h++)
      hv[h] = p.head_map == RD_HEADS_GROUPED ? pick[which][h / ratio] * ratio + h % ratio
                                             : h / c * 3 + pick[which][h % c];
    result want = {mem_heap(2 * sizeof(float *)), mem_heap(2 * sizeof(float *))};
    for (int s = 0; s < 2; s++) {
      want.out[s] = fl(len[s] * H * p.V);
      want.S[s] = fl(H * p.V * p.K);
      take_heads(want.out[s], all.out[s], len[s], H, p.Hv, p.V, hv);
      take_heads(want.S[s], all.S[s], 1, H, p.Hv, p.V * p.K, hv);
    }
    ck_result("heads alone = heads among others", e, got, want);
    mem_release(mark);
  }
}

/* Tiled and grouped are the same with one value head per key head, and permutations otherwise. */
static void head_maps(void) {
  rd_problem p = pb_default();
  p.Hk = p.Hv = 3;
  int64_t len[2] = {5, 3};
  data *d = data_make(&p, 2, len);
  result a = run_prefill_all(cx_get(0, 2, EX_POOL), d, NULL);
  d->p.head_map = RD_HEADS_TILED;
  ck_result("tiled = grouped for Hv = Hk", d, run_prefill_all(cx_get(0, 2, EX_POOL), d, NULL), a);
}

/* GDN is KDA with a gate constant over the channels, bit for bit. */
static void gdn_is_constant_kda(void) {
  for (int gate = RD_GATE_LOG; gate <= RD_GATE_DECAY; gate++) {
    rd_problem p = pb_default();
    p.gate = (rd_gate)gate;
    p.gate_axis = RD_PER_HEAD;
    int64_t len[2] = {5, 33};
    data *d = data_make(&p, 2, len);
    result want = run_prefill_all(cx_get(0, 2, EX_POOL), d, NULL);
    data e = *d;
    e.p.gate_axis = RD_PER_CHANNEL;
    e.G = p.K;
    e.s = mem_heap(2 * sizeof *e.s);
    e.dt = fl(p.Hv * p.K);
    for (int64_t i = 0; i < p.Hv * p.K; i++) e.dt[i] = d->dt[i / p.K];
    for (int s = 0; s < 2; s++) {
      e.s[s] = d->s[s];
      e.s[s].g = fl(len[s] * p.Hv * p.K);
      for (int64_t i = 0; i < len[s] * p.Hv * p.K; i++) e.s[s].g[i] = d->s[s].g[i / p.K];
    }
    pt_note("gate %d", gate);
    ck_result("per head = per channel", d, run_prefill_all(cx_get(0, 2, EX_POOL), &e, NULL), want);
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"crowds_few", crowds_few, PT_QUICK}, {"heads", heads, PT_QUICK},
      {"head_maps", head_maps, PT_QUICK},   {"gdn_is_constant_kda", gdn_is_constant_kda, PT_QUICK},
      {"crowds_some", crowds_some, PT_STD}, {"crowds_many", crowds_many, PT_FULL},
  };
  return pt_main(argc, argv, "p04_independence", cases, PT_LEN(cases));
}
