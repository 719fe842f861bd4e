/* The cut of a job: items are (sequence, value head, row block) in this order; slices are runs of
 * items. */
#ifndef RDI_CORE_CUT_H
#define RDI_CORE_CUT_H

#include "core/job.h"

typedef struct rdi_cut {
  int64_t row_block; /* rows of an item; the last block of a head may be shorter */
  int64_t blocks;    /* per head */
  int64_t items;
  int64_t slices;
} rdi_cut;

/* At most RDI_SLICES_PER_THREAD slices for each of `threads`, and no more than `work` (state
 * elements visited, tokens included) is worth; heads are cut into row blocks when there are fewer
 * than two items per core, unless all are `even` and a whole number falls to each core. Returns 0
 * when the counts do not fit. */
enum { RDI_SLICES_PER_THREAD = 4 };
int rdi_cut_make(rdi_cut *cut, int64_t threads, int64_t cores, int even, int64_t work, int64_t B,
                 int64_t Hv, int64_t V);

/* start[i] .. start[i+1] are the items of slice i, of about equal weight (tokens, plus one for the
 * state itself). */
void rdi_cut_slices(const rdi_cut *cut, const rdi_job *job, int64_t *start);

#endif
