/* chunk_gated_delta_rule: Gated DeltaNet prefill, KV states, grouped heads. */
#include "operators/common.h"

void rd_chunk_gated_delta_rule_init_sized(rd_chunk_gated_delta_rule_params *p, size_t struct_size) {
  static const rd_chunk_gated_delta_rule_params defaults = {.scale_value = 1.0,
                                                            .numerics = RD_EXACT};
  rdi_struct_init(p, struct_size, &defaults, sizeof defaults);
}

typedef rd_chunk_gated_delta_rule_params params;

static rd_status check_dim(rd_context *ctx, const char *name, const char *what, int64_t n) {
  if (n >= 1 && n <= RDI_MAX_DIM) return RD_OK;
  return rdi_fail(ctx, RD_E_SHAPE, "%s: expected %s from 1 to %d, got %lld", name, what,
                  RDI_MAX_DIM, (long long)n);
}

/* q, k, v, beta, g, out; sets the views and the sizes. */
static rd_status check_activations(rd_context *ctx, const params *p, rdi_job *job) {
  RDI_TRY(
      rdi_check_tensor(ctx, "query", &p->query, RDI_DT_FLOAT, 4, (int64_t[]){-1, -1, -1, -1}, 0));
  const int type = 1 << p->query.dtype;
  const int64_t B = p->query.shape[0], Hk = p->query.shape[1], T = p->query.shape[2],
                K = p->query.shape[3];
  RDI_TRY(rdi_check_tensor(ctx, "key", &p->key, type, 4, p->query.shape, 0));
  RDI_TRY(rdi_check_tensor(ctx, "value", &p->value, type, 4, (int64_t[]){B, -1, T, -1}, 0));
  const int64_t Hv = p->value.shape[1], V = p->value.shape[3];
  RDI_TRY(rdi_check_heads(ctx, "query", Hk, "value", Hv));
  RDI_TRY(check_dim(ctx, "query", "K", K));
  RDI_TRY(check_dim(ctx, "value", "V", V));
  RDI_TRY(rdi_check_tensor(ctx, "beta", &p->beta, type, 3, (int64_t[]){B, Hv, T}, 0));
  RDI_TRY(rdi_check_tensor(ctx, "g", &p->g, RDI_DT_F32, 3, (int64_t[]){B, Hv, T}, RDI_OPTIONAL));
  RDI_TRY(rdi_check_tensor(ctx, "out", &p->out, type, 4, (int64_t[]){B, Hv, T, V}, RDI_OUTPUT));
  job->m.Hk = Hk, job->m.Hv = Hv, job->m.K = K, job->m.V = V;
  job->m.Kp = (K + 15) / 16 * 16;
  job->seq = (rdi_seqs){.B = B, .T = T};
  job->q = rdi_view_of(&p->query, 0, 2, 1);
  job->k = rdi_view_of(&p->key, 0, 2, 1);
  job->v = rdi_view_of(&p->value, 0, 2, 1);
  job->beta = rdi_view_of(&p->beta, 0, 2, 1);
  job->out = rdi_view_of(&p->out, 0, 2, 1);
  if (p->g.dtype != RD_ABSENT) job->g = rdi_view_of(&p->g, 0, 2, 1);
  return RD_OK;
}

static rd_status check_states(rd_context *ctx, const params *p, rdi_job *job) {
  const int64_t shape[4] = {job->seq.B, job->m.Hv, job->m.K, job->m.V};
  const int type = (1 << p->query.dtype) | RDI_DT_F32;
  RDI_TRY(rdi_check_tensor(ctx, "state", &p->state, type, 4, shape, 0));
  RDI_TRY(rdi_check_tensor(ctx, "final_state", &p->final_state, 1 << p->state.dtype, 4, shape,
                           RDI_OUTPUT));
  RDI_TRY(rdi_check_tensor(ctx, "actual_seq_lengths", &p->actual_seq_lengths, RDI_DT_I32, 1,
                           (int64_t[]){job->seq.B}, RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_range(ctx, "actual_seq_lengths", &p->actual_seq_lengths, 0, job->seq.T,
                          RD_E_LENGTH));
  job->seq.lengths = p->actual_seq_lengths.data;
  job->initial = rdo_states(&p->state, RD_STATE_KV, NULL, NULL);
  job->final = rdo_states(&p->final_state, RD_STATE_KV, NULL, NULL);
  return RD_OK;
}

static rd_status check_alias(rd_context *ctx, const params *p) {
  const rdi_alias_entry all[] = {
      RDO_OUT("out", &p->out),    RDO_OUT_MAY_BE("final_state", &p->final_state, &p->state),
      RDO_IN("query", &p->query), RDO_IN("key", &p->key),
      RDO_IN("value", &p->value), RDO_IN("beta", &p->beta),
      RDO_IN("state", &p->state), RDO_IN("actual_seq_lengths", &p->actual_seq_lengths),
      RDO_IN("g", &p->g),
  };
  return rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0]));
}

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const params *p = call;
  RDI_TRY(rdo_check_numerics(ctx, p->numerics));
  RDI_TRY(rdi_check_scale(ctx, "scale_value", 0, p->scale_value, 1, &job->m.scale));
  RDI_TRY(check_activations(ctx, p, job));
  RDI_TRY(check_states(ctx, p, job));
  RDI_TRY(check_alias(ctx, p));
  job->verb = RDI_PREFILL;
  job->m.gate = p->g.dtype == RD_ABSENT ? RD_GATE_NONE : RD_GATE_LOG;
  job->m.axis = RD_PER_HEAD;
  job->m.beta_kind = RD_BETA_VALUE;
  job->m.beta_times = 1.0f;
  job->m.head_map = RD_HEADS_GROUPED;
  job->m.numerics = p->numerics;
  job->m.pad_slot = -1;
  return RD_OK;
}

rd_status rd_chunk_gated_delta_rule(rd_context *ctx, const params *p) {
  rd_chunk_gated_delta_rule_params local;
  return rdo_call(ctx, RDI_STRUCT_CHUNK_GATED_DELTA_RULE, p, &local, prepare);
}
