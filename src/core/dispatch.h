/* The way of each item. */
#ifndef RDI_CORE_DISPATCH_H
#define RDI_CORE_DISPATCH_H

#include "core/item.h"

/* Everything the job's verb asks for the item's rows. */
void rdi_item_run(const rdi_item *it);
/* Prefetches the inputs, outputs and records of an item that comes soon. */
void rdi_item_prefetch(const rdi_item *it);

#endif
