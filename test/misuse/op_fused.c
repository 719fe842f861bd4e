/* Mistakes with fused_recurrent_kda. SPDX-License-Identifier: Apache-2.0 */
#include "op_fixture.h"

typedef struct fused_fix {
  op_fix op;
  rd_fused_recurrent_kda_params r;
} fused_fix;

static fused_fix *fused(bool tnd) {
  fused_fix *v = op_fix_make(sizeof *v);
  rd_fused_recurrent_kda_params *r = &v->r;
  rd_fused_recurrent_kda_init(r);
  r->layout_qkv = tnd ? RD_TND : RD_BSND;
  r->mixedqkv = tnd ? op_input(RD_BF16, 2, SH(6, 768)) : op_input(RD_BF16, 3, SH(2, 3, 768));
  r->beta = tnd ? op_input(RD_BF16, 3, SH(6, 2, 1)) : op_input(RD_BF16, 4, SH(2, 3, 2, 1));
  r->g = tnd ? op_input(RD_BF16, 3, SH(6, 2, 128)) : op_input(RD_BF16, 4, SH(2, 3, 2, 128));
  tb state = op_zeros(RD_F32, 4, SH(8, 2, 128, 128));
  watch_add(&v->op.w, state.b);
  r->state = state.t;
  r->A_log = op_input(RD_F32, 1, SH(2));
  r->dt_bias = op_input(RD_F32, 2, SH(2, 128));
  r->out = tnd ? op_watched(&v->op, RD_BF16, 3, SH(6, 2, 128))
               : op_watched(&v->op, RD_BF16, 4, SH(2, 3, 2, 128));
  r->num_accepted_tokens = op_ints(&v->op, 2, (int32_t[]){1, 2});
  r->ssm_state_indices = op_ints(&v->op, 6, (int32_t[]){7, 0, 3, 2, 5, 1});
  if (tnd) r->cu_seqlens = op_ints(&v->op, 3, (int32_t[]){0, 2, 6});
  return v;
}
static void *fused_batched(void) { return fused(false); }
static void *fused_tnd(void) { return fused(true); }
static rd_status fused_call(void *fixture) {
  fused_fix *v = fixture;
  return rd_fused_recurrent_kda(v->op.cx, v->op.no_params ? NULL : &v->r);
}
static int32_t *idx(fused_fix *v) { return v->r.ssm_state_indices.data; }
static int32_t *acc(fused_fix *v) { return v->r.num_accepted_tokens.data; }
static void fused_slips(void *fixture, slips *s) {
  fused_fix *v = fixture;
  SLIP("no context", RD_E_NULL, NULL, v->op.cx = NULL);
  SLIP("no params", RD_E_NULL, "params", v->op.no_params = true);
  SLIP("struct_size", RD_E_STRUCT_SIZE, "struct_size|params", v->r.struct_size += 4);
  SLIP("layout 0", RD_E_ENUM, "layout_qkv", v->r.layout_qkv = (rd_layout_qkv)0);
  SLIP("mixedqkv absent", RD_E_NULL, "mixedqkv", ABSENT(v->r.mixedqkv));
  SLIP("state absent", RD_E_NULL, "state", ABSENT(v->r.state));
  SLIP("beta absent", RD_E_NULL, "beta", ABSENT(v->r.beta));
  SLIP("g absent", RD_E_NULL, "g", ABSENT(v->r.g));
  SLIP("A_log absent", RD_E_NULL, "A_log", ABSENT(v->r.A_log));
  SLIP("dt_bias absent", RD_E_NULL, "dt_bias", ABSENT(v->r.dt_bias));
  SLIP("out absent", RD_E_NULL, "out", ABSENT(v->r.out));
  SLIP("state f16", RD_E_DTYPE, "state", v->r.state.dtype = RD_F16);
  SLIP("g f16", RD_E_DTYPE, "g", v->r.g.dtype = RD_F16);
  SLIP("ssm_state_indices i64", RD_E_DTYPE, "ssm_state_indices",
       v->r.ssm_state_indices.dtype = RD_I64);
  SLIP("ssm_state_indices without a type", RD_E_DTYPE, "ssm_state_indices",
       UNTYPED(v->r.ssm_state_indices));
  SLIP("num_accepted_tokens without a type", RD_E_DTYPE, "num_accepted_tokens",
       UNTYPED(v->r.num_accepted_tokens));
  SLIP("num_accepted_tokens of floats", RD_E_DTYPE, "num_accepted_tokens",
       v->r.num_accepted_tokens.dtype = RD_F32);
  SLIP("state of rank 3", RD_E_RANK, "state", v->r.state.rank = 3);
  SLIP("ssm_state_indices of rank 2", RD_E_RANK, "ssm_state_indices",
       v->r.ssm_state_indices.rank = 2);
  SLIP("state with fewer heads", RD_E_SHAPE, "state", v->r.state.shape[1] = 1);
  SLIP("fewer slots than tokens", RD_E_SHAPE, "state", {
    v->r.state.shape[0] = 5;
    idx(v)[0] = 4;
    idx(v)[4] = 0;
    idx(v)[1] = 1;
    idx(v)[5] = 1;
    ABSENT(v->r.ssm_state_indices);
  });
  SLIP("too few indices", RD_E_SHAPE, "ssm_state_indices", v->r.ssm_state_indices.shape[0] = 5);
  SLIP("too few accepted counts", RD_E_SHAPE, "num_accepted_tokens",
       v->r.num_accepted_tokens.shape[0] = 1);
  SLIP("index -1", RD_E_SLOT_RANGE, "ssm_state_indices", idx(v)[2] = -1);
  SLIP("index past the pool", RD_E_SLOT_RANGE, "ssm_state_indices", idx(v)[2] = 8);
  SLIP("an index twice", RD_E_SLOT_DUPLICATE, "ssm_state_indices", idx(v)[2] = 7);
  SLIP("accepted -1", RD_E_ACCEPTED, "num_accepted_tokens", acc(v)[0] = -1);
  SLIP("accepted over the length", RD_E_ACCEPTED, "num_accepted_tokens", acc(v)[0] = 4);
  SLIP("slots that overlap", RD_E_STRIDE, "state", v->r.state.stride[0] = 100);
  SLIP("out on the state", RD_E_ALIAS, "out|state", v->r.out.data = v->r.state.data);
  SLIP("the state on g", RD_E_ALIAS, "state|g", v->r.state.data = v->r.g.data);
  SLIP("out on the indices", RD_E_ALIAS, "out", v->r.out.data = v->r.ssm_state_indices.data);
  SLIP("scale infinite", RD_E_SCALE, "scale", {
    v->r.has_scale = 1;
    v->r.scale = -(double)INFINITY;
  });
  SLIP("lower_bound -5.01", RD_E_LOWER_BOUND, "lower_bound", v->r.lower_bound = -5.01);
}
static int32_t *cu(fused_fix *v) { return v->r.cu_seqlens.data; }
static void fused_batched_slips(void *fixture, slips *s) {
  fused_fix *v = fixture;
  SLIP("cu_seqlens of an address alone", RD_E_DTYPE, "cu_seqlens",
       v->r.cu_seqlens.data = v->op.ints);
  SLIP("cu_seqlens given", RD_E_PRESENCE, "cu_seqlens", v->r.cu_seqlens = v->r.num_accepted_tokens);
}
static void fused_tnd_slips(void *fixture, slips *s) {
  fused_fix *v = fixture;
  SLIP("cu_seqlens absent", RD_E_NULL, "cu_seqlens", ABSENT(v->r.cu_seqlens));
  SLIP("cu_seqlens without a type", RD_E_DTYPE, "cu_seqlens", UNTYPED(v->r.cu_seqlens));
  SLIP("cu_seqlens i64", RD_E_DTYPE, "cu_seqlens", v->r.cu_seqlens.dtype = RD_I64);
  SLIP("cu_seqlens from 1", RD_E_CU_START, "cu_seqlens", cu(v)[0] = 1);
  SLIP("an empty sequence", RD_E_CU_ORDER, "cu_seqlens", cu(v)[1] = 0);
  SLIP("cu_seqlens ending early", RD_E_CU_END, "cu_seqlens", cu(v)[2] = 5);
}
static void c_fused(void) {
  misuse_op("fused_recurrent_kda", fused_slips, fused_batched, fused_call);
  misuse_op("fused_recurrent_kda TND", fused_slips, fused_tnd, fused_call);
  misuse_op("fused_recurrent_kda", fused_batched_slips, fused_batched, fused_call);
  misuse_op("fused_recurrent_kda TND", fused_tnd_slips, fused_tnd, fused_call);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"fused", c_fused, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_op_fused", cases, PT_LEN(cases));
}
