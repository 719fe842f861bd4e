/* fused_recurrent_kda_replayssm: KDA verify from a read-only checkpoint, records for the commit. */
#include "operators/common.h"

#include <string.h>

void rd_fused_recurrent_kda_replayssm_init(rd_fused_recurrent_kda_replayssm_params *p) {
  if (p == NULL) return;
  memset(p, 0, sizeof *p);
  p->struct_size = sizeof *p;
  p->lower_bound = -5.0;
  p->layout_qkv = RD_BSND;
  p->numerics = RD_EXACT;
}

typedef rd_fused_recurrent_kda_replayssm_params params;

static rd_status check_records(rd_context *ctx, const params *p, const rdo_mixed *x) {
  rd_status s = rdi_check_tensor(ctx, "replay_u", &p->replay_u, RDI_DT_F16, 4,
                                 (int64_t[]){x->B, -1, x->N, RDO_DIM}, RDI_CONTIGUOUS | RDI_OUTPUT);
  if (s != RD_OK) return s;
  const int64_t C = p->replay_u.shape[1];
  const int64_t shape[4] = {x->B, C, x->N, RDO_DIM};
  s = rdi_check_tensor(ctx, "replay_k", &p->replay_k, RDI_DT_F16, 4, shape,
                       RDI_CONTIGUOUS | RDI_OUTPUT);
  if (s == RD_OK)
    s = rdi_check_tensor(ctx, "replay_decay", &p->replay_decay, RDI_DT_F32, 4, shape,
                         RDI_CONTIGUOUS | RDI_OUTPUT);
  if (s == RD_OK && x->longest > C)
    s = rdi_fail(ctx, RD_E_CAPACITY,
                 "replay_u: capacity C = %lld is less than the longest sequence, %lld",
                 (long long)C, (long long)x->longest);
  return s;
}

static rd_status check_alias(rd_context *ctx, const params *p) {
  const rdi_alias_entry all[] = {
      RDO_OUT("out", &p->out),
      RDO_OUT("replay_u", &p->replay_u),
      RDO_OUT("replay_k", &p->replay_k),
      RDO_OUT("replay_decay", &p->replay_decay),
      RDO_IN("mixedqkv", &p->mixedqkv),
      RDO_IN("recurrent_state", &p->recurrent_state),
      RDO_IN("beta", &p->beta),
      RDO_IN("g", &p->g),
      RDO_IN("A_log", &p->A_log),
      RDO_IN("dt_bias", &p->dt_bias),
      RDO_IN("cu_seqlens", &p->cu_seqlens),
  };
  return rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0]));
}

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const params *p = call;
  float scale, lb;
  rd_status s = rdo_check_struct(ctx, p->struct_size, sizeof *p);
  if (s == RD_OK) s = rdo_check_numerics(ctx, p->numerics);
  if (s == RD_OK) s = rdo_check_block_num(ctx, p->block_num);
  if (s == RD_OK) s = rdo_check_scale(ctx, p->has_scale, p->scale, &scale);
  if (s == RD_OK) s = rdi_check_lower_bound(ctx, "lower_bound", p->lower_bound, &lb);
  if (s != RD_OK) return s;

  rdo_mixed x = {.mixedqkv = &p->mixedqkv,
                 .beta = &p->beta,
                 .g = &p->g,
                 .out = &p->out,
                 .cu_seqlens = &p->cu_seqlens,
                 .layout = p->layout_qkv};
  s = rdo_unpack_mixed(ctx, job, &x);
  if (s == RD_OK) s = rdo_kda_gate_weights(ctx, job, &p->A_log, &p->dt_bias, x.N);
  if (s == RD_OK)
    s = rdi_check_tensor(ctx, "recurrent_state", &p->recurrent_state, RDI_DT_F32, 4,
                         (int64_t[]){x.B, x.N, RDO_DIM, RDO_DIM}, RDI_CONTIGUOUS);
  if (s == RD_OK) s = check_records(ctx, p, &x);
  if (s == RD_OK) s = check_alias(ctx, p);
  if (s != RD_OK) return s;

  job->verb = RDI_VERIFY;
  job->block_num = p->block_num;
  rdo_kda_math(&job->m, x.N, x.N, scale, lb, p->numerics);
  job->initial = rdo_states(&p->recurrent_state, RD_STATE_VK, NULL, NULL);
  job->next = (rdi_recs){rdo_record(&p->replay_u), rdo_record(&p->replay_k),
                         rdo_record(&p->replay_decay), RD_PER_CHANNEL, p->replay_u.shape[1]};
  return RD_OK;
}

rd_status rd_fused_recurrent_kda_replayssm(rd_context *ctx, const params *p) {
  return rdo_call(ctx, p, prepare);
}
