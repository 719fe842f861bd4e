/* Draft trees: one verify of a tree against as many chains as it has branches, in turns. */
#include "bench/world.h"

/* Node 0 is the root. FOUR: four chains behind it, numbered one after another; BINARY: level by level. */
int32_t bench_tree_parent(int32_t tree, int32_t node, int32_t nodes) {
  if (node == 0) return -1;
  if (tree == BENCH_BINARY) return (node - 1) / 2;
  const int32_t arm = (nodes - 1) / 4;
  return (node - 1) % arm ? node - 1 : 0;
}

/* ns per head of `calls` calls of w. */
static int once(bench_world *w, int calls, double *best) {
  double t = bench_now();
  for (int i = 0; i < calls; i++)
    if (bench_world_run(w) != RD_OK) return 0;
  t = (bench_now() - t) / (double)(w->B * w->Hv);
  if (t < *best) *best = t;
  return 1;
}

static int measure(bench_world *a, int calls_a, double *ns_a, bench_world *b, double *ns_b,
                   double seconds) {
  /* States in cache: enough rounds that the clock's steps do not show. */
  const int rounds = a->spec.level == BENCH_HOT ? 8 : 1;
  const double end = bench_now() + seconds * 1e9;
  *ns_a = *ns_b = 1e300;
  for (int turn = 0; turn < 5 || bench_now() < end; turn++)
    if (!once(a, calls_a * rounds, ns_a) || !once(b, rounds, ns_b)) return 0;
  *ns_a /= rounds;
  *ns_b /= rounds;
  return 1;
}

static double error_of(bench_spec spec) {
  spec.level = BENCH_HOT;
  bench_world *w = bench_world_open(&spec, 1);
  const double error = w ? bench_world_error(w) : -1;
  bench_world_close(w);
  return error;
}

static int row(rd_gate_axis axis, bench_level level, double seconds, bench_tree *r) {
  bench_spec chain = {.verb = BENCH_VERIFY,
                      .axis = axis,
                      .numerics = RD_EXACT,
                      .level = level,
                      .T = 4,
                      .threads = 1};
  bench_spec four = chain, binary = chain;
  four.tree = BENCH_FOUR, four.T = 13;
  binary.tree = BENCH_BINARY, binary.T = 15;
  *r = (bench_tree){.axis = axis, .level = level, .error = error_of(four)};
  bench_world *a = bench_world_open(&chain, 0), *b = bench_world_open(&four, 0);
  int ok = a && b && r->error >= 0;
  rd_plan_info info = {.struct_size = sizeof info};
  ok = ok && rd_plan_get_info(b->plan, &info) == RD_OK;
  r->record_bytes = four.T * (double)info.record_bytes_per_token;
  r->snapshot_bytes = four.T * (double)info.snapshot_bytes_per_token;
  ok = ok && measure(a, 4, &r->chains_ns, b, &r->tree_ns, seconds);
  bench_world_close(b);
  b = ok ? bench_world_open(&binary, 0) : NULL;
  double again;
  ok = b && measure(a, 4, &again, b, &r->binary_ns, seconds / 2);
  bench_world_close(a);
  bench_world_close(b);
  return ok;
}

int bench_trees(double seconds, bench_tree *rows, int *count) {
  *count = 0;
  for (int a = 0; a < 2; a++)
    for (int level = BENCH_HOT; level <= BENCH_DRAM; level += BENCH_DRAM)
      if (!row(a ? RD_PER_HEAD : RD_PER_CHANNEL, (bench_level)level,
               level == BENCH_DRAM ? 2 * seconds : seconds, &rows[(*count)++]))
        return 0;
  return 1;
}
