/* commit_recurrent_kda_replayssm: applies the accepted prefix of the records to the checkpoint. */
#include "operators/common.h"

void rd_commit_recurrent_kda_replayssm_init_sized(rd_commit_recurrent_kda_replayssm_params *p,
                                                  size_t struct_size) {
  static const rd_commit_recurrent_kda_replayssm_params defaults = {0};
  rdi_struct_init(p, struct_size, &defaults, sizeof defaults);
}

typedef rd_commit_recurrent_kda_replayssm_params params;

static rd_status prepare(rd_context *ctx, const void *call, rdi_job *job) {
  const params *p = call;
  RDI_TRY(rdo_check_block_num(ctx, p->block_num));
  RDI_TRY(rdi_check_tensor(ctx, "recurrent_state", &p->recurrent_state, RDI_DT_F32, 4,
                           (int64_t[]){-1, -1, RDO_DIM, RDO_DIM}, RDI_CONTIGUOUS | RDI_OUTPUT));
  const int64_t B = p->recurrent_state.shape[0], N = p->recurrent_state.shape[1];
  if (B < 1)
    return rdi_fail(ctx, RD_E_SHAPE, "recurrent_state: expected B > 0, got %lld", (long long)B);
  if (N < 1 || N > RDO_MAX_HEADS)
    return rdi_fail(ctx, RD_E_HEADS, "recurrent_state: expected 1 to %d heads, got %lld",
                    RDO_MAX_HEADS, (long long)N);
  RDI_TRY(rdi_check_tensor(ctx, "replay_u", &p->replay_u, RDI_DT_F16, 4,
                           (int64_t[]){B, -1, N, RDO_DIM}, RDI_CONTIGUOUS));
  const int64_t C = p->replay_u.shape[1], shape[4] = {B, C, N, RDO_DIM};
  RDI_TRY(rdi_check_tensor(ctx, "replay_k", &p->replay_k, RDI_DT_F16, 4, shape, RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_tensor(ctx, "replay_decay", &p->replay_decay, RDI_DT_F32, 4, shape,
                           RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_tensor(ctx, "num_accepted_tokens", &p->num_accepted_tokens, RDI_DT_I32, 1,
                           (int64_t[]){B}, RDI_CONTIGUOUS));
  RDI_TRY(
      rdi_check_range(ctx, "num_accepted_tokens", &p->num_accepted_tokens, 0, C, RD_E_ACCEPTED));
  const rdi_alias_entry all[] = {
      RDO_OUT("recurrent_state", &p->recurrent_state),
      RDO_IN("replay_u", &p->replay_u),
      RDO_IN("replay_k", &p->replay_k),
      RDO_IN("replay_decay", &p->replay_decay),
      RDO_IN("num_accepted_tokens", &p->num_accepted_tokens),
  };
  RDI_TRY(rdi_check_alias(ctx, all, (int)(sizeof all / sizeof all[0])));

  job->verb = RDI_COMMIT;
  job->block_num = p->block_num;
  rdo_kda_math(&job->m, N, N, 1.0f, 0.0f, RD_EXACT);
  job->seq = (rdi_seqs){.B = B};
  job->initial = job->final = rdo_states(&p->recurrent_state, RD_STATE_VK, NULL, NULL);
  job->prev = (rdi_recs){.u = rdi_view_of(&p->replay_u, 0, 1, 2),
                         .k = rdi_view_of(&p->replay_k, 0, 1, 2),
                         .decay = rdi_view_of(&p->replay_decay, 0, 1, 2),
                         .decay_axis = RD_PER_CHANNEL,
                         .C = C};
  job->accepted = p->num_accepted_tokens.data;
  return RD_OK;
}

rd_status rd_commit_recurrent_kda_replayssm(rd_context *ctx, const params *p) {
  rd_commit_recurrent_kda_replayssm_params local;
  return rdo_call(ctx, RDI_STRUCT_COMMIT_RECURRENT_KDA_REPLAYSSM, p, &local, prepare);
}
