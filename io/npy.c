/* The npy reader. SPDX-License-Identifier: Apache-2.0
 *
 *   "\x93NUMPY" major minor | header length: u16 (1.x) or u32 (2.x, 3.x) | a Python dict | data
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 */
#include "io/file_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NPY_MAX_HEADER = 1 << 16 }; /* three short members; NumPy itself refuses above 10,000 */

typedef struct cursor {
  const char *at, *end;
} cursor;

typedef struct header {
  char descr[16];
  int32_t rank;
  int64_t shape[IO_MAX_RANK];
  int fortran;
  unsigned seen; /* bit per member */
} header;

static void blanks(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n')) c->at++;
}

static int take(cursor *c, char wanted) {
  blanks(c);
  if (c->at >= c->end || *c->at != wanted) return 0;
  c->at++;
  return 1;
}

static int take_word(cursor *c, const char *word) {
  blanks(c);
  size_t n = strlen(word);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return 0;
  c->at += n;
  return 1;
}

/* 'text' or "text" without escapes. */
static int take_string(cursor *c, char *text, size_t size) {
  char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
  if (quote == '\0') return 0;
  size_t n = 0;
  while (c->at < c->end && *c->at != quote) {
    if (*c->at == '\\' || *c->at == '\0' || n + 1 >= size) return 0;
    text[n++] = *c->at++;
  }
  text[n] = '\0';
  return take(c, quote);
}

static int take_extent(cursor *c, int64_t *value) {
  blanks(c);
  const char *start = c->at;
  *value = 0;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
    if (__builtin_mul_overflow(*value, 10, value)) return 0;
    if (__builtin_add_overflow(*value, *c->at - '0', value)) return 0;
    c->at++;
  }
  return c->at > start;
}

/* (), (3,), (3, 4) or (3, 4,) */
static int take_shape(cursor *c, header *h) {
  if (!take(c, '(')) return 0;
  h->rank = 0;
  int comma = 1;
  while (!take(c, ')')) {
    if (!comma || h->rank >= IO_MAX_RANK || !take_extent(c, &h->shape[h->rank])) return 0;
    h->rank++;
    comma = take(c, ',');
  }
  return h->rank != 1 || comma; /* (3) is a number, not a tuple */
}

static const char *parse_header(cursor *c, header *h) {
  if (!take(c, '{')) return "header is not a dictionary";
  while (!take(c, '}')) {
    char key[16];
    if (!take_string(c, key, sizeof key) || !take(c, ':')) return "header has a malformed key";
    unsigned bit;
    if (strcmp(key, "descr") == 0) {
      bit = 1;
      if (!take_string(c, h->descr, sizeof h->descr)) return "descr is not a plain type string";
    } else if (strcmp(key, "fortran_order") == 0) {
      bit = 2;
      h->fortran = take_word(c, "True");
      if (!h->fortran && !take_word(c, "False")) return "fortran_order is neither True nor False";
    } else if (strcmp(key, "shape") == 0) {
      bit = 4;
      if (!take_shape(c, h)) return "shape is not a tuple of whole numbers >= 0 that fit 64 bits";
    } else {
      return "header has an unknown key";
    }
    if (h->seen & bit) return "header has a key twice";
    h->seen |= bit;
    if (!take(c, ',')) {
      if (!take(c, '}')) return "header has a malformed value";
      break;
    }
  }
  blanks(c);
  if (c->at != c->end) return "header has text after its dictionary";
  if (h->seen != 7) return "header lacks one of descr, fortran_order, shape";
  if (h->fortran) return "data are in Fortran order; only C order is read";
  return NULL;
}

static const io_dtype *dtype_of(const char *descr) {
  static const struct {
    const char *descr, *dtype;
  } table[] = {{"<f2", "F16"}, {"<f4", "F32"},  {"<f8", "F64"}, {"<i4", "I32"},
               {"<i8", "I64"}, {"<V2", "BF16"}, {"|V2", "BF16"}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    if (strcmp(descr, table[i].descr) == 0) return io_dtype_by_name(table[i].dtype);
  }
  return NULL;
}

/* Magic, version and header length; *at is where the header starts. */
static io_status preamble(const io_source *source, uint64_t *at, uint32_t *length, io_error *err) {
  unsigned char b[12] = {0};
  uint64_t have = source->size < sizeof b ? source->size : sizeof b;
  io_status status = io_source_read(source, 0, b, have, err);
  if (status != IO_OK) return status;
  if (have < 10 || memcmp(b, "\x93NUMPY", 6) != 0) return io_fail(err, IO_BAD, "not an npy file");
  if (b[6] < 1 || b[6] > 3 || b[7] != 0) {
    return io_fail(err, IO_BAD, "npy version %d.%d; 1.0, 2.0 and 3.0 are read", b[6], b[7]);
  }
  *length = (uint32_t)b[8] | (uint32_t)b[9] << 8;
  *at = 10;
  if (b[6] > 1) {
    if (have < 12) return io_fail(err, IO_BAD, "not an npy file");
    *length |= (uint32_t)b[10] << 16 | (uint32_t)b[11] << 24;
    *at = 12;
  }
  if (*length > NPY_MAX_HEADER) {
    return io_fail(err, IO_BAD, "header of %u bytes is longer than the limit of %d", *length,
                   NPY_MAX_HEADER);
  }
  if (*length > source->size - *at) {
    return io_fail(err, IO_BAD, "header of %u bytes is longer than the file", *length);
  }
  return IO_OK;
}

static io_status parse(const io_source *source, const char *name, io_file *file, io_error *err) {
  uint64_t at = 0;
  uint32_t length = 0;
  io_status status = preamble(source, &at, &length, err);
  if (status != IO_OK) return status;
  char *text = malloc((size_t)length + 1);
  if (text == NULL) return io_fail(err, IO_SYSTEM, "no memory for the header");
  header h = {.rank = 0};
  status = io_source_read(source, at, text, length, err);
  if (status == IO_OK) {
    cursor c = {text, text + length};
    const char *wrong = parse_header(&c, &h);
    if (wrong != NULL) status = io_fail(err, IO_BAD, "%s", wrong);
  }
  free(text);
  if (status != IO_OK) return status;

  const io_dtype *dtype = dtype_of(h.descr);
  if (dtype == NULL) {
    return io_fail(err, IO_BAD,
                   "element type '%s'; little-endian f2 f4 f8 i4 i8 and V2 (bfloat16) are "
                   "read",
                   h.descr);
  }
  uint64_t bytes = 0, have = source->size - at - length;
  status = io_checked_bytes(name, dtype, h.rank, h.shape, &bytes, err);
  if (status != IO_OK) return status;
  if (bytes != have) {
    return io_fail(err, IO_BAD, "shape and type need %llu bytes, the file has %llu",
                   (unsigned long long)bytes, (unsigned long long)have);
  }
  io_file one = {0}; /* so that a failed read leaves an older tensor of that name alone */
  io_tensor *tensor = NULL;
  status = io_file_add(&one, name, dtype, h.rank, h.shape, &tensor, err);
  if (status == IO_OK) status = io_source_read(source, at + length, tensor->data, bytes, err);
  io_tensor *to = NULL;
  if (status == IO_OK) status = io_file_add(file, name, dtype, h.rank, h.shape, &to, err);
  if (status == IO_OK) memcpy(to->data, one.tensors[0].data, (size_t)bytes);
  io_file_free(&one);
  return status;
}

io_status io_npy_read(const char *path, const char *name, io_file *file, io_error *err) {
  io_source source;
  io_status status = io_source_open(&source, path, err);
  if (status != IO_OK) return status;
  io_error inner = {{0}};
  status = parse(&source, name, file, &inner);
  io_source_close(&source);
  if (status != IO_OK) io_fail(err, status, "%s (tensor '%.80s'): %s", path, name, inner.text);
  return status;
}

io_status io_npy_parse(const void *bytes, size_t size, const char *name, io_file *file,
                       io_error *err) {
  io_source source = io_source_memory(bytes, size);
  return parse(&source, name, file, err);
}
