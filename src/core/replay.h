/* Commit and materialize of an item: the accepted records applied to its state. */
#ifndef RDI_CORE_REPLAY_H
#define RDI_CORE_REPLAY_H

#include "core/item.h"

/* The accepted records of the item's sequence, all rows. */
void rdi_replay_item(const rdi_item *it);
/* The first m records of its path, rows [r, r+R) of the item. */
void rdi_replay_rows(const rdi_item *it, int64_t m, int64_t r, int64_t R);

#endif
