/* Plans: a checked problem, and what the context makes of it at its maximum shapes. */
#include "core/check.h"
#include "core/context.h"
#include "core/cut.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/slots.h"
#include "exec/cancel.h"
#include "util/allocate.h"
#include "util/checked.h"

/* Snapshots longer than this are no decode; their first call grows the arena itself. */
enum { SNAPSHOT_TOKENS = 64 };

/* Scratch of the largest verb: the slices of a run at every cut that may occur, before it the sets
 * of slots of the checks. Smaller batches make more row blocks of fewer rows, never larger lanes.
 * Without a limit only what one sequence needs is reserved: the lanes are all, larger sets grow the
 * arena once. */
static int scratch_of(const rd_problem *p, const rdi_kernels *k, int64_t threads, size_t *bytes) {
  const int64_t slices = threads == 1 ? 1 : RDI_SLICES_PER_THREAD * threads;
  const int64_t batch = p->max_batch < 0 ? 1 : p->max_batch;
  const int64_t longest = p->max_tokens < 0 ? INT64_MAX : p->max_tokens;
  const int64_t nodes = rdi_min64(longest, RDI_TREE_NODES);
  const rdi_lane_size largest = {.row_block = p->V,
                                 .K = p->K,
                                 .heads = p->Hv,
                                 .V = p->V,
                                 .nodes = nodes,
                                 .path = nodes,
                                 .gathers = 1};
  int64_t tokens;
  if (!rdi_mul64(batch, rdi_min64(longest, SNAPSHOT_TOKENS) + 1, &tokens) ||
      !rdi_run_scratch(k, slices, threads, &largest, bytes))
    return 0;
  const size_t once = rdi_slot_scratch(batch), snapshots = rdi_slot_scratch(tokens);
  if (snapshots > SIZE_MAX / 8) return 0;
  return rdi_addsz(*bytes, once + snapshots + 4 * 64, bytes);
}

static rd_status make_info(rd_context *ctx, rd_plan *plan) {
  const rd_problem *p = &plan->problem;
  const rdi_kernels *k = rdi_context_kernels(ctx);
  rd_plan_info *info = &plan->info;
  info->struct_size = sizeof *info;
  info->threads = rd_context_threads(ctx);
  rdi_cut cut;
  if (!rdi_cut_make(&cut, info->threads, info->threads, p->max_batch == 1, INT64_MAX,
                    rdi_max64(p->max_batch, 0), p->Hv, p->V) ||
      !scratch_of(p, k, info->threads, &info->scratch_bytes))
    return rdi_fail(ctx, RD_E_OVERFLOW,
                    "problem.max_batch: the work or its scratch does not fit 64 bits");
  info->row_block = p->max_batch < 0 ? p->V : cut.row_block;
  info->work_items = cut.items;
  info->rows_kernel = k->serving[RDI_SLOT_rows].name;
  info->commit_kernel = k->serving[RDI_SLOT_commit].name;
  info->prep_kernel = k->serving[RDI_SLOT_prep].name;
  const int chunks = rdi_has_chunks(&k->fast, p->gate, p->gate_axis, p->qkv_dtype, p->K);
  info->fast_prefill_kernel = k->serving[chunks ? RDI_SLOT_chunk : RDI_SLOT_pairs].name;
  info->fast_verify_kernel = k->serving[RDI_SLOT_spread].name;
  const int64_t decay = p->gate == RD_GATE_NONE ? 0 : p->gate_axis == RD_PER_CHANNEL ? p->K : 1;
  int64_t key, value, decays;
  if (!rdi_mul64(p->Hk, p->K * (int64_t)rd_dtype_size(p->record_dtype), &key) ||
      !rdi_mul64(p->Hv, p->V * (int64_t)rd_dtype_size(p->record_dtype), &value) ||
      !rdi_mul64(p->Hv, decay * (int64_t)rd_dtype_size(p->decay_dtype), &decays) ||
      !rdi_add64(key, value, &key) || !rdi_add64(key, decays, &key) ||
      !rdi_mul64(p->Hv, p->V * p->K * (int64_t)sizeof(float), &value))
    return rdi_fail(ctx, RD_E_OVERFLOW, "problem.Hv: the bytes of one token do not fit 64 bits");
  info->record_bytes_per_token = (size_t)key;
  info->snapshot_bytes_per_token = (size_t)value;
  return RD_OK;
}

static rd_status create(rd_context *ctx, const rd_problem *problem, rd_plan **out) {
  rd_plan made = {.allocator = *rdi_context_allocator(ctx), .isa = rdi_context_isa(ctx)};
  rd_status status = rdi_problem_take(ctx, problem, &made.problem, &made.math);
  if (status == RD_OK) status = make_info(ctx, &made);
  if (status == RD_OK) status = rdi_scratch_need(ctx, made.info.scratch_bytes);
  if (status != RD_OK) return status;
  rd_plan *plan = rdi_allocate(&made.allocator, sizeof *plan, _Alignof(max_align_t));
  if (!plan)
    return rdi_fail(ctx, RD_E_NOMEM, "plan: the allocator has no %zu aligned bytes", sizeof *plan);
  *plan = made;
  *out = plan;
  return RD_OK;
}

rd_status rd_plan_create(rd_context *ctx, const rd_problem *problem, rd_plan **out) {
  if (out) *out = NULL;
  RDI_TRY(rdi_enter(ctx));
  if (!out) return rdi_leave(ctx, rdi_fail(ctx, RD_E_NULL, "out: required, got NULL"));
  return rdi_leave(ctx, create(ctx, problem, out));
}

void rd_plan_destroy(rd_plan *plan) {
  if (!plan) return;
  const rd_allocator allocator = plan->allocator;
  const int cancel = rdi_cancel_disable();
  allocator.release(allocator.self, plan, sizeof *plan);
  rdi_cancel_restore(cancel);
}

rd_status rd_plan_scratch(rd_context *ctx, const rd_plan *plan, size_t *bytes) {
  RDI_TRY(rdi_enter(ctx));
  if (!plan || !bytes)
    return rdi_leave(ctx,
                     rdi_fail(ctx, RD_E_NULL, "%s: required, got NULL", plan ? "bytes" : "plan"));
  size_t need;
  if (!scratch_of(&plan->problem, rdi_context_kernels(ctx), rd_context_threads(ctx), &need))
    return rdi_leave(ctx, rdi_fail(ctx, RD_E_OVERFLOW,
                                   "plan: the scratch of this context does not fit 64 bits"));
  *bytes = need;
  return rdi_leave(ctx, RD_OK);
}

rd_status rd_plan_get_info(const rd_plan *plan, rd_plan_info *info) {
  if (!plan || !info) return RD_E_NULL;
  RDI_TRY(rdi_struct_check_size(RDI_STRUCT_PLAN_INFO, info->struct_size));
  const size_t first = sizeof info->struct_size; /* which stays the caller's */
  rdi_struct_put(info, &plan->info, first, sizeof *info - first);
  return RD_OK;
}
