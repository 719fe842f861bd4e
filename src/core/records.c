/* Memory for replay records: all arrays of a set in one block of the caller's. */
#include <inttypes.h>
#include <string.h>

#include "core/check.h"
#include "core/context.h"
#include "core/problem.h"
#include "util/checked.h"
#include "util/tensor.h"

enum { ALIGN = 64, TENSORS = 4 };

/* Where the arrays of a block begin; each on a multiple of ALIGN. */
typedef struct layout {
  int64_t shape[TENSORS][4]; /* u, k, decay, parents */
  int32_t dtype[TENSORS], rank[TENSORS];
  size_t at[TENSORS], lengths, generation, bytes;
} layout;

/* Reserves a place for `count` elements of `size` bytes. Returns 0 when they do not fit. */
static int place(size_t *end, size_t count, size_t size, size_t *at) {
  size_t bytes;
  *at = *end;
  return rdi_mulsz(count, size, &bytes) && rdi_addsz(*end, bytes, end) &&
         rdi_round_up(*end, ALIGN, end) && *end <= PTRDIFF_MAX;
}

static int make(const rd_problem *p, int64_t batch, int64_t C, layout *l) {
  const int channels = p->gate_axis == RD_PER_CHANNEL;
  *l = (layout){.shape = {{batch, C, p->Hv, p->V},
                          {batch, C, p->Hk, p->K},
                          {batch, C, p->Hv, p->K},
                          {batch, C}},
                .dtype = {p->record_dtype, p->record_dtype, p->decay_dtype, RD_I32},
                .rank = {4, 4, channels ? 4 : 3, 2}};
  if (p->gate == RD_GATE_NONE) l->dtype[2] = RD_ABSENT;
  for (int i = 0; i < TENSORS; i++) {
    int64_t n = 1;
    for (int j = 0; j < l->rank[i]; j++)
      if (!rdi_mul64(n, l->shape[i][j], &n)) return 0;
    if (!place(&l->bytes, (size_t)n, rd_dtype_size((rd_dtype)l->dtype[i]), &l->at[i])) return 0;
  }
  return place(&l->bytes, (size_t)batch, sizeof(int32_t), &l->lengths) &&
         place(&l->bytes, 1, sizeof(int64_t), &l->generation);
}

static rd_status check(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C, layout *l) {
  if (!plan) return rdi_fail(ctx, RD_E_NULL, "plan: required, got NULL");
  if (batch < 0)
    return rdi_fail(ctx, RD_E_SHAPE, "batch: expected at least 0, got %" PRId64, batch);
  if (C < 0) return rdi_fail(ctx, RD_E_SHAPE, "C: expected at least 0, got %" PRId64, C);
  if (make(&plan->problem, batch, C, l)) return RD_OK;
  return rdi_fail(ctx, RD_E_OVERFLOW,
                  "batch: the records of %" PRId64 " sequences of %" PRId64
                  " tokens do not fit the address space",
                  batch, C);
}

static rd_status bytes_of(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C,
                          size_t *bytes) {
  layout l;
  RDI_TRY(check(ctx, plan, batch, C, &l));
  if (!bytes) return rdi_fail(ctx, RD_E_NULL, "bytes: required, got NULL");
  *bytes = l.bytes;
  return RD_OK;
}

static rd_status carve(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C, void *block,
                       size_t bytes, rd_records *records) {
  layout l;
  rd_records made;
  RDI_TRY(rdi_check_struct(ctx, RDI_STRUCT_RECORDS, "records", records, &made));
  RDI_TRY(check(ctx, plan, batch, C, &l));
  if (!block) return rdi_fail(ctx, RD_E_NULL, "block: required, got NULL");
  if ((uintptr_t)block % ALIGN)
    return rdi_fail(ctx, RD_E_STRIDE, "block: %p is not aligned to %d bytes", block, ALIGN);
  if (bytes < l.bytes)
    return rdi_fail(ctx, RD_E_BUFFER, "bytes: expected at least %zu, got %zu", l.bytes, bytes);
  char *base = block;
  rd_records_init(&made);
  rd_tensor *tensors[TENSORS] = {&made.u, &made.k, &made.decay, &made.parents};
  for (int i = 0; i < TENSORS; i++)
    if (l.dtype[i] != RD_ABSENT)
      *tensors[i] =
          rd_tensor_contiguous(base + l.at[i], (rd_dtype)l.dtype[i], l.rank[i], l.shape[i]);
  made.lengths = (int32_t *)(void *)(base + l.lengths);
  made.generation = (int64_t *)(void *)(base + l.generation);
  memset(made.lengths, 0, (size_t)batch * sizeof *made.lengths);
  *made.generation = 0;
  const size_t first = sizeof made.struct_size; /* which stays the caller's */
  rdi_struct_put(records, &made, first, sizeof made - first);
  return RD_OK;
}

rd_status rd_records_bytes(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C,
                           size_t *bytes) {
  const rd_status status = rdi_enter(ctx);
  return status != RD_OK ? status : rdi_leave(ctx, bytes_of(ctx, plan, batch, C, bytes));
}

rd_status rd_records_carve(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C,
                           void *block, size_t bytes, rd_records *records) {
  RDI_TRY(rdi_enter(ctx));
  return rdi_leave(ctx, carve(ctx, plan, batch, C, block, bytes, records));
}
