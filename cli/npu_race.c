/* redelta npu race. SPDX-License-Identifier: Apache-2.0 */
#include "cli/npu_cli.h"

#include <stdlib.h>
#include <string.h>

enum { ID_MUTATE = NPU_ID_OWN, ID_DEVIATIONS, ID_MAX, ID_NO_WITNESS, ID_WITH };

static const cli_option options[] = {
    NPU_OPTIONS,
    {"mutate", ID_MUTATE, NULL, "judge every event and barrier over the kernel's set of shapes"},
    {"with", ID_WITH, "LIST",
     "put in missing events: M_V or pipe_barrier(V); what is left is not cured"},
    {"deviations", ID_DEVIATIONS, "D", "exhaustive: departures from eager (default 2)"},
    {"max-schedules", ID_MAX, "N", "exhaustive: at most so many per core (default 20000)"},
    {"no-witness", ID_NO_WITNESS, NULL, "do not search for differing values"},
    {0}};

static const cli_command command = {
    "npu race",
    "KERNEL [IN.safetensors]",
    "Runs a kernel under the happens-before checker. Every race is reported with the\n"
    "missing event and a deterministic run that shows a differing value. --without\n"
    "drops event channels without touching the kernel. Exit status 1 on any finding.",
    options,
    1,
    2};

typedef struct race_state {
  npu_request r;
  bool mutate, no_witness;
  int64_t deviations, max_schedules;
} race_state;

/* ---- mutation
 * ------------------------------------------------------------------------------------ */

enum { MAX_LAUNCHES = 32 };

/* The launches of the mutation set: the default shape first. Returns their number or -1 - status.
 */
static int mutation_launches(const race_state *s, rdn_call *calls, rd_npu_launch *launches) {
  int n = 0;
  io_file none = {0};
  for (int k = -1; n < MAX_LAUNCHES && (k < 0 || s->r.kernel->mutation_shapes[k]); k++) {
    npu_request r = s->r;
    if (k >= 0) r.shape = s->r.kernel->mutation_shapes[k], r.lengths = NULL;
    int status = npu_prepare(&r, NULL, NULL, &none, &calls[n]);
    n++;
    if (status != CLI_OK) {
      for (int i = 0; i < n; i++) rdn_call_free(&calls[i]);
      return -1 - status;
    }
    launches[n - 1] = calls[n - 1].launch;
  }
  return n;
}

static int mutate(const race_state *s) {
  rdn_call *calls = calloc(MAX_LAUNCHES, sizeof *calls);
  static rd_npu_launch launches[MAX_LAUNCHES];
  if (!calls) return cli_fail(command.name, CLI_SYSTEM, "out of memory");
  int n = mutation_launches(s, calls, launches);
  if (n < 0) {
    free(calls);
    return -1 - n;
  }
  rd_npu_options o;
  npu_model_options(&s->r, &o);
  rd_npu_mutation *m = NULL;
  rd_npu_status judged = rd_npu_mutate(launches, (uint32_t)n, &o, &m);
  cli_progress_end();
  char *text = m ? s->r.json ? rd_npu_mutation_json(m) : rd_npu_mutation_text(m) : NULL;
  if (text) fputs(text, stdout);
  if (text && s->r.json) putchar('\n');
  free(text);
  rd_npu_mutation_free(m);
  for (int i = 0; i < n; i++) rdn_call_free(&calls[i]);
  free(calls);
  int status = judged == RD_NPU_OK          ? CLI_OK
               : judged == RD_NPU_FINDING   ? CLI_FAILED
               : judged == RD_NPU_BAD_INPUT ? CLI_BAD
                                            : CLI_SYSTEM;
  if (status == CLI_SYSTEM) cli_fail(command.name, status, "out of memory or threads");
  return cli_finish(command.name, status);
}

/* ---- race
 * ------------------------------------------------------------------------------------------ */

static int race(void *state, rdn_call *call) {
  const race_state *s = state;
  rd_npu_options o;
  npu_model_options(&s->r, &o);
  o.witnesses = !s->no_witness;
  o.deviations = (uint32_t)s->deviations;
  o.max_schedules = (uint64_t)s->max_schedules;
  rd_npu_report *rep = NULL;
  rd_npu_status ran = rd_npu_run(&call->launch, &o, &rep);
  cli_progress_end();
  int status = ran == RD_NPU_OK          ? CLI_OK
               : ran == RD_NPU_FINDING   ? CLI_FAILED
               : ran == RD_NPU_BAD_INPUT ? CLI_BAD
                                         : CLI_SYSTEM;
  if (status == CLI_BAD || status == CLI_SYSTEM) {
    cli_fail(command.name, status, "%s", rd_npu_report_summary(rep));
  } else {
    char *text = s->r.json ? rd_npu_report_json(rep) : rd_npu_report_text(rep);
    if (text) fputs(text, stdout);
    if (text && s->r.json) putchar('\n');
    if (!text) status = cli_fail(command.name, CLI_SYSTEM, "out of memory");
    free(text);
  }
  rd_npu_report_free(rep);
  return cli_finish(command.name, status);
}

static int take_option(const cli_args *args, int id, void *state) {
  race_state *s = state;
  if (id == ID_MUTATE) s->mutate = true;
  if (id == ID_WITH) s->r.with = args->value;
  if (id == ID_NO_WITNESS) s->no_witness = true;
  if (id == ID_DEVIATIONS) return cli_int(args, 1, UINT32_MAX, &s->deviations);
  if (id == ID_MAX) return cli_int(args, 1, INT32_MAX, &s->max_schedules);
  return 1;
}

int npu_race(int argc, char **argv) {
  static race_state s;
  cli_args args;
  int status = npu_read(&s.r, &args, &command, argc, argv, take_option, &s);
  if (status != CLI_GO) return status;
  if (!s.mutate) return npu_on_call(&s.r, &args, NULL, race, &s);
  if (s.r.with)
    return cli_fail(command.name, CLI_BAD, "--with puts in what one run misses; not with --mutate");
  if (args.operand_count > 1)
    return cli_fail(command.name, CLI_BAD,
                    "--mutate runs over the kernel's own shapes and takes no file");
  return mutate(&s);
}
