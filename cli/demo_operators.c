/* Parts 1 and 2 of the demo: named operators against the double oracle. SPDX-License-Identifier:
 * Apache-2.0 */
#include "cli/compare.h"
#include "cli/demo_cases.h"
#include "cli/demo_parts.h"

#include "io/convert.h"
#include "ref/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int fail_op(const op_call *call, rd_status status, const rd_context *ctx) {
  return cli_fail("demo", cli_status_of(status), "%s: %s: %s", call->op->name,
                  rd_status_name(status), rd_last_error(ctx));
}

/* ---------------------------------------------------------------- part 1 ---------------------- */

enum { RUNS = 32 };
static const int thread_counts[] = {1, 2, 5};

/* out and final_state of one run as doubles, and the bits of the first run beside them. */
typedef struct part1 {
  demo *d;
  io_file in, first;
  op_call call;
  double *oracle[OP_MAX_OUTPUTS], *initial[2], *now[2];
  int64_t n[2];
} part1;

static void widen(const io_tensor *t, double *to) {
  for (int64_t i = 0; i < io_tensor_elements(t); i++) to[i] = io_get(t->data, t->dtype->rd, i);
}

static int64_t nonfinite(const double *x, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += !isfinite(x[i]);
  return count;
}

/* One run on ctx, measured: the worse of out and final_state. */
static int one_run(part1 *p, rd_context *ctx, const char *name, int is_first) {
  rd_status ran = op_run(&p->call, ctx);
  if (ran != RD_OK) return fail_op(&p->call, ran, ctx);
  double cosine[2] = {1, 1}, nrmse[2] = {0, 0};
  int64_t bad = 0, at;
  for (int t = 0; t < 2; t++) {
    widen(io_file_find(&p->call.out, p->call.op->outputs[t].name), p->now[t]);
    if (is_first) memcpy(p->initial[t], p->now[t], (size_t)p->n[t] * sizeof(double));
    bad += nonfinite(p->now[t], p->n[t]);
    const double *against[2] = {p->initial[t], p->oracle[t]};
    for (int k = 0; k < 2; k++) {
      double c, e;
      cmp_measure(p->now[t], against[k], p->n[t], &c, &e);
      cosine[k] = fmin(cosine[k], c);
      nrmse[k] = fmax(nrmse[k], e);
    }
  }
  if (is_first) {
    for (int t = 0; t < 2; t++) {
      const io_tensor *o = io_file_find(&p->call.out, p->call.op->outputs[t].name);
      io_tensor *copy;
      if (io_file_add(&p->first, o->name, o->dtype, o->rank, o->shape, &copy, NULL) != IO_OK) {
        return cli_fail("demo", CLI_SYSTEM, "no memory");
      }
      memcpy(copy->data, o->data, (size_t)o->bytes);
    }
  }
  const char *differs = cmp_same_set(&p->first, &p->call.out, &at);
  int holds = bad == 0 && differs == NULL;
  for (int k = 0; k < 2; k++) holds &= cosine[k] >= 0.999999 && nrmse[k] <= 1e-3;
  demo_check(p->d, holds, name, "first: %.6f %.1e  oracle: %.9f %.2e  NaN/Inf %lld  bits %s",
             cosine[0], nrmse[0], cosine[1], nrmse[1], (long long)bad,
             differs == NULL ? "same" : "DIFFERENT");
  return CLI_OK;
}

static int other_contexts(part1 *p) {
  int status = CLI_OK;
  char name[48];
  for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0] && status == CLI_OK; i++) {
    rd_context *ctx = NULL;
    snprintf(name, sizeof name, "%d thread%s", thread_counts[i], thread_counts[i] == 1 ? "" : "s");
    status = cli_context("demo", thread_counts[i], 0, &ctx);
    cli_progress(name, 0, 0);
    if (status == CLI_OK) status = one_run(p, ctx, name, 0);
    rd_context_destroy(ctx);
  }
  for (int i = 0; i < CLI_ISAS && status == CLI_OK; i++) {
    uint32_t isa = (uint32_t)cli_isas[i];
    if ((rd_isa_built() & rd_isa_usable() & isa) == 0) {
      if (rd_isa_built() & isa)
        demo_note(p->d, rd_isa_name(cli_isas[i]), "not run: this machine lacks it");
      continue;
    }
    rd_context *ctx = NULL;
    snprintf(name, sizeof name, "kernels %s", rd_isa_name(cli_isas[i]));
    status = cli_context("demo", 0, cli_isa_mask("demo", rd_isa_name(cli_isas[i])), &ctx);
    cli_progress(name, 0, 0);
    if (status == CLI_OK) status = one_run(p, ctx, name, 0);
    rd_context_destroy(ctx);
  }
  return status;
}

static int part1_runs(part1 *p) {
  int status = CLI_OK;
  /* The oracle reads arguments that a run has checked. */
  rd_status ran = op_run(&p->call, p->d->ctx);
  if (ran != RD_OK) return fail_op(&p->call, ran, p->d->ctx);
  cli_progress("double oracle", 0, 0);
  if (op_oracle(&p->call, p->oracle) != 0)
    return cli_fail("demo", CLI_SYSTEM, "no memory for the oracle");
  for (int t = 0; t < 2; t++) {
    p->n[t] = io_tensor_elements(io_file_find(&p->call.out, p->call.op->outputs[t].name));
    p->initial[t] = malloc((size_t)p->n[t] * sizeof(double));
    p->now[t] = malloc((size_t)p->n[t] * sizeof(double));
    if (p->initial[t] == NULL || p->now[t] == NULL)
      return cli_fail("demo", CLI_SYSTEM, "no memory");
  }
  for (int i = 0; i < RUNS && status == CLI_OK; i++) {
    char name[32];
    snprintf(name, sizeof name, "run %d", i + 1);
    cli_progress("runs", i, RUNS);
    status = one_run(p, p->d->ctx, name, i == 0);
  }
  return status == CLI_OK ? other_contexts(p) : status;
}

int demo_part1(demo *d) {
  static inputs_spec spec;
  io_error err;
  part1 p = {.d = d};
  const op_desc *op = op_by_id(OP_CHUNK_GATED_DELTA_RULE);
  inputs_init(&spec, op, DEMO_SEED);
  demo_part(d, 1,
            "chunk_gated_delta_rule, Qwen3.5 shape, f16 (seed %d)\n"
            "  B=1 Hk=16 Hv=32 T=512 K=V=128, %d runs on %s, then other threads and kernels;\n"
            "  cosine and NRMSE of the worse of out and final_state",
            DEMO_SEED, RUNS, rd_kernel_chosen(d->ctx, 0));
  op_scalars scalars = {.given = OP_SCALE_VALUE, .scale_value = 1 / sqrt(128)};
  io_status made = inputs_make(&spec, &p.in, &err);
  if (made == IO_OK) made = op_bind(&p.call, op, &scalars, &p.in, d->ctx, &err);
  int status;
  if (made != IO_OK) {
    status = cli_fail("demo", CLI_SYSTEM, "%s", err.text);
  } else {
    status = part1_runs(&p);
    op_release(&p.call);
  }
  for (int t = 0; t < OP_MAX_OUTPUTS; t++) free(p.oracle[t]);
  for (int t = 0; t < 2; t++) {
    free(p.initial[t]);
    free(p.now[t]);
  }
  io_file_free(&p.first);
  io_file_free(&p.in);
  return status;
}

/* ---------------------------------------------------------------- part 2 ---------------------- */

enum { DK = 128 };

/* Record rows past each length still hold what they held. */
static int suffixes_kept(const demo_case *c, const op_call *call) {
  static const char *const names[] = {"replay_u", "replay_k", "replay_decay"};
  for (size_t i = 0; i < 3; i++) {
    const io_tensor *now = io_file_find(&call->out, names[i]),
                    *before = io_file_find(call->in, names[i]);
    size_t row = (size_t)(c->heads * DK) * now->dtype->size;
    for (int64_t b = 0; b < c->batch; b++) {
      size_t at = (size_t)(b * now->shape[1] + c->lengths[b]) * row;
      size_t bytes = (size_t)(now->shape[1] - c->lengths[b]) * row;
      if (memcmp((char *)now->data + at, (char *)before->data + at, bytes) != 0) return 0;
    }
  }
  return 1;
}

/* The state after the accepted tokens, in double all the way: the oracle's own records, unrounded.
 */
static double *committed_oracle(const demo_case *c, const io_tensor *state,
                                double *const records[3], int64_t C) {
  double *all = malloc((size_t)io_tensor_elements(state) * sizeof *all);
  static double transposed[DK * DK];
  for (int64_t h = 0; all != NULL && h < c->batch * c->heads; h++) {
    int64_t b = h / c->heads, head = h % c->heads;
    for (int64_t i = 0; i < DK * DK; i++)
      transposed[i % DK * DK + i / DK] = io_get(state->data, RD_F32, h * DK * DK + i);
    for (int64_t t = 0; t < c->accepted[b]; t++) {
      int64_t row = ((b * C + t) * c->heads + head) * DK;
      rdr_f64_commit(transposed, DK, DK, records[0] + row, records[1] + row, records[2] + row);
    }
    for (int64_t i = 0; i < DK * DK; i++) all[h * DK * DK + i] = transposed[i % DK * DK + i / DK];
  }
  return all;
}

static void check_tensor(demo *d, const op_call *call, int index, const double *expected,
                         const char *name) {
  /* 0.005 + 0.005 |r| and nothing else: what the field's own tests ask of these operators. */
  cmp_limits limits = {0.005, 0.005, -2, -1, -1, 0};
  cmp_result r = {0};
  if (cmp_output(call, index, expected, &limits, &r) != IO_OK) r.passed = 0;
  demo_check(d, r.passed, name, "max abs %.1e, %.1f%% of the limit, %lld of %lld bad", r.max_abs,
             100 * r.max_share, (long long)r.bad, (long long)r.elements);
}

/* Commits what the verify recorded and checks the states. */
static int commit_case(demo *d, const demo_case *c, const op_call *verify,
                       double *const expected[OP_MAX_OUTPUTS]) {
  io_file in = {0};
  io_error err;
  op_call call;
  const io_tensor *checkpoint = io_file_find(verify->in, "recurrent_state");
  const io_tensor *parts[] = {checkpoint, io_file_find(&verify->out, "replay_u"),
                              io_file_find(&verify->out, "replay_k"),
                              io_file_find(&verify->out, "replay_decay")};
  io_status made = IO_OK;
  io_tensor *t = NULL;
  for (size_t i = 0; i < 4 && made == IO_OK; i++) {
    made = io_file_add(&in, parts[i]->name, parts[i]->dtype, parts[i]->rank, parts[i]->shape, &t,
                       &err);
    if (made == IO_OK) memcpy(t->data, parts[i]->data, (size_t)parts[i]->bytes);
  }
  if (made == IO_OK)
    made = io_file_add(&in, "num_accepted_tokens", io_dtype_of(RD_I32), 1, &c->batch, &t, &err);
  if (made == IO_OK) memcpy(t->data, c->accepted, (size_t)t->bytes);
  op_scalars scalars = {.given = OP_BLOCK_NUM, .block_num = c->block_num};
  if (made == IO_OK)
    made = op_bind(&call, op_by_id(OP_COMMIT_RECURRENT_KDA_REPLAYSSM), &scalars, &in, d->ctx, &err);
  if (made != IO_OK) {
    io_file_free(&in);
    return cli_fail("demo", CLI_SYSTEM, "%s", err.text);
  }
  rd_status ran = op_run(&call, d->ctx);
  int status = ran == RD_OK ? CLI_OK : fail_op(&call, ran, d->ctx);
  double *state =
      status == CLI_OK ? committed_oracle(c, checkpoint, &expected[1], parts[1]->shape[1]) : NULL;
  if (status == CLI_OK && state == NULL) status = cli_fail("demo", CLI_SYSTEM, "no memory");
  if (status == CLI_OK) {
    check_tensor(d, &call, 0, state, "committed states");
    const io_tensor *now = io_file_find(&call.out, "recurrent_state");
    size_t one = (size_t)(now->bytes / (uint64_t)c->batch);
    int kept = 1, none = 0;
    for (int64_t b = 0; b < c->batch; b++) {
      if (c->accepted[b] != 0) continue;
      none++;
      kept &= memcmp((char *)now->data + (size_t)b * one,
                     (char *)checkpoint->data + (size_t)b * one, one) == 0;
    }
    if (none > 0)
      demo_check(d, kept, "accepted = 0 keeps the bytes", "%d sequence%s", none,
                 none == 1 ? "" : "s");
  }
  free(state);
  op_release(&call);
  io_file_free(&in);
  return status;
}

static int run_case(demo *d, const demo_case *c, op_call *call) {
  double *expected[OP_MAX_OUTPUTS] = {NULL};
  const io_tensor *checkpoint = io_file_find(call->in, "recurrent_state");
  void *before = malloc((size_t)checkpoint->bytes);
  if (before == NULL) return cli_fail("demo", CLI_SYSTEM, "no memory");
  memcpy(before, checkpoint->data, (size_t)checkpoint->bytes);
  rd_status ran = op_run(call, d->ctx);
  int status = ran == RD_OK ? CLI_OK : fail_op(call, ran, d->ctx);
  if (status == CLI_OK && op_oracle(call, expected) != 0)
    status = cli_fail("demo", CLI_SYSTEM, "no memory");
  if (status == CLI_OK) {
    check_tensor(d, call, 0, expected[0], "out");
    check_tensor(d, call, 1, expected[1], "replay_u");
    check_tensor(d, call, 2, expected[2], "replay_k");
    check_tensor(d, call, 3, expected[3], "replay_decay");
    demo_check(d, suffixes_kept(c, call), "record suffixes keep the bytes",
               "past each length, capacity %lld",
               (long long)io_file_find(call->in, "replay_u")->shape[1]);
    demo_check(d, memcmp(before, checkpoint->data, (size_t)checkpoint->bytes) == 0,
               "checkpoint keeps the bytes", "%llu bytes", (unsigned long long)checkpoint->bytes);
    status = commit_case(d, c, call, expected);
  }
  for (int i = 0; i < OP_MAX_OUTPUTS; i++) free(expected[i]);
  free(before);
  return status;
}

int demo_part2(demo *d) {
  demo_part(d, 2,
            "ReplaySSM verify and commit against the double oracle (seeds %d to %d)\n"
            "  limit 0.005 + 0.005|r|; what must not change, exactly",
            DEMO_SEED + 1, DEMO_SEED + DEMO_CASES);
  int status = CLI_OK;
  for (int i = 0; i < DEMO_CASES && status == CLI_OK; i++) {
    const demo_case *c = &demo_cases[i];
    io_file in = {0};
    io_error err;
    op_call call;
    op_scalars scalars = {
        .given = OP_BLOCK_NUM | OP_LAYOUT_QKV, .block_num = c->block_num, .layout_qkv = c->layout};
    char figures[2][48] = {"", ""};
    for (int64_t b = 0; b < c->batch; b++) {
      snprintf(figures[0] + strlen(figures[0]), 16, " %lld", (long long)c->lengths[b]);
      snprintf(figures[1] + strlen(figures[1]), 16, " %d", c->accepted[b]);
    }
    demo_note(d, c->title, "lengths%s, accepted%s", figures[0], figures[1]);
    io_status made = demo_case_inputs(c, &in, &err);
    if (made == IO_OK) {
      made =
          op_bind(&call, op_by_id(OP_FUSED_RECURRENT_KDA_REPLAYSSM), &scalars, &in, d->ctx, &err);
    }
    if (made != IO_OK) {
      status = cli_fail("demo", CLI_SYSTEM, "%s", err.text);
    } else {
      status = run_case(d, c, &call);
      op_release(&call);
    }
    io_file_free(&in);
  }
  return status;
}
