/* flash_kda: Kimi Delta Attention prefill over whole sequences. */
#include "operators/flash_kda.h"

void rd_flash_kda_init_sized(rd_flash_kda_params *p, size_t struct_size) {
  static const rd_flash_kda_params defaults = {
      .lower_bound = -5.0, .layout_qkv = RD_BNSD, .numerics = RD_EXACT};
  rdi_struct_init(p, struct_size, &defaults, sizeof defaults);
}

static rd_status check_tensors(rd_context *ctx, const rd_flash_kda_params *p, rdo_flash *f,
                               rdi_job *job) {
  RDI_TRY(rdo_flash_sizes(ctx, f, p->layout_qkv, &p->q, &p->v, &p->initial_state, 1));
  const int rank = f->b < 0 ? 3 : 4;
  RDI_TRY(rdi_check_tensor(ctx, "k", &p->k, RDI_DT_BF16, rank, p->q.shape, RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_tensor(ctx, "g", &p->g, RDI_DT_BF16, rank, p->v.shape, RDI_CONTIGUOUS));
  RDI_TRY(
      rdi_check_tensor(ctx, "beta", &p->beta, RDI_DT_BF16, rank - 1, p->v.shape, RDI_CONTIGUOUS));
  RDI_TRY(rdo_kda_gate_weights(ctx, job, &p->A_log, &p->dt_bias, f->Hv));
  RDI_TRY(rdi_check_tensor(ctx, "out", &p->out, RDI_DT_BF16, rank, p->v.shape,
                           RDI_CONTIGUOUS | RDI_OUTPUT));
  RDI_TRY(rdi_check_tensor(ctx, "final_state", &p->final_state, RDI_DT_F32, 4,
                           p->initial_state.shape, RDI_CONTIGUOUS | RDI_OUTPUT));
  job->q = rdi_view_of(&p->q, f->b, f->t, f->h);
  job->k = rdi_view_of(&p->k, f->b, f->t, f->h);
  job->v = rdi_view_of(&p->v, f->b, f->t, f->h);
  job->g = rdi_view_of(&p->g, f->b, f->t, f->h);
  job->beta = rdi_view_of(&p->beta, f->b, f->t, f->h);
  job->out = rdi_view_of(&p->out, f->b, f->t, f->h);
  job->initial = rdo_states(&p->initial_state, RD_STATE_VK, NULL, NULL);
  job->final = rdo_states(&p->final_state, RD_STATE_VK, NULL, NULL);
  return RD_OK;
}

static rd_status check_alias(rd_context *ctx, const rd_flash_kda_params *p) {
  const rdi_alias_entry all[] = {
      RDO_OUT("out", &p->out),
      RDO_OUT_MAY_BE("final_state", &p->final_state, &p->initial_state),
      RDO_IN("q", &p->q),
      RDO_IN("k", &p->k),
      RDO_IN("v", &p->v),
      RDO_GATE_INPUTS(p),
      RDO_IN("initial_state", &p->initial_state),
      RDO_IN("metadata", &p->metadata),
  };
  return rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0]));
}

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const rd_flash_kda_params *p = call;
  float scale, lb;
  RDI_TRY(rdo_check_numerics(ctx, p->numerics));
  RDI_TRY(rdo_check_scale(ctx, p->has_scale, p->scale, &scale));
  RDI_TRY(rdi_check_lower_bound(ctx, "lower_bound", p->lower_bound, &lb));
  rdo_flash f;
  const int32_t *numbers;
  RDI_TRY(check_tensors(ctx, p, &f, job));
  RDI_TRY(rdo_flash_schedule(ctx, &f, &p->metadata, &numbers));
  RDI_TRY(check_alias(ctx, p));
  job->verb = RDI_PREFILL;
  rdo_kda_math(&job->m, f.Hk, f.Hv, scale, lb, p->numerics);
  job->seq = (rdi_seqs){.B = f.B, .T = f.S};
  if (f.layout == RD_TND)
    job->seq.cu = numbers;
  else
    job->seq.lengths = numbers;
  return RD_OK;
}

rd_status rd_flash_kda(rd_context *ctx, const rd_flash_kda_params *p) {
  rd_flash_kda_params local;
  return rdo_call(ctx, RDI_STRUCT_FLASH_KDA, p, &local, prepare);
}
