/* One run of the recurrence over a batch, resolved to strides. Verbs and named operators fill it.
 */
#ifndef RDR_JOB_H
#define RDR_JOB_H

#include "ref/ref.h"

/* Element (sequence b, token t, head h, i) of an input at (b*sb + t*st + h*sh + i). */
typedef struct rdr_view {
  const void *data;
  rd_dtype dtype;
  int64_t sb, st, sh;
} rdr_view;

/* The same of a dense result; NULL = not wanted. */
typedef struct rdr_sink {
  double *data;
  rd_dtype dtype; /* what RDR_ROUND rounds to */
  int64_t sb, st, sh;
} rdr_sink;

/* State of (slot s, head h) at s*ss + h*sh; element (v,k) at v*sv + k*sk from there. */
typedef struct rdr_pool {
  const void *data; /* NULL: zeros */
  rd_dtype dtype;
  int64_t ss, sh, sv, sk;
} rdr_pool;

typedef struct rdr_pool_sink {
  double *data;
  rd_dtype dtype;
  int64_t ss, sh, sv, sk;
} rdr_pool_sink;

enum { RDR_SKIP = -1, RDR_ZEROS = -2 }; /* in read_slot: a pad sequence; starts from zeros */

typedef struct rdr_job {
  int mode;
  rdr_choices c;
  rd_head_map head_map;
  int64_t B, Hk, Hv, K, V;
  int64_t *start, *length; /* [B]: first token of the views, tokens */
  int64_t *read_slot;      /* [B] */
  /* Draft trees: node i of sequence b has the parent parents[b*parents_sb + start + i], or the
   * initial state where that is -1. NULL: every token follows the one before it. With records, start
   * is 0 and `length` is 1 + the index of the node that the path leads to, or 0. */
  const int32_t *parents;
  int64_t parents_sb;
  rdr_view q, k, v, g, beta;
  const rd_tensor *A_log, *dt_bias; /* NULL or absent where the gate has none */
  rdr_pool initial;
  int wide;    /* initial holds doubles */
  int records; /* inputs u, k, decay below instead of activations: commit */
  rdr_view ru, rk, rdecay;
  int64_t T; /* padded: rows of out past a length become zero up to T */
  int padded;
  rdr_sink out, u, kr, decay; /* u, kr, decay count tokens from 0 in each sequence */
  rdr_pool_sink state;        /* slot = sequence */
  rdr_pool_sink snapshots;    /* slot = snapshot_slot[row], row = token of the dense activations */
  const int64_t *snapshot_slot; /* NULL: the row itself; negative: skipped */
} rdr_job;

/* Allocates start, length and read_slot for B sequences (free with rdr_job_free). */
int rdr_job_alloc(rdr_job *j, int64_t B);
void rdr_job_free(rdr_job *j);
/* Runs it and frees it. */
int rdr_job_run(rdr_job *j);

#endif
