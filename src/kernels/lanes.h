/* The `lanes` and `lanes_commit` kernels: values along the lanes of a vector, on states that lie key by
 * key. Included by a file of an instruction set, after it has defined
 *
 *   V, LANES, ONCE                 a vector of so many floats; vectors whose sums fit the registers
 *   part                           which lanes exist
 *   part v_part(left)              the first `left`
 *   V v_load(p, m), v_store(p, x, m)   the existing lanes; others read as 0
 *   V v_full(p), v_store_full(p, x)    all of them
 *   V v_set(x), v_add, v_sub, v_mul, v_fma(a, b, c)
 *
 * Nothing is summed across lanes: the tree of C1 is walked by leaf. Its leaf r is the chain over the keys
 * r, r + 16, ..; leaves come in the order in which the halving adds them (0 8, 4 12, ..), so that few
 * partial sums wait. A pad key adds +0 to its leaf, unless it is the leaf's first.
 *
 * Of several tokens, a tile of WIDE vectors of values is copied into a panel in the first pass and stays in
 * the first-level cache: the state's own rows may be far apart, in too few of its sets. One token takes
 * ONCE vectors of a row at a time, where they lie: memory likes long runs. */
#ifndef RDI_KERNELS_LANES_H
#define RDI_KERNELS_LANES_H

#include "kernels/kernel.h"

enum { WIDE = 2, TILE = WIDE * LANES, ROW = ONCE * LANES, MOST = ONCE };

typedef struct tile { /* rows of keys: where they are read, where they go */
  const float *in;
  float *out;
  int64_t in_stride, out_stride;
  part m[MOST];
} tile;

typedef struct update { /* by the token before: S <- fma(u, k, a S) */
  const float *k, *a;
  V u[MOST];
} update;

typedef struct sums {
  V k[MOST], q[MOST];
} sums;

/* What a pass does besides the sums, whether all lanes of its tile exist, and how many vectors it has:
 * known when compiled. */
typedef struct work {
  int update, store, full, wide;
} work;

RDI_INLINE V lane_in(const float *p, part m, int full) { return full ? v_full(p) : v_load(p, m); }
RDI_INLINE void lane_out(float *p, V x, part m, int full) {
  if (full)
    v_store_full(p, x);
  else
    v_store(p, x, m);
}

/* Key c: its values, updated, into s. */
RDI_INLINE void key(work w, const tile *t, const update *up, int64_t c, V s[MOST]) {
  V k = v_set(0.0f), a = k;
  if (w.update) k = v_set(up->k[c]), a = v_set(up->a[c]);
  RDI_UNROLL
  for (int j = 0; j < w.wide; j++) {
    s[j] = lane_in(t->in + c * t->in_stride + j * LANES, t->m[j], w.full);
    if (w.update) s[j] = v_fma(up->u[j], k, v_mul(a, s[j]));
    if (w.store) lane_out(t->out + c * t->out_stride + j * LANES, s[j], t->m[j], w.full);
  }
}

/* The keys r, r + 16, .. */
RDI_INLINE sums leaf(work w, const tile *t, const update *up, const float *kt, const float *qt,
                     int64_t r, int64_t K, int64_t Kp) {
  sums p;
  V s[MOST];
  RDI_UNROLL
  for (int j = 0; j < w.wide; j++) p.k[j] = p.q[j] = v_set(0.0f);
  if (r >= K) return p; /* nothing but pads */
  key(w, t, up, r, s);
  RDI_UNROLL
  for (int j = 0; j < w.wide; j++)
    p.k[j] = v_mul(s[j], v_set(kt[r])), p.q[j] = v_mul(s[j], v_set(qt[r]));
  for (int64_t c = r + 16; c < K; c += 16) {
    const V k = v_set(kt[c]), q = v_set(qt[c]);
    key(w, t, up, c, s);
    RDI_UNROLL
    for (int j = 0; j < w.wide; j++)
      p.k[j] = v_fma(s[j], k, p.k[j]), p.q[j] = v_fma(s[j], q, p.q[j]);
  }
  if (Kp - 16 + r < K) return p; /* no pad */
  RDI_UNROLL
  for (int j = 0; j < w.wide; j++)
    p.k[j] = v_add(p.k[j], v_set(0.0f)), p.q[j] = v_add(p.q[j], v_set(0.0f));
  return p;
}

RDI_INLINE sums both(work w, const sums *a, const sums *b) {
  sums s;
  RDI_UNROLL
  for (int j = 0; j < w.wide; j++)
    s.k[j] = v_add(a->k[j], b->k[j]), s.q[j] = v_add(a->q[j], b->q[j]);
  return s;
}

/* p[r] + p[r + 8]; with p[r + 4] + p[r + 12]; and so on. */
RDI_INLINE sums leaves2(work w, const tile *t, const update *up, const float *kt, const float *qt,
                        int64_t r, int64_t K, int64_t Kp) {
  const sums a = leaf(w, t, up, kt, qt, r, K, Kp), b = leaf(w, t, up, kt, qt, r + 8, K, Kp);
  return both(w, &a, &b);
}
RDI_INLINE sums leaves4(work w, const tile *t, const update *up, const float *kt, const float *qt,
                        int64_t r, int64_t K, int64_t Kp) {
  const sums a = leaves2(w, t, up, kt, qt, r, K, Kp), b = leaves2(w, t, up, kt, qt, r + 4, K, Kp);
  return both(w, &a, &b);
}

/* One pass over a tile: the update, where it goes, and both sums of every value. */
RDI_INLINE sums pass(work w, const tile *t, const update *up, const float *kt, const float *qt,
                     int64_t K, int64_t Kp) {
  sums half[2];
  for (int r = 0; r < 2; r++) {
    sums quarter[2];
    for (int i = 0; i < 2; i++) quarter[i] = leaves4(w, t, up, kt, qt, r + 2 * i, K, Kp);
    half[r] = both(w, &quarter[0], &quarter[1]);
  }
  return both(w, &half[0], &half[1]);
}

/* The next state comes near while this one is worked on: whole rows, some in every pass. */
typedef struct ahead {
  const float *at;
  int64_t stride, rows, step;
} ahead;

RDI_INLINE void bring(ahead *f, int64_t R) {
  for (int64_t i = 0; i < f->step && f->rows > 0; i++, f->rows--, f->at += f->stride)
    for (int64_t c = 0; c < R; c += 16) __builtin_prefetch(f->at + c, 0, 2);
}

/* The last token's update alone. */
RDI_INLINE void only_update(work w, const tile *t, const update *up, int64_t K, ahead *f,
                            int64_t R) {
  V s[MOST];
  for (int64_t c = 0; c < K; c++) {
    key(w, t, up, c, s);
    if (f) bring(f, R);
  }
}

/* u and o of token t. */
RDI_INLINE void finish(work w, const rdi_rows_args *g, int64_t r, int64_t t, const part *m,
                       const sums *y, V u[MOST]) {
  const V beta = v_set(g->beta[t]), kq = v_set(g->kq[t]);
  RDI_UNROLL
  for (int j = 0; j < w.wide; j++) {
    const int64_t at = r + j * LANES;
    u[j] = v_mul(beta, v_sub(v_load(g->v + t * g->v_stride + at, m[j]), y->k[j]));
    v_store(g->u + t * g->u_stride + at, u[j], m[j]);
    if (g->o) v_store(g->o + t * g->o_stride + at, v_fma(u[j], kq, y->q[j]), m[j]);
  }
}

RDI_INLINE tile tile_at(const rdi_rows_args *g, int64_t r, int wide) {
  tile t = {.in = g->s_in + r, .in_stride = g->in_stride};
  RDI_UNROLL
  for (int j = 0; j < wide; j++) t.m[j] = v_part(g->R - r - j * LANES);
  return t;
}

/* Several tokens: by way of a panel. */
RDI_INLINE void lanes_tile(const rdi_rows_args *g, int64_t r, int full, ahead *f) {
  enum { W = WIDE };
  tile t = tile_at(g, r, W);
  t.out = g->scratch, t.out_stride = TILE;
  bring(f, g->R);
  sums y = pass((work){0, 1, full, W}, &t, NULL, g->kt, g->qt, g->K, g->Kp);
  update up = {g->k, g->a, {y.k[0]}};
  finish((work){0, 0, full, W}, g, r, 0, t.m, &y, up.u);
  t.in = g->scratch, t.in_stride = TILE;
  for (int64_t i = 1; i < g->n; i++) {
    const float *kt = g->kt + i * g->Kp, *qt = g->qt + i * g->Kp;
    bring(f, g->R);
    y = i + 1 < g->n || g->s_out ? pass((work){1, 1, full, W}, &t, &up, kt, qt, g->K, g->Kp)
                                 : pass((work){1, 0, full, W}, &t, &up, kt, qt, g->K, g->Kp);
    up.k += g->Kp, up.a += g->Kp;
    finish((work){0, 0, full, W}, g, r, i, t.m, &y, up.u);
  }
  if (!g->s_out) return;
  t.out = g->s_out + r, t.out_stride = g->out_stride;
  only_update((work){1, 1, full, W}, &t, &up, g->K, NULL, 0);
}

/* One token: whole rows of keys, where they lie. */
RDI_INLINE void lanes_once(const rdi_rows_args *g, int64_t r, int full, ahead *f) {
  tile t = tile_at(g, r, ONCE);
  const sums y = pass((work){0, 0, full, ONCE}, &t, NULL, g->kt, g->qt, g->K, g->Kp);
  update up = {g->k, g->a, {y.k[0]}};
  finish((work){0, 0, full, ONCE}, g, r, 0, t.m, &y, up.u);
  t.out = g->s_out + r, t.out_stride = g->out_stride;
  if (g->s_out)
    only_update((work){1, 1, full, ONCE}, &t, &up, g->K, f, g->R);
  else
    bring(f, g->R);
}

RDI_INLINE void lanes_rows(const rdi_rows_args *g) {
  const int64_t width = g->n == 1 ? ROW : TILE, tiles = (g->R + width - 1) / width;
  const int64_t passes = tiles * (g->n > 1 ? g->n : g->s_out ? g->K : 1);
  ahead f = {g->next, g->in_stride, g->next ? g->K : 0, (g->K + passes - 1) / passes};
  for (int64_t r = 0; r < g->R; r += width) {
    const int full = r + width <= g->R;
    if (g->n == 1 && full)
      lanes_once(g, r, 1, &f);
    else if (g->n == 1)
      lanes_once(g, r, 0, &f);
    else if (full)
      lanes_tile(g, r, 1, &f);
    else
      lanes_tile(g, r, 0, &f);
  }
}

/* Key after key, whole rows: memory likes long runs. */
RDI_INLINE void commit_vectors(const rdi_commit_args *g, int64_t c, int64_t r, int full, int decay,
                               int wide) {
  const float *in = g->s_in + c * g->in_stride + r, *u = g->u + r;
  float *out = g->s_out + c * g->out_stride + r;
  part m[MOST];
  V s[MOST];
  RDI_UNROLL
  for (int j = 0; j < wide; j++) {
    m[j] = v_part(g->R - r - j * LANES);
    s[j] = lane_in(in + j * LANES, m[j], full);
  }
  for (int64_t i = 0; i < g->m; i++, u += g->u_stride) {
    const V k = v_set(g->k[i * g->Kp + c]), a = decay ? v_set(g->a[i * g->Kp + c]) : k;
    RDI_UNROLL
    for (int j = 0; j < wide; j++) {
      if (decay) s[j] = v_mul(a, s[j]);
      s[j] = v_fma(lane_in(u + j * LANES, m[j], full), k, s[j]);
    }
  }
  RDI_UNROLL
  for (int j = 0; j < wide; j++) lane_out(out + j * LANES, s[j], m[j], full);
}

RDI_INLINE void commit_keys(const rdi_commit_args *g, int decay) {
  ahead f = {g->next, g->in_stride, g->next ? g->K : 0, 1};
  for (int64_t c = 0; c < g->K; c++) {
    int64_t r = 0;
    for (; r + ROW <= g->R; r += ROW) commit_vectors(g, c, r, 1, decay, ONCE);
    for (; r < g->R; r += TILE) commit_vectors(g, c, r, 0, decay, WIDE);
    bring(&f, g->R);
  }
}

RDI_INLINE void lanes_commit_rows(const rdi_commit_args *g) {
  if (g->a)
    commit_keys(g, 1);
  else
    commit_keys(g, 0);
}

#endif
