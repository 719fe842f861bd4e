/* Contexts: who may run, on what, with which memory; and the text of the last error. */
#include "core/context.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/known.h"
#include "cpu/fpenv.h"
#include "exec/pool.h"
#include "util/allocate.h"
#include "util/checked.h"

enum { ALIGN = 64, MAX_THREADS = 1024 };

/* The arena is one block. What does not fit comes from further blocks that live until the call's
 * end, when they are merged into the first. */
typedef struct block {
  struct block *next;
  size_t size;
} block;

struct rd_context {
  atomic_int busy;
  int32_t threads;
  uint32_t isa;
  rdi_pool *pool; /* NULL with the caller's executor */
  rd_executor executor;
  rd_allocator allocator;
  rdi_fpenv env;
  char *arena, *current; /* current: the block that serves the next take */
  size_t arena_size, current_size, current_used;
  block *extra;
  rdi_kernels kernels;
  char message[512];
};

/* ---------------------------------------------------------------- memory ---------------------- */

static void *libc_alloc(void *self, size_t size, size_t align) {
  (void)self;
  size_t rounded; /* C wants a multiple of the alignment */
  return rdi_round_up(size, align, &rounded) ? aligned_alloc(align, rounded) : NULL;
}

static void libc_release(void *self, void *p, size_t size) {
  (void)self;
  (void)size;
  free(p);
}

static void *ctx_alloc(rd_context *ctx, size_t size) {
  return rdi_allocate(&ctx->allocator, size, ALIGN);
}

static void ctx_release(rd_context *ctx, void *p, size_t size) {
  if (p) ctx->allocator.release(ctx->allocator.self, p, size);
}

static void arena_restart(rd_context *ctx) {
  ctx->current = ctx->arena;
  ctx->current_size = ctx->arena_size;
  ctx->current_used = 0;
}

/* The first block becomes `size` bytes; on failure everything is as before. Nothing may be taken.
 */
static int arena_grow(rd_context *ctx, size_t size) {
  char *bigger = ctx_alloc(ctx, size);
  if (!bigger) return 0;
  ctx_release(ctx, ctx->arena, ctx->arena_size);
  ctx->arena = bigger;
  ctx->arena_size = size;
  arena_restart(ctx);
  return 1;
}

static void arena_merge(rd_context *ctx) {
  size_t total = ctx->arena_size;
  while (ctx->extra) {
    block *b = ctx->extra;
    ctx->extra = b->next;
    total += b->size - ALIGN;
    ctx_release(ctx, b, b->size);
  }
  arena_restart(ctx);
  (void)arena_grow(ctx, total); /* refused: the next call tries again */
}

rd_status rdi_scratch_need(rd_context *ctx, size_t bytes) {
  size_t size;
  if (!rdi_round_up(bytes, ALIGN, &size) || size > (size_t)PTRDIFF_MAX - ALIGN)
    return rdi_fail(ctx, RD_E_OVERFLOW, "scratch: %zu bytes do not fit the address space", bytes);
  if (ctx->current_size - ctx->current_used >= size) return RD_OK;
  if (ctx->current_used == 0 && !ctx->extra) {
    if (arena_grow(ctx, size)) return RD_OK;
  } else {
    block *b = ctx_alloc(ctx, size + ALIGN);
    if (b) {
      b->next = ctx->extra;
      b->size = size + ALIGN;
      ctx->extra = b;
      ctx->current = (char *)b + ALIGN;
      ctx->current_size = size;
      ctx->current_used = 0;
      return RD_OK;
    }
  }
  return rdi_fail(ctx, RD_E_NOMEM, "scratch: the allocator has no %zu aligned bytes", size);
}

void *rdi_scratch_take(rd_context *ctx, size_t bytes) {
  if (bytes == 0) bytes = 1; /* NULL means failure only */
  if (rdi_scratch_need(ctx, bytes) != RD_OK) return NULL;
  char *p = ctx->current + ctx->current_used;
  ctx->current_used += (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  return p;
}

/* ---------------------------------------------------------------- calls ----------------------- */

rd_status rdi_enter(rd_context *ctx) {
  if (!ctx) return RD_E_NULL;
  if (atomic_exchange_explicit(&ctx->busy, 1, memory_order_acquire)) return RD_E_BUSY;
  rdi_fpenv_enter(&ctx->env);
  ctx->message[0] = 0;
  return RD_OK;
}

rd_status rdi_leave(rd_context *ctx, rd_status status) {
  if (ctx->extra)
    arena_merge(ctx);
  else
    ctx->current_used = 0;
  rdi_fpenv_leave(&ctx->env);
  atomic_store_explicit(&ctx->busy, 0, memory_order_release);
  return status;
}

rd_status rdi_fail(rd_context *ctx, rd_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(ctx->message, sizeof ctx->message, format, args);
  va_end(args);
  return status;
}

const char *rd_last_error(const rd_context *ctx) { return ctx ? ctx->message : "no context"; }

const rdi_kernels *rdi_context_kernels(const rd_context *ctx) { return &ctx->kernels; }
const rd_allocator *rdi_context_allocator(const rd_context *ctx) { return &ctx->allocator; }
int rdi_context_forced(const rd_context *ctx) { return ctx->pool == NULL; }
uint32_t rdi_context_isa(const rd_context *ctx) { return ctx->isa; }
int32_t rd_context_threads(const rd_context *ctx) { return ctx ? ctx->threads : 0; }
size_t rd_context_reserved(const rd_context *ctx) { return ctx ? ctx->arena_size : 0; }

rd_status rd_context_reserve(rd_context *ctx, size_t bytes) {
  const rd_status status = rdi_enter(ctx);
  return status != RD_OK ? status : rdi_leave(ctx, rdi_scratch_need(ctx, bytes));
}

/* ---------------------------------------------------------------- slices ---------------------- */

typedef struct slice_call {
  rd_slice_fn fn;
  void *arg;
} slice_call;

/* Executor threads belong to others: whatever modes they run with are put aside and back. */
static void run_slice(void *arg, int64_t i) {
  const slice_call *call = arg;
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  call->fn(call->arg, i);
  rdi_fpenv_leave(&env);
}

rd_status rdi_execute(rd_context *ctx, rd_slice_fn fn, void *arg, int64_t n) {
  if (n <= 1) { /* rdi_enter has set this thread's environment */
    if (n == 1) fn(arg, 0);
    return RD_OK;
  }
  slice_call call = {fn, arg};
  if (ctx->pool) {
    rdi_pool_run(ctx->pool, run_slice, &call, n);
    return RD_OK;
  }
  const int code = ctx->executor.run(ctx->executor.self, run_slice, &call, n);
  if (code == 0) return RD_OK;
  return rdi_fail(ctx, RD_E_EXECUTOR,
                  "executor: run() of %" PRId64 " slices returned %d, expected 0", n, code);
}

/* ---------------------------------------------------------------- life ------------------------ */

void rd_context_options_init(rd_context_options *options) {
  if (!options) return;
  *options = (rd_context_options){.struct_size = sizeof *options};
}

static rd_status check_options(const rd_context_options *o, uint32_t *isa) {
  if (o->threads < 0 || o->threads > MAX_THREADS) return RD_E_ENUM;
  if (o->executor.run && (o->executor.concurrency < 1 || o->executor.concurrency > MAX_THREADS))
    return RD_E_ENUM;
  if (!o->allocator.alloc != !o->allocator.release) return RD_E_ENUM;
  const uint32_t usable = rd_isa_usable();
  const int everything = o->isa_mask == 0 || o->isa_mask == RD_ISA_ALL;
  if (!everything && ((o->isa_mask & ~usable) || !(o->isa_mask & rd_isa_built()))) return RD_E_ISA;
  /* The scalar kernels stay reachable: they serve every slot that nothing else does. */
  *isa = (everything ? usable : o->isa_mask) | RD_ISA_SCALAR;
  return RD_OK;
}

/* In the caller's FP environment nothing is promised, so the check brings its own. */
static int arithmetic_ok(void) {
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  const int ok = rdi_known_answers();
  rdi_fpenv_leave(&env);
  return ok;
}

rd_status rd_context_create(const rd_context_options *options, rd_context **out) {
  if (!out) return RD_E_NULL;
  *out = NULL;
  rd_context_options o;
  rd_context_options_init(&o);
  if (options && options->struct_size != sizeof o) return RD_E_STRUCT_SIZE;
  if (options) o = *options;
  uint32_t isa;
  rd_status status = check_options(&o, &isa);
  if (status != RD_OK) return status;
  if (!o.allocator.alloc) o.allocator = (rd_allocator){libc_alloc, libc_release, NULL};

  rd_context *ctx = rdi_allocate(&o.allocator, sizeof *ctx, ALIGN);
  if (!ctx) return RD_E_NOMEM;
  memset(ctx, 0, sizeof *ctx);
  atomic_init(&ctx->busy, 0);
  ctx->allocator = o.allocator;
  ctx->executor = o.executor;
  ctx->isa = isa;
  rdi_kernels_select(&ctx->kernels, isa);
  status = arithmetic_ok() ? RD_OK : RD_E_ARITHMETIC;
  if (o.executor.run) {
    ctx->threads = o.executor.concurrency;
  } else {
    const int32_t cpus = rdi_cpu_count();
    ctx->threads = o.threads ? o.threads : cpus < MAX_THREADS ? cpus : MAX_THREADS;
    if (status == RD_OK) status = rdi_pool_create(&ctx->allocator, ctx->threads, &ctx->pool);
  }
  if (status == RD_OK)
    *out = ctx;
  else
    rd_context_destroy(ctx);
  return status;
}

void rd_context_destroy(rd_context *ctx) {
  if (!ctx) return;
  rdi_pool_destroy(ctx->pool);
  ctx_release(ctx, ctx->arena, ctx->arena_size);
  const rd_allocator allocator = ctx->allocator;
  allocator.release(allocator.self, ctx, sizeof *ctx);
}
