/* Mistakes with chunk_gated_delta_rule. SPDX-License-Identifier: Apache-2.0 */
#include "op_fixture.h"

typedef struct chunk_fix {
  op_fix op;
  rd_chunk_gated_delta_rule_params p;
} chunk_fix;

static void *chunk_make(void) {
  chunk_fix *v = op_fix_make(sizeof *v);
  rd_chunk_gated_delta_rule_params *p = &v->p;
  rd_chunk_gated_delta_rule_init(p);
  p->query = op_input(RD_F16, 4, SH(3, 2, 5, 32));
  p->key = op_input(RD_F16, 4, SH(3, 2, 5, 32));
  p->value = op_input(RD_F16, 4, SH(3, 4, 5, 16));
  p->beta = op_input(RD_F16, 3, SH(3, 4, 5));
  p->g = op_input(RD_F32, 3, SH(3, 4, 5));
  tb state = op_zeros(RD_F32, 4, SH(3, 4, 32, 16));
  watch_add(&v->op.w, state.b);
  p->state = state.t;
  p->actual_seq_lengths = op_ints(&v->op, 3, (int32_t[]){5, 0, 3});
  p->out = op_watched(&v->op, RD_F16, 4, SH(3, 4, 5, 16));
  p->final_state = op_watched(&v->op, RD_F32, 4, SH(3, 4, 32, 16));
  return v;
}
static rd_status chunk(void *fixture) {
  chunk_fix *v = fixture;
  return rd_chunk_gated_delta_rule(v->op.cx, v->op.no_params ? NULL : &v->p);
}
static void chunk_slips(void *fixture, slips *s) {
  chunk_fix *v = fixture;
  SLIP("no context", RD_E_NULL, NULL, v->op.cx = NULL);
  SLIP("no params", RD_E_NULL, "params", v->op.no_params = true);
  SLIP("struct_size", RD_E_STRUCT_SIZE, "struct_size|params", v->p.struct_size--);
  SLIP("numerics 7", RD_E_ENUM, "numerics", v->p.numerics = (rd_numerics)7);
  SLIP("query absent", RD_E_NULL, "query", ABSENT(v->p.query));
  SLIP("key absent", RD_E_NULL, "key", ABSENT(v->p.key));
  SLIP("value absent", RD_E_NULL, "value", ABSENT(v->p.value));
  SLIP("beta absent", RD_E_NULL, "beta", ABSENT(v->p.beta));
  SLIP("state absent", RD_E_NULL, "state", ABSENT(v->p.state));
  SLIP("actual_seq_lengths absent", RD_E_NULL, "actual_seq_lengths",
       ABSENT(v->p.actual_seq_lengths));
  SLIP("out absent", RD_E_NULL, "out", ABSENT(v->p.out));
  SLIP("final_state absent", RD_E_NULL, "final_state", ABSENT(v->p.final_state));
  SLIP("query at null", RD_E_NULL, "query", v->p.query.data = NULL);
  SLIP("query of integers", RD_E_DTYPE, "query", v->p.query.dtype = RD_I32);
  SLIP("key of another type", RD_E_DTYPE, "key", v->p.key.dtype = RD_BF16);
  SLIP("beta of another type", RD_E_DTYPE, "beta", v->p.beta.dtype = RD_F32);
  SLIP("g without a type", RD_E_DTYPE, "g", UNTYPED(v->p.g));
  SLIP("query without a type", RD_E_DTYPE, "query", UNTYPED(v->p.query));
  SLIP("g f16", RD_E_DTYPE, "g", v->p.g.dtype = RD_F16);
  SLIP("state neither f32 nor as query", RD_E_DTYPE, "state", v->p.state.dtype = RD_BF16);
  SLIP("final_state unlike state", RD_E_DTYPE, "final_state", v->p.final_state.dtype = RD_F16);
  SLIP("out of another type", RD_E_DTYPE, "out", v->p.out.dtype = RD_F32);
  SLIP("actual_seq_lengths i64", RD_E_DTYPE, "actual_seq_lengths",
       v->p.actual_seq_lengths.dtype = RD_I64);
  SLIP("query of rank 3", RD_E_RANK, "query", v->p.query.rank = 3);
  SLIP("beta of rank 2", RD_E_RANK, "beta", v->p.beta.rank = 2);
  SLIP("state of rank 3", RD_E_RANK, "state", v->p.state.rank = 3);
  SLIP("actual_seq_lengths of rank 2", RD_E_RANK, "actual_seq_lengths",
       v->p.actual_seq_lengths.rank = 2);
  SLIP("key with other heads", RD_E_SHAPE, "key", v->p.key.shape[1] = 1);
  SLIP("key with other K", RD_E_SHAPE, "key", v->p.key.shape[3] = 16);
  SLIP("key with fewer tokens", RD_E_SHAPE, "key", v->p.key.shape[2] = 4);
  SLIP("g with other heads", RD_E_SHAPE, "g", v->p.g.shape[1] = 3);
  SLIP("state in VK", RD_E_SHAPE, "state", {
    v->p.state.shape[2] = 16;
    v->p.state.shape[3] = 32;
  });
  SLIP("final_state of another batch", RD_E_SHAPE, "final_state", v->p.final_state.shape[0] = 2);
  SLIP("out with other V", RD_E_SHAPE, "out", v->p.out.shape[3] = 8);
  SLIP("too few lengths", RD_E_SHAPE, "actual_seq_lengths", v->p.actual_seq_lengths.shape[0] = 2);
  SLIP("heads not divisible", RD_E_HEADS, NULL, {
    v->p.query.shape[1] = v->p.key.shape[1] = 3;
    v->p.query.shape[2] = v->p.key.shape[2] = 5;
    v->p.query.stride[1] = v->p.key.stride[1] = 0;
  });
  SLIP("K 513", RD_E_SHAPE, NULL, {
    v->p.query.shape[3] = v->p.key.shape[3] = 513;
    v->p.state.shape[2] = v->p.final_state.shape[2] = 513;
    for (int i = 0; i < 3; i++)
      v->p.query.stride[i] = v->p.key.stride[i] = v->p.state.stride[i] = 0;
  });
  SLIP("a negative stride", RD_E_STRIDE, "value", v->p.value.stride[1] = -1);
  SLIP("innermost stride 2", RD_E_STRIDE, "query", v->p.query.stride[3] = 2);
  SLIP("out overlapping itself", RD_E_STRIDE, "out", v->p.out.stride[2] = 8);
  SLIP("final_state with stride 0", RD_E_STRIDE, "final_state", v->p.final_state.stride[0] = 0);
  SLIP("out on value", RD_E_ALIAS, "out", v->p.out.data = v->p.value.data);
  SLIP("final_state on part of state", RD_E_ALIAS, "final_state",
       v->p.final_state.data = (float *)v->p.state.data + 16);
  SLIP("out on final_state", RD_E_ALIAS, "out|final_state", v->p.out.data = v->p.final_state.data);
  SLIP("final_state on the lengths", RD_E_ALIAS, "final_state|actual_seq_lengths",
       v->p.final_state.data = v->p.actual_seq_lengths.data);
  SLIP("scale infinite", RD_E_SCALE, "scale_value", v->p.scale_value = (double)INFINITY);
  SLIP("scale beyond f32", RD_E_SCALE, "scale_value", v->p.scale_value = -4e38);
  SLIP("a negative length", RD_E_LENGTH, "actual_seq_lengths", v->op.ints[1] = -1);
  SLIP("a length over T", RD_E_LENGTH, "actual_seq_lengths", v->op.ints[2] = 6);
}
static void c_chunk(void) { misuse_op("chunk", chunk_slips, chunk_make, chunk); }

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"chunk", c_chunk, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_op_chunk", cases, PT_LEN(cases));
}
