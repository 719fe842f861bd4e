/* Sequences of verbs on random problems: an error changes nothing, success has the specification's
 * bits. */
#include "api.h"
#include "ref/ref.h"

#include <string.h>

enum { MODE = (int)RDR_C1 | (int)RDR_ROUND, CONTEXTS = 4 };

/* One input's world. */
typedef struct world {
  feed f;
  arena a;
  rd_context *ctx;
  rd_plan *plan;
  rd_problem p;
  rd_tensor pool;
  rd_records records; /* of the last verify */
  int64_t batch;      /* its batch */
} world;

/* The instruction sets and thread counts take turns; contexts live as long as the process. */
static rd_context *context(uint32_t which) {
  static rd_context *all[CONTEXTS];
  if (all[which] == NULL) {
    static const struct {
      int32_t threads;
      uint32_t mask;
    } kinds[CONTEXTS] = {{1, 0},
                         {3, 0},
                         {1, RD_ISA_SCALAR},
                         {2, RD_ISA_SCALAR | RD_ISA_SCALAR_FMA | RD_ISA_AVX2 | RD_ISA_NEON}};
    rd_context_options o;
    rd_context_options_init(&o);
    o.threads = kinds[which].threads;
    o.isa_mask = kinds[which].mask & (rd_isa_usable() | (uint32_t)RD_ISA_SCALAR);
    FUZZ_MUST(rd_context_create(&o, &all[which]) == RD_OK);
  }
  return all[which];
}

static void check(const world *w, const expect *e, rd_status status) {
  FUZZ_MUST(status != RD_E_BUSY && status != RD_E_NOMEM);
  FUZZ_MUST((status == RD_OK) == (rd_last_error(w->ctx)[0] == '\0'));
  expect_check(e, status);
}

static double *doubles(world *w, int64_t n) {
  return arena_take(&w->a, (size_t)n * sizeof(double));
}

static double *state_room(world *w, int64_t batch) {
  return doubles(w, batch * w->p.Hv * w->p.V * w->p.K);
}

/* States of pad sequences are not written by the specification: they start as what the pool holds.
 */
static int64_t tokens(world *w) { return 1 + feed_below(&w->f, MAX_TOKENS); }

static void do_prefill(world *w) {
  int64_t T = tokens(w);
  rd_sequences seq;
  rd_activations act;
  rd_slots initial = {.struct_size = sizeof(rd_slots)}, final = initial;
  make_sequences(&w->f, &w->a, &w->p, T, &seq);
  make_activations(&w->f, &w->a, &w->p, &seq, T, &act);
  if (feed_below(&w->f, 4)) make_slots(&w->f, &w->a, &w->pool, seq.batch, &initial);
  if (feed_below(&w->f, 4)) final = initial;
  if (final.pool.dtype == RD_ABSENT && feed_below(&w->f, 2))
    make_slots(&w->f, &w->a, &w->pool, seq.batch, &final);
  expect e = {.count = 0};
  rdr_results res = {.out = expect_add(&e, &w->a, &act.out), .state = state_room(w, seq.batch)};
  double *pool = expect_add(&e, &w->a, &w->pool);
  /* What the specification reads must be read before the library writes over it. */
  rd_tensor copy = w->pool;
  copy.data = e.one[1].before;
  rd_slots before = initial, after = final;
  if (before.pool.dtype != RD_ABSENT) before.pool = copy;
  if (after.pool.dtype != RD_ABSENT) after.pool = copy;
  rd_status status = rd_prefill(w->ctx, w->plan, &seq, &act, &initial, &final, NULL);
  if (status == RD_OK) {
    FUZZ_MUST(rdr_prefill(MODE, &w->p, &seq, &act, &before, &after, &res) == 0);
    expect_states(pool, &w->p, &final.pool, &final, seq.batch, res.state);
  }
  check(w, &e, status);
}

static void do_decode(world *w) {
  int64_t T = 1 + feed_below(&w->f, 3);
  rd_sequences seq;
  rd_activations act;
  rd_slots state, write = {.struct_size = sizeof(rd_slots)};
  make_sequences(&w->f, &w->a, &w->p, T, &seq);
  make_activations(&w->f, &w->a, &w->p, &seq, T, &act);
  make_slots(&w->f, &w->a, &w->pool, seq.batch, &state);
  int other = feed_below(&w->f, 4) == 0;
  if (other) make_slots(&w->f, &w->a, &w->pool, seq.batch, &write);
  expect e = {.count = 0};
  rdr_results res = {.out = expect_add(&e, &w->a, &act.out), .state = state_room(w, seq.batch)};
  double *pool = expect_add(&e, &w->a, &w->pool);
  rd_slots before = state;
  before.pool.data = e.one[1].before;
  rd_status status = rd_decode(w->ctx, w->plan, &seq, &act, &state, other ? &write : NULL, NULL);
  if (status == RD_OK) {
    FUZZ_MUST(rdr_decode(MODE, &w->p, &seq, &act, &before, &res) == 0);
    expect_states(pool, &w->p, &w->pool, other ? &write : &state, seq.batch, res.state);
  }
  check(w, &e, status);
}

static void add_records(world *w, expect *e, const rd_records *r, rdr_results *res) {
  res->u = expect_add(e, &w->a, &r->u);
  res->k = expect_add(e, &w->a, &r->k);
  res->decay = expect_add(e, &w->a, &r->decay);
  res->C = r->u.shape[1];
}

static void do_verify(world *w) {
  int64_t T = tokens(w), C = feed_rarely(&w->f) ? 1 : T + feed_below(&w->f, 3);
  rd_sequences seq;
  rd_activations act;
  rd_slots state;
  rd_records records;
  make_sequences(&w->f, &w->a, &w->p, T, &seq);
  make_activations(&w->f, &w->a, &w->p, &seq, T, &act);
  make_slots(&w->f, &w->a, &w->pool, seq.batch, &state);
  make_records(&w->a, &w->p, seq.batch, C, &records);
  expect e = {.count = 0};
  rdr_results res = {.out = expect_add(&e, &w->a, &act.out)};
  add_records(w, &e, &records, &res);
  expect_add(&e, &w->a, &w->pool); /* a checkpoint: it stays */
  rd_status status = rd_verify(w->ctx, w->plan, &seq, &act, &state, &records);
  if (status == RD_OK) FUZZ_MUST(rdr_verify(MODE, &w->p, &seq, &act, &state, &res) == 0);
  check(w, &e, status);
  if (status == RD_OK) w->records = records, w->batch = seq.batch;
}

static void do_commit(world *w, int materialize) {
  rd_tensor accepted;
  rd_slots from, to;
  if (w->batch == 0) return;
  make_accepted(&w->f, &w->a, &w->records, w->batch, &accepted);
  make_slots(&w->f, &w->a, &w->pool, w->batch, &from);
  to = from;
  if (materialize) make_slots(&w->f, &w->a, &w->pool, w->batch, &to);
  expect e = {.count = 0};
  rdr_results res = {.state = state_room(w, w->batch)};
  double *pool = expect_add(&e, &w->a, &w->pool);
  rd_slots before = from;
  before.pool.data = e.one[0].before;
  rd_records old = w->records;
  rd_status status = materialize
                         ? rd_materialize(w->ctx, w->plan, &w->records, &accepted, &from, &to)
                         : rd_commit(w->ctx, w->plan, &w->records, &accepted, &from);
  if (status == RD_OK) {
    FUZZ_MUST(materialize || old.made.consumed == 0);
    FUZZ_MUST(rdr_commit(MODE, &w->p, &w->records, &accepted, &before, &res) == 0);
    expect_states(pool, &w->p, &w->pool, &to, w->batch, res.state);
  }
  check(w, &e, status);
}

static void do_commit_verify(world *w) {
  int64_t T = tokens(w);
  rd_sequences seq;
  rd_activations act;
  rd_slots state;
  rd_records next;
  rd_tensor accepted;
  if (w->batch == 0) return;
  make_sequences(&w->f, &w->a, &w->p, T, &seq);
  make_activations(&w->f, &w->a, &w->p, &seq, T, &act);
  make_slots(&w->f, &w->a, &w->pool, seq.batch, &state);
  make_accepted(&w->f, &w->a, &w->records, w->batch, &accepted);
  make_records(&w->a, &w->p, seq.batch, T, &next);
  expect e = {.count = 0};
  double *pool = expect_add(&e, &w->a, &w->pool);
  rdr_results res = {.out = expect_add(&e, &w->a, &act.out), .state = state_room(w, seq.batch)};
  add_records(w, &e, &next, &res);
  rd_slots before = state;
  before.pool.data = e.one[0].before;
  rd_status status =
      rd_commit_verify(w->ctx, w->plan, &w->records, &accepted, &seq, &act, &state, &next);
  if (status == RD_OK) {
    FUZZ_MUST(rdr_commit_verify(MODE, &w->p, &w->records, &accepted, &seq, &act, &before, &res) ==
              0);
    expect_states(pool, &w->p, &w->pool, &state, seq.batch, res.state);
  }
  check(w, &e, status);
  if (status == RD_OK) w->records = next, w->batch = seq.batch;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  world w = {.f = {data, size}};
  w.ctx = context(feed_below(&w.f, CONTEXTS));
  make_problem(&w.f, &w.p);
  if (rd_plan_create(w.ctx, &w.p, &w.plan) != RD_OK) {
    FUZZ_MUST(w.plan == NULL && rd_last_error(w.ctx)[0] != '\0');
    return 0;
  }
  make_pool(&w.f, &w.a, &w.p, &w.pool);
  for (int step = 0; step < 5 && w.f.left > 0; step++) {
    switch (feed_below(&w.f, 8)) {
    case 0:
      do_prefill(&w);
      break;
    case 1:
      do_decode(&w);
      break;
    case 2:
    case 3:
      do_verify(&w);
      break;
    case 4:
    case 5:
      do_commit(&w, 0);
      break;
    case 6:
      do_commit(&w, 1);
      break;
    default:
      do_commit_verify(&w);
    }
  }
  rd_plan_destroy(w.plan);
  arena_free(&w.a);
  return 0;
}
