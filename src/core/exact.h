/* The EXACT way through the tokens of an item. */
#ifndef RDI_CORE_EXACT_H
#define RDI_CORE_EXACT_H

#include "core/item.h"

/* Prefill, decode, verify and commit_verify of at least one token, for a group of items: out, snapshots
 * and records, and with `keep` the state after the last token to dst (p NULL: not wanted). `commit`
 * records are applied to the state first, in the pass over it that is needed anyway. */
void rdi_exact_group(const rdi_item *items, int64_t count, int keep, int64_t commit);

#endif
