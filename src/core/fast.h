/* The FAST way through the tokens of an item (kernels/fast.h). */
#ifndef RDI_CORE_FAST_H
#define RDI_CORE_FAST_H

#include "core/item.h"

/* Whether the item's tokens run FAST; if so, does it all: out, the state to dst (p NULL: not wanted),
 * records, the commit before a verify. */
int rdi_fast_item(const rdi_item *it, rdi_rows_at dst);

#endif
