/* What an npu subcommand was asked, and the call made of it. SPDX-License-Identifier: Apache-2.0 */
#include "cli/npu_cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const npu_scalar_names[NPU_SCALARS] = {"scale", "scale_value", "lower_bound",
                                                   "layout_qkv", "block_num"};

static void request_init(npu_request *r, const char *command) {
  *r = (npu_request){.command = command, .seed = 1, .gm_slack = -1};
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

static int take_common(const cli_args *args, int id, npu_request *r) {
  static const char *const archs[] = {"310P", "910B", "950"};
  static const char *const flags[] = {"count", "binary"};
  static const char *const syncs[] = {"none", "scalar", "all"};
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
  case NPU_ID_SLACK:
    return cli_int(args, 0, 4096, &r->gm_slack);
  case NPU_ID_FLAGS:
    if (!take_name(args, flags, 2, &chosen)) return 0;
    r->flags = (rd_npu_flags)chosen;
    return 1;
  case NPU_ID_AUTO_SYNC:
    if (!take_name(args, syncs, 3, &chosen)) return 0;
    r->auto_sync = (rd_npu_auto_sync)chosen;
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

static int take_kernel(npu_request *r, const char *name) {
  r->kernel = rdn_kernel_find(name);
  if (r->kernel) {
    if (!r->arch_given) r->arch = r->kernel->arch;
    return 1;
  }
  char list[400] = "";
  for (size_t i = 0; rdn_kernel_at(i); i++) {
    strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
    strncat(list, rdn_kernel_at(i)->name, sizeof list - strlen(list) - 1);
  }
  cli_fail(r->command, 0, "unknown kernel '%s'; one of %s", name, list);
  return 0;
}

typedef struct reading {
  npu_request *r;
  cli_take own;
  void *options;
} reading;

static int take_option(const cli_args *args, int id, void *state) {
  const reading *to = state;
  int taken = take_common(args, id, to->r);
  return taken < 0 ? to->own(args, id, to->options) : taken;
}

int npu_read(npu_request *r, cli_args *args, const cli_command *command, int argc, char **argv,
             cli_take own, void *options) {
  reading to = {r, own, options};
  request_init(r, command->name);
  int status = cli_read(args, command, argc, argv, take_option, &to);
  if (status != CLI_GO) return status;
  r->json = args->json;
  return take_kernel(r, args->operands[0]) ? CLI_GO : CLI_BAD;
}

static int exit_status(rd_npu_status s) {
  return s == RD_NPU_OK          ? CLI_OK
         : s == RD_NPU_FINDING   ? CLI_FAILED
         : s == RD_NPU_BAD_INPUT ? CLI_BAD
                                 : CLI_SYSTEM;
}

int npu_add_tensor(const char *command, const io_tensor *t, rdn_call *call) {
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
    if (t->rank > RDN_CALL_RANK)
      return cli_fail(command, CLI_BAD, "%s: rank %d, the kernels take at most %d", t->name,
                      (int)t->rank, RDN_CALL_RANK);
    if (!rdn_call_add(call, t->name, types[i].to, (uint32_t)t->rank, t->shape, t->data))
      return cli_fail(command, exit_status(call->status), "%s", call->error);
    return CLI_OK;
  }
  return cli_fail(command, CLI_BAD, "%s: no kernel takes %s", t->name, t->dtype->name);
}

static int read_tensors(const npu_request *r, const char *path, const char *out, io_file *in,
                        rdn_call *call) {
  int status = load_inputs(r->command, path, &r->sets, out, in);
  if (status != CLI_OK) return status;
  const op_desc *op = op_find(r->kernel->name);
  if (op) op_warn_unknown(r->command, op, in);
  for (size_t i = 0; i < in->count && status == CLI_OK; i++) {
    bool known = op == NULL || op_takes(op, in->tensors[i].name);
    if (known) status = npu_add_tensor(r->command, &in->tensors[i], call);
  }
  return status;
}

/* A preset's name or its text, with the lengths joined the way shape texts have them. */
static int shape_text(const npu_request *r, char *text, size_t size) {
  const char *shape = r->shape ? r->shape : r->kernel->presets[0].shape;
  for (const rdn_preset *p = r->kernel->presets; r->shape && p->name; p++)
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
                rdn_call *call) {
  rdn_call_init(call, r->arch);
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
    if (r->scalars[i] && !rdn_call_set(call, npu_scalar_names[i], r->scalars[i]))
      status = cli_fail(r->command, CLI_BAD, "%s: the value is too long", npu_scalar_names[i]);
  if (status != CLI_OK) return status;
  rd_npu_status s = r->kernel->prepare(call);
  if (s == RD_NPU_OK) return CLI_OK;
  return cli_fail(r->command, exit_status(s), "%s: %s", r->kernel->name,
                  call->error[0] ? call->error : "out of memory");
}

int npu_on_call(const npu_request *r, const cli_args *args, const char *out, npu_go *go,
                void *options) {
  static rdn_call call; /* too large for a stack frame */
  io_file in = {0};
  const char *path = args->operand_count > 1 ? args->operands[1] : NULL;
  int status = npu_prepare(r, path, out, &in, &call);
  if (status == CLI_OK) status = go(options, &call);
  rdn_call_free(&call);
  io_file_free(&in);
  return status;
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
                        .with = r->with,
                        .gm_slack = r->gm_slack < 0 ? r->kernel->gm_slack : (uint32_t)r->gm_slack,
                        .flags = r->flags,
                        .auto_sync = r->auto_sync,
                        .progress = show_progress};
}
