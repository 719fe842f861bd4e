/* A job: one call of one verb, fully validated and resolved to pointers and strides. Public verbs
 * (verbs.c) and named operators (src/operators) validate under their own parameter names, fill a
 * job and hand it to rdi_run() (run.h); nothing below this line checks a user's argument again. */
#ifndef RDI_CORE_JOB_H
#define RDI_CORE_JOB_H

#include "redelta/core.h"

/* Rows of an activation or of records: element (sequence b, token t, head h, i) is at
 * base + (b*sb + t*st + h*sh + i*si) * size. Packed activations: sb = 0, and t counts from the first
 * token of the batch. si is 1 except for q, k, v and g of a verb. */
typedef struct rdi_view {
  char *base; /* NULL: absent */
  rd_dtype dtype;
  int64_t sb, st, sh, si;
} rdi_view;

/* States: slot s, head h, row r, column c at base + (s*ss + h*sh + r*sr + c)*size where (r,c) is
 * (v,k) for VK and (k,v) for KV. */
typedef struct rdi_states {
  char *base; /* NULL: absent */
  rd_dtype dtype;
  rd_state_layout layout;
  int64_t ss, sh, sr;
  int64_t slots;
  const int32_t *index; /* per sequence; NULL: sequence b uses slot b */
  const char *name;     /* what messages call the index; NULL where no message can come */
} rdi_states;

/* Draft trees: the parent of node i of sequence b is base[b*sb + first + i], with `first` the
 * sequence's first token (records: 0); -1: a child of the checkpoint. */
typedef struct rdi_parents {
  int32_t *base; /* NULL: chains */
  int64_t sb;
} rdi_parents;

/* Records: token t counts from the sequence's first record. decay.base is NULL for gate NONE. */
typedef struct rdi_recs {
  rdi_view u, k, decay;
  rd_gate_axis decay_axis; /* row length K or 1 */
  int64_t C;
  rdi_parents parents;
} rdi_recs;

/* The view of a checked tensor; absent: base NULL. b, tt, h: its dimensions of sequence, token and
 * head, or -1. */
rdi_view rdi_view_of(const rd_tensor *t, int b, int tt, int h);

/* The sequences. Exactly one of cu / lengths / neither (all = T). is64 tells the index type. */
typedef struct rdi_seqs {
  int64_t B, T;
  const void *cu, *lengths;
  int32_t is64;
  rdi_parents parents;
} rdi_seqs;

/* The sequences of a call whose index vectors have passed their checks. cu and lengths may be NULL
 * or absent. */
rdi_seqs rdi_seqs_of(int64_t B, int64_t T, const rd_tensor *cu, const rd_tensor *lengths);

int64_t rdi_seq_start(const rdi_seqs *s, int64_t b); /* first token (0 when padded) */
int64_t rdi_seq_length(const rdi_seqs *s, int64_t b);
/* Its parents; NULL: a chain. */
const int32_t *rdi_seq_parents(const rdi_seqs *s, int64_t b);

/* The problem's numbers as the kernels want them: rounded once to f32. */
typedef struct rdi_math {
  rd_gate gate;
  rd_gate_axis axis;
  rd_beta beta_kind;
  rd_head_map head_map;
  rd_numerics numerics;
  int32_t l2norm;
  float scale, eps, lb, beta_times;
  int64_t Hk, Hv, K, V, Kp;
  int32_t pad_slot;
} rdi_math;

/* The key head that value head h reads. */
static inline int64_t rdi_key_head(const rdi_math *m, int64_t h) {
  return m->head_map == RD_HEADS_GROUPED ? h / (m->Hv / m->Hk) : h % m->Hk;
}

typedef enum rdi_verb {
  RDI_PREFILL = 1, /* initial -> final, out */
  RDI_DECODE,      /* as prefill, with snapshots */
  RDI_VERIFY,      /* initial read-only, out, next records */
  RDI_COMMIT,      /* initial -> final by `prev` records; also materialize */
  RDI_COMMIT_VERIFY
} rdi_verb;

typedef struct rdi_job {
  rdi_verb verb;
  rdi_math m;
  rdi_seqs seq; /* COMMIT: only B is used */
  rdi_view q, k, v, g, beta, out;
  const float *A_log; /* [Hv], A_log_stride apart */
  int64_t A_log_stride;
  const float *dt_bias; /* head stride dt_stride; K contiguous per channel */
  int64_t dt_stride;
  rdi_states initial, final,
      snapshots; /* snapshots.index is per token: [b*T+t], or [start+t] packed */
  rdi_recs prev, next;
  const int32_t *accepted; /* per sequence */
  int32_t block_num;       /* 0, or AI cores the work is cut for (2 vector cores each) */
} rdi_job;

/* Records of sequence b that are replayed: those on the path to the last accepted one. */
int64_t rdi_replayed(const rdi_job *job, int64_t b);
/* The parents of its records; NULL: a chain. */
const int32_t *rdi_record_parents(const rdi_recs *recs, int64_t b);

/* Whether the job writes records (job.next) instead of a final state. */
static inline int rdi_makes_records(const rdi_job *job) {
  return job->verb == RDI_VERIFY || job->verb == RDI_COMMIT_VERIFY;
}

#endif
