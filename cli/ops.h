/* cli/ops.h - the named operators as the tool sees them. SPDX-License-Identifier: Apache-2.0
 *
 * One table describes every operator; run, check, gen and the demo all go through it.
 */
#ifndef RD_CLI_OPS_H
#define RD_CLI_OPS_H

#include "cli/cli.h"

typedef enum op_id {
  OP_CHUNK_GATED_DELTA_RULE,
  OP_FLASH_KDA,
  OP_FLASH_KDA_METADATA,
  OP_FUSED_RECURRENT_KDA_REPLAYSSM,
  OP_COMMIT_RECURRENT_KDA_REPLAYSSM,
  OP_FUSED_RECURRENT_KDA,
  OP_COUNT
} op_id;

/* Scalars, a bit set; also the id of the option. */
enum {
  OP_SCALE = 1,
  OP_SCALE_VALUE = 2,
  OP_LOWER_BOUND = 4,
  OP_LAYOUT_QKV = 8,
  OP_BLOCK_NUM = 16,
  OP_NUMERICS = 32
};

enum { OP_MAX_TENSORS = 12, OP_MAX_OUTPUTS = 4 };

typedef enum op_role { OP_REQUIRED = 1, OP_OPTIONAL, OP_IN_PLACE } op_role;

typedef struct op_tensor {
  const char *name;
  op_role role;
} op_tensor;

typedef struct op_desc {
  op_id id;
  const char *name;
  op_tensor tensors[OP_MAX_TENSORS];   /* in the order of the signature; ends with a NULL name */
  const char *outputs[OP_MAX_OUTPUTS]; /* what is written to OUT; ends with NULL               */
  unsigned scalars;
  const char *shape_keys; /* of gen: "B=1,Hk=16,..." with the defaults */
} op_desc;

const op_desc *op_find(const char *name); /* NULL when unknown */
const op_desc *op_by_id(op_id id);

/* "OP is one of ..." for help texts and errors. */
const char *op_names(void);

/* ---- scalars ------------------------------------------------------------------------------------
 */

typedef struct op_scalars {
  unsigned given; /* OP_SCALE ... */
  double scale, scale_value, lower_bound;
  rd_layout_qkv layout_qkv;
  int32_t block_num; /* 0: None */
  rd_numerics numerics;
} op_scalars;

/* The options of a scalar, to be put into a command's table; ids are OP_ID_BASE + the bit. */
enum { OP_ID_BASE = 2000 };
#define OP_SCALAR_OPTIONS                                                                          \
  {"scale", OP_ID_BASE + OP_SCALE, "X", "scale; omitted: None, that is 128^-1/2"},                 \
      {"scale-value", OP_ID_BASE + OP_SCALE_VALUE, "X", "scale_value (default 1.0)"},              \
      {"lower-bound", OP_ID_BASE + OP_LOWER_BOUND, "X", "lower_bound, in [-5, 0] (default -5.0)"}, \
      {"layout-qkv", OP_ID_BASE + OP_LAYOUT_QKV, "L",                                              \
       "layout_qkv: BSND, BNSD or TND (default: the operator's)"},                                 \
      {"block-num", OP_ID_BASE + OP_BLOCK_NUM, "N", "block_num: 8, 24, 28 or 32 (default None)"},  \
  {                                                                                                \
    "numerics", OP_ID_BASE + OP_NUMERICS, "M", "exact or fast (default exact)"                     \
  }

/* Takes an option id; returns 1 when it was a scalar and good, 0 when it was none, -1 after a
 * message. */
int op_scalar_option(const cli_args *args, int id, op_scalars *scalars);

/* A scalar the operator does not have is a usage error: 0 after a message. */
int op_scalars_fit(const char *command, const op_desc *op, const op_scalars *scalars);

/* ---- calls --------------------------------------------------------------------------------------
 */

/* A call bound to tensors. `in` holds the inputs, `out` the outputs; tensors updated in place are
 * copied from `in` to `out` before each run, so a call can be repeated. */
typedef struct op_call {
  const op_desc *op;
  op_scalars scalars;
  const io_file *in;
  io_file out;
  rd_tensor cu_seqlens; /* flash_kda: what the metadata is made from; else absent */
  io_file own;          /* the metadata the tool made for flash_kda */
  union {
    rd_chunk_gated_delta_rule_params chunk;
    rd_flash_kda_params flash;
    rd_flash_kda_metadata_params metadata;
    rd_fused_recurrent_kda_replayssm_params verify;
    rd_commit_recurrent_kda_replayssm_params commit;
    rd_fused_recurrent_kda_params decode;
  } p;
} op_call;

/* Binds `in` to op. Missing or unusable tensors give IO_BAD with a message. Allocates the outputs.
 * `ctx` is used for metadata only. On failure the call holds nothing. */
io_status op_bind(op_call *call, const op_desc *op, const op_scalars *scalars, const io_file *in,
                  rd_context *ctx, io_error *err);
void op_release(op_call *call);

/* Runs it once from fresh outputs. On failure rd_last_error(ctx) says why. */
rd_status op_run(op_call *call, rd_context *ctx);

/* Names every tensor of `in` the operator does not know on stderr. */
void op_warn_unknown(const char *command, const op_desc *op, const io_file *in);

/* The double oracle's outputs in the order of op->outputs, each dense; entries of non-floating
 * outputs stay NULL. Valid after a successful op_run only (the library has then checked the
 * arguments). Returns 0, or -1 when memory ran out. The caller frees each. */
int op_oracle(const op_call *call, double *expected[OP_MAX_OUTPUTS]);

/* Where an element of output `index` belongs: number of its (sequence, value head) group in
 * [0, op_groups()), or -1 for an element of no sequence. Tensors whose first dimension is neither
 * batch nor tokens (a pool) count each slot as a sequence. */
int64_t op_groups(const op_call *call, int index);
int64_t op_group_of(const op_call *call, int index, int64_t element);

/* "sequence 1, head 3" */
void op_group_text(const op_call *call, int index, int64_t group, char *text, size_t size);

/* Key length and longest sequence, for the error bounds. */
void op_extent(const op_call *call, int64_t *K, int64_t *T);

#endif
