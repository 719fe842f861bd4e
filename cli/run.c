/* redelta run: an operator on a file. SPDX-License-Identifier: Apache-2.0 */
#include "cli/load.h"

#include "io/convert.h"

#include <math.h>

enum { ID_SET = 1, ID_ISA, ID_THREADS };

static const cli_option option_table[] = {
    {"out", 'o', "OUT", "file to write (also -o OUT)"},
    OP_SCALAR_OPTIONS LOAD_SET_OPTION(ID_SET),
    {"isa", ID_ISA, "A", "scalar, scalar_fma, avx2, avx512, amx or neon"},
    {"threads", ID_THREADS, "N", "threads (default: the usable CPUs)"},
    {0}};

static char summary[2048];
static const cli_command command = {
    "run", "OP IN.safetensors -o OUT.safetensors", summary, option_table, 2, 2};

static const char intro[] =
    "Runs the named operator on the tensors of a file and writes what it returns and\n"
    "what it updates in place. Tensors carry the operator's parameter names; those\n"
    "it does not know are ignored with a warning. OUT appears whole or not at all.\n"
    "OP is one of these ([may be missing]), and writes what stands after the arrow:";

typedef struct run_options {
  const char *out;
  op_scalars scalars;
  load_sets sets;
  uint32_t isa;
  int64_t threads;
  int json;
} run_options;

/* 1 good, 0 after a message. */
static int take_option(const cli_args *args, int id, void *options) {
  run_options *o = options;
  switch (id) {
  case 'o':
    o->out = args->value;
    return 1;
  case ID_SET:
    return load_set_option(args, &o->sets);
  case ID_ISA:
    o->isa = cli_isa_mask(command.name, args->value);
    return o->isa != 0;
  case ID_THREADS:
    return cli_int(args, 1, 1024, &o->threads);
  default:
    return op_scalar_option(args, id, &o->scalars) == 1;
  }
}

static void count_nonfinite(const io_tensor *t, int64_t *nan, int64_t *inf) {
  *nan = *inf = 0;
  if (t->dtype->rd == RD_I32) return;
  for (int64_t i = 0; i < io_tensor_elements(t); i++) {
    double x = io_get(t->data, t->dtype->rd, i);
    *nan += isnan(x) != 0;
    *inf += isinf(x) != 0;
  }
}

static int report(const run_options *o, const op_call *call, const rd_context *ctx,
                  double seconds) {
  json_t *tensors = json_array();
  if (!o->json) printf("%s -> %s\n", call->op->name, o->out);
  for (int i = 0; i < OP_MAX_OUTPUTS && call->op->outputs[i].name != NULL; i++) {
    const io_tensor *t = io_file_find(&call->out, call->op->outputs[i].name);
    int64_t nan, inf;
    char text[128];
    count_nonfinite(t, &nan, &inf);
    io_tensor_describe(t, text, sizeof text);
    if (!o->json)
      printf("  %-16s %s, %lld NaN, %lld infinite\n", t->name, text, (long long)nan,
             (long long)inf);
    json_t *shape = json_array();
    for (int32_t d = 0; d < t->rank; d++) json_array_append_new(shape, json_integer(t->shape[d]));
    json_array_append_new(tensors, json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", t->name, "dtype",
                                             t->dtype->name, "shape", shape, "nan", (json_int_t)nan,
                                             "inf", (json_int_t)inf));
  }
  if (!o->json) {
    json_decref(tensors);
    return cli_finish(command.name, CLI_OK);
  }
  json_t *root =
      json_pack("{s:s, s:s, s:i, s:o, s:o}", "operator", call->op->name, "out", o->out, "threads",
                (int)rd_context_threads(ctx), "seconds", io_json_real(seconds), "tensors", tensors);
  return cli_finish_json(command.name, CLI_OK, root);
}

static int execute(const run_options *o, const op_desc *op, const io_file *in, rd_context *ctx) {
  io_error err;
  op_call call;
  io_status status = op_bind(&call, op, &o->scalars, in, ctx, &err);
  if (status != IO_OK) return cli_fail(command.name, (int)status, "%s", err.text);
  cli_progress(op->name, 0, 0);
  double start = cli_seconds();
  rd_status ran = op_run(&call, ctx);
  double seconds = cli_seconds() - start;
  cli_progress_end();
  int result;
  if (ran != RD_OK) {
    result = cli_fail(command.name, cli_status_of(ran), "%s: %s: %s", op->name, rd_status_name(ran),
                      rd_last_error(ctx));
  } else if ((status = io_safetensors_write(o->out, &call.out, &err)) != IO_OK) {
    result = cli_fail(command.name, (int)status, "%s", err.text);
  } else {
    result = report(o, &call, ctx, seconds);
  }
  op_release(&call);
  return result;
}

int cmd_run(int argc, char **argv) {
  run_options o = {0};
  cli_args args;
  op_help_signatures(summary, sizeof summary, intro);
  int result = cli_read(&args, &command, argc, argv, take_option, &o);
  if (result != CLI_GO) return result;
  o.json = args.json;
  const op_desc *op = load_operator(command.name, args.operands[0]);
  if (op == NULL || !op_scalars_fit(command.name, op, &o.scalars)) return CLI_BAD;
  if (o.out == NULL)
    return cli_fail(command.name, CLI_BAD, "missing -o OUT; see redelta run --help");

  io_file in = {0};
  result = load_inputs(command.name, args.operands[1], &o.sets, o.out, &in);
  if (result != CLI_OK) return result;
  op_warn_unknown(command.name, op, &in);
  rd_context *ctx = NULL;
  result = cli_context(command.name, (int32_t)o.threads, o.isa, &ctx);
  if (result == CLI_OK) result = execute(&o, op, &in, ctx);
  rd_context_destroy(ctx);
  io_file_free(&in);
  return result;
}
