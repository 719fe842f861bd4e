/* redelta/operators.h - the field's named operators. SPDX-License-Identifier: Apache-2.0
 *
 * Each is a thin, exactly validated front of core.h; names, parameter names, layouts and defaults are
 * those of the NPU operators of the same name. All tensors contiguous unless said otherwise; all
 * activations of one call have the type given in the table. Every parameter struct starts with its
 * size; rd_*_init() zeroes it and sets size and defaults. Calls check everything before any write;
 * on error every output keeps its bytes and rd_last_error() names the parameter. Operators plan
 * internally in the context's arena: a warm call allocates nothing.
 *
 * Errors of all: RD_E_NULL, RD_E_STRUCT_SIZE, RD_E_ENUM, RD_E_DTYPE, RD_E_RANK, RD_E_SHAPE,
 * RD_E_HEADS, RD_E_STRIDE, RD_E_ALIAS, RD_E_SCALE, RD_E_OVERFLOW, RD_E_NOMEM, RD_E_BUSY,
 * RD_E_EXECUTOR; further ones at each operator.
 */
#ifndef REDELTA_OPERATORS_H
#define REDELTA_OPERATORS_H

#include "redelta/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rd_layout_qkv { RD_BSND = 1, RD_BNSD = 2, RD_TND = 3 } rd_layout_qkv;

/* "BSND", "BNSD", "TND" -> value; 0 for anything else (NULL included). */
RD_API rd_layout_qkv rd_layout_qkv_parse(const char *name);

/* ---- chunk_gated_delta_rule: GDN prefill --------------------------------------------------------
 * S <- exp(g_t) S;  u = beta_t (v_t - S k_t);  S <- S + u k_t';  out_t = scale_value * S q_t
 *   query, key            [B,Hk,T,K]  f16, bf16 or f32; the caller normalises; strided views allowed
 *   value                 [B,Hv,T,V]  as query                           (grouped: hk = hv/(Hv/Hk))
 *   beta                  [B,Hv,T]    values, as query
 *   state                 [B,Hv,K,V]  (KV) as query, or f32; read-only
 *   actual_seq_lengths    [B] i32, each in [0, T]                         RD_E_LENGTH
 *   g                     [B,Hv,T] f32 log decay, or absent (no decay)
 *   out                   [B,Hv,T,V]  as query, written (rows past a length: +0)
 *   final_state           [B,Hv,K,V]  as state, written; may be exactly `state`
 * T = 0 and length 0 are legal: the state passes through as raw bytes. */
typedef struct rd_chunk_gated_delta_rule_params {
  size_t struct_size;
  rd_tensor query, key, value, beta, state, actual_seq_lengths, g;
  double scale_value; /* default 1.0 */
  rd_tensor out, final_state;
  int32_t numerics; /* rd_numerics, default RD_EXACT */
  int32_t reserved;
} rd_chunk_gated_delta_rule_params;
RD_API void rd_chunk_gated_delta_rule_init_sized(rd_chunk_gated_delta_rule_params *params,
                                                 size_t struct_size);
static inline void rd_chunk_gated_delta_rule_init(rd_chunk_gated_delta_rule_params *params) {
  rd_chunk_gated_delta_rule_init_sized(params, sizeof *params);
}
RD_API rd_status rd_chunk_gated_delta_rule(rd_context *ctx,
                                           const rd_chunk_gated_delta_rule_params *params);

/* ---- fused_recurrent_kda_replayssm: KDA verify --------------------------------------------------
 * k,q l2-normalised; a = exp(lower_bound sigmoid(exp(A_log)(g + dt_bias))); beta = sigmoid(logit);
 * the recurrence of core.h on a copy of recurrent_state, which is never written; u, k, a recorded.
 *                    BSND              BNSD              TND
 *   mixedqkv         [B,S,3N*128]      [B,3N,S,128]      [T,3N*128]     bf16 (Q, K, V in that order)
 *   beta (logits)    [B,S,N,1]         [B,N,S,1]         [T,N,1]        bf16
 *   g (raw)          [B,S,N,128]       [B,N,S,128]       [T,N,128]      bf16
 *   recurrent_state  [B,N,128,128] f32 VK, read-only
 *   A_log [N] f32, dt_bias [N,128] f32
 *   replay_u, replay_k [B,C,N,128] f16, replay_decay [B,C,N,128] f32: written in place up to each
 *                    length (records of a TND batch start at position 0); rows past it keep bytes
 *   cu_seqlens       TND: [B+1] i32, 0 = first < ... < last = T (RD_E_CU_*); else absent (RD_E_PRESENCE)
 *   out              shape of g, bf16, written
 * 1 <= N <= 96, B > 0, S > 0, C >= every length (RD_E_CAPACITY).
 * block_num 8, 24, 28, 32, or 0 for None (RD_E_BLOCK_NUM): only shapes the cut, never a bit. */
typedef struct rd_fused_recurrent_kda_replayssm_params {
  size_t struct_size;
  rd_tensor mixedqkv, recurrent_state, beta, g;
  int32_t has_scale;  /* 0: None, scale = 128^-1/2 (default) */
  int32_t layout_qkv; /* rd_layout_qkv, default RD_BSND */
  double scale;
  rd_tensor A_log, dt_bias;
  double lower_bound; /* default -5.0, in [-5, 0]: RD_E_LOWER_BOUND */
  rd_tensor replay_u, replay_k, replay_decay, cu_seqlens;
  int32_t block_num;
  int32_t numerics; /* rd_numerics, default RD_EXACT */
  rd_tensor out;
} rd_fused_recurrent_kda_replayssm_params;
RD_API void
rd_fused_recurrent_kda_replayssm_init_sized(rd_fused_recurrent_kda_replayssm_params *params,
                                            size_t struct_size);
static inline void
rd_fused_recurrent_kda_replayssm_init(rd_fused_recurrent_kda_replayssm_params *params) {
  rd_fused_recurrent_kda_replayssm_init_sized(params, sizeof *params);
}
RD_API rd_status rd_fused_recurrent_kda_replayssm(
    rd_context *ctx, const rd_fused_recurrent_kda_replayssm_params *params);

/* ---- commit_recurrent_kda_replayssm -------------------------------------------------------------
 * recurrent_state[b] <- S diag(decay_i) + u_i k_i' for i < num_accepted_tokens[b], in token order, in
 * place, FP32. Tensors as above; num_accepted_tokens [B] i32, each in [0, C] (RD_E_ACCEPTED); 0 keeps
 * the bytes. Records are read-only. block_num as above. */
typedef struct rd_commit_recurrent_kda_replayssm_params {
  size_t struct_size;
  rd_tensor recurrent_state, replay_u, replay_k, replay_decay, num_accepted_tokens;
  int32_t block_num;
  int32_t reserved;
} rd_commit_recurrent_kda_replayssm_params;
RD_API void
rd_commit_recurrent_kda_replayssm_init_sized(rd_commit_recurrent_kda_replayssm_params *params,
                                             size_t struct_size);
static inline void
rd_commit_recurrent_kda_replayssm_init(rd_commit_recurrent_kda_replayssm_params *params) {
  rd_commit_recurrent_kda_replayssm_init_sized(params, sizeof *params);
}
RD_API rd_status rd_commit_recurrent_kda_replayssm(
    rd_context *ctx, const rd_commit_recurrent_kda_replayssm_params *params);

/* ---- flash_kda_metadata -------------------------------------------------------------------------
 * An opaque schedule for flash_kda: reads shapes and lengths only (q, v, initial_state may have null
 * data); reusable over layers with the same schedule. metadata: [n] i32 contiguous, written, n from
 * rd_flash_kda_metadata_size(). cu_seqlens [B+1] i32 or i64: required in TND (ends at T); optional in
 * BSND/BNSD, where it gives per-batch lengths <= S (RD_E_LENGTH). Also RD_E_CU_*. *n keeps its
 * value on error. */
typedef struct rd_flash_kda_metadata_params {
  size_t struct_size;
  rd_tensor q, v, initial_state;
  int32_t layout_qkv; /* rd_layout_qkv, default RD_BNSD */
  int32_t reserved;
  rd_tensor cu_seqlens;
  rd_tensor metadata;
} rd_flash_kda_metadata_params;
RD_API void rd_flash_kda_metadata_init_sized(rd_flash_kda_metadata_params *params,
                                             size_t struct_size);
static inline void rd_flash_kda_metadata_init(rd_flash_kda_metadata_params *params) {
  rd_flash_kda_metadata_init_sized(params, sizeof *params);
}
RD_API rd_status rd_flash_kda_metadata_size(rd_context *ctx,
                                            const rd_flash_kda_metadata_params *params, int64_t *n);
RD_API rd_status rd_flash_kda_metadata(rd_context *ctx, const rd_flash_kda_metadata_params *params);

/* ---- flash_kda: KDA prefill ---------------------------------------------------------------------
 * Equations as fused_recurrent_kda_replayssm, whole sequences.
 *                    BNSD            BSND            TND
 *   q, k             [B,Hk,S,128]    [B,S,Hk,128]    [T,Hk,128]    bf16
 *   v, g, out        [B,Hv,S,128]    [B,S,Hv,128]    [T,Hv,128]    bf16
 *   beta (logits)    [B,Hv,S]        [B,S,Hv]        [T,Hv]        bf16
 *   initial_state    [B,Hv,128,128] f32 VK, read-only; final_state the same, written; may be equal
 *   A_log [Hv] f32, dt_bias [Hv,128] f32; grouped heads
 *   metadata         from flash_kda_metadata for the same shapes (else RD_E_METADATA), or absent: then
 *                    every sequence has S tokens; in TND it alone says where sequences begin, so
 *                    without it B, of initial_state, must be 1 (else RD_E_NULL)
 * Zero lengths pass the state through. lower_bound outside [-5, 0]: RD_E_LOWER_BOUND. */
typedef struct rd_flash_kda_params {
  size_t struct_size;
  rd_tensor q, k, v, g, beta;
  int32_t has_scale;  /* 0: None, scale = 128^-1/2 (default) */
  int32_t layout_qkv; /* rd_layout_qkv, default RD_BNSD */
  double scale;
  rd_tensor initial_state, A_log, dt_bias;
  double lower_bound; /* default -5.0 */
  rd_tensor metadata;
  rd_tensor out, final_state;
  int32_t numerics; /* rd_numerics, default RD_EXACT */
  int32_t reserved;
} rd_flash_kda_params;
RD_API void rd_flash_kda_init_sized(rd_flash_kda_params *params, size_t struct_size);
static inline void rd_flash_kda_init(rd_flash_kda_params *params) {
  rd_flash_kda_init_sized(params, sizeof *params);
}
RD_API rd_status rd_flash_kda(rd_context *ctx, const rd_flash_kda_params *params);

/* ---- fused_recurrent_kda: KDA decode with a state snapshot per token ----------------------------
 * Tensors as fused_recurrent_kda_replayssm, and
 *   state               [R,N,128,128] f32 or bf16, updated in place; R >= number of tokens
 *   ssm_state_indices   [B*S] or [T] i32, or absent (0, 1, 2, ...): the state after token t goes to
 *                       that slot. Each in [0, R) (RD_E_SLOT_RANGE; -1 is an error), no duplicates,
 *                       none that another sequence reads (RD_E_SLOT_DUPLICATE)
 *   num_accepted_tokens [B] i32, or absent (1): sequence b starts from the slot at index
 *                       max(n,1)-1 of its tokens; each in [0, length] (RD_E_ACCEPTED)
 *   cu_seqlens          TND: [B+1] i32, strictly rising from 0 to T; else absent
 * The running state stays FP32; each snapshot is rounded once. Always EXACT. Also RD_E_LOWER_BOUND,
 * RD_E_CU_*, RD_E_PRESENCE. */
typedef struct rd_fused_recurrent_kda_params {
  size_t struct_size;
  rd_tensor mixedqkv, state, beta, g;
  int32_t has_scale;  /* 0: None, scale = 128^-1/2 (default) */
  int32_t layout_qkv; /* rd_layout_qkv, default RD_BSND */
  double scale;
  rd_tensor A_log, dt_bias;
  double lower_bound; /* default -5.0 */
  rd_tensor cu_seqlens, ssm_state_indices, num_accepted_tokens;
  rd_tensor out;
} rd_fused_recurrent_kda_params;
RD_API void rd_fused_recurrent_kda_init_sized(rd_fused_recurrent_kda_params *params,
                                              size_t struct_size);
static inline void rd_fused_recurrent_kda_init(rd_fused_recurrent_kda_params *params) {
  rd_fused_recurrent_kda_init_sized(params, sizeof *params);
}
RD_API rd_status rd_fused_recurrent_kda(rd_context *ctx,
                                        const rd_fused_recurrent_kda_params *params);

#ifdef __cplusplus
}
#endif
#endif
