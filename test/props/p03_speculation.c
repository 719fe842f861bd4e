/* P3 (E1): verify = decodes; verify + commit(m) = m decodes for every m; the checkpoint of a verify
 * lies in a read-only page; commit 0 leaves the bytes. SPDX-License-Identifier: Apache-2.0 */
#include "kit/world.h"

typedef struct steps {
  float *out; /* [T][Hv][V] */
  float **S;  /* S[m]: the state after m decodes, m = 0..T */
} steps;

static steps decode_steps(rd_context *cx, const data *d, int64_t s) {
  int64_t T = d->s[s].len, row = d->p.Hv * d->p.V, n = data_state_n(d);
  steps r = {fl(T * row), mem_heap(Z(T + 1) * sizeof(float *))};
  pool *pl = pool_make(&d->p, 1, 0);
  pool_put(pl, 0, d->s[s].S0);
  for (int64_t t = 0;; t++) {
    r.S[t] = fl(n);
    pool_get(pl, 0, r.S[t]);
    if (t == T) return r;
    size_t mark = mem_mark();
    piece pc = {s, t, 1};
    call *c = call_make(d, &pc, 1, NULL);
    rd_slots at = pool_view(pl, 1, NULL);
    do_decode(cx, c, &at, NULL, NULL);
    call_out(c, 0, r.out + t * row);
    mem_release(mark);
  }
}

static recs *copy_records(const recs *r) {
  recs *x = recs_make(&r->p, r->B, r->C);
  memcpy(x->u.b->p, r->u.b->p, r->u.b->bytes);
  memcpy(x->k.b->p, r->k.b->p, r->k.b->bytes);
  if (r->G) memcpy(x->decay.b->p, r->decay.b->p, r->decay.b->bytes);
  memcpy(x->lengths->p, r->lengths->p, r->lengths->bytes);
  x->r.made = r->r.made;
  return x;
}

static void every_m_of(const data *d, int64_t T, int64_t C) {
  const rd_problem *p = &d->p;
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s T=%lld C=%lld", s, (long long)T, (long long)C);
  size_t mark = mem_mark();
  rd_context *cx = cx_get(0, 2, EX_POOL);
  int64_t len[2] = {d->s[0].len, d->s[1].len}, n = data_state_n(d);
  steps want[2] = {decode_steps(cx, d, 0), decode_steps(cx, d, 1)};
  pool *pl = pool_make(p, 2, 3), *other = pool_make(p, 2, 0);
  recs *r = recs_make(p, 2, C);
  rd_slots at = pool_view(pl, 2, NULL), to = pool_view(other, 2, NULL);
  for (int i = 0; i < 2; i++) pool_put(pl, i, d->s[i].S0);
  mem_readonly(pl->t.b);
  call *c = call_all(d, NULL);
  do_verify(cx, c, &at, r);
  mem_writable(pl->t.b);
  float *got = fl(T * p->Hv * p->V), *S = fl(n);
  for (int i = 0; i < 2; i++) {
    call_out(c, i, got);
    ck_bits("verify = decodes", got, want[i].out, len[i] * p->Hv * p->V);
  }
  void *start = blk_copy(pl->t.b);
  for (int64_t m = 0; m <= T && !pt_broken(); m++) {
    size_t inner = mem_mark();
    int32_t acc[2] = {(int32_t)m, (int32_t)(m <= len[1] ? m : len[1])};
    recs *x = copy_records(r);
    memcpy(pl->t.b->p, start, pl->t.b->bytes);
    mem_readonly(pl->t.b);
    do_materialize(cx, &c->p, x, acc, &at, &to);
    mem_writable(pl->t.b);
    mem_readonly(x->u.b);
    mem_readonly(x->k.b);
    do_commit(cx, &c->p, x, acc, &at);
    for (int i = 0; i < 2; i++) {
      pool_get(pl, i, S);
      ck_bits("verify + commit(m) = m decodes", S, want[i].S[acc[i]], n);
      pool_get(other, i, S);
      ck_bits("verify + materialize(m) = m decodes", S, want[i].S[acc[i]], n);
    }
    if (m == 0) ck_bytes("commit(0) leaves the pool's bytes", pl->t.b->p, start, pl->t.b->bytes);
    mem_release(inner);
  }
  mem_release(mark);
}

static void every_m(const rd_problem *p, int64_t T, int64_t C) {
  size_t mark = mem_mark();
  int64_t len[2] = {T, T > 1 ? T - 1 : 1};
  every_m_of(data_make(p, 2, len), T, C);
  mem_release(mark);
}

static rd_problem exact_f32(void) {
  rd_problem p = pb_random();
  p.state_dtype = p.record_dtype = p.decay_dtype = RD_F32;
  return p;
}

static void kda_and_gdn(void) {
  for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++)
    for (int gate = RD_GATE_NONE; gate <= RD_GATE_DECAY; gate++) {
      rd_problem p = pb_default();
      p.gate = (rd_gate)gate;
      p.gate_axis = (rd_gate_axis)axis;
      every_m(&p, 5, 7);
    }
}

static void every_T_to_32(void) {
  for (int64_t T = 1; T <= 32 && !pt_broken(); T++) {
    rd_problem p = exact_f32();
    every_m(&p, T, T);
  }
}

static void drawn_many(void) {
  for (int i = 0; i < 300 && !pt_broken(); i++) {
    rd_problem p = exact_f32();
    int64_t T = rng_int(1, 40);
    every_m(&p, T, T + rng_int(0, 5));
  }
}

/* Where everything vanishes: still the same steps, and the bits of C2 rather than those of gradual
 * underflow, which would agree among themselves just as well. */
static void vanishing(void) {
  for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++)
    for (int gate = RD_GATE_NONE; gate <= RD_GATE_DECAY && !pt_broken(); gate++) {
      size_t mark = mem_mark();
      rd_problem p = pb_default();
      p.gate = (rd_gate)gate;
      p.gate_axis = (rd_gate_axis)axis;
      int64_t len[2] = {5, 4};
      data *d = data_make(&p, 2, len);
      data_vanishing(d);
      every_m_of(d, 5, 7);
      world_speculate(world_make(d), cx_get(0, 2, EX_POOL), NULL);
      mem_release(mark);
    }
}

/* A checkpoint with -0, denormals, infinities and NaN: commit 0 and a zero length keep raw bytes.
 */
static void odd_bytes(void) {
  rd_problem p = pb_default();
  int64_t len[2] = {3, 0};
  rd_context *cx = cx_get(0, 1, EX_POOL);
  data *d = data_make(&p, 2, len);
  pool *pl = pool_make(&p, 2, 0);
  uint32_t *w = (void *)pl->t.b->p;
  for (size_t i = 0; i < pl->t.b->bytes / 4; i++) w[i] = (uint32_t)rng_u64();
  void *before = blk_copy(pl->t.b);
  recs *r = recs_make(&p, 2, 3);
  rd_slots at = pool_view(pl, 2, NULL);
  call *c = call_all(d, NULL);
  do_verify(cx, c, &at, r);
  do_commit(cx, &c->p, r, (int32_t[]){0, 0}, &at);
  ck_bytes("commit(0)", pl->t.b->p, before, pl->t.b->bytes);
  pool *to = pool_make(&p, 2, 0);
  rd_slots target = pool_view(to, 2, NULL);
  do_materialize(cx, &c->p, r, (int32_t[]){0, 0}, &at, &target);
  ck_bytes("materialize(0) copies bytes", to->t.b->p, before, pl->t.b->bytes);
  int64_t zero[2] = {0, 0};
  data *e = data_make(&p, 2, zero);
  call *c0 = call_all(e, NULL);
  pool *fin = pool_make(&p, 2, 0);
  rd_slots f = pool_view(fin, 2, NULL);
  do_prefill(cx, c0, &at, &f);
  ck_bytes("a zero length passes bytes", fin->t.b->p, before, pl->t.b->bytes);
  do_decode(cx, c0, &at, NULL, NULL);
  ck_bytes("a zero-length decode keeps bytes", pl->t.b->p, before, pl->t.b->bytes);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"kda_and_gdn", kda_and_gdn, PT_QUICK}, {"odd_bytes", odd_bytes, PT_QUICK},
      {"vanishing", vanishing, PT_QUICK},     {"every_T_to_32", every_T_to_32, PT_STD},
      {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "p03_speculation", cases, PT_LEN(cases));
}
