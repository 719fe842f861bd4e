/* Bits of P ranks = bits of one. usage: mpirun -np P test_mpi_bits [--seed N] [--cases N] */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static rd_context *ctx;
static rd_mpi *m;

static rd_dtype any_float(void) { return (rd_dtype)(RD_F32 + draw_below(3)); }

/* Sizes are distinct, so that no two dimensions can be mixed up. */
static shape drawn(int numerics) {
  static const int64_t heads[][2] = {{1, 1}, {2, 4}, {3, 3}, {2, 6}, {1, 2}};
  static const int64_t sizes[][2] = {{16, 8}, {64, 32}, {40, 72}, {128, 128}, {17, 130}};
  shape s;
  memset(&s, 0, sizeof s);
  rd_problem_init(&s.p);
  const int64_t h = draw_below(5), z = draw_below(5);
  s.p.Hk = heads[h][0], s.p.Hv = heads[h][1];
  s.p.K = sizes[z][0], s.p.V = sizes[z][1];
  s.p.layout = (int32_t)(1 + draw_below(2));
  s.p.gate = (int32_t)(1 + draw_below(5));
  s.p.gate_axis = (int32_t)(1 + draw_below(2));
  s.p.beta = (int32_t)(1 + draw_below(2));
  s.p.head_map = (int32_t)(1 + draw_below(2));
  s.p.qk_norm = RD_QK_L2;
  s.p.state_layout = (int32_t)(1 + draw_below(2));
  s.p.numerics = numerics;
  s.p.qkv_dtype = any_float();
  s.p.gate_dtype = any_float();
  s.p.beta_dtype = any_float();
  s.p.out_dtype = any_float();
  s.p.state_dtype = any_float();
  s.B = 1 + draw_below(4);
  for (int64_t b = 0; b < s.B; b++) {
    s.lengths[b] = draw_below(5) == 0 ? 0 : draw_below(numerics == RD_FAST ? 400 : 150);
    s.slots[b] = (int32_t)(SLOTS - 1 - 2 * b);
  }
  s.pools = (int)draw_below(3);
  s.separate = s.pools && draw_below(2);
  if (s.pools && !s.separate && draw_below(4) == 0) s.slots[draw_below(s.B)] = s.p.pad_slot;
  s.p.max_batch = MOST_BATCH;
  s.p.max_tokens = 512;
  return s;
}

static const char *run(const shape *s, const part *whole, int layers) {
  static char text[300];
  rd_mpi_plan *plan;
  part mine[4];
  rd_status status = rd_mpi_plan_create(m, &s->p, layers, &plan);
  if (status != RD_OK) return "no plan";
  const char *bad = NULL;
  for (int l = 0; l < layers; l++) make_part(s, whole, rank, &mine[l]);
  rd_mpi_step step;
  rd_mpi_step_init(&step);
  step.layers = layers;
  step.seq = &mine[0].seq, step.act = &mine[0].act;
  step.initial = &mine[0].initial, step.final = &mine[0].final;
  status = rd_mpi_agree(m, plan, &step);
  for (int l = 0; l < layers && status == RD_OK; l++)
    status = rd_mpi_prefill(m, plan, &mine[l].act, &mine[l].initial, &mine[l].final);
  if (status == RD_OK) status = rd_mpi_finish(m);
  if (status != RD_OK) {
    snprintf(text, sizeof text, "%s: %s", rd_status_name(status), rd_mpi_last_error(m));
    bad = text;
  }
  for (int l = 0; l < layers; l++) {
    if (!bad) bad = compare(s, whole, &mine[l], rank, ranks);
    free_part(&mine[l]);
  }
  rd_mpi_plan_destroy(plan);
  return bad;
}

static const char *run_alone(const shape *s, const part *whole) {
  rd_problem p = s->p;
  p.layout = RD_PACKED;
  rd_plan *plan;
  if (rd_plan_create(ctx, &p, &plan) != RD_OK) return rd_last_error(ctx);
  const rd_status status =
      rd_prefill(ctx, plan, &whole->seq, &whole->act, &whole->initial, &whole->final, NULL);
  rd_plan_destroy(plan);
  return status == RD_OK ? NULL : rd_last_error(ctx);
}

static void one(uint64_t seed, int numerics) {
  draw_from(seed);
  shape s = drawn(numerics);
  split(&s, ranks, numerics == RD_FAST ? 32 : 1);
  part whole;
  make_whole(&s, &whole);
  const size_t bytes = s.pools ? (size_t)whole.initial.pool.stride[0] * SLOTS *
                                     rd_dtype_size((rd_dtype)s.p.state_dtype)
                               : 0;
  char *after = malloc(bytes + 1);
  if (!after) abort();
  part alone = whole; /* the same inputs; the pool after the call is another one */
  if (bytes) {
    memcpy(after, whole.initial.pool.data, bytes);
    if (s.separate) memset(after, 0xff, bytes);
    alone.final.pool.data = after;
    if (!s.separate) alone.initial.pool.data = after;
  }
  const char *bad = run_alone(&s, &alone);
  whole.final = alone.final;
  const int layers = (int)(1 + draw_below(3));
  if (!bad) bad = run(&s, &whole, layers);
  verdict(MPI_COMM_WORLD, bad == NULL,
          "%s (--seed %llu, %s, %d layers, Hk %lld Hv %lld K %lld V %lld, gate %d axis %d map %d "
          "layout %d state %d/%d pools %d)",
          bad ? bad : "", (unsigned long long)seed, numerics == RD_FAST ? "FAST" : "EXACT", layers,
          (long long)s.p.Hk, (long long)s.p.Hv, (long long)s.p.K, (long long)s.p.V, s.p.gate,
          s.p.gate_axis, s.p.head_map, s.p.layout, s.p.state_dtype, s.p.state_layout, s.pools);
  free(after);
  free_part(&whole);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  uint64_t seed = 1, cases = 60;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--cases") == 0) cases = strtoull(argv[i + 1], NULL, 10);
  }
  ctx = make_context(NULL);
  if (rd_mpi_create(ctx, MPI_COMM_WORLD, &m) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 1);
  for (uint64_t i = 0; i < cases; i++) one(seed + i, i % 3 == 2 ? RD_FAST : RD_EXACT);
  rd_mpi_destroy(m);
  rd_context_destroy(ctx);
  if (rank == 0)
    printf("%d ranks, seeds %llu to %llu: %d passed, %d failed, 0 skipped\n", ranks,
           (unsigned long long)seed, (unsigned long long)(seed + cases - 1), passes, failures);
  MPI_Finalize();
  return failures != 0;
}
