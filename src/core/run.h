/* Inside of the driver: how a job is cut, what a slice owns, and the two kinds of work items. */
#ifndef RDI_CORE_RUN_H
#define RDI_CORE_RUN_H

#include "core/job.h"
#include "kernels/kernel.h"
#include "util/tensor.h"

/* Rows that are worked on together while they are in the first-level cache (32 x 128 floats = 16
 * KiB). */
enum { RDI_SUB_ROWS = 32 };

/* ---- the cut: items are (sequence, value head, row block) in this order; slices are runs of items
 */
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

/* ---- scratch of one slice, all 64-byte aligned */
typedef struct rdi_lane {
  float *k, *a, *kt, *qt, *kq, *beta; /* operands of one block of tokens, [16][Kp] and [16] */
  float *v, *u, *o;                   /* [16][Rp]; unused where the caller's memory serves */
  float *pk, *pa, *pu;                /* operands of records, as above */
  float *tile;                        /* the running state of an item */
  float *stage;                       /* [SUB_ROWS][Kp] */
  float *rows;                        /* what rows_scratch asked for */
  /* FAST only, else NULL: operands of kernels/fast.h (kh of a whole verify), u of its tokens, the
   * state in native rows, what spread_scratch asked for */
  float *kh, *kf, *qf, *P, *ck, *cq, *past_u, *flat, *spread;
  int64_t Rp;
  int64_t held_b, held_h, held_i; /* record operands in pk and pa: whose, from which token on */
} rdi_lane;

/* Arena bytes of a run with that cut. Returns 0 when they do not fit. */
int rdi_run_scratch(const rdi_kernels *k, int64_t slices, int64_t row_block, int64_t K,
                    size_t *bytes);

/* ---- states */
typedef struct rdi_rows_at { /* row r of a located head block, at p; NULL: no such state */
  char *p;
  const rdi_states *s;
} rdi_rows_at;

/* Whether the index of sequence b is the pad slot (never for an absent pool). */
int rdi_is_pad(const rdi_states *s, int64_t b, int64_t pad_slot);
/* The state of index entry i, head h, rows from r on. p is NULL when absent or the pad slot. */
rdi_rows_at rdi_state_at(const rdi_states *s, int64_t i, int64_t h, int64_t r, int64_t pad_slot);
rdi_rows_at rdi_rows_from(rdi_rows_at at, int64_t r); /* r rows further */

/* f32 rows that a kernel can work on where they are. */
int rdi_is_plain(const rdi_states *s);

/* R rows x K keys between memory and an f32 block [R][stride]; src.p NULL: zeros. */
void rdi_load_native(const rdi_kernels *k, float *dst, int64_t stride, rdi_rows_at src, int64_t R,
                     int64_t K);
void rdi_store_native(const rdi_kernels *k, rdi_rows_at dst, const float *src, int64_t stride,
                      int64_t R, int64_t K);
/* dst := src without arithmetic when both are of one kind, else converted; src.p NULL: zeros. */
void rdi_copy_rows(const rdi_kernels *k, rdi_rows_at dst, rdi_rows_at src, float *stage, int64_t R,
                   int64_t K, int64_t Kp);

/* ---- items */
typedef struct rdi_item {
  const rdi_job *job;
  const rdi_kernels *k;
  rdi_lane *lane;
  int64_t b, h, r, R;    /* sequence, value head, first row, rows */
  int64_t start, length; /* tokens of the sequence */
  rdi_rows_at src, dst;  /* initial and final */
  const float *next;     /* state of the next item, to prefetch */
} rdi_item;

/* ---- a block of at most RDI_TOKENS tokens of an item */
typedef struct rdi_block { /* tokens [t, t+n) of the sequence, with rows of v, u, o from the item's
                              first */
  int64_t t, n;
  const float *v;
  float *u, *o;
  int64_t v_stride, u_stride, o_stride;
} rdi_block;

/* Operands and v of tokens [t, t+n); u and o go to the caller's memory at once when it is f32. */
rdi_block rdi_open_block(const rdi_item *it, int64_t t, int64_t n);
/* Narrows what was not written in place, and writes k and decay once per head. */
void rdi_close_block(const rdi_item *it, const rdi_block *blk);
/* Tokens [s, s+n) of the block, R rows from row r of the item on. */
rdi_rows_args rdi_block_rows(const rdi_item *it, const rdi_block *blk, int64_t s, int64_t n,
                             int64_t r, int64_t R);

/* ---- FAST */
/* Whether the item's tokens run FAST; if so, does it all (out, state to dst, records). */
int rdi_fast_item(const rdi_item *it, rdi_rows_at dst);

void rdi_tokens_item(const rdi_item *it); /* prefill, decode, verify, commit_verify */
/* Prefetches the inputs, outputs and records of an item that comes soon. */
void rdi_bring_near(const rdi_item *it);
void rdi_replay_item(const rdi_item *it);                                  /* commit, materialize */
void rdi_replay_rows(const rdi_item *it, int64_t m, int64_t r, int64_t R); /* rows [r, r+R) of it */

/* Element i bytes further. */
static inline char *rdi_at(char *base, int64_t elements, rd_dtype dtype) {
  return base + elements * rdi_size(dtype);
}

#endif
