/* redelta npu: kernels on the AI Core model. SPDX-License-Identifier: Apache-2.0 */
#include "cli/npu_cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const npu_scalar_names[NPU_SCALARS] = {"scale", "scale_value", "lower_bound",
                                                   "layout_qkv", "block_num"};

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"run", npu_run, "run a kernel on a file or on generated inputs"},
    {"race", npu_race, "find missing synchronisation; --mutate: what is needed and what is not"},
    {"trace", npu_trace, "the pipes' timeline under a cost model, for Perfetto"},
};

static void print_help(FILE *to) {
  fprintf(to, "usage: redelta npu COMMAND KERNEL [options]\n\n"
              "NPU kernels on an executable model of the Ascend AI Core.\n\ncommands:\n");
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    fprintf(to, "  %-6s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "\nkernels:\n");
  for (size_t i = 0; rd_npu_kernel_at(i); i++) {
    const rd_npu_kernel_desc *k = rd_npu_kernel_at(i);
    fprintf(to, "  %s (%s): %s\n", k->name, rd_npu_arch_get(k->arch)->name, k->summary);
  }
  fprintf(to, "\nexit status: 0 ok, 1 a finding or a failed check, 2 bad usage or input, 3 system "
              "failure\n");
}

int cmd_npu(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help(stdout);
    return cli_finish("npu", CLI_OK);
  }
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  if (argc < 2)
    print_help(stderr);
  else
    cli_fail("npu", CLI_BAD, "unknown command '%s'; see redelta npu --help", name);
  return CLI_BAD;
}

/* ---- options
 * ------------------------------------------------------------------------------------- */

void npu_request_init(npu_request *r, const char *command) {
  *r = (npu_request){.command = command, .seed = 1};
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  r->threads = cpus < 1 ? 1 : cpus > 64 ? 64 : cpus;
}

static int take_name(const cli_args *args, const char *const *names, int count, int *out) {
  for (*out = 0; *out < count; ++*out)
    if (strcmp(args->value, names[*out]) == 0) return 1;
  char list[200] = "";
  for (int i = 0; i < count; i++) {
    strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
    strncat(list, names[i], sizeof list - strlen(list) - 1);
  }
  cli_fail(args->command->name, 0, "--%s: expected one of %s, got '%s'", args->option, list,
           args->value);
  return 0;
}

int npu_take_option(const cli_args *args, int id, npu_request *r) {
  static const char *const archs[] = {"310P", "910B", "950"};
  static const char *const schedules[] = {"eager", "lazy", "random", "exhaustive"};
  int chosen;
  switch (id) {
  case NPU_ID_ARCH:
    if (!take_name(args, archs, 3, &chosen)) return 0;
    r->arch = (rd_npu_arch)chosen;
    r->arch_given = 1;
    return 1;
  case NPU_ID_CORES:
    return cli_int(args, 1, 4096, &r->cores);
  case NPU_ID_SCHEDULE:
    if (!take_name(args, schedules, 4, &chosen)) return 0;
    r->schedule = (rd_npu_schedule)chosen;
    return 1;
  case NPU_ID_SEED:
    return cli_seed(args, &r->seed);
  case NPU_ID_SHAPE:
    r->shape = args->value;
    return 1;
  case NPU_ID_LENGTHS:
    r->lengths = args->value;
    return 1;
  case NPU_ID_THREADS:
    return cli_int(args, 1, 1024, &r->threads);
  case NPU_ID_WITHOUT:
    r->without = args->value;
    return 1;
  case NPU_ID_SET:
    return load_set_option(args, &r->sets);
  default:
    break;
  }
  if (id >= NPU_ID_SCALAR && id < NPU_ID_SCALAR + NPU_SCALARS) {
    r->scalars[id - NPU_ID_SCALAR] = args->value;
    return 1;
  }
  return -1;
}

int npu_take_kernel(npu_request *r, const char *name) {
  r->kernel = rd_npu_kernel_find(name);
  if (r->kernel) {
    if (!r->arch_given) r->arch = r->kernel->arch;
    return 1;
  }
  char list[400] = "";
  for (size_t i = 0; rd_npu_kernel_at(i); i++) {
    strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
    strncat(list, rd_npu_kernel_at(i)->name, sizeof list - strlen(list) - 1);
  }
  cli_fail(r->command, 0, "unknown kernel '%s'; one of %s", name, list);
  return 0;
}

/* ---- calls
 * --------------------------------------------------------------------------------------- */

static int exit_status(rd_npu_status s) {
  return s == RD_NPU_OK          ? CLI_OK
         : s == RD_NPU_FINDING   ? CLI_FAILED
         : s == RD_NPU_BAD_INPUT ? CLI_BAD
                                 : CLI_SYSTEM;
}

int npu_add_tensor(const char *command, const io_tensor *t, rd_npu_call *call) {
  static const struct {
    rd_dtype from;
    rd_npu_type to;
  } types[] = {{RD_F16, RD_NPU_F16},
               {RD_BF16, RD_NPU_BF16},
               {RD_F32, RD_NPU_F32},
               {RD_I32, RD_NPU_S32},
               {RD_I64, RD_NPU_S64}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (t->dtype->rd != types[i].from) continue;
    if (t->rank > RD_NPU_CALL_RANK)
      return cli_fail(command, CLI_BAD, "%s: rank %d, the kernels take at most %d", t->name,
                      (int)t->rank, RD_NPU_CALL_RANK);
    if (!rd_npu_call_add(call, t->name, types[i].to, (uint32_t)t->rank, t->shape, t->data))
      return cli_fail(command, exit_status(call->status), "%s", call->error);
    return CLI_OK;
  }
  return cli_fail(command, CLI_BAD, "%s: no kernel takes %s", t->name, t->dtype->name);
}

static int read_tensors(const npu_request *r, const char *path, const char *out, io_file *in,
                        rd_npu_call *call) {
  int status = load_inputs(r->command, path, &r->sets, out, in);
  if (status != CLI_OK) return status;
  const op_desc *op = op_find(r->kernel->name);
  if (op) op_warn_unknown(r->command, op, in);
  for (size_t i = 0; i < in->count && status == CLI_OK; i++) {
    bool known = op == NULL;
    for (int k = 0; op && k < OP_MAX_TENSORS && op->tensors[k].name; k++)
      known |= strcmp(op->tensors[k].name, in->tensors[i].name) == 0;
    if (known) status = npu_add_tensor(r->command, &in->tensors[i], call);
  }
  return status;
}

/* A preset's name or its text, with the lengths joined the way shape texts have them. */
static int shape_text(const npu_request *r, char *text, size_t size) {
  const char *shape = r->shape ? r->shape : r->kernel->presets[0].shape;
  for (const rd_npu_preset *p = r->kernel->presets; r->shape && p->name; p++)
    if (strcmp(p->name, r->shape) == 0) shape = p->shape;
  if (!strchr(shape, '='))
    return cli_fail(r->command, CLI_BAD,
                    "--shape: '%s' is no named shape of %s and not of the form B=1,...", shape,
                    r->kernel->name);
  int n = snprintf(text, size, "%s%s%s", r->lengths ? "lengths=" : "", r->lengths ? r->lengths : "",
                   r->lengths ? "," : "");
  if (r->lengths)
    for (char *c = text + 8; *c; c++)
      if (*c == ',' && c[1]) *c = ':';
  if (n < 0 || (size_t)n >= size || strlen(shape) >= size - (size_t)n)
    return cli_fail(r->command, CLI_BAD, "--shape: too long");
  strcat(text, shape);
  return CLI_OK;
}

int npu_prepare(const npu_request *r, const char *path, const char *out, io_file *in,
                rd_npu_call *call) {
  rd_npu_call_init(call, r->arch);
  call->cores = (uint32_t)r->cores;
  call->seed = r->seed;
  if (path && (r->shape || r->lengths))
    return cli_fail(r->command, CLI_BAD,
                    "--shape and --lengths describe generated inputs; a file is given");
  char text[1024] = "";
  int status = CLI_OK;
  if (path)
    status = read_tensors(r, path, out, in, call);
  else if ((status = shape_text(r, text, sizeof text)) == CLI_OK) {
    rd_npu_status s = r->kernel->generate(call, text);
    if (s != RD_NPU_OK) status = cli_fail(r->command, exit_status(s), "%s: %s", text, call->error);
  }
  for (int i = 0; i < NPU_SCALARS && status == CLI_OK; i++)
    if (r->scalars[i] && !rd_npu_call_set(call, npu_scalar_names[i], r->scalars[i]))
      status = cli_fail(r->command, CLI_BAD, "%s: the value is too long", npu_scalar_names[i]);
  if (status != CLI_OK) return status;
  rd_npu_status s = r->kernel->prepare(call);
  if (s == RD_NPU_OK) return CLI_OK;
  return cli_fail(r->command, exit_status(s), "%s: %s", r->kernel->name,
                  call->error[0] ? call->error : "out of memory");
}

static void show_progress(void *user, const char *stage, uint64_t done, uint64_t total) {
  (void)user;
  cli_progress(stage, (int)done, (int)total);
}

void npu_model_options(const npu_request *r, rd_npu_options *o) {
  *o = (rd_npu_options){.size = sizeof *o,
                        .schedule = r->schedule,
                        .seed = r->seed,
                        .threads = (uint32_t)r->threads,
                        .without = r->without,
                        .progress = show_progress};
}
