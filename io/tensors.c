/* Sets of named tensors. SPDX-License-Identifier: Apache-2.0 */
#include "io/file_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

io_status io_fail(io_error *err, io_status status, const char *format, ...) {
  if (err != NULL) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
  }
  return status;
}

static const io_dtype dtypes[] = {
    {"F32", 4, RD_F32},     {"F16", 2, RD_F16},        {"BF16", 2, RD_BF16},
    {"I32", 4, RD_I32},     {"I64", 8, RD_I64},        {"F64", 8, RD_ABSENT},
    {"BOOL", 1, RD_ABSENT}, {"U8", 1, RD_ABSENT},      {"I8", 1, RD_ABSENT},
    {"U16", 2, RD_ABSENT},  {"I16", 2, RD_ABSENT},     {"U32", 4, RD_ABSENT},
    {"U64", 8, RD_ABSENT},  {"F8_E4M3", 1, RD_ABSENT}, {"F8_E5M2", 1, RD_ABSENT},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

const io_dtype *io_dtype_by_name(const char *name) {
  for (size_t i = 0; i < DTYPES; i++) {
    if (strcmp(name, dtypes[i].name) == 0) return &dtypes[i];
  }
  return NULL;
}

const io_dtype *io_dtype_of(rd_dtype dtype) {
  for (size_t i = 0; i < DTYPES; i++) {
    if (dtype != RD_ABSENT && dtypes[i].rd == dtype) return &dtypes[i];
  }
  return NULL;
}

int io_same_dtype(const io_dtype *a, const io_dtype *b) {
  return a == b || (a->size == 0 && b->size == 0 && strcmp(a->name, b->name) == 0);
}

/* An unknown type belongs to its tensor; its name stands behind it in one block. */
static const io_dtype *unknown_dtype(const char *name) {
  size_t n = strlen(name) + 1;
  io_dtype *dtype = malloc(sizeof *dtype + n);
  if (dtype == NULL) return NULL;
  *dtype = (io_dtype){.name = memcpy(dtype + 1, name, n), .size = 0, .rd = RD_ABSENT};
  return dtype;
}

static void tensor_free(io_tensor *tensor) {
  if (tensor->dtype != NULL && tensor->dtype->size == 0) free((void *)(uintptr_t)tensor->dtype);
  free(tensor->name);
  free(tensor->data);
}

void io_file_free(io_file *file) {
  for (size_t i = 0; i < file->count; i++) tensor_free(&file->tensors[i]);
  free(file->tensors);
  *file = (io_file){0};
}

io_tensor *io_file_find(const io_file *file, const char *name) {
  for (size_t i = 0; i < file->count; i++) {
    if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
  }
  return NULL;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(io_tensor *const *)a)->name, (*(io_tensor *const *)b)->name);
}

io_status io_index_make(const io_file *file, io_index *index, io_error *err) {
  *index = (io_index){malloc((file->count + 1) * sizeof *index->sorted), file->count};
  if (index->sorted == NULL) {
    return io_fail(err, IO_SYSTEM, "no memory for the names of %zu tensors", file->count);
  }
  for (size_t i = 0; i < file->count; i++) index->sorted[i] = &file->tensors[i];
  qsort(index->sorted, index->count, sizeof *index->sorted, by_name);
  return IO_OK;
}

io_tensor *io_index_find(const io_index *index, const char *name) {
  size_t low = 0, high = index->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(index->sorted[middle]->name, name);
    if (order == 0) return index->sorted[middle];
    if (order < 0) low = middle + 1;
    if (order > 0) high = middle;
  }
  return NULL;
}

void io_index_free(io_index *index) {
  free(index->sorted);
  *index = (io_index){0};
}

io_status io_checked_bytes(const char *what, const io_dtype *dtype, int32_t rank,
                           const int64_t *shape, uint64_t *bytes, io_error *err) {
  if (rank < 0 || rank > IO_MAX_RANK) {
    return io_fail(err, IO_BAD, "tensor '%.80s': %d dimensions, at most %d are supported", what,
                   rank, IO_MAX_RANK);
  }
  uint64_t total = dtype->size > 0 ? dtype->size : 1;
  for (int32_t i = 0; i < rank; i++) {
    if (shape[i] < 0) {
      return io_fail(err, IO_BAD, "tensor '%.80s': dimension %d is negative (%lld)", what, i,
                     (long long)shape[i]);
    }
    if (__builtin_mul_overflow(total, (uint64_t)shape[i], &total) || total > INT64_MAX) {
      return io_fail(err, IO_BAD, "tensor '%.80s': the size of its shape overflows 64 bits", what);
    }
  }
  *bytes = total;
  return IO_OK;
}

/* Room doubles: it is used up when the count is a power of two from 16 on. */
static io_tensor *append_slot(io_file *file) {
  size_t n = file->count;
  if (n == 0 || (n >= 16 && (n & (n - 1)) == 0)) {
    io_tensor *grown = realloc(file->tensors, (n == 0 ? 16 : 2 * n) * sizeof *grown);
    if (grown == NULL) return NULL;
    file->tensors = grown;
  }
  return &file->tensors[file->count++];
}

/* bytes: of an unknown type, whose shape does not say. */
static io_status add(io_file *file, io_tensor *old, const char *name, const io_dtype *dtype,
                     int32_t rank, const int64_t *shape, uint64_t bytes, io_tensor **out,
                     io_error *err) {
  io_tensor fresh = {.rank = rank};
  io_status status = io_checked_bytes(name, dtype, rank, shape, &fresh.bytes, err);
  if (status != IO_OK) return status;
  if (dtype->size == 0) fresh.bytes = bytes;
  fresh.dtype = dtype->size == 0 ? unknown_dtype(dtype->name) : dtype;
  for (int32_t i = 0; i < rank; i++) fresh.shape[i] = shape[i];

  uint64_t room = fresh.bytes / IO_ALIGN * IO_ALIGN + IO_ALIGN;
  fresh.name = strdup(name);
  fresh.data = room <= SIZE_MAX ? aligned_alloc(IO_ALIGN, (size_t)room) : NULL;
  io_tensor *slot = old;
  const int whole = fresh.dtype != NULL && fresh.name != NULL && fresh.data != NULL;
  if (slot == NULL && whole) slot = append_slot(file);
  if (slot == NULL || !whole) {
    tensor_free(&fresh);
    return io_fail(err, IO_SYSTEM, "tensor '%.80s': no memory for %llu bytes", name,
                   (unsigned long long)fresh.bytes);
  }
  memset(fresh.data, 0, (size_t)room);
  if (old != NULL) tensor_free(old);
  *slot = fresh;
  if (out != NULL) *out = slot;
  return IO_OK;
}

io_status io_file_add(io_file *file, const char *name, const io_dtype *dtype, int32_t rank,
                      const int64_t *shape, io_tensor **out, io_error *err) {
  if (dtype->size == 0) {
    return io_fail(err, IO_BAD, "tensor '%.80s': element type %.40s is not known", name,
                   dtype->name);
  }
  return add(file, io_file_find(file, name), name, dtype, rank, shape, 0, out, err);
}

io_status io_file_append(io_file *file, const char *name, const io_dtype *dtype, int32_t rank,
                         const int64_t *shape, uint64_t bytes, io_tensor **out, io_error *err) {
  return add(file, NULL, name, dtype, rank, shape, bytes, out, err);
}

void io_file_remove(io_file *file, const char *name) {
  io_tensor *tensor = io_file_find(file, name);
  if (tensor == NULL) return;
  size_t index = (size_t)(tensor - file->tensors);
  tensor_free(tensor);
  memmove(tensor, tensor + 1, (file->count - index - 1) * sizeof *tensor);
  file->count--;
}

int64_t io_tensor_elements(const io_tensor *tensor) {
  return (int64_t)(tensor->dtype->size > 0 ? tensor->bytes / tensor->dtype->size : tensor->bytes);
}

io_status io_tensor_view(const io_tensor *tensor, rd_tensor *view, io_error *err) {
  *view = (rd_tensor){0};
  if (tensor == NULL) return IO_OK;
  if (tensor->dtype->rd == RD_ABSENT) {
    return io_fail(err, IO_BAD, "tensor '%.80s': no operator takes element type %.40s",
                   tensor->name, tensor->dtype->name);
  }
  if (tensor->rank < 1 || tensor->rank > RD_MAX_RANK) {
    return io_fail(err, IO_BAD, "tensor '%.80s': %d dimensions, operators take 1 to %d",
                   tensor->name, tensor->rank, RD_MAX_RANK);
  }
  view->data = tensor->data;
  view->dtype = tensor->dtype->rd;
  view->rank = tensor->rank;
  /* Without elements the product of the other extents is bounded by nothing, and no stride is used. */
  uint64_t stride = 1;
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    view->shape[i] = tensor->shape[i];
    view->stride[i] = tensor->bytes > 0 ? (int64_t)stride : 1;
    stride *= tensor->shape[i] > 0 ? (uint64_t)tensor->shape[i] : 1;
  }
  return IO_OK;
}

/* Appends "[a, b, c]"; a text too small is cut, never overrun. */
static void put_list(char *text, size_t size, size_t at, int32_t count, const int64_t *numbers) {
  for (int32_t i = 0; i <= count && at < size; i++) {
    const char *before = i == 0 ? "[" : i < count ? ", " : "]";
    int n = i < count ? snprintf(text + at, size - at, "%s%lld", before, (long long)numbers[i])
                      : snprintf(text + at, size - at, "%s", i == 0 ? "[]" : "]");
    if (n < 0) return;
    at += (size_t)n;
  }
}

void io_tensor_describe(const io_tensor *tensor, char *text, size_t size) {
  int n = snprintf(text, size, "%s ", tensor->dtype->name);
  if (n > 0 && (size_t)n < size) put_list(text, size, (size_t)n, tensor->rank, tensor->shape);
}

void io_tensor_coordinate(const io_tensor *tensor, int64_t index, char *text, size_t size) {
  int64_t at[IO_MAX_RANK] = {0};
  if (tensor->dtype->size == 0) {
    snprintf(text, size, "byte %lld", (long long)index);
    return;
  }
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    int64_t extent = tensor->shape[i] > 0 ? tensor->shape[i] : 1;
    at[i] = index % extent;
    index /= extent;
  }
  put_list(text, size, 0, tensor->rank, at);
}
