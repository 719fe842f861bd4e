/* Byte ranges one core touched in one GM tensor: races between cores are found from them. */
#ifndef REDELTA_NPU_CHECK_RANGES_H
#define REDELTA_NPU_CHECK_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct range {
  uint64_t begin, end;
  uint32_t site;
  uint8_t op, pipe;
} range;
typedef struct range_set {
  range *list;
  size_t count, capacity;
} range_set;
/* What a core does to a GM tensor: scalar stores go to memory by lines of the data cache. */
typedef enum range_kind { RANGES_READ, RANGES_WRITTEN, RANGES_STORED, RANGES } range_kind;

bool rdn_ranges_add(range_set *s, range r);
void rdn_ranges_merge(range_set *s);

#endif
