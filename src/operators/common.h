/* What the named KDA operators share: fixed head size, layouts, the packed QKV tensor. */
#ifndef RDI_OPERATORS_COMMON_H
#define RDI_OPERATORS_COMMON_H

#include "redelta/operators.h"
#include "core/check.h"
#include "core/context.h"
#include "core/job.h"
#include "core/slots.h"

/* Entries of the aliasing check. */
#define RDO_IN(label, tensor)                                                                      \
  { .name = (label), .t = (tensor) }
#define RDO_OUT(label, tensor)                                                                     \
  { .name = (label), .t = (tensor), .is_output = 1 }
#define RDO_OUT_MAY_BE(label, tensor, input)                                                       \
  { .name = (label), .t = (tensor), .is_output = 1, .same = (input) }

/* Those of the inputs that the KDA operators share. */
#define RDO_GATE_INPUTS(p)                                                                         \
  RDO_IN("beta", &(p)->beta), RDO_IN("g", &(p)->g), RDO_IN("A_log", &(p)->A_log),                  \
      RDO_IN("dt_bias", &(p)->dt_bias)
#define RDO_MIXED_INPUTS(p)                                                                        \
  RDO_IN("mixedqkv", &(p)->mixedqkv), RDO_GATE_INPUTS(p), RDO_IN("cu_seqlens", &(p)->cu_seqlens)

enum { RDO_DIM = 128, RDO_MAX_HEADS = 96 };

/* An operator's call: takes the caller's params into `local` (a whole struct of that kind); `prepare`
 * checks them there and makes the job that runs. */
typedef rd_status rdo_prepare(rd_context *ctx, const void *params, rdi_job *job);
rd_status rdo_call(rd_context *ctx, rdi_struct kind, const void *params, void *local,
                   rdo_prepare *prepare);

/* block_num: 0 (None), 8, 24, 28 or 32. */
rd_status rdo_check_block_num(rd_context *ctx, int32_t block_num);

/* has_scale 0 or 1 and the scale itself, None being 128^-1/2. */
rd_status rdo_check_scale(rd_context *ctx, int32_t has_scale, double scale, float *out);

/* numerics: RD_EXACT or RD_FAST. */
rd_status rdo_check_numerics(rd_context *ctx, int32_t numerics);

/* The arithmetic of every KDA operator: raw lower-bound gate per channel, beta logits, l2-normalised
 * q and k, heads of 128, grouped map. */
void rdo_kda_math(rdi_math *m, int64_t Hk, int64_t Hv, float scale, float lb, int32_t numerics);

/* Sets A_log and dt_bias of the job after checking them: [H] and [H,128], f32, contiguous. */
rd_status rdo_kda_gate_weights(rd_context *ctx, rdi_job *job, const rd_tensor *A_log,
                               const rd_tensor *dt_bias, int64_t H);

/* mixedqkv, beta, g, out (and cu_seqlens) of the packed-QKV operators: checks them, fills the job's
 * sequences and views. *longest is the longest sequence. */
typedef struct rdo_mixed {
  const rd_tensor *mixedqkv, *beta, *g, *out, *cu_seqlens;
  int32_t layout;                   /* rd_layout_qkv */
  int64_t B, S, N, tokens, longest; /* filled in; S = tokens in TND */
} rdo_mixed;
rd_status rdo_unpack_mixed(rd_context *ctx, rdi_job *job, rdo_mixed *x);

/* State tensor [R,H,.,.] seen as a pool of R slots; `name` is what messages call the index. */
rdi_states rdo_states(const rd_tensor *t, rd_state_layout layout, const int32_t *index,
                      const char *name);

#endif
