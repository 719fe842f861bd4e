/* The machinery under the kernel checks: guarded memory, captured crashes, structured inputs. */
#ifndef RDT_HARNESS_H
#define RDT_HARNESS_H

#include <stddef.h>
#include "kernels/registry.h"
#include "random.h"
#include "report.h"

/* ---- options and the running tally --------------------------------------------------------------
 */

typedef struct harness {
  report tally;
  uint64_t seed;
  const char *function; /* slot or kernel name to run; NULL: all */
  uint32_t isa;         /* ISAs to run */
  int64_t only_case;    /* -1: all */
  int repeat;           /* draws per shape */
  int every;            /* of the cases, only every so manieth */
  int all;              /* every n and state mode instead of draws */
  int quiet;            /* the self-test expects a failure: prints none, stops at the first */
  const char *self;     /* argv[0], for lines that reproduce a failure */
} harness;

/* Whether the entry is asked for and can run here. */
int harness_wants(const harness *h, const rdi_kernel_entry *e);
uint32_t isa_usable(void);
const char *isa_name(uint32_t isa);

/* Whether a check leaves this case out. */
static inline int harness_skips(const harness *h, int64_t index) {
  if (h->only_case >= 0) return h->only_case != index;
  return index % h->every != 0 || (h->quiet && h->tally.failed > 0);
}

/* One finished case of one kernel. A failure prints the message and how to repeat it. */
void harness_pass(harness *h);
void harness_fail(harness *h, const rdi_kernel_entry *e, int64_t index, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- guarded memory
 * ------------------------------------------------------------------------------ A buffer lies
 * between two inaccessible pages, right after the first or right before the second. Its window (the
 * data and up to 256 bytes around it) exists twice: `want`, where a check writes inputs and later
 * the expected results, and `got`, which the kernel sees. Everything starts as canaries, NaNs of
 * one bit pattern, so that reading what should not be read shows in the results and writing what
 * should not be written shows in the comparison. */

typedef struct buffer {
  char *region;
  size_t capacity;
  char *got, *want; /* the data */
  size_t bytes;
  size_t before, after; /* window bytes around the data */
  char *want_window;
} buffer;

void buffer_make(buffer *b, size_t capacity);
void buffer_place(buffer *b, size_t bytes, size_t align, rng *g);
void buffer_sync(buffer *b); /* got := want, the whole window */
void buffer_free(buffer *b);

/* Compares windows: bits, but all NaNs of the data are equal (canaries stay canaries). Returns the
 * index of the first different element of `dtype`, possibly outside of the data (negative or past
 * the end); INT64_MIN when there is no difference. */
int64_t buffer_differs(const buffer *b, rd_dtype dtype);

/* ---- calls
 * --------------------------------------------------------------------------------------- */

/* Calls fn(arg) with crashes caught. NULL, or what went wrong: a signal's name, or that the
 * floating point environment was left changed. */
const char *guarded_call(void (*fn)(void *), void *arg);

/* ---- inputs
 * -------------------------------------------------------------------------------------- */

typedef enum input_class {
  IN_NORMAL,   /* N(0,1) */
  IN_SPREAD,   /* exponents from -30 to 30: any change in the order of a sum shows */
  IN_DENORMAL, /* around 1e-40, with some ordinary numbers */
  IN_BORDER,   /* products and sums just above and below 2^-126, where flushing decides */
  IN_HUGE,     /* around 1e30: overflows */
  IN_ZEROS,    /* mostly +0 and -0 */
  IN_SPECIAL,  /* some NaN, +inf, -inf */
  IN_BITS,     /* any bit pattern */
  IN_CLASSES
} input_class;

float input(rng *g, input_class c);
void inputs(float *dst, int64_t n, rng *g, input_class c);

/* ---- shapes
 * -------------------------------------------------------------------------------------- */

extern const int16_t shape_K[], shape_R[]; /* end with 0 */

/* ---- the checks: every entry in `entries` of the slot, on the same cases
 * ------------------------- */

void check_rows(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_commit(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_lanes(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_lanes_commit(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_prep(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_widen(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_narrow(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_project(harness *h, const rdi_kernel_entry *const *entries, int count);
void check_fast(harness *h, const rdi_kernels *k, uint32_t isa);
void bench(const rdi_kernel_entry *e);

static inline int64_t round_up(int64_t x, int64_t m) { return (x + m - 1) / m * m; }

#endif
