/* Mistakes with chunk_gated_delta_rule, flash_kda, flash_kda_metadata and fused_recurrent_kda.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "kit/kda.h"
#include "misuse.h"

typedef struct ofix {
  op_fix op;
  rd_chunk_gated_delta_rule_params c;
  rd_flash_kda_params f;
  rd_flash_kda_metadata_params m;
  rd_fused_recurrent_kda_params r;
  int32_t *ints; /* lengths, prefix sums, indices or counts, to spoil */
  int64_t n;
  int64_t *n_out;
} ofix;

static tb zeros(rd_dtype t, int rank, const int64_t *shape) {
  tb r = tb_make(t, rank, shape, NULL);
  memset(r.b->p, 0, r.b->bytes);
  return r;
}
static rd_tensor in(rd_dtype t, int rank, const int64_t *shape) { return zeros(t, rank, shape).t; }
static rd_tensor watched(ofix *v, rd_dtype t, int rank, const int64_t *shape) {
  tb r = tb_make(t, rank, shape, NULL);
  watch_add(&v->op.w, r.b);
  return r.t;
}
static rd_tensor ints(ofix *v, int64_t n, const int32_t *x) {
  tb t = tb_i32(n, x);
  mem_writable(t.b);
  v->ints = t.t.data;
  return t.t;
}
#define SH(...)    ((int64_t[]){__VA_ARGS__})

#define V(fn, ...) OP_SLIP(ofix, fn, __VA_ARGS__)

/* ------------------------------------------------------------------ chunk -------------------- */
static void *chunk_make(void) {
  ofix *v = op_fix_make(sizeof *v);
  rd_chunk_gated_delta_rule_params *c = &v->c;
  rd_chunk_gated_delta_rule_init(c);
  c->query = in(RD_F16, 4, SH(3, 2, 5, 32));
  c->key = in(RD_F16, 4, SH(3, 2, 5, 32));
  c->value = in(RD_F16, 4, SH(3, 4, 5, 16));
  c->beta = in(RD_F16, 3, SH(3, 4, 5));
  c->g = in(RD_F32, 3, SH(3, 4, 5));
  tb state = zeros(RD_F32, 4, SH(3, 4, 32, 16));
  watch_add(&v->op.w, state.b);
  c->state = state.t;
  c->actual_seq_lengths = ints(v, 3, (int32_t[]){5, 0, 3});
  c->out = watched(v, RD_F16, 4, SH(3, 4, 5, 16));
  c->final_state = watched(v, RD_F32, 4, SH(3, 4, 32, 16));
  return v;
}
static rd_status chunk(void *fixture) {
  ofix *v = fixture;
  return rd_chunk_gated_delta_rule(v->op.cx, v->op.no_params ? NULL : &v->c);
}
V(c_size, v->c.struct_size--)
V(c_numerics, v->c.numerics = (rd_numerics)7)
V(c_q, ABSENT(v->c.query))
V(c_k, ABSENT(v->c.key))
V(c_v, ABSENT(v->c.value))
V(c_beta, ABSENT(v->c.beta))
V(c_state, ABSENT(v->c.state))
V(c_len, ABSENT(v->c.actual_seq_lengths))
V(c_out, ABSENT(v->c.out))
V(c_final, ABSENT(v->c.final_state))
V(c_q_null, v->c.query.data = NULL)
V(c_q_type, v->c.query.dtype = RD_I32)
V(c_k_type, v->c.key.dtype = RD_BF16)
V(c_beta_type, v->c.beta.dtype = RD_F32)
V(c_g_type, v->c.g.dtype = RD_F16)
V(c_state_type, v->c.state.dtype = RD_BF16)
V(c_final_type, v->c.final_state.dtype = RD_F16)
V(c_out_type, v->c.out.dtype = RD_F32)
V(c_len_type, v->c.actual_seq_lengths.dtype = RD_I64)
V(c_q_rank, v->c.query.rank = 3)
V(c_beta_rank, v->c.beta.rank = 2)
V(c_state_rank, v->c.state.rank = 3)
V(c_len_rank, v->c.actual_seq_lengths.rank = 2)
V(c_k_heads, v->c.key.shape[1] = 1)
V(c_k_width, v->c.key.shape[3] = 16)
V(c_k_tokens, v->c.key.shape[2] = 4)
V(c_g_heads, v->c.g.shape[1] = 3)
V(c_state_swapped, {
  v->c.state.shape[2] = 16;
  v->c.state.shape[3] = 32;
})
V(c_final_batch, v->c.final_state.shape[0] = 2)
V(c_out_width, v->c.out.shape[3] = 8)
V(c_len_short, v->c.actual_seq_lengths.shape[0] = 2)
V(c_heads, {
  v->c.query.shape[1] = v->c.key.shape[1] = 3;
  v->c.query.shape[2] = v->c.key.shape[2] = 5;
  v->c.query.stride[1] = v->c.key.stride[1] = 0;
})
V(c_wide, {
  v->c.query.shape[3] = v->c.key.shape[3] = 513;
  v->c.state.shape[2] = v->c.final_state.shape[2] = 513;
  for (int i = 0; i < 3; i++) v->c.query.stride[i] = v->c.key.stride[i] = v->c.state.stride[i] = 0;
})
V(c_stride, v->c.value.stride[1] = -1)
V(c_inner, v->c.query.stride[3] = 2)
V(c_out_overlap, v->c.out.stride[2] = 8)
V(c_final_zero, v->c.final_state.stride[0] = 0)
V(c_out_alias, v->c.out.data = v->c.value.data)
V(c_final_partial, v->c.final_state.data = (float *)v->c.state.data + 16)
V(c_out_final, v->c.out.data = v->c.final_state.data)
V(c_final_len, v->c.final_state.data = v->c.actual_seq_lengths.data)
V(c_scale, v->c.scale_value = (double)INFINITY)
V(c_scale_big, v->c.scale_value = -4e38)
V(c_len_neg, v->ints[1] = -1)
V(c_len_long, v->ints[2] = 6)
static const op_slip chunk_slips[] = {
    {"no context", op_no_ctx, RD_E_NULL, NULL},
    {"no params", op_no_params, RD_E_NULL, "params"},
    {"struct_size", c_size, RD_E_STRUCT_SIZE, "struct_size|params"},
    {"numerics 7", c_numerics, RD_E_ENUM, "numerics"},
    {"query absent", c_q, RD_E_NULL, "query"},
    {"key absent", c_k, RD_E_NULL, "key"},
    {"value absent", c_v, RD_E_NULL, "value"},
    {"beta absent", c_beta, RD_E_NULL, "beta"},
    {"state absent", c_state, RD_E_NULL, "state"},
    {"actual_seq_lengths absent", c_len, RD_E_NULL, "actual_seq_lengths"},
    {"out absent", c_out, RD_E_NULL, "out"},
    {"final_state absent", c_final, RD_E_NULL, "final_state"},
    {"query at null", c_q_null, RD_E_NULL, "query"},
    {"query of integers", c_q_type, RD_E_DTYPE, "query"},
    {"key of another type", c_k_type, RD_E_DTYPE, "key"},
    {"beta of another type", c_beta_type, RD_E_DTYPE, "beta"},
    {"g f16", c_g_type, RD_E_DTYPE, "g"},
    {"state neither f32 nor as query", c_state_type, RD_E_DTYPE, "state"},
    {"final_state unlike state", c_final_type, RD_E_DTYPE, "final_state"},
    {"out of another type", c_out_type, RD_E_DTYPE, "out"},
    {"actual_seq_lengths i64", c_len_type, RD_E_DTYPE, "actual_seq_lengths"},
    {"query of rank 3", c_q_rank, RD_E_RANK, "query"},
    {"beta of rank 2", c_beta_rank, RD_E_RANK, "beta"},
    {"state of rank 3", c_state_rank, RD_E_RANK, "state"},
    {"actual_seq_lengths of rank 2", c_len_rank, RD_E_RANK, "actual_seq_lengths"},
    {"key with other heads", c_k_heads, RD_E_SHAPE, "key"},
    {"key with other K", c_k_width, RD_E_SHAPE, "key"},
    {"key with fewer tokens", c_k_tokens, RD_E_SHAPE, "key"},
    {"g with other heads", c_g_heads, RD_E_SHAPE, "g"},
    {"state in VK", c_state_swapped, RD_E_SHAPE, "state"},
    {"final_state of another batch", c_final_batch, RD_E_SHAPE, "final_state"},
    {"out with other V", c_out_width, RD_E_SHAPE, "out"},
    {"too few lengths", c_len_short, RD_E_SHAPE, "actual_seq_lengths"},
    {"heads not divisible", c_heads, RD_E_HEADS, NULL},
    {"K 513", c_wide, RD_E_SHAPE, NULL},
    {"a negative stride", c_stride, RD_E_STRIDE, "value"},
    {"innermost stride 2", c_inner, RD_E_STRIDE, "query"},
    {"out overlapping itself", c_out_overlap, RD_E_STRIDE, "out"},
    {"final_state with stride 0", c_final_zero, RD_E_STRIDE, "final_state"},
    {"out on value", c_out_alias, RD_E_ALIAS, "out"},
    {"final_state on part of state", c_final_partial, RD_E_ALIAS, "final_state"},
    {"out on final_state", c_out_final, RD_E_ALIAS, "out|final_state"},
    {"final_state on the lengths", c_final_len, RD_E_ALIAS, "final_state|actual_seq_lengths"},
    {"scale infinite", c_scale, RD_E_SCALE, "scale_value"},
    {"scale beyond f32", c_scale_big, RD_E_SCALE, "scale_value"},
    {"a negative length", c_len_neg, RD_E_LENGTH, "actual_seq_lengths"},
    {"a length over T", c_len_long, RD_E_LENGTH, "actual_seq_lengths"},
};
static void c_chunk(void) {
  misuse_op("chunk", chunk_slips, PT_LEN(chunk_slips), chunk_make, chunk);
}

/* ------------------------------------------------------------------ flash_kda ---------------- */
static void *flash_make(void) {
  ofix *v = op_fix_make(sizeof *v);
  rd_flash_kda_params *f = &v->f;
  rd_flash_kda_init(f);
  f->q = in(RD_BF16, 4, SH(2, 1, 5, 128));
  f->k = in(RD_BF16, 4, SH(2, 1, 5, 128));
  f->v = in(RD_BF16, 4, SH(2, 2, 5, 128));
  f->g = in(RD_BF16, 4, SH(2, 2, 5, 128));
  f->beta = in(RD_BF16, 3, SH(2, 2, 5));
  tb state = zeros(RD_F32, 4, SH(2, 2, 128, 128));
  watch_add(&v->op.w, state.b);
  f->initial_state = state.t;
  f->A_log = in(RD_F32, 1, SH(2));
  f->dt_bias = in(RD_F32, 2, SH(2, 128));
  f->out = watched(v, RD_BF16, 4, SH(2, 2, 5, 128));
  f->final_state = watched(v, RD_F32, 4, SH(2, 2, 128, 128));
  rd_flash_kda_metadata_params *m = &v->m;
  rd_flash_kda_metadata_init(m);
  m->q = f->q;
  m->v = f->v;
  m->initial_state = f->initial_state;
  m->layout_qkv = RD_BNSD;
  m->cu_seqlens = ints(v, 3, (int32_t[]){0, 5, 8});
  v->n = 0;
  v->n_out = &v->n;
  rd_context *c = cx_get(0, 2, EX_POOL);
  CK_OK(c, rd_flash_kda_metadata_size(c, m, &v->n));
  m->metadata = watched(v, RD_I32, 1, SH(v->n));
  return v;
}
/* With metadata for lengths 5 and 3. */
static void *flash_scheduled(void) {
  ofix *v = flash_make();
  rd_context *c = cx_get(0, 2, EX_POOL);
  CK_OK(c, rd_flash_kda_metadata(c, &v->m));
  v->f.metadata = v->m.metadata;
  return v;
}
static rd_status flash(void *fixture) {
  ofix *v = fixture;
  return rd_flash_kda(v->op.cx, v->op.no_params ? NULL : &v->f);
}
V(f_size, v->f.struct_size = 1)
V(f_layout, v->f.layout_qkv = (rd_layout_qkv)9)
V(f_numerics, v->f.numerics = (rd_numerics)0)
V(f_has_scale, v->f.has_scale = -1)
V(f_q, ABSENT(v->f.q))
V(f_k, ABSENT(v->f.k))
V(f_v, ABSENT(v->f.v))
V(f_g, ABSENT(v->f.g))
V(f_beta, ABSENT(v->f.beta))
V(f_state, ABSENT(v->f.initial_state))
V(f_A, ABSENT(v->f.A_log))
V(f_dt, ABSENT(v->f.dt_bias))
V(f_out, ABSENT(v->f.out))
V(f_final, ABSENT(v->f.final_state))
V(f_q_type, v->f.q.dtype = RD_F16)
V(f_g_type, v->f.g.dtype = RD_F32)
V(f_state_type, v->f.initial_state.dtype = RD_BF16)
V(f_A_type, v->f.A_log.dtype = RD_BF16)
V(f_out_type, v->f.out.dtype = RD_F32)
V(f_k_rank, v->f.k.rank = 3)
V(f_beta_rank, v->f.beta.rank = 2)
V(f_k_heads, v->f.k.shape[1] = 2)
V(f_q_width, v->f.q.shape[3] = 64)
V(f_v_tokens, v->f.v.shape[2] = 4)
V(f_g_heads, v->f.g.shape[1] = 1)
V(f_state_heads, v->f.initial_state.shape[1] = 1)
V(f_final_batch, v->f.final_state.shape[0] = 1)
V(f_dt_width, v->f.dt_bias.shape[1] = 127)
V(f_k_stride, v->f.k.stride[0] += 2)
V(f_out_stride, v->f.out.stride[0] = 1)
V(f_heads, {
  rd_flash_kda_params *f = &v->f;
  int64_t three[4] = {2, 3, 5, 128};
  f->q = in(RD_BF16, 4, three);
  f->k = in(RD_BF16, 4, three);
})
V(f_out_alias, v->f.out.data = v->f.g.data)
V(f_final_partial, v->f.final_state.data = (float *)v->f.initial_state.data + 64)
V(f_final_A, v->f.final_state.data = v->f.dt_bias.data)
V(f_scale, {
  v->f.has_scale = 1;
  v->f.scale = (double)NAN;
})
V(f_bound, v->f.lower_bound = -6)
V(f_bound_up, v->f.lower_bound = 1)
static const op_slip flash_slips[] = {
    {"no context", op_no_ctx, RD_E_NULL, NULL},
    {"no params", op_no_params, RD_E_NULL, "params"},
    {"struct_size 1", f_size, RD_E_STRUCT_SIZE, "struct_size|params"},
    {"layout 9", f_layout, RD_E_ENUM, "layout_qkv"},
    {"numerics 0", f_numerics, RD_E_ENUM, "numerics"},
    {"has_scale -1", f_has_scale, RD_E_ENUM, "has_scale"},
    {"q absent", f_q, RD_E_NULL, "q"},
    {"k absent", f_k, RD_E_NULL, "k"},
    {"v absent", f_v, RD_E_NULL, "v"},
    {"g absent", f_g, RD_E_NULL, "g"},
    {"beta absent", f_beta, RD_E_NULL, "beta"},
    {"initial_state absent", f_state, RD_E_NULL, "initial_state"},
    {"A_log absent", f_A, RD_E_NULL, "A_log"},
    {"dt_bias absent", f_dt, RD_E_NULL, "dt_bias"},
    {"out absent", f_out, RD_E_NULL, "out"},
    {"final_state absent", f_final, RD_E_NULL, "final_state"},
    {"q f16", f_q_type, RD_E_DTYPE, "q"},
    {"g f32", f_g_type, RD_E_DTYPE, "g"},
    {"initial_state bf16", f_state_type, RD_E_DTYPE, "initial_state"},
    {"A_log bf16", f_A_type, RD_E_DTYPE, "A_log"},
    {"out f32", f_out_type, RD_E_DTYPE, "out"},
    {"k of rank 3", f_k_rank, RD_E_RANK, "k"},
    {"beta of rank 2", f_beta_rank, RD_E_RANK, "beta"},
    {"k with other heads", f_k_heads, RD_E_SHAPE, "k"},
    {"q 64 wide", f_q_width, RD_E_SHAPE, "q"},
    {"v with fewer tokens", f_v_tokens, RD_E_SHAPE, "v"},
    {"g with fewer heads", f_g_heads, RD_E_SHAPE, "g"},
    {"initial_state with fewer heads", f_state_heads, RD_E_SHAPE, "initial_state"},
    {"final_state of another batch", f_final_batch, RD_E_SHAPE, "final_state"},
    {"dt_bias 127 wide", f_dt_width, RD_E_SHAPE, "dt_bias"},
    {"k with gaps", f_k_stride, RD_E_STRIDE, "k"},
    {"out overlapping itself", f_out_stride, RD_E_STRIDE, "out"},
    {"heads not divisible", f_heads, RD_E_HEADS, NULL},
    {"out on g", f_out_alias, RD_E_ALIAS, "out"},
    {"final_state on part of initial_state", f_final_partial, RD_E_ALIAS, "final_state"},
    {"final_state on dt_bias", f_final_A, RD_E_ALIAS, "final_state"},
    {"scale NaN", f_scale, RD_E_SCALE, "scale"},
    {"lower_bound -6", f_bound, RD_E_LOWER_BOUND, "lower_bound"},
    {"lower_bound 1", f_bound_up, RD_E_LOWER_BOUND, "lower_bound"},
};
static int32_t *meta(ofix *v) { return v->f.metadata.data; }
V(x_type, v->f.metadata.dtype = RD_F32)
V(x_rank, {
  v->f.metadata.rank = 2;
  v->f.metadata.shape[1] = v->f.metadata.stride[1] = 1;
})
V(x_magic, meta(v)[0] ^= 1)
V(x_version, meta(v)[1] += 1)
V(x_short, v->f.metadata.shape[0]--)
V(x_last, meta(v)[v->n - 1] ^= 4)
V(x_shapes, {
  int64_t a[4] = {2, 1, 6, 128}, b[4] = {2, 2, 6, 128};
  rd_flash_kda_params *f = &v->f;
  f->q = in(RD_BF16, 4, a);
  f->k = in(RD_BF16, 4, a);
  f->v = in(RD_BF16, 4, b);
  f->g = in(RD_BF16, 4, b);
  f->beta = in(RD_BF16, 3, SH(2, 2, 6));
  f->out = in(RD_BF16, 4, b);
})
V(x_layout, {
  int64_t a[4] = {2, 5, 1, 128}, b[4] = {2, 5, 2, 128};
  rd_flash_kda_params *f = &v->f;
  f->layout_qkv = RD_BSND;
  f->q = in(RD_BF16, 4, a);
  f->k = in(RD_BF16, 4, a);
  f->v = in(RD_BF16, 4, b);
  f->g = in(RD_BF16, 4, b);
  f->beta = in(RD_BF16, 3, SH(2, 5, 2));
  f->out = in(RD_BF16, 4, b);
})
static const op_slip schedule_slips[] = {
    {"metadata of floats", x_type, RD_E_DTYPE, "metadata"},
    {"metadata of rank 2", x_rank, RD_E_RANK, "metadata"},
    {"another mark", x_magic, RD_E_METADATA, "metadata"},
    {"another version", x_version, RD_E_METADATA, "metadata"},
    {"metadata cut short", x_short, RD_E_METADATA, "metadata"},
    {"a damaged last number", x_last, RD_E_METADATA, "metadata"},
    {"metadata of shorter sequences", x_shapes, RD_E_METADATA, "metadata"},
    {"metadata of another layout", x_layout, RD_E_METADATA, "metadata"},
};
static void c_flash(void) {
  misuse_op("flash_kda", flash_slips, PT_LEN(flash_slips), flash_make, flash);
  misuse_op("flash_kda with metadata", schedule_slips, PT_LEN(schedule_slips), flash_scheduled,
            flash);
}
/* Every number of the metadata is covered. */
static void damaged_metadata(void) {
  ofix *v = flash_scheduled();
  for (int64_t i = 0; i < v->n; i++)
    for (int bit = 0; bit < 32; bit += 7) {
      meta(v)[i] ^= (int32_t)(1u << bit);
      rd_status st = flash(v);
      CK(st == RD_E_METADATA, "bit %d of number %lld is not noticed: %s", bit, (long long)i,
         rd_status_name(st));
      meta(v)[i] ^= (int32_t)(1u << bit);
    }
  CK_OK(v->op.cx, flash(v));
  float a = 1, b = 1;
  ck_bits("(teeth need a comparison)", &a, &b, 1);
}

static rd_status metadata(void *fixture) {
  ofix *v = fixture;
  return rd_flash_kda_metadata(v->op.cx, v->op.no_params ? NULL : &v->m);
}
static rd_status metadata_size(void *fixture) {
  ofix *v = fixture;
  return rd_flash_kda_metadata_size(v->op.cx, v->op.no_params ? NULL : &v->m, v->n_out);
}
V(m_size, v->m.struct_size = 0)
V(m_layout, v->m.layout_qkv = (rd_layout_qkv)0)
V(m_q, ABSENT(v->m.q))
V(m_v, ABSENT(v->m.v))
V(m_state, ABSENT(v->m.initial_state))
V(m_q_type, v->m.q.dtype = RD_F32)
V(m_v_rank, v->m.v.rank = 3)
V(m_v_width, v->m.v.shape[3] = 64)
V(m_heads, {
  v->m.q.shape[1] = 3;
  v->m.q.stride[0] = 3 * 5 * 128;
})
V(m_state_heads, v->m.initial_state.shape[1] = 3)
V(m_cu_type, v->m.cu_seqlens.dtype = RD_F32)
V(m_cu_rank, v->m.cu_seqlens.rank = 2)
V(m_cu_short, v->m.cu_seqlens.shape[0] = 2)
V(m_cu_start, v->ints[0] = 2)
V(m_cu_order, v->ints[2] = 4)
V(m_cu_long, v->ints[2] = 11)
static const op_slip both_slips[] = {
    {"no context", op_no_ctx, RD_E_NULL, NULL},
    {"no params", op_no_params, RD_E_NULL, "params"},
    {"struct_size 0", m_size, RD_E_STRUCT_SIZE, "struct_size|params"},
    {"layout 0", m_layout, RD_E_ENUM, "layout_qkv"},
    {"q absent", m_q, RD_E_NULL, "q"},
    {"v absent", m_v, RD_E_NULL, "v"},
    {"initial_state absent", m_state, RD_E_NULL, "initial_state"},
    {"q f32", m_q_type, RD_E_DTYPE, "q"},
    {"v of rank 3", m_v_rank, RD_E_RANK, "v"},
    {"v 64 wide", m_v_width, RD_E_SHAPE, "v"},
    {"heads not divisible", m_heads, RD_E_HEADS, NULL},
    {"initial_state with more heads", m_state_heads, RD_E_SHAPE, "initial_state"},
    {"cu_seqlens of floats", m_cu_type, RD_E_DTYPE, "cu_seqlens"},
    {"cu_seqlens of rank 2", m_cu_rank, RD_E_RANK, "cu_seqlens"},
    {"cu_seqlens too short", m_cu_short, RD_E_SHAPE, "cu_seqlens"},
    {"cu_seqlens from 2", m_cu_start, RD_E_CU_START, "cu_seqlens"},
    {"cu_seqlens falling", m_cu_order, RD_E_CU_ORDER, "cu_seqlens"},
    {"a length over S", m_cu_long, RD_E_LENGTH, "cu_seqlens"},
};
V(m_meta, ABSENT(v->m.metadata))
V(m_meta_null, v->m.metadata.data = NULL)
V(m_meta_type, v->m.metadata.dtype = RD_I64)
V(m_meta_short, v->m.metadata.shape[0]--)
V(m_meta_alias, v->m.metadata.data = v->m.cu_seqlens.data)
static const op_slip meta_slips[] = {
    {"metadata absent", m_meta, RD_E_NULL, "metadata"},
    {"metadata at null", m_meta_null, RD_E_NULL, "metadata"},
    {"metadata i64", m_meta_type, RD_E_DTYPE, "metadata"},
    {"metadata too short", m_meta_short, RD_E_SHAPE, "metadata"},
    {"metadata on cu_seqlens", m_meta_alias, RD_E_ALIAS, "metadata"},
};
V(m_no_n, v->n_out = NULL)
static const op_slip size_slips[] = {{"nowhere to put the size", m_no_n, RD_E_NULL, "n"}};
static void c_metadata(void) {
  misuse_op("flash_kda_metadata", both_slips, PT_LEN(both_slips), flash_make, metadata);
  misuse_op("flash_kda_metadata", meta_slips, PT_LEN(meta_slips), flash_make, metadata);
  misuse_op("flash_kda_metadata_size", both_slips, PT_LEN(both_slips), flash_make, metadata_size);
  misuse_op("flash_kda_metadata_size", size_slips, PT_LEN(size_slips), flash_make, metadata_size);
}

/* ------------------------------------------------------------------ fused_recurrent ---------- */
static ofix *fused(bool tnd) {
  ofix *v = op_fix_make(sizeof *v);
  rd_fused_recurrent_kda_params *r = &v->r;
  rd_fused_recurrent_kda_init(r);
  r->layout_qkv = tnd ? RD_TND : RD_BSND;
  r->mixedqkv = tnd ? in(RD_BF16, 2, SH(6, 768)) : in(RD_BF16, 3, SH(2, 3, 768));
  r->beta = tnd ? in(RD_BF16, 3, SH(6, 2, 1)) : in(RD_BF16, 4, SH(2, 3, 2, 1));
  r->g = tnd ? in(RD_BF16, 3, SH(6, 2, 128)) : in(RD_BF16, 4, SH(2, 3, 2, 128));
  tb state = zeros(RD_F32, 4, SH(8, 2, 128, 128));
  watch_add(&v->op.w, state.b);
  r->state = state.t;
  r->A_log = in(RD_F32, 1, SH(2));
  r->dt_bias = in(RD_F32, 2, SH(2, 128));
  r->out = tnd ? watched(v, RD_BF16, 3, SH(6, 2, 128)) : watched(v, RD_BF16, 4, SH(2, 3, 2, 128));
  r->num_accepted_tokens = ints(v, 2, (int32_t[]){1, 2});
  r->ssm_state_indices = ints(v, 6, (int32_t[]){7, 0, 3, 2, 5, 1});
  if (tnd) r->cu_seqlens = ints(v, 3, (int32_t[]){0, 2, 6});
  return v;
}
static void *fused_batched(void) { return fused(false); }
static void *fused_tnd(void) { return fused(true); }
static rd_status fused_call(void *fixture) {
  ofix *v = fixture;
  return rd_fused_recurrent_kda(v->op.cx, v->op.no_params ? NULL : &v->r);
}
static int32_t *idx(ofix *v) { return v->r.ssm_state_indices.data; }
static int32_t *acc(ofix *v) { return v->r.num_accepted_tokens.data; }
V(r_size, v->r.struct_size += 4)
V(r_layout, v->r.layout_qkv = (rd_layout_qkv)0)
V(r_mixed, ABSENT(v->r.mixedqkv))
V(r_state, ABSENT(v->r.state))
V(r_beta, ABSENT(v->r.beta))
V(r_g, ABSENT(v->r.g))
V(r_A, ABSENT(v->r.A_log))
V(r_dt, ABSENT(v->r.dt_bias))
V(r_out, ABSENT(v->r.out))
V(r_state_type, v->r.state.dtype = RD_F16)
V(r_g_type, v->r.g.dtype = RD_F16)
V(r_idx_type, v->r.ssm_state_indices.dtype = RD_I64)
V(r_acc_type, v->r.num_accepted_tokens.dtype = RD_F32)
V(r_state_rank, v->r.state.rank = 3)
V(r_idx_rank, v->r.ssm_state_indices.rank = 2)
V(r_state_heads, v->r.state.shape[1] = 1)
V(r_few, {
  v->r.state.shape[0] = 5;
  idx(v)[0] = 4;
  idx(v)[4] = 0;
  idx(v)[1] = 1;
  idx(v)[5] = 1;
  ABSENT(v->r.ssm_state_indices);
})
V(r_idx_short, v->r.ssm_state_indices.shape[0] = 5)
V(r_acc_short, v->r.num_accepted_tokens.shape[0] = 1)
V(r_idx_negative, idx(v)[2] = -1)
V(r_idx_past, idx(v)[2] = 8)
V(r_idx_twice, idx(v)[2] = 7)
V(r_acc_negative, acc(v)[0] = -1)
V(r_acc_large, acc(v)[0] = 4)
V(r_state_stride, v->r.state.stride[0] = 100)
V(r_out_state, v->r.out.data = v->r.state.data)
V(r_state_g, v->r.state.data = v->r.g.data)
V(r_out_idx, v->r.out.data = v->r.ssm_state_indices.data)
V(r_scale, {
  v->r.has_scale = 1;
  v->r.scale = -(double)INFINITY;
})
V(r_bound, v->r.lower_bound = -5.01)
static const op_slip fused_slips[] = {
    {"no context", op_no_ctx, RD_E_NULL, NULL},
    {"no params", op_no_params, RD_E_NULL, "params"},
    {"struct_size", r_size, RD_E_STRUCT_SIZE, "struct_size|params"},
    {"layout 0", r_layout, RD_E_ENUM, "layout_qkv"},
    {"mixedqkv absent", r_mixed, RD_E_NULL, "mixedqkv"},
    {"state absent", r_state, RD_E_NULL, "state"},
    {"beta absent", r_beta, RD_E_NULL, "beta"},
    {"g absent", r_g, RD_E_NULL, "g"},
    {"A_log absent", r_A, RD_E_NULL, "A_log"},
    {"dt_bias absent", r_dt, RD_E_NULL, "dt_bias"},
    {"out absent", r_out, RD_E_NULL, "out"},
    {"state f16", r_state_type, RD_E_DTYPE, "state"},
    {"g f16", r_g_type, RD_E_DTYPE, "g"},
    {"ssm_state_indices i64", r_idx_type, RD_E_DTYPE, "ssm_state_indices"},
    {"num_accepted_tokens of floats", r_acc_type, RD_E_DTYPE, "num_accepted_tokens"},
    {"state of rank 3", r_state_rank, RD_E_RANK, "state"},
    {"ssm_state_indices of rank 2", r_idx_rank, RD_E_RANK, "ssm_state_indices"},
    {"state with fewer heads", r_state_heads, RD_E_SHAPE, "state"},
    {"fewer slots than tokens", r_few, RD_E_SHAPE, "state"},
    {"too few indices", r_idx_short, RD_E_SHAPE, "ssm_state_indices"},
    {"too few accepted counts", r_acc_short, RD_E_SHAPE, "num_accepted_tokens"},
    {"index -1", r_idx_negative, RD_E_SLOT_RANGE, "ssm_state_indices"},
    {"index past the pool", r_idx_past, RD_E_SLOT_RANGE, "ssm_state_indices"},
    {"an index twice", r_idx_twice, RD_E_SLOT_DUPLICATE, "ssm_state_indices"},
    {"accepted -1", r_acc_negative, RD_E_ACCEPTED, "num_accepted_tokens"},
    {"accepted over the length", r_acc_large, RD_E_ACCEPTED, "num_accepted_tokens"},
    {"slots that overlap", r_state_stride, RD_E_STRIDE, "state"},
    {"out on the state", r_out_state, RD_E_ALIAS, "out|state"},
    {"the state on g", r_state_g, RD_E_ALIAS, "state|g"},
    {"out on the indices", r_out_idx, RD_E_ALIAS, "out"},
    {"scale infinite", r_scale, RD_E_SCALE, "scale"},
    {"lower_bound -5.01", r_bound, RD_E_LOWER_BOUND, "lower_bound"},
};
static int32_t *cu(ofix *v) { return v->r.cu_seqlens.data; }
V(r_cu_given, v->r.cu_seqlens = v->r.num_accepted_tokens)
static const op_slip fused_batched_slips[] = {
    {"cu_seqlens given", r_cu_given, RD_E_PRESENCE, "cu_seqlens"}};
V(r_cu, ABSENT(v->r.cu_seqlens))
V(r_cu_type, v->r.cu_seqlens.dtype = RD_I64)
V(r_cu_start, cu(v)[0] = 1)
V(r_cu_flat, cu(v)[1] = 0)
V(r_cu_end, cu(v)[2] = 5)
static const op_slip fused_tnd_slips[] = {
    {"cu_seqlens absent", r_cu, RD_E_NULL, "cu_seqlens"},
    {"cu_seqlens i64", r_cu_type, RD_E_DTYPE, "cu_seqlens"},
    {"cu_seqlens from 1", r_cu_start, RD_E_CU_START, "cu_seqlens"},
    {"an empty sequence", r_cu_flat, RD_E_CU_ORDER, "cu_seqlens"},
    {"cu_seqlens ending early", r_cu_end, RD_E_CU_END, "cu_seqlens"},
};
static void c_fused(void) {
  misuse_op("fused_recurrent_kda", fused_slips, PT_LEN(fused_slips), fused_batched, fused_call);
  misuse_op("fused_recurrent_kda TND", fused_slips, PT_LEN(fused_slips), fused_tnd, fused_call);
  misuse_op("fused_recurrent_kda", fused_batched_slips, PT_LEN(fused_batched_slips), fused_batched,
            fused_call);
  misuse_op("fused_recurrent_kda TND", fused_tnd_slips, PT_LEN(fused_tnd_slips), fused_tnd,
            fused_call);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"chunk", c_chunk, PT_QUICK},
      {"flash", c_flash, PT_QUICK},
      {"damaged_metadata", damaged_metadata, PT_QUICK},
      {"metadata", c_metadata, PT_QUICK},
      {"fused", c_fused, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_op_others", cases, PT_LEN(cases));
}
