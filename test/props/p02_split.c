/* P2 (E2, E3): prefill in one go = in pieces = prefill then decode = decode alone, in bits.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/kit.h"

typedef enum verb { PREFILL_INPLACE, PREFILL_TO_OTHER, DECODE } verb;

/* Runs sequences [t0,t1) of all data on the pool, in place or over another pool and back. */
static void advance(rd_context *cx, const data *d, pool *pl, pool *other, const int64_t *t0,
                    const int64_t *t1, verb how, float **out) {
  piece *pc = mem_heap(Z(d->n) * sizeof *pc);
  for (int64_t i = 0; i < d->n; i++) pc[i] = (piece){i, t0[i], t1[i] - t0[i]};
  call *c = call_make(d, pc, d->n, NULL);
  rd_slots s = pool_view(pl, d->n, NULL), o = pool_view(other, d->n, NULL);
  if (how == DECODE)
    do_decode(cx, c, &s, NULL, NULL);
  else
    do_prefill(cx, c, &s, how == PREFILL_INPLACE ? &s : &o);
  float *S = fl(data_state_n(d));
  for (int64_t i = 0; i < d->n; i++) {
    if (how == PREFILL_TO_OTHER) {
      pool_get(other, i, S);
      pool_put(pl, i, S);
    }
    call_out(c, i, out[i] + t0[i] * d->p.Hv * d->p.V);
  }
}

static result in_pieces(rd_context *cx, const data *d, int64_t (*cut)(int64_t at, int64_t len),
                        int how) {
  result r = {mem_heap(Z(d->n) * sizeof(float *)), mem_heap(Z(d->n) * sizeof(float *))};
  pool *pl = pool_make(&d->p, d->n, 0), *other = pool_make(&d->p, d->n, 0);
  int64_t *t0 = mem_heap(Z(d->n) * sizeof *t0), *t1 = mem_heap(Z(d->n) * sizeof *t1);
  for (int64_t i = 0; i < d->n; i++) {
    pool_put(pl, i, d->s[i].S0);
    r.out[i] = fl(d->s[i].len * d->p.Hv * d->p.V);
    r.S[i] = fl(data_state_n(d));
  }
  for (int round = 0;; round++) {
    bool more = false;
    for (int64_t i = 0; i < d->n; i++) {
      t1[i] = t0[i] < d->s[i].len ? t0[i] + cut(t0[i], d->s[i].len - t0[i]) : t0[i];
      more = more || t1[i] > t0[i];
    }
    if (!more || pt_broken()) break;
    size_t mark = mem_mark();
    advance(cx, d, pl, other, t0, t1, (verb)(how < 0 ? rng_int(0, 2) : how), r.out);
    mem_release(mark);
    memcpy(t0, t1, Z(d->n) * sizeof *t0);
  }
  for (int64_t i = 0; i < d->n; i++) pool_get(pl, i, r.S[i]);
  return r;
}

static int64_t whole(int64_t at, int64_t left) { return (void)at, left; }
static int64_t single(int64_t at, int64_t left) { return (void)at, (void)left, 1; }
static int64_t drawn_cut(int64_t at, int64_t left) {
  (void)at;
  return rng_int(1, left < 23 ? left : 23);
}
static int64_t half(int64_t at, int64_t left) { return at == 0 && left > 1 ? left / 2 : left; }

static void splits(const rd_problem *p, int64_t n, const int64_t *len) {
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s", s);
  size_t mark = mem_mark();
  rd_context *cx = cx_get(0, 2, EX_POOL);
  data *d = data_make(p, n, len);
  result all = run_prefill_all(cx, d, NULL);
  ck_result("in two", d, in_pieces(cx, d, half, PREFILL_INPLACE), all);
  ck_result("in two, other pool", d, in_pieces(cx, d, half, PREFILL_TO_OTHER), all);
  ck_result("decode at once", d, in_pieces(cx, d, whole, DECODE), all);
  ck_result("decode by one", d, in_pieces(cx, d, single, DECODE), all);
  ck_result("prefill by one", d, in_pieces(cx, d, single, PREFILL_INPLACE), all);
  ck_result("mixed", d, in_pieces(cx, d, drawn_cut, -1), all);
  mem_release(mark);
}

static rd_problem drawn_f32(void) {
  rd_problem p = pb_random();
  p.state_dtype = RD_F32;
  return p;
}

static void drawn(int64_t n, int64_t longest) {
  for (int64_t i = 0; i < n && !pt_broken(); i++) {
    rd_problem p = drawn_f32();
    int64_t len[3] = {rng_int(1, longest), rng_int(1, longest), rng_int(0, longest)};
    splits(&p, 3, len);
  }
}

static void drawn_few(void) { drawn(6, 12); }
static void drawn_some(void) { drawn(40, 70); }
static void drawn_many(void) { drawn(400, 150); }

/* Several blocks of tokens: heads and sequences take turns, which nobody may notice. Against the
 * specification, since the states may be of any type and layout. */
static void turns(void) {
  for (int i = 0; i < (pt_level == PT_QUICK ? 30 : 120) && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    if (p.Hv == 1) p.Hv = p.Hk * 3;
    const int64_t len[3] = {rng_int(17, 50), rng_int(1, 20), rng_int(17, 40)};
    char text[320];
    pb_describe(&p, text, sizeof text);
    pt_note("%s", text);
    data *d = data_make(&p, 3, len);
    const result got = run_prefill_all(cx_get(0, 1 + i % 2, EX_POOL), d, NULL);
    call *c = call_all(d, NULL);
    pool *pl = pool_make(&p, 3, 0);
    for (int64_t b = 0; b < 3; b++) pool_put(pl, b, d->s[b].S0);
    rd_slots at = pool_view(pl, 3, NULL);
    recs *r = recs_make(&p, 3, 50);
    do_verify(cx_get(0, 1, EX_POOL), c, &at, r);
    for (int64_t b = 0; b < 3; b++) {
      const int64_t n = len[b] * p.Hv * p.V;
      float *S = fl(data_state_n(d)), *want = fl(n), *out = fl(n);
      memcpy(S, d->s[b].S0, Z(data_state_n(d)) * sizeof *S);
      c1_run(d, b, 0, len[b], S, want, NULL, NULL, NULL);
      round_all(p.state_dtype, S, data_state_n(d));
      round_all(p.out_dtype, want, n);
      ck_bits("out of heads in turns", got.out[b], want, n);
      ck_bits("state of heads in turns", got.S[b], S, data_state_n(d));
      call_out(c, b, out);
      ck_bits("verify of heads in turns", out, want, n);
    }
    mem_release(mark);
  }
}

/* Every cut of one sequence in two. */
static int64_t cut_at;
static int64_t at_cut(int64_t at, int64_t left) {
  return at == 0 && cut_at > 0 && cut_at < left ? cut_at : left;
}

static void every_cut(void) {
  rd_problem p = pb_default();
  p.K = 24;
  p.V = 40;
  int64_t len = 70;
  rd_context *cx = cx_get(0, 1, EX_POOL);
  data *d = data_make(&p, 1, &len);
  result all = run_prefill_all(cx, d, NULL);
  for (cut_at = 1; cut_at < len && !pt_broken(); cut_at++) {
    pt_note("cut at %lld", (long long)cut_at);
    size_t mark = mem_mark();
    ck_result("prefill twice", d, in_pieces(cx, d, at_cut, PREFILL_INPLACE), all);
    ck_result("drawn verbs", d, in_pieces(cx, d, at_cut, -1), all);
    mem_release(mark);
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"drawn_few", drawn_few, PT_QUICK},  {"turns", turns, PT_QUICK},
      {"every_cut", every_cut, PT_STD},    {"drawn_some", drawn_some, PT_STD},
      {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "p02_split", cases, PT_LEN(cases));
}
