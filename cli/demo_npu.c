/* The demo on the AI Core model: the 310P chunk kernel with and without its events, and part 2 on the
 * 950's vector cores. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_cases.h"
#include "cli/demo_parts.h"
#include "cli/npu_cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEDULES = 8, MODEL_THREADS = 2 };

static const char chunk[] = "chunk_gated_delta_rule";

static int no_model(const rdn_call *call) {
  return cli_fail("demo", CLI_SYSTEM, "the model refused its input: %s", call->error);
}

static rd_npu_status run_model(const rdn_kernel_desc *kernel, const rdn_call *call,
                               rd_npu_options *o, rd_npu_report **report) {
  o->size = sizeof *o;
  o->gm_slack = kernel->gm_slack;
  o->threads = MODEL_THREADS;
  cli_progress("AI Core model", 0, 0);
  return rd_npu_run(&call->launch, o, report);
}

/* ---- the oracle -------------------------------------------------------------------------------- */

typedef struct outputs {
  const rdn_kernel_desc *kernel;
  double *expected[4]; /* in the order of kernel->limits */
} outputs;

static void free_outputs(outputs *x) {
  for (int i = 0; i < 4; i++) free(x->expected[i]);
}

/* Before the launch: operators may update their inputs in place. */
static int expect_outputs(outputs *x, const rdn_kernel_desc *kernel, const rdn_call *call) {
  *x = (outputs){.kernel = kernel};
  for (int i = 0; i < 4 && kernel->limits[i].output != NULL; i++) {
    const char *name = kernel->limits[i].output;
    const int64_t n = rdn_named_count(rdn_call_input(call, name));
    x->expected[i] = malloc(((size_t)n + 1) * sizeof(double));
    if (x->expected[i] == NULL || kernel->oracle(call, name, x->expected[i]) != RD_NPU_OK)
      return cli_fail("demo", CLI_SYSTEM, "no memory for the oracle");
  }
  return CLI_OK;
}

/* The worst output under the kernel's own limits: 1 when all hold. */
static int outputs_hold(const outputs *x, const rdn_call *call, double *nrmse, double *max_abs) {
  int hold = 1;
  *nrmse = *max_abs = 0;
  for (int i = 0; i < 4 && x->kernel->limits[i].output != NULL; i++) {
    const rdn_limit *limit = &x->kernel->limits[i];
    const rdn_named *t = rdn_call_input(call, limit->output);
    double error = 0, power = 0;
    const int64_t n = rdn_named_count(t);
    for (int64_t j = 0; j < n; j++) {
      const double r = x->expected[i][j], e = fabs(rdn_named_value(t, j) - r);
      error += e * e;
      power += r * r;
      if (!(e <= *max_abs)) *max_abs = e;
      if (limit->atol > 0) hold &= e <= limit->atol + limit->rtol * fabs(r);
    }
    const double rms = sqrt(error / fmax(power, 1e-24 * (double)n));
    if (!(rms <= *nrmse)) *nrmse = rms;
    if (limit->nrmse > 0) hold &= rms <= limit->nrmse;
  }
  return hold;
}

/* ---- the 310P kernel --------------------------------------------------------------------------- */

static int generated(rdn_call *call, const rdn_kernel_desc *kernel) {
  rdn_call_init(call, kernel->arch);
  call->seed = DEMO_SEED;
  if (kernel->generate(call, kernel->presets[0].shape) != RD_NPU_OK ||
      kernel->prepare(call) != RD_NPU_OK)
    return no_model(call);
  return CLI_OK;
}

static int same_outputs(const rdn_call *a, const rdn_call *b) {
  for (uint32_t i = 0; i < a->tensor_count; i++) {
    if (!a->tensor[i].output) continue;
    const rdn_named *t = rdn_call_input(b, a->tensor[i].name);
    if (memcmp(a->tensor[i].data, t->data, rdn_named_bytes(t)) != 0) return 0;
  }
  return 1;
}

/* One run under the checker. */
typedef struct checked {
  int holds; /* no findings, and the outputs within their limits */
  size_t findings;
  double nrmse, max_abs;
} checked;

static int run_checked(const rdn_kernel_desc *kernel, rdn_call *call, checked *c) {
  outputs x;
  rd_npu_options o = {.mode = RD_NPU_CHECKED};
  rd_npu_report *report = NULL;
  int status = expect_outputs(&x, kernel, call);
  if (status == CLI_OK) {
    const rd_npu_status ran = run_model(kernel, call, &o, &report);
    c->holds = outputs_hold(&x, call, &c->nrmse, &c->max_abs) && ran == RD_NPU_OK;
    c->findings = report != NULL ? rd_npu_report_count(report) : 0;
  }
  rd_npu_report_free(report);
  free_outputs(&x);
  return status;
}

static int chunk_checked(demo *d, const rdn_kernel_desc *kernel, rdn_call *first) {
  checked c;
  int status = run_checked(kernel, first, &c);
  if (status == CLI_OK)
    demo_check(d, c.holds, "310P chunk kernel",
               "%zu findings, NRMSE %.2e against the double oracle", c.findings, c.nrmse);
  return status;
}

static int chunk_schedules(demo *d, const rdn_kernel_desc *kernel, const rdn_call *first) {
  int same = 0;
  for (int i = 0; i < SCHEDULES; i++) {
    rdn_call call;
    rd_npu_report *report = NULL;
    int status = generated(&call, kernel);
    if (status != CLI_OK) return status;
    rd_npu_options o = {.mode = RD_NPU_VALUES,
                        .schedule = i == 0 ? RD_NPU_LAZY : RD_NPU_RANDOM,
                        .seed = (uint64_t)i};
    same += run_model(kernel, &call, &o, &report) == RD_NPU_OK && same_outputs(first, &call);
    rd_npu_report_free(report);
    rdn_call_free(&call);
  }
  demo_check(d, same == SCHEDULES, "310P chunk kernel, schedules",
             "%d of %d adversarial schedules give the same bits", same, SCHEDULES);
  return CLI_OK;
}

/* The field's fault: with the channel dropped, the checker must find races of this kind that name it, and
 * show values that change. */
static int chunk_without(demo *d, const rdn_kernel_desc *kernel, const char *channel,
                         rd_npu_finding_kind kind) {
  rdn_call call;
  rd_npu_report *report = NULL;
  int status = generated(&call, kernel);
  if (status != CLI_OK) return status;
  rd_npu_options o = {.mode = RD_NPU_CHECKED, .without = channel, .witnesses = true};
  const rd_npu_status ran = run_model(kernel, &call, &o, &report);
  int races = 0, differ = 0;
  for (size_t i = 0; report != NULL && i < rd_npu_report_count(report); i++) {
    const rd_npu_finding *f = rd_npu_report_get(report, i);
    if (f->kind != kind || f->missing == NULL || strcmp(f->missing, channel) != 0) continue;
    races++;
    differ += f->witness == RD_NPU_WITNESS_DIFFERS;
  }
  char name[40];
  snprintf(name, sizeof name, "  with %s taken away", channel);
  demo_check(d, ran == RD_NPU_FINDING && races > 0 && differ > 0, name,
             "%d %s races found, %d shown by a changed value", races,
             kind == RD_NPU_RACE_RAW ? "RAW" : "WAR", differ);
  rd_npu_report_free(report);
  rdn_call_free(&call);
  return CLI_OK;
}

static int demo_chunk(demo *d) {
  const rdn_kernel_desc *kernel = rdn_kernel_find(chunk);
  rdn_call first;
  int status = generated(&first, kernel);
  if (status == CLI_OK) status = chunk_checked(d, kernel, &first);
  if (status == CLI_OK) status = chunk_schedules(d, kernel, &first);
  rdn_call_free(&first);
  if (status == CLI_OK) status = chunk_without(d, kernel, "M_V", RD_NPU_RACE_RAW);
  if (status == CLI_OK) status = chunk_without(d, kernel, "V_M", RD_NPU_RACE_WAR);
  return status;
}

/* ---- ReplaySSM on the 950 ---------------------------------------------------------------------- */

static int settle(rdn_call *call, const rdn_kernel_desc *kernel, const demo_case *c) {
  char block_num[16];
  snprintf(block_num, sizeof block_num, "%d", c->block_num);
  if (!rdn_call_set(call, "layout_qkv", op_layouts[c->layout - 1]) ||
      (c->block_num != 0 && !rdn_call_set(call, "block_num", block_num)) ||
      kernel->prepare(call) != RD_NPU_OK)
    return no_model(call);
  return CLI_OK;
}

/* Runs a prepared call under the checker and adds its line. */
static int checked_line(demo *d, const rdn_kernel_desc *kernel, rdn_call *call, const char *name) {
  checked c;
  int status = run_checked(kernel, call, &c);
  if (status == CLI_OK)
    demo_check(d, c.holds, name, "%u AI cores, %zu findings, max abs %.1e within 0.005 + 0.005|r|",
               call->launch.block_num, c.findings, c.max_abs);
  return status;
}

/* Commits the records that the model's verify left, from a copy of the checkpoint. */
static int commit_on_model(demo *d, const demo_case *c, const rdn_call *verified) {
  const rdn_kernel_desc *kernel = rdn_kernel_find("commit_recurrent_kda_replayssm");
  static const char *const records[] = {"replay_u", "replay_k", "replay_decay"};
  rdn_call call;
  rdn_call_init(&call, kernel->arch);
  const rdn_named *state = rdn_call_input(verified, "recurrent_state");
  rdn_named *copy = rdn_call_add(&call, state->name, state->type, state->rank, state->shape, NULL);
  int ok = copy != NULL;
  if (ok) memcpy(copy->data, state->data, rdn_named_bytes(state));
  for (int i = 0; i < 3; i++) {
    const rdn_named *t = rdn_call_input(verified, records[i]);
    ok = ok && rdn_call_add(&call, t->name, t->type, t->rank, t->shape, t->data) != NULL;
  }
  rdn_named *n =
      ok ? rdn_call_add(&call, "num_accepted_tokens", RD_NPU_S32, 1, &c->batch, NULL) : NULL;
  if (n != NULL) memcpy(n->data, c->accepted, (size_t)c->batch * sizeof c->accepted[0]);
  int status = n != NULL ? settle(&call, kernel, c) : no_model(&call);
  if (status == CLI_OK) status = checked_line(d, kernel, &call, "  commit");
  rdn_call_free(&call);
  return status;
}

static int replay_case(demo *d, const demo_case *c) {
  const rdn_kernel_desc *kernel = rdn_kernel_find("fused_recurrent_kda_replayssm");
  rdn_call call;
  io_file in = {0};
  io_error err;
  rdn_call_init(&call, kernel->arch);
  if (demo_case_inputs(c, &in, &err) != IO_OK) return cli_fail("demo", CLI_SYSTEM, "%s", err.text);
  int status = CLI_OK;
  for (size_t i = 0; i < in.count && status == CLI_OK; i++)
    status = npu_add_tensor("demo", &in.tensors[i], &call);
  if (status == CLI_OK) status = settle(&call, kernel, c);
  char name[40];
  snprintf(name, sizeof name, "950 verify, %.*s", (int)strcspn(c->title, ","), c->title);
  if (status == CLI_OK) status = checked_line(d, kernel, &call, name);
  if (status == CLI_OK) status = commit_on_model(d, c, &call);
  rdn_call_free(&call);
  io_file_free(&in);
  return status;
}

int demo_npu(demo *d) {
  demo_note(d, "on the AI Core model",
            "small shape of part 1 on 310P cores, part 2 on 950 vector cores");
  int status = demo_chunk(d);
  for (int i = 0; i < DEMO_CASES && status == CLI_OK; i++) status = replay_case(d, &demo_cases[i]);
  return status;
}
