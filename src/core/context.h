/* Inside of a context, for the core and the operators. */
#ifndef RDI_CORE_CONTEXT_H
#define RDI_CORE_CONTEXT_H

#include "redelta/exec.h"
#include "kernels/kernel.h"

/* One call at a time: enter at the top of every public call, leave with its status at every return.
 * enter clears the message; fails with RD_E_NULL (no message) or RD_E_BUSY (message untouched). */
rd_status rdi_enter(rd_context *ctx);
rd_status rdi_leave(rd_context *ctx, rd_status status);

/* Sets the message (printf form, truncated to the buffer) and returns `status`. */
rd_status rdi_fail(rd_context *ctx, rd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

const rdi_kernels *rdi_context_kernels(const rd_context *ctx);

/* Scratch for this call out of the grow-only arena, 64-byte aligned; a second request in the same call
 * follows the first. rdi_enter starts afresh. NULL when the allocator fails (message set). Because
 * growing moves the arena, ask for everything before using any: rdi_scratch_need first. */
rd_status rdi_scratch_need(rd_context *ctx, size_t bytes);
void *rdi_scratch_take(rd_context *ctx, size_t bytes);

/* Runs fn(arg, i) for i in [0,n) on the executor, each slice inside the canonical FP environment. */
rd_status rdi_execute(rd_context *ctx, rd_slice_fn fn, void *arg, int64_t n);

#endif
