/* JSON for people and programs. SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include <math.h>
#include <stdlib.h>

json_t *io_json_real(double value) {
  if (isnan(value)) return json_string("nan");
  if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
  return json_real(value);
}

io_status io_json_print(FILE *stream, json_t *value) {
  char *text = value != NULL ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(value);
  if (text == NULL) return IO_SYSTEM;
  int failed = fputs(text, stream) < 0 || fputc('\n', stream) < 0 || fflush(stream) != 0;
  free(text);
  return failed ? IO_SYSTEM : IO_OK;
}
