/* The scan against the double oracle, and its failures. usage: mpirun -np P test_mpi_scan [--seed N] [--cases N] */
#include "kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ref.h"

static const double bound = 2e-6; /* docs/SCALE.md: relative L2 per sequence and value head */

static int rank, ranks;
static rd_context *ctx;
static rd_mpi *m;
static double worst_seen;

static shape drawn(void) {
  static const int64_t sizes[][2] = {{16, 8}, {64, 32}, {40, 72}, {128, 128}};
  shape s;
  memset(&s, 0, sizeof s);
  rd_problem_init(&s.p);
  const int64_t z = draw_below(4);
  s.p.Hk = 1 + draw_below(2);
  s.p.Hv = s.p.Hk * (1 + draw_below(2));
  s.p.K = sizes[z][0], s.p.V = sizes[z][1];
  s.p.layout = (int32_t)(1 + draw_below(2));
  s.p.gate = (int32_t)(2 + draw_below(4));
  s.p.gate_axis = (int32_t)(1 + draw_below(2));
  s.p.head_map = (int32_t)(1 + draw_below(2));
  s.p.state_layout = (int32_t)(1 + draw_below(2));
  s.p.qk_norm = RD_QK_L2;
  s.p.numerics = RD_FAST;
  s.slow = (int)draw_below(2);
  if (s.slow) s.p.gate = draw_below(2) ? RD_GATE_LOG : RD_GATE_DECAY;
  s.B = 1 + draw_below(3);
  for (int64_t b = 0; b < s.B; b++) {
    s.lengths[b] = draw_below(6) == 0 ? 0 : 1 + draw_below(s.slow ? 40 : 500);
    s.slots[b] = (int32_t)(SLOTS - 1 - 2 * b);
  }
  s.pools = (int)draw_below(3);
  s.p.max_batch = MOST_BATCH;
  s.p.max_tokens = 512;
  return s;
}

static double relative(double error, double norm) {
  return norm > 0 ? sqrt(error / norm) : sqrt(error);
}

/* The largest error of this rank's outputs: per sequence and head over the tokens that are here, against
 * the size of the whole sequence's. */
static double worst_output(const shape *s, const part *mine, const double *want) {
  const int64_t Hv = s->p.Hv, V = s->p.V;
  double worst = 0;
  int64_t row0 = 0;
  for (int64_t b = 0; b < s->B; row0 += s->lengths[b++]) {
    int64_t first = 0;
    for (int r = 0; r < rank; r++) first += s->counts[r][b];
    const rd_tensor *out = &mine->act.out;
    const float *got = out->data;
    got += s->p.layout == RD_PADDED ? b * out->stride[0] : mine->starts[b] * Hv * V;
    for (int64_t h = 0; h < Hv; h++) {
      double error = 0, norm = 0;
      for (int64_t t = 0; t < s->lengths[b]; t++)
        for (int64_t i = 0; i < V; i++) norm += pow(want[((row0 + t) * Hv + h) * V + i], 2);
      for (int64_t t = 0; t < s->counts[rank][b]; t++)
        for (int64_t i = 0; i < V; i++)
          error += pow(got[(t * Hv + h) * V + i] - want[((row0 + first + t) * Hv + h) * V + i], 2);
      worst = fmax(worst, relative(error, norm));
      if (error != error) worst = INFINITY;
    }
  }
  return worst;
}

static double worst_state(const shape *s, const part *mine, const double *want) {
  const int64_t Hv = s->p.Hv, V = s->p.V, K = s->p.K;
  double worst = 0;
  for (int64_t b = 0; b < s->B; b++) {
    int last = ranks - 1;
    while (last >= 0 && s->counts[last][b] == 0) last--;
    if (last < 0) last = 0;
    if (last != rank || mine->final.pool.dtype == RD_ABSENT) continue;
    const float *got = (const float *)mine->final.pool.data + s->slots[b] * Hv * V * K;
    for (int64_t h = 0; h < Hv; h++) {
      double error = 0, norm = 0;
      for (int64_t v = 0; v < V; v++)
        for (int64_t c = 0; c < K; c++) {
          const int64_t at = s->p.state_layout == RD_STATE_VK ? v * K + c : c * V + v;
          const double x = want[((b * Hv + h) * V + v) * K + c];
          error += pow(got[h * V * K + at] - x, 2);
          norm += x * x;
        }
      worst = fmax(worst, relative(error, norm));
      if (error != error) worst = INFINITY;
    }
  }
  return worst;
}

static rd_status run(const shape *s, part *mine, int layers, int culprit, int kind) {
  rd_mpi_plan *plan;
  rd_status status = rd_mpi_plan_create(m, &s->p, layers, &plan);
  if (status != RD_OK) return status;
  rd_mpi_step step;
  rd_mpi_step_init(&step);
  step.form = RD_MPI_SCAN;
  step.layers = layers;
  step.seq = &mine->seq, step.act = &mine->act;
  step.initial = &mine->initial, step.final = &mine->final;
  status = rd_mpi_agree(m, plan, &step);
  for (int l = 0; l < layers && status == RD_OK; l++) {
    rd_activations act = mine->act;
    if (rank == culprit && l == 1 && kind == 0) act.beta.dtype = RD_I32;
    if (rank == culprit && l == 1 && kind == 1) break;
    status = rd_mpi_prefill_scan(m, plan, &act, &mine->initial, &mine->final);
  }
  const rd_status finish = rd_mpi_finish(m);
  rd_mpi_plan_destroy(plan);
  return status != RD_OK ? status : finish;
}

static void one(uint64_t seed) {
  draw_from(seed);
  shape s = drawn();
  split(&s, ranks, 1);
  part whole, mine;
  make_whole(&s, &whole);
  make_part(&s, &whole, rank, &mine);
  const int64_t rows = whole.starts[s.B - 1] + s.lengths[s.B - 1];
  double *out = malloc((size_t)(rows * s.p.Hv * s.p.V + 1) * sizeof *out);
  double *states = malloc((size_t)(s.B * s.p.Hv * s.p.V * s.p.K) * sizeof *states);
  rd_problem p = s.p;
  p.layout = RD_PACKED;
  const rdr_results res = {.out = out, .state = states};
  if (!out || !states ||
      rdr_prefill(RDR_F64, &p, &whole.seq, &whole.act, s.pools ? &whole.initial : NULL, NULL, &res))
    MPI_Abort(MPI_COMM_WORLD, 1);
  const rd_status status = run(&s, &mine, 1, -1, 0);
  const double o = worst_output(&s, &mine, out), f = worst_state(&s, &mine, states);
  worst_seen = fmax(worst_seen, fmax(o, f));
  verdict(MPI_COMM_WORLD, status == RD_OK && o <= bound && f <= bound,
          "--seed %llu: %s, error %.3g of outputs, %.3g of states (gate %d axis %d)",
          (unsigned long long)seed, rd_status_name(status), o, f, s.p.gate, s.p.gate_axis);
  free(out);
  free(states);
  free_part(&mine);
  free_part(&whole);
}

/* An error of one rank, or an early end, is everybody's; the step after is a good one. */
static void fails(int culprit, int kind) {
  draw_from(5);
  shape s = drawn();
  split(&s, ranks, 1);
  part whole, mine;
  make_whole(&s, &whole);
  make_part(&s, &whole, rank, &mine);
  const rd_status want = kind == 0 ? RD_E_DTYPE : RD_E_PRESENCE,
                  got = run(&s, &mine, 3, culprit, kind);
  const rd_status then = run(&s, &mine, 2, -1, 0);
  verdict(MPI_COMM_WORLD, got == want && then == RD_OK, "rank %d fails (%d): %s, then %s", culprit,
          kind, rd_status_name(got), rd_status_name(then));
  free_part(&mine);
  free_part(&whole);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  uint64_t seed = 1, cases = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--cases") == 0) cases = strtoull(argv[i + 1], NULL, 10);
  }
  ctx = make_context(NULL);
  if (rd_mpi_create(ctx, MPI_COMM_WORLD, &m) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 1);
  for (uint64_t i = 0; i < cases; i++) one(seed + i);
  for (int culprit = 0; culprit < ranks; culprit++)
    for (int kind = 0; kind < 2; kind++) fails(culprit, kind);
  double all = 0;
  MPI_Reduce(&worst_seen, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  rd_mpi_destroy(m);
  rd_context_destroy(ctx);
  if (rank == 0)
    printf("%d ranks, seeds %llu to %llu, largest error %.3g: %d passed, %d failed, 0 skipped\n",
           ranks, (unsigned long long)seed, (unsigned long long)(seed + cases - 1), all, passes,
           failures);
  MPI_Finalize();
  return failures != 0;
}
