/* redelta check: an operator against the double oracle, itself and a reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cli/check_report.h"
#include "cli/load.h"

#include "io/convert.h"

#include <stdlib.h>
#include <string.h>

enum {
  ID_SET = 1,
  ID_ISA,
  ID_EXPECT,
  ID_REPEAT,
  ID_THREADS,
  ID_COSINE,
  ID_NRMSE,
  ID_ATOL,
  ID_RTOL
};
enum { MAX_THREAD_COUNTS = 16, MAX_REPEAT = 1000000 };

static const cli_option option_table[] = {
    {"expect", ID_EXPECT, "REF", "also compare with this file's tensors, of any type"},
    {"repeat", ID_REPEAT, "N", "runs that must agree in every bit (default 32)"},
    {"threads", ID_THREADS, "LIST", "thread counts that must agree too (default 1,2,5)"},
    {"cosine", ID_COSINE, "C", "least cosine of a tensor"},
    {"nrmse", ID_NRMSE, "E", "largest rms(x-r)/rms(r) of a tensor, and of every head"},
    {"atol", ID_ATOL, "A", "|x-r| <= A + R|r| for every element (default 0.005)"},
    {"rtol", ID_RTOL, "R", "see --atol (default 0.005)"},
    OP_SCALAR_OPTIONS LOAD_SET_OPTION(ID_SET),
    {"isa", ID_ISA, "A", "scalar, scalar_fma, avx2, avx512, amx or neon"},
    {0}};

static const cli_command command = {
    "check",
    "OP IN.safetensors",
    "Runs the named operator and judges it: against the double-precision oracle on\n"
    "the same inputs, against itself over repeats and thread counts (equal bits), and\n"
    "against the tensors of a reference file. Prints cosine, NRMSE, the largest\n"
    "absolute and relative error and where they are, NaN and infinity counts, and the\n"
    "first bad element. Default limits against the oracle: 0.005 + 0.005|r| for every\n"
    "element, and for every tensor and head the bound of docs/NUMERICS.md plus the\n"
    "rounding of the type; against a reference: 0.005 + 0.005|r|, cosine 0.999, NRMSE\n"
    "0.02. Exit status 1 if anything is outside.",
    option_table,
    2,
    2};

typedef struct check_options {
  op_scalars scalars;
  load_sets sets;
  uint32_t isa;
  const char *expect;
  int64_t repeat, threads[MAX_THREAD_COUNTS];
  int thread_counts;
  double cosine, nrmse, atol, rtol; /* NOT_GIVEN, or the user's */
  int json;
} check_options;

enum { NOT_GIVEN = -9 };

static int take_limit(const cli_args *args, double low, double high, double *to) {
  if (!cli_double(args, to)) return 0;
  if (*to >= low && *to <= high) return 1;
  cli_fail(args->command->name, 0, "--%s: %g is outside [%g, %g]", args->option, *to, low, high);
  return 0;
}

static int take_option(const cli_args *args, int id, void *options) {
  check_options *o = options;
  switch (id) {
  case ID_SET:
    return load_set_option(args, &o->sets);
  case ID_ISA:
    o->isa = cli_isa_mask(command.name, args->value);
    return o->isa != 0;
  case ID_EXPECT:
    o->expect = args->value;
    return 1;
  case ID_REPEAT:
    return cli_int(args, 1, MAX_REPEAT, &o->repeat);
  case ID_THREADS:
    o->thread_counts = cli_int_list(args, 1, 1024, o->threads, MAX_THREAD_COUNTS);
    return o->thread_counts > 0;
  case ID_COSINE:
    return take_limit(args, -1, 1, &o->cosine);
  case ID_NRMSE:
    return take_limit(args, 0, 1e300, &o->nrmse);
  case ID_ATOL:
    return take_limit(args, 0, 1e300, &o->atol);
  case ID_RTOL:
    return take_limit(args, 0, 1e300, &o->rtol);
  default:
    return op_scalar_option(args, id, &o->scalars) == 1;
  }
}

static cmp_limits with_options(cmp_limits limits, const check_options *o) {
  if (o->cosine > NOT_GIVEN) limits.cosine = o->cosine;
  if (o->atol > NOT_GIVEN) limits.atol = o->atol;
  if (o->rtol > NOT_GIVEN) limits.rtol = o->rtol;
  if (o->nrmse > NOT_GIVEN) {
    limits.nrmse = limits.per_head = o->nrmse;
    limits.allow_rounding = 0;
    if (o->cosine <= NOT_GIVEN) limits.cosine = -2;
  }
  return limits;
}

/* ---------------------------------------------------------------- comparisons ----------------- */

static int against_oracle(check_report *r, const check_options *o) {
  double *expected[OP_MAX_OUTPUTS];
  cli_progress("double oracle", 0, 0);
  int failed = op_oracle(r->call, expected);
  cli_progress_end();
  io_status status = failed ? IO_SYSTEM : IO_OK;
  cmp_limits limits = with_options(cmp_default_limits(r->call), o);
  for (int i = 0; i < OP_MAX_OUTPUTS && expected[i] != NULL; i++) {
    cmp_result c;
    if (status == IO_OK) status = cmp_output(r->call, i, expected[i], &limits, &c);
    if (status == IO_OK) check_report_comparison(r, "oracle", &c);
    free(expected[i]);
  }
  return status == IO_OK ? CLI_OK : cli_fail(command.name, CLI_SYSTEM, "no memory for the oracle");
}

/* One tensor of the reference file as doubles; NULL after a message, *missing set when it has none.
 */
static double *reference_of(const io_tensor *t, const io_file *reference, const char *path,
                            int *missing) {
  const io_tensor *e = io_file_find(reference, t->name);
  *missing = e == NULL;
  if (e == NULL) return NULL;
  double first;
  if (e->dtype->size == 0 || (io_tensor_elements(e) > 0 && !io_tensor_number(e, 0, &first))) {
    cli_fail(command.name, 0, "%s: tensor '%s': cannot compare with type %s", path, t->name,
             e->dtype->name);
    return NULL;
  }
  if (e->rank != t->rank || memcmp(e->shape, t->shape, (size_t)t->rank * sizeof t->shape[0]) != 0) {
    char is[256], want[256];
    io_tensor_describe(e, is, sizeof is);
    io_tensor_describe(t, want, sizeof want);
    cli_fail(command.name, 0, "%s: tensor '%s' is %s, the operator's is %s", path, t->name, is,
             want);
    return NULL;
  }
  int64_t n = io_tensor_elements(t);
  double *values = malloc(((size_t)n + 1) * sizeof *values);
  if (values == NULL) {
    cli_fail(command.name, 0, "no memory for the reference");
    return NULL;
  }
  for (int64_t i = 0; i < n; i++) (void)io_tensor_number(e, i, &values[i]);
  return values;
}

static int against_reference(check_report *r, const check_options *o, const io_file *reference) {
  /* The outer limits of the field: a reference may have been computed in 16 bits. */
  cmp_limits limits = with_options((cmp_limits){0.005, 0.005, 0.999, 0.02, -1, 0}, o);
  limits.per_head = -1;
  int compared = 0;
  for (int i = 0; i < OP_MAX_OUTPUTS && r->call->op->outputs[i].name != NULL; i++) {
    const io_tensor *t = io_file_find(&r->call->out, r->call->op->outputs[i].name);
    int missing;
    double *expected = reference_of(t, reference, o->expect, &missing);
    if (missing) continue;
    if (expected == NULL) return CLI_BAD;
    cmp_result c;
    io_status status = cmp_output(r->call, i, expected, &limits, &c);
    free(expected);
    if (status != IO_OK) return cli_fail(command.name, CLI_SYSTEM, "no memory for the comparison");
    check_report_comparison(r, "reference", &c);
    compared++;
  }
  if (compared > 0) return CLI_OK;
  return cli_fail(command.name, CLI_BAD, "%s: holds none of the tensors %s returns", o->expect,
                  r->call->op->name);
}

/* ---------------------------------------------------------------- stability ------------------- */

/* Runs again `runs` times on ctx and compares with `first`. */
static int runs_agree(check_report *r, op_call *call, rd_context *ctx, const io_file *first,
                      const char *way, int runs) {
  const char *tensor = NULL;
  int64_t at = -1;
  for (int i = 0; i < runs && tensor == NULL; i++) {
    cli_progress(way, i, runs);
    rd_status ran = op_run(call, ctx);
    if (ran != RD_OK) {
      return cli_fail(command.name, cli_status_of(ran), "%s: %s: %s", way, rd_status_name(ran),
                      rd_last_error(ctx));
    }
    tensor = cmp_same_set(first, &call->out, &at);
  }
  cli_progress_end();
  check_report_stability(r, way, runs, tensor, at);
  return CLI_OK;
}

static int copy_outputs(const io_file *from, io_file *to) {
  for (size_t i = 0; i < from->count; i++) {
    const io_tensor *t = &from->tensors[i];
    io_tensor *made;
    if (io_file_add(to, t->name, t->dtype, t->rank, t->shape, &made, NULL) != IO_OK) return -1;
    memcpy(made->data, t->data, (size_t)t->bytes);
  }
  return 0;
}

static int stability(check_report *r, op_call *call, const check_options *o, rd_context *ctx) {
  io_file first = {0};
  char way[64];
  int result = CLI_OK;
  if (copy_outputs(&call->out, &first) != 0) {
    result = cli_fail(command.name, CLI_SYSTEM, "no memory for a second set of outputs");
  }
  if (result == CLI_OK && o->repeat > 1) {
    snprintf(way, sizeof way, "%lld runs", (long long)o->repeat);
    result = runs_agree(r, call, ctx, &first, way, (int)o->repeat - 1);
  }
  for (int i = 0; i < o->thread_counts && result == CLI_OK; i++) {
    rd_context *other = NULL;
    result = cli_context(command.name, (int32_t)o->threads[i], o->isa, &other);
    snprintf(way, sizeof way, "%lld thread%s", (long long)o->threads[i],
             o->threads[i] == 1 ? "" : "s");
    if (result == CLI_OK) result = runs_agree(r, call, other, &first, way, 1);
    rd_context_destroy(other);
  }
  io_file_free(&first);
  return result;
}

/* ---------------------------------------------------------------- the command ----------------- */

static int judge(const check_options *o, op_call *call, rd_context *ctx, const io_file *reference) {
  rd_status ran = op_run(call, ctx);
  if (ran != RD_OK) {
    return cli_fail(command.name, cli_status_of(ran), "%s: %s: %s", call->op->name,
                    rd_status_name(ran), rd_last_error(ctx));
  }
  check_report r;
  check_report_begin(&r, call, o->json);
  int result = against_oracle(&r, o);
  if (result == CLI_OK && o->expect != NULL) result = against_reference(&r, o, reference);
  if (result == CLI_OK) result = stability(&r, call, o, ctx);
  if (result == CLI_OK) return check_report_end(&r, command.name);
  json_decref(r.comparisons);
  json_decref(r.stability);
  return result;
}

static int with_files(const check_options *o, const op_desc *op, const io_file *in) {
  io_file reference = {0};
  io_error err;
  if (o->expect != NULL) {
    io_status status = io_safetensors_read(o->expect, &reference, &err);
    if (status != IO_OK) return cli_fail(command.name, (int)status, "%s", err.text);
  }
  rd_context *ctx = NULL;
  int result = cli_context(command.name, 0, o->isa, &ctx);
  op_call call;
  if (result == CLI_OK) {
    io_status status = op_bind(&call, op, &o->scalars, in, ctx, &err);
    if (status == IO_OK) {
      result = judge(o, &call, ctx, &reference);
      op_release(&call);
    } else {
      result = cli_fail(command.name, (int)status, "%s", err.text);
    }
  }
  rd_context_destroy(ctx);
  io_file_free(&reference);
  return result;
}

int cmd_check(int argc, char **argv) {
  check_options o = {.repeat = 32,
                     .threads = {1, 2, 5},
                     .thread_counts = 3,
                     .cosine = NOT_GIVEN,
                     .nrmse = NOT_GIVEN,
                     .atol = NOT_GIVEN,
                     .rtol = NOT_GIVEN};
  cli_args args;
  int result = cli_read(&args, &command, argc, argv, take_option, &o);
  if (result != CLI_GO) return result;
  o.json = args.json;
  const op_desc *op = load_operator(command.name, args.operands[0]);
  if (op == NULL || !op_scalars_fit(command.name, op, &o.scalars)) return CLI_BAD;
  io_file in = {0};
  result = load_inputs(command.name, args.operands[1], &o.sets, NULL, &in);
  if (result != CLI_OK) return result;
  op_warn_unknown(command.name, op, &in);
  result = with_files(&o, op, &in);
  io_file_free(&in);
  return result;
}
