/* redelta npu run. SPDX-License-Identifier: Apache-2.0 */
#include "cli/npu_cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ID_UNCHECKED = NPU_ID_OWN, ID_ORACLE, ID_PLAN };

static const cli_option options[] = {
    {"out", 'o', "OUT", "file to write (also -o OUT)"},
    NPU_OPTIONS,
    {"unchecked", ID_UNCHECKED, NULL, "values only: no race checker"},
    {"oracle", ID_ORACLE, NULL, "compare with the double oracle under the kernel's limits"},
    {"plan", ID_PLAN, NULL, "print the kernel's work split"},
    {0}};

static const cli_command command = {
    "npu run",
    "KERNEL [IN.safetensors] [-o OUT.safetensors]",
    "Runs a kernel on the AI Core model, checking it on the way. Files are those of\n"
    "redelta run; without one, inputs are generated (--shape). Exit status 1 when\n"
    "the checker has a finding or the oracle disagrees.",
    options,
    1,
    2};

typedef struct run_state {
  npu_request r;
  const char *out;
  bool unchecked, oracle, plan;
} run_state;

static bool print_line(void *user, const char *text) {
  fputs(text, user);
  return true;
}

static const io_dtype *dtype_of(rd_npu_type t) {
  switch (t) {
  case RD_NPU_F16:
    return io_dtype_of(RD_F16);
  case RD_NPU_BF16:
    return io_dtype_of(RD_BF16);
  case RD_NPU_F32:
    return io_dtype_of(RD_F32);
  case RD_NPU_S32:
    return io_dtype_of(RD_I32);
  default:
    return io_dtype_of(RD_I64);
  }
}

static int write_outputs(const run_state *s, const rdn_call *call) {
  io_file file = {0};
  io_error err;
  io_status status = IO_OK;
  for (uint32_t i = 0; i < call->tensor_count && status == IO_OK; i++) {
    const rdn_named *t = &call->tensor[i];
    io_tensor *to;
    if (!t->output) continue;
    status = io_file_add(&file, t->name, dtype_of(t->type), (int32_t)t->rank, t->shape, &to, &err);
    if (status == IO_OK && to->bytes) memcpy(to->data, t->data, to->bytes);
  }
  if (status == IO_OK) status = io_safetensors_write(s->out, &file, &err);
  io_file_free(&file);
  return status == IO_OK ? CLI_OK : cli_fail(command.name, (int)status, "%s", err.text);
}

/* ---- the oracle
 * ---------------------------------------------------------------------------------- */

typedef struct judged {
  const rdn_limit *limit;
  double *expected;
  double nrmse, worst; /* worst: |x-r| over its limit */
  int64_t at, nonfinite;
  bool ok;
} judged;
enum { MAX_JUDGED = 8 };

static int expectations(const run_state *s, const rdn_call *call, judged *j) {
  int n = 0;
  for (const rdn_limit *l = s->r.kernel->limits; l && l->output && n < MAX_JUDGED; l++) {
    const rdn_named *t = rdn_call_input(call, l->output);
    if (!t) continue;
    j[n] =
        (judged){.limit = l, .expected = malloc(((size_t)rdn_named_count(t) + 1) * sizeof(double))};
    if (!j[n].expected || s->r.kernel->oracle(call, l->output, j[n].expected) != RD_NPU_OK)
      return -1;
    n++;
  }
  return n;
}

static void compare(const rdn_call *call, judged *j) {
  const rdn_named *t = rdn_call_input(call, j->limit->output);
  double error = 0, power = 0;
  int64_t count = rdn_named_count(t);
  j->ok = true;
  j->at = -1;
  for (int64_t i = 0; i < count; i++) {
    double x = rdn_named_value(t, i), r = j->expected[i];
    if (!isfinite(x)) j->nonfinite++;
    if (isnan(x) && isnan(r)) continue;
    double d = x == r ? 0 : fabs(x - r), bound = j->limit->atol + j->limit->rtol * fabs(r);
    error += d * d, power += r * r;
    double over = bound > 0 ? d / bound : 0;
    if (isnan(d) || over > j->worst) j->worst = isnan(d) ? (double)INFINITY : over, j->at = i;
  }
  j->nrmse = sqrt(error / (double)(count ? count : 1)) /
             fmax(sqrt(power / (double)(count ? count : 1)), 1e-12);
  if (j->limit->nrmse > 0 && !(j->nrmse <= j->limit->nrmse)) j->ok = false;
  if (j->worst > 1) j->ok = false;
}

static json_t *judged_json(const judged *j) {
  return json_pack("{s:s, s:o, s:o, s:I, s:b}", "output", j->limit->output, "nrmse",
                   io_json_real(j->nrmse), "over_limit", io_json_real(j->worst), "nonfinite",
                   (json_int_t)j->nonfinite, "ok", j->ok);
}

/* ---- run
 * ------------------------------------------------------------------------------------------- */

static int report(const run_state *s, const rd_npu_report *rep, const judged *j, int judged_count,
                  double seconds, int status) {
  if (s->r.json) {
    char *text = rd_npu_report_json(rep);
    json_t *model = text ? json_loads(text, 0, NULL) : NULL, *checks = json_array();
    free(text);
    for (int i = 0; i < judged_count; i++) json_array_append_new(checks, judged_json(&j[i]));
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o}", "kernel", s->r.kernel->name, "seconds",
                  io_json_real(seconds), "checks", checks, "model", model ? model : json_null());
    return cli_finish_json(command.name, status, root);
  }
  char *text = rd_npu_report_text(rep);
  printf("%s", text ? text : "out of memory\n");
  free(text);
  for (int i = 0; i < judged_count; i++) {
    printf("%-16s NRMSE %.3g", j[i].limit->output, j[i].nrmse);
    if (j[i].limit->nrmse > 0) printf(" (limit %.3g)", j[i].limit->nrmse);
    if (j[i].limit->atol > 0 || j[i].limit->rtol > 0)
      printf(", worst element at %.3g of its bound", j[i].worst);
    printf(", %lld not finite: %s\n", (long long)j[i].nonfinite, j[i].ok ? "ok" : "FAILED");
  }
  printf("%.2f s\n", seconds);
  return cli_finish(command.name, status);
}

static int execute(void *state, rdn_call *call) {
  const run_state *s = state;
  judged j[MAX_JUDGED] = {{0}};
  int count = s->oracle ? expectations(s, call, j) : 0;
  if (s->plan && s->r.kernel->plan)
    s->r.kernel->plan(call, print_line, s->r.json ? stderr : stdout);
  int status =
      count < 0 ? cli_fail(command.name, CLI_SYSTEM, "the oracle ran out of memory") : CLI_OK;
  rd_npu_report *rep = NULL;
  rd_npu_options o;
  npu_model_options(&s->r, &o);
  o.mode = s->unchecked ? RD_NPU_VALUES : RD_NPU_CHECKED;
  double start = cli_seconds();
  rd_npu_status ran = status == CLI_OK ? rd_npu_run(&call->launch, &o, &rep) : RD_NPU_OK;
  double seconds = cli_seconds() - start;
  cli_progress_end();
  if (ran == RD_NPU_BAD_INPUT || ran == RD_NPU_NO_MEMORY)
    status = cli_fail(command.name, ran == RD_NPU_BAD_INPUT ? CLI_BAD : CLI_SYSTEM, "%s",
                      rd_npu_report_summary(rep));
  else if (status == CLI_OK) {
    if (ran == RD_NPU_FINDING) status = CLI_FAILED;
    for (int i = 0; i < count; i++) {
      compare(call, &j[i]);
      if (!j[i].ok) status = CLI_FAILED;
    }
    int written = s->out ? write_outputs(s, call) : CLI_OK;
    if (written != CLI_OK) status = written;
    status = report(s, rep, j, count, seconds, status);
  }
  for (int i = 0; i < MAX_JUDGED; i++) free(j[i].expected);
  rd_npu_report_free(rep);
  return status;
}

static int take_option(const cli_args *args, int id, void *state) {
  run_state *s = state;
  if (id == 'o') s->out = args->value;
  if (id == ID_UNCHECKED) s->unchecked = true;
  if (id == ID_ORACLE) s->oracle = true;
  if (id == ID_PLAN) s->plan = true;
  return 1;
}

int npu_run(int argc, char **argv) {
  static run_state s;
  cli_args args;
  int status = npu_read(&s.r, &args, &command, argc, argv, take_option, &s);
  return status == CLI_GO ? npu_on_call(&s.r, &args, s.out, execute, &s) : status;
}
