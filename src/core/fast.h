/* The FAST way through the tokens of items (kernels/fast.h). */
#ifndef RDI_CORE_FAST_H
#define RDI_CORE_FAST_H

#include "core/item.h"

/* Whether a sequence of this length runs FAST. */
int rdi_fast_serves(const rdi_job *job, const rdi_kernels *k, int64_t length);
/* A group of such items, of at least one token: out, the state to dst (p NULL: not wanted), records, the
 * commit before a verify. */
void rdi_fast_group(const rdi_item *items, int64_t count);

#endif
