/* P11: thousands of rounds of verify and commit with drawn lengths and accepted counts. FP32
 * records: the bits of plain decoding, by two calls and by the folded verb. f16 records: within
 * 1e-3 of it, without growth. SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit.h"

enum { B = 3, LONGEST = 8 };

typedef struct kind {
  int64_t Hk, Hv;
  rd_gate gate;
  rd_gate_axis axis;
} kind;
static const kind kda = {2, 2, RD_GATE_LOWER_BOUND, RD_PER_CHANNEL},
                  gdn = {2, 4, RD_GATE_LOG, RD_PER_HEAD};

static rd_problem problem(const kind *k) {
  rd_problem p = pb_default();
  p.Hk = k->Hk;
  p.Hv = k->Hv;
  p.gate = k->gate;
  p.gate_axis = k->axis;
  p.qk_norm = RD_QK_L2;
  p.beta = RD_BETA_LOGIT;
  return p;
}

static data *draw_round(const rd_problem *p, int32_t *m) {
  int64_t len[B];
  for (int i = 0; i < B; i++) {
    len[i] = rng_int(1, LONGEST);
    m[i] = (int32_t)rng_int(0, len[i]);
  }
  return data_make(p, B, len);
}

static void decode_accepted(rd_context *cx, const data *d, const int32_t *m, pool *pl) {
  piece pc[B];
  for (int i = 0; i < B; i++) pc[i] = (piece){i, 0, m[i]};
  call *c = call_make(d, pc, B, NULL);
  rd_slots at = pool_view(pl, B, NULL);
  do_decode(cx, c, &at, NULL, NULL);
}

static void start(pool *pl, const data *d) {
  for (int i = 0; i < B; i++) pool_put(pl, i, d->s[i].S0);
}

static void exact(const kind *k, int rounds, bool folded) {
  rd_problem p = problem(k);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  int64_t len[B] = {1, 1, 1};
  data *d0 = data_make(&p, B, len);
  pool *plain = pool_make(&p, B, 0), *spec = pool_make(&p, B, 0);
  start(plain, d0);
  start(spec, d0);
  recs *r[2] = {recs_make(&p, B, LONGEST), recs_make(&p, B, LONGEST)};
  int32_t m[B], previous[B];
  float *S = fl(data_state_n(d0)), *R = fl(data_state_n(d0));
  for (int i = 0; i < rounds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    pt_note("round %d", i);
    data *d = draw_round(&p, m);
    call *c = call_all(d, NULL);
    recs *now = r[i & 1];
    memset(now->u.b->p, 0xff, now->u.b->bytes);
    memset(now->k.b->p, 0xff, now->k.b->bytes);
    memset(now->decay.b->p, 0xff, now->decay.b->bytes);
    rd_slots at = pool_view(spec, B, NULL);
    if (folded && i > 0) {
      do_commit_verify(cx, c, r[~i & 1], previous, &at, now);
    } else {
      do_verify(cx, c, &at, now);
      if (!folded) do_commit(cx, &c->p, now, m, &at);
    }
    for (int b = 0; (!folded || i > 0) && b < B; b++) {
      pool_get(spec, b, S);
      if (folded) pool_get(plain, b, R); /* the state before this round */
      if (folded) ck_bits("state of the folded rounds", S, R, data_state_n(d));
    }
    decode_accepted(cx, d, m, plain);
    for (int b = 0; !folded && b < B; b++) {
      pool_get(spec, b, S);
      pool_get(plain, b, R);
      ck_bits("state", S, R, data_state_n(d));
    }
    memcpy(previous, m, sizeof m);
    mem_release(mark);
  }
}

static void f16(const kind *k, int rounds) {
  rd_problem p = problem(k), q = p;
  q.record_dtype = RD_F16;
  rd_context *cx = cx_get(0, 2, EX_POOL);
  int64_t len[B] = {1, 1, 1}, n;
  data *d0 = data_make(&p, B, len);
  n = data_state_n(d0);
  pool *plain = pool_make(&p, B, 0), *spec = pool_make(&p, B, 0);
  start(plain, d0);
  start(spec, d0);
  double half[2] = {0, 0};
  int32_t m[B];
  float *S = fl(n), *R = fl(n);
  for (int i = 0; i < rounds && !pt_broken(); i++) {
    size_t mark = mem_mark();
    pt_note("round %d", i);
    data *d = draw_round(&q, m);
    recs *r = recs_make(&q, B, LONGEST);
    call *c = call_all(d, NULL);
    rd_slots at = pool_view(spec, B, NULL);
    do_verify(cx, c, &at, r);
    do_commit(cx, &c->p, r, m, &at);
    decode_accepted(cx, d, m, plain);
    for (int b = 0; b < B; b++) {
      pool_get(spec, b, S);
      pool_get(plain, b, R);
      double *want = db_from(R, n), e = rel_l2(S, want, 1, p.Hv, p.V * p.K);
      ck_close("state with f16 records", S, want, 1, p.Hv, p.V * p.K, 1e-3, 0, RD_F32);
      double *h = &half[i >= rounds / 2];
      if (e > *h) *h = e;
    }
    mem_release(mark);
  }
  CK(half[1] <= 1.5 * half[0], "error grows: %.3g in the first half, %.3g in the second", half[0],
     half[1]);
}

static int rounds(void) { return pt_level == PT_FULL ? 2048 : pt_level == PT_STD ? 256 : 12; }
static void kda_f32(void) { exact(&kda, rounds(), false); }
static void gdn_f32(void) { exact(&gdn, rounds(), false); }
static void kda_folded(void) { exact(&kda, rounds(), true); }
static void gdn_folded(void) { exact(&gdn, rounds(), true); }
static void kda_f16(void) { f16(&kda, rounds() < 256 ? 64 : rounds()); }
static void gdn_f16(void) { f16(&gdn, rounds() < 256 ? 64 : rounds()); }

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"kda_f32", kda_f32, PT_QUICK},       {"gdn_f32", gdn_f32, PT_QUICK},
      {"kda_folded", kda_folded, PT_QUICK}, {"gdn_folded", gdn_folded, PT_QUICK},
      {"kda_f16", kda_f16, PT_QUICK},       {"gdn_f16", gdn_f16, PT_QUICK},
  };
  return pt_main(argc, argv, "p11_drift", cases, PT_LEN(cases));
}
