/* P6: bytes that must not change do not. Inputs and index arrays lie in read-only pages in every
 * test of this directory, and rows without a token, record suffixes and gaps are checked after
 * every call; here are the slots. SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit.h"

enum { B = 4, SLOTS = 9 };

typedef struct fixture {
  rd_context *cx;
  data *d;
  pool *pl;
  call *c;
  float *S[B], *after[B];
  void *before;
} fixture;

static const int32_t home[B] = {7, 2, -1, 4};

static fixture setup(rd_problem p) {
  char s[320];
  p.pad_slot = -1;
  pb_describe(&p, s, sizeof s);
  pt_note("%s", s);
  static const int64_t len[B] = {5, 3, 2, 0};
  fixture f = {
      .cx = cx_get(0, 2, EX_POOL), .d = data_make(&p, B, len), .pl = pool_make(&p, SLOTS, 11)};
  piece pc[B] = {{0, 0, 5}, {1, 0, 3}, {-1, 0, 2}, {3, 0, 0}};
  f.c = call_make(f.d, pc, B, NULL);
  for (int i = 0; i < B; i++) {
    f.S[i] = f.d->s[i].S0;
    if (home[i] >= 0) pool_put(f.pl, home[i], f.S[i]);
    f.after[i] = fl_copy(f.S[i], data_state_n(f.d));
    c1_run(f.d, i, 0, len[i], f.after[i], NULL, NULL, NULL, NULL);
    if (len[i]) round_all(p.state_dtype, f.after[i], data_state_n(f.d));
  }
  f.before = blk_copy(f.pl->t.b);
  return f;
}

static void in_slot(const char *what, const fixture *f, const pool *pl, int32_t slot,
                    const float *want) {
  float *S = fl(data_state_n(f->d));
  pool_get(pl, slot, S);
  ck_bits(what, S, want, data_state_n(f->d));
}

static void rest(const char *what, const fixture *f, const int32_t *written) {
  for (int i = 0; i < B; i++)
    if (written && written[i] >= 0) pool_allow(f->pl, written[i], f->before);
  pool_check_rest(what, f->pl, f->before);
}

static void decode_in_place(const rd_problem *p) {
  fixture f = setup(*p);
  rd_slots at = pool_view(f.pl, B, home);
  do_decode(f.cx, f.c, &at, NULL, NULL);
  for (int i = 0; i < B; i++)
    if (home[i] >= 0) in_slot("decode in place", &f, f.pl, home[i], f.after[i]);
  rest("decode: other slots and gaps", &f, home);
}

static void separate_read_and_write(const rd_problem *p) {
  static const int32_t to[B] = {0, 8, -1, 3};
  fixture f = setup(*p);
  rd_slots from = pool_view(f.pl, B, home), write = pool_view(f.pl, B, to);
  do_decode(f.cx, f.c, &from, &write, NULL);
  for (int i = 0; i < B; i++)
    if (to[i] >= 0) in_slot("decode elsewhere", &f, f.pl, to[i], f.after[i]);
  rest("decode elsewhere: other slots and gaps", &f, to);
  fixture g = setup(*p);
  rd_slots a = pool_view(g.pl, B, home), b = pool_view(g.pl, B, to);
  do_prefill(g.cx, g.c, &a, &b);
  for (int i = 0; i < B; i++)
    if (to[i] >= 0) in_slot("prefill elsewhere", &g, g.pl, to[i], g.after[i]);
  rest("prefill elsewhere: other slots and gaps", &g, to);
}

/* Several sequences start from one unwritten slot. */
static void shared_reader(const rd_problem *p) {
  static const int32_t from[B] = {7, 7, -1, 7}, to[B] = {1, 0, -1, 5};
  fixture f = setup(*p);
  rd_slots a = pool_view(f.pl, B, from), b = pool_view(f.pl, B, to);
  do_prefill(f.cx, f.c, &a, &b);
  for (int i = 0; i < B; i++) {
    if (to[i] < 0) continue;
    float *S = fl_copy(f.S[0], data_state_n(f.d));
    c1_run(f.d, i, 0, f.d->s[i].len, S, NULL, NULL, NULL, NULL);
    round_all(p->state_dtype, S, data_state_n(f.d));
    in_slot("from a shared slot", &f, f.pl, to[i], S);
  }
  rest("shared slot: other slots and gaps", &f, to);
}

/* A pad slot on one side only: starts at zero, or the state is dropped. On both sides of different
 * pools it is both, and the sequence is computed all the same. */
static void pads_on_one_side(const rd_problem *p) {
  static const int32_t from[B] = {-1, 2, -1, 4}, to[B] = {7, -1, -1, 3};
  fixture f = setup(*p);
  pool *other = pool_make(p, SLOTS, 2);
  void *before = blk_copy(other->t.b);
  rd_slots a = pool_view(f.pl, B, from), b = pool_view(other, B, to);
  piece pc[B] = {{0, 0, 5}, {1, 0, 3}, {2, 0, 2}, {3, 0, 0}};
  call *c = call_make(f.d, pc, B, NULL);
  mem_readonly(f.pl->t.b);
  do_prefill(f.cx, c, &a, &b);
  float *S = fl(data_state_n(f.d)), *out = fl(5 * p->Hv * p->V), *got = fl(5 * p->Hv * p->V);
  c1_run(f.d, 0, 0, 5, S, out, NULL, NULL, NULL);
  round_all(p->state_dtype, S, data_state_n(f.d));
  round_all(p->out_dtype, out, 5 * p->Hv * p->V);
  in_slot("started at zero", &f, other, 7, S);
  in_slot("zero length", &f, other, 3, f.S[3]);
  call_out(c, 0, got);
  ck_bits("out of a zero start", got, out, 5 * p->Hv * p->V);
  memset(S, 0, Z(data_state_n(f.d)) * sizeof(float));
  c1_run(f.d, 2, 0, 2, S, out, NULL, NULL, NULL);
  round_all(p->out_dtype, out, 2 * p->Hv * p->V);
  call_out(c, 2, got);
  ck_bits("out of a zero start with a dropped end", got, out, 2 * p->Hv * p->V);
  pool_allow(other, 7, before);
  pool_allow(other, 3, before);
  pool_check_rest("dropped states", other, before);
}

static void absent_pools(const rd_problem *p) {
  fixture f = setup(*p);
  rd_slots at = pool_view(f.pl, B, (int32_t[]){7, 2, 6, 4});
  /* no initial pool: a dirty final slot is never read */
  piece pc[B] = {{0, 0, 5}, {1, 0, 3}, {2, 0, 2}, {3, 0, 0}};
  call *c = call_make(f.d, pc, B, NULL);
  float *S = fl(data_state_n(f.d)), *first = fl(5 * p->Hv * p->V), *got = fl(5 * p->Hv * p->V);
  do_prefill(f.cx, c, &no_slots, &at);
  call_out(c, 0, first);
  for (int i = 0; i < B; i++) {
    memset(S, 0, Z(data_state_n(f.d)) * sizeof(float));
    c1_run(f.d, i, 0, f.d->s[i].len, S, NULL, NULL, NULL, NULL);
    round_all(p->state_dtype, S, data_state_n(f.d));
    in_slot("no initial state", &f, f.pl, (int32_t[]){7, 2, 6, 4}[i], S);
  }
  rest("no initial state: others", &f, (int32_t[]){7, 2, 6, 4});
  call_dirty(c);
  do_prefill(f.cx, c, &no_slots, &no_slots);
  call_out(c, 0, got);
  ck_bits("no pools at all: out", got, first, 5 * p->Hv * p->V);
  call_dirty(c);
  do_prefill(f.cx, c, NULL, NULL);
  call_out(c, 0, got);
  ck_bits("null pools: out", got, first, 5 * p->Hv * p->V);
}

static void snapshots(const rd_problem *p) {
  rd_problem q = *p;
  q.layout = RD_PADDED;
  fixture f = setup(q);
  int32_t grid[B * 5], used[B * 5];
  for (int i = 0; i < B * 5; i++) grid[i] = -1;
  pool *snap = pool_make(&q, 20, 3);
  int n = 0;
  for (int i = 0; i < 2; i++)
    for (int t = 0; t < f.d->s[i].len; t++)
      if (t != 1) {
        used[n] = grid[i * 5 + t] = (int32_t)(19 - 2 * n);
        n++;
      }
  rd_slots s = {sizeof s, snap->t.t, tb_i32(B * 5, grid).t}, at = pool_view(f.pl, B, home);
  s.slots.rank = 2;
  s.slots.shape[0] = B;
  s.slots.shape[1] = s.slots.stride[0] = 5;
  s.slots.stride[1] = 1;
  void *before = blk_copy(snap->t.b);
  mem_readonly(f.pl->t.b);
  do_decode(f.cx, f.c, &at, NULL, &s);
  float *S = fl(data_state_n(f.d));
  for (int i = 0; i < 2; i++) {
    memcpy(S, f.S[i], Z(data_state_n(f.d)) * sizeof(float));
    for (int t = 0; t < f.d->s[i].len; t++) {
      c1_run(f.d, i, t, 1, S, NULL, NULL, NULL, NULL);
      float *R = fl_copy(S, data_state_n(f.d));
      round_all(q.state_dtype, R, data_state_n(f.d));
      if (grid[i * 5 + t] >= 0) in_slot("snapshot", &f, snap, grid[i * 5 + t], R);
    }
  }
  for (int i = 0; i < n; i++) pool_allow(snap, used[i], before);
  pool_check_rest("slots without a snapshot", snap, before);
}

/* Without slots the snapshots go to 0, 1, 2, ... */
static void snapshots_in_order(const rd_problem *p) {
  rd_problem q = *p;
  q.layout = RD_PACKED;
  fixture f = setup(q);
  pool *snap = pool_make(&q, 12, 3);
  void *before = blk_copy(snap->t.b);
  piece pc[3] = {{0, 0, 5}, {1, 0, 3}, {2, 0, 2}};
  call *c = call_make(f.d, pc, 3, NULL);
  rd_slots s = {.struct_size = sizeof(rd_slots), .pool = snap->t.t},
           at = pool_view(f.pl, 3, (int32_t[]){7, 2, 4});
  float *S = fl(data_state_n(f.d));
  for (int i = 0; i < 3; i++) pool_put(f.pl, (int32_t[]){7, 2, 4}[i], f.S[i]);
  mem_readonly(f.pl->t.b);
  do_decode(f.cx, c, &at, NULL, &s);
  for (int i = 0, slot = 0; i < 3; i++) {
    memcpy(S, f.S[i], Z(data_state_n(f.d)) * sizeof(float));
    for (int t = 0; t < pc[i].len; t++, slot++) {
      c1_run(f.d, i, t, 1, S, NULL, NULL, NULL, NULL);
      float *R = fl_copy(S, data_state_n(f.d));
      round_all(q.state_dtype, R, data_state_n(f.d));
      in_slot("snapshot in order", &f, snap, slot, R);
      pool_allow(snap, slot, before);
    }
  }
  pool_check_rest("slots past the tokens", snap, before);
}

static void commit_slots(const rd_problem *p) {
  static const int32_t m[B] = {3, 0, 0, 0};
  static const int32_t to[B] = {1, 6, -1, 0};
  fixture f = setup(*p);
  rd_slots at = pool_view(f.pl, B, home);
  recs *r = recs_make(p, B, 6);
  do_verify(f.cx, f.c, &at, r);
  rest("verify writes no state", &f, NULL);
  rd_slots other = pool_view(f.pl, B, to);
  do_materialize(f.cx, &f.c->p, r, m, &at, &other);
  in_slot("materialize 0", &f, f.pl, 6, f.S[1]);
  in_slot("materialize of no records", &f, f.pl, 0, f.S[3]);
  rest("materialize: other slots", &f, to);
  float *want = fl(data_state_n(f.d)), *got = fl(data_state_n(f.d));
  pool_get(f.pl, 1, want);
  do_commit(f.cx, &f.c->p, r, m, &at);
  pool_get(f.pl, 7, got);
  ck_bits("commit = materialize", got, want, data_state_n(f.d));
  rest("commit: other slots", &f, (int32_t[]){7, -1, -1, -1});
}

static void each(void (*fn)(const rd_problem *)) {
  rd_problem p = pb_default();
  fn(&p);
  for (int i = 0; i < (pt_level ? 25 : 5) && !pt_broken(); i++) {
    p = pb_random();
    size_t mark = mem_mark();
    fn(&p);
    mem_release(mark);
  }
}

static void c_decode(void) { each(decode_in_place); }
static void c_separate(void) { each(separate_read_and_write); }
static void c_shared(void) { each(shared_reader); }
static void c_pads(void) { each(pads_on_one_side); }
static void c_absent(void) { each(absent_pools); }
static void c_snapshots(void) { each(snapshots); }
static void c_in_order(void) { each(snapshots_in_order); }
static void c_commit(void) { each(commit_slots); }

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"decode_in_place", c_decode, PT_QUICK},
      {"separate_read_and_write", c_separate, PT_QUICK},
      {"shared_reader", c_shared, PT_QUICK},
      {"pads_on_one_side", c_pads, PT_QUICK},
      {"absent_pools", c_absent, PT_QUICK},
      {"snapshots", c_snapshots, PT_QUICK},
      {"snapshots_in_order", c_in_order, PT_QUICK},
      {"commit_slots", c_commit, PT_QUICK},
  };
  return pt_main(argc, argv, "p06_untouched", cases, PT_LEN(cases));
}
