/* Part 3 of the demo: speculation is exact. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_cases.h"
#include "cli/demo_parts.h"

#include "io/convert.h"
#include "io/rng.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 200, MAX_T = 8, BATCH = 3, DIM = 128 };

/* One model: a problem, the buffers of a round, and two pools that must stay equal. */
typedef struct model {
  const char *name;
  rd_problem problem;
  rd_plan *plan;
  io_file buffers;
  rd_tensor speculated, plain; /* [BATCH,Hv,V,K] */
  rd_tensor A_log, dt_bias;
  rd_records records;
  int32_t lengths[BATCH];
  int64_t proposed, accepted;
  int outputs_differ, states_differ;
} model;

static void problem_of(rd_problem *p, int kda) {
  rd_problem_init(p);
  p->gate = kda ? RD_GATE_LOWER_BOUND : RD_GATE_LOG;
  p->gate_axis = kda ? RD_PER_CHANNEL : RD_PER_HEAD;
  p->beta = kda ? RD_BETA_LOGIT : RD_BETA_VALUE;
  p->qk_norm = RD_QK_L2;
  p->Hk = 2;
  p->Hv = kda ? 2 : 4;
  p->K = p->V = DIM;
  p->max_batch = BATCH;
  p->max_tokens = MAX_T;
  p->qkv_dtype = kda ? RD_BF16 : RD_F16;
  p->gate_dtype = kda ? RD_BF16 : RD_F32;
  p->beta_dtype = kda ? RD_BF16 : RD_F16;
}

static rd_tensor buffer(model *m, const char *name, rd_dtype dtype, int32_t rank,
                        const int64_t *shape, io_status *status) {
  io_tensor *t = NULL;
  rd_tensor view = {0};
  if (*status == IO_OK)
    *status = io_file_add(&m->buffers, name, io_dtype_of(dtype), rank, shape, &t, NULL);
  if (*status == IO_OK) *status = io_tensor_view(t, &view, NULL);
  return view;
}

/* Numbers of a named stream: the round is part of the position, so no two rounds share any. */
static void fill(const rd_tensor *t, const char *name, uint64_t round, int negative) {
  rng r = rng_stream(DEMO_SEED, name);
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) n *= t->shape[i];
  for (int64_t i = 0; i < n; i++) {
    uint64_t at = round << 24 | (uint64_t)i;
    io_set(t->data, t->dtype, i, negative ? -rng_uniform(r, at) : rng_normal(r, at));
  }
}

static io_status model_init(model *m, int kda) {
  *m = (model){.name = kda ? "KDA" : "GDN"};
  problem_of(&m->problem, kda);
  int64_t Hk = m->problem.Hk, Hv = m->problem.Hv;
  io_status status = IO_OK;
  m->speculated = buffer(m, "speculated", RD_F32, 4, (int64_t[]){BATCH, Hv, DIM, DIM}, &status);
  m->plain = buffer(m, "plain", RD_F32, 4, (int64_t[]){BATCH, Hv, DIM, DIM}, &status);
  if (kda) m->A_log = buffer(m, "A_log", RD_F32, 1, (int64_t[]){Hv}, &status);
  if (kda) m->dt_bias = buffer(m, "dt_bias", RD_F32, 2, (int64_t[]){Hv, DIM}, &status);
  m->records.struct_size = sizeof m->records;
  m->records.lengths = m->lengths;
  m->records.u = buffer(m, "u", RD_F32, 4, (int64_t[]){BATCH, MAX_T, Hv, DIM}, &status);
  m->records.k = buffer(m, "k", RD_F32, 4, (int64_t[]){BATCH, MAX_T, Hk, DIM}, &status);
  m->records.decay =
      kda ? buffer(m, "decay", RD_F32, 4, (int64_t[]){BATCH, MAX_T, Hv, DIM}, &status)
          : buffer(m, "decay", RD_F32, 3, (int64_t[]){BATCH, MAX_T, Hv}, &status);
  if (status != IO_OK) return status;
  fill(&m->speculated, "state", 0, 0);
  memcpy(m->plain.data, m->speculated.data, sizeof(float) * (size_t)(BATCH * Hv * DIM * DIM));
  if (kda) fill(&m->A_log, "A_log", 0, 0);
  if (kda) fill(&m->dt_bias, "dt_bias", 0, 0);
  return IO_OK;
}

/* The activations of one round, T tokens. */
static io_status round_inputs(model *m, uint64_t round, int64_t T, rd_activations *act) {
  const rd_problem *p = &m->problem;
  io_status status = IO_OK;
  *act = (rd_activations){.struct_size = sizeof *act, .A_log = m->A_log, .dt_bias = m->dt_bias};
  int per_head = p->gate_axis == RD_PER_HEAD;
  act->q = buffer(m, "q", p->qkv_dtype, 4, (int64_t[]){BATCH, T, p->Hk, DIM}, &status);
  act->k = buffer(m, "key", p->qkv_dtype, 4, (int64_t[]){BATCH, T, p->Hk, DIM}, &status);
  act->v = buffer(m, "v", p->qkv_dtype, 4, (int64_t[]){BATCH, T, p->Hv, DIM}, &status);
  act->g =
      buffer(m, "g", p->gate_dtype, per_head ? 3 : 4, (int64_t[]){BATCH, T, p->Hv, DIM}, &status);
  act->beta = buffer(m, "beta", p->beta_dtype, 3, (int64_t[]){BATCH, T, p->Hv}, &status);
  act->out = buffer(m, "out", RD_F32, 4, (int64_t[]){BATCH, T, p->Hv, DIM}, &status);
  if (status != IO_OK) return status;
  fill(&act->q, "q", round, 0);
  fill(&act->k, "key", round, 0);
  fill(&act->v, "v", round, 0);
  fill(&act->g, "g", round, per_head);
  fill(&act->beta, "beta", round, 0);
  for (int64_t i = 0; p->beta == RD_BETA_VALUE && i < BATCH * T * p->Hv; i++) {
    io_set(act->beta.data, act->beta.dtype, i,
           1 / (1 + exp(-io_get(act->beta.data, act->beta.dtype, i))));
  }
  return IO_OK;
}

/* Token t of a [B,T,...] view, as [B,1,...]. */
static rd_tensor token(const rd_tensor *t, int64_t at) {
  rd_tensor one = *t;
  one.data = (char *)t->data + (size_t)(at * t->stride[1]) * rd_dtype_size(t->dtype);
  one.shape[1] = 1;
  return one;
}

/* The accepted tokens, one decode each, on the plain pool; compares each output row. */
static rd_status decode_plainly(model *m, rd_context *ctx, const rd_activations *act,
                                const int32_t *accepted, int64_t T) {
  static float out[BATCH * 4 * DIM];
  size_t row = sizeof(float) * (size_t)(m->problem.Hv * DIM);
  rd_slots pool = {.struct_size = sizeof(rd_slots), .pool = m->plain};
  for (int64_t t = 0; t < T; t++) {
    int32_t now[BATCH];
    rd_sequences seq = {.struct_size = sizeof seq, .batch = BATCH};
    for (int b = 0; b < BATCH; b++) now[b] = t < accepted[b];
    seq.lengths = rd_tensor_contiguous(now, RD_I32, 1, (int64_t[]){BATCH});
    rd_activations one = *act;
    one.q = token(&act->q, t);
    one.k = token(&act->k, t);
    one.v = token(&act->v, t);
    one.g = token(&act->g, t);
    one.beta = token(&act->beta, t);
    one.out = rd_tensor_contiguous(out, RD_F32, 4, (int64_t[]){BATCH, 1, m->problem.Hv, DIM});
    rd_status status = rd_decode(ctx, m->plan, &seq, &one, &pool, NULL, NULL);
    if (status != RD_OK) return status;
    for (int b = 0; b < BATCH; b++) {
      const char *verified = (const char *)act->out.data + (size_t)(b * T + t) * row;
      if (now[b]) m->outputs_differ += memcmp((char *)out + (size_t)b * row, verified, row) != 0;
    }
  }
  return RD_OK;
}

static rd_status one_round(model *m, rd_context *ctx, uint64_t round) {
  rng r = rng_stream(DEMO_SEED, m->name);
  int64_t T = 1 + rng_below(r, round * 4, MAX_T);
  rd_activations act;
  if (round_inputs(m, round, T, &act) != IO_OK) return RD_E_NOMEM;
  rd_sequences seq = {.struct_size = sizeof seq, .batch = BATCH};
  rd_slots pool = {.struct_size = sizeof(rd_slots), .pool = m->speculated};
  rd_status status = rd_verify(ctx, m->plan, &seq, &act, &pool, &m->records);
  int32_t accepted[BATCH];
  for (int b = 0; b < BATCH; b++) {
    accepted[b] = (int32_t)rng_below(r, round * 4 + 1 + (uint64_t)b, (uint32_t)T + 1);
    m->accepted += accepted[b];
  }
  m->proposed += BATCH * T;
  rd_tensor counts = rd_tensor_contiguous(accepted, RD_I32, 1, (int64_t[]){BATCH});
  if (status == RD_OK) status = rd_commit(ctx, m->plan, &m->records, &counts, &pool);
  if (status == RD_OK) status = decode_plainly(m, ctx, &act, accepted, T);
  size_t bytes = sizeof(float) * (size_t)(BATCH * m->problem.Hv * DIM * DIM);
  m->states_differ += memcmp(m->speculated.data, m->plain.data, bytes) != 0;
  return status;
}

int demo_part3(demo *d) {
  demo_part(d, 3,
            "speculation is exact: %d rounds of verify and commit, FP32 records (seed %d)\n"
            "  T random in 1..%d, accepted counts random; against decoding one token at a time",
            ROUNDS, DEMO_SEED, MAX_T);
  int result = CLI_OK;
  for (int kda = 1; kda >= 0 && result == CLI_OK; kda--) {
    model m;
    rd_status status = model_init(&m, kda) == IO_OK ? RD_OK : RD_E_NOMEM;
    if (status == RD_OK) status = rd_plan_create(d->ctx, &m.problem, &m.plan);
    for (int i = 0; i < ROUNDS && status == RD_OK; i++) {
      cli_progress("speculation", i, ROUNDS);
      status = one_round(&m, d->ctx, (uint64_t)i);
    }
    if (status == RD_OK) {
      demo_check(d, m.outputs_differ == 0 && m.states_differ == 0,
                 kda ? "KDA B=3 H=2 K=V=128" : "GDN B=3 Hk=2 Hv=4 K=V=128",
                 "%lld of %lld tokens accepted; outputs %s, states %s", (long long)m.accepted,
                 (long long)m.proposed, m.outputs_differ ? "DIFFERENT" : "same bits",
                 m.states_differ ? "DIFFERENT" : "same bits");
    } else {
      result = cli_fail("demo", cli_status_of(status), "part 3: %s: %s", rd_status_name(status),
                        rd_last_error(d->ctx));
    }
    rd_plan_destroy(m.plan);
    io_file_free(&m.buffers);
  }
  return result;
}
