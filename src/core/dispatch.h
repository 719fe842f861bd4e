/* The way of items. */
#ifndef RDI_CORE_DISPATCH_H
#define RDI_CORE_DISPATCH_H

#include "core/item.h"

/* Whether the item gains by taking turns with its neighbours: several blocks of tokens. */
int rdi_item_groups(const rdi_item *it);
/* Everything the job's verb asks for the rows of a group: items of one sequence, more than one only if
 * they gain by it. */
void rdi_group_run(const rdi_item *items, int64_t count);
/* Prefetches the inputs, outputs and records of an item that comes soon. */
void rdi_item_prefetch(const rdi_item *it);

#endif
