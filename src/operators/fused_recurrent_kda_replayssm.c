/* fused_recurrent_kda_replayssm: KDA verify from a read-only checkpoint, records for the commit. */
#include "operators/common.h"

void rd_fused_recurrent_kda_replayssm_init_sized(rd_fused_recurrent_kda_replayssm_params *p,
                                                 size_t struct_size) {
  static const rd_fused_recurrent_kda_replayssm_params defaults = {
      .lower_bound = -5.0, .layout_qkv = RD_BSND, .numerics = RD_EXACT};
  rdi_struct_init(p, struct_size, &defaults, sizeof defaults);
}

typedef rd_fused_recurrent_kda_replayssm_params params;

static rd_status check_records(rd_context *ctx, const params *p, const rdo_mixed *x) {
  RDI_TRY(rdi_check_tensor(ctx, "replay_u", &p->replay_u, RDI_DT_F16, 4,
                           (int64_t[]){x->B, -1, x->N, RDO_DIM}, RDI_CONTIGUOUS | RDI_OUTPUT));
  const int64_t C = p->replay_u.shape[1];
  const int64_t shape[4] = {x->B, C, x->N, RDO_DIM};
  RDI_TRY(rdi_check_tensor(ctx, "replay_k", &p->replay_k, RDI_DT_F16, 4, shape,
                           RDI_CONTIGUOUS | RDI_OUTPUT));
  RDI_TRY(rdi_check_tensor(ctx, "replay_decay", &p->replay_decay, RDI_DT_F32, 4, shape,
                           RDI_CONTIGUOUS | RDI_OUTPUT));
  if (x->longest > C)
    return rdi_fail(ctx, RD_E_CAPACITY,
                    "replay_u: capacity C = %lld is less than the longest sequence, %lld",
                    (long long)C, (long long)x->longest);
  return RD_OK;
}

static rd_status check_alias(rd_context *ctx, const params *p) {
  const rdi_alias_entry all[] = {
      RDO_OUT("out", &p->out),
      RDO_OUT("replay_u", &p->replay_u),
      RDO_OUT("replay_k", &p->replay_k),
      RDO_OUT("replay_decay", &p->replay_decay),
      RDO_MIXED_INPUTS(p),
      RDO_IN("recurrent_state", &p->recurrent_state),
  };
  return rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0]));
}

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const params *p = call;
  float scale, lb;
  RDI_TRY(rdo_check_numerics(ctx, p->numerics));
  RDI_TRY(rdo_check_block_num(ctx, p->block_num));
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
  RDI_TRY(rdi_check_tensor(ctx, "recurrent_state", &p->recurrent_state, RDI_DT_F32, 4,
                           (int64_t[]){x.B, x.N, RDO_DIM, RDO_DIM}, RDI_CONTIGUOUS));
  RDI_TRY(check_records(ctx, p, &x));
  RDI_TRY(check_alias(ctx, p));

  job->verb = RDI_VERIFY;
  job->block_num = p->block_num;
  rdo_kda_math(&job->m, x.N, x.N, scale, lb, p->numerics);
  job->initial = rdo_states(&p->recurrent_state, RD_STATE_VK, NULL, NULL);
  job->next = (rdi_recs){.u = rdi_view_of(&p->replay_u, 0, 1, 2),
                         .k = rdi_view_of(&p->replay_k, 0, 1, 2),
                         .decay = rdi_view_of(&p->replay_decay, 0, 1, 2),
                         .decay_axis = RD_PER_CHANNEL,
                         .C = p->replay_u.shape[1]};
  return RD_OK;
}

rd_status rd_fused_recurrent_kda_replayssm(rd_context *ctx, const params *p) {
  rd_fused_recurrent_kda_replayssm_params local;
  return rdo_call(ctx, RDI_STRUCT_FUSED_RECURRENT_KDA_REPLAYSSM, p, &local, prepare);
}
