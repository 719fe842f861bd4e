/* Inside of a context, for the core and the operators. */
#ifndef RDI_CORE_CONTEXT_H
#define RDI_CORE_CONTEXT_H

#include "redelta/exec.h"
#include "kernels/kernel.h"

/* One call at a time: enter at the top of every public call, leave with its status at every return.
 * enter clears the message and sets the canonical FP environment (so that also the rounding of
 * scale and the like is ours), leave restores the caller's; enter fails with RD_E_NULL (no message)
 * or RD_E_BUSY (message untouched), and then there is nothing to leave. */
rd_status rdi_enter(rd_context *ctx);
rd_status rdi_leave(rd_context *ctx, rd_status status);

/* Sets the message (printf form, truncated to the buffer) and returns `status`. */
rd_status rdi_fail(rd_context *ctx, rd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

const rdi_kernels *rdi_context_kernels(const rd_context *ctx);
const rd_allocator *rdi_context_allocator(const rd_context *ctx);
/* 1 with the caller's own executor: it gets every slice that the cut can give, however small. */
int rdi_context_forced(const rd_context *ctx);
uint32_t rdi_context_isa(const rd_context *ctx); /* the mask in force: usable and allowed */

/* Scratch for this call out of the grow-only arena, 64-byte aligned; requests of one call follow
 * each other and stay where they are until rdi_leave. need(bytes) makes sure that the next takes of
 * `bytes` in total (each rounded up to 64) cannot fail: ask before the first write. A call that had
 * to grow the arena more than once leaves it in one piece, so its next run allocates nothing.
 * RD_E_NOMEM and RD_E_OVERFLOW with a message; take returns NULL then. */
rd_status rdi_scratch_need(rd_context *ctx, size_t bytes);
void *rdi_scratch_take(rd_context *ctx, size_t bytes);

/* Runs fn(arg, i) for i in [0,n) on the executor, each slice inside the canonical FP environment. A
 * single slice runs on the calling thread. RD_E_EXECUTOR with a message when the executor fails. */
rd_status rdi_execute(rd_context *ctx, rd_slice_fn fn, void *arg, int64_t n);

#endif
