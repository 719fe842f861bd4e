/* A small layer with everything switched on, whose verbs the unit tests run: B = 3 sequences, Hk =
 * 2, Hv = 4, K = 64, V = 32, up to T = 5 tokens, KDA with raw gates and logits, FP32 records. */
#ifndef RD_TEST_LAYER_H
#define RD_TEST_LAYER_H

#include "unit.h"

enum { LB = 3, LHK = 2, LHV = 4, LK = 64, LV = 32, LT = 5, LC = 7, LSTATE = LHV * LV * LK };

typedef struct layer {
  rd_problem problem;
  rd_activations act;
  rd_sequences seq;
  rd_slots state;
  rd_records records;
  rd_tensor accepted;
  float q[LB * LT * LHK * LK], k[LB * LT * LHK * LK], v[LB * LT * LHV * LV], g[LB * LT * LHV * LK];
  float beta[LB * LT * LHV], A_log[LHV], dt_bias[LHV * LK], out[LB * LT * LHV * LV];
  float pool[LB * LSTATE];
  float u[LB * LC * LHV * LV], rk[LB * LC * LHK * LK], decay[LB * LC * LHV * LK];
  int32_t lengths[LB], made[LB], accept[LB];
} layer;

#define LAYER_TENSOR(p, ...)                                                                       \
  rd_tensor_contiguous(p, RD_F32, (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),   \
                       (int64_t[]){__VA_ARGS__})

static inline void layer_init(layer *l, uint64_t seed) {
  memset(l, 0, sizeof *l);
  rd_problem_init(&l->problem);
  l->problem.gate = RD_GATE_LOWER_BOUND;
  l->problem.beta = RD_BETA_LOGIT;
  l->problem.qk_norm = RD_QK_L2;
  l->problem.Hk = LHK, l->problem.Hv = LHV, l->problem.K = LK, l->problem.V = LV;
  l->problem.max_batch = LB, l->problem.max_tokens = LT;
  float *const random[] = {l->q, l->k, l->v, l->g, l->beta, l->A_log, l->dt_bias, l->pool};
  const size_t counts[] = {LB * LT * LHK * LK, LB * LT * LHK * LK, LB * LT * LHV * LV,
                           LB * LT * LHV * LK, LB * LT * LHV,      LHV,
                           LHV * LK,           LB * LSTATE};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    fill_random(random[i], counts[i], seed + i);
  l->act.struct_size = sizeof l->act;
  l->act.q = LAYER_TENSOR(l->q, LB, LT, LHK, LK);
  l->act.k = LAYER_TENSOR(l->k, LB, LT, LHK, LK);
  l->act.v = LAYER_TENSOR(l->v, LB, LT, LHV, LV);
  l->act.g = LAYER_TENSOR(l->g, LB, LT, LHV, LK);
  l->act.beta = LAYER_TENSOR(l->beta, LB, LT, LHV);
  l->act.A_log = LAYER_TENSOR(l->A_log, LHV);
  l->act.dt_bias = LAYER_TENSOR(l->dt_bias, LHV, LK);
  l->act.out = LAYER_TENSOR(l->out, LB, LT, LHV, LV);
  l->seq.struct_size = sizeof l->seq;
  l->seq.batch = LB;
  for (int b = 0; b < LB; b++) l->lengths[b] = LT - b, l->accept[b] = LT - b - 1;
  l->seq.lengths = rd_tensor_contiguous(l->lengths, RD_I32, 1, (int64_t[]){LB});
  l->accepted = rd_tensor_contiguous(l->accept, RD_I32, 1, (int64_t[]){LB});
  l->state.struct_size = sizeof l->state;
  l->state.pool = LAYER_TENSOR(l->pool, LB, LHV, LV, LK);
  l->records.struct_size = sizeof l->records;
  l->records.u = LAYER_TENSOR(l->u, LB, LC, LHV, LV);
  l->records.k = LAYER_TENSOR(l->rk, LB, LC, LHK, LK);
  l->records.decay = LAYER_TENSOR(l->decay, LB, LC, LHV, LK);
  l->records.lengths = l->made;
}

/* A verify, its commit, and a decode: their status, the first that fails. */
static inline rd_status layer_step(rd_context *ctx, const rd_plan *plan, layer *l) {
  rd_status status = rd_verify(ctx, plan, &l->seq, &l->act, &l->state, &l->records);
  if (status == RD_OK) status = rd_commit(ctx, plan, &l->records, &l->accepted, &l->state);
  if (status == RD_OK) status = rd_decode(ctx, plan, &l->seq, &l->act, &l->state, NULL, NULL);
  return status;
}

#endif
