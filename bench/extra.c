/* What is not one case: call overhead, two threads, record bytes. */
#include "bench/world.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- overhead -------------------- */

static void *count_alloc(void *self, size_t size, size_t align) {
  ++*(int64_t *)self;
  return aligned_alloc(align, (size + align - 1) / align * align);
}

static void count_release(void *self, void *p, size_t size) {
  (void)self, (void)size;
  free(p);
}

typedef struct tiny { /* K = 16, V = 1 */
  float q[16], k[16], v[1], g[16], beta[1], out[1], state[16];
} tiny;

int bench_overhead(double seconds, double *ns, int64_t *allocations) {
  int64_t count = 0;
  rd_context_options options;
  rd_context_options_init(&options);
  options.threads = 1;
  options.allocator = (rd_allocator){count_alloc, count_release, &count};
  rd_context *ctx = NULL;
  rd_plan *plan = NULL;
  rd_problem p;
  rd_problem_init(&p);
  p.Hk = p.Hv = p.V = p.max_batch = p.max_tokens = 1;
  p.K = 16;
  int ok = rd_context_create(&options, &ctx) == RD_OK && rd_plan_create(ctx, &p, &plan) == RD_OK;
  tiny x = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
  const int64_t row[4] = {1, 1, 1, 16}, one[4] = {1, 1, 1, 1};
  const rd_activations act = {.struct_size = sizeof act,
                              .q = rd_tensor_contiguous(x.q, RD_F32, 4, row),
                              .k = rd_tensor_contiguous(x.k, RD_F32, 4, row),
                              .v = rd_tensor_contiguous(x.v, RD_F32, 4, one),
                              .g = rd_tensor_contiguous(x.g, RD_F32, 4, row),
                              .beta = rd_tensor_contiguous(x.beta, RD_F32, 3, one),
                              .out = rd_tensor_contiguous(x.out, RD_F32, 4, one)};
  const rd_slots state = {.struct_size = sizeof(rd_slots),
                          .pool = rd_tensor_contiguous(x.state, RD_F32, 4, row)};
  const rd_sequences seq = {.struct_size = sizeof seq, .batch = 1};
  ok = ok && rd_decode(ctx, plan, &seq, &act, &state, NULL, NULL) == RD_OK;
  const int64_t before = count;
  const double end = bench_now() + seconds * 1e9;
  *ns = 1e300;
  while (ok && bench_now() < end) {
    double t = bench_now();
    for (int i = 0; i < 200 && ok; i++)
      ok = rd_decode(ctx, plan, &seq, &act, &state, NULL, NULL) == RD_OK;
    t = (bench_now() - t) / 200;
    if (t < *ns) *ns = t;
  }
  *allocations = count - before;
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  return ok;
}

/* ---------------------------------------------------------------- threads --------------------- */

int bench_two_threads(double seconds, double *speedup) {
  bench_spec spec = {.verb = BENCH_PREFILL,
                     .axis = RD_PER_CHANNEL,
                     .numerics = RD_EXACT,
                     .level = BENCH_L3,
                     .T = 64,
                     .threads = 1};
  bench_world *one = bench_world_open(&spec, 0);
  spec.threads = 2;
  bench_world *two = bench_world_open(&spec, 0);
  int ok = one && two;
  double best[2] = {1e300, 1e300};
  const double end = bench_now() + seconds * 1e9;
  for (int turn = 0; ok && (turn < 5 || bench_now() < end); turn++) {
    for (int i = 0; i < 2; i++) {
      double t = bench_now();
      ok = ok && bench_world_run(i ? two : one) == RD_OK;
      t = bench_now() - t;
      if (t < best[i]) best[i] = t;
    }
  }
  *speedup = best[0] / best[1];
  bench_world_close(one);
  bench_world_close(two);
  return ok;
}

/* ---------------------------------------------------------------- records --------------------- */

double bench_record_ratio(rd_gate_axis axis, rd_dtype record_dtype) {
  rd_context *ctx = NULL;
  rd_plan *plan = NULL;
  rd_problem p;
  rd_plan_info info = {.struct_size = sizeof info};
  rd_problem_init(&p);
  p.gate_axis = axis;
  p.Hk = p.Hv = p.max_batch = p.max_tokens = 1;
  p.K = p.V = BENCH_DIM;
  p.record_dtype = record_dtype;
  const int ok = rd_context_create(NULL, &ctx) == RD_OK &&
                 rd_plan_create(ctx, &p, &plan) == RD_OK && rd_plan_get_info(plan, &info) == RD_OK;
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  return ok ? (double)info.snapshot_bytes_per_token / (double)info.record_bytes_per_token : 0;
}
