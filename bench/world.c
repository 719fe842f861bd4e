/* One case as tensors: shapes of its level, inputs with the statistics of the real ones, the call. */
#include "bench/world.h"

#include "ref/ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { K = BENCH_DIM, V = BENCH_DIM, TABLE = 1 << 16 };

size_t bench_dram_bytes(void) {
  size_t bytes = (size_t)256 << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
  const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (l3 > 0 && (size_t)l3 * 4 > bytes) bytes = (size_t)l3 * 4;
#endif
  return bytes > ((size_t)1 << 30) ? (size_t)1 << 30 : bytes;
}

static void *take(bench_world *w, size_t bytes) {
  if (w->blocks == (int)(sizeof w->memory / sizeof w->memory[0])) return NULL;
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (p) memset(p, 0, bytes);
  w->memory[w->blocks++] = p;
  return p;
}

/* ---------------------------------------------------------------- inputs ---------------------- */

typedef enum kind { NORMAL, UNIT_ROWS, DECAY, SIGMOID, SLOW, ZERO } kind;

static double uniform(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return ((double)(*s >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *s) {
  const double r = sqrt(-2 * log(uniform(s)));
  return r * cos(6.283185307179586 * uniform(s));
}

/* A table of numbers, repeated: what the values are does not matter beyond it. Raw gates are such that
 * most channels forget slowly, as in trained layers: a = exp(-5 sigmoid(g + dt)), dt near -4. */
static int fill(void *data, rd_dtype dtype, int64_t n, kind how, uint64_t seed) {
  const size_t size = rd_dtype_size(dtype);
  float *x = malloc(TABLE * sizeof *x);
  char *t = malloc(TABLE * size);
  if (!x || !t || !data) {
    free(x), free(t);
    return 0;
  }
  for (int i = 0; i < TABLE; i++) {
    const double z =
        how == DECAY ? -(uniform(&seed) + 0.01) : normal(&seed) - (how == SLOW ? 4 : 0);
    x[i] = (float)(how == SIGMOID ? 1 / (1 + exp(-z)) : how == ZERO ? 0 : z);
  }
  for (int r = 0; how == UNIT_ROWS && r < TABLE; r += K) {
    double s = 0;
    for (int i = 0; i < K; i++) s += (double)x[r + i] * (double)x[r + i];
    for (int i = 0; i < K; i++) x[r + i] = (float)((double)x[r + i] / sqrt(s));
  }
  for (int i = 0; i < TABLE; i++) {
    if (dtype == RD_F32)
      memcpy(t + (size_t)i * size, x + i, size);
    else
      memcpy(t + (size_t)i * size, &(uint16_t){rdr_16_of(x[i], dtype)}, size);
  }
  for (int64_t i = 0; i < n; i += TABLE)
    memcpy((char *)data + (size_t)i * size, t, (size_t)(n - i < TABLE ? n - i : TABLE) * size);
  free(x), free(t);
  return 1;
}

static int tensor(bench_world *w, rd_tensor *out, rd_dtype dtype, int rank, const int64_t *shape,
                  kind how) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  void *p = take(w, (size_t)n * rd_dtype_size(dtype));
  *out = rd_tensor_contiguous(p, dtype, rank, shape);
  return p && fill(p, dtype, n, how, (uint64_t)w->blocks);
}

static int activations(bench_world *w, int f32_out) {
  const int kda = w->spec.axis == RD_PER_CHANNEL;
  const int64_t B = w->B, T = w->spec.T, Hk = w->Hk, Hv = w->Hv;
  const rd_dtype half = kda || w->spec.bf16 ? RD_BF16 : RD_F16;
  rd_activations *a = &w->act;
  int ok = tensor(w, &a->q, half, 4, (int64_t[]){B, T, Hk, K}, UNIT_ROWS) &&
           tensor(w, &a->k, half, 4, (int64_t[]){B, T, Hk, K}, UNIT_ROWS) &&
           tensor(w, &a->v, half, 4, (int64_t[]){B, T, Hv, V}, NORMAL) &&
           tensor(w, &a->out, f32_out ? RD_F32 : half, 4, (int64_t[]){B, T, Hv, V}, NORMAL) &&
           tensor(w, &a->beta, half, 3, (int64_t[]){B, T, Hv}, kda ? NORMAL : SIGMOID);
  if (kda && w->spec.log_gate)
    return ok && tensor(w, &a->g, half, 4, (int64_t[]){B, T, Hv, K}, DECAY);
  if (kda)
    return ok && tensor(w, &a->g, half, 4, (int64_t[]){B, T, Hv, K}, NORMAL) &&
           tensor(w, &a->A_log, RD_F32, 1, (int64_t[]){Hv}, ZERO) &&
           tensor(w, &a->dt_bias, RD_F32, 2, (int64_t[]){Hv, K}, SLOW);
  return ok && tensor(w, &a->g, RD_F32, 3, (int64_t[]){B, T, Hv}, DECAY);
}

/* One tree for all sequences: its stride over them is 0. */
static int trees(bench_world *w) {
  const int32_t nodes = w->spec.T;
  int32_t *parents = take(w, (size_t)nodes * sizeof *parents);
  if (!parents) return 0;
  for (int32_t i = 0; i < nodes; i++) parents[i] = bench_tree_parent(w->spec.tree, i, nodes);
  w->seq.parents = rd_tensor_contiguous(parents, RD_I32, 2, (int64_t[]){w->B, nodes});
  w->seq.parents.stride[0] = 0;
  return 1;
}

static int records(bench_world *w, rd_records *r, int32_t *lengths) {
  const int64_t B = w->B, C = w->spec.T, Hk = w->Hk, Hv = w->Hv;
  r->struct_size = sizeof *r;
  r->lengths = lengths;
  r->parents = rd_tensor_contiguous(take(w, (size_t)(B * C) * sizeof(int32_t)), RD_I32, 2,
                                    (int64_t[]){B, C});
  if (!r->parents.data) return 0;
  return lengths && tensor(w, &r->u, RD_F32, 4, (int64_t[]){B, C, Hv, V}, NORMAL) &&
         tensor(w, &r->k, RD_F32, 4, (int64_t[]){B, C, Hk, K}, NORMAL) &&
         (w->spec.axis == RD_PER_CHANNEL
              ? tensor(w, &r->decay, RD_F32, 4, (int64_t[]){B, C, Hv, K}, NORMAL)
              : tensor(w, &r->decay, RD_F32, 3, (int64_t[]){B, C, Hv}, NORMAL));
}

/* ---------------------------------------------------------------- the call -------------------- */

static void shape_of(bench_world *w) {
  const int kda = w->spec.axis == RD_PER_CHANNEL;
  w->B = 1;
  w->Hv = w->spec.level == BENCH_HOT ? 4 : 32; /* 256 KiB of states */
  if (w->spec.level == BENCH_L3) w->B = 3;
  if (w->spec.level == BENCH_DRAM) w->B = (int64_t)(bench_dram_bytes() / (32 * 4 * K * V));
  if (w->spec.heads) w->Hv = w->spec.heads;
  w->Hk = kda || w->Hv == 1 ? w->Hv : w->Hv / 2;
}

static void problem_of(bench_world *w) {
  rd_problem *p = &w->problem;
  const int kda = w->spec.axis == RD_PER_CHANNEL;
  rd_problem_init(p);
  p->layout = RD_PADDED;
  p->gate = kda && !w->spec.log_gate ? RD_GATE_LOWER_BOUND : RD_GATE_LOG;
  p->gate_axis = w->spec.axis;
  p->beta = kda ? RD_BETA_LOGIT : RD_BETA_VALUE;
  p->qk_norm = kda || w->spec.bf16 ? RD_QK_L2 : RD_QK_AS_IS;
  p->numerics = w->spec.numerics;
  p->Hk = w->Hk, p->Hv = w->Hv, p->K = K, p->V = V;
  p->max_batch = w->B;
  p->max_tokens = w->spec.T;
  p->qkv_dtype = p->beta_dtype = kda || w->spec.bf16 ? RD_BF16 : RD_F16;
  p->gate_dtype = kda ? RD_BF16 : RD_F32;
  p->out_dtype = w->act.out.dtype;
  p->record_dtype = p->decay_dtype = RD_F32;
  p->state_dtype = w->spec.state ? w->spec.state : RD_F32;
  p->state_layout = w->spec.kv ? RD_STATE_KV : RD_STATE_VK;
}

static int replays(bench_verb v) {
  return v == BENCH_COMMIT || v == BENCH_FOLDED || v == BENCH_ROUND;
}

static int open_all(bench_world *w, int f32_out) {
  rd_context_options options;
  rd_context_options_init(&options);
  options.threads = w->spec.threads;
  options.isa_mask = w->spec.isa_mask;
  if (rd_context_create(&options, &w->ctx) != RD_OK || !activations(w, f32_out)) return 0;
  problem_of(w);
  if (rd_plan_create(w->ctx, &w->problem, &w->plan) != RD_OK) return 0;
  rd_slots_init(&w->state);
  const rd_dtype dtype = (rd_dtype)w->problem.state_dtype;
  if (rd_pool_alloc(w->ctx, w->B, w->Hv, V, K, (rd_state_layout)w->problem.state_layout, dtype,
                    &w->state.pool) != RD_OK)
    return 0;
  if (!fill(w->state.pool.data, dtype, w->B * w->state.pool.stride[0], NORMAL, 7)) return 0;
  w->seq = (rd_sequences){.struct_size = sizeof w->seq, .batch = w->B};
  w->act.struct_size = sizeof w->act;
  if (w->spec.tree && !trees(w)) return 0;
  for (int i = 0; i < 2; i++) w->lengths[i] = take(w, (size_t)w->B * sizeof(int32_t));
  w->counts = take(w, (size_t)w->B * sizeof(int32_t));
  if (!w->counts) return 0;
  for (int64_t b = 0; b < w->B; b++) w->counts[b] = w->spec.accepted;
  w->accepted = rd_tensor_contiguous(w->counts, RD_I32, 1, &w->B);
  if (w->spec.verb != BENCH_VERIFY && !replays(w->spec.verb)) return 1;
  if (!records(w, &w->made, w->lengths[0])) return 0;
  if (w->spec.verb == BENCH_FOLDED && !records(w, &w->next, w->lengths[1])) return 0;
  return rd_verify(w->ctx, w->plan, &w->seq, &w->act, &w->state, &w->made) == RD_OK;
}

bench_world *bench_world_open(const bench_spec *spec, int f32_out) {
  bench_world *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->spec = *spec;
  shape_of(w);
  if (open_all(w, f32_out)) return w;
  bench_world_close(w);
  return NULL;
}

void bench_world_close(bench_world *w) {
  if (!w) return;
  if (w->state.pool.data) (void)rd_pool_free(w->ctx, &w->state.pool);
  for (int i = 0; i < w->blocks; i++) free(w->memory[i]);
  rd_plan_destroy(w->plan);
  rd_context_destroy(w->ctx);
  free(w);
}

rd_status bench_world_run(bench_world *w) {
  rd_records made = w->made; /* a commit marks it consumed; the next turn replays it again */
  switch (w->spec.verb) {
  case BENCH_PREFILL:
    return rd_prefill(w->ctx, w->plan, &w->seq, &w->act, &w->state, &w->state, NULL);
  case BENCH_DECODE:
    return rd_decode(w->ctx, w->plan, &w->seq, &w->act, &w->state, NULL, NULL);
  case BENCH_VERIFY:
    return rd_verify(w->ctx, w->plan, &w->seq, &w->act, &w->state, &w->made);
  case BENCH_COMMIT:
    return rd_commit(w->ctx, w->plan, &made, &w->accepted, &w->state);
  case BENCH_FOLDED:
    return rd_commit_verify(w->ctx, w->plan, &made, &w->accepted, &w->seq, &w->act, &w->state,
                            &w->next);
  case BENCH_ROUND: {
    const rd_status s = rd_verify(w->ctx, w->plan, &w->seq, &w->act, &w->state, &w->made);
    made = w->made;
    return s != RD_OK ? s : rd_commit(w->ctx, w->plan, &made, &w->accepted, &w->state);
  }
  }
  return RD_E_ENUM;
}

/* ---------------------------------------------------------------- error ----------------------- */

static double relative(const double *want, const float *got, int64_t n) {
  double d = 0, s = 0;
  for (int64_t i = 0; i < n; i++) {
    const double e = (double)got[i] - want[i];
    d += e * e, s += want[i] * want[i];
  }
  return sqrt(d / (s > 0 ? s : 1));
}

double bench_world_error(bench_world *w) {
  const int64_t outs = w->B * w->spec.T * w->Hv * V, states = w->B * w->Hv * V * K;
  double *out = calloc((size_t)outs, sizeof *out), *state = calloc((size_t)states, sizeof *state);
  const rdr_results res = {.out = out, .state = state, .C = w->spec.T};
  double error = -1;
  int bad = !out || !state;
  if (!bad) switch (w->spec.verb) {
    case BENCH_PREFILL:
      bad = rdr_prefill(RDR_F64, &w->problem, &w->seq, &w->act, &w->state, &w->state, &res);
      break;
    case BENCH_DECODE:
      bad = rdr_decode(RDR_F64, &w->problem, &w->seq, &w->act, &w->state, &res);
      break;
    case BENCH_VERIFY:
      bad = rdr_verify(RDR_F64, &w->problem, &w->seq, &w->act, &w->state, &res);
      break;
    case BENCH_COMMIT:
      bad = rdr_commit(RDR_F64, &w->problem, &w->made, &w->accepted, &w->state, &res);
      break;
    case BENCH_FOLDED:
      bad = rdr_commit_verify(RDR_F64, &w->problem, &w->made, &w->accepted, &w->seq, &w->act,
                              &w->state, &res);
      break;
    case BENCH_ROUND:
      bad = rdr_verify(RDR_F64, &w->problem, &w->seq, &w->act, &w->state, &res);
      break;
    }
  if (!bad && bench_world_run(w) == RD_OK) {
    const float *S = w->state.pool.data, *o = w->act.out.data;
    error = w->spec.verb == BENCH_COMMIT ? relative(state, S, states) : relative(out, o, outs);
  }
  free(out), free(state);
  return error;
}
