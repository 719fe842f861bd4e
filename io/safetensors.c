/* The safetensors reader and writer. SPDX-License-Identifier: Apache-2.0
 *
 *   u64 N (little-endian) | N bytes of JSON, from '{', blanks may follow it | data
 *   {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__":
 * {..}} Offsets count from the start of the data and cover it without holes or overlaps.
 */
#include "io/file_internal.h"

#include <stdlib.h>
#include <string.h>

/* One tensor of the header before its data is read. */
typedef struct entry {
  const char *name;      /* in the JSON value */
  const io_dtype *dtype; /* NULL: unknown */
  io_dtype unknown;      /* then this, its name in the JSON value */
  int32_t rank;
  int64_t shape[IO_MAX_RANK];
  uint64_t begin, end;
} entry;

static io_status read_whole(json_t *value, const char *name, const char *what, int64_t *out,
                            io_error *err) {
  if (!json_is_integer(value)) {
    return io_fail(err, IO_BAD, "tensor '%.80s': %s holds something that is not a whole number",
                   name, what);
  }
  *out = json_integer_value(value);
  if (*out < 0) {
    return io_fail(err, IO_BAD, "tensor '%.80s': %s holds a negative number (%lld)", name, what,
                   (long long)*out);
  }
  return IO_OK;
}

static io_status read_shape(json_t *shape, entry *e, io_error *err) {
  if (!json_is_array(shape)) {
    return io_fail(err, IO_BAD, "tensor '%.80s': shape is missing or not a list", e->name);
  }
  if (json_array_size(shape) > IO_MAX_RANK) {
    return io_fail(err, IO_BAD, "tensor '%.80s': %zu dimensions, at most %d are supported", e->name,
                   json_array_size(shape), IO_MAX_RANK);
  }
  e->rank = (int32_t)json_array_size(shape);
  for (int32_t i = 0; i < e->rank; i++) {
    io_status status =
        read_whole(json_array_get(shape, (size_t)i), e->name, "shape", &e->shape[i], err);
    if (status != IO_OK) return status;
  }
  return IO_OK;
}

static io_status read_offsets(json_t *offsets, entry *e, uint64_t data_size, io_error *err) {
  if (!json_is_array(offsets) || json_array_size(offsets) != 2) {
    return io_fail(err, IO_BAD, "tensor '%.80s': data_offsets is missing or not a pair", e->name);
  }
  int64_t begin = 0, end = 0;
  io_status status = read_whole(json_array_get(offsets, 0), e->name, "data_offsets", &begin, err);
  if (status == IO_OK) {
    status = read_whole(json_array_get(offsets, 1), e->name, "data_offsets", &end, err);
  }
  if (status != IO_OK) return status;
  if (begin > end) {
    return io_fail(err, IO_BAD, "tensor '%.80s': data_offsets [%lld, %lld] end before they begin",
                   e->name, (long long)begin, (long long)end);
  }
  if ((uint64_t)end > data_size) {
    return io_fail(err, IO_BAD,
                   "tensor '%.80s': data_offsets [%lld, %lld] leave the file, which has %llu "
                   "bytes of data",
                   e->name, (long long)begin, (long long)end, (unsigned long long)data_size);
  }
  e->begin = (uint64_t)begin;
  e->end = (uint64_t)end;
  return IO_OK;
}

static const io_dtype *dtype_of(const entry *e) {
  return e->dtype != NULL ? e->dtype : &e->unknown;
}

static io_status read_entry(const char *name, json_t *value, uint64_t data_size, entry *e,
                            io_error *err) {
  *e = (entry){.name = name};
  if (!json_is_object(value)) return io_fail(err, IO_BAD, "tensor '%.80s': not an object", name);
  const char *key;
  json_t *member;
  json_object_foreach(value, key, member) {
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
        strcmp(key, "data_offsets") != 0) {
      return io_fail(err, IO_BAD, "tensor '%.80s': unknown member '%.80s'", name, key);
    }
  }
  const char *dtype = json_string_value(json_object_get(value, "dtype"));
  if (dtype == NULL)
    return io_fail(err, IO_BAD, "tensor '%.80s': dtype is missing or not a string", name);
  e->dtype = io_dtype_by_name(dtype);
  if (e->dtype == NULL) e->unknown = (io_dtype){.name = dtype};
  io_status status = read_shape(json_object_get(value, "shape"), e, err);
  if (status == IO_OK)
    status = read_offsets(json_object_get(value, "data_offsets"), e, data_size, err);
  if (status != IO_OK) return status;
  uint64_t bytes = 0;
  status = io_checked_bytes(name, dtype_of(e), e->rank, e->shape, &bytes, err);
  if (status != IO_OK) return status;
  if (e->dtype != NULL && bytes != e->end - e->begin) {
    return io_fail(err, IO_BAD,
                   "tensor '%.80s': shape and dtype need %llu bytes, data_offsets give %llu", name,
                   (unsigned long long)bytes, (unsigned long long)(e->end - e->begin));
  }
  return IO_OK;
}

static io_status check_metadata(json_t *metadata, io_error *err) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) return io_fail(err, IO_BAD, "__metadata__ is not an object");
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) {
      return io_fail(err, IO_BAD, "__metadata__: the value of '%.80s' is not a string", key);
    }
  }
  return IO_OK;
}

static int by_place(const void *a, const void *b) {
  const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* The ranges, in order of place, must follow one another from 0 to the end of the file. */
static io_status check_cover(const entry *entries, size_t count, uint64_t data_size,
                             io_error *err) {
  const entry **order = malloc((count + 1) * sizeof *order);
  if (order == NULL) return io_fail(err, IO_SYSTEM, "no memory for %zu tensors", count);
  for (size_t i = 0; i < count; i++) order[i] = &entries[i];
  qsort(order, count, sizeof *order, by_place);
  uint64_t at = 0;
  io_status status = IO_OK;
  for (size_t i = 0; i < count && status == IO_OK; i++) {
    if (order[i]->begin < at) {
      status = io_fail(err, IO_BAD, "tensor '%.80s': its data overlap those of tensor '%.80s'",
                       order[i]->name, order[i - 1]->name);
    } else if (order[i]->begin > at) {
      status = io_fail(err, IO_BAD, "tensor '%.80s': a hole of %llu bytes before its data",
                       order[i]->name, (unsigned long long)(order[i]->begin - at));
    }
    at = order[i]->end;
  }
  if (status == IO_OK && at != data_size) {
    status = io_fail(err, IO_BAD, "%llu bytes at the end of the file belong to no tensor%s%s%s",
                     (unsigned long long)(data_size - at), count ? " (the last is '" : "",
                     count ? order[count - 1]->name : "", count ? "')" : "");
  }
  free(order);
  return status;
}

static io_status read_data(const io_source *source, uint64_t data_at, const entry *entries,
                           size_t count, io_file *file, io_error *err) {
  for (size_t i = 0; i < count; i++) {
    const entry *e = &entries[i];
    io_tensor *tensor = NULL;
    io_status status = io_file_append(file, e->name, dtype_of(e), e->rank, e->shape,
                                      e->end - e->begin, &tensor, err);
    if (status == IO_OK) {
      status = io_source_read(source, data_at + e->begin, tensor->data, tensor->bytes, err);
    }
    if (status != IO_OK) return status;
  }
  return IO_OK;
}

static io_status read_header(const io_source *source, json_t *root, uint64_t data_at, io_file *file,
                             io_error *err) {
  uint64_t data_size = source->size - data_at;
  entry *entries = calloc(json_object_size(root) + 1, sizeof *entries);
  if (entries == NULL) return io_fail(err, IO_SYSTEM, "no memory for the header");
  size_t count = 0;
  io_status status = IO_OK;
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value) {
    if (strcmp(name, "__metadata__") == 0) {
      status = check_metadata(value, err);
    } else {
      status = read_entry(name, value, data_size, &entries[count++], err);
    }
    if (status != IO_OK) break;
  }
  if (status == IO_OK) status = check_cover(entries, count, data_size, err);
  if (status == IO_OK) status = read_data(source, data_at, entries, count, file, err);
  free(entries);
  return status;
}

static io_status header_size(const io_source *source, uint64_t *size, io_error *err) {
  unsigned char le[8];
  if (source->size < sizeof le) {
    return io_fail(err, IO_BAD, "%llu bytes are too few for a safetensors file",
                   (unsigned long long)source->size);
  }
  io_status status = io_source_read(source, 0, le, sizeof le, err);
  if (status != IO_OK) return status;
  *size = 0;
  for (int i = 7; i >= 0; i--) *size = *size << 8 | le[i];
  if (*size > IO_SAFETENSORS_MAX_HEADER) {
    return io_fail(err, IO_BAD,
                   "header of %llu bytes is longer than the limit of %u (or this is not a "
                   "safetensors file)",
                   (unsigned long long)*size, IO_SAFETENSORS_MAX_HEADER);
  }
  if (*size > source->size - sizeof le) {
    return io_fail(err, IO_BAD, "header of %llu bytes is longer than the file",
                   (unsigned long long)*size);
  }
  return IO_OK;
}

static io_status parse(const io_source *source, io_file *file, io_error *err) {
  uint64_t size = 0;
  io_status status = header_size(source, &size, err);
  if (status != IO_OK) return status;
  char *text = malloc((size_t)size + 1);
  if (text == NULL) {
    return io_fail(err, IO_SYSTEM, "no memory for a header of %llu bytes",
                   (unsigned long long)size);
  }
  status = io_source_read(source, 8, text, size, err);
  if (status == IO_OK && (size == 0 || text[0] != '{')) {
    status = io_fail(err, IO_BAD, "header does not start with '{'");
  }
  json_t *root = NULL;
  if (status == IO_OK) {
    json_error_t where;
    root = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL) {
      status =
          io_fail(err, json_error_code(&where) == json_error_out_of_memory ? IO_SYSTEM : IO_BAD,
                  "header is not valid JSON: %s (at byte %d)", where.text, where.position);
    }
  }
  free(text);
  if (status == IO_OK) status = read_header(source, root, 8 + size, file, err);
  json_decref(root);
  if (status != IO_OK) io_file_free(file);
  return status;
}

io_status io_safetensors_read(const char *path, io_file *file, io_error *err) {
  io_source source;
  io_status status = io_source_open(&source, path, err);
  if (status != IO_OK) return status;
  io_error inner = {{0}};
  status = parse(&source, file, &inner);
  io_source_close(&source);
  if (status != IO_OK) io_fail(err, status, "%s: %s", path, inner.text);
  return status;
}

io_status io_safetensors_parse(const void *bytes, size_t size, io_file *file, io_error *err) {
  io_source source = io_source_memory(bytes, size);
  return parse(&source, file, err);
}
