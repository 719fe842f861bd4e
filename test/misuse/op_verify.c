/* Mistakes with fused_recurrent_kda_replayssm and commit_recurrent_kda_replayssm.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/kda.h"
#include "op_fixture.h"

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

static void both(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("no context", RD_E_NULL, NULL, v->op.cx = NULL);
  SLIP("no params", RD_E_NULL, "params", v->op.no_params = true);
}
static void verify_slips(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("struct_size 0", RD_E_STRUCT_SIZE, "struct_size|params", v->p.struct_size = 0);
  SLIP("layout 0", RD_E_ENUM, "layout_qkv", v->p.layout_qkv = (rd_layout_qkv)0);
  SLIP("layout 4", RD_E_ENUM, "layout_qkv", v->p.layout_qkv = (rd_layout_qkv)4);
  SLIP("numerics 0", RD_E_ENUM, "numerics", v->p.numerics = (rd_numerics)0);
  SLIP("has_scale 2", RD_E_ENUM, "has_scale", v->p.has_scale = 2);
  SLIP("mixedqkv absent", RD_E_NULL, "mixedqkv", ABSENT(v->p.mixedqkv));
  SLIP("recurrent_state absent", RD_E_NULL, "recurrent_state", ABSENT(v->p.recurrent_state));
  SLIP("beta absent", RD_E_NULL, "beta", ABSENT(v->p.beta));
  SLIP("g absent", RD_E_NULL, "g", ABSENT(v->p.g));
  SLIP("A_log absent", RD_E_NULL, "A_log", ABSENT(v->p.A_log));
  SLIP("dt_bias absent", RD_E_NULL, "dt_bias", ABSENT(v->p.dt_bias));
  SLIP("replay_u absent", RD_E_NULL, "replay_u", ABSENT(v->p.replay_u));
  SLIP("replay_k absent", RD_E_NULL, "replay_k", ABSENT(v->p.replay_k));
  SLIP("replay_decay absent", RD_E_NULL, "replay_decay", ABSENT(v->p.replay_decay));
  SLIP("out absent", RD_E_NULL, "out", ABSENT(v->p.out));
  SLIP("mixedqkv at null", RD_E_NULL, "mixedqkv", v->p.mixedqkv.data = NULL);
  SLIP("replay_u at null", RD_E_NULL, "replay_u", v->p.replay_u.data = NULL);
  SLIP("mixedqkv f16", RD_E_DTYPE, "mixedqkv", v->p.mixedqkv.dtype = RD_F16);
  SLIP("recurrent_state bf16", RD_E_DTYPE, "recurrent_state", v->p.recurrent_state.dtype = RD_BF16);
  SLIP("beta f32", RD_E_DTYPE, "beta", v->p.beta.dtype = RD_F32);
  SLIP("g f32", RD_E_DTYPE, "g", v->p.g.dtype = RD_F32);
  SLIP("A_log bf16", RD_E_DTYPE, "A_log", v->p.A_log.dtype = RD_BF16);
  SLIP("dt_bias bf16", RD_E_DTYPE, "dt_bias", v->p.dt_bias.dtype = RD_BF16);
  SLIP("replay_u f32", RD_E_DTYPE, "replay_u", v->p.replay_u.dtype = RD_F32);
  SLIP("replay_k bf16", RD_E_DTYPE, "replay_k", v->p.replay_k.dtype = RD_BF16);
  SLIP("replay_decay f16", RD_E_DTYPE, "replay_decay", v->p.replay_decay.dtype = RD_F16);
  SLIP("out f32", RD_E_DTYPE, "out", v->p.out.dtype = RD_F32);
}
static void verify_sizes(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("mixedqkv of a lower rank", RD_E_RANK, "mixedqkv", v->p.mixedqkv.rank--);
  SLIP("beta of a lower rank", RD_E_RANK, "beta", v->p.beta.rank--);
  SLIP("g of a lower rank", RD_E_RANK, "g", v->p.g.rank--);
  SLIP("recurrent_state of rank 3", RD_E_RANK, "recurrent_state", v->p.recurrent_state.rank = 3);
  SLIP("replay_u of rank 3", RD_E_RANK, "replay_u", v->p.replay_u.rank = 3);
  SLIP("A_log of rank 2", RD_E_RANK, "A_log", {
    v->p.A_log.rank = 2;
    v->p.A_log.shape[1] = 1;
    v->p.A_log.stride[1] = 1;
  });
  SLIP("g too narrow", RD_E_SHAPE, "g", v->p.g.shape[v->p.g.rank - 1]--);
  SLIP("beta too wide", RD_E_SHAPE, "beta", v->p.beta.shape[v->p.beta.rank - 1]++);
  SLIP("recurrent_state with more heads", RD_E_SHAPE, "recurrent_state",
       v->p.recurrent_state.shape[1]++);
  SLIP("recurrent_state 128 x 64", RD_E_SHAPE, "recurrent_state",
       v->p.recurrent_state.shape[3] = 64);
  SLIP("A_log too short", RD_E_SHAPE, "A_log", v->p.A_log.shape[0] = 1);
  SLIP("dt_bias too narrow", RD_E_SHAPE, "dt_bias", v->p.dt_bias.shape[1] = 64);
  SLIP("replay_u of another batch", RD_E_SHAPE, "replay_u", v->p.replay_u.shape[0] = 1);
  SLIP("replay_k of another capacity", RD_E_SHAPE, "replay_k", v->p.replay_k.shape[1]--);
  SLIP("out with fewer heads", RD_E_SHAPE, "out",
       v->p.out.shape[v->p.layout_qkv == RD_BNSD ? 1 : v->p.out.rank - 2]--);
  SLIP("more tokens than capacity", RD_E_CAPACITY, NULL, {
    v->p.replay_u.shape[1] = v->p.replay_k.shape[1] = v->p.replay_decay.shape[1] = 3;
    v->p.replay_u.stride[0] = v->p.replay_k.stride[0] = v->p.replay_decay.stride[0] = 3 * N * 128;
  });
  SLIP("g with a negative stride", RD_E_STRIDE, "g", v->p.g.stride[0] = -v->p.g.stride[0]);
  SLIP("replay_u with gaps", RD_E_STRIDE, "replay_u", v->p.replay_u.stride[0] += 4);
  SLIP("out with stride 0", RD_E_STRIDE, "out", v->p.out.stride[0] = 0);
  SLIP("replay_u on replay_k", RD_E_ALIAS, "replay_u|replay_k",
       v->p.replay_u.data = v->p.replay_k.data);
  SLIP("replay_k on part of replay_u", RD_E_ALIAS, "replay_u|replay_k",
       v->p.replay_k.data = (uint16_t *)v->p.replay_u.data + 8);
  SLIP("replay_decay on the state", RD_E_ALIAS, "replay_decay",
       v->p.replay_decay.data = v->p.recurrent_state.data);
  SLIP("out on g", RD_E_ALIAS, "out", v->p.out.data = v->p.g.data);
  SLIP("out on replay_u", RD_E_ALIAS, "out|replay_u", v->p.out.data = v->p.replay_u.data);
  SLIP("scale NaN", RD_E_SCALE, "scale", {
    v->p.has_scale = 1;
    v->p.scale = (double)NAN;
  });
  SLIP("scale beyond f32", RD_E_SCALE, "scale", {
    v->p.has_scale = 1;
    v->p.scale = 1e39;
  });
  SLIP("lower_bound -5.5", RD_E_LOWER_BOUND, "lower_bound", v->p.lower_bound = -5.5);
  SLIP("lower_bound 0.1", RD_E_LOWER_BOUND, "lower_bound", v->p.lower_bound = 0.1);
  SLIP("lower_bound NaN", RD_E_LOWER_BOUND, "lower_bound", v->p.lower_bound = (double)NAN);
  SLIP("block_num 1", RD_E_BLOCK_NUM, "block_num", v->p.block_num = 1);
  SLIP("block_num -8", RD_E_BLOCK_NUM, "block_num", v->p.block_num = -8);
  SLIP("block_num 25", RD_E_BLOCK_NUM, "block_num", v->p.block_num = 25);
}
static void batched(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("cu_seqlens given", RD_E_PRESENCE, "cu_seqlens", v->p.cu_seqlens = v->acc.t);
  SLIP("recurrent_state of another batch", RD_E_SHAPE, "recurrent_state",
       v->p.recurrent_state.shape[0] = 1);
  SLIP("mixedqkv with gaps", RD_E_STRIDE, "mixedqkv", v->p.mixedqkv.stride[0] += 8);
  SLIP("beta with fewer tokens", RD_E_SHAPE, "beta",
       v->p.beta.shape[v->p.layout_qkv == RD_BNSD ? 2 : 1]--);
  SLIP("g with fewer heads", RD_E_SHAPE, NULL, v->p.g.shape[v->p.layout_qkv == RD_BNSD ? 1 : 2]--;
       v->p.g = rd_tensor_contiguous(v->p.g.data, RD_BF16, 4, v->p.g.shape));
}
static void bsnd_tnd(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("mixedqkv too narrow", RD_E_SHAPE, NULL, v->p.mixedqkv.shape[v->p.mixedqkv.rank - 1] -= 128);
}
static int32_t *cu(vfix *v) { return v->p.cu_seqlens.data; }
static void tnd(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("cu_seqlens absent", RD_E_NULL, "cu_seqlens", ABSENT(v->p.cu_seqlens));
  SLIP("cu_seqlens i64", RD_E_DTYPE, "cu_seqlens", v->p.cu_seqlens.dtype = RD_I64);
  SLIP("cu_seqlens of rank 2", RD_E_RANK, "cu_seqlens", v->p.cu_seqlens.rank = 2);
  SLIP("cu_seqlens too short", RD_E_SHAPE, NULL, v->p.cu_seqlens.shape[0] = 2; cu(v)[1] = 6);
  SLIP("cu_seqlens from 1", RD_E_CU_START, "cu_seqlens", cu(v)[0] = 1);
  SLIP("cu_seqlens with an empty sequence", RD_E_CU_ORDER, "cu_seqlens", cu(v)[1] = 6);
  SLIP("cu_seqlens falling", RD_E_CU_ORDER, "cu_seqlens", cu(v)[1] = 7);
  SLIP("cu_seqlens ending early", RD_E_CU_END, "cu_seqlens", cu(v)[2] = 5);
  SLIP("cu_seqlens ending late", RD_E_CU_END, "cu_seqlens", cu(v)[2] = 7);
}

static void commit_slips(void *fixture, slips *s) {
  vfix *v = fixture;
  SLIP("struct_size 16", RD_E_STRUCT_SIZE, "struct_size|params", v->c.struct_size = 16);
  SLIP("recurrent_state absent", RD_E_NULL, "recurrent_state", ABSENT(v->c.recurrent_state));
  SLIP("replay_u absent", RD_E_NULL, "replay_u", ABSENT(v->c.replay_u));
  SLIP("replay_k absent", RD_E_NULL, "replay_k", ABSENT(v->c.replay_k));
  SLIP("replay_decay absent", RD_E_NULL, "replay_decay", ABSENT(v->c.replay_decay));
  SLIP("num_accepted_tokens absent", RD_E_NULL, "num_accepted_tokens",
       ABSENT(v->c.num_accepted_tokens));
  SLIP("recurrent_state f16", RD_E_DTYPE, "recurrent_state", v->c.recurrent_state.dtype = RD_F16);
  SLIP("replay_u f32", RD_E_DTYPE, "replay_u", v->c.replay_u.dtype = RD_F32);
  SLIP("replay_decay f16", RD_E_DTYPE, "replay_decay", v->c.replay_decay.dtype = RD_F16);
  SLIP("num_accepted_tokens i64", RD_E_DTYPE, "num_accepted_tokens",
       v->c.num_accepted_tokens.dtype = RD_I64);
  SLIP("num_accepted_tokens of rank 2", RD_E_RANK, "num_accepted_tokens",
       v->c.num_accepted_tokens.rank = 2);
  SLIP("num_accepted_tokens too short", RD_E_SHAPE, "num_accepted_tokens",
       v->c.num_accepted_tokens.shape[0] = 1);
  SLIP("accepted -1", RD_E_ACCEPTED, "num_accepted_tokens",
       ((int32_t *)v->c.num_accepted_tokens.data)[1] = -1);
  SLIP("accepted over C", RD_E_ACCEPTED, "num_accepted_tokens",
       ((int32_t *)v->c.num_accepted_tokens.data)[0] = C + 1);
  SLIP("replay_u of another capacity", RD_E_SHAPE, NULL, v->c.replay_u.shape[1]--;
       v->c.replay_u = rd_tensor_contiguous(v->c.replay_u.data, RD_F16, 4, v->c.replay_u.shape));
  SLIP("replay_k with fewer heads", RD_E_SHAPE, "replay_k", v->c.replay_k.shape[2]--);
  SLIP("recurrent_state 64 x 128", RD_E_SHAPE, "recurrent_state",
       v->c.recurrent_state.shape[2] = 64);
  SLIP("recurrent_state with gaps", RD_E_STRIDE, "recurrent_state",
       v->c.recurrent_state.stride[0] += 16);
  SLIP("the state on replay_u", RD_E_ALIAS, NULL, v->c.recurrent_state.data = v->c.replay_u.data);
  SLIP("the state on replay_decay", RD_E_ALIAS, NULL,
       v->c.recurrent_state.data = v->c.replay_decay.data);
  SLIP("the counts on the state", RD_E_ALIAS, NULL,
       v->c.num_accepted_tokens.data = memcpy(v->c.recurrent_state.data, v->acc.b->p, 8));
  SLIP("block_num 7", RD_E_BLOCK_NUM, "block_num", v->c.block_num = 7);
}
#define T(t, layout, f) misuse_op(#f " " #layout " with " #t, t, make_##layout, f)

static void c_verify(void) {
  T(both, RD_BSND, verify);
  T(verify_slips, RD_BSND, verify);
  T(verify_sizes, RD_BSND, verify);
  T(verify_slips, RD_BNSD, verify);
  T(verify_sizes, RD_BNSD, verify);
  T(verify_slips, RD_TND, verify);
  T(verify_sizes, RD_TND, verify);
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
