/* Mistakes in problems, plans, contexts and the small functions. SPDX-License-Identifier:
 * Apache-2.0 */
#include <stdio.h>

#include "misuse.h"

/* ------------------------------------------------------------------ problems ----------------- */
static void scale(rd_problem *p, double x) {
  p->has_scale = 1;
  p->scale = x;
}
static void lower_bound(rd_problem *p, double x) {
  p->gate = RD_GATE_LOWER_BOUND;
  p->lower_bound = x;
}
static void l2_eps(rd_problem *p, double x) {
  p->qk_norm = RD_QK_L2;
  p->l2_eps = x;
}

static void problem_slips(rd_problem *p, slips *s) {
  SLIP("struct_size 0", RD_E_STRUCT_SIZE, "struct_size|problem", p->struct_size = 0);
  SLIP("struct_size of a later version", RD_E_STRUCT_SIZE, "struct_size|problem",
       p->struct_size += 8);
  SLIP("layout 0", RD_E_ENUM, "layout", p->layout = (rd_layout)0);
  SLIP("layout 3", RD_E_ENUM, "layout", p->layout = (rd_layout)3);
  SLIP("gate 0", RD_E_ENUM, "gate", p->gate = (rd_gate)0);
  SLIP("gate 6", RD_E_ENUM, "gate", p->gate = (rd_gate)6);
  SLIP("gate_axis 0", RD_E_ENUM, "gate_axis", p->gate_axis = (rd_gate_axis)0);
  SLIP("gate_axis 3", RD_E_ENUM, "gate_axis", p->gate_axis = (rd_gate_axis)3);
  SLIP("beta 0", RD_E_ENUM, "beta", p->beta = (rd_beta)0);
  SLIP("beta 3", RD_E_ENUM, "beta", p->beta = (rd_beta)3);
  SLIP("beta_times 0", RD_E_ENUM, "beta_times", p->beta_times = 0);
  SLIP("beta_times 3", RD_E_ENUM, "beta_times", p->beta_times = 3);
  SLIP("qk_norm 0", RD_E_ENUM, "qk_norm", p->qk_norm = (rd_qk_norm)0);
  SLIP("qk_norm 3", RD_E_ENUM, "qk_norm", p->qk_norm = (rd_qk_norm)3);
  SLIP("head_map 0", RD_E_ENUM, "head_map", p->head_map = (rd_head_map)0);
  SLIP("head_map 3", RD_E_ENUM, "head_map", p->head_map = (rd_head_map)3);
  SLIP("numerics 0", RD_E_ENUM, "numerics", p->numerics = (rd_numerics)0);
  SLIP("numerics 3", RD_E_ENUM, "numerics", p->numerics = (rd_numerics)3);
  SLIP("state_layout 0", RD_E_ENUM, "state_layout", p->state_layout = (rd_state_layout)0);
  SLIP("state_layout 3", RD_E_ENUM, "state_layout", p->state_layout = (rd_state_layout)3);
  SLIP("has_scale 2", RD_E_ENUM, "has_scale", p->has_scale = 2);
  SLIP("has_scale -1", RD_E_ENUM, "has_scale", p->has_scale = -1);
  SLIP("qkv of integers", RD_E_DTYPE, "qkv_dtype", p->qkv_dtype = RD_I32);
  SLIP("qkv absent", RD_E_DTYPE, "qkv_dtype", p->qkv_dtype = RD_ABSENT);
  SLIP("gate of integers", RD_E_DTYPE, "gate_dtype", p->gate_dtype = RD_I64);
  SLIP("beta of an unknown type", RD_E_DTYPE, "beta_dtype", p->beta_dtype = (rd_dtype)9);
  SLIP("out of integers", RD_E_DTYPE, "out_dtype", p->out_dtype = RD_I32);
  SLIP("state of integers", RD_E_DTYPE, "state_dtype", p->state_dtype = RD_I32);
  SLIP("records in bf16", RD_E_DTYPE, "record_dtype", p->record_dtype = RD_BF16);
  SLIP("records of integers", RD_E_DTYPE, "record_dtype", p->record_dtype = RD_I32);
  SLIP("decay in bf16", RD_E_DTYPE, "decay_dtype", p->decay_dtype = RD_BF16);
  SLIP("no key heads", RD_E_HEADS, "Hk", p->Hk = 0);
  SLIP("negative key heads", RD_E_HEADS, "Hk", p->Hk = -2);
  SLIP("no value heads", RD_E_HEADS, "Hv", p->Hv = 0);
  SLIP("fewer value heads than key heads", RD_E_HEADS, "Hv", p->Hv = 1);
  SLIP("value heads not divisible", RD_E_HEADS, "Hv", p->Hv = 5);
  SLIP("K 0", RD_E_SHAPE, "K", p->K = 0);
  SLIP("K 513", RD_E_SHAPE, "K", p->K = 513);
  SLIP("V 0", RD_E_SHAPE, "V", p->V = 0);
  SLIP("V 513", RD_E_SHAPE, "V", p->V = 513);
  SLIP("V -1", RD_E_SHAPE, "V", p->V = -1);
  SLIP("max_batch -2", RD_E_SHAPE, "max_batch", p->max_batch = -2);
  SLIP("max_tokens -2", RD_E_SHAPE, "max_tokens", p->max_tokens = -2);
  SLIP("max_batch 2^63-1", RD_E_OVERFLOW, NULL, p->max_batch = INT64_MAX);
  SLIP("heads 2^62", RD_E_OVERFLOW, NULL, {
    p->Hk = p->Hv = INT64_MAX / 2;
    p->max_batch = 4;
  });
  SLIP("scale NaN", RD_E_SCALE, "scale", scale(p, (double)NAN));
  SLIP("scale infinite", RD_E_SCALE, "scale", scale(p, (double)INFINITY));
  SLIP("scale beyond f32", RD_E_SCALE, "scale", scale(p, 3.5e38));
  SLIP("scale beyond f32, negative", RD_E_SCALE, "scale", scale(p, -1e300));
  SLIP("lower_bound just below -5", RD_E_LOWER_BOUND, "lower_bound", lower_bound(p, -5.0000001));
  SLIP("lower_bound just above 0", RD_E_LOWER_BOUND, "lower_bound", lower_bound(p, 1e-300));
  SLIP("lower_bound NaN", RD_E_LOWER_BOUND, "lower_bound", lower_bound(p, (double)NAN));
  SLIP("lower_bound -inf", RD_E_LOWER_BOUND, "lower_bound", lower_bound(p, -(double)INFINITY));
  SLIP("l2_eps negative", RD_E_EPS, "l2_eps", l2_eps(p, -1e-9));
  SLIP("l2_eps NaN", RD_E_EPS, "l2_eps", l2_eps(p, (double)NAN));
  SLIP("l2_eps infinite", RD_E_EPS, "l2_eps", l2_eps(p, (double)INFINITY));
  SLIP("l2_eps that is subnormal in f32", RD_E_EPS, "l2_eps", l2_eps(p, 1e-38));
  SLIP("l2_eps that is nothing in f32", RD_E_EPS, "l2_eps", l2_eps(p, 1e-300));
  SLIP("l2_eps beyond f32", RD_E_EPS, "l2_eps", l2_eps(p, 1e300));
}

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
  for (slips s = {.turn = 0};; s = (slips){.turn = s.turn + 1}) {
    p = valid_problem();
    problem_slips(&p, &s);
    if (s.name == NULL) break;
    plan = (rd_plan *)(void *)&p;
    rd_status st = rd_plan_create(cx, &p, &plan);
    refused(s.name, cx, st, s.want, s.names);
    CK(plan == NULL, "%s: *out is not NULL", s.name);
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
  GOOD((p.qk_norm = RD_QK_L2, p.l2_eps = 0x1.ffffffp-127)); /* rounds up to 2^-126 */
  GOOD((p.has_scale = 1, p.scale = 0));
  GOOD((p.has_scale = 1, p.scale = 3.4028234e38));
  GOOD(p.K = 512);
  GOOD(p.V = 512);
  GOOD((p.K = 1, p.V = 1));
  GOOD((p.max_batch = 0, p.max_tokens = 0));
  GOOD(p.max_batch = p.max_tokens = RD_UNLIMITED);
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
