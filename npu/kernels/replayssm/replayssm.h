/*
 * ReplaySSM on the 950's vector cores: what the verify and the commit kernel share.
 *
 * A launch of block_num AI cores is P = 2*block_num vector programs.  The work is cut over (sequence,
 * head, row block); item i belongs to program i mod P, in as many waves as it takes.  A program walks
 * its items in slices of at most 8 tokens with the state block resident, loading one slice ahead.
 */
#ifndef REDELTA_NPU_REPLAYSSM_H
#define REDELTA_NPU_REPLAYSSM_H

#include "npu/kernels/harness/kernel.h"

enum { REPLAY_DIM = 128, REPLAY_SLICE = 8, REPLAY_WINDOW = 64, REPLAY_HEADS = 96 };

enum replay_layout { REPLAY_BSND = 0, REPLAY_BNSD = 1, REPLAY_TND = 2 };

typedef struct replay_args {
  uint32_t layout;
  uint32_t B, N, C;
  uint32_t S;     /* tokens of a padded sequence, or all tokens (TND) */
  uint32_t rows;  /* rows of one work item: 128, 64 or 32 */
  uint32_t slice; /* tokens per slice, 1..8 */
  float scale, lower_bound;
  /* GM tensor numbers */
  uint32_t mixedqkv, state, beta, g, A_log, dt_bias, u, k, decay, cu, accepted, out;
} replay_args;

/* Rows per item: as large as keeps every program busy. */
uint32_t rdn_replay_rows(uint32_t heads, uint32_t programs);

/* Position in a program's work: one slice of one item. */
typedef struct replay_cursor {
  const replay_args *a;
  uint32_t item, programs, items;
  uint32_t b, n, row; /* sequence, head, first row */
  uint32_t start;     /* TND: first token of the sequence */
  uint32_t length;    /* tokens to process for this sequence */
  uint32_t t0, tokens;
  uint32_t step;    /* slices so far: parity picks the operand buffers */
  uint32_t ordinal; /* items so far: parity picks the state buffer */
} replay_cursor;

/* Reads the length of sequence b (and its first token) with the scalar unit. */
typedef void replay_length(rd_npu_core *c, replay_cursor *at);

bool rdn_replay_first(rd_npu_core *c, replay_cursor *at, const replay_args *a,
                      replay_length *length);
bool rdn_replay_next(rd_npu_core *c, replay_cursor *at, replay_length *length);

/* The recorded values of one head stand N*128 elements apart from token to token. */
uint64_t rdn_replay_record_offset(const replay_cursor *at, uint32_t element);

void rdn_replay_commit_kernel(rd_npu_core *c, const void *args);
void rdn_replay_verify_kernel(rd_npu_core *c, const void *args);

/* UB bytes of each kernel at the given row block, for the capacity test. */
uint32_t rdn_replay_verify_ub_bytes(uint32_t rows);
uint32_t rdn_replay_commit_ub_bytes(uint32_t rows);

rd_npu_status rdn_replay_verify_prepare(rdn_call *call);
rd_npu_status rdn_replay_commit_prepare(rdn_call *call);
void rdn_replay_plan(const rdn_call *call, rdn_text_sink *sink, void *user);
rd_npu_status rdn_replay_verify_generate(rdn_call *call, const char *shape);
rd_npu_status rdn_replay_commit_generate(rdn_call *call, const char *shape);
rd_npu_status rdn_replay_verify_oracle(const rdn_call *call, const char *output, double *expected);
rd_npu_status rdn_replay_commit_oracle(const rdn_call *call, const char *output, double *expected);

#endif
