/* Contexts: who may run, on what, with which memory; and the text of the last error. */
#include "core/context.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/known.h"
#include "core/structs.h"
#include "cpu/amx.h"
#include "cpu/fpenv.h"
#include "exec/cancel.h"
#include "exec/pool.h"
#include "kernels/registry.h"
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
  int cancel;
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
  const int cancel = rdi_cancel_disable();
  if (atomic_exchange_explicit(&ctx->busy, 1, memory_order_acquire)) {
    rdi_cancel_restore(cancel);
    return RD_E_BUSY;
  }
  ctx->cancel = cancel;
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
  const int cancel = ctx->cancel;
  atomic_store_explicit(&ctx->busy, 0, memory_order_release);
  rdi_cancel_restore(cancel);
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

/* Executor threads belong to others: whatever modes they run with are put aside and back, and they
 * may be cancelled. */
static void run_slice(void *arg, int64_t i) {
  const slice_call *call = arg;
  const int cancel = rdi_cancel_disable();
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  call->fn(call->arg, i);
  rdi_fpenv_leave(&env);
  rdi_cancel_restore(cancel);
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
  rdi_fpenv_leave(&ctx->env); /* run() is the caller's code: its own environment */
  const int code = ctx->executor.run(ctx->executor.self, run_slice, &call, n);
  rdi_fpenv_enter(&ctx->env);
  if (code == 0) return RD_OK;
  return rdi_fail(ctx, RD_E_EXECUTOR,
                  "executor: run() of %" PRId64 " slices returned %d, expected 0", n, code);
}

/* ---------------------------------------------------------------- life ------------------------ */

/* There is no context yet that could keep a message. */
static rd_status no_context(const rd_context_options *o, rd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static rd_status no_context(const rd_context_options *o, rd_status status, const char *format,
                            ...) {
  if (!o->message) return status;
  va_list args;
  va_start(args, format);
  vsnprintf(o->message, o->message_size, format, args);
  va_end(args);
  return status;
}

static rd_status check_options(const rd_context_options *o, uint32_t *isa) {
  if (o->threads < 0 || o->threads > MAX_THREADS)
    return no_context(o, RD_E_ENUM, "threads: expected 0 to %d, got %" PRId32, MAX_THREADS,
                      o->threads);
  if (o->executor.run && (o->executor.concurrency < 1 || o->executor.concurrency > MAX_THREADS))
    return no_context(o, RD_E_ENUM, "executor.concurrency: expected 1 to %d, got %" PRId32,
                      MAX_THREADS, o->executor.concurrency);
  if (!o->allocator.alloc != !o->allocator.release)
    return no_context(o, RD_E_ENUM, "allocator: expected both alloc and release, or neither");
  const uint32_t usable = rd_isa_usable();
  const int everything = o->isa_mask == 0 || o->isa_mask == RD_ISA_ALL;
  if (!everything && ((o->isa_mask & ~usable) || !(o->isa_mask & rdi_registry_isas())))
    return no_context(o, RD_E_ISA,
                      "isa_mask: expected bits of 0x%" PRIx32 ", some of them of 0x%" PRIx32
                      ", got 0x%" PRIx32,
                      usable, rdi_registry_isas(), o->isa_mask);
  if (!everything && (o->isa_mask & RD_ISA_AMX) && !(o->isa_mask & RD_ISA_AVX512))
    return no_context(o, RD_E_ISA,
                      "isa_mask: expected RD_ISA_AVX512 beside RD_ISA_AMX, got 0x%" PRIx32,
                      o->isa_mask);
  /* The scalar kernels stay reachable: they serve every slot that nothing else does. */
  *isa = (everything ? usable : o->isa_mask) | RD_ISA_SCALAR;
  if (!(*isa & RD_ISA_AMX & rdi_registry_isas()) || rdi_amx_permit()) return RD_OK;
  if (!everything)
    return no_context(
        o, RD_E_ISA,
        "isa_mask: the system refuses the permission to use AMX (a thread with a small "
        "alternate signal stack?)");
  *isa &= ~(uint32_t)RD_ISA_AMX;
  return RD_OK;
}

/* In the caller's FP environment nothing is promised, so the check brings its own. */
static rd_status choose_kernels(rd_context *ctx) {
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  const rdi_answers answers = rdi_known_answers();
  rdi_fpenv_leave(&env);
  rdi_kernels_select(&ctx->kernels, answers == RDI_ANSWERS_RIGHT ? ctx->isa : RD_ISA_SOFT);
  return answers == RDI_ANSWERS_WRONG ? RD_E_ARITHMETIC : RD_OK;
}

static void destroy(rd_context *ctx) {
  rdi_pool_destroy(ctx->pool);
  ctx_release(ctx, ctx->arena, ctx->arena_size);
  const rd_allocator allocator = ctx->allocator;
  allocator.release(allocator.self, ctx, sizeof *ctx);
}

/* The part of rd_context_create that has the options. */
static rd_status create(rd_context_options o, rd_context **out) {
  if (o.message && o.message_size) o.message[0] = 0;
  uint32_t isa = 0;
  rd_status status = check_options(&o, &isa);
  if (status != RD_OK) return status;
  if (!o.allocator.alloc) o.allocator = (rd_allocator){libc_alloc, libc_release, NULL};

  rd_context *ctx = rdi_allocate(&o.allocator, sizeof *ctx, ALIGN);
  if (!ctx)
    return no_context(&o, RD_E_NOMEM, "context: the allocator has no %zu aligned bytes",
                      sizeof *ctx);
  memset(ctx, 0, sizeof *ctx);
  atomic_init(&ctx->busy, 0);
  ctx->allocator = o.allocator;
  ctx->executor = o.executor;
  ctx->isa = isa;
  status = choose_kernels(ctx);
  if (o.executor.run) {
    ctx->threads = o.executor.concurrency;
  } else {
    const int32_t cpus = rdi_cpu_count();
    ctx->threads = o.threads ? o.threads : cpus < MAX_THREADS ? cpus : MAX_THREADS;
    if (status == RD_OK) status = rdi_pool_create(&ctx->allocator, ctx->threads, &ctx->pool);
  }
  if (status == RD_OK) {
    *out = ctx;
    return RD_OK;
  }
  if (status == RD_E_ARITHMETIC)
    (void)no_context(&o, status, "this build or machine rounds differently: wrong known answers");
  else
    (void)no_context(&o, status, "threads: a pool of %" PRId32 " was refused", ctx->threads);
  destroy(ctx);
  return status;
}

rd_status rd_context_create(const rd_context_options *options, rd_context **out) {
  if (!out) return RD_E_NULL;
  *out = NULL;
  rd_context_options o;
  rd_context_options_init(&o);
  const rd_status status =
      options ? rdi_struct_take(RDI_STRUCT_CONTEXT_OPTIONS, options, &o) : RD_OK;
  if (status == RD_E_PRESENCE)
    return no_context(&o, status, "executor.reserved: must be zero in this version");
  if (status != RD_OK) return status;
  const int cancel = rdi_cancel_disable();
  const rd_status made = create(o, out);
  rdi_cancel_restore(cancel);
  return made;
}

void rd_context_destroy(rd_context *ctx) {
  if (!ctx) return;
  const int cancel = rdi_cancel_disable();
  destroy(ctx);
  rdi_cancel_restore(cancel);
}
