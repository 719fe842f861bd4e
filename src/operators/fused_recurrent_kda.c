/* fused_recurrent_kda: KDA decode; the state after every token goes to a slot of its own. */
#include "operators/common.h"

void rd_fused_recurrent_kda_init_sized(rd_fused_recurrent_kda_params *p, size_t struct_size) {
  static const rd_fused_recurrent_kda_params defaults = {.lower_bound = -5.0,
                                                         .layout_qkv = RD_BSND};
  rdi_struct_init(p, struct_size, &defaults, sizeof defaults);
}

typedef rd_fused_recurrent_kda_params params;

static rd_status check_state(rd_context *ctx, const params *p, const rdo_mixed *x) {
  RDI_TRY(rdi_check_tensor(ctx, "state", &p->state, RDI_DT_F32 | RDI_DT_BF16, 4,
                           (int64_t[]){-1, x->N, RDO_DIM, RDO_DIM}, RDI_CONTIGUOUS | RDI_OUTPUT));
  if (p->state.shape[0] < x->tokens)
    return rdi_fail(ctx, RD_E_SHAPE, "state: expected at least one slot per token (%lld), got %lld",
                    (long long)x->tokens, (long long)p->state.shape[0]);
  return RD_OK;
}

/* Each accepted count lies in [0, length of its sequence]. */
static rd_status check_accepted(rd_context *ctx, const params *p, const rdi_seqs *seq) {
  const rd_tensor *t = &p->num_accepted_tokens;
  RDI_TRY(rdi_check_tensor(ctx, "num_accepted_tokens", t, RDI_DT_I32, 1, (int64_t[]){seq->B},
                           RDI_CONTIGUOUS | RDI_OPTIONAL));
  if (t->dtype == RD_ABSENT) return RD_OK;
  const int32_t *n = t->data;
  for (int64_t b = 0; b < seq->B; b++)
    if (n[b] < 0 || n[b] > rdi_seq_length(seq, b))
      return rdi_fail(ctx, RD_E_ACCEPTED,
                      "num_accepted_tokens: entry %lld is %d, expected 0 to %lld", (long long)b,
                      (int)n[b], (long long)rdi_seq_length(seq, b));
  return RD_OK;
}

/* The slot a sequence starts from: that of its last accepted token, else of its first. */
static rd_status initial_slots(rd_context *ctx, const params *p, const rdi_job *job,
                               int32_t *first) {
  const int32_t *slot = p->ssm_state_indices.data, *n = p->num_accepted_tokens.data;
  for (int64_t b = 0; b < job->seq.B; b++) {
    const int64_t start = job->seq.cu != NULL ? rdi_seq_start(&job->seq, b) : b * job->seq.T;
    const int64_t token = start + (n != NULL && n[b] > 1 ? n[b] - 1 : 0);
    if (slot == NULL && token > INT32_MAX)
      return rdi_fail(ctx, RD_E_OVERFLOW, "ssm_state_indices: default slot %lld does not fit int32",
                      (long long)token);
    first[b] = slot != NULL ? slot[token] : (int32_t)token;
  }
  return RD_OK;
}

static rd_status check_alias(rd_context *ctx, const params *p) {
  const rdi_alias_entry all[] = {
      RDO_OUT("out", &p->out),
      RDO_OUT("state", &p->state),
      RDO_MIXED_INPUTS(p),
      RDO_IN("ssm_state_indices", &p->ssm_state_indices),
      RDO_IN("num_accepted_tokens", &p->num_accepted_tokens),
  };
  return rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0]));
}

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const params *p = call;
  float scale, lb;
  RDI_TRY(rdo_check_scale(ctx, p->has_scale, p->scale, &scale));
  RDI_TRY(rdi_check_lower_bound(ctx, "lower_bound", p->lower_bound, &lb));
  rdo_mixed x = {.mixedqkv = &p->mixedqkv,
                 .beta = &p->beta,
                 .g = &p->g,
                 .out = &p->out,
                 .cu_seqlens = &p->cu_seqlens,
                 .layout = p->layout_qkv};
  RDI_TRY(rdo_unpack_mixed(ctx, job, &x));
  RDI_TRY(rdo_kda_gate_weights(ctx, job, &p->A_log, &p->dt_bias, x.N));
  RDI_TRY(check_state(ctx, p, &x));
  RDI_TRY(rdi_check_tensor(ctx, "ssm_state_indices", &p->ssm_state_indices, RDI_DT_I32, 1,
                           (int64_t[]){x.tokens}, RDI_CONTIGUOUS | RDI_OPTIONAL));
  RDI_TRY(check_accepted(ctx, p, &job->seq));
  RDI_TRY(check_alias(ctx, p));

  job->verb = RDI_DECODE;
  rdo_kda_math(&job->m, x.N, x.N, scale, lb, RD_EXACT);
  job->snapshots =
      rdo_states(&p->state, RD_STATE_VK, p->ssm_state_indices.data, "ssm_state_indices");
  int32_t *first = rdi_scratch_take(ctx, (size_t)x.B * sizeof *first);
  if (first == NULL) return RD_E_NOMEM;
  RDI_TRY(initial_slots(ctx, p, job, first));
  job->initial = rdo_states(&p->state, RD_STATE_VK, first, "ssm_state_indices");
  RDI_TRY(rdi_check_snapshots(ctx, "ssm_state_indices", &job->seq, &job->initial, NULL,
                              &job->snapshots, RDI_NO_PAD));
  return RD_OK;
}

rd_status rd_fused_recurrent_kda(rd_context *ctx, const params *p) {
  rd_fused_recurrent_kda_params local;
  return rdo_call(ctx, RDI_STRUCT_FUSED_RECURRENT_KDA, p, &local, prepare);
}
