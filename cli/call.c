/* From a set of tensors to a parameter struct, and the call. SPDX-License-Identifier: Apache-2.0 */
#include "cli/ops.h"

#include "operators/flash_kda.h"

#include <string.h>

/* State while binding; the first error sticks. */
typedef struct binder {
  op_call *call;
  io_error *err;
  io_status status;
} binder;

static rd_tensor input(binder *b, const char *name) {
  rd_tensor view = {0};
  if (b->status == IO_OK)
    b->status = io_tensor_view(io_file_find(b->call->in, name), &view, b->err);
  return view;
}

/* A fresh output in the shape and type of input `like`. */
static rd_tensor output_like(binder *b, const char *name, const char *like) {
  rd_tensor view = {0};
  const io_tensor *t = io_file_find(b->call->in, like);
  if (b->status != IO_OK || t == NULL) return view;
  io_tensor *made = NULL;
  b->status = io_file_add(&b->call->out, name, t->dtype, t->rank, t->shape, &made, b->err);
  if (b->status == IO_OK) b->status = io_tensor_view(made, &view, b->err);
  return view;
}

static rd_tensor in_place(binder *b, const char *name) { return output_like(b, name, name); }

static void check_required(binder *b) {
  const op_desc *op = b->call->op;
  for (const op_tensor *t = op->tensors; t->name != NULL && b->status == IO_OK; t++) {
    if (t->role != OP_OPTIONAL && io_file_find(b->call->in, t->name) == NULL) {
      b->status = io_fail(b->err, IO_BAD, "tensor '%s' is missing; %s needs it", t->name, op->name);
    }
  }
}

static void bind_chunk(binder *b) {
  rd_chunk_gated_delta_rule_params *p = &b->call->p.chunk;
  const op_scalars *s = &b->call->scalars;
  rd_chunk_gated_delta_rule_init(p);
  p->query = input(b, "query");
  p->key = input(b, "key");
  p->value = input(b, "value");
  p->beta = input(b, "beta");
  p->state = input(b, "state");
  p->actual_seq_lengths = input(b, "actual_seq_lengths");
  p->g = input(b, "g");
  if (s->given & OP_SCALE_VALUE) p->scale_value = s->scale_value;
  if (s->given & OP_NUMERICS) p->numerics = s->numerics;
  p->out = output_like(b, "out", "value");
  p->final_state = output_like(b, "final_state", "state");
}

/* The number of metadata words depends on the schedule, so the library is asked. */
static void make_metadata(binder *b, rd_context *ctx, io_file *where,
                          rd_flash_kda_metadata_params *p) {
  int64_t n = 0;
  if (b->status != IO_OK) return;
  rd_status status = rd_flash_kda_metadata_size(ctx, p, &n);
  if (status != RD_OK) {
    b->status = io_fail(b->err, cli_status_of(status) == CLI_BAD ? IO_BAD : IO_SYSTEM,
                        "flash_kda_metadata: %s: %s", rd_status_name(status), rd_last_error(ctx));
    return;
  }
  io_tensor *made = NULL;
  b->status = io_file_add(where, "metadata", io_dtype_of(RD_I32), 1, &n, &made, b->err);
  if (b->status == IO_OK) b->status = io_tensor_view(made, &p->metadata, b->err);
}

static void bind_flash(binder *b, rd_context *ctx) {
  rd_flash_kda_params *p = &b->call->p.flash;
  const op_scalars *s = &b->call->scalars;
  rd_flash_kda_init(p);
  p->q = input(b, "q");
  p->k = input(b, "k");
  p->v = input(b, "v");
  p->g = input(b, "g");
  p->beta = input(b, "beta");
  p->initial_state = input(b, "initial_state");
  p->A_log = input(b, "A_log");
  p->dt_bias = input(b, "dt_bias");
  p->metadata = input(b, "metadata");
  if (s->given & OP_SCALE) p->has_scale = 1, p->scale = s->scale;
  if (s->given & OP_LOWER_BOUND) p->lower_bound = s->lower_bound;
  if (s->given & OP_LAYOUT_QKV) p->layout_qkv = s->layout_qkv;
  if (s->given & OP_NUMERICS) p->numerics = s->numerics;
  p->out = output_like(b, "out", "v");
  p->final_state = output_like(b, "final_state", "initial_state");

  b->call->cu_seqlens = input(b, "cu_seqlens");
  if (b->status != IO_OK || b->call->cu_seqlens.dtype == RD_ABSENT) return;
  if (p->metadata.dtype != RD_ABSENT) {
    b->status = io_fail(b->err, IO_BAD,
                        "tensors 'cu_seqlens' and 'metadata' exclude each other: the "
                        "metadata hold the lengths");
    return;
  }
  rd_flash_kda_metadata_params m;
  rd_flash_kda_metadata_init(&m);
  m.q = p->q;
  m.v = p->v;
  m.initial_state = p->initial_state;
  m.layout_qkv = p->layout_qkv;
  m.cu_seqlens = b->call->cu_seqlens;
  make_metadata(b, ctx, &b->call->own, &m);
  if (b->status != IO_OK) return;
  rd_status status = rd_flash_kda_metadata(ctx, &m);
  if (status != RD_OK) {
    b->status = io_fail(b->err, cli_status_of(status) == CLI_BAD ? IO_BAD : IO_SYSTEM,
                        "flash_kda_metadata: %s: %s", rd_status_name(status), rd_last_error(ctx));
  }
  p->metadata = m.metadata;
}

static void bind_metadata(binder *b, rd_context *ctx) {
  rd_flash_kda_metadata_params *p = &b->call->p.metadata;
  rd_flash_kda_metadata_init(p);
  p->q = input(b, "q");
  p->v = input(b, "v");
  p->initial_state = input(b, "initial_state");
  p->cu_seqlens = input(b, "cu_seqlens");
  /* The signature has no default for the layout; the tool takes that of flash_kda. */
  p->layout_qkv = b->call->scalars.given & OP_LAYOUT_QKV ? b->call->scalars.layout_qkv : RD_BNSD;
  make_metadata(b, ctx, &b->call->out, p);
}

static void bind_verify(binder *b) {
  rd_fused_recurrent_kda_replayssm_params *p = &b->call->p.verify;
  const op_scalars *s = &b->call->scalars;
  rd_fused_recurrent_kda_replayssm_init(p);
  p->mixedqkv = input(b, "mixedqkv");
  p->recurrent_state = input(b, "recurrent_state");
  p->beta = input(b, "beta");
  p->g = input(b, "g");
  p->A_log = input(b, "A_log");
  p->dt_bias = input(b, "dt_bias");
  p->cu_seqlens = input(b, "cu_seqlens");
  if (s->given & OP_SCALE) p->has_scale = 1, p->scale = s->scale;
  if (s->given & OP_LOWER_BOUND) p->lower_bound = s->lower_bound;
  if (s->given & OP_LAYOUT_QKV) p->layout_qkv = s->layout_qkv;
  if (s->given & OP_BLOCK_NUM) p->block_num = s->block_num;
  if (s->given & OP_NUMERICS) p->numerics = s->numerics;
  p->out = output_like(b, "out", "g");
  p->replay_u = in_place(b, "replay_u");
  p->replay_k = in_place(b, "replay_k");
  p->replay_decay = in_place(b, "replay_decay");
}

static void bind_commit(binder *b) {
  rd_commit_recurrent_kda_replayssm_params *p = &b->call->p.commit;
  rd_commit_recurrent_kda_replayssm_init(p);
  p->replay_u = input(b, "replay_u");
  p->replay_k = input(b, "replay_k");
  p->replay_decay = input(b, "replay_decay");
  p->num_accepted_tokens = input(b, "num_accepted_tokens");
  if (b->call->scalars.given & OP_BLOCK_NUM) p->block_num = b->call->scalars.block_num;
  p->recurrent_state = in_place(b, "recurrent_state");
}

static void bind_decode(binder *b) {
  rd_fused_recurrent_kda_params *p = &b->call->p.decode;
  const op_scalars *s = &b->call->scalars;
  rd_fused_recurrent_kda_init(p);
  p->mixedqkv = input(b, "mixedqkv");
  p->beta = input(b, "beta");
  p->g = input(b, "g");
  p->A_log = input(b, "A_log");
  p->dt_bias = input(b, "dt_bias");
  p->cu_seqlens = input(b, "cu_seqlens");
  p->ssm_state_indices = input(b, "ssm_state_indices");
  p->num_accepted_tokens = input(b, "num_accepted_tokens");
  if (s->given & OP_SCALE) p->has_scale = 1, p->scale = s->scale;
  if (s->given & OP_LOWER_BOUND) p->lower_bound = s->lower_bound;
  if (s->given & OP_LAYOUT_QKV) p->layout_qkv = s->layout_qkv;
  p->state = in_place(b, "state");
  p->out = output_like(b, "out", "g");
}

io_status op_bind(op_call *call, const op_desc *op, const op_scalars *scalars, const io_file *in,
                  rd_context *ctx, io_error *err) {
  *call = (op_call){.op = op, .scalars = *scalars, .in = in};
  binder b = {call, err, IO_OK};
  check_required(&b);
  switch (op->id) {
  case OP_CHUNK_GATED_DELTA_RULE:
    bind_chunk(&b);
    break;
  case OP_FLASH_KDA:
    bind_flash(&b, ctx);
    break;
  case OP_FLASH_KDA_METADATA:
    bind_metadata(&b, ctx);
    break;
  case OP_FUSED_RECURRENT_KDA_REPLAYSSM:
    bind_verify(&b);
    break;
  case OP_COMMIT_RECURRENT_KDA_REPLAYSSM:
    bind_commit(&b);
    break;
  case OP_FUSED_RECURRENT_KDA:
    bind_decode(&b);
    break;
  case OP_COUNT:
    break;
  }
  if (b.status != IO_OK) op_release(call);
  return b.status;
}

void op_release(op_call *call) {
  io_file_free(&call->out);
  io_file_free(&call->own);
}

/* A schedule that came with the file holds the lengths the oracle needs. The run has just accepted
 * it, so its words can be trusted. */
static rd_status read_schedule(op_call *call) {
  const rd_flash_kda_params *p = &call->p.flash;
  if (p->metadata.dtype == RD_ABSENT || call->cu_seqlens.dtype != RD_ABSENT) return RD_OK;
  const int32_t *words = p->metadata.data;
  int64_t count = words[RDO_META_COUNT], B = p->initial_state.shape[0];
  if (count == 0) return RD_OK;
  io_tensor *cu = NULL;
  io_status made =
      io_file_add(&call->own, "cu_seqlens", io_dtype_of(RD_I32), 1, (int64_t[]){B + 1}, &cu, NULL);
  if (made != IO_OK || io_tensor_view(cu, &call->cu_seqlens, NULL) != IO_OK) return RD_E_NOMEM;
  int32_t *to = cu->data;
  for (int64_t b = 0; b < B; b++) {
    const int32_t *numbers = words + RDO_META_HEADER;
    to[b + 1] = p->layout_qkv == RD_TND ? numbers[b + 1] : to[b] + numbers[b];
  }
  return RD_OK;
}

rd_status op_run(op_call *call, rd_context *ctx) {
  for (size_t i = 0; i < call->out.count; i++) {
    io_tensor *t = &call->out.tensors[i];
    int kept = 0;
    for (const op_tensor *d = call->op->tensors; d->name != NULL; d++) {
      kept |= d->role == OP_IN_PLACE && strcmp(d->name, t->name) == 0;
    }
    if (kept) {
      memcpy(t->data, io_file_find(call->in, t->name)->data, (size_t)t->bytes);
    } else {
      memset(t->data, 0, (size_t)t->bytes);
    }
  }
  switch (call->op->id) {
  case OP_CHUNK_GATED_DELTA_RULE:
    return rd_chunk_gated_delta_rule(ctx, &call->p.chunk);
  case OP_FLASH_KDA: {
    rd_status status = rd_flash_kda(ctx, &call->p.flash);
    return status == RD_OK ? read_schedule(call) : status;
  }
  case OP_FLASH_KDA_METADATA:
    return rd_flash_kda_metadata(ctx, &call->p.metadata);
  case OP_FUSED_RECURRENT_KDA_REPLAYSSM:
    return rd_fused_recurrent_kda_replayssm(ctx, &call->p.verify);
  case OP_COMMIT_RECURRENT_KDA_REPLAYSSM:
    return rd_commit_recurrent_kda_replayssm(ctx, &call->p.commit);
  case OP_FUSED_RECURRENT_KDA:
    return rd_fused_recurrent_kda(ctx, &call->p.decode);
  case OP_COUNT:
    break;
  }
  return RD_E_ENUM;
}
