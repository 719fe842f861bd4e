/* The EXACT way through the draft tree of an item. */
#ifndef RDI_CORE_TREE_H
#define RDI_CORE_TREE_H

#include "core/item.h"

/* Verify and commit_verify of the item's tree (it->parents): out and records of every node. `commit`
 * records are applied to the state first. */
void rdi_tree_item(const rdi_item *it, int64_t commit);
/* The nodes from `first` on that descend from `base`, -1 or a node before `first`, through such nodes
 * alone; `state`, f32 rows, is the one after `base`. */
void rdi_tree_rest(const rdi_item *it, int64_t first, int64_t base, const float *state,
                   int64_t stride);

#endif
