/* redelta/core.h - one problem description, six verbs. SPDX-License-Identifier: Apache-2.0
 *
 * Per sequence and value head hv, with q,k of its key head hk, in token order (forget before error):
 *
 *     S  <- S diag(a_t)                 a_t: one number (GDN) or K numbers (KDA); 1 without a gate
 *     u_t = beta_t (v_t - S k_t)
 *     S  <- S + u_t k_t'
 *     o_t = scale * S q_t
 *
 * S is [V,K] in FP32. Equations: Gated DeltaNet (arXiv 2412.06464), Kimi Delta Attention
 * (arXiv 2510.26692). The exact arithmetic, hence the bits, is written in docs/NUMERICS.md.
 */
#ifndef REDELTA_CORE_H
#define REDELTA_CORE_H

#include "redelta/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- choices of a problem ------- */

typedef enum rd_gate {
  RD_GATE_NONE = 1,        /* a = 1                                                              */
  RD_GATE_LOG = 2,         /* a = exp(g)                                                         */
  RD_GATE_LOWER_BOUND = 3, /* a = exp(lower_bound * sigmoid(exp(A_log[h]) * (g + dt_bias)))      */
  RD_GATE_SOFTPLUS = 4,    /* a = exp(-exp(A_log[h]) * softplus(g + dt_bias)); where g + dt_bias
                            * < -17, exp(-exp(A_log[h] + (g + dt_bias))), the same number         */
  RD_GATE_DECAY = 5        /* a = g, already exponentiated                                       */
} rd_gate;

typedef enum rd_gate_axis {
  RD_PER_HEAD = 1,   /* one number per token and value head: Gated DeltaNet   */
  RD_PER_CHANNEL = 2 /* K numbers per token and value head: Kimi Delta Attention */
} rd_gate_axis;

typedef enum rd_beta { RD_BETA_VALUE = 1, RD_BETA_LOGIT = 2 /* sigmoid in FP32 */ } rd_beta;

typedef enum rd_qk_norm {
  RD_QK_AS_IS = 1,
  RD_QK_L2 = 2 /* x / sqrt(sum(x^2) + eps); a zero vector gives zeros (NaN when eps is 0) */
} rd_qk_norm;

typedef enum rd_head_map {
  RD_HEADS_GROUPED = 1, /* hk = hv / (Hv/Hk): PyTorch stacks, ONNX, the NPU operators */
  RD_HEADS_TILED = 2    /* hk = hv % Hk: ggml                                         */
} rd_head_map;

typedef enum rd_state_layout { RD_STATE_VK = 1, RD_STATE_KV = 2 } rd_state_layout;

typedef enum rd_numerics {
  RD_EXACT = 1, /* same bits for every phase, split, thread count and instruction set */
  RD_FAST = 2   /* prefill and verify may use inexact forms; see docs/NUMERICS.md      */
} rd_numerics;

typedef enum rd_layout {
  RD_PADDED = 1, /* activations [B,T,H,.], optional lengths[B]      */
  RD_PACKED = 2  /* activations [T,H,.], cu_seqlens[B+1] required   */
} rd_layout;

enum { RD_UNLIMITED = -1 }; /* max_batch, max_tokens */

/* Everything about a call that does not change from step to step. */
typedef struct rd_problem {
  size_t struct_size;
  int32_t layout;       /* rd_layout */
  int32_t gate;         /* rd_gate */
  int32_t gate_axis;    /* rd_gate_axis */
  int32_t beta;         /* rd_beta */
  double lower_bound;   /* RD_GATE_LOWER_BOUND: in [-5, 0] */
  int32_t beta_times;   /* 1 or 2: multiplies beta (after the sigmoid) */
  int32_t qk_norm;      /* rd_qk_norm */
  double l2_eps;        /* 0 or >= 2^-126 in f32, inside the root, on the sum */
  int32_t has_scale;    /* 0 (default): scale = K^-1/2 and `scale` is ignored */
  int32_t head_map;     /* rd_head_map */
  double scale;         /* with has_scale 1 */
  int32_t numerics;     /* rd_numerics */
  int32_t state_layout; /* rd_state_layout */
  int64_t Hk, Hv, K, V; /* 1 <= Hk <= Hv, Hv % Hk == 0; 1 <= K, V <= 512 */
  int64_t max_batch;    /* largest B of any execution, >= 0; RD_UNLIMITED: any */
  int64_t max_tokens;   /* longest sequence of any execution, >= 0; RD_UNLIMITED: any */
  int32_t qkv_dtype;    /* rd_dtype of q, k, v: f32, f16, bf16 */
  int32_t gate_dtype;   /* g: f32, f16, bf16 (ignored for RD_GATE_NONE) */
  int32_t beta_dtype;   /* f32, f16, bf16 */
  int32_t out_dtype;    /* f32, f16, bf16 */
  int32_t state_dtype;  /* f32; f16 and bf16 are widened on read, rounded once on write */
  int32_t record_dtype; /* u and k of records: f32 or f16 */
  int32_t decay_dtype;  /* decay of records: f32 or f16 */
  int32_t pad_slot;     /* slot index that marks a pad row, default -1; outside every pool
                           (RD_E_SLOT_RANGE) */
  int64_t reserved[8];
} rd_problem;

/* Defaults: padded, gate LOG per channel, lower_bound -5, beta VALUE times 1, q,k as is, eps 1e-6,
 * scale K^-1/2, grouped heads, EXACT, all types f32, state VK, pad slot -1; sizes 0. */
RD_API void rd_problem_init_sized(rd_problem *problem, size_t struct_size);
static inline void rd_problem_init(rd_problem *problem) {
  rd_problem_init_sized(problem, sizeof *problem);
}

/* ---------------------------------------------------------------- plans ----------------------- */

/* A plan is a problem checked once, its numbers rounded once, and a bound of the scratch its verbs
 * need. Every call cuts its work anew, by its own shapes and by the threads of the context it runs in,
 * and runs that context's kernels: rd_plan_info tells what both are at the maximum shapes in the
 * context that made the plan. Immutable; may be shared by threads and by contexts with the same CPU
 * mask. It allocates only when created, and keeps a copy of the context's allocator: it may outlive the
 * context, but not what the allocator needs. */
typedef struct rd_plan rd_plan;

/* Errors: RD_E_NULL, RD_E_STRUCT_SIZE, RD_E_PRESENCE (reserved), RD_E_ENUM, RD_E_DTYPE, RD_E_HEADS,
 * RD_E_SHAPE, RD_E_SCALE, RD_E_LOWER_BOUND, RD_E_EPS, RD_E_OVERFLOW, RD_E_NOMEM, RD_E_BUSY. Reserves the
 * scratch of every verb in ctx (snapshots of more than 64 tokens per sequence, and draft trees of more
 * than 64 nodes, may grow the arena once more; so may the first call with more than one sequence when
 * max_batch is RD_UNLIMITED). Another context grows its own on first use, or by
 * rd_context_reserve of what rd_plan_scratch says. *out is NULL on error.
 * A call is cut into at most four slices per thread, and into no more than its work is worth: a decode
 * of a few heads stays on the calling thread. An own executor always gets the full cut. */
RD_API rd_status rd_plan_create(rd_context *ctx, const rd_problem *problem, rd_plan **out);
RD_API void rd_plan_destroy(rd_plan *plan); /* NULL is allowed */

/* Arena bytes that the largest verb needs in this context, whose threads may be more or fewer than
 * those of the context that made the plan. Errors: RD_E_NULL, RD_E_OVERFLOW, RD_E_BUSY. */
RD_API rd_status rd_plan_scratch(rd_context *ctx, const rd_plan *plan, size_t *bytes);

typedef struct rd_plan_info {
  size_t struct_size;
  size_t scratch_bytes; /* arena bytes the largest verb needs with the plan's threads */
  int32_t threads;
  int32_t reserved0;
  int64_t row_block;  /* rows of one work item at max_batch: V, 128, 64 or 32 (V without a limit) */
  int64_t work_items; /* at max_batch; 0 without a limit */
  const char *rows_kernel; /* names of the kernels the verbs run */
  const char *commit_kernel;
  const char *prep_kernel;
  const char *fast_prefill_kernel; /* NULL when FAST would run EXACT */
  const char *fast_verify_kernel;
  size_t record_bytes_per_token;   /* u + k + decay of one token, all heads */
  size_t snapshot_bytes_per_token; /* one FP32 state per value head */
  int64_t reserved[8];             /* written as zero */
} rd_plan_info;

RD_API void rd_plan_info_init_sized(rd_plan_info *info, size_t struct_size);
static inline void rd_plan_info_init(rd_plan_info *info) {
  rd_plan_info_init_sized(info, sizeof *info);
}

/* Errors: RD_E_NULL, RD_E_STRUCT_SIZE (no message: there is no context). */
RD_API rd_status rd_plan_get_info(const rd_plan *plan, rd_plan_info *info);

/* ---------------------------------------------------------------- arguments ------------------- */

/* The sequences of one execution. B = batch.
 *   PADDED: lengths absent (every length = T, the activations' second dimension) or [B] i32/i64,
 *           each in [0, T]. cu_seqlens must be absent.
 *   PACKED: cu_seqlens [B+1] i32/i64: starts at 0, never decreases, ends <= tokens of the
 *           activations. lengths must be absent.
 *   parents [B,T] or [tokens] i32, verify and commit_verify only (else RD_E_PRESENCE); absent: chains.
 *           The tokens of a sequence are then the nodes of a draft tree: node i follows node parents[i]
 *           of its sequence, an index < i, or the checkpoint where that is -1 (RD_E_TREE names sequence
 *           and node). Entries past a length and of pad sequences are not read. */
typedef struct rd_sequences {
  size_t struct_size;
  int64_t batch;
  rd_tensor cu_seqlens;
  rd_tensor lengths;
  rd_tensor parents;
} rd_sequences;
RD_API void rd_sequences_init_sized(rd_sequences *seq,
                                    size_t struct_size); /* all absent, batch 0 */
static inline void rd_sequences_init(rd_sequences *seq) {
  rd_sequences_init_sized(seq, sizeof *seq);
}

/* Activations. PADDED shapes; PACKED drops the leading B. Strides of q, k, v, g and beta: any >= 0, the
 * innermost one, too (views transposed after a convolution; 0 broadcasts). Rows whose innermost stride is
 * not 1 are gathered in squares of 16 x 16 when their block of tokens is opened: the bits are those of
 * the compact call, which is a little faster.
 *   q, k [B,T,Hk,K]   v [B,T,Hv,V]   g [B,T,Hv] per head or [B,T,Hv,K] per channel (absent for NONE)
 *   beta [B,T,Hv]     A_log [Hv] f32, dt_bias [Hv] or [Hv,K] f32 (LOWER_BOUND and SOFTPLUS only,
 *   else absent)      out [B,T,Hv,V], written: rows past a length and rows of pad sequences become
 *   +0 (PADDED); rows past cu_seqlens[B] keep their bytes (PACKED). */
typedef struct rd_activations {
  size_t struct_size;
  rd_tensor q, k, v, g, beta, A_log, dt_bias;
  rd_tensor out;
} rd_activations;
RD_API void rd_activations_init_sized(rd_activations *act, size_t struct_size); /* all absent */
static inline void rd_activations_init(rd_activations *act) {
  rd_activations_init_sized(act, sizeof *act);
}

/* A pool of states and the slot each sequence uses.
 *   pool  [slots,Hv,V,K] (VK) or [slots,Hv,K,V] (KV), the plan's state_dtype
 *   slots [B] i32; absent: sequence b uses slot b. Each in [0, slots) or the problem's pad_slot. */
typedef struct rd_slots {
  size_t struct_size;
  rd_tensor pool;
  rd_tensor slots;
} rd_slots;
RD_API void rd_slots_init_sized(rd_slots *slots, size_t struct_size); /* both absent */
static inline void rd_slots_init(rd_slots *slots) { rd_slots_init_sized(slots, sizeof *slots); }

/* Replay records of a verify: what a commit needs to repeat the accepted tokens.
 *   u [B,C,Hv,V], k [B,C,Hk,K] (record_dtype), decay [B,C,Hv,K] or [B,C,Hv] (decay_dtype; absent
 *   for RD_GATE_NONE), contiguous or strided (no shared elements), caller-owned.
 *   parents [B,C] i32, caller-owned; absent: these records can only hold chains. verify writes each
 *   node's parent there (of a chain: -1, 0, 1, ...), commit and materialize follow them.
 * The caller runs rd_records_init, then sets the tensors and lengths (B numbers, caller-owned). verify
 * fills `made` and lengths; commit checks them and sets made.consumed. Do not edit `made`.
 *
 * A copy of the struct shares the tensors, but not `made`: a commit through one copy is not seen by
 * the other. Give `generation` (one number of the caller's, 0 at first, shared by all copies and by no
 * other records) and it is: verify and commit advance it, and a commit through a copy that is out of
 * date is RD_E_CONSUMED. Without it (NULL), committing through two copies is the caller's risk. */
typedef struct rd_records {
  size_t struct_size;
  rd_tensor u, k, decay, parents;
  int32_t *lengths;
  int64_t *generation; /* may be NULL */
  struct {
    uint32_t magic;
    int32_t consumed;
    int32_t gate_kind; /* 1 none, 2 per head, 3 per channel */
    int32_t head_map;
    int32_t tree; /* 1: of draft trees (seq->parents was given); 0: of chains */
    int32_t reserved0;
    int64_t batch, C, Hk, Hv, K, V;
    int64_t generation; /* *generation after that verify or commit */
    int64_t reserved[6];
  } made;
} rd_records;

/* Records from one block of the caller's, 64-byte aligned: rd_records_bytes says how large it must be
 * for `batch` sequences of up to C tokens; rd_records_carve sets tensors (parents too), lengths and
 * generation of *records (after rd_records_init) to places in it, and zeroes the latter two. The block
 * must stay until the records are no longer used. Errors: RD_E_NULL, RD_E_STRUCT_SIZE, RD_E_SHAPE, RD_E_OVERFLOW,
 * RD_E_BUSY, RD_E_STRIDE (block misaligned), RD_E_BUFFER (bytes too few). */
RD_API rd_status rd_records_bytes(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C,
                                  size_t *bytes);
RD_API rd_status rd_records_carve(rd_context *ctx, const rd_plan *plan, int64_t batch, int64_t C,
                                  void *block, size_t bytes, rd_records *records);

RD_API void rd_records_init_sized(rd_records *records,
                                  size_t struct_size); /* all absent, nothing made */
static inline void rd_records_init(rd_records *records) {
  rd_records_init_sized(records, sizeof *records);
}

/* ---------------------------------------------------------------- verbs ----------------------- */
/* Common to all: every check comes before any write. Aliasing is judged on byte ranges: an output
 * may meet no other tensor's range, except that the final pool may be exactly the initial pool
 * (same view). A write slot may appear once and no other sequence may read it; several readers of an
 * unwritten slot are fine. Zero-length sequences are legal: their state passes through as raw bytes.
 * Executing allocates nothing once the context's arena has the plan's scratch (at most two executor
 * rounds). Errors of all verbs: RD_E_NULL, RD_E_STRUCT_SIZE, RD_E_PLAN, RD_E_DTYPE, RD_E_RANK,
 * RD_E_SHAPE, RD_E_STRIDE, RD_E_ALIAS, RD_E_PRESENCE, RD_E_CU_*, RD_E_LENGTH, RD_E_SLOT_*,
 * RD_E_OVERFLOW, RD_E_NOMEM, RD_E_BUSY, RD_E_EXECUTOR; further ones are named at each verb. RD_E_PLAN:
 * more sequences or a longer one than the plan was made for, or another CPU mask. */

/* Whole sequences: outputs, and final states.
 *   initial   NULL or pool absent: all states start at zero, nothing is read; a pad slot here = starts
 *             at zero
 *   final     NULL or pool absent: not written; a pad slot here = that sequence's state is dropped
 *   snapshots NULL, or as in rd_decode; such a call runs RD_EXACT
 * A sequence whose slot is the pad slot in a pool it shares for both is a pad row: zero output. */
RD_API rd_status rd_prefill(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                            const rd_activations *act, const rd_slots *initial,
                            const rd_slots *final, const rd_slots *snapshots);

/* One or more tokens per sequence, state updated in place (read slot = write slot unless `write`
 * is given: then the state is read from `state` and written to `write`, which is the same pool view or
 * another pool). A pad slot in `state` makes a pad row; one in `write` drops the new state.
 * snapshots (may be NULL): pool (the same view as `state` or `write`, or another pool) + slots [B,T]
 * or [T] i32, absent: 0, 1, 2, ... The state after each token goes to that slot (rounded once to the
 * pool's type; the running state stays FP32); a pad slot skips it. A sequence may overwrite the slot
 * that it reads. With snapshots the running state is not written anywhere else unless `write` is
 * given. */
RD_API rd_status rd_decode(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                           const rd_activations *act, const rd_slots *state, const rd_slots *write,
                           const rd_slots *snapshots);

/* Outputs for all candidate tokens from a read-only checkpoint, and the records to commit them.
 * Every length <= C (RD_E_CAPACITY). Record rows past a length keep their bytes; pad rows get length
 * 0. Overwrites `records` whatever their state (a consumed one may be used again).
 *
 * Draft trees (seq->parents): out, u, k and decay have one row per node, at its index; with RD_EXACT
 * out[i] has the bits that plain decoding of the path from the root to i gives for its last token. No
 * node's state is written to memory: a call keeps at most floor(log2 n) + 1 blocks of rows in scratch,
 * for n nodes, and makes one more update of a block for each node that several follow. records->parents
 * must be there (RD_E_PRESENCE). A chain spelled as a tree is verified as the chain. Plans reserve for
 * trees of 64 nodes; larger ones may grow the arena once. RD_FAST: nodes 0 .. m-1, before the first i
 * with parents[i] != i-1, run FAST as that chain would, the others EXACT from the state after the one
 * that they descend from; node i depends on nodes <= i only. */
RD_API rd_status rd_verify(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                           const rd_activations *act, const rd_slots *checkpoint,
                           rd_records *records);

/* S <- S diag(decay) + u k' for the first accepted[b] records of each sequence, in place. accepted
 * [B] i32, each in [0, lengths[b]] (RD_E_ACCEPTED); 0 leaves the state's bytes alone. Marks the
 * records consumed. RD_E_RECORDS, RD_E_CONSUMED.
 *
 * accepted[b] is 1 + the index of the last accepted node. Of a tree the records on the path to it are
 * applied, root first, and no others are read; the cost follows the path's length. RD_E_RECORDS: no
 * parents in records of trees, or one on the path that is no index before its node's (nor -1). */
RD_API rd_status rd_commit(rd_context *ctx, const rd_plan *plan, rd_records *records,
                           const rd_tensor *accepted, const rd_slots *state);

/* Like commit, from `from` into `to` (another pool or other slots of the same one: a sequence's own
 * slot is RD_E_SLOT_DUPLICATE); `from` untouched, records not consumed (and may already be). accepted 0
 * copies the state's bytes; a pad slot on either side skips the sequence. */
RD_API rd_status rd_materialize(rd_context *ctx, const rd_plan *plan, const rd_records *records,
                                const rd_tensor *accepted, const rd_slots *from,
                                const rd_slots *to);

/* commit(previous, accepted) followed by verify into `next`, in one pass over the states: the same
 * bits as the two calls. Both sets of records are of one batch in one order: sequence b of seq, slots,
 * accepted, previous and next is the same (a new request has accepted 0 and any lengths in previous; a
 * batch that changed needs rd_commit, then rd_verify). previous and next may not share memory
 * (RD_E_ALIAS): an engine keeps two sets and swaps them. */
RD_API rd_status rd_commit_verify(rd_context *ctx, const rd_plan *plan, rd_records *previous,
                                  const rd_tensor *accepted, const rd_sequences *seq,
                                  const rd_activations *act, const rd_slots *state,
                                  rd_records *next);

/* ---------------------------------------------------------------- state pools ----------------- */

/* Allocates a zeroed pool [slots,Hv,V,K] (or KV) with the context's allocator, 64-byte aligned, the
 * slot stride rounded up to 64 bytes; slots >= 1 (an empty pool needs no memory: make its view
 * yourself); from 4 MiB on aligned to 2 MiB, with huge pages advised. Free
 * with rd_pool_free on a context with the same allocator, unchanged. dtype f32, f16 or bf16.
 * Errors: RD_E_NULL, RD_E_ENUM, RD_E_DTYPE, RD_E_HEADS, RD_E_SHAPE, RD_E_OVERFLOW, RD_E_NOMEM,
 * RD_E_BUSY; *pool keeps its bytes. Errors of rd_pool_free: RD_E_NULL, RD_E_DTYPE, RD_E_BUSY; an absent pool is
 * fine, and a freed one becomes absent. */
RD_API rd_status rd_pool_alloc(rd_context *ctx, int64_t slots, int64_t Hv, int64_t V, int64_t K,
                               rd_state_layout layout, rd_dtype dtype, rd_tensor *pool);
RD_API rd_status rd_pool_free(rd_context *ctx, rd_tensor *pool);

/* The helpers below take any pool that the verbs take (rank 4, f32, f16 or bf16, dimensions 2 and 3 at
 * most 512). Errors of all: RD_E_NULL, RD_E_DTYPE, RD_E_RANK, RD_E_SHAPE, RD_E_STRIDE, RD_E_OVERFLOW,
 * RD_E_BUSY; further ones are named. On an error nothing is written. */

/* Slot := zeros (a new request). RD_E_SLOT_RANGE. */
RD_API rd_status rd_pool_reset(rd_context *ctx, const rd_tensor *pool, int64_t slot);

/* Slot `to` := slot `from`, bytes (fork a sequence). Same slot: nothing happens. RD_E_SLOT_RANGE. */
RD_API rd_status rd_pool_copy(rd_context *ctx, const rd_tensor *pool, int64_t from, int64_t to);

/* Converts all slots of src into dst: VK <-> KV and element types (nearest even). Same slot count and
 * Hv; [V,K] or [K,V] as the layouts say. RD_E_ENUM, RD_E_ALIAS (no overlap), RD_E_NOMEM,
 * RD_E_EXECUTOR (then dst is undefined). */
RD_API rd_status rd_pool_convert(rd_context *ctx, const rd_tensor *src, rd_state_layout src_layout,
                                 const rd_tensor *dst, rd_state_layout dst_layout);

/* Serialises one slot: versioned header (sizes, layout, type, checksum), little-endian, then the
 * packed state. rd_pool_save_size gives the bytes; save/load need at least that (RD_E_BUFFER). load
 * refuses another version, shape, layout, type or a wrong checksum (RD_E_BUFFER), before any write.
 * Also RD_E_ENUM, RD_E_SLOT_RANGE, RD_E_ALIAS (the buffer meets the pool). */
RD_API rd_status rd_pool_save_size(rd_context *ctx, const rd_tensor *pool, size_t *bytes);
RD_API rd_status rd_pool_save(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout,
                              int64_t slot, void *buffer, size_t bytes);
RD_API rd_status rd_pool_load(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout,
                              int64_t slot, const void *buffer, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
