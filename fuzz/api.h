/* The API fuzzer's parts: making problems and tensors out of bytes (api_make.c), predicting and
 * comparing (api_expect.c), the sequence of verbs (fuzz_api.c). */
#ifndef RD_FUZZ_API_H
#define RD_FUZZ_API_H

#include "fuzz.h"
#include "redelta/redelta.h"

/* The input as a stream of choices; zeros when it is used up. */
typedef struct feed {
  const uint8_t *at;
  size_t left;
} feed;
uint32_t feed_below(feed *f, uint32_t n); /* n <= 256 */
int feed_rarely(feed *f);                 /* 1 in 32: where an invalid value goes in */

/* Memory of one input: every buffer its own malloc of exact size. */
enum { ARENA = 256 };
typedef struct arena {
  void *blocks[ARENA];
  int count;
} arena;
void *arena_take(arena *a, size_t bytes); /* filled with 0x5a; never NULL */
void arena_free(arena *a);
rd_tensor arena_tensor(arena *a, rd_dtype dtype, int32_t rank, const int64_t *shape);

enum { SLOTS = 5, MAX_BATCH = 3, MAX_TOKENS = 19 };

/* Mostly valid. */
void make_problem(feed *f, rd_problem *p);
void make_sequences(feed *f, arena *a, const rd_problem *p, int64_t T, rd_sequences *seq);
void make_activations(feed *f, arena *a, const rd_problem *p, const rd_sequences *seq, int64_t T,
                      rd_activations *act);
void make_pool(feed *f, arena *a, const rd_problem *p, rd_tensor *pool);
void make_slots(feed *f, arena *a, const rd_tensor *pool, int64_t batch, rd_slots *slots);
void make_records(arena *a, const rd_problem *p, int64_t batch, int64_t C, rd_records *records);
void make_accepted(feed *f, arena *a, const rd_records *records, int64_t batch,
                   rd_tensor *accepted);

/* Every byte an execution may write, before it runs, and what the specification says it holds
 * after. */
enum { EXPECT_MAX = 8 };
typedef struct expect_one {
  rd_tensor view; /* contiguous */
  void *before;
  double *after;
} expect_one;
typedef struct expect {
  expect_one one[EXPECT_MAX];
  int count;
} expect;
double *expect_add(expect *e, arena *a, const rd_tensor *view); /* after = before, as doubles */
void expect_check(const expect *e, rd_status status);           /* aborts on a difference */

/* Puts per-sequence states [B,Hv,V,K] where the slots say, in the pool's layout. */
void expect_states(double *pool, const rd_problem *p, const rd_tensor *view, const rd_slots *slots,
                   int64_t batch, const double *states);

#endif
