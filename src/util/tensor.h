/* Facts about tensor views that need no context. */
#ifndef RDI_UTIL_TENSOR_H
#define RDI_UTIL_TENSOR_H

#include "redelta/types.h"

/* rd_dtype_size of a type that has passed its check, without a call: one nibble per type. */
static inline int64_t rdi_size(rd_dtype dtype) {
  return (int64_t)(0x842240u >> (4 * (unsigned)dtype) & 15u);
}

/* That many elements further. */
static inline char *rdi_at(char *base, int64_t elements, rd_dtype dtype) {
  return base + elements * rdi_size(dtype);
}

/* Number i of an i32 or i64 vector. */
static inline int64_t rdi_index_at(const void *data, int is64, int64_t i) {
  return is64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
}

/* 1 when nothing is set: the tensor is absent. One with a type of 0 and anything else set is not; its
 * caller forgot the type. */
int rdi_tensor_blank(const rd_tensor *t);

/* "f32", "f16", "bf16", "i32", "i64", "absent", "?" */
const char *rdi_dtype_name(rd_dtype dtype);

/* 1 when the view has no elements (some extent is 0). */
int rdi_tensor_empty(const rd_tensor *t);

/* Bytes from the first element to behind the last one (0 when empty). Strides and extents must be
 * >= 0. Returns 0 when it does not fit 63 bits or the range would wrap the address space. */
int rdi_tensor_extent(const rd_tensor *t, int64_t *bytes);

/* 1 when both views have the same address, type, rank, extents, and strides where those matter. */
int rdi_tensor_same(const rd_tensor *a, const rd_tensor *b);

#endif
