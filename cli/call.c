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
  b->status = io_tensor_view(t, &view, b->err);
  if (b->status != IO_OK) return view;
  b->status = io_file_add(&b->call->out, name, t->dtype, t->rank, t->shape, &made, b->err);
  if (b->status == IO_OK) b->status = io_tensor_view(made, &view, b->err);
  return view;
}

static void check_required(binder *b) {
  const op_desc *op = b->call->op;
  for (const op_param *t = op->params; t->name != NULL && b->status == IO_OK; t++) {
    if ((t->role == OP_REQUIRED || t->role == OP_IN_PLACE) &&
        io_file_find(b->call->in, t->name) == NULL) {
      b->status = io_fail(b->err, IO_BAD, "tensor '%s' is missing; %s needs it", t->name, op->name);
    }
  }
}

/* A scalar the user gave; the others keep the operator's default. */
static void set_scalar(const op_desc *op, const op_param *p, const op_scalars *s, char *params) {
  static const int32_t yes = 1;
  const int32_t layout = (int32_t)s->layout_qkv;
  if ((s->given & p->scalar) == 0) return;
  switch (p->scalar) {
  case OP_SCALE:
    memcpy(params + p->at, &s->scale, sizeof s->scale);
    memcpy(params + op->has_scale, &yes, sizeof yes);
    break;
  case OP_SCALE_VALUE:
    memcpy(params + p->at, &s->scale_value, sizeof s->scale_value);
    break;
  case OP_LOWER_BOUND:
    memcpy(params + p->at, &s->lower_bound, sizeof s->lower_bound);
    break;
  case OP_LAYOUT_QKV:
    memcpy(params + p->at, &layout, sizeof layout);
    break;
  case OP_BLOCK_NUM:
    memcpy(params + p->at, &s->block_num, sizeof s->block_num);
    break;
  default:
    break;
  }
}

/* Everything the table says; what it does not say follows in op_bind. */
static void bind_table(binder *b) {
  const op_desc *op = b->call->op;
  const op_scalars *s = &b->call->scalars;
  char *params = (char *)&b->call->p;
  op->init(params);
  /* The signature of flash_kda_metadata has no default for the layout; the tool takes that of
   * flash_kda. */
  if (op->id == OP_FLASH_KDA_METADATA) b->call->p.metadata.layout_qkv = RD_BNSD;
  for (const op_param *p = op->params; p->name != NULL; p++) {
    if (p->role == OP_SCALAR) set_scalar(op, p, s, params);
    if (p->role != OP_REQUIRED && p->role != OP_OPTIONAL) continue;
    rd_tensor view = input(b, p->name);
    memcpy(params + p->at, &view, sizeof view);
  }
  if (op->numerics != 0 && (s->given & OP_NUMERICS) != 0) {
    const int32_t numerics = (int32_t)s->numerics;
    memcpy(params + op->numerics, &numerics, sizeof numerics);
  }
  for (int i = 0; i < OP_MAX_OUTPUTS && op->outputs[i].name != NULL; i++) {
    if (op->outputs[i].like == NULL) continue;
    rd_tensor view = output_like(b, op->outputs[i].name, op->outputs[i].like);
    memcpy(params + op->outputs[i].at, &view, sizeof view);
  }
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

/* Lengths beside flash_kda become the metadata it takes them in. */
static void bind_lengths(binder *b, rd_context *ctx) {
  rd_flash_kda_params *p = &b->call->p.flash;
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

io_status op_bind(op_call *call, const op_desc *op, const op_scalars *scalars, const io_file *in,
                  rd_context *ctx, io_error *err) {
  *call = (op_call){.op = op, .scalars = *scalars, .in = in};
  binder b = {call, err, IO_OK};
  check_required(&b);
  bind_table(&b);
  if (op->id == OP_FLASH_KDA) bind_lengths(&b, ctx);
  if (op->id == OP_FLASH_KDA_METADATA) make_metadata(&b, ctx, &call->out, &call->p.metadata);
  if (b.status != IO_OK) op_release(call);
  return b.status;
}

void op_release(op_call *call) {
  io_file_free(&call->out);
  io_file_free(&call->own);
}

const void *op_field(const op_call *call, const char *name) {
  const op_param *p = op_param_find(call->op, name);
  if (p == NULL) return NULL;
  /* The only tensor of the tool's own. */
  return p->role == OP_OWN ? (const char *)&call->cu_seqlens : (const char *)&call->p + p->at;
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
    const op_param *p = op_param_find(call->op, t->name);
    if (p != NULL && p->role == OP_IN_PLACE) {
      memcpy(t->data, io_file_find(call->in, t->name)->data, (size_t)t->bytes);
    } else {
      memset(t->data, 0, (size_t)t->bytes);
    }
  }
  rd_status status = call->op->run(ctx, &call->p);
  return status == RD_OK && call->op->id == OP_FLASH_KDA ? read_schedule(call) : status;
}
