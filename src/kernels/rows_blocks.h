/* The order of work of the native `rows` kernels, the same for every instruction set: blocks of 8
 * rows, several blocks in turn so that the chain dots -> u -> update of one hides behind the products
 * of the others. Included once by a kernel file, after it has defined
 *
 *   rdi_sums                                        what a pass returns: 8 yk and 8 yq
 *   rdi_sums pass_dots(in, stride, now, K)          the sums only
 *   rdi_sums pass_all(in, out, stride, p, now, u, K)   update by the previous token p, store, sums
 *   rdi_sums pass_last(in, stride, p, now, u, K)    the same without the store
 *   void pass_update(in, out, stride, p, u, K)      update and store
 *   rdi_sums pass_chain(in, out, dots_in, stride, p, u, K, near, far)
 *                                                   pass_update of one block, pass_dots of another;
 *                                                   brings rows into L1 and L2
 *   void finish(g, b, t, sums)                      u and o of one block; u also to b->u
 *   void prefetch_far(p)                            a line into L2
 *
 * Rows are `stride` bytes apart on both sides of a pass. */
#ifndef RDI_KERNELS_ROWS_BLOCKS_H
#define RDI_KERNELS_ROWS_BLOCKS_H

#include "kernels/kernel.h"

#include <string.h>

enum { ROWS = 8, GROUP = 4 }; /* rows of a block; blocks that take turns */

typedef struct operands { /* one token's rows of Kp floats */
  const float *k, *a, *kt, *qt;
} operands;

static inline operands at(operands o, int64_t c) {
  return (operands){o.k + c, o.a + c, o.kt + c, o.qt + c};
}

typedef struct block {
  const char *in;
  char *out; /* where the state goes after the first update */
  int64_t row, rows;
  float *u; /* 8 floats of the last token, 32-byte aligned */
} block;

/* Where a pass without STORE would write: places are computed from it, and that is not defined for a
 * null pointer. */
static inline char *nowhere(const char *in) { return (char *)(uintptr_t)in; }

/* Lines of the rows that come next, spread over the passes of this group. */
typedef struct ahead {
  const char *at, *end;
  int64_t step;
} ahead;

#endif

#ifdef RDI_ROWS_BLOCKS_BODY
static operands token(const rdi_rows_args *g, int64_t t) {
  return at((operands){g->k, g->a, g->kt, g->qt}, t * g->Kp);
}

static ahead lines(const void *first, int64_t bytes, int64_t passes) {
  ahead f = {first, first ? (const char *)first + bytes : NULL, 0};
  f.step = (bytes / passes + 63) & ~(int64_t)63;
  return f;
}

static void prefetch(ahead *f) {
  if (!f->at) return; /* no address comes from a null pointer, not even one that is not used */
  const char *end = f->at + f->step < f->end ? f->at + f->step : f->end;
  for (; f->at < end; f->at += 64) prefetch_far(f->at);
}

static void run_group(const rdi_rows_args *g, const block *b, int64_t blocks, int64_t stride,
                      int keep, ahead f) {
  operands p = token(g, 0);
  for (int64_t i = 0; i < blocks; i++) {
    finish(g, &b[i], 0, pass_dots(b[i].in, stride, p, g->K));
    prefetch(&f);
  }
  for (int64_t t = 1; t < g->n; t++) {
    operands now = token(g, t);
    int last = t + 1 == g->n && !keep;
    for (int64_t i = 0; i < blocks; i++) {
      const char *in = t == 1 ? b[i].in : b[i].out;
      finish(g, &b[i], t,
             last ? pass_last(in, stride, p, now, b[i].u, g->K)
                  : pass_all(in, b[i].out, stride, p, now, b[i].u, g->K));
      prefetch(&f);
    }
    p = now;
  }
  if (!keep) return;
  for (int64_t i = 0; i < blocks; i++)
    pass_update(g->n == 1 ? b[i].in : b[i].out, b[i].out, stride, p, b[i].u, g->K);
}

/* Rows NEAR blocks ahead come into the first cache, FAR blocks ahead into the second: one core cannot
 * have enough lines on their way from memory to the first alone. Past the end: those of the next item. */
enum { NEAR = 2, FAR = 8 };
static const char *rows_ahead(const rdi_rows_args *g, int64_t i, int64_t blocks, int64_t step) {
  if (i < blocks || !g->next) return (const char *)g->s_in + i * step;
  return (const char *)g->next + (i - blocks) * step;
}

/* One token, full blocks: the update of one block goes with the sums of the next, so that memory
 * never waits for a reduction. */
static void run_decode(const rdi_rows_args *g, int64_t blocks, int64_t stride) {
  _Alignas(64) float u[2][ROWS];
  const char *in = (const char *)g->s_in;
  char *out = (char *)g->s_out;
  operands p = token(g, 0);
  int64_t step = ROWS * stride;
  block b = {in, out, 0, ROWS, u[0]};
  finish(g, &b, 0, pass_dots(in, stride, p, g->K));
  for (int64_t i = 1; i < blocks; i++) {
    const char *near = rows_ahead(g, i - 1 + NEAR, blocks, step);
    const char *far = rows_ahead(g, i - 1 + FAR, blocks, step);
    rdi_sums y = pass_chain(in, out, in + step, stride, p, u[(i - 1) & 1], g->K, near, far);
    in += step, out += step;
    b = (block){in, out, i * ROWS, ROWS, u[i & 1]};
    finish(g, &b, 0, y);
  }
  pass_update(in, out, stride, p, u[(blocks - 1) & 1], g->K);
}

static void copy_rows(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                      int64_t rows, int64_t K) {
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * to_stride, from + r * from_stride, (size_t)K * sizeof(float));
}

/* The last R % 8 rows, in a zeroed block of scratch. */
static void run_tail(const rdi_rows_args *g, int64_t row, float *work) {
  _Alignas(64) float u[ROWS];
  int64_t rows = g->R - row, stride = g->Kp * 4;
  memset(work, 0, (size_t)(ROWS * stride));
  copy_rows((char *)work, stride, (const char *)(g->s_in + row * g->in_stride), g->in_stride * 4,
            rows, g->K);
  block b = {(char *)work, (char *)work, row, rows, u};
  run_group(g, &b, 1, stride, g->s_out != NULL, lines(NULL, 0, 1));
  if (g->s_out)
    copy_rows((char *)(g->s_out + row * g->out_stride), g->out_stride * 4, (char *)work, stride,
              rows, g->K);
}

static int64_t rows_scratch(int64_t K) { return (GROUP + 1) * ROWS * ((K + 15) / 16 * 16); }

static void run_rows(const rdi_rows_args *g) {
  _Alignas(64) float u[GROUP][ROWS];
  int64_t full = g->R / ROWS, in_stride = g->in_stride * 4, out_stride = g->out_stride * 4;
  int keep = g->s_out != NULL;
  if (!keep) out_stride = g->n == 1 ? in_stride : g->Kp * 4;
  if (g->n == 1 && keep && full > 0 && in_stride == out_stride) {
    run_decode(g, full, in_stride);
    full = 0;
  }
  for (int64_t i = 0; i < full; i += GROUP) {
    int64_t blocks = full - i < GROUP ? full - i : GROUP, span = blocks * ROWS * in_stride;
    const char *in = (const char *)g->s_in + i * ROWS * in_stride;
    char *out = keep ? (char *)g->s_out + i * ROWS * out_stride : (char *)g->scratch;
    ahead f = lines(i + GROUP < full ? in + span : (const char *)g->next, span, blocks * g->n);
    if (in_stride != out_stride) { /* one stride serves both sides of a pass */
      copy_rows(out, out_stride, in, in_stride, blocks * ROWS, g->K);
      in = out;
    }
    block b[GROUP];
    for (int64_t j = 0; j < blocks; j++) {
      int64_t off = j * ROWS * out_stride;
      b[j] = (block){in + off, out + off, (i + j) * ROWS, ROWS, u[j]};
    }
    run_group(g, b, blocks, out_stride, keep, f);
  }
  if (g->R % ROWS) run_tail(g, g->R / ROWS * ROWS, g->scratch + GROUP * ROWS * g->Kp);
}
#endif
