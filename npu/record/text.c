#include "npu/record/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rdn_text_add(text *t, const char *format, ...) {
  if (!t->started) t->started = t->ok = true;
  for (int attempt = 0; t->ok && attempt < 2; attempt++) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(t->data ? t->data + t->used : NULL, t->data ? t->capacity - t->used : 0,
                      format, list);
    va_end(list);
    if (n < 0) {
      t->ok = false;
    } else if (t->data && (size_t)n < t->capacity - t->used) {
      t->used += (size_t)n;
      return;
    } else {
      size_t capacity = (t->capacity + (size_t)n + 256) * 2;
      char *data = realloc(t->data, capacity);
      t->ok = data != NULL;
      if (data) t->data = data, t->capacity = capacity;
    }
  }
}

void rdn_text_json(text *t, const char *string) {
  if (!string) {
    rdn_text_add(t, "null");
    return;
  }
  rdn_text_add(t, "\"");
  for (const char *p = string; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c == '"' || c == '\\')
      rdn_text_add(t, "\\%c", c);
    else if (c < 0x20)
      rdn_text_add(t, "\\u%04x", c);
    else
      rdn_text_add(t, "%c", c);
  }
  rdn_text_add(t, "\"");
}

void rdn_text_number(text *t, double value) {
  if (isfinite(value))
    rdn_text_add(t, "%.9g", value);
  else
    rdn_text_add(t, "\"%s\"", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

char *rdn_text_take(text *t) {
  if (t->ok && t->data) return t->data;
  free(t->data);
  return NULL;
}
