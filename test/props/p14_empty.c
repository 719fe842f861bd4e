/* P14: nothing to do is done correctly: no tokens, no sequences, empty sequences among others,
 * empty rows at the end, tensors without elements at null. SPDX-License-Identifier: Apache-2.0 */
#include "kit/world.h"

static void lengths(const int64_t *len, int64_t B) {
  for (int layout = RD_PADDED; layout <= RD_PACKED; layout++)
    for (int64_t extra = 0; extra <= 2; extra += 2)
      for (int gate = RD_GATE_NONE; gate <= RD_GATE_LOWER_BOUND; gate++) {
        pt_note("lengths %lld %lld %lld layout %d extra %lld", (long long)len[0],
                (long long)len[B > 1], (long long)len[B - 1], layout, (long long)extra);
        size_t mark = mem_mark();
        rd_problem p = pb_default();
        p.gate = (rd_gate)gate;
        p.V = 24;
        callopt o = {
            .layout = (rd_layout)layout, .extra_T = extra, .len_type = extra ? RD_I64 : RD_I32};
        world_all(data_make(&p, B, len), cx_get(0, 2, EX_POOL), &o, false);
        mem_release(mark);
      }
}

static void empty_among_others(void) {
  lengths((int64_t[]){128, 0, 128}, 3);
  lengths((int64_t[]){0, 64, 0}, 3);
  lengths((int64_t[]){0, 0, 1}, 3);
  lengths((int64_t[]){1, 0, 0, 0}, 4);
}

static void no_tokens(void) {
  lengths((int64_t[]){0}, 1);
  lengths((int64_t[]){0, 0, 0}, 3);
}

static void null_tensors(void) {
  for (int layout = RD_PADDED; layout <= RD_PACKED; layout++) {
    pt_note("layout %d", layout);
    rd_problem p = pb_default();
    p.layout = (rd_layout)layout;
    int64_t len[2] = {0, 0};
    data *d = data_make(&p, 2, len);
    call *c = call_all(d, NULL);
    rd_tensor *t[] = {&c->act.q, &c->act.k, &c->act.v, &c->act.g, &c->act.beta, &c->act.out};
    for (size_t i = 0; i < PT_LEN(t); i++) t[i]->data = NULL;
    pool *pl = pool_make(&p, 2, 0);
    for (int i = 0; i < 2; i++) pool_put(pl, i, d->s[i].S0);
    void *before = blk_copy(pl->t.b);
    rd_slots at = pool_view(pl, 2, NULL);
    rd_context *cx = cx_get(0, 2, EX_POOL);
    do_prefill(cx, c, &at, &at);
    do_decode(cx, c, &at, NULL, NULL);
    recs *r = recs_make(&p, 2, 3);
    do_verify(cx, c, &at, r);
    do_commit(cx, &c->p, r, (int32_t[]){0, 0}, &at);
    ck_bytes("states", pl->t.b->p, before, pl->t.b->bytes);
  }
}

static void no_sequences(void) {
  for (int layout = RD_PADDED; layout <= RD_PACKED; layout++)
    for (int64_t extra = 0; extra <= 2; extra += 2) {
      pt_note("layout %d, %lld rows", layout, (long long)extra);
      rd_problem p = pb_default();
      p.layout = (rd_layout)layout;
      int64_t none = 0;
      data *d = data_make(&p, 0, &none);
      callopt o = {.extra_T = extra};
      call *c = call_all(d, &o);
      pool *pl = pool_make(&p, 1, 0);
      void *before = blk_copy(pl->t.b);
      rd_slots at = pool_view(pl, 0, (int32_t[]){0});
      rd_context *cx = cx_get(0, 2, EX_POOL);
      do_prefill(cx, c, &at, &at);
      do_decode(cx, c, &at, NULL, NULL);
      ck_bytes("states", pl->t.b->p, before, pl->t.b->bytes);
    }
}

/* A fresh state for a sequence without tokens: zeros, not the slot's old bytes. */
static void empty_without_initial_state(void) {
  rd_problem p = pb_default();
  int64_t len[2] = {0, 2};
  data *d = data_make(&p, 2, len);
  call *c = call_all(d, NULL);
  pool *pl = pool_make(&p, 2, 0);
  rd_slots at = pool_view(pl, 2, NULL);
  do_prefill(cx_get(0, 2, EX_POOL), c, NULL, &at);
  float *S = fl(data_state_n(d)), *zero = fl(data_state_n(d));
  pool_get(pl, 0, S);
  ck_bits("state of a sequence that never was", S, zero, data_state_n(d));
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"no_tokens", no_tokens, PT_QUICK},
      {"null_tensors", null_tensors, PT_QUICK},
      {"no_sequences", no_sequences, PT_QUICK},
      {"empty_without_initial_state", empty_without_initial_state, PT_QUICK},
      {"empty_among_others", empty_among_others, PT_STD},
  };
  return pt_main(argc, argv, "p14_empty", cases, PT_LEN(cases));
}
