/* redelta bench: this machine's limits and how near the verbs come. SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_setaffinity */

#include "bench/bench.h"
#include "cli/cli.h"

#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_QUICK = CLI_ID_FIRST, OPT_PIN, OPT_OUT };

static const cli_option option_table[] = {
    {"quick", OPT_QUICK, NULL, "the cases of the goals only, in under two minutes"},
    {"pin", OPT_PIN, "CPU", "stay on one CPU (leaves out what needs two)"},
    {"out", OPT_OUT, "FILE", "also write the JSON to a file (bench/render.py draws it)"},
    {0}};

static const cli_command command = {
    "bench",
    "",
    "Measures the FMA peak and the bandwidths of this machine, then every verb in\n"
    "turns with them and with the straightforward loop of the same instruction set:\n"
    "ns per head (prefill: per head and token), the ratio to the floor that peak and\n"
    "bandwidth set, the ratio to that loop, and the error against double. Ends with\n"
    "the goals. K = V = 128, one thread; the smallest of many turns counts.\n"
    "A goal that is not reached does not change the exit status.",
    option_table,
    0,
    0};

static const char *axis_name(rd_gate_axis axis) { return axis == RD_PER_CHANNEL ? "KDA" : "GDN"; }
static const char *family(const bench_spec *s) { return axis_name(s->axis); }
static const char *numerics(const bench_spec *s) {
  return s->numerics == RD_FAST ? "FAST" : "EXACT";
}

/* ---------------------------------------------------------------- text ------------------------ */

/* Rows come as they are measured: a bench of minutes that is stopped, or whose output goes through a
 * pipe, has shown what it had. */
static void print_machine(const bench_machine *m) {
  const double gflops = 2.0 * m->probe->lanes / m->fma_ns;
  cli_progress_end();
  printf("%-7s peak %.0f GFLOP/s (one fma of %d lanes: %.3f ns)\n", m->probe->name, gflops,
         m->probe->lanes, m->fma_ns);
  printf("        read          L2 %5.0f   L3 %5.0f   DRAM %5.1f GB/s\n", m->read[0], m->read[1],
         m->read[2]);
  printf("        read + write  L2 %5.0f   L3 %5.0f   DRAM %5.1f GB/s\n", m->update[0],
         m->update[1], m->update[2]);
  fflush(stdout);
}

static void print_result(const bench_result *x) {
  static int headed;
  const bench_spec *s = &x->spec;
  cli_progress_end();
  if (!headed++)
    printf("\n%-7s %-8s %-3s %-5s %-4s %3s %3s %9s %9s %7s %7s %8s  %s\n", "isa", "verb", "", "",
           "", "T", "acc", "min ns", "median", "/floor", "x plain", "error", "kernel");
  printf("%-7s %-8s %-3s %-5s %-4s %3d %3d %9.1f %9.1f %7.3f %7.2f %8.1e  %s\n", x->isa,
         bench_verb_name(s->verb), family(s), numerics(s), bench_level_name[s->level], (int)s->T,
         (int)s->accepted, x->ns, x->ns_median, x->floor_ns > 0 ? x->ns / x->floor_ns : 0.0,
         x->baseline_ns / x->ns, x->error, x->kernel);
  fflush(stdout);
}

static void print_pair(const bench_pair *x) {
  static int headed;
  char error[16] = "";
  cli_progress_end();
  if (!headed++) printf("\n%-58s %9s %9s %7s %8s\n", "in turns", "min ns", "of", "ratio", "error");
  if (x->error >= 0) snprintf(error, sizeof error, "%.1e", x->error);
  if (x->run)
    printf("%-58s %9.1f %9.1f %7.3f %8s\n", x->text, x->ns, x->to_ns, x->ns / x->to_ns, error);
  else
    printf("%-58s not run\n", x->text);
  fflush(stdout);
}

static void print_trees(const bench_report *r) {
  printf("\n%-24s %12s %9s %7s %11s %8s %13s %13s\n", "draft trees, ns per head", "4 x verify 4",
         "13 nodes", "ratio", "15 (binary)", "error", "record bytes", "state copies");
  for (int i = 0; i < r->tree_count; i++) {
    const bench_tree *x = &r->trees[i];
    printf("%-3s %-20s %12.1f %9.1f %7.3f %11.1f %8.1e %13.0f %13.0f\n", axis_name(x->axis),
           bench_level_name[x->level], x->chains_ns, x->tree_ns, x->chains_ns / x->tree_ns,
           x->binary_ns, x->error, x->record_bytes, x->snapshot_bytes);
  }
}

static void print_goals(const bench_report *r) {
  printf("\n%-46s %-24s %-28s\n", "goal", "limit", "figure");
  for (int i = 0; i < r->goal_count; i++) {
    const bench_goal *g = &r->goals[i];
    printf("%-46s %-24s %-28s %s\n", g->text, g->limit, g->figure,
           g->met < 0 ? "-"
           : g->met   ? "met"
                      : "MISSED");
  }
}

/* ---------------------------------------------------------------- JSON ------------------------ */

static json_t *levels(const double x[BENCH_LEVELS]) {
  return json_pack("{s:f, s:f, s:f}", "L2", x[0], "L3", x[1], "DRAM", x[2]);
}

static json_t *to_json(const bench_report *r) {
  json_t *machines = json_array(), *results = json_array(), *goals = json_array();
  for (int i = 0; i < r->machines; i++) {
    const bench_machine *m = &r->machine[i];
    json_array_append_new(machines,
                          json_pack("{s:s, s:i, s:f, s:f, s:o, s:o}", "isa", m->probe->name,
                                    "lanes", m->probe->lanes, "fma_ns", m->fma_ns, "gflops",
                                    2.0 * m->probe->lanes / m->fma_ns, "read_gbs", levels(m->read),
                                    "read_write_gbs", levels(m->update)));
  }
  for (int i = 0; i < r->count; i++) {
    const bench_result *x = &r->results[i];
    const bench_spec *s = &x->spec;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:s}", "isa", x->isa, "verb",
                          bench_verb_name(s->verb), "family", family(s), "numerics", numerics(s),
                          "level", bench_level_name[s->level], "T", (int)s->T, "accepted",
                          (int)s->accepted, "kernel", x->kernel);
    json_t *f = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "ns", x->ns, "ns_median",
                          x->ns_median, "floor_ns", x->floor_ns, "arithmetic_ns", x->arithmetic_ns,
                          "memory_ns", x->memory_ns, "baseline_ns", x->baseline_ns, "error",
                          x->error, "state_gbs", x->bandwidth, "turns", (int)x->turns);
    json_object_update(o, f);
    json_decref(f);
    json_array_append_new(results, o);
  }
  for (int i = 0; i < r->goal_count; i++) {
    const bench_goal *g = &r->goals[i];
    json_array_append_new(goals, json_pack("{s:s, s:s, s:s, s:o}", "goal", g->text, "limit",
                                           g->limit, "figure", g->figure, "met",
                                           g->met < 0 ? json_null() : json_boolean(g->met)));
  }
  json_t *trees = json_array();
  for (int i = 0; i < r->tree_count; i++) {
    const bench_tree *x = &r->trees[i];
    json_array_append_new(
        trees, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "family", axis_name(x->axis),
                         "level", bench_level_name[x->level], "four_verifies_ns", x->chains_ns,
                         "tree_ns", x->tree_ns, "binary_ns", x->binary_ns, "error", x->error,
                         "record_bytes", x->record_bytes, "snapshot_bytes", x->snapshot_bytes));
  }
  json_t *pairs = json_array();
  for (int i = 0; i < r->pair_count; i++) {
    const bench_pair *x = &r->pairs[i];
    json_array_append_new(pairs, json_pack("{s:s, s:b, s:f, s:f, s:f, s:f, s:i}", "pair", x->text,
                                           "run", x->run, "ns", x->ns, "of_ns", x->to_ns, "error",
                                           x->error, "limit", x->limit, "turns", (int)x->turns));
  }
  return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:f, s:f}", "version", rd_version(), "dim",
                   BENCH_DIM, "machines", machines, "results", results, "goals", goals, "trees",
                   trees, "pairs", pairs, "overhead_ns", r->overhead_ns, "two_threads",
                   r->two_threads);
}

static int pin(int64_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

static int write_report(const char *path, const json_t *json) {
  io_error err;
  io_output out;
  io_status status = io_output_open(&out, path, &err);
  if (status == IO_OK) {
    const int failed = json_dumpfd(json, out.fd, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0;
    status = io_output_close(&out, failed, &err);
  }
  return status == IO_OK ? CLI_OK : cli_fail("bench", (int)status, "%s", err.text);
}

typedef struct request {
  bench_options bench;
  const char *out;
  int64_t cpu; /* -1: any */
} request;

static int take_option(const cli_args *args, int id, void *options) {
  request *o = options;
  if (id == OPT_QUICK) o->bench.quick = 1;
  if (id == OPT_OUT) o->out = args->value;
  return id != OPT_PIN || cli_int(args, 0, CPU_SETSIZE - 1, &o->cpu);
}

int cmd_bench(int argc, char **argv) {
  cli_args args;
  request o = {.bench = {.progress = cli_progress}, .cpu = -1};
  int status = cli_read(&args, &command, argc, argv, take_option, &o);
  if (status != CLI_GO) return status;
  if (!args.json)
    o.bench.machine = print_machine, o.bench.result = print_result, o.bench.pair = print_pair;
  io_error err; /* found out before the minutes of work */
  if (o.out && io_check_output(o.out, &err) != IO_OK)
    return cli_fail("bench", CLI_BAD, "%s", err.text);
  if (o.cpu >= 0 && !pin(o.cpu))
    return cli_fail("bench", CLI_BAD, "CPU %d is not ours to run on", (int)o.cpu);
  cpu_set_t set;
  o.bench.one_thread = sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2;

  bench_report *r = malloc(sizeof *r);
  if (!r) return cli_fail("bench", CLI_SYSTEM, "out of memory");
  const int ok = bench_all(&o.bench, r);
  cli_progress_end();
  status = CLI_OK;
  if (!ok) {
    status = cli_fail("bench", CLI_SYSTEM, "a case could not run (out of memory?)");
  } else {
    json_t *json = args.json || o.out ? to_json(r) : NULL;
    if (o.out) status = write_report(o.out, json);
    if (args.json) {
      free(r);
      return cli_finish_json("bench", status, json);
    }
    json_decref(json);
    print_trees(r);
    print_goals(r);
  }
  free(r);
  return cli_finish("bench", status);
}
