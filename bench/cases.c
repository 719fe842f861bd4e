/* One case: the verb in turns with the FMA peak and the straightforward loop. */
#include "bench/probes.h"
#include "bench/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bench_verb_name(bench_verb verb) {
  static const char *const names[] = {"",       "prefill", "decode", "verify",
                                      "commit", "folded",  "round"};
  return verb >= BENCH_PREFILL && verb <= BENCH_ROUND ? names[verb] : "";
}

/* Vector operations of one head per element of S, and how often S is read and written. */
static void floors(const bench_machine *m, const bench_spec *s, bench_result *r) {
  const double T = s->T, acc = s->accepted, size = (double)BENCH_DIM * BENCH_DIM;
  const int fast = s->numerics == RD_FAST;
  const double verify = fast ? 2 * T : 2 + 4 * (T - 1);
  double ops = 0, read = 0, update = 0; /* bytes */
  switch (s->verb) {
  case BENCH_PREFILL:
    ops = fast ? 3 : 4;
    break;
  case BENCH_DECODE:
    ops = 4, update = 8 * size;
    break;
  case BENCH_VERIFY:
    ops = verify, read = 4 * size;
    break;
  case BENCH_COMMIT:
    ops = 2 * acc, update = acc > 0 ? 8 * size : 0;
    break;
  case BENCH_FOLDED:
    ops = verify + 2 * acc, update = 8 * size;
    break;
  case BENCH_ROUND:
    ops = verify + 2 * acc, read = 4 * size, update = 8 * size;
    break;
  }
  r->arithmetic_ns = ops * size / m->probe->lanes * m->fma_ns;
  r->memory_ns = read / m->read[s->level] + update / m->update[s->level];
  r->floor_ns = r->arithmetic_ns > r->memory_ns ? r->arithmetic_ns : r->memory_ns;
  r->bandwidth = (read + update) / r->ns;
}

/* ---------------------------------------------------------------- the straightforward loop ---- */

typedef struct plain {
  const bench_probe *probe;
  float *S;
  int64_t heads, at;
  float *x; /* k, a, q, v, work, o of T tokens */
} plain;

static void plain_head(plain *p, const bench_spec *s, int64_t tokens) {
  enum { D = BENCH_DIM };
  float *S = p->S + p->at * D * D, *x = p->x;
  p->at = (p->at + 1) % p->heads;
  if (s->verb == BENCH_COMMIT) {
    for (int32_t i = 0; i < s->accepted; i++) p->probe->replay(S, D, D, x, x + D, x + 3 * D);
    return;
  }
  for (int64_t t = 0; t < tokens; t++)
    p->probe->token(S, D, D, x, x + D, x + 2 * D, 0.5f, x + 3 * D, x + 4 * D, x + 5 * D);
  if (s->verb == BENCH_FOLDED || s->verb == BENCH_ROUND)
    for (int32_t i = 0; i < s->accepted; i++) p->probe->replay(S, D, D, x, x + D, x + 3 * D);
}

static int plain_open(plain *p, const bench_machine *m, bench_world *w) {
  *p = (plain){.probe = m->probe, .S = w->state.pool.data, .heads = w->B * w->Hv};
  p->x = calloc(6 * BENCH_DIM, sizeof(float));
  if (!p->x) return 0;
  for (int i = 0; i < BENCH_DIM; i++) {
    p->x[i] = p->x[2 * BENCH_DIM + i] = 0.05f * (float)(i % 7 - 3);
    p->x[BENCH_DIM + i] = 0.9f;
    p->x[3 * BENCH_DIM + i] = 0.1f * (float)(i % 5);
  }
  return 1;
}

/* ---------------------------------------------------------------- turns ----------------------- */

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { MAX_TURNS = 4096 };

/* Calls that together take about a tenth of a millisecond. */
static int calls_per_turn(bench_world *w) {
  double t = bench_now();
  if (bench_world_run(w) != RD_OK || bench_world_run(w) != RD_OK) return 0;
  t = (bench_now() - t) / 2;
  const double n = 1e5 / t;
  return n < 1 ? 1 : n > 1000 ? 1000 : (int)n;
}

static int turns(const bench_machine *m, bench_world *w, double seconds, bench_result *r) {
  static double all[MAX_TURNS];
  const bench_spec *s = &w->spec;
  const double heads = (double)(w->B * w->Hv),
               unit = s->verb == BENCH_PREFILL ? heads * s->T : heads;
  const int calls = calls_per_turn(w);
  const int64_t plain_tokens = s->verb == BENCH_PREFILL ? 16 : s->T;
  const int64_t plain_heads = s->level == BENCH_DRAM ? 256 : s->level == BENCH_L3 ? 24 : 2;
  const double plain_unit =
      (double)plain_heads * (s->verb == BENCH_PREFILL ? (double)plain_tokens : 1);
  bench_machine now = *m;
  plain p;
  if (!calls || !plain_open(&p, m, w)) return 0;
  r->ns = r->baseline_ns = 1e300;
  const double end = bench_now() + seconds * 1e9;
  while ((r->turns < (s->level == BENCH_DRAM ? 5 : 20) || bench_now() < end) &&
         r->turns < MAX_TURNS) {
    double t = bench_now();
    const int64_t n = m->probe->fma(BENCH_FMA_ROUNDS);
    t = (bench_now() - t) / (double)n;
    if (r->turns == 0 || t < now.fma_ns) now.fma_ns = t;
    t = bench_now();
    for (int i = 0; i < calls; i++) (void)bench_world_run(w);
    t = (bench_now() - t) / (calls * unit);
    all[r->turns++] = t;
    if (t < r->ns) r->ns = t;
    if (s->threads > 1 || (r->turns > 3 && s->level == BENCH_DRAM)) continue;
    t = bench_now();
    for (int64_t i = 0; i < plain_heads; i++) plain_head(&p, s, plain_tokens);
    t = (bench_now() - t) / plain_unit;
    if (t < r->baseline_ns) r->baseline_ns = t;
  }
  free(p.x);
  qsort(all, (size_t)r->turns, sizeof *all, by_value);
  r->ns_median = all[r->turns / 2];
  if (r->baseline_ns > 1e299) r->baseline_ns = 0;
  floors(&now, s, r);
  return 1;
}

static void kernel_name(const bench_world *w, bench_result *r) {
  rd_plan_info info = {.struct_size = sizeof info};
  if (rd_plan_get_info(w->plan, &info) != RD_OK) return;
  const char *name = w->spec.verb == BENCH_COMMIT ? info.commit_kernel : info.rows_kernel;
  if (w->spec.numerics == RD_FAST) {
    const char *fast =
        w->spec.verb == BENCH_PREFILL ? info.fast_prefill_kernel : info.fast_verify_kernel;
    if (fast) name = fast;
  }
  snprintf(r->kernel, sizeof r->kernel, "%s", name ? name : "");
}

int bench_run(const bench_machine *m, const bench_spec *spec, double seconds,
              bench_result *result) {
  *result = (bench_result){.spec = *spec, .isa = m->probe->name};
  bench_spec small = *spec;
  small.level = BENCH_HOT;
  small.threads = 1;
  bench_world *w = bench_world_open(&small, 1);
  if (!w) return 0;
  result->error = bench_world_error(w);
  bench_world_close(w);
  w = bench_world_open(spec, 0);
  if (!w) return 0;
  kernel_name(w, result);
  const int ok = turns(m, w, seconds, result);
  bench_world_close(w);
  return ok && result->error >= 0;
}
