/* The table of operators and their scalars. SPDX-License-Identifier: Apache-2.0 */
#include "cli/ops.h"

#include <string.h>

#define R OP_REQUIRED
#define O OP_OPTIONAL
#define I OP_IN_PLACE

static const op_desc table[OP_COUNT] = {
    {OP_CHUNK_GATED_DELTA_RULE,
     "chunk_gated_delta_rule",
     {{"query", R},
      {"key", R},
      {"value", R},
      {"beta", R},
      {"state", R},
      {"actual_seq_lengths", R},
      {"g", O}},
     {"out", "final_state"},
     OP_SCALE_VALUE | OP_NUMERICS,
     "B=1,Hk=16,Hv=32,T=512,K=128,V=128"},
    {OP_FLASH_KDA,
     "flash_kda",
     {{"q", R},
      {"k", R},
      {"v", R},
      {"g", R},
      {"beta", R},
      {"initial_state", R},
      {"A_log", R},
      {"dt_bias", R},
      {"cu_seqlens", O},
      {"metadata", O}},
     {"out", "final_state"},
     OP_SCALE | OP_LOWER_BOUND | OP_LAYOUT_QKV | OP_NUMERICS,
     "B=1,Hk=4,Hv=8,T=256"},
    {OP_FLASH_KDA_METADATA,
     "flash_kda_metadata",
     {{"q", R}, {"v", R}, {"initial_state", R}, {"cu_seqlens", O}},
     {"metadata"},
     OP_LAYOUT_QKV,
     "B=1,Hk=4,Hv=8,T=256"},
    {OP_FUSED_RECURRENT_KDA_REPLAYSSM,
     "fused_recurrent_kda_replayssm",
     {{"mixedqkv", R},
      {"recurrent_state", R},
      {"beta", R},
      {"g", R},
      {"A_log", R},
      {"dt_bias", R},
      {"replay_u", I},
      {"replay_k", I},
      {"replay_decay", I},
      {"cu_seqlens", O}},
     {"out", "replay_u", "replay_k", "replay_decay"},
     OP_SCALE | OP_LOWER_BOUND | OP_LAYOUT_QKV | OP_BLOCK_NUM | OP_NUMERICS,
     "B=2,N=8,T=8,C=10"},
    {OP_COMMIT_RECURRENT_KDA_REPLAYSSM,
     "commit_recurrent_kda_replayssm",
     {{"recurrent_state", I},
      {"replay_u", R},
      {"replay_k", R},
      {"replay_decay", R},
      {"num_accepted_tokens", R}},
     {"recurrent_state"},
     OP_BLOCK_NUM,
     "B=2,N=8,C=10"},
    {OP_FUSED_RECURRENT_KDA,
     "fused_recurrent_kda",
     {{"mixedqkv", R},
      {"state", I},
      {"beta", R},
      {"g", R},
      {"A_log", R},
      {"dt_bias", R},
      {"cu_seqlens", O},
      {"ssm_state_indices", O},
      {"num_accepted_tokens", O}},
     {"state", "out"},
     OP_SCALE | OP_LOWER_BOUND | OP_LAYOUT_QKV,
     "B=2,N=8,T=4,R=8"},
};

#undef R
#undef O
#undef I

const op_desc *op_by_id(op_id id) { return &table[id]; }

const op_desc *op_find(const char *name) {
  for (int i = 0; i < OP_COUNT; i++) {
    if (strcmp(name, table[i].name) == 0) return &table[i];
  }
  return NULL;
}

const char *op_names(void) {
  return "chunk_gated_delta_rule, flash_kda, flash_kda_metadata, "
         "fused_recurrent_kda_replayssm, commit_recurrent_kda_replayssm, fused_recurrent_kda";
}

/* ---------------------------------------------------------------- scalars --------------------- */

static int word_option(const cli_args *args, int bit, op_scalars *s) {
  if (bit == OP_LAYOUT_QKV) {
    s->layout_qkv = rd_layout_qkv_parse(args->value);
    if (s->layout_qkv != 0) return 1;
    cli_fail(args->command->name, 0, "--layout-qkv: expected BSND, BNSD or TND, got '%s'",
             args->value);
    return 0;
  }
  if (strcmp(args->value, "exact") == 0) {
    s->numerics = RD_EXACT;
  } else if (strcmp(args->value, "fast") == 0) {
    s->numerics = RD_FAST;
  } else {
    cli_fail(args->command->name, 0, "--numerics: expected exact or fast, got '%s'", args->value);
    return 0;
  }
  return 1;
}

int op_scalar_option(const cli_args *args, int id, op_scalars *s) {
  int bit = id - OP_ID_BASE;
  int64_t block_num = 0;
  int good;
  switch (bit) {
  case OP_SCALE:
    good = cli_double(args, &s->scale);
    break;
  case OP_SCALE_VALUE:
    good = cli_double(args, &s->scale_value);
    break;
  case OP_LOWER_BOUND:
    good = cli_double(args, &s->lower_bound);
    break;
  case OP_BLOCK_NUM:
    /* 0 is how the C interface spells None; a user who types it wants a block count. */
    good = cli_int(args, 1, INT32_MAX, &block_num);
    s->block_num = (int32_t)block_num;
    break;
  case OP_LAYOUT_QKV:
  case OP_NUMERICS:
    good = word_option(args, bit, s);
    break;
  default:
    return 0;
  }
  s->given |= (unsigned)bit;
  return good ? 1 : -1;
}

int op_scalars_fit(const char *command, const op_desc *op, const op_scalars *s) {
  static const struct {
    unsigned bit;
    const char *option;
  } names[] = {{OP_SCALE, "scale"},
               {OP_SCALE_VALUE, "scale-value"},
               {OP_LOWER_BOUND, "lower-bound"},
               {OP_LAYOUT_QKV, "layout-qkv"},
               {OP_BLOCK_NUM, "block-num"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if ((s->given & names[i].bit) != 0 && (op->scalars & names[i].bit) == 0) {
      cli_fail(command, 0, "--%s: %s has no such parameter", names[i].option, op->name);
      return 0;
    }
  }
  if ((s->given & OP_NUMERICS) != 0 && s->numerics == RD_FAST && (op->scalars & OP_NUMERICS) == 0) {
    cli_fail(command, 0, "--numerics: %s has the exact form only", op->name);
    return 0;
  }
  return 1;
}

void op_warn_unknown(const char *command, const op_desc *op, const io_file *in) {
  for (size_t i = 0; i < in->count; i++) {
    int known = 0;
    for (const op_tensor *t = op->tensors; t->name != NULL; t++) {
      known |= strcmp(in->tensors[i].name, t->name) == 0;
    }
    if (!known) {
      cli_warn(command, "%s has no tensor '%.200s'; ignored", op->name, in->tensors[i].name);
    }
  }
}
