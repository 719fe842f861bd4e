/* The scalars of an operator as options. SPDX-License-Identifier: Apache-2.0 */
#include "cli/ops.h"

#include <string.h>

static const cli_option scalar_options[] = {OP_SCALAR_OPTIONS};

const char *const op_layouts[3] = {"BSND", "BNSD", "TND"};

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

static int takes(const op_desc *op, unsigned scalar) {
  for (const op_param *p = op->params; p->name != NULL; p++) {
    if (p->scalar == scalar) return 1;
  }
  return 0;
}

int op_scalars_fit(const char *command, const op_desc *op, const op_scalars *s) {
  for (size_t i = 0; i < sizeof scalar_options / sizeof scalar_options[0]; i++) {
    unsigned bit = (unsigned)(scalar_options[i].id - OP_ID_BASE);
    if ((s->given & bit) == 0 || bit == OP_NUMERICS || takes(op, bit)) continue;
    cli_fail(command, 0, "--%s: %s has no such parameter", scalar_options[i].name, op->name);
    return 0;
  }
  if ((s->given & OP_NUMERICS) != 0 && s->numerics == RD_FAST && op->numerics == 0) {
    cli_fail(command, 0, "--numerics: %s has the exact form only", op->name);
    return 0;
  }
  return 1;
}
