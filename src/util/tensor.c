#include "util/tensor.h"
#include "util/checked.h"

size_t rd_dtype_size(rd_dtype dtype) {
  switch (dtype) {
  case RD_F32:
  case RD_I32:
    return 4;
  case RD_F16:
  case RD_BF16:
    return 2;
  case RD_I64:
    return 8;
  case RD_ABSENT:
    break;
  }
  return 0;
}

const char *rdi_dtype_name(rd_dtype dtype) {
  switch (dtype) {
  case RD_ABSENT:
    return "absent";
  case RD_F32:
    return "f32";
  case RD_F16:
    return "f16";
  case RD_BF16:
    return "bf16";
  case RD_I32:
    return "i32";
  case RD_I64:
    return "i64";
  }
  return "?";
}

rd_tensor rd_tensor_contiguous(void *data, rd_dtype dtype, int32_t rank, const int64_t *shape) {
  rd_tensor t = {0};
  if (rank < 1 || rank > RD_MAX_RANK || !shape) return t;
  t.data = data;
  t.dtype = dtype;
  t.rank = rank;
  /* A stride that wraps here belongs to a shape that the using call refuses. */
  uint64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    t.shape[i] = shape[i];
    t.stride[i] = (int64_t)stride;
    stride *= (uint64_t)shape[i];
  }
  return t;
}

int rdi_tensor_blank(const rd_tensor *t) {
  int64_t any = (t->data != NULL) | t->dtype | t->rank;
  for (int i = 0; i < RD_MAX_RANK; i++) any |= t->shape[i] | t->stride[i];
  return any == 0;
}

int rdi_tensor_empty(const rd_tensor *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->shape[i] == 0) return 1;
  return 0;
}

int rdi_tensor_extent(const rd_tensor *t, int64_t *bytes) {
  *bytes = 0;
  int64_t last = 0;
  if (rdi_tensor_empty(t)) return 1;
  for (int i = 0; i < t->rank; i++) {
    int64_t step;
    if (t->shape[i] == 1) continue;
    if (!rdi_mul64(t->shape[i] - 1, t->stride[i], &step) || !rdi_add64(last, step, &last)) return 0;
  }
  if (!rdi_add64(last, 1, &last) || !rdi_mul64(last, rdi_size(t->dtype), bytes)) return 0;
  uintptr_t end;
  return !__builtin_add_overflow((uintptr_t)t->data, (uintptr_t)*bytes, &end);
}

int rdi_tensor_same(const rd_tensor *a, const rd_tensor *b) {
  if (a->data != b->data || a->dtype != b->dtype || a->rank != b->rank) return 0;
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] != b->shape[i]) return 0;
    if (a->shape[i] > 1 && a->stride[i] != b->stride[i]) return 0;
  }
  return 1;
}
