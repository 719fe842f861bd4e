/* P12: 64-bit addressing: slots, batches and tokens beyond 2^31 elements and 2^32 bytes (sparse
 * mappings, few pages touched), long sequences, very many sequences. SPDX-License-Identifier:
 * Apache-2.0 */
#include <sys/mman.h>

#include "kit/world.h"

typedef struct sparse {
  void *p;
  size_t bytes;
} sparse;

static sparse reserve(int64_t elements) {
  sparse s = {NULL, Z(elements) * sizeof(float)};
  s.p = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
  if (s.p == MAP_FAILED) s.p = NULL;
  return s;
}

static rd_problem one_head(void) {
  rd_problem p = pb_default();
  p.Hk = p.Hv = 1;
  p.K = 16;
  p.V = 8;
  return p;
}

/* Slots 0 and 2, the second one beyond 2^31 elements from the first. */
static void far_slots(void) {
  rd_problem p = one_head();
  int64_t len[2] = {5, 3}, stride = (INT64_C(1) << 30) + 64, n = p.V * p.K;
  sparse m = reserve(3 * stride);
  if (!m.p) {
    pt_skip("no 12 GiB of address space");
    return;
  }
  data *d = data_make(&p, 2, len);
  world *w = world_make(d);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  float *S = m.p;
  rd_slots at = no_slots;
  at.pool = rd_tensor_contiguous(m.p, RD_F32, 4, (int64_t[]){3, 1, p.V, p.K});
  at.pool.stride[0] = stride;
  at.slots = tb_i32(2, (int32_t[]){2, 0}).t;
  float *far = S + 2 * stride;
  for (int verb = 0; verb < 3; verb++) {
    memcpy(far, d->s[0].S0, Z(n) * sizeof(float));
    memcpy(S, d->s[1].S0, Z(n) * sizeof(float));
    call *c = call_all(d, NULL);
    recs *r = recs_make(&p, 2, 5);
    if (verb == 0) do_prefill(cx, c, &at, &at);
    if (verb == 1) do_decode(cx, c, &at, NULL, NULL);
    if (verb == 2 && do_verify(cx, c, &at, r)) do_commit(cx, &c->p, r, (int32_t[]){5, 3}, &at);
    pt_note("verb %d", verb);
    ck_bits("far slot", far, w->w[0].S, n);
    ck_bits("near slot", S, w->w[1].S, n);
    float *out = fl(5 * p.V);
    call_out(c, 0, out);
    ck_bits("out", out, w->w[0].out, 5 * p.V);
  }
  CK(S[stride] == 0 && S[n] == 0 && far[n] == 0 && far[-1] == 0,
     "neighbours of the slots were written");
  munmap(m.p, m.bytes);
}

/* Two tokens, and two sequences, more than 2^31 elements apart, for every input and the output. */
static void far_rows(bool tokens) {
  rd_problem p = one_head();
  int64_t B = tokens ? 1 : 2, T = tokens ? 2 : 1, len[2] = {T, T}, stride = (INT64_C(1) << 31) + 32;
  sparse m = reserve(stride + 4096);
  if (!m.p) {
    pt_skip("no 8 GiB of address space");
    return;
  }
  data *d = data_make(&p, B, len);
  world *w = world_make(d);
  call *c = call_all(d, NULL);
  rd_tensor *in[] = {&c->act.q, &c->act.k, &c->act.v, &c->act.g, &c->act.beta, &c->act.out};
  int64_t off = 0;
  for (size_t i = 0; i < PT_LEN(in); i++) {
    rd_tensor old = *in[i];
    int64_t row = old.shape[2] * (old.rank == 4 ? old.shape[3] : 1);
    in[i]->data = (float *)m.p + off;
    in[i]->stride[tokens ? 1 : 0] = stride;
    if (tokens) in[i]->stride[0] = 2 * stride;
    for (int x = 0; x < 2; x++) {
      int64_t b = tokens ? 0 : x, t = tokens ? x : 0;
      memcpy((float *)m.p + off + x * stride, tb_at(&old, b, t, 0, 0), Z(row) * sizeof(float));
    }
    off += row + 3;
  }
  pool *pl = pool_make(&p, B, 0);
  for (int64_t b = 0; b < B; b++) pool_put(pl, b, d->s[b].S0);
  rd_slots at = pool_view(pl, B, NULL);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  rd_plan *plan = NULL;
  CK_OK(cx, rd_plan_create(cx, &c->p, &plan));
  /* the interleaved views cannot be told apart by their byte ranges, so out gets its own memory */
  sparse o = reserve(stride + 4096);
  if (o.p) {
    c->act.out.data = o.p;
    CK_OK(cx, rd_prefill(cx, plan, &c->seq, &c->act, &at, &at, NULL));
    float *S = fl(p.V * p.K);
    for (int x = 0; x < 2; x++)
      ck_bits("far out", (float *)o.p + x * stride, tokens ? w->w[0].out + x * p.V : w->w[x].out,
              p.V);
    for (int64_t b = 0; b < B; b++) {
      pool_get(pl, b, S);
      ck_bits("state", S, w->w[b].S, p.V * p.K);
    }
    munmap(o.p, o.bytes);
  } else {
    pt_skip("no 16 GiB of address space");
  }
  rd_plan_destroy(plan);
  munmap(m.p, m.bytes);
}

static void far_tokens(void) { far_rows(true); }
static void far_sequences(void) { far_rows(false); }

static void long_sequences(void) {
  for (int64_t T = 32767; T <= 32769; T++) {
    size_t mark = mem_mark();
    rd_problem p = one_head();
    pt_note("T=%lld", (long long)T);
    data *d = data_make(&p, 1, &T);
    world *w = world_make(d);
    rd_context *cx = cx_get(0, 2, EX_POOL);
    world_prefill(w, cx, NULL);
    callopt o = {.layout = RD_PACKED};
    world_decode(w, cx, &o);
    if (T == 32769) world_speculate(w, cx, NULL);
    mem_release(mark);
  }
}

static void very_many_sequences(void) {
  enum { N = 70000 };
  rd_problem p = one_head();
  p.K = 4;
  p.V = 3;
  int64_t *len = mem_heap(N * sizeof *len);
  for (int i = 0; i < N; i++) len[i] = 1;
  data *d = data_make(&p, N, len);
  world *w = world_make(d);
  rd_context *cx = cx_get(0, 2, EX_POOL);
  int64_t n = data_state_n(d), no = p.V;
  for (int packed = 0; packed < 2; packed++) {
    callopt o = {.layout = packed ? RD_PACKED : RD_PADDED};
    call *c = call_all(d, &o);
    pool *pl = pool_make(&p, N, 0);
    for (int i = 0; i < N; i++) pool_put(pl, i, d->s[i].S0);
    rd_slots at = pool_view(pl, N, NULL);
    do_decode(cx, c, &at, NULL, NULL);
    float *S = fl(N * n), *S1 = fl(N * n), *o0 = fl(N * no), *o1 = fl(N * no);
    for (int i = 0; i < N; i++) {
      pool_get(pl, i, S + i * n);
      memcpy(S1 + i * n, w->w[i].S, Z(n) * sizeof(float));
      call_out(c, i, o0 + i * no);
      memcpy(o1 + i * no, w->w[i].out, Z(no) * sizeof(float));
    }
    pt_note("packed %d", packed);
    ck_bits("states", S, S1, N * n);
    ck_bits("outs", o0, o1, N * no);
  }
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"far_slots", far_slots, PT_QUICK},
      {"far_tokens", far_tokens, PT_QUICK},
      {"far_sequences", far_sequences, PT_QUICK},
      {"long_sequences", long_sequences, PT_STD},
      {"very_many_sequences", very_many_sequences, PT_STD},
  };
  return pt_main(argc, argv, "p12_addressing", cases, PT_LEN(cases));
}
