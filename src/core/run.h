/* The driver: cuts a job, gives every slice its scratch, and walks its items. */
#ifndef RDI_CORE_RUN_H
#define RDI_CORE_RUN_H

#include "core/job.h"
#include "core/lane.h"

/* Runs the job on the context's executor. The context is already entered (rdi_enter). Returns
 * RD_OK, RD_E_NOMEM, RD_E_OVERFLOW or RD_E_EXECUTOR; NOMEM and OVERFLOW come before any write. */
rd_status rdi_run(rd_context *ctx, const rdi_job *job);

/* Arena bytes of a run of so many slices on so many threads. Returns 0 when they do not fit. */
int rdi_run_scratch(const rdi_kernels *k, int64_t slices, int64_t threads,
                    const rdi_lane_size *size, size_t *bytes);

#endif
