/* redelta-mpi bench: the ranks against one rank with as many threads as each of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/rng.h"
#include "mpi/tool/tool.h"

enum {
  ID_TOKENS = 1,
  ID_HEADS,
  ID_LAYERS,
  ID_GATE,
  ID_REPEAT,
  ID_THREADS,
  ID_NUMERICS,
  ID_SCAN,
  D = 128
};

static const cli_option option_table[] = {
    {"tokens", ID_TOKENS, "N", "tokens of the sequence (default 8192)"},
    {"heads", ID_HEADS, "HK,HV", "key and value heads (default 16,32)"},
    {"layers", ID_LAYERS, "N", "prefill calls of a step (default 1)"},
    {"gate", ID_GATE, "G", "gdn or kda (default gdn)"},
    {"repeat", ID_REPEAT, "N", "turns; the fastest counts (default 5)"},
    {"threads", ID_THREADS, "N", "threads of each rank (default 1)"},
    {"fast", ID_NUMERICS, NULL, "numerics fast"},
    {"scan", ID_SCAN, NULL, "also the scan (implies --fast)"},
    {0}};
static const cli_command command = {
    "bench",
    "",
    "Prefill of one sequence, K = V = 128, bf16 activations: rank 0 alone and all\n"
    "ranks in turns, and what the formulas of docs/SCALE.md make of the figures.",
    option_table,
    0,
    0};

typedef struct options {
  int64_t tokens, heads[2], layers, repeat, threads;
  int kda, fast, scan, json;
} options;

static int take_option(const cli_args *args, int id, void *to) {
  options *o = to;
  switch (id) {
  case ID_TOKENS:
    return cli_int(args, 1, 1 << 24, &o->tokens);
  case ID_HEADS:
    if (cli_int_list(args, 1, 1024, o->heads, 2) == 2 && o->heads[1] % o->heads[0] == 0) return 1;
    cli_fail(command.name, 0, "--heads: expected HK,HV with HV a multiple of HK, got '%s'",
             args->value);
    return 0;
  case ID_LAYERS:
    return cli_int(args, 1, 1000, &o->layers);
  case ID_REPEAT:
    return cli_int(args, 1, 1000, &o->repeat);
  case ID_THREADS:
    return cli_int(args, 1, 1024, &o->threads);
  case ID_GATE:
    o->kda = strcmp(args->value, "kda") == 0;
    if (o->kda || strcmp(args->value, "gdn") == 0) return 1;
    cli_fail(command.name, 0, "--gate: expected gdn or kda, got '%s'", args->value);
    return 0;
  case ID_SCAN:
    o->scan = 1;
    o->fast = 1;
    return 1;
  default:
    o->fast = 1;
    return 1;
  }
}

/* ---------------------------------------------------------------- data ------------------------ */

typedef struct work { /* tokens first .. first+n */
  void *memory[6];
  rd_activations act;
  rd_sequences seq;
} work;

static rd_tensor tensor(work *w, int i, rd_dtype type, int rank, const int64_t *shape, double low,
                        double high) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= shape[d];
  char *data = w->memory[i] = malloc((size_t)(n + 1) * rd_dtype_size(type));
  if (!data) MPI_Abort(MPI_COMM_WORLD, CLI_SYSTEM);
  const rng r = rng_stream((uint64_t)i, "redelta-mpi bench");
  for (int64_t e = 0; e < n; e++) {
    const float x = (float)(low + (high - low) * rng_uniform(r, (uint64_t)e));
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == RD_BF16)
      ((uint16_t *)(void *)data)[e] = (uint16_t)(bits >> 16);
    else
      ((float *)(void *)data)[e] = x;
  }
  return rd_tensor_contiguous(data, type, rank, shape);
}

static void make(const options *o, int64_t n, work *w) {
  const int64_t Hk = o->heads[0], Hv = o->heads[1];
  rd_activations_init(&w->act);
  rd_sequences_init(&w->seq);
  w->seq.batch = 1;
  w->act.q = tensor(w, 0, RD_BF16, 4, (int64_t[]){1, n, Hk, D}, -1, 1);
  w->act.k = tensor(w, 1, RD_BF16, 4, (int64_t[]){1, n, Hk, D}, -1, 1);
  w->act.v = tensor(w, 2, RD_BF16, 4, (int64_t[]){1, n, Hv, D}, -1, 1);
  w->act.g = tensor(w, 3, RD_BF16, o->kda ? 4 : 3, (int64_t[]){1, n, Hv, D}, -0.5, -0.001);
  w->act.beta = tensor(w, 4, RD_BF16, 3, (int64_t[]){1, n, Hv}, 0.1, 0.95);
  w->act.out = tensor(w, 5, RD_BF16, 4, (int64_t[]){1, n, Hv, D}, 0, 0);
}
static void drop(work *w) {
  for (int i = 0; i < 6; i++) free(w->memory[i]);
}

static rd_problem problem_of(const options *o) {
  rd_problem p;
  rd_problem_init(&p);
  p.gate_axis = o->kda ? RD_PER_CHANNEL : RD_PER_HEAD;
  p.qk_norm = RD_QK_L2;
  p.Hk = o->heads[0], p.Hv = o->heads[1], p.K = p.V = D;
  p.max_batch = 1, p.max_tokens = o->tokens;
  p.qkv_dtype = p.gate_dtype = p.beta_dtype = p.out_dtype = RD_BF16;
  p.numerics = o->fast ? RD_FAST : RD_EXACT;
  return p;
}

/* ---------------------------------------------------------------- turns ----------------------- */

/* Waits for all ranks without taking time from those that work. */
static void sleep_until_all(void) {
  MPI_Request request;
  int done = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
    nanosleep(&(struct timespec){0, 2000000}, NULL);
}

typedef struct bench {
  const options *o;
  rd_context *ctx;
  rd_mpi *m;
  rd_mpi_plan *plan;
  rd_plan *alone;
  work whole, mine;
} bench;

static rd_status turn_alone(bench *b, double *seconds) {
  rd_status status = RD_OK;
  sleep_until_all();
  if (tool_rank == 0) {
    const double start = cli_seconds();
    for (int64_t l = 0; l < b->o->layers && status == RD_OK; l++)
      status = rd_prefill(b->ctx, b->alone, &b->whole.seq, &b->whole.act, NULL, NULL, NULL);
    *seconds = fmin(*seconds, cli_seconds() - start);
  }
  sleep_until_all();
  return status;
}

static rd_status turn_ranks(bench *b, rd_mpi_form form, double *seconds) {
  rd_mpi_step step;
  rd_mpi_step_init(&step);
  step.form = form;
  step.layers = (int32_t)b->o->layers;
  step.seq = &b->mine.seq, step.act = &b->mine.act;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = cli_seconds();
  rd_status status = rd_mpi_agree(b->m, b->plan, &step);
  for (int64_t l = 0; l < b->o->layers && status == RD_OK; l++)
    status = form == RD_MPI_SCAN ? rd_mpi_prefill_scan(b->m, b->plan, &b->mine.act, NULL, NULL)
                                 : rd_mpi_prefill(b->m, b->plan, &b->mine.act, NULL, NULL);
  if (status == RD_OK) status = rd_mpi_finish(b->m);
  MPI_Barrier(MPI_COMM_WORLD);
  *seconds = fmin(*seconds, cli_seconds() - start);
  return status;
}

static void report(const bench *b, double alone, double ranks, double scan) {
  const options *o = b->o;
  rd_mpi_cut cut;
  rd_mpi_estimates e;
  (void)rd_mpi_plan_cut(b->plan, &cut);
  const double token = alone / (double)(o->tokens * o->heads[1] * o->layers);
  const rd_mpi_model model = {.ranks = tool_ranks,
                              .tokens = o->tokens,
                              .layers = o->layers,
                              .heads = o->heads[1],
                              .K = D,
                              .V = D,
                              .items = cut.items,
                              .seconds_per_token = token,
                              .latency = 2e-6,
                              .bytes_per_second = 4e9,
                              .products_per_second = 4e9};
  (void)rd_mpi_estimate(&model, &e);
  if (o->json) {
    json_t *root =
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}",
                  "ranks", tool_ranks, "tokens", (json_int_t)o->tokens, "key_heads",
                  (json_int_t)o->heads[0], "value_heads", (json_int_t)o->heads[1], "layers",
                  (json_int_t)o->layers, "gate", o->kda ? "kda" : "gdn", "numerics",
                  o->fast ? "fast" : "exact", "threads", (json_int_t)o->threads, "items",
                  (json_int_t)cut.items, "message_bytes", (json_int_t)cut.message_bytes,
                  "seconds_per_token_and_head", token, "alone_seconds", alone, "pipeline_seconds",
                  ranks, "scan_seconds", o->scan ? scan : -1.0, "pipeline_estimate", e.pipeline);
    (void)io_json_print(stdout, root);
    return;
  }
  printf("%s %s, %lld tokens, %lld/%lld heads, %lld layers: %lld items, %lld bytes a message\n",
         o->kda ? "KDA" : "GDN", o->fast ? "FAST" : "EXACT", (long long)o->tokens,
         (long long)o->heads[0], (long long)o->heads[1], (long long)o->layers, (long long)cut.items,
         (long long)cut.message_bytes);
  printf("  one rank      %.3f s, %.0f ns per token and value head\n", alone, token * 1e9);
  printf("  %d ranks       %.3f s, %.2f x (estimate %.3f s, %.2f x)\n", tool_ranks, ranks,
         alone / ranks, e.pipeline, alone / e.pipeline);
  if (o->scan)
    printf("  scan          %.3f s, %.2f x (estimate %.3f s, %.2f x)\n", scan, alone / scan, e.scan,
           alone / e.scan);
  else
    printf("  scan          not run (estimate %.3f s, %.2f x)\n", e.scan, alone / e.scan);
}

static rd_status measure(bench *b) {
  const options *o = b->o;
  const rd_problem p = problem_of(o);
  const int64_t grain = o->fast ? 32 : 1;
  rd_status status = rd_mpi_create(b->ctx, MPI_COMM_WORLD, &b->m);
  if (status == RD_OK) status = rd_mpi_plan_create(b->m, &p, (int32_t)o->layers, &b->plan);
  if (status == RD_OK) status = rd_plan_create(b->ctx, &p, &b->alone);
  if (status != RD_OK) MPI_Abort(MPI_COMM_WORLD, CLI_SYSTEM);
  make(o, tool_rank == 0 ? o->tokens : 1, &b->whole);
  make(o,
       tool_first_row(o->tokens, tool_rank + 1, tool_ranks, grain) -
           tool_first_row(o->tokens, tool_rank, tool_ranks, grain),
       &b->mine);
  double alone = HUGE_VAL, ranks = HUGE_VAL, scan = HUGE_VAL;
  for (int64_t i = 0; i < o->repeat && status == RD_OK; i++) {
    status = turn_alone(b, &alone);
    if (status == RD_OK) status = turn_ranks(b, RD_MPI_PIPELINE, &ranks);
    if (status == RD_OK && o->scan) status = turn_ranks(b, RD_MPI_SCAN, &scan);
  }
  if (status == RD_OK && tool_rank == 0) report(b, alone, ranks, scan);
  if (status != RD_OK)
    cli_fail(command.name, 0, "%s: %s", rd_status_name(status), rd_mpi_last_error(b->m));
  return status;
}

int tool_bench(int argc, char **argv) {
  options o = {.tokens = 8192, .heads = {16, 32}, .layers = 1, .repeat = 5, .threads = 1};
  cli_args args;
  int result = cli_read(&args, &command, argc, argv, take_option, &o);
  if (result != CLI_GO) return result;
  o.json = args.json;
  bench b = {.o = &o};
  result = tool_worst(command.name, cli_context(command.name, (int32_t)o.threads, 0, &b.ctx));
  if (result == CLI_OK) result = cli_status_of(measure(&b));
  drop(&b.whole);
  drop(&b.mine);
  rd_plan_destroy(b.alone);
  rd_mpi_plan_destroy(b.plan);
  rd_mpi_destroy(b.m);
  rd_context_destroy(b.ctx);
  return cli_finish(command.name, result);
}
