/* A small pool of threads. The calling thread takes part, so `threads` = 1 starts none. */
#ifndef RDI_EXEC_POOL_H
#define RDI_EXEC_POOL_H

#include "redelta/exec.h"

typedef struct rdi_pool rdi_pool;

/* RD_E_NOMEM, RD_E_SYSTEM (a thread could not be started; those that could are joined again). */
rd_status rdi_pool_create(const rd_allocator *allocator, int32_t threads, rdi_pool **out);
void rdi_pool_destroy(rdi_pool *pool);

/* Runs fn(arg, i) for each i in [0, n). In a child of fork() the threads are started anew on first
 * use; when the system refuses them there, the caller runs every slice (same bits, later). */
void rdi_pool_run(rdi_pool *pool, rd_slice_fn fn, void *arg, int64_t n);

/* CPUs this process may run on, at least 1. */
int32_t rdi_cpu_count(void);

#endif
