#include "operators/common.h"

#include <string.h>

#include "core/run.h"

rd_layout_qkv rd_layout_qkv_parse(const char *name) {
  if (name == NULL) return (rd_layout_qkv)0;
  if (strcmp(name, "BSND") == 0) return RD_BSND;
  if (strcmp(name, "BNSD") == 0) return RD_BNSD;
  if (strcmp(name, "TND") == 0) return RD_TND;
  return (rd_layout_qkv)0;
}

rd_status rdo_call(rd_context *ctx, rdi_struct kind, const void *params, void *local,
                   rdo_prepare *prepare) {
  rd_status s = rdi_enter(ctx);
  if (s != RD_OK) return s;
  rdi_job job = {0};
  s = rdi_check_struct(ctx, kind, "params", params, local);
  if (s == RD_OK) s = prepare(ctx, local, &job);
  if (s == RD_OK) s = rdi_run(ctx, &job);
  return rdi_leave(ctx, s);
}

rd_status rdo_check_block_num(rd_context *ctx, int32_t n) {
  if (n == 0 || n == 8 || n == 24 || n == 28 || n == 32) return RD_OK;
  return rdi_fail(ctx, RD_E_BLOCK_NUM, "block_num: expected None (0), 8, 24, 28 or 32, got %d",
                  (int)n);
}

rd_status rdo_check_scale(rd_context *ctx, int32_t has_scale, double scale, float *out) {
  if (has_scale != 0 && has_scale != 1)
    return rdi_fail(ctx, RD_E_ENUM, "has_scale: expected 0 (None) or 1, got %d", (int)has_scale);
  return rdi_check_scale(ctx, "scale", !has_scale, scale, RDO_DIM, out);
}

rd_status rdo_check_numerics(rd_context *ctx, int32_t numerics) {
  if (numerics == RD_EXACT || numerics == RD_FAST) return RD_OK;
  return rdi_fail(ctx, RD_E_ENUM, "numerics: expected RD_EXACT or RD_FAST, got %d", (int)numerics);
}

void rdo_kda_math(rdi_math *m, int64_t Hk, int64_t Hv, float scale, float lb, int32_t numerics) {
  m->gate = RD_GATE_LOWER_BOUND;
  m->axis = RD_PER_CHANNEL;
  m->beta_kind = RD_BETA_LOGIT;
  m->head_map = RD_HEADS_GROUPED;
  m->numerics = numerics;
  m->l2norm = 1;
  m->scale = scale;
  m->eps = (float)1e-6;
  m->lb = lb;
  m->beta_times = 1.0f;
  m->Hk = Hk;
  m->Hv = Hv;
  m->K = m->V = m->Kp = RDO_DIM;
  m->pad_slot = -1;
}

rd_status rdo_kda_gate_weights(rd_context *ctx, rdi_job *job, const rd_tensor *A_log,
                               const rd_tensor *dt_bias, int64_t H) {
  RDI_TRY(rdi_check_tensor(ctx, "A_log", A_log, RDI_DT_F32, 1, (int64_t[]){H}, RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_tensor(ctx, "dt_bias", dt_bias, RDI_DT_F32, 2, (int64_t[]){H, RDO_DIM},
                           RDI_CONTIGUOUS));
  job->A_log = A_log->data;
  job->A_log_stride = 1;
  job->dt_bias = dt_bias->data;
  job->dt_stride = RDO_DIM;
  return RD_OK;
}

/* Where batch, token and head stand in g: BSND [B,S,N,128], BNSD [B,N,S,128], TND [T,N,128]. */
typedef struct rdo_axes {
  int rank, b, t, h;
} rdo_axes;

static rdo_axes axes_of(int32_t layout) {
  if (layout == RD_BSND) return (rdo_axes){4, 0, 1, 2};
  if (layout == RD_BNSD) return (rdo_axes){4, 0, 2, 1};
  return (rdo_axes){3, -1, 0, 1};
}

/* B, S and N come from g; everything else is checked against them. */
static rd_status sizes_from_g(rd_context *ctx, rdo_mixed *x, rdo_axes ax) {
  const int64_t any[4] = {-1, -1, ax.rank == 4 ? -1 : RDO_DIM, RDO_DIM};
  RDI_TRY(rdi_check_tensor(ctx, "g", x->g, RDI_DT_BF16, ax.rank, any, RDI_CONTIGUOUS));
  x->N = x->g->shape[ax.h];
  x->S = x->g->shape[ax.t];
  if (x->N < 1 || x->N > RDO_MAX_HEADS)
    return rdi_fail(ctx, RD_E_HEADS, "g: expected 1 to %d heads, got %lld", RDO_MAX_HEADS,
                    (long long)x->N);
  if (x->S < 1)
    return rdi_fail(ctx, RD_E_SHAPE, "g: expected at least one token, got %lld", (long long)x->S);
  if (ax.b >= 0) {
    x->B = x->g->shape[ax.b];
    if (x->B < 1) return rdi_fail(ctx, RD_E_SHAPE, "g: expected B > 0, got %lld", (long long)x->B);
  }
  return RD_OK;
}

static rd_status sequences_of(rd_context *ctx, rdi_job *job, rdo_mixed *x) {
  const rd_tensor *cu = x->cu_seqlens;
  x->longest = x->S;
  if (x->layout != RD_TND) {
    RDI_TRY(rdi_check_absent(ctx, "cu_seqlens", cu, "unless layout_qkv is TND"));
    x->tokens = x->B * x->S; /* fits: g's elements were counted by its check */
    job->seq = (rdi_seqs){.B = x->B, .T = x->S};
    return RD_OK;
  }
  RDI_TRY(rdi_check_tensor(ctx, "cu_seqlens", cu, RDI_DT_I32, 1, (int64_t[]){-1}, RDI_CONTIGUOUS));
  x->B = cu->shape[0] - 1;
  x->tokens = x->S;
  if (x->B < 1)
    return rdi_fail(ctx, RD_E_SHAPE, "cu_seqlens: expected B+1 >= 2 entries, got %lld",
                    (long long)cu->shape[0]);
  RDI_TRY(rdi_check_cu(ctx, "cu_seqlens", cu, x->B, x->tokens, RDI_CU_RISES | RDI_CU_ALL));
  job->seq = (rdi_seqs){.B = x->B, .T = x->tokens, .cu = cu->data, .is64 = 0};
  x->longest = 0;
  for (int64_t b = 0; b < x->B; b++) {
    int64_t n = rdi_seq_length(&job->seq, b);
    if (n > x->longest) x->longest = n;
  }
  return RD_OK;
}

rd_status rdo_unpack_mixed(rd_context *ctx, rdi_job *job, rdo_mixed *x) {
  if (x->layout != RD_BSND && x->layout != RD_BNSD && x->layout != RD_TND)
    return rdi_fail(ctx, RD_E_ENUM, "layout_qkv: expected BSND, BNSD or TND, got %d",
                    (int)x->layout);
  const rdo_axes ax = axes_of(x->layout);
  RDI_TRY(sizes_from_g(ctx, x, ax));
  const int64_t N = x->N, S = x->S, B = x->B;
  int64_t mixed[4] = {B, S, 3 * N * RDO_DIM, 0}, logits[4] = {B, S, N, 1};
  if (x->layout == RD_BNSD) {
    mixed[1] = 3 * N, mixed[2] = S, mixed[3] = RDO_DIM;
    logits[1] = N, logits[2] = S;
  } else if (x->layout == RD_TND) {
    mixed[0] = S, mixed[1] = 3 * N * RDO_DIM;
    logits[0] = S, logits[1] = N, logits[2] = 1;
  }
  const int mixed_rank = x->layout == RD_BNSD ? 4 : ax.rank - 1;
  RDI_TRY(rdi_check_tensor(ctx, "mixedqkv", x->mixedqkv, RDI_DT_BF16, mixed_rank, mixed,
                           RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_tensor(ctx, "beta", x->beta, RDI_DT_BF16, ax.rank, logits, RDI_CONTIGUOUS));
  RDI_TRY(rdi_check_tensor(ctx, "out", x->out, RDI_DT_BF16, ax.rank, x->g->shape,
                           RDI_CONTIGUOUS | RDI_OUTPUT));
  RDI_TRY(sequences_of(ctx, job, x));

  /* Strides follow from the layouts: every tensor here is contiguous. */
  const int heads_outer = x->layout == RD_BNSD;
  const int64_t row = 3 * N * RDO_DIM;
  rdi_view q = {x->mixedqkv->data,
                RD_BF16,
                x->layout == RD_TND ? 0 : S * row,
                heads_outer ? RDO_DIM : row,
                heads_outer ? S * RDO_DIM : RDO_DIM,
                1};
  const int64_t part = N * q.sh * 2; /* bytes from Q to K to V */
  job->q = job->k = job->v = q;
  job->k.base += part;
  job->v.base += 2 * part;
  job->g = rdi_view_of(x->g, ax.b, ax.t, ax.h);
  job->beta = rdi_view_of(x->beta, ax.b, ax.t, ax.h);
  job->out = rdi_view_of(x->out, ax.b, ax.t, ax.h);
  return RD_OK;
}

rdi_states rdo_states(const rd_tensor *t, rd_state_layout layout, const int32_t *index,
                      const char *name) {
  return (rdi_states){.base = t->data,
                      .dtype = t->dtype,
                      .layout = layout,
                      .ss = t->stride[0],
                      .sh = t->stride[1],
                      .sr = t->stride[2],
                      .slots = t->shape[0],
                      .index = index,
                      .name = name};
}
