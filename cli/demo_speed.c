/* Part 4 of the demo: speed and bytes, for information. SPDX-License-Identifier: Apache-2.0
 *
 * A few of the cases of `redelta bench`, each measured in turns with the straightforward loop: four
 * plain SIMD passes over the state per token, as engines write it by hand.
 */
#include "bench/bench.h"
#include "cli/demo_parts.h"

static const struct {
  const char *name;
  bench_verb verb;
  int32_t T, accepted, tokens; /* tokens: what one measured unit holds per head */
  double kda, gdn; /* goal: at most so many times the floor; decode: at least this share of
                                  the cache's read+write bandwidth */
} cases[] = {{"prefill of 256 tokens", BENCH_PREFILL, 256, 0, 1, 1.30, 1.20},
             {"decode", BENCH_DECODE, 1, 0, 1, 0.65, 0.65},
             {"verify of 8 tokens", BENCH_VERIFY, 8, 0, 8, 1.46, 1.46},
             {"commit of 4 tokens", BENCH_COMMIT, 8, 4, 4, 1.25, 1.25}};

static const double SECONDS = 0.3; /* per case */

/* Goals are those of AVX-512; elsewhere the figure stands alone. */
static void figure(char *text, size_t size, const bench_machine *m, const bench_result *r,
                   double goal) {
  const int share = r->spec.verb == BENCH_DECODE;
  const double x = share ? r->bandwidth / m->update[BENCH_L3] : r->ns / r->floor_ns;
  const int n = snprintf(text, size, "%.2f %s", x, share ? "of the bandwidth" : "x floor");
  if (m->probe->isa == RD_ISA_AVX512)
    snprintf(text + n, size - (size_t)n, " (goal %.2f, %s)", goal,
             (share ? x >= goal : x <= goal) ? "met" : "MISSED");
}

static int measure(demo *d, const bench_machine *machine, rd_gate_axis axis) {
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench_spec spec = {.verb = cases[i].verb,
                       .axis = axis,
                       .numerics = RD_EXACT,
                       .level = BENCH_L3,
                       .T = cases[i].T,
                       .accepted = cases[i].accepted,
                       .threads = 1};
    bench_result r;
    char name[48];
    cli_progress("measuring", 0, 0);
    if (!bench_run(machine, &spec, SECONDS, &r))
      return cli_fail("demo", CLI_SYSTEM, "part 4: no memory");
    double ns = r.ns / cases[i].tokens, loop = r.baseline_ns / cases[i].tokens;
    snprintf(name, sizeof name, "%s %s", axis == RD_PER_CHANNEL ? "KDA" : "GDN", cases[i].name);
    char against[80];
    figure(against, sizeof against, machine, &r,
           axis == RD_PER_CHANNEL ? cases[i].kda : cases[i].gdn);
    demo_note(d, name, "%5.0f ns per token and head, %s; straightforward loop %.1f times that", ns,
              against, loop / ns);
  }
  return CLI_OK;
}

/* Record and snapshot bytes are sums of sizes; the plan knows them. */
static int bytes(demo *d, rd_gate_axis axis) {
  rd_problem p;
  rd_problem_init(&p);
  p.gate_axis = axis;
  p.Hk = p.Hv = p.max_batch = p.max_tokens = 1;
  p.K = p.V = BENCH_DIM;
  rd_plan *plan = NULL;
  rd_plan_info info = {.struct_size = sizeof info};
  rd_status status = rd_plan_create(d->ctx, &p, &plan);
  if (status == RD_OK) status = rd_plan_get_info(plan, &info);
  rd_plan_destroy(plan);
  if (status != RD_OK) {
    return cli_fail("demo", cli_status_of(status), "part 4: %s: %s", rd_status_name(status),
                    rd_last_error(d->ctx));
  }
  demo_note(d, axis == RD_PER_CHANNEL ? "KDA bytes per draft token" : "GDN bytes per draft token",
            "%6zu of records per head; a snapshot %zu, %.1f times that",
            info.record_bytes_per_token, info.snapshot_bytes_per_token,
            (double)info.snapshot_bytes_per_token / (double)info.record_bytes_per_token);
  return CLI_OK;
}

int demo_part4(demo *d) {
  static const rd_gate_axis axes[] = {RD_PER_CHANNEL, RD_PER_HEAD};
  bench_machine machine;
  demo_part(
      d, 4,
      "speed and bytes (for information): one thread, K=V=128, FP32 states and records,\n"
      "  states in the third-level cache; redelta bench --quick has all goals, measured better");
  cli_progress("measuring", 0, 0);
  if (!bench_machine_measure(&machine, 0, SECONDS, (size_t)64 << 20)) {
    return cli_fail("demo", CLI_SYSTEM, "part 4: no memory");
  }
  int result = CLI_OK;
  for (int i = 0; i < 2 && result == CLI_OK; i++) {
    result = measure(d, &machine, axes[i]);
    if (result == CLI_OK) result = bytes(d, axes[i]);
  }
  return result;
}
