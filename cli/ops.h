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

enum { OP_MAX_PARAMS = 16, OP_MAX_OUTPUTS = 4 };

/* What a parameter is. OP_OWN: a tensor of the tool's that the signature lacks. */
typedef enum op_role { OP_REQUIRED = 1, OP_OPTIONAL, OP_IN_PLACE, OP_OWN, OP_SCALAR } op_role;

typedef struct op_param {
  const char *name;
  op_role role;
  unsigned scalar; /* OP_SCALE ...; 0: a tensor           */
  int has_default; /* of a scalar: may be left out        */
  size_t at;       /* offset in the parameter struct      */
} op_param;

/* How the dimensions of an output name sequence and head. */
typedef enum op_places {
  OP_BY_SEQUENCE = 1, /* [B, heads, ...]                                        */
  OP_BY_SLOT,         /* the same, a pool                                       */
  OP_BY_RECORD,       /* [B, C, heads, ...]                                     */
  OP_BY_TOKEN,        /* as layout_qkv says, BNSD for an operator without one   */
  OP_NO_PLACE         /* not about sequences; the library is asked for its size */
} op_places;

typedef struct op_output {
  const char *name;
  const char *like; /* the input of the same shape and type; NULL: see OP_NO_PLACE */
  op_places places;
  size_t at;
} op_output;

typedef struct op_desc {
  op_id id;
  const char *name;
  op_param params[OP_MAX_PARAMS];    /* in the order of the signature; ends with a NULL name */
  op_output outputs[OP_MAX_OUTPUTS]; /* what is written to OUT; ends with a NULL name        */
  size_t has_scale, numerics;        /* fields beside the signature; 0: none                 */
  const char *shape_keys;            /* of gen: "B=1,Hk=16,..." with the defaults            */
  const char *shape_note;            /* for its help; may be NULL                            */
  void (*init)(void *params);
  rd_status (*run)(rd_context *ctx, const void *params);
} op_desc;

const op_desc *op_find(const char *name); /* NULL when unknown */
const op_desc *op_by_id(op_id id);

/* Is it one of the operator's tensors? */
int op_takes(const op_desc *op, const char *tensor);

/* The parameter of that name; NULL when the operator has none. */
const op_param *op_param_find(const op_desc *op, const char *name);

/* "a, b, c" for errors. */
const char *op_names(void);

/* Help: `intro`, then a line per operator: its signature, or the dimensions gen gives it. Returns
 * `text`. */
char *op_help_signatures(char *text, size_t size, const char *intro);
char *op_help_shapes(char *text, size_t size, const char *intro, const char *outro);

/* The whole table, for other programs. */
json_t *op_table_json(void);

/* ---- scalars ------------------------------------------------------------------------------------
 */

typedef struct op_scalars {
  unsigned given; /* OP_SCALE ... */
  double scale, scale_value, lower_bound;
  rd_layout_qkv layout_qkv;
  int32_t block_num; /* 0: None */
  rd_numerics numerics;
} op_scalars;

/* The names of layout_qkv. */
extern const char *const op_layouts[3];

/* Scalars as options of a command: bit, name, argument, help. Ids are OP_ID_BASE + the bit. */
enum { OP_ID_BASE = 2000 };
#define OP_SCALAR_LIST(X)                                                                          \
  X(SCALE, 1, "scale", "X", "scale; omitted: None, that is 128^-1/2")                              \
  X(SCALE_VALUE, 2, "scale-value", "X", "scale_value (default 1.0)")                               \
  X(LOWER_BOUND, 4, "lower-bound", "X", "lower_bound, in [-5, 0] (default -5.0)")                  \
  X(LAYOUT_QKV, 8, "layout-qkv", "L", "layout_qkv: BSND, BNSD or TND (default: the operator's)")   \
  X(BLOCK_NUM, 16, "block-num", "N", "block_num: 8, 24, 28 or 32 (default None)")                  \
  X(NUMERICS, 32, "numerics", "M", "exact or fast (default exact)")
#define OP_SCALAR_BIT(id, bit, name, argument, help)    OP_##id = (bit),
#define OP_SCALAR_OPTION(id, bit, name, argument, help) {name, OP_ID_BASE + (bit), argument, help},
enum { OP_SCALAR_LIST(OP_SCALAR_BIT) };
#define OP_SCALAR_OPTIONS OP_SCALAR_LIST(OP_SCALAR_OPTION)

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

/* The field of a parameter in the bound call; NULL when the operator has none. */
const void *op_field(const op_call *call, const char *name);

/* Runs it once from fresh outputs. On failure rd_last_error(ctx) says why. */
rd_status op_run(op_call *call, rd_context *ctx);

/* Names the tensors of `in` the operator does not know on stderr: the first few, and how many more. */
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
