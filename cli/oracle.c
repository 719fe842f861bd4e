/* The double oracle's view of a call, and where its elements belong. SPDX-License-Identifier:
 * Apache-2.0 */
#include "cli/ops.h"
#include "ref/ref.h"

#include <stdlib.h>
#include <string.h>

int op_oracle(const op_call *call, double *expected[OP_MAX_OUTPUTS]) {
  for (int i = 0; i < OP_MAX_OUTPUTS; i++) expected[i] = NULL;
  if (call->op->id == OP_FLASH_KDA_METADATA) return 0;
  for (int i = 0; i < OP_MAX_OUTPUTS && call->op->outputs[i].name != NULL; i++) {
    const io_tensor *t = io_file_find(&call->out, call->op->outputs[i].name);
    int64_t n = io_tensor_elements(t);
    expected[i] = malloc(((size_t)n + 1) * sizeof *expected[i]);
    if (expected[i] == NULL) return -1;
    /* What the operator leaves alone has the bytes it had. */
    const io_tensor *before = io_file_find(call->in, t->name);
    for (int64_t e = 0; e < n; e++) {
      expected[i][e] = before != NULL ? rdr_load(before->data, t->dtype->rd, e) : 0.0;
    }
  }
  /* The oracle reads in-place tensors at their values before the call. */
  switch (call->op->id) {
  case OP_CHUNK_GATED_DELTA_RULE:
    return rdr_chunk_gated_delta_rule(RDR_F64, &call->p.chunk, expected[0], expected[1]);
  case OP_FLASH_KDA:
    return rdr_flash_kda(RDR_F64, &call->p.flash,
                         call->cu_seqlens.dtype != RD_ABSENT ? &call->cu_seqlens : NULL,
                         expected[0], expected[1]);
  case OP_FUSED_RECURRENT_KDA_REPLAYSSM:
    return rdr_fused_recurrent_kda_replayssm(RDR_F64, &call->p.verify, expected[0], expected[1],
                                             expected[2], expected[3]);
  case OP_COMMIT_RECURRENT_KDA_REPLAYSSM: {
    rd_commit_recurrent_kda_replayssm_params p = call->p.commit;
    io_tensor_view(io_file_find(call->in, "recurrent_state"), &p.recurrent_state, NULL);
    return rdr_commit_recurrent_kda_replayssm(RDR_F64, &p, expected[0]);
  }
  case OP_FUSED_RECURRENT_KDA: {
    rd_fused_recurrent_kda_params p = call->p.decode;
    io_tensor_view(io_file_find(call->in, "state"), &p.state, NULL);
    return rdr_fused_recurrent_kda(RDR_F64, &p, expected[0], expected[1]);
  }
  case OP_FLASH_KDA_METADATA:
  case OP_COUNT:
    break;
  }
  return 0;
}

/* ---------------------------------------------------------------- places ---------------------- */

/* Dimensions of an output that name the sequence and the head; batch < 0: tokens are dimension 0.
 */
typedef struct place {
  const io_tensor *tensor;
  int batch, head;
  const rd_tensor *cu; /* TND */
} place;

static rd_layout_qkv layout_of(const op_call *call) {
  int32_t layout = RD_BNSD; /* of an operator without the parameter */
  const void *field = op_field(call, "layout_qkv");
  if (field != NULL) memcpy(&layout, field, sizeof layout);
  return (rd_layout_qkv)layout;
}

static place place_of(const op_call *call, int index) {
  const op_output *output = &call->op->outputs[index];
  place p = {io_file_find(&call->out, output->name), 0, 1, NULL};
  if (output->places == OP_BY_RECORD) p.head = 2;
  if (output->places != OP_BY_TOKEN) return p;
  rd_layout_qkv layout = layout_of(call);
  if (layout == RD_BSND) p.head = 2;
  if (layout == RD_TND) {
    p.batch = -1;
    p.cu = op_field(call, "cu_seqlens");
    if (p.cu != NULL && p.cu->dtype == RD_ABSENT) p.cu = NULL; /* one sequence */
  }
  return p;
}

static int64_t cu_at(const rd_tensor *cu, int64_t i) {
  return (int64_t)rdr_load(cu->data, cu->dtype, i);
}

static int64_t sequences(const place *p) {
  if (p->batch >= 0) return p->tensor->shape[p->batch];
  return p->cu != NULL ? p->cu->shape[0] - 1 : 1;
}

int64_t op_groups(const op_call *call, int index) {
  if (call->op->outputs[index].places == OP_NO_PLACE) return 0;
  place p = place_of(call, index);
  return sequences(&p) * p.tensor->shape[p.head];
}

int64_t op_group_of(const op_call *call, int index, int64_t element) {
  place p = place_of(call, index);
  int64_t at[IO_MAX_RANK] = {0};
  for (int32_t d = p.tensor->rank - 1; d >= 0; d--) {
    at[d] = element % p.tensor->shape[d];
    element /= p.tensor->shape[d];
  }
  int64_t sequence = p.batch >= 0 ? at[p.batch] : 0;
  if (p.batch < 0 && p.cu != NULL) {
    int64_t n = sequences(&p);
    while (sequence < n && at[0] >= cu_at(p.cu, sequence + 1)) sequence++;
    if (sequence == n) return -1;
  }
  return sequence * p.tensor->shape[p.head] + at[p.head];
}

void op_group_text(const op_call *call, int index, int64_t group, char *text, size_t size) {
  place p = place_of(call, index);
  int64_t heads = p.tensor->shape[p.head];
  int pool = call->op->outputs[index].places == OP_BY_SLOT;
  snprintf(text, size, "%s %lld, head %lld", pool ? "slot" : "sequence", (long long)(group / heads),
           (long long)(group % heads));
}

void op_extent(const op_call *call, int64_t *K, int64_t *T) {
  *K = 128;
  *T = 1;
  switch (call->op->id) {
  case OP_CHUNK_GATED_DELTA_RULE:
    *K = call->p.chunk.query.shape[3];
    *T = call->p.chunk.query.shape[2];
    break;
  case OP_FLASH_KDA:
    *T = call->p.flash.q
             .shape[call->p.flash.layout_qkv == RD_BNSD ? 2 : call->p.flash.layout_qkv == RD_BSND];
    break;
  case OP_FUSED_RECURRENT_KDA_REPLAYSSM:
  case OP_COMMIT_RECURRENT_KDA_REPLAYSSM:
    *T = io_file_find(call->in, "replay_u")->shape[1];
    break;
  case OP_FUSED_RECURRENT_KDA:
    *T = call->p.decode.state.shape[0];
    break;
  case OP_FLASH_KDA_METADATA:
  case OP_COUNT:
    break;
  }
}
