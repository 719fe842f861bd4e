/* The property tests' toolkit: runner, guarded memory, data, calls, expectations.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything here is written from the contract (public headers, docs) alone, so that agreement with
 * the library means something. Values live as f32 "data" per sequence, exactly representable in the
 * element type of the tensor they go to; a "call" lays pieces of sequences out as tensors. */
#ifndef PT_KIT_H
#define PT_KIT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <redelta/redelta.h>

#define Z(x)      ((size_t)(x))
#define PT_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ------------------------------------------------------------------ runner ------------------- */
enum { PT_QUICK = 0, PT_STD = 1, PT_FULL = 2 };
typedef struct pt_case {
  const char *name;
  void (*fn)(void);
  int level; /* smallest level that runs it */
} pt_case;

/* Options: --seed N, --filter SUBSTRING, --level quick|std|full, --teeth, --lines N
 * (of failures shown per case), --list. Closing line
 * "N passed, N failed, N skipped"; exit status 1 when one failed. */
int pt_main(int argc, char **argv, const char *family, const pt_case *cases, size_t n);
extern int pt_level;
void pt_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void pt_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What the case is doing just now; printed with a failure. */
void pt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool pt_broken(void); /* the current case has failed: loops may stop */
/* Between these two, failures are expected: they are counted instead of reported. */
void pt_capture(void);
int pt_captured(void);
bool pt_teeth(void);
#define CK(cond, ...)                                                                              \
  do {                                                                                             \
    if (!(cond)) pt_fail(__VA_ARGS__);                                                             \
  } while (0)

/* ------------------------------------------------------------------ random numbers ----------- */
uint64_t rng_u64(void);
double rng_uniform(double lo, double hi);
double rng_normal(void);
int64_t rng_int(int64_t lo, int64_t hi); /* inclusive */

/* ------------------------------------------------------------------ memory ------------------- */
typedef struct blk {
  unsigned char *p;
  size_t bytes;
  void *map;
  size_t map_bytes, data_pages_bytes;
} blk;
/* Ends at an inaccessible page, starts behind a canary and another one, filled with 0xff. */
blk *mem_guarded(size_t bytes);
void mem_readonly(const blk *b);
void mem_writable(const blk *b);
bool mem_canary_ok(const blk *b);
void *mem_heap(size_t bytes); /* zeroed; freed like blocks */
size_t mem_mark(void);
void mem_release(size_t mark); /* frees all taken since; checks canaries */

/* ------------------------------------------------------------------ element types ------------ */
float dt_round(rd_dtype t, float x); /* to the type and back */
float dt_load(rd_dtype t, const void *p);
void dt_store(rd_dtype t, void *p, float x);
double dt_half_ulp(rd_dtype t, double x); /* 0 for f32 */

/* A tensor in a guarded block of its own. */
typedef struct tb {
  rd_tensor t;
  blk *b;
} tb;
tb tb_make(rd_dtype dtype, int rank, const int64_t *shape,
           const int64_t *stride /* NULL: packed */);
tb tb_i32(int64_t n, const int32_t *values);
tb tb_i64(int64_t n, const int64_t *values);
void *tb_at(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l);
float tb_get(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l);
void tb_set(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l, float x);
/* Copies [i][j] rows of a tensor (innermost n numbers at i,j,k) as f32. */
void tb_get_row(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t n, float *dst);
void tb_set_row(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t n, const float *src);

/* ------------------------------------------------------------------ checks ------------------- */
/* Bits, all NaNs equal. In teeth mode every check is also run on an expectation with one value
 * flipped and has to notice. */
bool ck_bits(const char *what, const float *got, const float *want, int64_t n);
bool ck_bytes(const char *what, const void *got, const void *want, size_t bytes);
/* [outer][H][inner] numbers, relative L2 per H <= bound beyond `abs` and half an ulp of `t` each.
 */
bool ck_close(const char *what, const float *got, const double *want, int64_t outer, int64_t H,
              int64_t inner, double bound, double abs_each, rd_dtype t);
/* |x - r| <= tol + tol*|r| */
bool ck_near(const char *what, const float *got, const double *want, int64_t n, double tol);
bool ck_status(const char *what, rd_context *ctx, rd_status got, rd_status want);
#define CK_OK(ctx, call) ck_status(#call, ctx, (call), RD_OK)
double rel_l2(const float *got, const double *want, int64_t outer, int64_t H, int64_t inner);

/* ------------------------------------------------------------------ data --------------------- */
typedef struct seqdata {
  int64_t len;
  float *q, *k; /* [len][Hk][K] */
  float *v;     /* [len][Hv][V] */
  float *g;     /* [len][Hv] or [len][Hv][K]; NULL without a gate */
  float *beta;  /* [len][Hv] */
  float *S0;    /* [Hv][V][K] */
} seqdata;
typedef struct data {
  rd_problem p;
  int64_t n, G; /* sequences; gate numbers per value head (0, 1 or K) */
  float *A, *dt;
  seqdata *s;
} data;

/* A problem with the project's distinct sizes: Hk 2, Hv 4, K 64, V 32. */
rd_problem pb_default(void);
void pb_describe(const rd_problem *p, char *buf, size_t n);
rd_problem pb_random(void); /* every choice drawn; small sizes */
data *data_make(const rd_problem *p, int64_t n, const int64_t *len);
void data_requantise(data *d); /* after an edit of values: to the element types again */
/* Numbers whose products and sums lie around 2^-126: subnormal states, values and decays, keys of size
 * 2^-63 next to ordinary ones, gates from 0 to -inf through those that leave f32's range. */
void data_vanishing(data *d);
int64_t data_gate_numbers(const rd_problem *p);
int64_t hk_of(const rd_problem *p, int64_t hv);
int64_t data_state_n(const data *d); /* Hv*V*K */

/* ------------------------------------------------------------------ references --------------- */
/* Prepared operands of one token and value head, in the arithmetic C1. */
typedef struct prep {
  float beta, kq;
  float k[512], q[512], a[512];
} prep;
void c1_prep(const data *d, int64_t s, int64_t t, int64_t hv, prep *out);
/* S [Hv][V][K] in and out; out [len][Hv][V], u the same, k [len][Hk][K], a [len][Hv][G]: any NULL.
 */
void c1_run(const data *d, int64_t s, int64_t t0, int64_t len, float *S, float *out, float *u,
            float *k, float *a);
/* m records [.][Hv][V], [.][Hk][K], [.][Hv][G] onto S. */
void c1_commit(const data *d, int64_t m, const float *u, const float *k, const float *a, float *S);
float c1_exp(float x);
float c1_sigmoid(float x);
float c1_softplus(float x);
float c1_dot(const float *a, const float *b, int64_t n);

typedef enum orc_mode { ORC_DOUBLE, ORC_FED /* C1's own f32 operands */ } orc_mode;
void orc_run(const data *d, int64_t s, int64_t t0, int64_t len, orc_mode mode, double *S,
             double *out, double *u, double *k, double *a);
void orc_commit(const data *d, int64_t m, const double *u, const double *k, const double *a,
                double *S);

/* ------------------------------------------------------------------ contexts ----------------- */
typedef enum ex_kind { EX_POOL, EX_REVERSED, EX_HOSTILE } ex_kind;
/* Cached. isa: one rd_isa bit (the scalar kernels are always allowed beside it) or 0 for all. */
rd_context *cx_get(uint32_t isa, int threads, ex_kind kind);
rd_context *cx_fresh(uint32_t isa, int threads, ex_kind kind); /* caller destroys */
int cx_isas(
    uint32_t list[8]); /* every usable and built instruction set, with what it needs beside */
const char *cx_isa_name(uint32_t mask); /* of one of those */
extern int64_t cx_allocations;          /* by the contexts of the tests, since the start */
void cx_drop_cache(void);

/* ------------------------------------------------------------------ calls -------------------- */
typedef struct piece {
  int64_t seq, t0, len; /* seq -1: a pad row */
} piece;
/* From ST_INNER on, q, k, v and g alone: elements three apart; tokens innermost, as after a
 * convolution. */
typedef enum stride_mode {
  ST_COMPACT,
  ST_TOKEN2,
  ST_QKV,
  ST_HEADS_FIRST,
  ST_INNER,
  ST_CHANNELS_FIRST
} stride_mode;
typedef struct callopt {
  rd_layout layout;  /* 0: the problem's */
  int64_t extra_T;   /* PADDED: columns past the longest; PACKED: rows past the last sequence */
  rd_dtype len_type; /* RD_I32 (0), RD_I64 */
  bool lens_absent;  /* PADDED with equal lengths */
  stride_mode strides;
  bool beta_broadcast; /* stride 0 over tokens: the data must be constant there */
  float fill;          /* what unused input elements hold; 0 -> NaN */
} callopt;
typedef struct call {
  const data *d;
  rd_problem p; /* with the layout of the call and its maximum sizes */
  int64_t B, T;
  piece *pc;
  int64_t *row0; /* PACKED: first row of each piece */
  rd_sequences seq;
  rd_activations act;
  tb q, k, v, g, beta, A, dt, out, lens;
} call;
call *call_make(const data *d, const piece *pc, int64_t B, const callopt *o);
call *call_all(const data *d, const callopt *o);     /* every sequence whole */
void call_dirty(call *c);                            /* out := 0xff again */
void call_out(const call *c, int64_t i, float *dst); /* [len][Hv][V] */
/* Rows without a token are +0 (PADDED) or keep their bytes (PACKED); gaps keep theirs. */
void call_check_rest(const call *c);

typedef struct pool {
  rd_problem p;
  tb t;
  int64_t slots;
} pool;
pool *pool_make(const rd_problem *p, int64_t slots, int64_t gap);
void pool_put(pool *pl, int64_t slot, const float *S);
void pool_get(const pool *pl, int64_t slot, float *S);
rd_slots pool_view(const pool *pl, int64_t B, const int32_t *idx /* NULL: absent */);
/* A copy of the block's bytes, to compare with later (heap, freed by the mark). */
void *blk_copy(const blk *b);
/* The bytes of `slot` in a copy := those in the pool now (what a call was allowed to change). */
void pool_allow(const pool *pl, int64_t slot, void *copy);
void pool_check_rest(const char *what, const pool *pl, const void *copy);
extern const rd_slots no_slots;

typedef struct recs {
  rd_problem p;
  int64_t B, C, G;
  tb u, k, decay, parents; /* parents absent; tree.h gives them */
  blk *lengths;
  rd_records r;
} recs;
recs *recs_make(const rd_problem *p, int64_t B, int64_t C);
void recs_get(const recs *r, int64_t b, int64_t n, float *u, float *k, float *a);
void recs_check_suffix(const recs *r); /* records past the lengths still hold 0xff */

/* Verbs with a plan made for the call and destroyed again; a failure fails the case. */
bool do_prefill(rd_context *cx, call *c, const rd_slots *initial, const rd_slots *final);
bool do_decode(rd_context *cx, call *c, const rd_slots *state, const rd_slots *write,
               const rd_slots *snap);
bool do_verify(rd_context *cx, call *c, const rd_slots *checkpoint, recs *r);
bool do_commit(rd_context *cx, const rd_problem *p, recs *r, const int32_t *accepted,
               const rd_slots *state);
bool do_materialize(rd_context *cx, const rd_problem *p, recs *r, const int32_t *accepted,
                    const rd_slots *from, const rd_slots *to);
bool do_commit_verify(rd_context *cx, call *c, recs *prev, const int32_t *accepted,
                      const rd_slots *state, recs *next);

float *fl(int64_t n); /* heap floats and doubles, freed by the mark */
double *db(int64_t n);
float *fl_copy(const float *x, int64_t n);
double *db_from(const float *x, int64_t n);
void round_all(rd_dtype t, float *x, int64_t n);

/* Prefill of whole data in one call: per sequence out and final state (S0 as the initial one). */
typedef struct result {
  float **out, **S;
} result;
result run_prefill_all(rd_context *cx, const data *d, const callopt *o);
void ck_result(const char *what, const data *d, result got, result want);

#endif
