/* The table of operators. SPDX-License-Identifier: Apache-2.0
 *
 * Names, their order and which may be left out are those of the signature (test/cli/signatures.py
 * compares them with the Python package); defaults are what rd_OP_init sets.
 */
#include "cli/ops.h"

#include <stddef.h>
#include <string.h>

#define AT(op, field) offsetof(rd_##op##_params, field)
#define REQUIRED(op, name)                                                                         \
  { #name, OP_REQUIRED, 0, 0, AT(op, name) }
#define OPTIONAL(op, name)                                                                         \
  { #name, OP_OPTIONAL, 0, 0, AT(op, name) }
#define IN_PLACE(op, name)                                                                         \
  { #name, OP_IN_PLACE, 0, 0, AT(op, name) }
#define SCALAR(op, name, bit)                                                                      \
  { #name, OP_SCALAR, OP_##bit, 0, AT(op, name) }
#define DEFAULTED(op, name, bit)                                                                   \
  { #name, OP_SCALAR, OP_##bit, 1, AT(op, name) }
#define OUTPUT(op, name, like, places)                                                             \
  { #name, like, places, AT(op, name) }
#define CALLS(op) .init = op##_init, .run = op##_run

#define OPERATOR(op)                                                                               \
  static void op##_init(void *params) { rd_##op##_init(params); }                                  \
  static rd_status op##_run(rd_context *ctx, const void *params) { return rd_##op(ctx, params); }
OPERATOR(chunk_gated_delta_rule)
OPERATOR(flash_kda)
OPERATOR(flash_kda_metadata)
OPERATOR(fused_recurrent_kda_replayssm)
OPERATOR(commit_recurrent_kda_replayssm)
OPERATOR(fused_recurrent_kda)

static const op_desc table[OP_COUNT] = {
    {.id = OP_CHUNK_GATED_DELTA_RULE,
     .name = "chunk_gated_delta_rule",
     .params = {REQUIRED(chunk_gated_delta_rule, query), REQUIRED(chunk_gated_delta_rule, key),
                REQUIRED(chunk_gated_delta_rule, value), REQUIRED(chunk_gated_delta_rule, beta),
                REQUIRED(chunk_gated_delta_rule, state),
                REQUIRED(chunk_gated_delta_rule, actual_seq_lengths),
                OPTIONAL(chunk_gated_delta_rule, g),
                DEFAULTED(chunk_gated_delta_rule, scale_value, SCALE_VALUE)},
     .outputs = {OUTPUT(chunk_gated_delta_rule, out, "value", OP_BY_TOKEN),
                 OUTPUT(chunk_gated_delta_rule, final_state, "state", OP_BY_SEQUENCE)},
     .numerics = AT(chunk_gated_delta_rule, numerics),
     .shape_keys = "B=1,Hk=16,Hv=32,T=512,K=128,V=128",
     CALLS(chunk_gated_delta_rule)},
    {.id = OP_FLASH_KDA,
     .name = "flash_kda",
     .params = {REQUIRED(flash_kda, q),
                REQUIRED(flash_kda, k),
                REQUIRED(flash_kda, v),
                REQUIRED(flash_kda, g),
                REQUIRED(flash_kda, beta),
                SCALAR(flash_kda, scale, SCALE),
                REQUIRED(flash_kda, initial_state),
                REQUIRED(flash_kda, A_log),
                REQUIRED(flash_kda, dt_bias),
                DEFAULTED(flash_kda, lower_bound, LOWER_BOUND),
                DEFAULTED(flash_kda, layout_qkv, LAYOUT_QKV),
                OPTIONAL(flash_kda, metadata),
                {"cu_seqlens", OP_OWN, 0, 0, 0}},
     .outputs = {OUTPUT(flash_kda, out, "v", OP_BY_TOKEN),
                 OUTPUT(flash_kda, final_state, "initial_state", OP_BY_SEQUENCE)},
     .has_scale = AT(flash_kda, has_scale),
     .numerics = AT(flash_kda, numerics),
     .shape_keys = "B=1,Hk=4,Hv=8,T=256",
     CALLS(flash_kda)},
    {.id = OP_FLASH_KDA_METADATA,
     .name = "flash_kda_metadata",
     .params = {REQUIRED(flash_kda_metadata, q), REQUIRED(flash_kda_metadata, v),
                REQUIRED(flash_kda_metadata, initial_state),
                SCALAR(flash_kda_metadata, layout_qkv, LAYOUT_QKV),
                OPTIONAL(flash_kda_metadata, cu_seqlens)},
     .outputs = {OUTPUT(flash_kda_metadata, metadata, NULL, OP_NO_PLACE)},
     .shape_keys = "B=1,Hk=4,Hv=8,T=256",
     CALLS(flash_kda_metadata)},
    {.id = OP_FUSED_RECURRENT_KDA_REPLAYSSM,
     .name = "fused_recurrent_kda_replayssm",
     .params = {REQUIRED(fused_recurrent_kda_replayssm, mixedqkv),
                REQUIRED(fused_recurrent_kda_replayssm, recurrent_state),
                REQUIRED(fused_recurrent_kda_replayssm, beta),
                REQUIRED(fused_recurrent_kda_replayssm, g),
                SCALAR(fused_recurrent_kda_replayssm, scale, SCALE),
                REQUIRED(fused_recurrent_kda_replayssm, A_log),
                REQUIRED(fused_recurrent_kda_replayssm, dt_bias),
                DEFAULTED(fused_recurrent_kda_replayssm, lower_bound, LOWER_BOUND),
                DEFAULTED(fused_recurrent_kda_replayssm, layout_qkv, LAYOUT_QKV),
                IN_PLACE(fused_recurrent_kda_replayssm, replay_u),
                IN_PLACE(fused_recurrent_kda_replayssm, replay_k),
                IN_PLACE(fused_recurrent_kda_replayssm, replay_decay),
                OPTIONAL(fused_recurrent_kda_replayssm, cu_seqlens),
                DEFAULTED(fused_recurrent_kda_replayssm, block_num, BLOCK_NUM)},
     .outputs = {OUTPUT(fused_recurrent_kda_replayssm, out, "g", OP_BY_TOKEN),
                 OUTPUT(fused_recurrent_kda_replayssm, replay_u, "replay_u", OP_BY_RECORD),
                 OUTPUT(fused_recurrent_kda_replayssm, replay_k, "replay_k", OP_BY_RECORD),
                 OUTPUT(fused_recurrent_kda_replayssm, replay_decay, "replay_decay", OP_BY_RECORD)},
     .has_scale = AT(fused_recurrent_kda_replayssm, has_scale),
     .numerics = AT(fused_recurrent_kda_replayssm, numerics),
     .shape_keys = "B=2,N=8,T=8,C=10",
     .shape_note = "C: longest + 2",
     CALLS(fused_recurrent_kda_replayssm)},
    {.id = OP_COMMIT_RECURRENT_KDA_REPLAYSSM,
     .name = "commit_recurrent_kda_replayssm",
     .params = {IN_PLACE(commit_recurrent_kda_replayssm, recurrent_state),
                REQUIRED(commit_recurrent_kda_replayssm, replay_u),
                REQUIRED(commit_recurrent_kda_replayssm, replay_k),
                REQUIRED(commit_recurrent_kda_replayssm, replay_decay),
                REQUIRED(commit_recurrent_kda_replayssm, num_accepted_tokens),
                DEFAULTED(commit_recurrent_kda_replayssm, block_num, BLOCK_NUM)},
     .outputs = {OUTPUT(commit_recurrent_kda_replayssm, recurrent_state, "recurrent_state",
                        OP_BY_SEQUENCE)},
     .shape_keys = "B=2,N=8,C=10",
     CALLS(commit_recurrent_kda_replayssm)},
    {.id = OP_FUSED_RECURRENT_KDA,
     .name = "fused_recurrent_kda",
     .params = {REQUIRED(fused_recurrent_kda, mixedqkv), IN_PLACE(fused_recurrent_kda, state),
                REQUIRED(fused_recurrent_kda, beta), REQUIRED(fused_recurrent_kda, g),
                SCALAR(fused_recurrent_kda, scale, SCALE), REQUIRED(fused_recurrent_kda, A_log),
                REQUIRED(fused_recurrent_kda, dt_bias),
                DEFAULTED(fused_recurrent_kda, lower_bound, LOWER_BOUND),
                DEFAULTED(fused_recurrent_kda, layout_qkv, LAYOUT_QKV),
                OPTIONAL(fused_recurrent_kda, cu_seqlens),
                OPTIONAL(fused_recurrent_kda, ssm_state_indices),
                OPTIONAL(fused_recurrent_kda, num_accepted_tokens)},
     .outputs = {OUTPUT(fused_recurrent_kda, state, "state", OP_BY_SLOT),
                 OUTPUT(fused_recurrent_kda, out, "g", OP_BY_TOKEN)},
     .has_scale = AT(fused_recurrent_kda, has_scale),
     .shape_keys = "B=2,N=8,T=4,R=8",
     .shape_note = "R: number of tokens",
     CALLS(fused_recurrent_kda)},
};

const op_desc *op_by_id(op_id id) { return &table[id]; }

const op_desc *op_find(const char *name) {
  for (int i = 0; i < OP_COUNT; i++) {
    if (strcmp(name, table[i].name) == 0) return &table[i];
  }
  return NULL;
}

const op_param *op_param_find(const op_desc *op, const char *name) {
  for (const op_param *p = op->params; p->name != NULL; p++) {
    if (strcmp(p->name, name) == 0) return p;
  }
  return NULL;
}

int op_takes(const op_desc *op, const char *tensor) {
  const op_param *p = op_param_find(op, tensor);
  return p != NULL && p->role != OP_SCALAR;
}

const char *op_names(void) {
  static char text[OP_COUNT * 40];
  size_t n = 0;
  for (int i = 0; i < OP_COUNT; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i > 0 ? ", " : "", table[i].name);
  return text;
}

/* A file may be a whole model. */
enum { MAX_WARNINGS = 10 };

void op_warn_unknown(const char *command, const op_desc *op, const io_file *in) {
  size_t unknown = 0;
  for (size_t i = 0; i < in->count; i++) {
    if (op_takes(op, in->tensors[i].name)) continue;
    if (++unknown <= MAX_WARNINGS)
      cli_warn(command, "%s has no tensor '%.200s'; ignored", op->name, in->tensors[i].name);
  }
  if (unknown > MAX_WARNINGS)
    cli_warn(command, "%zu more tensors that %s does not have; ignored", unknown - MAX_WARNINGS,
             op->name);
}
