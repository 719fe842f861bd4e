/* The safetensors writer. SPDX-License-Identifier: Apache-2.0 */
#include "io/file_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_width(const void *a, const void *b) {
  const io_tensor *x = *(const io_tensor *const *)a, *y = *(const io_tensor *const *)b;
  if (x->dtype->size != y->dtype->size) return x->dtype->size > y->dtype->size ? -1 : 1;
  return x < y ? -1 : x > y; /* both point into one array: this keeps the order */
}

/* The header, padded with blanks so that the data start on a multiple of IO_ALIGN. */
static char *make_header(const io_tensor *const *order, size_t count, size_t *size) {
  json_t *root = json_object();
  uint64_t at = 0;
  for (size_t i = 0; i < count; i++) {
    json_t *shape = json_array();
    for (int32_t d = 0; d < order[i]->rank; d++) {
      json_array_append_new(shape, json_integer(order[i]->shape[d]));
    }
    json_t *one = json_pack("{s:s, s:o, s:[I, I]}", "dtype", order[i]->dtype->name, "shape", shape,
                            "data_offsets", (json_int_t)at, (json_int_t)(at + order[i]->bytes));
    if (one == NULL || json_object_set_new(root, order[i]->name, one) != 0) {
      json_decref(root);
      return NULL;
    }
    at += order[i]->bytes;
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (text == NULL) return NULL;
  size_t length = strlen(text), padded = (length + 8 + IO_ALIGN - 1) / IO_ALIGN * IO_ALIGN - 8;
  char *header = realloc(text, padded + 1);
  if (header == NULL) {
    free(text);
    return NULL;
  }
  memset(header + length, ' ', padded - length);
  *size = padded;
  return header;
}

static int write_all(int fd, const void *data, uint64_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = write(fd, at, bytes < (1u << 30) ? (size_t)bytes : (size_t)1 << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    at += n;
    bytes -= (uint64_t)n;
  }
  return 0;
}

static int write_tensors(int fd, const io_tensor *const *order, size_t count, const char *header,
                         size_t size) {
  unsigned char le[8];
  for (int i = 0; i < 8; i++) le[i] = (unsigned char)((uint64_t)size >> (8 * i));
  if (write_all(fd, le, sizeof le) != 0 || write_all(fd, header, size) != 0) return -1;
  for (size_t i = 0; i < count; i++) {
    if (write_all(fd, order[i]->data, order[i]->bytes) != 0) return -1;
  }
  return 0;
}

io_status io_safetensors_write(const char *path, const io_file *file, io_error *err) {
  io_output out;
  io_status status = io_check_output(path, err);
  if (status != IO_OK) return status;
  const io_tensor **order = malloc((file->count + 1) * sizeof *order);
  if (order == NULL) return io_fail(err, IO_SYSTEM, "no memory");
  for (size_t i = 0; i < file->count; i++) order[i] = &file->tensors[i];
  qsort(order, file->count, sizeof *order, by_width);
  size_t size;
  char *header = make_header(order, file->count, &size);
  if (header == NULL) {
    status = io_fail(err, IO_SYSTEM, "%s: no memory for the header", path);
  } else if ((status = io_output_open(&out, path, err)) == IO_OK) {
    int failed = write_tensors(out.fd, order, file->count, header, size) != 0;
    status = io_output_close(&out, failed, err);
  }
  free(header);
  free(order);
  return status;
}
