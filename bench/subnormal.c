/* What subnormal numbers cost: a verb under gates, states and inputs that are full of them, in turns with
 * the same call on ordinary ones. Both calls start from the same kind of state every time. */
#include "bench/world.h"
#include "ref/ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct condition {
  const char *name;
  double gate;  /* log decay of every token and channel; 1: as drawn */
  double state; /* size of its elements; 0: as drawn */
  int no_v;     /* v = 0: what decays is not replaced */
  int tiny;     /* q, k and v of the size of the type's smallest numbers (bf16: f32's subnormals) */
} condition;

static const condition conditions[] = {
    {"gate -20", -20, 0, 0, 0},         {"gate -45", -45, 0, 0, 0},
    {"gate -80", -80, 0, 0, 0},         {"gate -86", -86, 0, 0, 0},
    {"gate -88", -88, 0, 0, 0},         {"gate -95", -95, 0, 0, 0},
    {"gate -103", -103, 0, 0, 0},       {"gate -110", -110, 0, 0, 0},
    {"gate -inf", -INFINITY, 0, 0, 0},  {"state at 1e-37, v = 0", 1, 1e-37, 1, 0},
    {"state at 1e-40", 1, 1e-40, 1, 0}, {"q, k, v subnormal", 1, 0, 0, 1},
};
enum { CONDITIONS = sizeof conditions / sizeof conditions[0], TURNS = 20 };

/* ---------------------------------------------------------------- inputs of a condition -------- */

enum { G, Q, KEYS, VALUES, CHANGED };

typedef struct side { /* a world, and what its inputs and its state were */
  bench_world *w;
  void *saved[CHANGED];
  float *drawn, *state; /* as drawn; what each turn starts from */
} side;

static rd_tensor *input(const side *s, int i) {
  rd_activations *a = &s->w->act;
  rd_tensor *const all[CHANGED] = {&a->g, &a->q, &a->k, &a->v};
  return all[i];
}

static size_t bytes(const rd_tensor *t) {
  return (size_t)rdr_elements(t) * rd_dtype_size(t->dtype);
}

static void side_close(side *s) {
  for (int i = 0; i < CHANGED; i++) free(s->saved[i]);
  free(s->drawn), free(s->state);
  bench_world_close(s->w);
}

static int side_open(side *s, const bench_spec *spec) {
  *s = (side){.w = bench_world_open(spec, 0)};
  if (!s->w) return 0;
  const rd_tensor *pool = &s->w->state.pool;
  s->drawn = malloc(bytes(pool)), s->state = malloc(bytes(pool));
  if (!s->drawn || !s->state) return 0;
  memcpy(s->drawn, pool->data, bytes(pool));
  for (int i = 0; i < CHANGED; i++) {
    const rd_tensor *t = input(s, i);
    s->saved[i] = malloc(bytes(t));
    if (!s->saved[i]) return 0;
    memcpy(s->saved[i], t->data, bytes(t));
  }
  return 1;
}

static void put(const rd_tensor *t, int64_t from, int64_t n, double x) {
  const float f = (float)x;
  const uint16_t h = t->dtype == RD_F32 ? 0 : rdr_16_of(f, t->dtype);
  const size_t size = rd_dtype_size(t->dtype);
  for (int64_t i = from; i < from + n; i++)
    memcpy((char *)t->data + (size_t)i * size, t->dtype == RD_F32 ? (const void *)&f : &h, size);
}

/* Gates that leave FAST's range of e^-40 at the same token of each block as `gate` does, and then stand
 * still: such a block runs EXACT from there on, with no subnormal number anywhere. */
static void put_leaving(const rd_tensor *g, int64_t T, double gate) {
  const int64_t row = rdr_elements(g) / T;
  double sum = 0;
  for (int64_t t = 0; t < T; t++) {
    if (t % 16 == 0) sum = 0;
    const double x = sum < -41 ? 0 : gate < -45 ? -45 : gate;
    put(g, t * row, row, x);
    sum += x;
  }
}

/* The smallest numbers of a 16-bit type, both signs, none of them zero. */
static void put_tiny(const rd_tensor *t) {
  for (int64_t i = 0; i < rdr_elements(t); i++)
    ((uint16_t *)t->data)[i] = (uint16_t)((1 + i % 100) | (i % 3 == 0 ? 0x8000 : 0));
}

/* ordinary: the other side of the comparison */
static int apply(side *s, const condition *c, int ordinary) {
  bench_world *w = s->w;
  for (int i = 0; i < CHANGED; i++) memcpy(input(s, i)->data, s->saved[i], bytes(input(s, i)));
  const int leaving = ordinary && w->spec.numerics == RD_FAST && c->gate <= 0;
  if (leaving) put_leaving(input(s, G), w->spec.T, c->gate);
  if (!ordinary && c->gate <= 0) put(input(s, G), 0, rdr_elements(input(s, G)), c->gate);
  if (!ordinary && c->no_v) put(input(s, VALUES), 0, rdr_elements(input(s, VALUES)), 0);
  for (int i = Q; !ordinary && c->tiny && i < CHANGED; i++) put_tiny(input(s, i));
  const double size = ordinary || c->state <= 0 ? 1 : c->state;
  for (int64_t i = 0; i < rdr_elements(&w->state.pool); i++)
    s->state[i] = (float)((double)s->drawn[i] * size);
  memcpy(w->state.pool.data, s->state, bytes(&w->state.pool));
  if (!w->made.u.data) return 1; /* the verb has no records */
  return rd_verify(w->ctx, w->plan, &w->seq, &w->act, &w->state, &w->made) == RD_OK;
}

/* ---------------------------------------------------------------- turns ------------------------ */

static double timed(side *s, int *ok) {
  memcpy(s->w->state.pool.data, s->state, bytes(&s->w->state.pool));
  const double t = bench_now();
  *ok = *ok && bench_world_run(s->w) == RD_OK;
  return bench_now() - t;
}

/* The smallest of the turns under the condition over the smallest of the ordinary ones; 0: failed. */
static double ratio_of(side sides[2], const condition *c, double seconds) {
  int ok = apply(&sides[0], c, 1) && apply(&sides[1], c, 0);
  double best[2] = {1e300, 1e300};
  const double end = bench_now() + seconds * 1e9;
  for (int turn = 0; ok && (turn < TURNS || bench_now() < end); turn++)
    for (int i = 0; i < 2; i++) {
      const double t = timed(&sides[i], &ok);
      if (t < best[i]) best[i] = t;
    }
  return ok ? best[1] / best[0] : 0;
}

static int row(const bench_spec *spec, double seconds, bench_subnormal *r) {
  side sides[2] = {{0}};
  int ok = side_open(&sides[0], spec) && side_open(&sides[1], spec);
  for (int i = 0; ok && i < CONDITIONS; i++) {
    const double ratio = ratio_of(sides, &conditions[i], seconds / CONDITIONS);
    ok = ratio > 0;
    if (ratio > r->ratio) r->ratio = ratio, r->worst = conditions[i].name;
  }
  side_close(&sides[0]), side_close(&sides[1]);
  return ok;
}

int bench_subnormal_rows(double seconds, bench_subnormal *rows, int *count) {
  static const struct {
    bench_verb verb;
    rd_numerics numerics;
    int32_t T, accepted;
  } verbs[] = {{BENCH_PREFILL, RD_EXACT, 32, 0}, {BENCH_PREFILL, RD_FAST, 32, 0},
               {BENCH_DECODE, RD_EXACT, 1, 0},   {BENCH_VERIFY, RD_EXACT, 8, 0},
               {BENCH_VERIFY, RD_FAST, 8, 0},    {BENCH_COMMIT, RD_EXACT, 8, 4},
               {BENCH_FOLDED, RD_EXACT, 8, 4}};
  *count = 0;
  for (int a = 0; a < 2; a++)
    for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++) {
      bench_subnormal *r = &rows[(*count)++];
      *r = (bench_subnormal){verbs[v].verb, a ? RD_PER_HEAD : RD_PER_CHANNEL, verbs[v].numerics, 0,
                             ""};
      const bench_spec spec = {.verb = r->verb,
                               .axis = r->axis,
                               .numerics = r->numerics,
                               .T = verbs[v].T,
                               .accepted = verbs[v].accepted,
                               .threads = 1,
                               .log_gate = 1};
      if (!row(&spec, seconds, r)) return 0;
    }
  return 1;
}
