/* redelta gen: seeded inputs. SPDX-License-Identifier: Apache-2.0 */
#include "cli/inputs.h"
#include "cli/load.h"

#include <string.h>

enum { ID_SHAPE = 1, ID_LENGTHS, ID_DTYPE, ID_SEED };

static const cli_option option_table[] = {
    {"out", 'o', "OUT", "file to write (also -o OUT)"},
    {"shape", ID_SHAPE, "K=N,...", "dimensions; the defaults are listed above"},
    {"lengths", ID_LENGTHS, "LIST", "tokens of each sequence (commit: accepted counts)"},
    {"dtype", ID_DTYPE, "T",
     "of the activations: f16, bf16 or f32 (default f16; the KDA\noperators: bf16)"},
    {"layout-qkv", OP_ID_BASE + OP_LAYOUT_QKV, "L", "BSND, BNSD or TND (default: the operator's)"},
    {"seed", ID_SEED, "N", "default 1"},
    {0}};

static char summary[2048];
static const cli_command command = {"gen", "OP -o IN.safetensors", summary, option_table, 1, 1};

static const char intro[] =
    "Makes seeded random inputs for the named operator, the same on every machine.\n"
    "Dimensions and their defaults:";
static const char outro[] =
    "S is another name of T, H of N. Distributions: chunk_gated_delta_rule: q, k\n"
    "normal, rows of length 1; v normal; beta sigmoid(normal); g -(U(0,1)+0.01);\n"
    "state 0. KDA: activations and logits 0.2 normal; states 0.02 normal; A_log and\n"
    "dt_bias normal; records -7 (commit: u 0.2 normal, k of length 1, decay in (0,1)).";

typedef struct gen_options {
  const char *out, *shape;
  int64_t lengths[INPUTS_MAX_LENGTHS];
  int length_count;
  rd_dtype dtype;
  op_scalars scalars;
  uint64_t seed;
} gen_options;

static int take_dtype(const cli_args *args, gen_options *o) {
  static const struct {
    const char *name;
    rd_dtype dtype;
  } names[] = {{"f16", RD_F16}, {"bf16", RD_BF16}, {"f32", RD_F32}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(args->value, names[i].name) == 0) o->dtype = names[i].dtype;
  }
  if (o->dtype == RD_ABSENT) {
    cli_fail(command.name, 0, "--dtype: expected f16, bf16 or f32, got '%s'", args->value);
  }
  return o->dtype != RD_ABSENT;
}

static int take_option(const cli_args *args, int id, void *options) {
  gen_options *o = options;
  switch (id) {
  case 'o':
    o->out = args->value;
    return 1;
  case ID_SHAPE:
    o->shape = args->value;
    return 1;
  case ID_LENGTHS:
    o->length_count = cli_int_list(args, 0, INT32_MAX, o->lengths, INPUTS_MAX_LENGTHS);
    return o->length_count > 0;
  case ID_DTYPE:
    return take_dtype(args, o);
  case ID_SEED:
    return cli_seed(args, &o->seed);
  default:
    return op_scalar_option(args, id, &o->scalars) == 1;
  }
}

static int make_and_write(const gen_options *o, const op_desc *op, int json) {
  io_error err;
  io_file file = {0};
  static inputs_spec spec; /* too large for a stack frame */
  inputs_init(&spec, op, o->seed);
  io_status status = io_check_output(o->out, &err);
  if (status != IO_OK) return cli_fail(command.name, (int)status, "%s", err.text);
  status = o->shape != NULL ? inputs_shape(&spec, o->shape, &err) : IO_OK;
  if (status != IO_OK) return cli_fail(command.name, (int)status, "--shape: %s", err.text);
  spec.length_count = o->length_count;
  memcpy(spec.lengths, o->lengths, sizeof spec.lengths);
  spec.dtype = o->dtype;
  if (o->scalars.given & OP_LAYOUT_QKV) spec.layout_qkv = o->scalars.layout_qkv;
  cli_progress("random numbers", 0, 0);
  status = inputs_make(&spec, &file, &err);
  cli_progress_end();
  if (status == IO_OK) status = io_safetensors_write(o->out, &file, &err);
  if (status != IO_OK) {
    io_file_free(&file);
    return cli_fail(command.name, (int)status, "%s", err.text);
  }
  json_t *names = json_object();
  if (!json) printf("%s, seed %llu -> %s\n", op->name, (unsigned long long)o->seed, o->out);
  for (size_t i = 0; i < file.count; i++) {
    char text[128];
    io_tensor_describe(&file.tensors[i], text, sizeof text);
    if (!json) printf("  %-20s %s\n", file.tensors[i].name, text);
    json_object_set_new(names, file.tensors[i].name, json_string(text));
  }
  io_file_free(&file);
  if (json) {
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->seed);
    return cli_finish_json(command.name, CLI_OK,
                           json_pack("{s:s, s:s, s:s, s:o}", "operator", op->name, "out", o->out,
                                     "seed", seed, "tensors", names));
  }
  json_decref(names);
  return cli_finish(command.name, CLI_OK);
}

int cmd_gen(int argc, char **argv) {
  static gen_options o;
  o.seed = 1;
  cli_args args;
  op_help_shapes(summary, sizeof summary, intro, outro);
  int result = cli_read(&args, &command, argc, argv, take_option, &o);
  if (result != CLI_GO) return result;
  const op_desc *op = load_operator(command.name, args.operands[0]);
  if (op == NULL) return CLI_BAD;
  if (o.out == NULL)
    return cli_fail(command.name, CLI_BAD, "missing -o OUT; see redelta gen --help");
  return make_and_write(&o, op, args.json);
}
