/* A job: one call of one verb, fully validated and resolved to pointers and strides. Public verbs
 * (verbs.c) and named operators (src/operators) validate under their own parameter names, fill a
 * job and hand it to rdi_run(); nothing below this line checks a user's argument again. */
#ifndef RDI_CORE_JOB_H
#define RDI_CORE_JOB_H

#include "redelta/core.h"

/* Rows of an activation: element (sequence b, token t, head h, i) is at
 * base + (b*sb + t*st + h*sh + i) * size. PACKED: sb = 0 and t counts from the sequence's start. */
typedef struct rdi_view {
  char *base; /* NULL: absent */
  rd_dtype dtype;
  int64_t sb, st, sh;
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

/* Records: element (b, i, h, x) at base + (b*sb + i*si + h*sh + x)*size. */
typedef struct rdi_record_view {
  char *base; /* NULL: absent (decay of gate NONE) */
  rd_dtype dtype;
  int64_t sb, st, sh;
} rdi_record_view;

typedef struct rdi_recs {
  rdi_record_view u, k, decay;
  rd_gate_axis decay_axis; /* row length K or 1 */
  int64_t C;
} rdi_recs;

/* The sequences. Exactly one of cu / lengths / neither (all = T). is64 tells the index type. */
typedef struct rdi_seqs {
  int64_t B, T;
  const void *cu, *lengths;
  int32_t is64;
} rdi_seqs;

int64_t rdi_seq_start(const rdi_seqs *s, int64_t b); /* first token (0 when padded) */
int64_t rdi_seq_length(const rdi_seqs *s, int64_t b);

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

/* Runs the job on the context's executor. The context is already entered (rdi_enter). Returns
 * RD_OK, RD_E_NOMEM, RD_E_OVERFLOW or RD_E_EXECUTOR; NOMEM and OVERFLOW come before any write. */
rd_status rdi_run(rd_context *ctx, const rdi_job *job);

#endif
