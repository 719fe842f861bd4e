/* The named operators of operators.h as jobs of the specification. */
#include <math.h>
#include <stdlib.h>
#include "ref/job.h"

static int present(const rd_tensor *t) { return t != NULL && t->dtype != RD_ABSENT; }

static int64_t integer(const rd_tensor *t, int64_t i) {
  return (int64_t)rdr_load(t->data, t->dtype, i);
}

int rdr_chunk_gated_delta_rule(int mode, const rd_chunk_gated_delta_rule_params *p, double *out,
                               double *final_state) {
  const int64_t B = p->query.shape[0], T = p->query.shape[2], K = p->query.shape[3];
  const int64_t Hv = p->value.shape[1], V = p->value.shape[3];
  rdr_job j = {.mode = mode,
               .head_map = RD_HEADS_GROUPED,
               .Hk = p->query.shape[1],
               .Hv = Hv,
               .K = K,
               .V = V,
               .T = T,
               .padded = 1};
  j.c = (rdr_choices){.gate = present(&p->g) ? RD_GATE_LOG : RD_GATE_NONE,
                      .axis = RD_PER_HEAD,
                      .beta = RD_BETA_VALUE,
                      .beta_times = 1,
                      .scale = p->scale_value};
  if (rdr_job_alloc(&j, B) != 0) return -1;
  for (int64_t b = 0; b < B; b++) {
    j.length[b] = integer(&p->actual_seq_lengths, b * p->actual_seq_lengths.stride[0]);
    j.read_slot[b] = b;
  }
  const rd_tensor *const tensors[5] = {&p->query, &p->key, &p->value, &p->g, &p->beta};
  rdr_view *const views[5] = {&j.q, &j.k, &j.v, &j.g, &j.beta};
  for (int i = 0; i < 5; i++)
    *views[i] = (rdr_view){tensors[i]->data, tensors[i]->dtype, tensors[i]->stride[0],
                           tensors[i]->stride[2], tensors[i]->stride[1]};
  const rd_tensor *s = &p->state;
  j.initial = (rdr_pool){s->data, s->dtype, s->stride[0], s->stride[1], 1, s->stride[2]};
  j.out = (rdr_sink){out, p->query.dtype, Hv * T * V, V, T * V};
  j.state = (rdr_pool_sink){final_state, s->dtype, Hv * K * V, K * V, 1, V};
  return rdr_job_run(&j);
}

/* Strides of a contiguous activation of H heads and D numbers. */
static rdr_view view_of(const rd_tensor *t, rd_layout_qkv layout, int64_t S, int64_t H, int64_t D) {
  rdr_view v = {t->data, t->dtype, layout == RD_TND ? 0 : S * H * D, H * D, D};
  if (layout == RD_BNSD) v.st = D, v.sh = S * D;
  return v;
}

static rdr_view skip_heads(rdr_view v, int64_t heads) {
  v.data = (const char *)v.data + heads * v.sh * (v.dtype == RD_F32 ? 4 : 2);
  return v;
}

static rdr_sink sink_of(double *data, rd_dtype dtype, rd_layout_qkv layout, int64_t S, int64_t H,
                        int64_t D) {
  const rd_tensor t = {.dtype = dtype};
  const rdr_view v = view_of(&t, layout, S, H, D);
  return (rdr_sink){data, dtype, v.sb, v.st, v.sh};
}

static rdr_choices kda(int has_scale, double scale, double lower_bound, int64_t K) {
  return (rdr_choices){.gate = RD_GATE_LOWER_BOUND,
                       .axis = RD_PER_CHANNEL,
                       .beta = RD_BETA_LOGIT,
                       .beta_times = 1,
                       .l2norm = 1,
                       .eps = 1e-6,
                       .lower_bound = lower_bound,
                       .scale = has_scale ? scale : 1 / sqrt((double)K)};
}

/* Tokens of every sequence: S each, or by prefix sums (absolute starts in TND, else lengths only).
 */
static void spans(rdr_job *j, rd_layout_qkv layout, int64_t S, const rd_tensor *cu) {
  for (int64_t b = 0; b < j->B; b++) {
    j->length[b] = S, j->read_slot[b] = b;
    if (!present(cu)) continue;
    j->length[b] = integer(cu, b + 1) - integer(cu, b);
    if (layout == RD_TND) j->start[b] = integer(cu, b);
  }
}

/* The two operators on packed qkv share everything but where states and records go. */
static int packed(rdr_job *j, const rd_tensor *qkv, const rd_tensor *beta, const rd_tensor *g,
                  rd_layout_qkv layout, const rd_tensor *cu, int64_t *S) {
  const int64_t N = g->shape[layout == RD_BNSD ? 1 : layout == RD_BSND ? 2 : 1];
  const int64_t D = g->shape[g->rank - 1];
  *S = g->shape[layout == RD_BNSD ? 2 : layout == RD_BSND ? 1 : 0];
  j->Hk = j->Hv = N, j->K = j->V = D, j->T = *S, j->padded = layout != RD_TND;
  j->head_map = RD_HEADS_GROUPED;
  if (rdr_job_alloc(j, layout == RD_TND ? cu->shape[0] - 1 : g->shape[0]) != 0) return -1;
  spans(j, layout, *S, layout == RD_TND ? cu : NULL);
  j->q = view_of(qkv, layout, *S, 3 * N, D);
  j->k = skip_heads(j->q, N), j->v = skip_heads(j->q, 2 * N);
  j->g = view_of(g, layout, *S, N, D), j->beta = view_of(beta, layout, *S, N, 1);
  return 0;
}

static rdr_pool pool_of(const rd_tensor *t, int64_t H, int64_t V, int64_t K) {
  return (rdr_pool){t->data, t->dtype, H * V * K, V * K, K, 1};
}

static rdr_pool_sink pool_sink(double *data, rd_dtype dtype, int64_t H, int64_t V, int64_t K) {
  return (rdr_pool_sink){data, dtype, H * V * K, V * K, K, 1};
}

int rdr_fused_recurrent_kda_replayssm(int mode, const rd_fused_recurrent_kda_replayssm_params *p,
                                      double *out, double *replay_u, double *replay_k,
                                      double *replay_decay) {
  rdr_job j = {.mode = mode};
  int64_t S;
  if (packed(&j, &p->mixedqkv, &p->beta, &p->g, p->layout_qkv, &p->cu_seqlens, &S) != 0) return -1;
  j.c = kda(p->has_scale, p->scale, p->lower_bound, j.K);
  j.A_log = &p->A_log, j.dt_bias = &p->dt_bias;
  j.initial = pool_of(&p->recurrent_state, j.Hv, j.V, j.K);
  j.out = sink_of(out, RD_BF16, p->layout_qkv, S, j.Hv, j.V);
  const int64_t st = j.Hv * j.K, sb = p->replay_u.shape[1] * st;
  j.u = (rdr_sink){replay_u, RD_F16, sb, st, j.K};
  j.kr = (rdr_sink){replay_k, RD_F16, sb, st, j.K};
  j.decay = (rdr_sink){replay_decay, RD_F32, sb, st, j.K};
  return rdr_job_run(&j);
}

int rdr_commit_recurrent_kda_replayssm(int mode, const rd_commit_recurrent_kda_replayssm_params *p,
                                       double *recurrent_state) {
  const int64_t *n = p->recurrent_state.shape, st = n[1] * n[3], sb = p->replay_u.shape[1] * st;
  rdr_job j = {.mode = mode,
               .records = 1,
               .head_map = RD_HEADS_GROUPED,
               .Hk = n[1],
               .Hv = n[1],
               .V = n[2],
               .K = n[3],
               .c = {.axis = RD_PER_CHANNEL}};
  if (rdr_job_alloc(&j, n[0]) != 0) return -1;
  for (int64_t b = 0; b < j.B; b++)
    j.length[b] = integer(&p->num_accepted_tokens, b), j.read_slot[b] = b;
  j.initial = pool_of(&p->recurrent_state, j.Hv, j.V, j.K);
  j.ru = (rdr_view){p->replay_u.data, p->replay_u.dtype, sb, st, j.V};
  j.rk = (rdr_view){p->replay_k.data, p->replay_k.dtype, sb, st, j.K};
  j.rdecay = (rdr_view){p->replay_decay.data, p->replay_decay.dtype, sb, st, j.K};
  j.state = pool_sink(recurrent_state, RD_F32, j.Hv, j.V, j.K);
  return rdr_job_run(&j);
}

int rdr_flash_kda(int mode, const rd_flash_kda_params *p, const rd_tensor *cu_seqlens, double *out,
                  double *final_state) {
  const rd_layout_qkv layout = p->layout_qkv;
  const int head = layout == RD_BSND ? 2 : 1, token = layout == RD_BNSD ? 2 : layout == RD_BSND;
  const int64_t S = p->v.shape[token], K = p->q.shape[p->q.rank - 1];
  rdr_job j = {.mode = mode,
               .head_map = RD_HEADS_GROUPED,
               .Hk = p->q.shape[head],
               .Hv = p->v.shape[head],
               .K = K,
               .V = p->v.shape[p->v.rank - 1],
               .T = S,
               .padded = layout != RD_TND,
               .c = kda(p->has_scale, p->scale, p->lower_bound, K),
               .A_log = &p->A_log,
               .dt_bias = &p->dt_bias};
  if (rdr_job_alloc(&j, p->initial_state.shape[0]) != 0) return -1;
  spans(&j, layout, S, cu_seqlens);
  j.q = view_of(&p->q, layout, S, j.Hk, K), j.k = view_of(&p->k, layout, S, j.Hk, K);
  j.v = view_of(&p->v, layout, S, j.Hv, j.V), j.g = view_of(&p->g, layout, S, j.Hv, K);
  j.beta = view_of(&p->beta, layout, S, j.Hv, 1);
  j.initial = pool_of(&p->initial_state, j.Hv, j.V, K);
  j.out = sink_of(out, RD_BF16, layout, S, j.Hv, j.V);
  j.state = pool_sink(final_state, RD_F32, j.Hv, j.V, K);
  return rdr_job_run(&j);
}

int rdr_fused_recurrent_kda(int mode, const rd_fused_recurrent_kda_params *p, double *state,
                            double *out) {
  rdr_job j = {.mode = mode};
  int64_t S;
  if (packed(&j, &p->mixedqkv, &p->beta, &p->g, p->layout_qkv, &p->cu_seqlens, &S) != 0) return -1;
  const int64_t rows = j.padded ? j.B * S : S;
  int64_t *slot = malloc((size_t)rows * sizeof *slot + 1);
  if (slot == NULL) {
    rdr_job_free(&j);
    return -1;
  }
  for (int64_t i = 0; i < rows; i++)
    slot[i] = present(&p->ssm_state_indices) ? integer(&p->ssm_state_indices, i) : i;
  for (int64_t b = 0; b < j.B; b++) {
    const int64_t n = present(&p->num_accepted_tokens) ? integer(&p->num_accepted_tokens, b) : 1;
    j.read_slot[b] = slot[(j.padded ? b * S : j.start[b]) + (n > 1 ? n : 1) - 1];
  }
  j.c = kda(p->has_scale, p->scale, p->lower_bound, j.K);
  j.A_log = &p->A_log, j.dt_bias = &p->dt_bias;
  j.initial = pool_of(&p->state, j.Hv, j.V, j.K);
  j.out = sink_of(out, RD_BF16, p->layout_qkv, S, j.Hv, j.V);
  if (state != NULL) rdr_dense(&p->state, state); /* slots that no token writes keep their state */
  j.snapshots = pool_sink(state, p->state.dtype, j.Hv, j.V, j.K);
  j.snapshot_slot = slot;
  const int status = rdr_job_run(&j);
  free(slot);
  return status;
}
