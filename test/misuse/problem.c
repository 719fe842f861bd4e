/* Mistakes in problems, plans, contexts and the small functions. SPDX-License-Identifier:
 * Apache-2.0 */
#include <stdio.h>

#include "misuse.h"

/* ------------------------------------------------------------------ problems ----------------- */
typedef struct slip {
  const char *name;
  void (*make)(rd_problem *p);
  rd_status want;
  const char *names;
} slip;

#define S(fn, body)                                                                                \
  static void fn(rd_problem *p) { body; }
S(size_zero, p->struct_size = 0)
S(size_big, p->struct_size += 8)
S(layout0, p->layout = (rd_layout)0)
S(layout3, p->layout = (rd_layout)3)
S(gate0, p->gate = (rd_gate)0)
S(gate6, p->gate = (rd_gate)6)
S(axis0, p->gate_axis = (rd_gate_axis)0)
S(axis3, p->gate_axis = (rd_gate_axis)3)
S(beta0, p->beta = (rd_beta)0)
S(beta3, p->beta = (rd_beta)3)
S(times0, p->beta_times = 0)
S(times3, p->beta_times = 3)
S(norm0, p->qk_norm = (rd_qk_norm)0)
S(norm3, p->qk_norm = (rd_qk_norm)3)
S(map0, p->head_map = (rd_head_map)0)
S(map3, p->head_map = (rd_head_map)3)
S(numerics0, p->numerics = (rd_numerics)0)
S(numerics3, p->numerics = (rd_numerics)3)
S(state_layout0, p->state_layout = (rd_state_layout)0)
S(state_layout3, p->state_layout = (rd_state_layout)3)
S(default2, p->scale_default = 2)
S(default_negative, p->scale_default = -1)
S(qkv_int, p->qkv_dtype = RD_I32)
S(qkv_none, p->qkv_dtype = RD_ABSENT)
S(gate_int, p->gate_dtype = RD_I64)
S(beta_bad, p->beta_dtype = (rd_dtype)9)
S(out_int, p->out_dtype = RD_I32)
S(state_int, p->state_dtype = RD_I32)
S(record_bf16, p->record_dtype = RD_BF16)
S(record_int, p->record_dtype = RD_I32)
S(decay_bf16, p->decay_dtype = RD_BF16)
S(hk0, p->Hk = 0)
S(hk_negative, p->Hk = -2)
S(hv0, p->Hv = 0)
S(hv_less, p->Hv = 1)
S(hv_odd, p->Hv = 5)
S(k0, p->K = 0)
S(k513, p->K = 513)
S(v0, p->V = 0)
S(v513, p->V = 513)
S(v_negative, p->V = -1)
S(batch_negative, p->max_batch = -1)
S(tokens_negative, p->max_tokens = -1)
S(batch_huge, p->max_batch = INT64_MAX)
S(heads_huge, {
  p->Hk = p->Hv = INT64_MAX / 2;
  p->max_batch = 4;
})
#define SCALE(fn, x)                                                                               \
  S(fn, {                                                                                          \
    p->scale_default = 0;                                                                          \
    p->scale = (x);                                                                                \
  })
SCALE(scale_nan, (double)NAN)
SCALE(scale_inf, (double)INFINITY)
SCALE(scale_f32, 3.5e38)
SCALE(scale_f32_minus, -1e300)
#define BOUND(fn, x)                                                                               \
  S(fn, {                                                                                          \
    p->gate = RD_GATE_LOWER_BOUND;                                                                 \
    p->lower_bound = (x);                                                                          \
  })
BOUND(bound_low, -5.0000001)
BOUND(bound_high, 1e-300)
BOUND(bound_nan, (double)NAN)
BOUND(bound_inf, -(double)INFINITY)
#define EPS(fn, x)                                                                                 \
  S(fn, {                                                                                          \
    p->qk_norm = RD_QK_L2;                                                                         \
    p->l2_eps = (x);                                                                               \
  })
EPS(eps_negative, -1e-9)
EPS(eps_nan, (double)NAN)
EPS(eps_inf, (double)INFINITY)
EPS(eps_f32, 1e300)

static const slip slips[] = {
    {"struct_size 0", size_zero, RD_E_STRUCT_SIZE, "struct_size|problem"},
    {"struct_size of a later version", size_big, RD_E_STRUCT_SIZE, "struct_size|problem"},
    {"layout 0", layout0, RD_E_ENUM, "layout"},
    {"layout 3", layout3, RD_E_ENUM, "layout"},
    {"gate 0", gate0, RD_E_ENUM, "gate"},
    {"gate 6", gate6, RD_E_ENUM, "gate"},
    {"gate_axis 0", axis0, RD_E_ENUM, "gate_axis"},
    {"gate_axis 3", axis3, RD_E_ENUM, "gate_axis"},
    {"beta 0", beta0, RD_E_ENUM, "beta"},
    {"beta 3", beta3, RD_E_ENUM, "beta"},
    {"beta_times 0", times0, RD_E_ENUM, "beta_times"},
    {"beta_times 3", times3, RD_E_ENUM, "beta_times"},
    {"qk_norm 0", norm0, RD_E_ENUM, "qk_norm"},
    {"qk_norm 3", norm3, RD_E_ENUM, "qk_norm"},
    {"head_map 0", map0, RD_E_ENUM, "head_map"},
    {"head_map 3", map3, RD_E_ENUM, "head_map"},
    {"numerics 0", numerics0, RD_E_ENUM, "numerics"},
    {"numerics 3", numerics3, RD_E_ENUM, "numerics"},
    {"state_layout 0", state_layout0, RD_E_ENUM, "state_layout"},
    {"state_layout 3", state_layout3, RD_E_ENUM, "state_layout"},
    {"scale_default 2", default2, RD_E_ENUM, "scale_default"},
    {"scale_default -1", default_negative, RD_E_ENUM, "scale_default"},
    {"qkv of integers", qkv_int, RD_E_DTYPE, "qkv_dtype"},
    {"qkv absent", qkv_none, RD_E_DTYPE, "qkv_dtype"},
    {"gate of integers", gate_int, RD_E_DTYPE, "gate_dtype"},
    {"beta of an unknown type", beta_bad, RD_E_DTYPE, "beta_dtype"},
    {"out of integers", out_int, RD_E_DTYPE, "out_dtype"},
    {"state of integers", state_int, RD_E_DTYPE, "state_dtype"},
    {"records in bf16", record_bf16, RD_E_DTYPE, "record_dtype"},
    {"records of integers", record_int, RD_E_DTYPE, "record_dtype"},
    {"decay in bf16", decay_bf16, RD_E_DTYPE, "decay_dtype"},
    {"no key heads", hk0, RD_E_HEADS, "Hk"},
    {"negative key heads", hk_negative, RD_E_HEADS, "Hk"},
    {"no value heads", hv0, RD_E_HEADS, "Hv"},
    {"fewer value heads than key heads", hv_less, RD_E_HEADS, "Hv"},
    {"value heads not divisible", hv_odd, RD_E_HEADS, "Hv"},
    {"K 0", k0, RD_E_SHAPE, "K"},
    {"K 513", k513, RD_E_SHAPE, "K"},
    {"V 0", v0, RD_E_SHAPE, "V"},
    {"V 513", v513, RD_E_SHAPE, "V"},
    {"V -1", v_negative, RD_E_SHAPE, "V"},
    {"max_batch -1", batch_negative, RD_E_SHAPE, "max_batch"},
    {"max_tokens -1", tokens_negative, RD_E_SHAPE, "max_tokens"},
    {"max_batch 2^63-1", batch_huge, RD_E_OVERFLOW, NULL},
    {"heads 2^62", heads_huge, RD_E_OVERFLOW, NULL},
    {"scale NaN", scale_nan, RD_E_SCALE, "scale"},
    {"scale infinite", scale_inf, RD_E_SCALE, "scale"},
    {"scale beyond f32", scale_f32, RD_E_SCALE, "scale"},
    {"scale beyond f32, negative", scale_f32_minus, RD_E_SCALE, "scale"},
    {"lower_bound just below -5", bound_low, RD_E_LOWER_BOUND, "lower_bound"},
    {"lower_bound just above 0", bound_high, RD_E_LOWER_BOUND, "lower_bound"},
    {"lower_bound NaN", bound_nan, RD_E_LOWER_BOUND, "lower_bound"},
    {"lower_bound -inf", bound_inf, RD_E_LOWER_BOUND, "lower_bound"},
    {"l2_eps negative", eps_negative, RD_E_EPS, "l2_eps"},
    {"l2_eps NaN", eps_nan, RD_E_EPS, "l2_eps"},
    {"l2_eps infinite", eps_inf, RD_E_EPS, "l2_eps"},
    {"l2_eps beyond f32", eps_f32, RD_E_EPS, "l2_eps"},
};

static rd_problem valid_problem(void) {
  rd_problem p = pb_default();
  p.max_batch = 3;
  p.max_tokens = 9;
  return p;
}

static void problems(void) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  rd_problem p = valid_problem();
  rd_plan *plan = NULL;
  for (size_t i = 0; i < PT_LEN(slips); i++) {
    p = valid_problem();
    slips[i].make(&p);
    plan = (rd_plan *)(void *)&p;
    rd_status st = rd_plan_create(cx, &p, &plan);
    refused(slips[i].name, cx, st, slips[i].want, slips[i].names);
    CK(plan == NULL, "%s: *out is not NULL", slips[i].name);
    if (st == RD_OK) rd_plan_destroy(plan);
  }
  p = valid_problem();
  CK_OK(cx, rd_plan_create(cx, &p, &plan));
  CK(rd_last_error(cx)[0] == 0, "a message after success");
  rd_plan_destroy(plan);
  refused("no problem", cx, rd_plan_create(cx, NULL, &plan), RD_E_NULL, "problem");
  refused("no out", cx, rd_plan_create(cx, &p, NULL), RD_E_NULL, "out");
  refused("no context", NULL, rd_plan_create(NULL, &p, &plan), RD_E_NULL, NULL);
  rd_plan_destroy(NULL);
  float a = 1, b = 1;
  ck_bits("(teeth need a comparison)", &a, &b, 1);
}

/* What is documented as ignored must be ignored, and the ends of every range accepted. */
static void accepted(void) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  rd_plan *plan = NULL;
#define GOOD(body)                                                                                 \
  do {                                                                                             \
    rd_problem p = valid_problem();                                                                \
    body;                                                                                          \
    pt_note("%s", #body);                                                                          \
    if (CK_OK(cx, rd_plan_create(cx, &p, &plan))) rd_plan_destroy(plan);                           \
  } while (0)
  GOOD(p.scale = (double)NAN);
  GOOD((p.gate = RD_GATE_NONE, p.gate_dtype = (rd_dtype)55));
  GOOD((p.gate = RD_GATE_LOWER_BOUND, p.lower_bound = 0));
  GOOD((p.gate = RD_GATE_LOWER_BOUND, p.lower_bound = -5));
  GOOD((p.qk_norm = RD_QK_L2, p.l2_eps = 0));
  GOOD((p.scale_default = 0, p.scale = 0));
  GOOD((p.scale_default = 0, p.scale = 3.4028234e38));
  GOOD(p.K = 512);
  GOOD(p.V = 512);
  GOOD((p.K = 1, p.V = 1));
  GOOD((p.max_batch = 0, p.max_tokens = 0));
  GOOD(p.pad_slot = INT32_MIN);
  float a = 1, b = 1;
  ck_bits("(teeth need a comparison)", &a, &b, 1);
}

static void plan_info(void) {
  rd_context *cx = cx_get(0, 2, EX_POOL);
  rd_problem p = valid_problem();
  rd_plan *plan = NULL;
  CK_OK(cx, rd_plan_create(cx, &p, &plan));
  rd_plan_info info = {.struct_size = sizeof info}, before;
  CK(rd_plan_get_info(plan, &info) == RD_OK, "plan info");
  CK(info.struct_size == sizeof info && info.threads == 2 && info.row_block >= 1 &&
         info.work_items >= 1,
     "plan info is empty");
  CK(info.rows_kernel && info.commit_kernel && info.prep_kernel, "kernels have no names");
  CK(info.record_bytes_per_token == Z(4 * 32 + 2 * 64 + 4 * 64) * 4, "record bytes %zu",
     info.record_bytes_per_token);
  CK(info.snapshot_bytes_per_token == Z(4 * 32 * 64) * 4, "snapshot bytes %zu",
     info.snapshot_bytes_per_token);
  CK(rd_plan_get_info(plan, NULL) == RD_E_NULL, "no info");
  CK(rd_plan_get_info(NULL, &info) == RD_E_NULL, "no plan");
  info.struct_size = 5;
  memcpy(&before, &info, sizeof info);
  CK(rd_plan_get_info(plan, &info) == RD_E_STRUCT_SIZE, "info of size 5");
  ck_bytes("info after an error", &info, &before, sizeof info);
  rd_plan_destroy(plan);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"problems", problems, PT_QUICK},
      {"accepted", accepted, PT_QUICK},
      {"plan_info", plan_info, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_problem", cases, PT_LEN(cases));
}
