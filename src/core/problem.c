/* The problem description: defaults, validation, and its numbers rounded once to f32. */
#include "core/problem.h"

#include <inttypes.h>
#include <math.h>

#include "core/check.h"
#include "core/context.h"
#include "util/c2.h"
#include "util/tensor.h"

void rd_problem_init_sized(rd_problem *problem, size_t struct_size) {
  static const rd_problem defaults = {
      .layout = RD_PADDED,
      .gate = RD_GATE_LOG,
      .gate_axis = RD_PER_CHANNEL,
      .lower_bound = -5.0,
      .beta = RD_BETA_VALUE,
      .beta_times = 1,
      .qk_norm = RD_QK_AS_IS,
      .l2_eps = 1e-6,
      .head_map = RD_HEADS_GROUPED,
      .numerics = RD_EXACT,
      .qkv_dtype = RD_F32,
      .gate_dtype = RD_F32,
      .beta_dtype = RD_F32,
      .out_dtype = RD_F32,
      .state_layout = RD_STATE_VK,
      .state_dtype = RD_F32,
      .record_dtype = RD_F32,
      .decay_dtype = RD_F32,
      .pad_slot = -1,
  };
  rdi_struct_init(problem, struct_size, &defaults, sizeof defaults);
}

static rd_status check_enums(rd_context *ctx, const rd_problem *p) {
  const struct {
    const char *name;
    int64_t value, lo, hi;
  } fields[] = {
      {"layout", p->layout, RD_PADDED, RD_PACKED},
      {"gate", p->gate, RD_GATE_NONE, RD_GATE_DECAY},
      {"gate_axis", p->gate_axis, RD_PER_HEAD, RD_PER_CHANNEL},
      {"beta", p->beta, RD_BETA_VALUE, RD_BETA_LOGIT},
      {"beta_times", p->beta_times, 1, 2},
      {"qk_norm", p->qk_norm, RD_QK_AS_IS, RD_QK_L2},
      {"has_scale", p->has_scale, 0, 1},
      {"head_map", p->head_map, RD_HEADS_GROUPED, RD_HEADS_TILED},
      {"numerics", p->numerics, RD_EXACT, RD_FAST},
      {"state_layout", p->state_layout, RD_STATE_VK, RD_STATE_KV},
  };
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].value < fields[i].lo || fields[i].value > fields[i].hi)
      return rdi_fail(ctx, RD_E_ENUM,
                      "problem.%s: expected %" PRId64 " to %" PRId64 ", got %" PRId64,
                      fields[i].name, fields[i].lo, fields[i].hi, fields[i].value);
  return RD_OK;
}

static rd_status check_dtypes(rd_context *ctx, const rd_problem *p) {
  const struct {
    const char *name, *expected;
    int32_t value;
    int set;
  } fields[] = {
      {"qkv_dtype", "f32, f16 or bf16", p->qkv_dtype, RDI_DT_FLOAT},
      {"gate_dtype", "f32, f16 or bf16", p->gate == RD_GATE_NONE ? RD_F32 : p->gate_dtype,
       RDI_DT_FLOAT},
      {"beta_dtype", "f32, f16 or bf16", p->beta_dtype, RDI_DT_FLOAT},
      {"out_dtype", "f32, f16 or bf16", p->out_dtype, RDI_DT_FLOAT},
      {"state_dtype", "f32, f16 or bf16", p->state_dtype, RDI_DT_FLOAT},
      {"record_dtype", "f32 or f16", p->record_dtype, RDI_DT_F32 | RDI_DT_F16},
      {"decay_dtype", "f32 or f16", p->decay_dtype, RDI_DT_F32 | RDI_DT_F16},
  };
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if ((unsigned)fields[i].value > RD_I64 || !(fields[i].set & 1 << fields[i].value))
      return rdi_fail(ctx, RD_E_DTYPE, "problem.%s: expected %s, got %s", fields[i].name,
                      fields[i].expected, rdi_dtype_name(fields[i].value));
  return RD_OK;
}

static rd_status check_sizes(rd_context *ctx, const rd_problem *p) {
  RDI_TRY(rdi_check_heads(ctx, "problem.Hk", p->Hk, "problem.Hv", p->Hv));
  if (p->K < 1 || p->K > RDI_MAX_DIM)
    return rdi_fail(ctx, RD_E_SHAPE, "problem.K: expected 1 to %d, got %" PRId64, RDI_MAX_DIM,
                    p->K);
  if (p->V < 1 || p->V > RDI_MAX_DIM)
    return rdi_fail(ctx, RD_E_SHAPE, "problem.V: expected 1 to %d, got %" PRId64, RDI_MAX_DIM,
                    p->V);
  if (p->max_batch < RD_UNLIMITED)
    return rdi_fail(ctx, RD_E_SHAPE,
                    "problem.max_batch: expected -1 (no limit) or more, got %" PRId64,
                    p->max_batch);
  if (p->max_tokens < RD_UNLIMITED)
    return rdi_fail(ctx, RD_E_SHAPE,
                    "problem.max_tokens: expected -1 (no limit) or more, got %" PRId64,
                    p->max_tokens);
  return RD_OK;
}

rd_status rdi_problem_take(rd_context *ctx, const rd_problem *given, rd_problem *p,
                           rdi_math *math) {
  rd_status status = rdi_check_struct(ctx, RDI_STRUCT_PROBLEM, "problem", given, p);
  if (status == RD_OK) status = check_enums(ctx, p);
  if (status == RD_OK) status = check_dtypes(ctx, p);
  if (status == RD_OK) status = check_sizes(ctx, p);
  if (status != RD_OK) return status;
  *math = (rdi_math){
      .gate = p->gate,
      .axis = p->gate_axis,
      .beta_kind = p->beta,
      .head_map = p->head_map,
      .numerics = p->numerics,
      .l2norm = p->qk_norm == RD_QK_L2,
      .eps = rdi_c2_narrow(p->l2_eps),
      .beta_times = (float)p->beta_times,
      .Hk = p->Hk,
      .Hv = p->Hv,
      .K = p->K,
      .V = p->V,
      .Kp = (p->K + 15) / 16 * 16,
      .pad_slot = p->pad_slot,
  };
  status = rdi_check_scale(ctx, "problem.scale", !p->has_scale, p->scale, p->K, &math->scale);
  if (status == RD_OK && p->gate == RD_GATE_LOWER_BOUND)
    status = rdi_check_lower_bound(ctx, "problem.lower_bound", p->lower_bound, &math->lb);
  if (status != RD_OK) return status;
  if (!(p->l2_eps >= 0) || !isfinite(math->eps) || (math->eps == 0 && p->l2_eps != 0))
    return rdi_fail(ctx, RD_E_EPS,
                    "problem.l2_eps: expected 0, or at least 2^-126 and finite in f32, got %g",
                    p->l2_eps);
  return RD_OK;
}
