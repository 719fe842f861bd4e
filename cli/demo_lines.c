/* The lines of the demo, as text and as JSON. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_lines.h"

#include <stdarg.h>

void demo_part(demo *d, int part, const char *format, ...) {
  char title[256];
  va_list list;
  va_start(list, format);
  vsnprintf(title, sizeof title, format, list);
  va_end(list);
  d->part = part;
  if (!d->json) printf("%spart %d: %s\n", part > 1 ? "\n" : "", part, title);
}

static void add_line(demo *d, const char *name, int holds, const char *format, va_list list) {
  char text[512];
  vsnprintf(text, sizeof text, format, list);
  json_t *verdict = holds < 0 ? json_null() : json_boolean(holds);
  json_array_append_new(d->list, json_pack("{s:i, s:s, s:o, s:s}", "part", d->part, "line", name,
                                           "passed", verdict, "figures", text));
  d->lines++;
  if (!d->json) printf("  %-7s%-30s %s\n", holds < 0 ? "" : holds ? "ok" : "FAILED", name, text);
  fflush(stdout);
}

void demo_check(demo *d, int holds, const char *name, const char *format, ...) {
  va_list list;
  va_start(list, format);
  cli_progress_end();
  d->checks++;
  d->failed += !holds;
  add_line(d, name, holds != 0, format, list);
  va_end(list);
}

void demo_note(demo *d, const char *name, const char *format, ...) {
  va_list list;
  va_start(list, format);
  cli_progress_end();
  add_line(d, name, -1, format, list);
  va_end(list);
}
