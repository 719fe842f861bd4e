/* flash_kda: Kimi Delta Attention prefill over whole sequences. */
#include "operators/flash_kda.h"

#include <string.h>

void rd_flash_kda_init(rd_flash_kda_params *p) {
  if (p == NULL) return;
  memset(p, 0, sizeof *p);
  p->struct_size = sizeof *p;
  p->lower_bound = -5.0;
  p->layout_qkv = RD_BNSD;
  p->numerics = RD_EXACT;
}

static rd_status check_tensors(rd_context *ctx, const rd_flash_kda_params *p, rdo_flash *f,
                               rdi_job *job) {
  rd_status s = rdo_flash_sizes(ctx, f, p->layout_qkv, &p->q, &p->v, &p->initial_state, 1);
  if (s != RD_OK) return s;
  const int rank = f->b < 0 ? 3 : 4;
  s = rdi_check_tensor(ctx, "k", &p->k, RDI_DT_BF16, rank, p->q.shape, RDI_CONTIGUOUS);
  if (s == RD_OK)
    s = rdi_check_tensor(ctx, "g", &p->g, RDI_DT_BF16, rank, p->v.shape, RDI_CONTIGUOUS);
  if (s == RD_OK)
    s = rdi_check_tensor(ctx, "beta", &p->beta, RDI_DT_BF16, rank - 1, p->v.shape, RDI_CONTIGUOUS);
  if (s == RD_OK) s = rdo_kda_gate_weights(ctx, job, &p->A_log, &p->dt_bias, f->Hv);
  if (s == RD_OK)
    s = rdi_check_tensor(ctx, "out", &p->out, RDI_DT_BF16, rank, p->v.shape,
                         RDI_CONTIGUOUS | RDI_OUTPUT);
  if (s == RD_OK)
    s = rdi_check_tensor(ctx, "final_state", &p->final_state, RDI_DT_F32, 4, p->initial_state.shape,
                         RDI_CONTIGUOUS | RDI_OUTPUT);
  if (s != RD_OK) return s;
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
      RDO_IN("g", &p->g),
      RDO_IN("beta", &p->beta),
      RDO_IN("initial_state", &p->initial_state),
      RDO_IN("A_log", &p->A_log),
      RDO_IN("dt_bias", &p->dt_bias),
      RDO_IN("metadata", &p->metadata),
  };
  return rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0]));
}

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const rd_flash_kda_params *p = call;
  float scale, lb;
  rd_status s = rdo_check_struct(ctx, p->struct_size, sizeof *p);
  if (s == RD_OK) s = rdo_check_numerics(ctx, p->numerics);
  if (s == RD_OK) s = rdo_check_scale(ctx, p->has_scale, p->scale, &scale);
  if (s == RD_OK) s = rdi_check_lower_bound(ctx, "lower_bound", p->lower_bound, &lb);
  if (s != RD_OK) return s;
  rdo_flash f;
  const int32_t *numbers;
  s = check_tensors(ctx, p, &f, job);
  if (s == RD_OK) s = rdo_flash_schedule(ctx, &f, &p->metadata, &numbers);
  if (s == RD_OK) s = check_alias(ctx, p);
  if (s != RD_OK) return s;
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
  return rdo_call(ctx, p, prepare);
}
