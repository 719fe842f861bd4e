/* P17 (E5): a draft tree is verified exactly. Outputs and records of every node are those of plain
 * decoding along its root path; the commit of every node leaves the state of that path; chains spelled
 * as trees are chains. The checkpoint lies in a read-only page. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/tree.h"
#include "ref/ref.h"

enum { MAX_B = 5 };

/* ------------------------------------------------------------------ expectations ------------- */
typedef struct wanted {   /* of one sequence, every node */
  float *out, *u, *k, *a; /* as the reference has them; records not yet rounded */
  float **S;              /* S[i]: after node i, from S0 */
} wanted;

static void token_of(const data *d, int64_t s, int64_t i, float *S, wanted *w) {
  const rd_problem *p = &d->p;
  c1_run(d, s, i, 1, S, w->out + i * p->Hv * p->V, w->u + i * p->Hv * p->V, w->k + i * p->Hk * p->K,
         w->a ? w->a + i * p->Hv * d->G : NULL);
}

/* `S0`: the state that roots start from. */
static wanted walk_paths(const data *d, int64_t s, const int32_t *parents, const float *S0) {
  const rd_problem *p = &d->p;
  const int64_t n = d->s[s].len;
  wanted w = {fl(n * p->Hv * p->V), fl(n * p->Hv * p->V), fl(n * p->Hk * p->K),
              d->G ? fl(n * p->Hv * d->G) : NULL, mem_heap(Z(n + 1) * sizeof(float *))};
  for (int64_t i = 0; i < n; i++) {
    w.S[i] = fl_copy(parents[i] < 0 ? S0 : w.S[parents[i]], data_state_n(d));
    token_of(d, s, i, w.S[i], &w);
  }
  return w;
}

/* The state that a commit of `node` leaves: records as stored, rounded once at the end. */
static float *committed(const data *d, const wanted *w, const int32_t *parents, int64_t node,
                        const float *S0) {
  const rd_problem *p = &d->p;
  const int64_t nu = p->Hv * p->V, nk = p->Hk * p->K, na = p->Hv * d->G;
  float *S = fl_copy(S0, data_state_n(d)), *u = fl(nu), *k = fl(nk), *a = fl(na + 1);
  int64_t *path = mem_heap(Z(node + 2) * sizeof *path), m = tree_path(parents, node, path);
  for (int64_t i = 0; i < m; i++) {
    memcpy(u, w->u + path[i] * nu, Z(nu) * sizeof *u);
    memcpy(k, w->k + path[i] * nk, Z(nk) * sizeof *k);
    if (na) memcpy(a, w->a + path[i] * na, Z(na) * sizeof *a);
    round_all(p->record_dtype, u, nu);
    round_all(p->record_dtype, k, nk);
    round_all(p->decay_dtype, a, na);
    c1_commit(d, 1, u, k, na ? a : NULL, S);
  }
  if (m) round_all(p->state_dtype, S, data_state_n(d));
  return S;
}

static void ck_verify(const call *c, const recs *r, int64_t b, const wanted *w) {
  const data *d = c->d;
  const rd_problem *p = &d->p;
  const int64_t n = c->pc[b].len, nu = n * p->Hv * p->V, nk = n * p->Hk * p->K,
                na = n * p->Hv * d->G;
  float *out = fl(nu), *u = fl(nu), *k = fl(nk), *a = fl(na + 1);
  call_out(c, b, out);
  recs_get(r, b, n, u, k, d->G ? a : NULL);
  float *wo = fl_copy(w->out, nu), *wu = fl_copy(w->u, nu), *wk = fl_copy(w->k, nk);
  round_all(p->out_dtype, wo, nu);
  round_all(p->record_dtype, wu, nu);
  round_all(p->record_dtype, wk, nk);
  ck_bits("out of every node", out, wo, nu);
  ck_bits("u of every node", u, wu, nu);
  ck_bits("k of every node", k, wk, nk);
  if (!d->G) return;
  float *wa = fl_copy(w->a, na);
  round_all(p->decay_dtype, wa, na);
  ck_bits("decay of every node", a, wa, na);
}

/* ------------------------------------------------------------------ a batch of trees --------- */
typedef struct batch {
  data *d;
  int64_t B;
  int32_t *trees[MAX_B];
  wanted w[MAX_B];
  piece pc[MAX_B];
  call *c;
  pool *pl;
  rd_slots at;
  recs *r;
} batch;

static batch batch_make(const rd_problem *p, int64_t B, const int64_t *len, const tree_kind *kinds,
                        int64_t pad, const callopt *o) {
  batch x = {.d = data_make(p, B, len), .B = B};
  int32_t slots[MAX_B];
  x.pl = pool_make(p, B + 2, 5);
  for (int64_t b = 0; b < B; b++) {
    x.trees[b] = tree_make(kinds[b], len[b]);
    x.pc[b] = (piece){b == pad ? -1 : b, 0, len[b]};
    slots[b] = b == pad ? p->pad_slot : (int32_t)(B - b);
    pool_put(x.pl, B - b, x.d->s[b].S0);
    if (b != pad) x.w[b] = walk_paths(x.d, b, x.trees[b], x.d->s[b].S0);
  }
  x.c = call_make(x.d, x.pc, B, o);
  call_trees(x.c, x.trees);
  x.at = pool_view(x.pl, B, slots);
  int64_t longest = 0;
  for (int64_t b = 0; b < B; b++) longest = len[b] > longest ? len[b] : longest;
  x.r = recs_make(p, B, longest + rng_int(0, 3));
  recs_trees(x.r);
  return x;
}

static void batch_verify(batch *x, rd_context *cx) {
  mem_readonly(x->pl->t.b);
  do_verify(cx, x->c, &x->at, x->r);
  mem_writable(x->pl->t.b);
  CK(x->r->r.made.tree == 1, "records of trees are not marked so");
  recs_check_trees(x->r, x->trees);
  for (int64_t b = 0; b < x->B; b++)
    if (x->pc[b].seq >= 0) ck_verify(x->c, x->r, b, &x->w[b]);
}

static recs *copy_records(const recs *r) {
  recs *x = recs_make(&r->p, r->B, r->C);
  recs_trees(x);
  const tb *from[4] = {&r->u, &r->k, &r->decay, &r->parents};
  tb *to[4] = {&x->u, &x->k, &x->decay, &x->parents};
  for (int i = 0; i < 4; i++)
    if (from[i]->b) memcpy(to[i]->b->p, from[i]->b->p, from[i]->b->bytes);
  memcpy(x->lengths->p, r->lengths->p, r->lengths->bytes);
  x->r.made = r->r.made;
  return x;
}

static void ck_states(const batch *x, const pool *pl, const int32_t *accepted, const char *what) {
  float *S = fl(data_state_n(x->d));
  for (int64_t b = 0; b < x->B; b++) {
    if (x->pc[b].seq < 0) continue;
    pool_get(pl, x->B - b, S);
    ck_bits(what, S,
            committed(x->d, &x->w[b], x->trees[b], (int64_t)accepted[b] - 1, x->d->s[b].S0),
            data_state_n(x->d));
  }
}

/* accepted = m for all that have so many nodes, else any. */
static void choose(const batch *x, int64_t m, int32_t *accepted) {
  for (int64_t b = 0; b < x->B; b++) {
    const int64_t n = x->pc[b].seq < 0 ? 0 : x->pc[b].len;
    accepted[b] = (int32_t)(m <= n ? m : rng_int(0, n));
  }
}

static void commit_nodes(batch *x, rd_context *cx, int64_t step) {
  void *start = blk_copy(x->pl->t.b);
  pool *other = pool_make(&x->d->p, x->B + 2, 0);
  int32_t slots[MAX_B], accepted[MAX_B];
  for (int64_t b = 0; b < x->B; b++)
    slots[b] = x->pc[b].seq < 0 ? x->d->p.pad_slot : (int32_t)(x->B - b);
  rd_slots to = pool_view(other, x->B, slots);
  for (int64_t m = 0; m <= x->r->C && !pt_broken(); m += step) {
    size_t mark = mem_mark();
    choose(x, m, accepted);
    recs *r = copy_records(x->r);
    const blk *all[] = {r->u.b, r->k.b, r->decay.b, r->parents.b};
    for (int i = 0; i < 4; i++)
      if (all[i]) mem_readonly(all[i]);
    memcpy(x->pl->t.b->p, start, x->pl->t.b->bytes);
    mem_readonly(x->pl->t.b);
    do_materialize(cx, &x->c->p, r, accepted, &x->at, &to);
    mem_writable(x->pl->t.b);
    ck_states(x, other, accepted, "materialize of a node = its path");
    do_commit(cx, &x->c->p, r, accepted, &x->at);
    ck_states(x, x->pl, accepted, "commit of a node = its path");
    for (int64_t b = 0; b < x->B; b++)
      if (x->pc[b].seq >= 0) pool_allow(x->pl, x->B - b, start);
    pool_check_rest("commit writes its slots alone", x->pl, start);
    memcpy(start, x->pl->t.b->p, x->pl->t.b->bytes);
    for (int64_t b = 0; b < x->B; b++) pool_put(x->pl, x->B - b, x->d->s[b].S0);
    memcpy(start, x->pl->t.b->p, x->pl->t.b->bytes);
    mem_release(mark);
  }
}

/* commit_verify: the path to any node of each tree, then trees of the same tokens once more. */
static void fold_trees(batch *x, rd_context *cx) {
  int32_t accepted[MAX_B];
  choose(x, rng_int(0, x->r->C), accepted);
  recs *next = recs_make(&x->d->p, x->B, x->r->C);
  recs_trees(next);
  for (int64_t b = 0; b < x->B; b++) pool_put(x->pl, x->B - b, x->d->s[b].S0);
  batch y = *x;
  for (int64_t b = 0; b < x->B; b++)
    if (x->pc[b].seq >= 0) {
      float *S = committed(x->d, &x->w[b], x->trees[b], (int64_t)accepted[b] - 1, x->d->s[b].S0);
      y.trees[b] = tree_make((tree_kind)rng_int(0, TREE_KINDS - 1), x->pc[b].len);
      y.w[b] = walk_paths(x->d, b, y.trees[b], S);
    }
  call_dirty(x->c);
  call_trees(x->c, y.trees);
  do_commit_verify(cx, x->c, copy_records(x->r), accepted, &x->at, next);
  ck_states(x, x->pl, accepted, "commit_verify commits the path");
  recs_check_trees(next, y.trees);
  for (int64_t b = 0; b < x->B; b++)
    if (x->pc[b].seq >= 0) ck_verify(x->c, next, b, &y.w[b]);
}

static void everything(batch *x, rd_context *cx, int64_t step) {
  batch_verify(x, cx);
  commit_nodes(x, cx, step);
  fold_trees(x, cx);
}

static void note(const rd_problem *p, const char *more) {
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s %s", s, more);
}

/* ------------------------------------------------------------------ cases -------------------- */
static void kda_and_gdn(void) {
  for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++)
    for (int gate = RD_GATE_NONE; gate <= RD_GATE_DECAY; gate++)
      for (int kind = 0; kind < TREE_KINDS && !pt_broken(); kind++) {
        size_t mark = mem_mark();
        rd_problem p = pb_default();
        p.gate = (rd_gate)gate;
        p.gate_axis = (rd_gate_axis)axis;
        p.record_dtype = kind % 2 ? RD_F16 : RD_F32;
        p.decay_dtype = kind % 3 ? RD_F32 : RD_F16;
        note(&p, tree_name((tree_kind)kind));
        const int64_t len = 13;
        batch x = batch_make(&p, 1, &len, (tree_kind[]){(tree_kind)kind}, -1, NULL);
        everything(&x, cx_get(0, 2, EX_POOL), 3);
        mem_release(mark);
      }
}

/* The library's own decode along every path: each node from its parent's state. */
static void plain_decoding(void) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  for (int kind = 0; kind < TREE_KINDS && !pt_broken(); kind++) {
    size_t mark = mem_mark();
    rd_problem p = pb_default();
    const int64_t n = 21;
    batch x = batch_make(&p, 1, &n, (tree_kind[]){(tree_kind)kind}, -1, NULL);
    batch_verify(&x, cx);
    const int64_t row = p.Hv * p.V;
    float *got = fl(n * row), *out = fl(row), *S = fl(data_state_n(x.d));
    call_out(x.c, 0, got);
    pool *pl = pool_make(&p, n + 1, 0);
    pool_put(pl, 0, x.d->s[0].S0);
    for (int32_t i = 0; i < n && !pt_broken(); i++) {
      piece pc = {0, i, 1};
      call *c = call_make(x.d, &pc, 1, NULL);
      rd_slots from = pool_view(pl, 1, (int32_t[]){x.trees[0][i] + 1});
      rd_slots to = pool_view(pl, 1, (int32_t[]){i + 1});
      do_decode(cx, c, &from, &to, NULL);
      call_out(c, 0, out);
      ck_bits("out of a node = decoding its path", got + i * row, out, row);
    }
    for (int32_t i = 0; i < n && !pt_broken(); i++) {
      pool_put(x.pl, 1, x.d->s[0].S0);
      do_commit(cx, &x.c->p, copy_records(x.r), (int32_t[]){i + 1}, &x.at);
      float *want = fl(data_state_n(x.d));
      pool_get(x.pl, 1, S);
      pool_get(pl, i + 1, want);
      ck_bits("commit of a node = decoding its path", S, want, data_state_n(x.d));
    }
    mem_release(mark);
  }
}

/* The specification, given the same structs. */
static void reference(void) {
  for (int i = 0; i < 8 && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    p.state_dtype = RD_F32;
    int64_t len[3] = {rng_int(1, 20), rng_int(0, 5), rng_int(1, 9)};
    tree_kind kinds[3];
    for (int b = 0; b < 3; b++) kinds[b] = (tree_kind)rng_int(0, TREE_KINDS - 1);
    batch x = batch_make(&p, 3, len, kinds, -1, NULL);
    note(&p, "against src/ref");
    rd_context *cx = cx_get(0, 2, EX_POOL);
    batch_verify(&x, cx);
    const int64_t n = p.layout == RD_PACKED ? x.c->T * p.Hv * p.V : 3 * x.c->T * p.Hv * p.V;
    const int64_t size = data_state_n(x.d);
    rdr_results res = {.out = db(n), .state = db(3 * size)};
    CK(rdr_verify(RDR_C1 | RDR_ROUND, &x.c->p, &x.c->seq, &x.c->act, &x.at, &res) == 0, "memory");
    for (int64_t b = 0, at = 0; b < 3; at += len[b++] * p.Hv * p.V) {
      const int64_t first = p.layout == RD_PACKED ? at : b * x.c->T * p.Hv * p.V;
      float *got = fl(len[b] * p.Hv * p.V), *want = fl(len[b] * p.Hv * p.V);
      call_out(x.c, b, got);
      for (int64_t j = 0; j < len[b] * p.Hv * p.V; j++) want[j] = (float)res.out[first + j];
      ck_bits("out = the specification's", got, want, len[b] * p.Hv * p.V);
    }
    int32_t accepted[3];
    choose(&x, rng_int(0, 20), accepted);
    rd_tensor acc = tb_i32(3, accepted).t;
    CK(rdr_commit(RDR_C1 | RDR_ROUND, &x.c->p, &x.r->r, &acc, &x.at, &res) == 0, "memory");
    do_commit(cx, &x.c->p, x.r, accepted, &x.at);
    for (int64_t b = 0; b < 3; b++) {
      float *got = fl(size), *want = fl(size);
      pool_get(x.pl, 3 - b, got);
      for (int64_t j = 0; j < size; j++) want[j] = (float)res.state[b * size + j];
      ck_bits("state = the specification's", got, want, size);
    }
    mem_release(mark);
  }
}

static void draw_batch(int64_t longest, rd_context *cx, int64_t step) {
  size_t mark = mem_mark();
  rd_problem p = pb_random();
  const int64_t B = rng_int(1, MAX_B);
  int64_t len[MAX_B];
  tree_kind kinds[MAX_B];
  callopt o = {.extra_T = rng_int(0, 2),
               .len_type = rng_int(0, 1) ? RD_I32 : RD_I64,
               .strides = (stride_mode)rng_int(ST_COMPACT, ST_CHANNELS_FIRST)};
  for (int64_t b = 0; b < B; b++) {
    len[b] = rng_int(0, 4) ? rng_int(1, longest) : 0;
    kinds[b] = (tree_kind)rng_int(0, TREE_KINDS - 1);
  }
  char s[320];
  int at = 0;
  for (int64_t b = 0; b < B; b++)
    at += snprintf(s + at, sizeof s - Z(at), " %s of %lld", tree_name(kinds[b]), (long long)len[b]);
  note(&p, s);
  batch x = batch_make(&p, B, len, kinds, rng_int(-1, B - 1), &o);
  everything(&x, cx, step);
  mem_release(mark);
}

static void drawn(int n) {
  for (int i = 0; i < n && !pt_broken(); i++)
    draw_batch(i % 4 ? 20 : 64, cx_get(0, (int)rng_int(1, 3), EX_POOL), i % 4 ? 4 : 17);
}
static void drawn_few(void) { drawn(25); }
static void drawn_some(void) { drawn(120); }
static void drawn_many(void) { drawn(3000); }

/* Every instruction set, thread count and executor. */
static void everywhere(void) {
  static const int threads[] = {1, 2, 3, 7, 16};
  uint32_t isa[8];
  const int n = cx_isas(isa);
  for (int i = 0; i < n; i++)
    for (size_t t = 0; t < PT_LEN(threads); t++)
      for (int kind = EX_POOL; kind <= EX_HOSTILE && !pt_broken(); kind++)
        for (int j = 0; j < (pt_level == PT_FULL ? 6 : 2); j++)
          draw_batch(24, cx_get(isa[i], threads[t], (ex_kind)kind), 5);
}

/* Work that the built-in pool really shares out, rows cut into blocks. */
static void worth_sharing(void) {
  for (int Hv = 1; Hv <= 8 && !pt_broken(); Hv += 7)
    for (int threads = 1; threads <= 16; threads += 5) {
      size_t mark = mem_mark();
      rd_problem p = pb_default();
      p.Hk = 1;
      p.Hv = Hv;
      p.K = Hv == 1 ? 100 : 128;
      p.V = Hv == 1 ? 512 : 128;
      note(&p, "shared out");
      const int64_t len[2] = {40, 33};
      batch x = batch_make(&p, 2, len, (tree_kind[]){TREE_BFS, TREE_ATTACHED}, -1, NULL);
      everything(&x, cx_get(0, threads, EX_POOL), 19);
      mem_release(mark);
    }
}

/* More nodes than are prepared at once; then a small one again in the arena that has grown. */
static void large(void) {
  for (int kind = 0; kind < TREE_KINDS && !pt_broken(); kind++) {
    size_t mark = mem_mark();
    rd_problem p = pb_default();
    p.state_layout = kind % 2 ? RD_STATE_VK : RD_STATE_KV;
    p.V = 40;
    note(&p, tree_name((tree_kind)kind));
    const int64_t len[3] = {300, 13, kind % 3 ? 65 : 64};
    tree_kind kinds[3] = {(tree_kind)kind, TREE_BINARY, TREE_ATTACHED};
    batch x = batch_make(&p, 3, len, kinds, -1, NULL);
    rd_context *cx = cx_fresh(0, 2, EX_POOL);
    everything(&x, cx, 97);
    rd_context_destroy(cx);
    mem_release(mark);
  }
}

/* The plan reserves for 64 nodes; a larger tree grows the arena once. */
static void reserved(void) {
  rd_problem p = pb_default();
  p.max_batch = 2;
  p.max_tokens = 1000;
  rd_context *cx = cx_fresh(0, 2, EX_POOL);
  rd_plan *plan;
  CK_OK(cx, rd_plan_create(cx, &p, &plan));
  for (int64_t n = 64; n <= 1000; n += 936) {
    const int64_t len[2] = {n, 7};
    batch x = batch_make(&p, 2, len, (tree_kind[]){TREE_ATTACHED, TREE_STAR}, -1, NULL);
    for (int round = 0; round < 2; round++) {
      const int64_t before = cx_allocations;
      CK_OK(cx, rd_verify(cx, plan, &x.c->seq, &x.c->act, &x.at, &x.r->r));
      rd_tensor acc = tb_i32(2, (int32_t[]){(int32_t)n, 7}).t;
      CK_OK(cx, rd_commit(cx, plan, &x.r->r, &acc, &x.at));
      ck_verify(x.c, x.r, 0, &x.w[0]);
      pool_put(x.pl, 2, x.d->s[0].S0);
      const int grows = n > 64 && round == 0;
      CK(grows == (cx_allocations > before), "%lld nodes, round %d: %lld allocations", (long long)n,
         round, (long long)(cx_allocations - before));
    }
  }
  rd_plan_destroy(plan);
  rd_context_destroy(cx);
}

/* A commit reads the path alone: other parents may be anything by then. */
static void off_the_path(void) {
  rd_problem p = pb_default();
  const int64_t len = 15;
  batch x = batch_make(&p, 1, &len, (tree_kind[]){TREE_BINARY}, -1, NULL);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  batch_verify(&x, cx);
  const int32_t accepted = 12; /* node 11: 0 2 5 11 */
  float *want = committed(x.d, &x.w[0], x.trees[0], 11, x.d->s[0].S0), *S = fl(data_state_n(x.d));
  int32_t *parents = (void *)x.r->parents.b->p;
  for (int32_t i = 0; i < len; i++)
    if (i != 0 && i != 2 && i != 5 && i != 11) parents[i] = i + 40;
  do_commit(cx, &x.c->p, x.r, &accepted, &x.at);
  pool_get(x.pl, 1, S);
  ck_bits("commit along the path", S, want, data_state_n(x.d));
}

/* A chain is a chain, however it is said; records may have room for parents anyhow. */
static void chains(void) {
  for (int numerics = RD_EXACT; numerics <= RD_FAST; numerics++)
    for (int64_t n = 1; n <= 40 && !pt_broken(); n += 13) {
      rd_problem p = pb_default();
      p.numerics = (rd_numerics)numerics;
      const int64_t len[2] = {n, 5};
      data *d = data_make(&p, 2, len);
      pool *pl = pool_make(&p, 2, 0);
      for (int i = 0; i < 2; i++) pool_put(pl, i, d->s[i].S0);
      rd_slots at = pool_view(pl, 2, NULL);
      call *c[3];
      recs *r[3];
      for (int i = 0; i < 3; i++) { /* no parents at all; room for them; spelled */
        c[i] = call_all(d, NULL);
        r[i] = recs_make(&p, 2, n + 5);
        if (i) recs_trees(r[i]);
        if (i == 2) call_trees(c[i], (int32_t *[2]){NULL, NULL});
        do_verify(cx_get(0, 2, EX_POOL), c[i], &at, r[i]);
        ck_bytes("out of a chain", c[i]->out.b->p, c[0]->out.b->p, c[0]->out.b->bytes);
        ck_bytes("u of a chain", r[i]->u.b->p, r[0]->u.b->p, r[0]->u.b->bytes);
        ck_bytes("k of a chain", r[i]->k.b->p, r[0]->k.b->p, r[0]->k.b->bytes);
        ck_bytes("decay of a chain", r[i]->decay.b->p, r[0]->decay.b->p, r[0]->decay.b->bytes);
        if (i) recs_check_trees(r[i], NULL);
        CK(r[i]->r.made.tree == (i == 2), "the mark of trees on a chain");
      }
    }
}

/* FAST: the leading chain as FAST verifies it; what hangs on the checkpoint, EXACT; no node looks
 * at later ones; everything close to EXACT. */
static void fast_prefix(const rd_problem *p, const data *d, const int32_t *tree, rd_context *cx) {
  const int64_t n = d->s[0].len, row = p->Hv * p->V, m = tree_chain(tree, n);
  pool *pl = pool_make(p, 1, 0);
  pool_put(pl, 0, d->s[0].S0);
  rd_slots at = pool_view(pl, 1, NULL);
  float *all = fl(n * row), *some = fl(n * row), *u = fl(n * row), *v = fl(n * row);
  for (int64_t part = n; part > 0 && !pt_broken(); part = part > m ? part - 1 - part / 9 : 0) {
    piece pc = {0, 0, part};
    call *c = call_make(d, &pc, 1, NULL);
    recs *r = recs_make(p, 1, part);
    if (part > m) {
      recs_trees(r);
      call_trees(c, (int32_t *[1]){(int32_t *)(uintptr_t)tree});
    } /* else the chain alone */
    do_verify(cx, c, &at, r);
    call_out(c, 0, part == n ? all : some);
    recs_get(r, 0, part, part == n ? u : v, NULL, NULL);
    if (part == n) continue;
    ck_bits("FAST out without later nodes", some, all, part * row);
    ck_bits("FAST u without later nodes", v, u, part * row);
  }
  wanted w = walk_paths(d, 0, tree, d->s[0].S0);
  double *want = db_from(w.out, n * row);
  ck_close("FAST out", all, want, n, p->Hv, p->V, 1e-4, 0, RD_F32);
  for (int64_t i = m; i < n && m < n; i++) {
    int64_t root = i;
    while (tree[root] >= m) root = tree[root];
    if (tree[root] == -1) ck_bits("EXACT from the checkpoint", all + i * row, w.out + i * row, row);
  }
}

static void fast(void) {
  for (int i = 0; i < (pt_level == PT_QUICK ? 40
                       : pt_level == PT_STD ? 160
                                            : 1600) &&
                  !pt_broken();
       i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    p.numerics = RD_FAST;
    p.qkv_dtype = p.gate_dtype = p.beta_dtype = p.out_dtype = p.state_dtype = RD_F32;
    p.record_dtype = p.decay_dtype = RD_F32;
    p.layout = RD_PADDED;
    p.qk_norm = RD_QK_L2;
    p.has_scale = 0;
    p.beta_times = 1;
    const int64_t len = rng_int(1, i % 4 ? 30 : 64);
    const tree_kind kind = (tree_kind)(i % TREE_KINDS);
    note(&p, tree_name(kind));
    data *d = data_make(&p, 1, &len);
    if (i % 5 == 0 && d->s[0].g) /* out of range after some tokens: the chain's rest is EXACT */
      for (int64_t t = len / 3; t < len; t++)
        for (int64_t h = 0; h < p.Hv * d->G; h++)
          if (p.gate == RD_GATE_LOG) d->s[0].g[t * p.Hv * d->G + h] *= 20;
    uint32_t isa[8];
    const int n = cx_isas(isa);
    fast_prefix(&p, d, tree_make(kind, len), cx_get(isa[i % n], 1 + i % 3, EX_POOL));
    mem_release(mark);
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"kda_and_gdn", kda_and_gdn, PT_QUICK},
      {"plain_decoding", plain_decoding, PT_QUICK},
      {"reference", reference, PT_QUICK},
      {"chains", chains, PT_QUICK},
      {"drawn_few", drawn_few, PT_QUICK},
      {"reserved", reserved, PT_QUICK},
      {"off_the_path", off_the_path, PT_QUICK},
      {"fast", fast, PT_QUICK},
      {"large", large, PT_STD},
      {"everywhere", everywhere, PT_STD},
      {"worth_sharing", worth_sharing, PT_STD},
      {"drawn_some", drawn_some, PT_STD},
      {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "p17_trees", cases, PT_LEN(cases));
}
