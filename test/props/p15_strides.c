/* P15: strided views - one packed QKV row, token stride twice the row, heads before tokens, a beta
 * broadcast with stride 0, spread slots (the gaps hold NaN), elements three apart, tokens innermost - give
 * the bits of the compact call.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kit/world.h"

static void strided(const rd_problem *p, const callopt *o) {
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s strides %d layout %d extra %lld", s, o->strides, o->layout, (long long)o->extra_T);
  size_t mark = mem_mark();
  int64_t len[3] = {5, 3, 9};
  data *d = data_make(p, 3, len);
  if (o->beta_broadcast)
    for (int i = 0; i < 3; i++)
      for (int64_t x = 0; x < len[i] * p->Hv; x++) d->s[i].beta[x] = d->s[0].beta[x % p->Hv];
  rd_context *cx = cx_get(0, 2, EX_POOL);
  ck_result("strided = compact", d, run_prefill_all(cx, d, o), run_prefill_all(cx, d, NULL));
  world *w = world_make(d);
  world_decode(w, cx, o);
  world_speculate(w, cx, o);
  mem_release(mark);
}

static void modes(int64_t worlds) {
  for (int64_t i = 0; i < worlds && !pt_broken(); i++)
    for (int mode = ST_COMPACT; mode <= ST_CHANNELS_FIRST; mode++) {
      rd_problem p = pb_random();
      if (i == 0) p = pb_default();
      callopt o = {.strides = (stride_mode)mode, .layout = rng_int(0, 1) ? RD_PADDED : RD_PACKED};
      o.extra_T = rng_int(0, 2);
      o.beta_broadcast = rng_int(0, 1);
      strided(&p, &o);
    }
}

static void modes_few(void) { modes(3); }
static void modes_some(void) { modes(40); }

/* Records with gaps between tokens and sequences. */
static void strided_records(void) {
  rd_problem p = pb_default();
  int64_t len[2] = {5, 3};
  data *d = data_make(&p, 2, len);
  world *w = world_make(d);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  recs *r = recs_make(&p, 2, 6);
  tb *t[3] = {&r->u, &r->k, &r->decay};
  for (int i = 0; i < 3; i++) {
    int64_t *s = t[i]->t.shape, row = s[2] * s[3];
    *t[i] = tb_make(RD_F32, 4, s, (int64_t[]){6 * (row + 9) + 5, row + 9, s[3], 1});
  }
  r->r.u = r->u.t;
  r->r.k = r->k.t;
  r->r.decay = r->decay.t;
  pool *pl = pool_make(&p, 2, 0);
  for (int i = 0; i < 2; i++) pool_put(pl, i, d->s[i].S0);
  rd_slots at = pool_view(pl, 2, NULL);
  call *c = call_all(d, NULL);
  do_verify(cx, c, &at, r);
  for (int i = 0; i < 3; i++) { /* the gaps keep their bytes */
    unsigned char *copy = blk_copy(t[i]->b);
    int64_t *s = t[i]->t.shape;
    for (int64_t b = 0; b < 2; b++)
      for (int64_t k = 0; k < len[b]; k++)
        memset(copy + ((unsigned char *)tb_at(&t[i]->t, b, k, 0, 0) - t[i]->b->p), 0xff,
               Z(s[2] * s[3]) * sizeof(float));
    unsigned char *all = mem_heap(t[i]->b->bytes);
    memset(all, 0xff, t[i]->b->bytes);
    ck_bytes("gaps of records", copy, all, t[i]->b->bytes);
  }
  do_commit(cx, &c->p, r, (int32_t[]){5, 3}, &at);
  float *S = fl(data_state_n(d));
  for (int i = 0; i < 2; i++) {
    pool_get(pl, i, S);
    ck_bits("state", S, w->w[i].S, data_state_n(d));
  }
}

/* q, k, v broadcast over the batch and over heads: stride 0. */
static void broadcast_inputs(void) {
  rd_problem p = pb_default();
  int64_t len[3] = {4, 4, 4};
  data *d = data_make(&p, 3, len);
  for (int i = 1; i < 3; i++) d->s[i] = d->s[0];
  for (int64_t t = 0; t < 4; t++)
    for (int64_t h = 1; h < p.Hk; h++) {
      memcpy(d->s[0].q + (t * p.Hk + h) * p.K, d->s[0].q + t * p.Hk * p.K, Z(p.K) * sizeof(float));
      memcpy(d->s[0].k + (t * p.Hk + h) * p.K, d->s[0].k + t * p.Hk * p.K, Z(p.K) * sizeof(float));
    }
  world *w = world_make(d);
  call *c = call_all(d, NULL);
  rd_tensor *in[] = {&c->act.q, &c->act.k, &c->act.v, &c->act.g, &c->act.beta};
  for (size_t i = 0; i < PT_LEN(in); i++) in[i]->stride[0] = 0;
  c->act.q.stride[2] = c->act.k.stride[2] = 0;
  pool *pl = pool_make(&p, 3, 7);
  for (int i = 0; i < 3; i++) pool_put(pl, i, d->s[i].S0);
  rd_slots at = pool_view(pl, 3, NULL);
  do_prefill(cx_get(0, 2, EX_POOL), c, &at, &at);
  float *out = fl(4 * p.Hv * p.V), *S = fl(data_state_n(d));
  for (int i = 0; i < 3; i++) {
    call_out(c, i, out);
    ck_bits("out", out, w->w[i].out, 4 * p.Hv * p.V);
    pool_get(pl, i, S);
    ck_bits("state", S, w->w[i].S, data_state_n(d));
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"modes_few", modes_few, PT_QUICK},
      {"strided_records", strided_records, PT_QUICK},
      {"broadcast_inputs", broadcast_inputs, PT_QUICK},
      {"modes_some", modes_some, PT_STD},
  };
  return pt_main(argc, argv, "p15_strides", cases, PT_LEN(cases));
}
