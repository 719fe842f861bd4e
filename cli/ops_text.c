/* The table of operators as help and as JSON. SPDX-License-Identifier: Apache-2.0 */
#include "cli/ops.h"

#include <stdarg.h>
#include <string.h>

/* A scalar's default: what rd_OP_init puts into its field. */
static json_t *default_of(const op_desc *op, const op_param *p) {
  static op_call call;
  op->init(&call.p);
  const char *field = (const char *)&call.p + p->at;
  int32_t whole;
  double number;
  switch (p->scalar) {
  case OP_BLOCK_NUM:
    memcpy(&whole, field, sizeof whole);
    return whole == 0 ? json_null() : json_integer(whole);
  case OP_LAYOUT_QKV:
    memcpy(&whole, field, sizeof whole);
    return whole >= 1 && whole <= 3 ? json_string(op_layouts[whole - 1]) : json_null();
  default:
    memcpy(&number, field, sizeof number);
    return json_real(number);
  }
}

json_t *op_table_json(void) {
  static const char *const roles[] = {"",         "required",   "optional",
                                      "in place", "tool's own", "scalar"};
  json_t *list = json_array();
  for (int i = 0; i < OP_COUNT; i++) {
    const op_desc *op = op_by_id((op_id)i);
    json_t *params = json_array(), *outputs = json_array();
    for (const op_param *p = op->params; p->name != NULL; p++) {
      json_t *one = json_pack("{s:s, s:s}", "name", p->name, "role", roles[p->role]);
      if (p->role == OP_OPTIONAL) json_object_set_new(one, "default", json_null());
      if (p->has_default) json_object_set_new(one, "default", default_of(op, p));
      json_array_append_new(params, one);
    }
    for (int k = 0; k < OP_MAX_OUTPUTS && op->outputs[k].name != NULL; k++)
      json_array_append_new(outputs, json_string(op->outputs[k].name));
    json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:b, s:s}", "name", op->name,
                                          "parameters", params, "outputs", outputs, "fast",
                                          op->numerics != 0, "shape", op->shape_keys));
  }
  return list;
}

/* ---------------------------------------------------------------- help ------------------------ */

enum { WIDTH = 78 };

typedef struct lines {
  char *text;
  size_t size, length;
  int column;
} lines;

static void put(lines *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(lines *l, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(l->text + l->length, l->size - l->length, format, list);
  va_end(list);
  if (n > 0) l->length += (size_t)n < l->size - l->length ? (size_t)n : l->size - l->length - 1;
}

/* One more word of a list, on a line of its own when it does not fit. */
static void word(lines *l, const char *before, const char *name, const char *after) {
  int n = (int)(strlen(before) + strlen(name) + strlen(after));
  if (l->column + n > WIDTH) {
    put(l, "\n     ");
    l->column = 5;
  }
  put(l, "%s%s%s", before, name, after);
  l->column += n;
}

char *op_help_signatures(char *text, size_t size, const char *intro) {
  lines l = {text, size, 0, 0};
  put(&l, "%s\n", intro);
  for (int i = 0; i < OP_COUNT; i++) {
    const op_desc *op = op_by_id((op_id)i);
    put(&l, "%s  %s\n     ", i > 0 ? "\n" : "", op->name);
    l.column = 5;
    for (const op_param *p = op->params; p->name != NULL; p++) {
      if (p->role == OP_SCALAR) continue;
      int optional = p->role == OP_OPTIONAL || p->role == OP_OWN;
      word(&l, optional ? " [" : " ", p->name, optional ? "]" : "");
    }
    for (int k = 0; k < OP_MAX_OUTPUTS && op->outputs[k].name != NULL; k++)
      word(&l, k > 0 ? " " : " -> ", op->outputs[k].name, "");
  }
  return text;
}

char *op_help_shapes(char *text, size_t size, const char *intro, const char *outro) {
  lines l = {text, size, 0, 0};
  put(&l, "%s\n", intro);
  for (int i = 0; i < OP_COUNT; i++) {
    const op_desc *op = op_by_id((op_id)i);
    put(&l, "  %-31s %s", op->name, op->shape_keys);
    if (op->shape_note != NULL) put(&l, " (%s)", op->shape_note);
    put(&l, "\n");
  }
  put(&l, "%s", outro);
  return text;
}
