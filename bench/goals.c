/* The goals of docs/PERFORMANCE.md against what was measured. */
#include "bench/bench.h"

#include <stdarg.h>
#include <stdio.h>

static const bench_result *find(const bench_report *r, const char *isa, bench_verb verb,
                                rd_gate_axis axis, rd_numerics numerics, bench_level level,
                                int32_t T, int32_t accepted) {
  for (int i = 0; i < r->count; i++) {
    const bench_result *x = &r->results[i];
    if (x->spec.verb == verb && x->spec.axis == axis && x->spec.numerics == numerics &&
        x->spec.level == level && x->spec.T == T && x->spec.accepted == accepted && x->isa == isa)
      return x;
  }
  return NULL;
}

static bench_goal *goal(bench_report *r, int met, const char *text, ...)
    __attribute__((format(printf, 3, 4)));

static bench_goal *goal(bench_report *r, int met, const char *text, ...) {
  if (r->goal_count == BENCH_MAX_GOALS) r->goal_count--, r->lost++;
  bench_goal *g = &r->goals[r->goal_count++];
  va_list args;
  va_start(args, text);
  vsnprintf(g->text, sizeof g->text, text, args);
  va_end(args);
  g->met = met;
  return g;
}

static const char *family(rd_gate_axis axis) { return axis == RD_PER_CHANNEL ? "KDA" : "GDN"; }

/* x is a ratio that must not exceed limit. */
static void at_most(bench_report *r, double x, double limit, const char *of, const char *text) {
  bench_goal *g = goal(r, x <= limit, "%s", text);
  snprintf(g->limit, sizeof g->limit, "<= %.2f %s", limit, of);
  snprintf(g->figure, sizeof g->figure, "%.3f", x);
}

static void at_least(bench_report *r, double x, double limit, const char *of, const char *text) {
  bench_goal *g = goal(r, x >= limit, "%s", text);
  snprintf(g->limit, sizeof g->limit, ">= %.2f %s", limit, of);
  snprintf(g->figure, sizeof g->figure, "%.3f", x);
}

static void floor_goal(bench_report *r, const char *isa, bench_verb verb, rd_gate_axis axis,
                       rd_numerics numerics, bench_level level, int32_t T, int32_t accepted,
                       double limit) {
  const bench_result *x = find(r, isa, verb, axis, numerics, level, T, accepted);
  char text[96];
  if (!x) return;
  if (verb == BENCH_PREFILL)
    snprintf(text, sizeof text, "%s prefill %s %s, T = %d", isa, family(axis),
             numerics == RD_FAST ? "FAST" : "EXACT", (int)T);
  else if (verb == BENCH_VERIFY)
    snprintf(text, sizeof text, "%s verify(%d) %s %s, %s", isa, (int)T, family(axis),
             numerics == RD_FAST ? "FAST" : "EXACT", bench_level_name[level]);
  else
    snprintf(text, sizeof text, "%s %s(%d) %s, %s", isa, bench_verb_name(verb), (int)accepted,
             family(axis), bench_level_name[level]);
  at_most(r, x->ns / x->floor_ns, limit, "x floor", text);
}

static void decode_goal(bench_report *r, const char *isa, rd_gate_axis axis, bench_level level,
                        double limit) {
  const bench_result *x = find(r, isa, BENCH_DECODE, axis, RD_EXACT, level, 1, 0);
  char text[96];
  if (!x) return;
  snprintf(text, sizeof text, "%s decode %s, %s", isa, family(axis), bench_level_name[level]);
  at_least(r, x->bandwidth / r->machine[0].update[level], limit, "of read+write", text);
  /* Where a core's arithmetic takes longer than its memory, no decode can have all the bandwidth. */
  if (x->arithmetic_ns > x->memory_ns) {
    bench_goal *g = &r->goals[r->goal_count - 1];
    snprintf(g->figure, sizeof g->figure, "%.3f (arithmetic: %.3f)",
             x->bandwidth / r->machine[0].update[level], x->memory_ns / x->arithmetic_ns);
  }
}

static void round_goal(bench_report *r, const char *isa, rd_gate_axis axis, bench_verb verb,
                       double limit) {
  const bench_result *x = find(r, isa, verb, axis, RD_EXACT, BENCH_DRAM, 8, 4);
  const bench_result *d = find(r, isa, BENCH_DECODE, axis, RD_EXACT, BENCH_DRAM, 1, 0);
  char text[96];
  if (!x || !d) return;
  snprintf(text, sizeof text, "%s verify(8) and commit(4)%s, %s, DRAM", isa,
           verb == BENCH_FOLDED ? " folded" : "", family(axis));
  at_most(r, x->ns / (8 * d->ns), limit, "x 8 decodes", text);
}

static void baseline_goal(bench_report *r, const char *isa, bench_verb verb, rd_gate_axis axis,
                          bench_level level, int32_t T, int32_t accepted, double limit) {
  const bench_result *x = find(r, isa, verb, axis, RD_EXACT, level, T, accepted);
  char text[96];
  if (!x || x->baseline_ns <= 0) return;
  snprintf(text, sizeof text, "%s %s %s, %s", isa, bench_verb_name(verb), family(axis),
           bench_level_name[level]);
  at_least(r, x->baseline_ns / x->ns, limit, "x plain loop", text);
}

static void best_isa(bench_report *r, const char *isa) {
  static const rd_gate_axis axes[] = {RD_PER_CHANNEL, RD_PER_HEAD};
  for (int a = 0; a < 2; a++)
    floor_goal(r, isa, BENCH_PREFILL, axes[a], RD_EXACT, BENCH_HOT, 512, 0, a ? 1.20 : 1.30);
  for (int a = 0; a < 2; a++)
    floor_goal(r, isa, BENCH_PREFILL, axes[a], RD_FAST, BENCH_HOT, 512, 0, a ? 1.20 : 1.28);
  for (int a = 0; a < 2; a++)
    for (bench_level level = BENCH_HOT; level < BENCH_LEVELS; level++) {
      const int dram = level == BENCH_DRAM;
      floor_goal(r, isa, BENCH_VERIFY, axes[a], RD_EXACT, level, 8, 0, dram ? 1.75 : 1.46);
      floor_goal(r, isa, BENCH_VERIFY, axes[a], RD_FAST, level, 8, 0, dram ? 1.75 : 1.55);
    }
  for (int a = 0; a < 2; a++) {
    decode_goal(r, isa, axes[a], BENCH_L3, 0.65);
    decode_goal(r, isa, axes[a], BENCH_DRAM, 0.85);
    floor_goal(r, isa, BENCH_COMMIT, axes[a], RD_EXACT, BENCH_L3, 8, 4, 1.25);
    floor_goal(r, isa, BENCH_COMMIT, axes[a], RD_EXACT, BENCH_DRAM, 8, 4, 1.25);
    round_goal(r, isa, axes[a], BENCH_ROUND, 0.70);
    round_goal(r, isa, axes[a], BENCH_FOLDED, 0.60);
  }
  const bench_result *zero = find(r, isa, BENCH_COMMIT, RD_PER_CHANNEL, RD_EXACT, BENCH_L3, 8, 0);
  const bench_result *four = find(r, isa, BENCH_COMMIT, RD_PER_CHANNEL, RD_EXACT, BENCH_L3, 8, 4);
  if (zero && four) {
    char text[96];
    snprintf(text, sizeof text, "%s commit(0)", isa);
    at_most(r, zero->ns / four->ns, 0.05, "x commit(4), L3", text);
  }
}

static void narrow_isa(bench_report *r, const char *isa) {
  static const rd_gate_axis axes[] = {RD_PER_CHANNEL, RD_PER_HEAD};
  for (int a = 0; a < 2; a++) {
    floor_goal(r, isa, BENCH_PREFILL, axes[a], RD_EXACT, BENCH_HOT, 512, 0, 1.40);
    baseline_goal(r, isa, BENCH_PREFILL, axes[a], BENCH_HOT, 512, 0, 2.5);
    for (bench_level level = BENCH_HOT; level <= BENCH_L3; level++) {
      baseline_goal(r, isa, BENCH_DECODE, axes[a], level, 1, 0, 2.5);
      baseline_goal(r, isa, BENCH_VERIFY, axes[a], level, 8, 0, 2.5);
      baseline_goal(r, isa, BENCH_COMMIT, axes[a], level, 8, 4, 1.0);
    }
  }
}

static void pair_goal(bench_report *r, const bench_pair *x) {
  if (x->limit <= 0) return;
  bench_goal *g = goal(r, !x->run ? -1 : x->ns / x->to_ns <= x->limit, "%s", x->text);
  snprintf(g->limit, sizeof g->limit, "<= %.2f", x->limit);
  snprintf(g->figure, sizeof g->figure, x->run ? "%.3f" : "not run", x->ns / x->to_ns);
  if (x->error < 0 || !x->run) return;
  g->met = g->met && x->error <= 2e-6;
  snprintf(g->limit, sizeof g->limit, "<= %.2f, error <= 2e-6", x->limit);
  snprintf(g->figure, sizeof g->figure, "%.3f, error %.1e", x->ns / x->to_ns, x->error);
}

void bench_judge(bench_report *r) {
  r->goal_count = 0;
  for (int m = 0; m < r->machines; m++) {
    const bench_probe *p = r->machine[m].probe;
    if (p->isa == RD_ISA_AVX512) best_isa(r, p->name);
    if (p->isa == RD_ISA_AVX2) narrow_isa(r, p->name);
  }
  for (int i = 0; i < r->pair_count; i++) pair_goal(r, &r->pairs[i]);
  for (int i = 0; i < r->subnormal_count; i++) {
    const bench_subnormal *x = &r->subnormal[i];
    char text[96];
    snprintf(text, sizeof text, "%s %s %s, subnormal (%s)", bench_verb_name(x->verb),
             family(x->axis), x->numerics == RD_FAST ? "FAST" : "EXACT", x->worst);
    at_most(r, x->ratio, 1.10, "x ordinary", text);
  }
  for (int i = 0; i < r->tree_count; i++) {
    const bench_tree *x = &r->trees[i];
    char text[96];
    snprintf(text, sizeof text, "tree of 13 nodes %s, %s", family(x->axis),
             bench_level_name[x->level]);
    at_least(r, x->chains_ns / x->tree_ns, x->level == BENCH_HOT ? 1.15 : 1.5,
             "x four verifies of 4", text);
  }
  at_least(r, bench_record_ratio(RD_PER_CHANNEL, RD_F32), 42, "x fewer bytes",
           "records, KDA in FP32");
  at_least(r, bench_record_ratio(RD_PER_HEAD, RD_F32), 63, "x fewer bytes", "records, GDN in FP32");
  at_least(r, bench_record_ratio(RD_PER_CHANNEL, RD_F16), 63, "x fewer bytes",
           "records, KDA with f16 u and k");
  if (r->two_threads > 0)
    at_least(r, r->two_threads, 1.85, "x one thread", "two threads, KDA prefill in cache");
  bench_goal *g =
      goal(r, r->overhead_ns < 1000 && r->allocations == 0, "call of a warm decode of one head");
  snprintf(g->limit, sizeof g->limit, "< 1 us, no allocation");
  snprintf(g->figure, sizeof g->figure, "%.0f ns, %lld allocations", r->overhead_ns,
           (long long)r->allocations);
}
