/* redelta/exec.h - contexts: threads, memory, CPU choice, error text. SPDX-License-Identifier: Apache-2.0 */
#ifndef REDELTA_EXEC_H
#define REDELTA_EXEC_H

#include "redelta/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rd_context rd_context;

/* One slice of work. Slices are independent: they run in any order, at the same time or not, on any
 * thread, each exactly once, and never wait for one another. */
typedef void (*rd_slice_fn)(void *arg, int64_t slice);

/* Caller-supplied executor. run() must call fn(arg, i) once for every i in [0, n) and return 0 when
 * all have finished; any other value makes the operator return RD_E_EXECUTOR (outputs undefined).
 * `concurrency` (1 to 1024) is how many slices it can run at once: it shapes the cut, never the bits.
 * Work of a single slice runs on the calling thread without it. The library's slices set their own
 * floating-point modes and put back those they found, flags included. */
typedef struct rd_executor {
  int (*run)(void *self, rd_slice_fn fn, void *arg, int64_t n);
  void *self;
  int32_t concurrency;
  int32_t reserved;
} rd_executor;

/* Caller-supplied memory. alloc returns `size` bytes aligned to `align` (a power of two) or NULL. What
 * is not aligned to the smaller of `align` and 64 is released again and counts as NULL. */
typedef struct rd_allocator {
  void *(*alloc)(void *self, size_t size, size_t align);
  void (*release)(void *self, void *ptr, size_t size);
  void *self;
} rd_allocator;

/* Instruction sets a context may use; a bit set. The bits of EXACT results do not depend on it. */
typedef enum rd_isa {
  RD_ISA_SCALAR = 1,     /* plain C                                                    */
  RD_ISA_SCALAR_FMA = 2, /* the same C, compiled with the FMA and AVX2 instructions    */
  RD_ISA_AVX2 = 4,       /* AVX2 + FMA + F16C                                          */
  RD_ISA_AVX512 = 8,     /* AVX-512 F, BW, DQ, VL                                      */
  RD_ISA_NEON = 16,      /* AArch64 Advanced SIMD                                      */
  RD_ISA_AMX = 32        /* AMX-TILE, AMX-BF16; only together with RD_ISA_AVX512       */
} rd_isa;
#define RD_ISA_ALL 0xffffffffu

typedef struct rd_context_options {
  size_t struct_size;
  int32_t threads;        /* 0: the CPUs this process may use; ignored with an own executor   */
  uint32_t isa_mask;      /* 0 or RD_ISA_ALL: everything usable; else a set of rd_isa bits    */
  rd_executor executor;   /* run == NULL: the built-in pool of `threads` threads              */
  rd_allocator allocator; /* alloc == NULL: the C library's                                   */
  char *message;          /* may be NULL: gets why rd_context_create failed, "" when it did not */
  size_t message_size;    /* bytes of it; what does not fit is cut off                        */
} rd_context_options;

/* Fills in the defaults (all of the above zero). */
RD_API void rd_context_options_init_sized(rd_context_options *options, size_t struct_size);
static inline void rd_context_options_init(rd_context_options *options) {
  rd_context_options_init_sized(options, sizeof *options);
}

/* Makes a context. options may be NULL (defaults). Runs the known-answer check of the arithmetic.
 * Errors (options.message says more, but of the first two): RD_E_NULL, RD_E_STRUCT_SIZE, RD_E_ENUM
 * (threads < 0 or > 1024, concurrency < 1 or > 1024, half-given allocator), RD_E_PRESENCE
 * (executor.reserved), RD_E_ISA, RD_E_ARITHMETIC, RD_E_NOMEM, RD_E_SYSTEM. *out is NULL on error.
 * A context serves one call at a time (a second concurrent one gets RD_E_BUSY); different contexts
 * are independent.
 * RD_ISA_AMX: where this build has kernels for it, they are usable and isa_mask names it or is 0 or
 * RD_ISA_ALL, the call asks the system for the permission to use tiles, which the process keeps and its
 * children of fork inherit. Afterwards sigaltstack() fails in every thread with less than
 * getauxval(AT_MINSIGSTKSZ) bytes, about 12 KiB (8 KiB were enough before); and the request itself fails
 * while any thread has so small a stack. When it fails, AMX is off without a word for 0 and RD_ISA_ALL, and
 * RD_E_ISA when named. Every slice of work loads and releases its tile configuration.
 * No function of this library is a cancellation point (pthread_cancel): a thread that
 * is cancelled inside of one ends it first, the executor's and the allocator's functions included; its
 * state is restored at the end. Asynchronous cancellation is not supported. After fork() the built-in
 * pool is made anew in the child on its next use; a context that was inside a call of another thread at
 * that moment stays busy in the child. */
RD_API rd_status rd_context_create(const rd_context_options *options, rd_context **out);

/* Joins the pool and frees everything the context owns. NULL is allowed. */
RD_API void rd_context_destroy(rd_context *ctx);

/* Message of the last failed call on this context; "" after a successful one. Never NULL; valid
 * until the next call on the context. */
RD_API const char *rd_last_error(const rd_context *ctx);

/* Makes sure that `bytes` of scratch are there, so that calls needing no more allocate nothing.
 * The arena only grows. Errors: RD_E_NULL, RD_E_BUSY, RD_E_OVERFLOW, RD_E_NOMEM. */
RD_API rd_status rd_context_reserve(rd_context *ctx, size_t bytes);

/* Scratch the arena holds now, in bytes. 0 for NULL. */
RD_API size_t rd_context_reserved(const rd_context *ctx);

/* How many slices run at once: the built-in pool's threads, or the executor's concurrency. */
RD_API int32_t rd_context_threads(const rd_context *ctx);

/* Instruction sets usable on this machine (CPU and operating system), as rd_isa bits. Asks for no
 * permission: whether the system grants RD_ISA_AMX shows in rd_context_create. */
RD_API uint32_t rd_isa_usable(void);

/* Instruction sets this build has kernels for, as rd_isa bits. */
RD_API uint32_t rd_isa_built(void);

/* Of those, the sets whose instructions this build replaces by others with the same bits, to test their
 * kernels on any machine (RD_ISA_AMX with the build option REDELTA_EMULATE_AMX); else 0. Slow. */
RD_API uint32_t rd_isa_emulated(void);

/* "scalar", "scalar_fma", "avx2", "avx512", "neon", "amx"; NULL for anything else. */
RD_API const char *rd_isa_name(rd_isa isa);

/* Kernel slots, for reports: slot i of [0, rd_kernel_slots()) is called rd_kernel_slot_name(i) and
 * is served in this context by the kernel rd_kernel_chosen(ctx, i) of instruction set
 * rd_kernel_isa(ctx, i); NULL / 0 out of range. "rows", "commit", "prep", "widen" and "narrow" always
 * have a kernel. "fold", "pairs", "spread" and "chunk" serve RD_FAST only; where no allowed instruction set has
 * one, the kernel is called "exact" and its instruction set is 0: RD_FAST runs as RD_EXACT there (without "chunk": all of it with the others). */
RD_API int32_t rd_kernel_slots(void);
RD_API const char *rd_kernel_slot_name(int32_t slot);
RD_API const char *rd_kernel_chosen(const rd_context *ctx, int32_t slot);
RD_API uint32_t rd_kernel_isa(const rd_context *ctx, int32_t slot);

#ifdef __cplusplus
}
#endif
#endif
