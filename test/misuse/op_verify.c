/* Mistakes with fused_recurrent_kda_replayssm and commit_recurrent_kda_replayssm.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/kda.h"
#include "misuse.h"

enum { N = 2, C = 5 };
typedef struct vfix {
  op_fix op;
  kda x;
  tb mixed, beta, g, state, A, dt, u, k, decay, cu, out, acc;
  rd_fused_recurrent_kda_replayssm_params p;
  rd_commit_recurrent_kda_replayssm_params c;
} vfix;

static rd_status verify(void *fixture) {
  vfix *v = fixture;
  return rd_fused_recurrent_kda_replayssm(v->op.cx, v->op.no_params ? NULL : &v->p);
}
static rd_status commit(void *fixture) {
  vfix *v = fixture;
  return rd_commit_recurrent_kda_replayssm(v->op.cx, v->op.no_params ? NULL : &v->c);
}

static vfix *make(rd_layout_qkv layout) {
  vfix *v = op_fix_make(sizeof *v);
  rd_problem p = kda_problem(N, N, -5);
  int64_t len[2] = {4, layout == RD_TND ? 2 : 4}, rec[4] = {2, C, N, KDA_D};
  data *d = data_make(&p, 2, len);
  v->x = kda_make(d, layout, 0);
  v->mixed = kda_mixed(&v->x);
  v->beta = kda_beta(&v->x, true);
  v->g = kda_g(&v->x);
  v->state = kda_state(&v->x);
  v->A = kda_weights(d->A, N, 0);
  v->dt = kda_weights(d->dt, N, KDA_D);
  v->u = tb_make(RD_F16, 4, rec, NULL);
  v->k = tb_make(RD_F16, 4, rec, NULL);
  v->decay = tb_make(RD_F32, 4, rec, NULL);
  v->out = kda_tensor(&v->x, RD_BF16, N, KDA_D);
  v->acc = tb_i32(2, (int32_t[]){4, 2});
  mem_writable(v->acc.b);
  rd_fused_recurrent_kda_replayssm_init(&v->p);
  v->p.mixedqkv = v->mixed.t;
  v->p.recurrent_state = v->state.t;
  v->p.beta = v->beta.t;
  v->p.g = v->g.t;
  v->p.A_log = v->A.t;
  v->p.dt_bias = v->dt.t;
  v->p.layout_qkv = layout;
  v->p.replay_u = v->u.t;
  v->p.replay_k = v->k.t;
  v->p.replay_decay = v->decay.t;
  v->p.out = v->out.t;
  if (layout == RD_TND) {
    v->cu = kda_cu(&v->x);
    mem_writable(v->cu.b);
    v->p.cu_seqlens = v->cu.t;
  }
  rd_commit_recurrent_kda_replayssm_init(&v->c);
  v->c.recurrent_state = v->state.t;
  v->c.replay_u = v->u.t;
  v->c.replay_k = v->k.t;
  v->c.replay_decay = v->decay.t;
  v->c.num_accepted_tokens = v->acc.t;
  CK_OK(v->op.cx, verify(v)); /* commits need records */
  memset(v->out.b->p, 0xff, v->out.b->bytes);
  const tb *t[] = {&v->u, &v->k, &v->decay, &v->out, &v->state, &v->acc, &v->cu};
  for (size_t i = 0; i < PT_LEN(t); i++) watch_add(&v->op.w, t[i]->b);
  return v;
}
static void *make_RD_BSND(void) { return make(RD_BSND); }
static void *make_RD_BNSD(void) { return make(RD_BNSD); }
static void *make_RD_TND(void) { return make(RD_TND); }

#define V(fn, ...) OP_SLIP(vfix, fn, __VA_ARGS__)

V(size0, v->p.struct_size = 0)
V(layout0, v->p.layout_qkv = (rd_layout_qkv)0)
V(layout4, v->p.layout_qkv = (rd_layout_qkv)4)
V(numerics0, v->p.numerics = (rd_numerics)0)
V(has_scale2, v->p.has_scale = 2)
V(mixed_absent, ABSENT(v->p.mixedqkv))
V(state_absent, ABSENT(v->p.recurrent_state))
V(beta_absent, ABSENT(v->p.beta))
V(g_absent, ABSENT(v->p.g))
V(A_absent, ABSENT(v->p.A_log))
V(dt_absent, ABSENT(v->p.dt_bias))
V(u_absent, ABSENT(v->p.replay_u))
V(k_absent, ABSENT(v->p.replay_k))
V(decay_absent, ABSENT(v->p.replay_decay))
V(out_absent, ABSENT(v->p.out))
V(mixed_null, v->p.mixedqkv.data = NULL)
V(u_null, v->p.replay_u.data = NULL)
V(mixed_type, v->p.mixedqkv.dtype = RD_F16)
V(state_type, v->p.recurrent_state.dtype = RD_BF16)
V(beta_type, v->p.beta.dtype = RD_F32)
V(g_type, v->p.g.dtype = RD_F32)
V(A_type, v->p.A_log.dtype = RD_BF16)
V(dt_type, v->p.dt_bias.dtype = RD_BF16)
V(u_type, v->p.replay_u.dtype = RD_F32)
V(k_type, v->p.replay_k.dtype = RD_BF16)
V(decay_type, v->p.replay_decay.dtype = RD_F16)
V(out_type, v->p.out.dtype = RD_F32)
V(mixed_rank, v->p.mixedqkv.rank--)
V(beta_rank, v->p.beta.rank--)
V(g_rank, v->p.g.rank--)
V(state_rank, v->p.recurrent_state.rank = 3)
V(u_rank, v->p.replay_u.rank = 3)
V(A_rank, {
  v->p.A_log.rank = 2;
  v->p.A_log.shape[1] = 1;
  v->p.A_log.stride[1] = 1;
})
V(mixed_width, v->p.mixedqkv.shape[v->p.mixedqkv.rank - 1] -= 128)
V(g_width, v->p.g.shape[v->p.g.rank - 1]--)
V(beta_width, v->p.beta.shape[v->p.beta.rank - 1]++)
V(state_heads, v->p.recurrent_state.shape[1]++)
V(state_size, v->p.recurrent_state.shape[3] = 64)
V(state_batch, v->p.recurrent_state.shape[0] = 1)
V(A_heads, v->p.A_log.shape[0] = 1)
V(dt_width, v->p.dt_bias.shape[1] = 64)
V(u_batch, v->p.replay_u.shape[0] = 1)
V(k_capacity, v->p.replay_k.shape[1]--)
V(out_heads, v->p.out.shape[v->p.layout_qkv == RD_BNSD ? 1 : v->p.out.rank - 2]--)
V(capacity, {
  v->p.replay_u.shape[1] = v->p.replay_k.shape[1] = v->p.replay_decay.shape[1] = 3;
  v->p.replay_u.stride[0] = v->p.replay_k.stride[0] = v->p.replay_decay.stride[0] = 3 * N * 128;
})
V(mixed_stride, v->p.mixedqkv.stride[0] += 8)
V(g_stride, v->p.g.stride[0] = -v->p.g.stride[0])
V(u_stride, v->p.replay_u.stride[0] += 4)
V(out_stride, v->p.out.stride[0] = 0)
V(u_is_k, v->p.replay_u.data = v->p.replay_k.data)
V(decay_is_state, v->p.replay_decay.data = v->p.recurrent_state.data)
V(out_is_g, v->p.out.data = v->p.g.data)
V(out_is_u, v->p.out.data = v->p.replay_u.data)
V(k_overlaps_u, v->p.replay_k.data = (uint16_t *)v->p.replay_u.data + 8)
V(scale_nan, {
  v->p.has_scale = 1;
  v->p.scale = (double)NAN;
})
V(scale_big, {
  v->p.has_scale = 1;
  v->p.scale = 1e39;
})
V(bound_low, v->p.lower_bound = -5.5)
V(bound_high, v->p.lower_bound = 0.1)
V(bound_nan, v->p.lower_bound = (double)NAN)
V(block1, v->p.block_num = 1)
V(block_negative, v->p.block_num = -8)
V(block25, v->p.block_num = 25)
static const op_slip both[] = {
    {"no context", op_no_ctx, RD_E_NULL, NULL},
    {"no params", op_no_params, RD_E_NULL, "params"},
};
static const op_slip verify_slips[] = {
    {"struct_size 0", size0, RD_E_STRUCT_SIZE, "struct_size|params"},
    {"layout 0", layout0, RD_E_ENUM, "layout_qkv"},
    {"layout 4", layout4, RD_E_ENUM, "layout_qkv"},
    {"numerics 0", numerics0, RD_E_ENUM, "numerics"},
    {"has_scale 2", has_scale2, RD_E_ENUM, "has_scale"},
    {"mixedqkv absent", mixed_absent, RD_E_NULL, "mixedqkv"},
    {"recurrent_state absent", state_absent, RD_E_NULL, "recurrent_state"},
    {"beta absent", beta_absent, RD_E_NULL, "beta"},
    {"g absent", g_absent, RD_E_NULL, "g"},
    {"A_log absent", A_absent, RD_E_NULL, "A_log"},
    {"dt_bias absent", dt_absent, RD_E_NULL, "dt_bias"},
    {"replay_u absent", u_absent, RD_E_NULL, "replay_u"},
    {"replay_k absent", k_absent, RD_E_NULL, "replay_k"},
    {"replay_decay absent", decay_absent, RD_E_NULL, "replay_decay"},
    {"out absent", out_absent, RD_E_NULL, "out"},
    {"mixedqkv at null", mixed_null, RD_E_NULL, "mixedqkv"},
    {"replay_u at null", u_null, RD_E_NULL, "replay_u"},
    {"mixedqkv f16", mixed_type, RD_E_DTYPE, "mixedqkv"},
    {"recurrent_state bf16", state_type, RD_E_DTYPE, "recurrent_state"},
    {"beta f32", beta_type, RD_E_DTYPE, "beta"},
    {"g f32", g_type, RD_E_DTYPE, "g"},
    {"A_log bf16", A_type, RD_E_DTYPE, "A_log"},
    {"dt_bias bf16", dt_type, RD_E_DTYPE, "dt_bias"},
    {"replay_u f32", u_type, RD_E_DTYPE, "replay_u"},
    {"replay_k bf16", k_type, RD_E_DTYPE, "replay_k"},
    {"replay_decay f16", decay_type, RD_E_DTYPE, "replay_decay"},
    {"out f32", out_type, RD_E_DTYPE, "out"},
    {"mixedqkv of a lower rank", mixed_rank, RD_E_RANK, "mixedqkv"},
    {"beta of a lower rank", beta_rank, RD_E_RANK, "beta"},
    {"g of a lower rank", g_rank, RD_E_RANK, "g"},
    {"recurrent_state of rank 3", state_rank, RD_E_RANK, "recurrent_state"},
    {"replay_u of rank 3", u_rank, RD_E_RANK, "replay_u"},
    {"A_log of rank 2", A_rank, RD_E_RANK, "A_log"},
    {"g too narrow", g_width, RD_E_SHAPE, "g"},
    {"beta too wide", beta_width, RD_E_SHAPE, "beta"},
    {"recurrent_state with more heads", state_heads, RD_E_SHAPE, "recurrent_state"},
    {"recurrent_state 128 x 64", state_size, RD_E_SHAPE, "recurrent_state"},
    {"A_log too short", A_heads, RD_E_SHAPE, "A_log"},
    {"dt_bias too narrow", dt_width, RD_E_SHAPE, "dt_bias"},
    {"replay_u of another batch", u_batch, RD_E_SHAPE, "replay_u"},
    {"replay_k of another capacity", k_capacity, RD_E_SHAPE, "replay_k"},
    {"out with fewer heads", out_heads, RD_E_SHAPE, "out"},
    {"more tokens than capacity", capacity, RD_E_CAPACITY, NULL},
    {"g with a negative stride", g_stride, RD_E_STRIDE, "g"},
    {"replay_u with gaps", u_stride, RD_E_STRIDE, "replay_u"},
    {"out with stride 0", out_stride, RD_E_STRIDE, "out"},
    {"replay_u on replay_k", u_is_k, RD_E_ALIAS, "replay_u|replay_k"},
    {"replay_k on part of replay_u", k_overlaps_u, RD_E_ALIAS, "replay_u|replay_k"},
    {"replay_decay on the state", decay_is_state, RD_E_ALIAS, "replay_decay"},
    {"out on g", out_is_g, RD_E_ALIAS, "out"},
    {"out on replay_u", out_is_u, RD_E_ALIAS, "out|replay_u"},
    {"scale NaN", scale_nan, RD_E_SCALE, "scale"},
    {"scale beyond f32", scale_big, RD_E_SCALE, "scale"},
    {"lower_bound -5.5", bound_low, RD_E_LOWER_BOUND, "lower_bound"},
    {"lower_bound 0.1", bound_high, RD_E_LOWER_BOUND, "lower_bound"},
    {"lower_bound NaN", bound_nan, RD_E_LOWER_BOUND, "lower_bound"},
    {"block_num 1", block1, RD_E_BLOCK_NUM, "block_num"},
    {"block_num -8", block_negative, RD_E_BLOCK_NUM, "block_num"},
    {"block_num 25", block25, RD_E_BLOCK_NUM, "block_num"},
};
V(cu_given, v->p.cu_seqlens = v->acc.t)
V(beta_tokens, v->p.beta.shape[v->p.layout_qkv == RD_BNSD ? 2 : 1]--)
V(g_heads, v->p.g.shape[v->p.layout_qkv == RD_BNSD ? 1 : 2]--;
  v->p.g = rd_tensor_contiguous(v->p.g.data, RD_BF16, 4, v->p.g.shape))
static const op_slip batched[] = {
    {"cu_seqlens given", cu_given, RD_E_PRESENCE, "cu_seqlens"},
    {"recurrent_state of another batch", state_batch, RD_E_SHAPE, "recurrent_state"},
    {"mixedqkv with gaps", mixed_stride, RD_E_STRIDE, "mixedqkv"},
    {"beta with fewer tokens", beta_tokens, RD_E_SHAPE, "beta"},
    {"g with fewer heads", g_heads, RD_E_SHAPE, NULL},
};
static const op_slip bsnd_tnd[] = {{"mixedqkv too narrow", mixed_width, RD_E_SHAPE, NULL}};
static int32_t *cu(vfix *v) { return v->p.cu_seqlens.data; }
V(cu_absent, ABSENT(v->p.cu_seqlens))
V(cu_i64, v->p.cu_seqlens.dtype = RD_I64)
V(cu_rank, v->p.cu_seqlens.rank = 2)
V(cu_short, v->p.cu_seqlens.shape[0] = 2; cu(v)[1] = 6)
V(cu_start, cu(v)[0] = 1)
V(cu_flat, cu(v)[1] = 6)
V(cu_down, cu(v)[1] = 7)
V(cu_end, cu(v)[2] = 5)
V(cu_far, cu(v)[2] = 7)
static const op_slip tnd[] = {
    {"cu_seqlens absent", cu_absent, RD_E_NULL, "cu_seqlens"},
    {"cu_seqlens i64", cu_i64, RD_E_DTYPE, "cu_seqlens"},
    {"cu_seqlens of rank 2", cu_rank, RD_E_RANK, "cu_seqlens"},
    {"cu_seqlens too short", cu_short, RD_E_SHAPE, NULL},
    {"cu_seqlens from 1", cu_start, RD_E_CU_START, "cu_seqlens"},
    {"cu_seqlens with an empty sequence", cu_flat, RD_E_CU_ORDER, "cu_seqlens"},
    {"cu_seqlens falling", cu_down, RD_E_CU_ORDER, "cu_seqlens"},
    {"cu_seqlens ending early", cu_end, RD_E_CU_END, "cu_seqlens"},
    {"cu_seqlens ending late", cu_far, RD_E_CU_END, "cu_seqlens"},
};

V(c_size, v->c.struct_size = 16)
V(c_state_absent, ABSENT(v->c.recurrent_state))
V(c_u_absent, ABSENT(v->c.replay_u))
V(c_k_absent, ABSENT(v->c.replay_k))
V(c_decay_absent, ABSENT(v->c.replay_decay))
V(c_acc_absent, ABSENT(v->c.num_accepted_tokens))
V(c_state_type, v->c.recurrent_state.dtype = RD_F16)
V(c_u_type, v->c.replay_u.dtype = RD_F32)
V(c_decay_type, v->c.replay_decay.dtype = RD_F16)
V(c_acc_type, v->c.num_accepted_tokens.dtype = RD_I64)
V(c_acc_rank, v->c.num_accepted_tokens.rank = 2)
V(c_acc_short, v->c.num_accepted_tokens.shape[0] = 1)
V(c_acc_negative, ((int32_t *)v->c.num_accepted_tokens.data)[1] = -1)
V(c_acc_large, ((int32_t *)v->c.num_accepted_tokens.data)[0] = C + 1)
V(c_u_capacity, v->c.replay_u.shape[1]--;
  v->c.replay_u = rd_tensor_contiguous(v->c.replay_u.data, RD_F16, 4, v->c.replay_u.shape))
V(c_k_heads, v->c.replay_k.shape[2]--)
V(c_state_size, v->c.recurrent_state.shape[2] = 64)
V(c_state_stride, v->c.recurrent_state.stride[0] += 16)
V(c_state_is_u, v->c.recurrent_state.data = v->c.replay_u.data)
V(c_state_is_decay, v->c.recurrent_state.data = v->c.replay_decay.data)
V(c_acc_is_state, v->c.num_accepted_tokens.data = memcpy(v->c.recurrent_state.data, v->acc.b->p, 8))
V(c_block, v->c.block_num = 7)
static const op_slip commit_slips[] = {
    {"struct_size 16", c_size, RD_E_STRUCT_SIZE, "struct_size|params"},
    {"recurrent_state absent", c_state_absent, RD_E_NULL, "recurrent_state"},
    {"replay_u absent", c_u_absent, RD_E_NULL, "replay_u"},
    {"replay_k absent", c_k_absent, RD_E_NULL, "replay_k"},
    {"replay_decay absent", c_decay_absent, RD_E_NULL, "replay_decay"},
    {"num_accepted_tokens absent", c_acc_absent, RD_E_NULL, "num_accepted_tokens"},
    {"recurrent_state f16", c_state_type, RD_E_DTYPE, "recurrent_state"},
    {"replay_u f32", c_u_type, RD_E_DTYPE, "replay_u"},
    {"replay_decay f16", c_decay_type, RD_E_DTYPE, "replay_decay"},
    {"num_accepted_tokens i64", c_acc_type, RD_E_DTYPE, "num_accepted_tokens"},
    {"num_accepted_tokens of rank 2", c_acc_rank, RD_E_RANK, "num_accepted_tokens"},
    {"num_accepted_tokens too short", c_acc_short, RD_E_SHAPE, "num_accepted_tokens"},
    {"accepted -1", c_acc_negative, RD_E_ACCEPTED, "num_accepted_tokens"},
    {"accepted over C", c_acc_large, RD_E_ACCEPTED, "num_accepted_tokens"},
    {"replay_u of another capacity", c_u_capacity, RD_E_SHAPE, NULL},
    {"replay_k with fewer heads", c_k_heads, RD_E_SHAPE, "replay_k"},
    {"recurrent_state 64 x 128", c_state_size, RD_E_SHAPE, "recurrent_state"},
    {"recurrent_state with gaps", c_state_stride, RD_E_STRIDE, "recurrent_state"},
    {"the state on replay_u", c_state_is_u, RD_E_ALIAS, NULL},
    {"the state on replay_decay", c_state_is_decay, RD_E_ALIAS, NULL},
    {"the counts on the state", c_acc_is_state, RD_E_ALIAS, NULL},
    {"block_num 7", c_block, RD_E_BLOCK_NUM, "block_num"},
};
#define T(t, layout, f) misuse_op(#f " " #layout " with " #t, t, PT_LEN(t), make_##layout, f)

static void c_verify(void) {
  T(both, RD_BSND, verify);
  T(verify_slips, RD_BSND, verify);
  T(verify_slips, RD_BNSD, verify);
  T(verify_slips, RD_TND, verify);
  T(batched, RD_BSND, verify);
  T(batched, RD_BNSD, verify);
  T(bsnd_tnd, RD_BSND, verify);
  T(bsnd_tnd, RD_TND, verify);
  T(tnd, RD_TND, verify);
}

/* 97 heads, no heads, no tokens, no sequences: shapes that are consistent but out of range. */
static void head_range(int64_t n, int64_t S, int64_t B, rd_status want) {
  rd_fused_recurrent_kda_replayssm_params p;
  rd_fused_recurrent_kda_replayssm_init(&p);
  static float some[64];
  int64_t big = n ? n : 1;
  (void)big;
  p.mixedqkv = rd_tensor_contiguous(some, RD_BF16, 3, (int64_t[]){B, S, 3 * n * 128});
  p.recurrent_state = rd_tensor_contiguous(some, RD_F32, 4, (int64_t[]){B, n, 128, 128});
  p.beta = rd_tensor_contiguous(some, RD_BF16, 4, (int64_t[]){B, S, n, 1});
  p.g = rd_tensor_contiguous(some, RD_BF16, 4, (int64_t[]){B, S, n, 128});
  p.A_log = rd_tensor_contiguous(some, RD_F32, 1, (int64_t[]){n});
  p.dt_bias = rd_tensor_contiguous(some, RD_F32, 2, (int64_t[]){n, 128});
  p.replay_u = p.replay_k = rd_tensor_contiguous(some, RD_F16, 4, (int64_t[]){B, 4, n, 128});
  p.replay_decay = rd_tensor_contiguous(some, RD_F32, 4, (int64_t[]){B, 4, n, 128});
  p.out = p.g;
  char name[80];
  snprintf(name, sizeof name, "%lld heads, %lld tokens, %lld sequences", (long long)n, (long long)S,
           (long long)B);
  rd_context *c = cx_get(0, 2, EX_POOL);
  refused(name, c, rd_fused_recurrent_kda_replayssm(c, &p), want, NULL);
}

static void ranges(void) {
  head_range(97, 1, 1, RD_E_HEADS);
  head_range(0, 1, 1, RD_E_HEADS);
  head_range(1, 0, 1, RD_E_SHAPE);
  head_range(1, 1, 0, RD_E_SHAPE);
  float a = 1, b = 1;
  ck_bits("(teeth need a comparison)", &a, &b, 1);
}

static void c_commit(void) {
  T(both, RD_BSND, commit);
  T(commit_slips, RD_BSND, commit);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"verify", c_verify, PT_QUICK},
      {"ranges", ranges, PT_QUICK},
      {"commit", c_commit, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_op_verify", cases, PT_LEN(cases));
}
