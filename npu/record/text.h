/* Growing text. */
#ifndef REDELTA_NPU_RECORD_TEXT_H
#define REDELTA_NPU_RECORD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* ok turns false when memory is missing. */
typedef struct text {
  char *data;
  size_t used, capacity;
  bool ok, started;
} text;
__attribute__((format(printf, 2, 3))) void rdn_text_add(text *t, const char *format, ...);
void rdn_text_json(text *t, const char *string); /* quoted and escaped; NULL gives null */
void rdn_text_number(text *t, double value);     /* JSON number, or a string when not finite */
char *rdn_text_take(text *t);

#endif
