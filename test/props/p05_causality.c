/* P5: changing any input of later tokens, or their number, never changes earlier outputs or
 * records. SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit.h"

typedef struct seen {
  float *out, *u, *k, *a, *dec;
} seen;

/* prefill, verify and decode of [0, T). */
static seen look(rd_context *cx, const data *d, int64_t T) {
  const rd_problem *p = &d->p;
  int64_t G = d->G ? d->G : 1, no = T * p->Hv * p->V;
  seen r = {fl(no), fl(no), fl(T * p->Hk * p->K), fl(T * p->Hv * G), fl(no)};
  piece pc = {0, 0, T};
  call *c = call_make(d, &pc, 1, NULL);
  pool *pl = pool_make(p, 1, 0);
  pool_put(pl, 0, d->s[0].S0);
  rd_slots at = pool_view(pl, 1, NULL);
  recs *x = recs_make(p, 1, T);
  do_prefill(cx, c, &at, &no_slots);
  call_out(c, 0, r.out);
  call_dirty(c);
  do_verify(cx, c, &at, x);
  float *again = fl(no);
  call_out(c, 0, again);
  ck_bits("prefill = verify", again, r.out, no);
  recs_get(x, 0, T, r.u, r.k, d->G ? r.a : NULL);
  call_dirty(c);
  do_decode(cx, c, &at, NULL, NULL);
  call_out(c, 0, r.dec);
  return r;
}

static void same_start(const data *d, const seen *a, const seen *b, int64_t t) {
  const rd_problem *p = &d->p;
  ck_bits("earlier prefill and verify outputs", b->out, a->out, t * p->Hv * p->V);
  ck_bits("earlier decode outputs", b->dec, a->dec, t * p->Hv * p->V);
  ck_bits("earlier u", b->u, a->u, t * p->Hv * p->V);
  ck_bits("earlier k", b->k, a->k, t * p->Hk * p->K);
  if (d->G) ck_bits("earlier decay", b->a, a->a, t * p->Hv * d->G);
}

static void scramble(float *x, int64_t from, int64_t to, double lo, double hi) {
  for (int64_t i = from; x && i < to; i++) x[i] = (float)rng_uniform(lo, hi);
}

static void one_world(rd_context *cx, rd_problem p, int64_t T) {
  char s[320];
  pb_describe(&p, s, sizeof s);
  data *d = data_make(&p, 1, &T);
  const int64_t G = d->G;
  seen a = look(cx, d, T);
  for (int e = 0; e < 3; e++) {
    int64_t t = rng_int(1, T - 1);
    pt_note("%s T=%lld from token %lld", s, (long long)T, (long long)t);
    seqdata *x = &d->s[0];
    int which = (int)rng_int(0, 5); /* one input, or all */
    if (which == 0 || which == 5) scramble(x->q, t * p.Hk * p.K, T * p.Hk * p.K, -9, 9);
    if (which == 1 || which == 5) scramble(x->k, t * p.Hk * p.K, T * p.Hk * p.K, -1, 1);
    if (which == 2 || which == 5) scramble(x->v, t * p.Hv * p.V, T * p.Hv * p.V, -99, 99);
    if (which == 3 || which == 5) scramble(x->beta, t * p.Hv, T * p.Hv, 0, 1);
    if (which == 4 || which == 5) scramble(x->g, t * p.Hv * G, T * p.Hv * G, -50, 0);
    data_requantise(d);
    seen b = look(cx, d, T);
    same_start(d, &a, &b, t);
    seen c = look(cx, d, t);
    same_start(d, &a, &c, t);
    a = b;
  }
}

static void later_tokens(int64_t worlds, int64_t longest) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  for (int64_t i = 0; i < worlds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    one_world(cx, p, rng_int(2, longest));
    mem_release(mark);
  }
}

/* Heads whose rows make a full row block and a smaller one, in longer verifies: running states of blocks of
 * two sizes lie beside each other in scratch. */
static void two_row_blocks(void) {
  static const int64_t sizes[][2] = {{15, 96}, {15, 80}, {48, 96}, {64, 72}, {32, 160}, {9, 65}};
  rd_context *cx = cx_get(0, 2, EX_POOL);
  for (int64_t i = 0; i < 12 && !pt_broken(); i++) {
    size_t mark = mem_mark();
    rd_problem p = pb_random();
    p.Hk = 1, p.Hv = 3;
    p.K = sizes[i / 2][0], p.V = sizes[i / 2][1];
    p.state_layout = i % 2 ? RD_STATE_VK : RD_STATE_KV;
    p.state_dtype = RD_F32;
    p.numerics = RD_EXACT;
    one_world(cx, p, 40);
    mem_release(mark);
  }
}

static void drawn_few(void) { later_tokens(8, 20); }
static void drawn_some(void) { later_tokens(60, 70); }
static void drawn_many(void) { later_tokens(600, 150); }

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"drawn_few", drawn_few, PT_QUICK},
      {"two_row_blocks", two_row_blocks, PT_QUICK},
      {"drawn_some", drawn_some, PT_STD},
      {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "p05_causality", cases, PT_LEN(cases));
}
