/* redelta diff: two tensor files. SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare.h"

#include "io/convert.h"

#include <math.h>
#include <string.h>

enum { ID_ATOL = 1, ID_RTOL };

static const cli_option option_table[] = {
    {"atol", ID_ATOL, "A", "absolute tolerance (default 0 once --rtol is given)"},
    {"rtol", ID_RTOL, "R", "relative tolerance: |a - b| <= A + R |b|"},
    {0}};

static const cli_command command = {
    "diff",
    "A.safetensors B.safetensors",
    "Compares two tensor files: names, types, shapes and bytes, or, when a tolerance\n"
    "is given, values (NaN then equals NaN). Shows the first difference of every\n"
    "tensor. Exit status 1 if they differ.",
    option_table,
    2,
    2};

typedef struct tolerance {
  int given;
  double atol, rtol;
} tolerance;

static int close_enough(const io_tensor *a, const io_tensor *b, int64_t i, const tolerance *tol) {
  size_t size = a->dtype->size > 0 ? a->dtype->size : 1, at = (size_t)i * size;
  if (memcmp((const char *)a->data + at, (const char *)b->data + at, size) == 0) return 1;
  double x, y;
  if (!tol->given || !io_tensor_number(a, i, &x) || !io_tensor_number(b, i, &y)) return 0;
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y || fabs(x - y) <= tol->atol + tol->rtol * fabs(y);
}

/* Value of an element as text, with its bits where a value alone may hide the difference. */
static void value_text(const io_tensor *t, int64_t i, char *text, size_t size) {
  uint64_t bits = 0;
  double x;
  size_t width = t->dtype->size > 0 ? t->dtype->size : 1;
  memcpy(&bits, (const char *)t->data + (size_t)i * width, width);
  if (t->dtype->rd == RD_I64) {
    snprintf(text, size, "%lld", (long long)bits);
  } else if (!io_tensor_number(t, i, &x)) {
    snprintf(text, size, "0x%0*llx", (int)(2 * width), (unsigned long long)bits);
  } else {
    snprintf(text, size, "%.*g (0x%0*llx)", width == 8 ? 17 : 9, x, (int)(2 * width),
             (unsigned long long)bits);
  }
}

static void note(json_t *list, int json, const char *name, const char *text, int64_t count) {
  if (!json) {
    cli_print(stdout, name);
    printf(": %s\n", text);
  }
  json_t *one = json_pack("{s:s, s:s}", "name", name, "difference", text);
  if (count > 0) json_object_set_new(one, "elements", json_integer(count));
  json_array_append_new(list, one);
}

/* 1 if the two tensors differ. */
static int diff_tensor(const io_tensor *a, const io_tensor *b, const tolerance *tol, json_t *list,
                       int json) {
  char x[256], y[256], at[256], text[1024];
  io_tensor_describe(a, x, sizeof x);
  io_tensor_describe(b, y, sizeof y);
  if (!io_same_dtype(a->dtype, b->dtype) || a->bytes != b->bytes || a->rank != b->rank ||
      memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) != 0) {
    if (strcmp(x, y) != 0) {
      snprintf(text, sizeof text, "%s against %s", x, y);
    } else { /* of an unknown type */
      snprintf(text, sizeof text, "%llu bytes of %s against %llu", (unsigned long long)a->bytes, x,
               (unsigned long long)b->bytes);
    }
    note(list, json, a->name, text, 0);
    return 1;
  }
  int64_t first = -1, count = 0, n = io_tensor_elements(a);
  for (int64_t i = 0; i < n; i++) {
    if (close_enough(a, b, i, tol)) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return 0;
  io_tensor_coordinate(a, first, at, sizeof at);
  value_text(a, first, x, sizeof x);
  value_text(b, first, y, sizeof y);
  snprintf(text, sizeof text, "%lld of %lld %s differ, first at %s: %s against %s",
           (long long)count, (long long)n, a->dtype->size > 0 ? "elements" : "bytes", at, x, y);
  note(list, json, a->name, text, count);
  return 1;
}

/* x and y: indexes of a and b. */
static int diff_files(const io_file *a, const io_file *b, const io_index *x, const io_index *y,
                      const tolerance *tol, int json) {
  json_t *list = json_array();
  int different = 0, same = 0;
  for (size_t i = 0; i < a->count; i++) {
    const io_tensor *other = io_index_find(y, a->tensors[i].name);
    int differs = 1;
    if (other == NULL) {
      note(list, json, a->tensors[i].name, "only in the first file", 0);
    } else {
      differs = diff_tensor(&a->tensors[i], other, tol, list, json);
    }
    different += differs;
    same += !differs;
  }
  for (size_t i = 0; i < b->count; i++) {
    if (io_index_find(x, b->tensors[i].name) != NULL) continue;
    note(list, json, b->tensors[i].name, "only in the second file", 0);
    different++;
  }
  int result = different > 0 ? CLI_FAILED : CLI_OK;
  if (json) {
    return cli_finish_json(command.name, result,
                           json_pack("{s:b, s:i, s:i, s:o}", "same", different == 0, "tensors_same",
                                     same, "tensors_different", different, "differences", list));
  }
  json_decref(list);
  printf("%d tensors the same, %d different\n", same, different);
  return cli_finish(command.name, result);
}

static int take_option(const cli_args *args, int id, void *options) {
  tolerance *tol = options;
  double *to = id == ID_ATOL ? &tol->atol : &tol->rtol;
  if (!cli_double(args, to)) return 0;
  if (*to < 0) {
    cli_fail(command.name, 0, "--%s: a tolerance is not negative", args->option);
    return 0;
  }
  tol->given = 1;
  return 1;
}

int cmd_diff(int argc, char **argv) {
  tolerance tol = {0};
  cli_args args;
  int result = cli_read(&args, &command, argc, argv, take_option, &tol);
  if (result != CLI_GO) return result;
  io_file a = {0}, b = {0};
  io_index x = {0}, y = {0};
  io_error err;
  io_status status = io_safetensors_read(args.operands[0], &a, &err);
  if (status == IO_OK) status = io_safetensors_read(args.operands[1], &b, &err);
  if (status == IO_OK) status = io_index_make(&a, &x, &err);
  if (status == IO_OK) status = io_index_make(&b, &y, &err);
  result = status == IO_OK ? diff_files(&a, &b, &x, &y, &tol, args.json)
                           : cli_fail(command.name, (int)status, "%s", err.text);
  io_index_free(&x);
  io_index_free(&y);
  io_file_free(&a);
  io_file_free(&b);
  return result;
}
