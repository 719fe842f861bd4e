/* Checks of tensors and numbers. Slots have a file of their own (slots.c). */
#include "core/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/context.h"
#include "util/c2.h"
#include "util/checked.h"
#include "util/tensor.h"

rd_status rdi_check_struct(rd_context *ctx, rdi_struct kind, const char *name, const void *from,
                           void *to) {
  const rd_status status = rdi_struct_take(kind, from, to);
  size_t got;
  switch (status) {
  case RD_E_NULL:
    return rdi_fail(ctx, status, "%s: required, got NULL", name);
  case RD_E_STRUCT_SIZE:
    memcpy(&got, from, sizeof got);
    return rdi_fail(ctx, status,
                    "%s.struct_size: expected %zu or the size of an earlier version since 0.2, got "
                    "%zu (use the _init function)",
                    name, rdi_struct_newest(kind), got);
  case RD_E_PRESENCE:
    return rdi_fail(ctx, status, "%s: reserved fields must be zero in this version", name);
  default:
    return status;
  }
}

/* "f32, f16 or bf16" */
static const char *dtype_set(int set, char *text, size_t size) {
  static const rd_dtype all[] = {RD_F32, RD_F16, RD_BF16, RD_I32, RD_I64};
  const int total = __builtin_popcount((unsigned)set);
  size_t at = 0;
  int done = 0;
  text[0] = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!(set & 1 << all[i])) continue;
    const char *before = done == 0 ? "" : done + 1 == total ? " or " : ", ";
    const int n = snprintf(text + at, size - at, "%s%s", before, rdi_dtype_name(all[i]));
    if (n > 0 && (size_t)n < size - at) at += (size_t)n;
    done++;
  }
  return text;
}

/* "[2, 3, ?]"; ? for an extent that is free */
static const char *shape_text(const int64_t *shape, int rank, char *text, size_t size) {
  size_t at = 0;
  for (int i = 0; i < rank; i++) {
    const char *before = i ? ", " : "[";
    const int n = shape[i] < 0 ? snprintf(text + at, size - at, "%s?", before)
                               : snprintf(text + at, size - at, "%s%" PRId64, before, shape[i]);
    if (n < 0 || (size_t)n >= size - at) break;
    at += (size_t)n;
  }
  snprintf(text + at, size - at, "]");
  return text;
}

/* Rank and extents. A negative extent is printed as it came. */
static rd_status check_shape(rd_context *ctx, const char *name, const rd_tensor *t, int rank,
                             const int64_t *shape) {
  if (t->rank != rank)
    return rdi_fail(ctx, RD_E_RANK, "%s: expected %d dimensions, got %" PRId32, name, rank,
                    t->rank);
  for (int i = 0; i < rank; i++) {
    char want[96];
    if (t->shape[i] < 0)
      return rdi_fail(ctx, RD_E_SHAPE, "%s: dimension %d is negative (%" PRId64 ")", name, i,
                      t->shape[i]);
    if (shape[i] < 0 || t->shape[i] == shape[i]) continue;
    char got[96];
    return rdi_fail(ctx, RD_E_SHAPE, "%s: expected shape %s, got %s", name,
                    shape_text(shape, rank, want, sizeof want),
                    shape_text(t->shape, rank, got, sizeof got));
  }
  return RD_OK;
}

/* Elements are distinct when each stride steps over all that lies inside: dimensions taken by
 * rising stride, stride > span of the ones before. This refuses a few interleaved views that happen
 * to be free of overlap; they have no use as outputs. Returns the offending dimension or -1. */
static int shares_elements(const rd_tensor *t) {
  int done[RD_MAX_RANK] = {0};
  int64_t span = 0; /* offset of the last element of the dimensions done */
  for (int round = 0; round < t->rank; round++) {
    int least = -1;
    for (int i = 0; i < t->rank; i++)
      if (!done[i] && t->shape[i] > 1 && (least < 0 || t->stride[i] < t->stride[least])) least = i;
    if (least < 0) break;
    if (t->stride[least] <= span) return least;
    span += (t->shape[least] - 1) * t->stride[least]; /* fits: the extent was checked */
    done[least] = 1;
  }
  return -1;
}

static rd_status check_strides(rd_context *ctx, const char *name, const rd_tensor *t, int flags) {
  const int last = t->rank - 1;
  for (int i = 0; i < t->rank; i++)
    if (t->stride[i] < 0 && t->shape[i] > 1)
      return rdi_fail(ctx, RD_E_STRIDE, "%s: stride %d is negative (%" PRId64 ")", name, i,
                      t->stride[i]);
  int64_t bytes;
  if (!rdi_tensor_extent(t, &bytes))
    return rdi_fail(ctx, RD_E_OVERFLOW, "%s: the bytes it spans do not fit the address space",
                    name);
  if (rdi_tensor_empty(t)) return RD_OK;
  if (!(flags & RDI_ANY_INNER) && t->shape[last] > 1 && t->stride[last] != 1)
    return rdi_fail(ctx, RD_E_STRIDE, "%s: innermost stride must be 1, got %" PRId64, name,
                    t->stride[last]);
  if (flags & RDI_CONTIGUOUS) {
    int64_t want = 1;
    for (int i = last; i >= 0; i--) {
      if (t->shape[i] == 1) continue;
      if (t->stride[i] != want)
        return rdi_fail(ctx, RD_E_STRIDE,
                        "%s: must be contiguous: expected stride %d to be %" PRId64
                        ", got %" PRId64,
                        name, i, want, t->stride[i]);
      want *= t->shape[i];
    }
  } else if (flags & RDI_OUTPUT) {
    const int dim = shares_elements(t);
    if (dim >= 0)
      return rdi_fail(ctx, RD_E_STRIDE,
                      "%s: elements of an output share memory (stride %d is %" PRId64
                      ", expected more than the dimensions inside it span)",
                      name, dim, t->stride[dim]);
  }
  if ((uintptr_t)t->data & ((uintptr_t)rdi_size(t->dtype) - 1))
    return rdi_fail(ctx, RD_E_STRIDE, "%s: data %p is not aligned to its %zu-byte elements", name,
                    t->data, rd_dtype_size(t->dtype));
  return RD_OK;
}

/* The usual tensor, contiguous and with elements, passes here in few instructions; a call has a
 * dozen. Whatever is not clearly good goes the long way, which knows what to say. */
static int plainly_good(const rd_tensor *t, int dtypes, int rank, const int64_t *shape) {
  if ((unsigned)t->dtype > RD_I64 || !(dtypes & 1 << t->dtype) || t->rank != rank || !t->data)
    return 0;
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) {
    const int64_t e = t->shape[i];
    if (e < 1 || t->stride[i] != n || (shape[i] >= 0 && shape[i] != e)) return 0;
    if (!rdi_mul64(n, e, &n)) return 0;
  }
  const uintptr_t size = (uintptr_t)rdi_size(t->dtype), at = (uintptr_t)t->data;
  return (at & (size - 1)) == 0 && at <= INT64_MAX &&
         (uint64_t)n <= (INT64_MAX - (uint64_t)at) / size;
}

rd_status rdi_check_blank(rd_context *ctx, const char *name, const rd_tensor *t) {
  if (rdi_tensor_blank(t)) return RD_OK;
  return rdi_fail(ctx, RD_E_DTYPE,
                  "%s: has no element type, yet other fields are set (an absent "
                  "tensor is all zero)",
                  name);
}

rd_status rdi_check_absent(rd_context *ctx, const char *name, const rd_tensor *t, const char *why) {
  if (t->dtype == RD_ABSENT) return rdi_check_blank(ctx, name, t);
  return rdi_fail(ctx, RD_E_PRESENCE, "%s: must be absent %s", name, why);
}

rd_status rdi_check_tensor(rd_context *ctx, const char *name, const rd_tensor *t, int dtypes,
                           int rank, const int64_t *shape, int flags) {
  if (!t || t->dtype == RD_ABSENT) {
    if (t) RDI_TRY(rdi_check_blank(ctx, name, t));
    if (flags & RDI_OPTIONAL) return RD_OK;
    return rdi_fail(ctx, RD_E_NULL, "%s: required, but absent", name);
  }
  if (plainly_good(t, dtypes, rank, shape)) return RD_OK;
  if ((unsigned)t->dtype > RD_I64 || !(dtypes & 1 << t->dtype)) {
    char want[64];
    return rdi_fail(ctx, RD_E_DTYPE, "%s: expected %s, got %s", name,
                    dtype_set(dtypes, want, sizeof want), rdi_dtype_name(t->dtype));
  }
  rd_status status = check_shape(ctx, name, t, rank, shape);
  if (status == RD_OK) status = check_strides(ctx, name, t, flags);
  if (status != RD_OK) return status;
  if (!t->data && !rdi_tensor_empty(t))
    return rdi_fail(ctx, RD_E_NULL, "%s: data is NULL, but the tensor has elements", name);
  return RD_OK;
}

rd_status rdi_check_cu(rd_context *ctx, const char *name, const rd_tensor *cu, int64_t B,
                       int64_t total, int flags) {
  const int strict = flags & RDI_CU_RISES, exact_end = flags & RDI_CU_ALL;
  const int is64 = cu->dtype == RD_I64;
  int64_t before = rdi_index_at(cu->data, is64, 0);
  if (before != 0)
    return rdi_fail(ctx, RD_E_CU_START, "%s[0]: expected 0, got %" PRId64, name, before);
  for (int64_t b = 1; b <= B; b++) {
    const int64_t now = rdi_index_at(cu->data, is64, b);
    if (now < before || (strict && now == before))
      return rdi_fail(ctx, RD_E_CU_ORDER, "%s[%" PRId64 "]: expected %s %" PRId64 ", got %" PRId64,
                      name, b, strict ? "more than" : "at least", before, now);
    before = now;
  }
  if (before > total || (exact_end && before != total))
    return rdi_fail(ctx, RD_E_CU_END,
                    "%s[%" PRId64 "]: expected %s%" PRId64 " tokens, got %" PRId64, name, B,
                    exact_end ? "" : "at most ", total, before);
  return RD_OK;
}

rd_status rdi_check_range(rd_context *ctx, const char *name, const rd_tensor *t, int64_t lo,
                          int64_t hi, rd_status code) {
  const int is64 = t->dtype == RD_I64;
  for (int64_t i = 0; i < t->shape[0]; i++) {
    const int64_t x = rdi_index_at(t->data, is64, i);
    if (x < lo || x > hi)
      return rdi_fail(ctx, code,
                      "%s[%" PRId64 "]: expected %" PRId64 " to %" PRId64 ", got %" PRId64, name, i,
                      lo, hi, x);
  }
  return RD_OK;
}

typedef struct range {
  uintptr_t lo, hi;
} range;

static int may_be(const rdi_alias_entry *a, const rdi_alias_entry *b) {
  return a->same == b->t || a->same2 == b->t;
}

rd_status rdi_check_alias(rd_context *ctx, const rdi_alias_entry *entries, int count) {
  range at[RDI_ALIAS_MAX];
  if (count > RDI_ALIAS_MAX)
    return rdi_fail(ctx, RD_E_OVERFLOW, "%d tensors in one call, at most %d", count, RDI_ALIAS_MAX);
  for (int i = 0; i < count; i++) {
    int64_t bytes = 0;
    const rd_tensor *t = entries[i].t;
    at[i] = (range){0, 0};
    if (!t || t->dtype == RD_ABSENT || !rdi_tensor_extent(t, &bytes)) continue;
    at[i] = (range){(uintptr_t)t->data, (uintptr_t)t->data + (uintptr_t)bytes};
  }
  for (int i = 0; i < count; i++) {
    if (!entries[i].is_output || at[i].lo == at[i].hi) continue;
    for (int j = 0; j < count; j++) {
      if (j == i || (j < i && entries[j].is_output)) continue;
      if (at[j].lo >= at[i].hi || at[i].lo >= at[j].hi) continue; /* an empty range meets nothing */
      if (at[j].lo == at[j].hi) continue;
      const int allowed = may_be(&entries[i], &entries[j]) || may_be(&entries[j], &entries[i]);
      if (allowed && rdi_tensor_same(entries[i].t, entries[j].t)) continue;
      return rdi_fail(ctx, RD_E_ALIAS, "%s: an output shares bytes with %s%s", entries[i].name,
                      entries[j].name, allowed ? " (only exactly the same view may)" : "");
    }
  }
  return RD_OK;
}

rd_status rdi_check_scale(rd_context *ctx, const char *name, int none, double scale, int64_t K,
                          float *out) {
  if (none) {
    *out = rdi_c2_narrow(1.0 / sqrt((double)K));
    return RD_OK;
  }
  *out = rdi_c2_narrow(scale);
  if (isfinite(scale) && isfinite(*out)) return RD_OK;
  return rdi_fail(ctx, RD_E_SCALE, "%s: expected a number that is finite in f32, got %g", name,
                  scale);
}

rd_status rdi_check_lower_bound(rd_context *ctx, const char *name, double lb, float *out) {
  *out = rdi_c2_narrow(lb);
  if (lb >= -5.0 && lb <= 0.0) return RD_OK;
  return rdi_fail(ctx, RD_E_LOWER_BOUND, "%s: expected a number in [-5, 0], got %g", name, lb);
}

rd_status rdi_check_heads(rd_context *ctx, const char *hk_name, int64_t Hk, const char *hv_name,
                          int64_t Hv) {
  if (Hk < 1)
    return rdi_fail(ctx, RD_E_HEADS, "%s: expected at least 1, got %" PRId64, hk_name, Hk);
  if (Hv >= Hk && Hv % Hk == 0) return RD_OK;
  return rdi_fail(ctx, RD_E_HEADS, "%s: expected a multiple of %s = %" PRId64 ", got %" PRId64,
                  hv_name, hk_name, Hk, Hv);
}
