/* redelta-mpi prefill and check. */
#include <stdlib.h>
#include <string.h>

#include "mpi/tool/tool.h"

enum { ID_SET = 1, ID_THREADS };
#define SHARED_OPTIONS                                                                             \
  OP_SCALAR_OPTIONS LOAD_SET_OPTION(ID_SET),                                                       \
      {"threads", ID_THREADS, "N", "threads of each rank (default 1)"}, {                          \
    0                                                                                              \
  }

static const cli_option prefill_options[] = {{"out", 'o', "OUT", "file to write (also -o OUT)"},
                                             SHARED_OPTIONS};
static const cli_option check_options[] = {SHARED_OPTIONS};

static const cli_command prefill_command = {
    "prefill",
    "OP IN.safetensors -o OUT.safetensors",
    "Runs chunk_gated_delta_rule or flash_kda with the file's tokens shared out\n"
    "evenly over the ranks (numerics fast: in multiples of 32) and writes what\n"
    "redelta run writes. Rank 0 reads and writes; the others need no files.",
    prefill_options,
    2,
    2};
static const cli_command check_command = {
    "check",
    "OP IN.safetensors",
    "Runs the operator over the ranks and on rank 0 alone, and compares every bit.",
    check_options,
    2,
    2};

typedef struct options {
  const char *out;
  op_scalars scalars;
  load_sets sets;
  int64_t threads;
} options;

static int take_option(const cli_args *args, int id, void *to) {
  options *o = to;
  switch (id) {
  case 'o':
    o->out = args->value;
    return 1;
  case ID_SET:
    return load_set_option(args, &o->sets);
  case ID_THREADS:
    return cli_int(args, 1, 1024, &o->threads);
  default:
    return op_scalar_option(args, id, &o->scalars) == 1;
  }
}

static int fail_rd(const char *command, rd_status status, const char *why) {
  return cli_fail(command, cli_status_of(status), "%s: %s", rd_status_name(status), why);
}

/* The step on this rank. */
static int run_step(const char *command, rd_mpi *m, const tool_part *part, rd_mpi_cut *cut) {
  rd_mpi_plan *plan = NULL;
  rd_status status = rd_mpi_plan_create(m, &part->problem, 1, &plan);
  int result = status == RD_OK ? CLI_OK : fail_rd(command, status, rd_mpi_last_error(m));
  if ((result = tool_worst(command, result)) != CLI_OK) return result;
  rd_mpi_step step;
  rd_mpi_step_init(&step);
  step.seq = &part->seq, step.act = &part->act;
  step.initial = &part->initial, step.final = &part->final;
  status = rd_mpi_agree(m, plan, &step);
  if (status == RD_OK) status = rd_mpi_prefill(m, plan, &part->act, &part->initial, &part->final);
  if (status == RD_OK) status = rd_mpi_finish(m);
  if (status != RD_OK) result = fail_rd(command, status, rd_mpi_last_error(m));
  (void)rd_mpi_plan_cut(plan, cut);
  rd_mpi_plan_destroy(plan);
  return tool_worst(command, result);
}

static int run_parts(const char *command, rd_context *ctx, op_call *call, rd_mpi_cut *cut) {
  tool_part part;
  rd_mpi *m = NULL;
  for (size_t i = 0; i < call->out.count; i++)
    memset(call->out.tensors[i].data, 0, (size_t)call->out.tensors[i].bytes);
  int result = tool_worst(command, tool_split(command, call, &part));
  if (result == CLI_OK) {
    const rd_status status = rd_mpi_create(ctx, MPI_COMM_WORLD, &m);
    if (status != RD_OK) result = fail_rd(command, status, "no communicator");
  }
  if (result == CLI_OK) result = run_step(command, m, &part, cut);
  for (size_t i = 0; i < call->out.count && result == CLI_OK; i++)
    result = tool_merge(command, &call->out.tensors[i]);
  rd_mpi_destroy(m);
  free(part.numbers);
  return tool_worst(command, result);
}

/* Rank 0: the merged outcome against a run alone. */
static int compare(const char *command, rd_context *ctx, op_call *call, op_call *alone) {
  const rd_status status = op_run(alone, ctx);
  if (status != RD_OK) return fail_rd(command, status, rd_last_error(ctx));
  int differing = 0;
  for (size_t i = 0; i < call->out.count; i++) {
    const io_tensor *a = &call->out.tensors[i], *b = &alone->out.tensors[i];
    const size_t size = a->dtype->size;
    int64_t n = 0, first = -1;
    for (int64_t e = io_tensor_elements(a) - 1; e >= 0; e--)
      if (memcmp((char *)a->data + (size_t)e * size, (char *)b->data + (size_t)e * size, size) != 0)
        n++, first = e;
    char text[128];
    io_tensor_describe(a, text, sizeof text);
    printf("  %-12s %s: ", a->name, text);
    if (n == 0) {
      puts("every bit of one rank");
      continue;
    }
    io_tensor_coordinate(a, first, text, sizeof text);
    printf("%lld differ, the first at %s\n", (long long)n, text);
    differing = 1;
  }
  return differing ? CLI_FAILED : CLI_OK;
}

static int finish(const cli_command *command, const options *o, rd_context *ctx, op_call *call,
                  op_call *alone, const rd_mpi_cut *cut) {
  if (tool_rank != 0) return CLI_OK;
  printf("%s on %d ranks, %lld items of %lld bytes\n", call->op->name, tool_ranks,
         (long long)cut->items, (long long)cut->message_bytes);
  if (!o->out) return compare(command->name, ctx, call, alone);
  io_error err;
  const io_status status = io_safetensors_write(o->out, &call->out, &err);
  return status == IO_OK ? CLI_OK : cli_fail(command->name, (int)status, "%s", err.text);
}

static int bind(const cli_command *command, const options *o, const op_desc *op, const io_file *in,
                rd_context *ctx, op_call *call) {
  io_error err;
  const io_status status = op_bind(call, op, &o->scalars, in, ctx, &err);
  return status == IO_OK ? CLI_OK : cli_fail(command->name, (int)status, "%s", err.text);
}

static int run_command(const cli_command *command, int argc, char **argv) {
  options o = {.threads = 1};
  cli_args args;
  int result = cli_read(&args, command, argc, argv, take_option, &o);
  if (result != CLI_GO) return result;
  const op_desc *op = load_operator(command->name, args.operands[0]);
  if (op == NULL || !op_scalars_fit(command->name, op, &o.scalars)) return CLI_BAD;
  if (command == &prefill_command && o.out == NULL)
    return cli_fail(command->name, CLI_BAD, "missing -o OUT; see redelta-mpi prefill --help");
  if (op->id != OP_CHUNK_GATED_DELTA_RULE && op->id != OP_FLASH_KDA)
    return cli_fail(command->name, CLI_BAD,
                    "%s is no prefill; chunk_gated_delta_rule and flash_kda are", op->name);
  io_file in = {0};
  rd_context *ctx = NULL;
  op_call call = {0}, alone = {0};
  rd_mpi_cut cut = {0};
  result = tool_share(command->name, args.operands[1], &o.sets, o.out, &in);
  if (result == CLI_OK)
    result = tool_worst(command->name, cli_context(command->name, (int32_t)o.threads, 0, &ctx));
  if (result == CLI_OK) result = tool_worst(command->name, bind(command, &o, op, &in, ctx, &call));
  if (result == CLI_OK) result = tool_worst(command->name, bind(command, &o, op, &in, ctx, &alone));
  /* A run of one machine's checks say what is wrong with the file in the operator's own words. */
  if (result == CLI_OK) result = run_parts(command->name, ctx, &call, &cut);
  if (result == CLI_OK)
    result = tool_worst(command->name, finish(command, &o, ctx, &call, &alone, &cut));
  op_release(&call);
  op_release(&alone);
  rd_context_destroy(ctx);
  io_file_free(&in);
  return cli_finish(command->name, result);
}

int tool_prefill(int argc, char **argv) { return run_command(&prefill_command, argc, argv); }
int tool_check(int argc, char **argv) { return run_command(&check_command, argc, argv); }
