/* A block: at most RDI_TOKENS tokens of an item, whose operands stay in cache. */
#ifndef RDI_CORE_BLOCK_H
#define RDI_CORE_BLOCK_H

#include "core/item.h"

/* Tokens [t, t+n) of the sequence, with rows of v, u, o from the item's first. */
typedef struct rdi_block {
  int64_t t, n;
  const float *v;
  float *u, *o;
  int64_t v_stride, u_stride, o_stride;
} rdi_block;

/* Where the inputs of tokens [t, t+n) lie, for `prep` and `chunk`; n <= RDI_TOKENS, twice that with 16-bit
 * q and k and one gate per head. */
rdi_prep_args rdi_prep_from(const rdi_item *it, int64_t t, int64_t n);
/* v of the same tokens, rows of R elements of its type. */
const void *rdi_value_rows(const rdi_item *it, int64_t t, int64_t n, int64_t *stride);
/* Operands of tokens [t, t+n), n <= RDI_TOKENS. */
void rdi_prepare(const rdi_item *it, int64_t t, int64_t n, const rdi_operands *to);
/* k and decay of tokens [t, t+n) into the records, once per head: only the item with its first rows
 * (and of a key head's value heads the first) writes. */
void rdi_put_keys(const rdi_item *it, int64_t t, int64_t n, const float *keys, const float *decays);

/* v is read where it lies: f32, in rows. */
static inline int rdi_values_in_place(const rdi_job *job) {
  return job->v.dtype == RD_F32 && job->v.si == 1;
}
/* v of tokens [t, t+n) of the item's rows, n <= RDI_TOKENS, widened into rows ld apart (at least R
 * rounded up to 16). */
void rdi_open_values(const rdi_item *it, int64_t t, int64_t n, float *to, int64_t ld);
static inline void rdi_prefetch(const char *p, int64_t elements, rd_dtype dtype) {
  const char *end = rdi_at((char *)(uintptr_t)p, elements, dtype);
  for (; p < end; p += 64) __builtin_prefetch(p, 0, 2);
}
/* What the block of tokens from t on will read and write. Rows of a few tokens lie on pages of their own,
 * far from one another: no hardware guesses them. */
void rdi_block_prefetch(const rdi_item *it, int64_t t);
/* The turn after that of item i at token t of a group. */
static inline void rdi_prefetch_turn(const rdi_item *items, int64_t count, int64_t t, int64_t i) {
  if (count == 1) return; /* its rows follow each other */
  if (i + 1 < count)
    rdi_block_prefetch(&items[i + 1], t);
  else if (t + RDI_TOKENS < items->length)
    rdi_block_prefetch(items, t + RDI_TOKENS);
}

/* Operands and v of tokens [t, t+n); u and o go to the caller's memory at once when it is f32. */
rdi_block rdi_open_block(const rdi_item *it, int64_t t, int64_t n);
/* Narrows what was not written in place, and writes k and decay once per head. */
void rdi_close_block(const rdi_item *it, const rdi_block *blk);
/* Tokens [s, s+n) of the block, R rows from row r of the item on. */
rdi_rows_args rdi_block_rows(const rdi_item *it, const rdi_block *blk, int64_t s, int64_t n,
                             int64_t r, int64_t R);

#endif
