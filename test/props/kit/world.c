/* One world = data, and what every verb has to make of it. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "world.h"

world *world_make(const data *d) {
  world *w = mem_heap(sizeof *w);
  const rd_problem *p = &d->p;
  w->d = d;
  w->w = mem_heap(Z(d->n) * sizeof *w->w);
  for (int64_t i = 0; i < d->n; i++) {
    expected *e = &w->w[i];
    int64_t T = d->s[i].len;
    e->out = fl(T * p->Hv * p->V);
    e->u = fl(T * p->Hv * p->V);
    e->k = fl(T * p->Hk * p->K);
    e->a = fl(T * p->Hv * (d->G ? d->G : 1));
    e->S = fl_copy(d->s[i].S0, data_state_n(d));
    c1_run(d, i, 0, T, e->S, e->out, e->u, e->k, e->a);
    round_all(p->out_dtype, e->out, T * p->Hv * p->V);
    round_all(p->state_dtype, e->S, data_state_n(d));
    round_all(p->record_dtype, e->u, T * p->Hv * p->V);
    round_all(p->record_dtype, e->k, T * p->Hk * p->K);
    round_all(p->decay_dtype, e->a, T * p->Hv * d->G);
  }
  return w;
}

double world_bound(const data *d, int64_t T) {
  double t = (double)T;
  return d->p.gate == RD_GATE_NONE ? 6e-6 * sqrt(fmax(1, t / 256)) + 6e-8 * t : 2e-6;
}

static double largest(const float *x, int64_t n) {
  double m = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i])) m = fmax(m, fabs((double)x[i]));
  return m;
}

/* (K+T) 2^-126 (1+max|q|)(1+max|k|)(1+max|v|): what flushing may take, term by term. The norm of a
 * vanishing vector multiplies what was lost of it by up to eps^-1/2. */
double world_abs(const data *d, int64_t T) {
  const rd_problem *p = &d->p;
  double q = 0, k = 0, v = 0;
  for (int64_t i = 0; i < d->n; i++) {
    const seqdata *s = &d->s[i];
    q = fmax(q, largest(s->q, s->len * p->Hk * p->K));
    k = fmax(k, largest(s->k, s->len * p->Hk * p->K));
    v = fmax(v, largest(s->v, s->len * p->Hv * p->V));
  }
  if (p->qk_norm == RD_QK_L2) q = k = 1;
  q *= p->has_scale ? fabs(p->scale) : 1 / sqrt((double)p->K);
  const double norm = p->qk_norm == RD_QK_L2 ? 1 / sqrt(fmin(1, p->l2_eps)) : 1;
  return norm * (double)(p->K + T) * 0x1p-126 * (1 + q) * (1 + k) * (1 + v);
}

void world_check_oracle(const world *w) {
  const data *d = w->d;
  const rd_problem *p = &d->p;
  for (int64_t i = 0; i < d->n; i++) {
    int64_t T = d->s[i].len, n = T * p->Hv * p->V;
    const expected *e = &w->w[i];
    double *S = db_from(d->s[i].S0, data_state_n(d)), *out = db(n), *u = db(n),
           *k = db(T * p->Hk * p->K), *a = db(T * p->Hv * (d->G ? d->G : 1)), b = world_bound(d, T),
           z = world_abs(d, T);
    orc_run(d, i, 0, T, ORC_DOUBLE, S, out, u, k, a);
    if (T == 0) continue;
    ck_close("out against the double oracle", e->out, out, T, p->Hv, p->V, b, z, p->out_dtype);
    ck_close("state against the double oracle", e->S, S, 1, p->Hv, p->V * p->K, b, z,
             p->state_dtype);
    ck_close("u against the double oracle", e->u, u, T, p->Hv, p->V, b, z, p->record_dtype);
    ck_close("k against the double oracle", e->k, k, T, p->Hk, p->K, b, z, p->record_dtype);
    if (d->G)
      ck_close("decay against the double oracle", e->a, a, T, p->Hv, d->G, b, z, p->decay_dtype);
  }
}

static void check_out(const char *verb, const world *w, const call *c) {
  char name[96];
  for (int64_t i = 0; i < c->B; i++) {
    int64_t n = c->pc[i].len * c->p.Hv * c->p.V;
    float *got = fl(n);
    call_out(c, i, got);
    snprintf(name, sizeof name, "%s: out of sequence %lld", verb, (long long)i);
    ck_bits(name, got, w->w[i].out, n);
  }
}

static void check_state(const char *verb, const pool *pl, int64_t slot, const float *want) {
  char name[96];
  int64_t n = pl->p.Hv * pl->p.V * pl->p.K;
  float *got = fl(n);
  pool_get(pl, slot, got);
  snprintf(name, sizeof name, "%s: state in slot %lld", verb, (long long)slot);
  ck_bits(name, got, want, n);
}

static void check_records(const char *verb, const world *w, const recs *r) {
  const rd_problem *p = &w->d->p;
  char name[96];
  for (int64_t i = 0; i < w->d->n; i++) {
    int64_t T = w->d->s[i].len, nu = T * p->Hv * p->V, nk = T * p->Hk * p->K, na = T * p->Hv * r->G;
    float *u = fl(nu), *k = fl(nk), *a = fl(na);
    recs_get(r, i, T, u, k, r->G ? a : NULL);
    snprintf(name, sizeof name, "%s: record of sequence %lld", verb, (long long)i);
    ck_bits(name, u, w->w[i].u, nu);
    ck_bits(name, k, w->w[i].k, nk);
    if (r->G) ck_bits(name, a, w->w[i].a, na);
  }
}

static pool *filled(const data *d) {
  pool *pl = pool_make(&d->p, d->n, 0);
  for (int64_t i = 0; i < d->n; i++) pool_put(pl, i, d->s[i].S0);
  return pl;
}

static float *committed(const world *w, int64_t i, int64_t m) {
  float *S = fl_copy(w->d->s[i].S0, data_state_n(w->d));
  c1_commit(w->d, m, w->w[i].u, w->w[i].k, w->w[i].a, S);
  round_all(w->d->p.state_dtype, S, data_state_n(w->d));
  return S;
}

void world_prefill(const world *w, rd_context *cx, const callopt *o) {
  const data *d = w->d;
  call *c = call_all(d, o);
  pool *from = filled(d), *to = pool_make(&d->p, d->n, 0);
  mem_readonly(from->t.b);
  rd_slots a = pool_view(from, d->n, NULL), b = pool_view(to, d->n, NULL);
  if (!do_prefill(cx, c, &a, &b)) return;
  check_out("prefill", w, c);
  for (int64_t i = 0; i < d->n; i++) check_state("prefill", to, i, w->w[i].S);
}

void world_decode(const world *w, rd_context *cx, const callopt *o) {
  const data *d = w->d;
  call *c = call_all(d, o);
  pool *pl = filled(d);
  rd_slots a = pool_view(pl, d->n, NULL);
  if (!do_decode(cx, c, &a, NULL, NULL)) return;
  check_out("decode", w, c);
  for (int64_t i = 0; i < d->n; i++) check_state("decode", pl, i, w->w[i].S);
}

/* verify, materialize, commit, and the folded verb on the committed states. */
void world_speculate(const world *w, rd_context *cx, const callopt *o) {
  const data *d = w->d;
  int64_t n = d->n, longest = 0;
  for (int64_t i = 0; i < n; i++)
    if (d->s[i].len > longest) longest = d->s[i].len;
  call *c = call_all(d, o);
  recs *r = recs_make(&d->p, n, longest + 2), *next = recs_make(&d->p, n, longest + 1);
  pool *pl = filled(d), *other = pool_make(&d->p, n, 0), *folded = filled(d);
  rd_slots at = pool_view(pl, n, NULL), to = pool_view(other, n, NULL),
           fo = pool_view(folded, n, NULL);
  mem_readonly(pl->t.b);
  if (!do_verify(cx, c, &at, r)) return;
  check_out("verify", w, c);
  check_records("verify", w, r);
  int32_t *m = mem_heap(Z(n) * sizeof *m);
  for (int64_t i = 0; i < n; i++) m[i] = (int32_t)rng_int(0, d->s[i].len);
  if (!do_materialize(cx, &c->p, r, m, &at, &to)) return;
  mem_writable(pl->t.b);
  if (!do_commit(cx, &c->p, r, m, &at)) return;
  for (int64_t i = 0; i < n; i++) {
    float *want = committed(w, i, m[i]);
    check_state("commit", pl, i, want);
    check_state("materialize", other, i, want);
  }
  call_dirty(c);
  r->r.made.consumed = 0;
  if (!do_commit_verify(cx, c, r, m, &fo, next)) return;
  for (int64_t i = 0; i < n; i++) {
    float *S = committed(w, i, m[i]);
    check_state("commit_verify", folded, i, S);
    int64_t no = d->s[i].len * d->p.Hv * d->p.V;
    float *out = fl(no), *got = fl(no);
    c1_run(d, i, 0, d->s[i].len, S, out, NULL, NULL, NULL);
    round_all(d->p.out_dtype, out, no);
    call_out(c, i, got);
    ck_bits("commit_verify: out", got, out, no);
  }
}

void world_all(const data *d, rd_context *cx, const callopt *o, bool oracle) {
  size_t mark = mem_mark();
  world *w = world_make(d);
  if (oracle) world_check_oracle(w);
  world_prefill(w, cx, o);
  world_decode(w, cx, o);
  world_speculate(w, cx, o);
  mem_release(mark);
}
