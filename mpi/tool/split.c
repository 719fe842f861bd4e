/* A named operator's call as the verbs' problem, and one rank's rows of it. */
#include <stdlib.h>

#include "mpi/tool/tool.h"

int64_t tool_first_row(int64_t rows, int rank, int ranks, int64_t grain) {
  if (rank == ranks) return rows;
  return (int64_t)((double)rows / ranks * rank) / grain * grain;
}

/* Rows first .. first+n of a tensor whose dimensions are b, t, h (b < 0: none), as the verbs order them. */
static rd_tensor rows_of(const rd_tensor *t, int b, int tokens, int h, int64_t first, int64_t n) {
  if (t->dtype == RD_ABSENT) return *t;
  rd_tensor v = *t;
  const int order[3] = {b, tokens, h}, skip = b < 0;
  for (int d = skip; d < 3; d++) {
    v.shape[d - skip] = t->shape[order[d]];
    v.stride[d - skip] = t->stride[order[d]];
  }
  v.shape[1 - skip] = n;
  v.data = (char *)t->data + first * t->stride[tokens] * (int64_t)rd_dtype_size((rd_dtype)t->dtype);
  return v;
}

typedef struct tensors { /* of a whole call */
  const rd_tensor *q, *k, *v, *g, *beta, *out, *initial, *final;
  rd_tensor lengths; /* [B], or cu_seqlens of a packed one */
  int b, t, h;       /* dimensions; b < 0: packed */
} tensors;

static void chunk(const rd_chunk_gated_delta_rule_params *p, rd_problem *d, tensors *x) {
  *x = (tensors){&p->query,
                 &p->key,
                 &p->value,
                 &p->g,
                 &p->beta,
                 &p->out,
                 &p->state,
                 &p->final_state,
                 p->actual_seq_lengths,
                 0,
                 2,
                 1};
  d->gate = p->g.dtype == RD_ABSENT ? RD_GATE_NONE : RD_GATE_LOG;
  d->gate_axis = RD_PER_HEAD;
  d->has_scale = 1;
  d->scale = p->scale_value;
  d->numerics = p->numerics;
  d->state_layout = RD_STATE_KV;
}

static void flash(const rd_flash_kda_params *p, const rd_tensor *cu, rd_problem *d, tensors *x,
                  rd_activations *act) {
  const int layout = p->layout_qkv;
  *x = (tensors){&p->q,
                 &p->k,
                 &p->v,
                 &p->g,
                 &p->beta,
                 &p->out,
                 &p->initial_state,
                 &p->final_state,
                 *cu,
                 layout == RD_TND ? -1 : 0,
                 layout == RD_TND    ? 0
                 : layout == RD_BSND ? 1
                                     : 2,
                 layout == RD_TND    ? 1
                 : layout == RD_BSND ? 2
                                     : 1};
  d->gate = RD_GATE_LOWER_BOUND;
  d->lower_bound = p->lower_bound;
  d->beta = RD_BETA_LOGIT;
  d->qk_norm = RD_QK_L2;
  d->has_scale = p->has_scale;
  d->scale = p->scale;
  d->numerics = p->numerics;
  act->A_log = p->A_log;
  act->dt_bias = p->dt_bias;
}

static int64_t clamp(int64_t x, int64_t high) { return x < 0 ? 0 : x < high ? x : high; }

static int64_t number(const rd_tensor *t, int64_t i) {
  return t->dtype == RD_I32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* Lengths of the rows that are here, or where the sequences begin among them. */
static void count_rows(const tensors *x, const op_call *call, int64_t first, int64_t n,
                       tool_part *part) {
  const int packed = x->b < 0, is_flash = call->op->id == OP_FLASH_KDA;
  const int64_t B = part->seq.batch, rows = x->q->shape[x->t];
  for (int64_t b = 0; b < B + packed; b++) {
    int64_t whole =
        packed ? b * rows : rows; /* without lengths: one sequence of all rows, or B of them */
    if (x->lengths.dtype != RD_ABSENT) {
      whole = number(&x->lengths, b + (is_flash && !packed));
      if (is_flash && !packed) whole -= number(&x->lengths, b);
    }
    part->numbers[b] = (int32_t)clamp(whole - first, n);
  }
  const rd_tensor t = rd_tensor_contiguous(part->numbers, RD_I32, 1, (int64_t[]){B + packed});
  *(packed ? &part->seq.cu_seqlens : &part->seq.lengths) = t;
}

int tool_split(const char *command, const op_call *call, tool_part *part) {
  tensors x;
  *part = (tool_part){0};
  rd_problem *d = &part->problem;
  rd_problem_init(d);
  rd_activations_init(&part->act);
  rd_sequences_init(&part->seq);
  rd_slots_init(&part->initial);
  rd_slots_init(&part->final);
  if (call->op->id == OP_CHUNK_GATED_DELTA_RULE) {
    chunk(&call->p.chunk, d, &x);
  } else if (call->op->id == OP_FLASH_KDA) {
    if (io_file_find(call->in, "metadata"))
      return cli_fail(command, CLI_BAD,
                      "tensor 'metadata': a schedule of one machine; give cu_seqlens");
    flash(&call->p.flash, &call->cu_seqlens, d, &x, &part->act);
  } else {
    return cli_fail(command, CLI_BAD, "%s is no prefill", call->op->name);
  }
  const int64_t rows = x.q->shape[x.t], grain = d->numerics == RD_FAST ? 32 : 1;
  const int64_t first = tool_first_row(rows, tool_rank, tool_ranks, grain),
                n = tool_first_row(rows, tool_rank + 1, tool_ranks, grain) - first;
  d->layout = x.b < 0 ? RD_PACKED : RD_PADDED;
  d->Hk = x.q->shape[x.h], d->Hv = x.v->shape[x.h];
  d->K = x.q->shape[x.q->rank - 1], d->V = x.v->shape[x.v->rank - 1];
  part->seq.batch = x.initial->shape[0];
  d->max_batch = part->seq.batch;
  d->max_tokens = rows;
  d->qkv_dtype = x.q->dtype;
  if (x.g->dtype != RD_ABSENT) d->gate_dtype = x.g->dtype;
  d->beta_dtype = x.beta->dtype;
  d->out_dtype = x.out->dtype;
  d->state_dtype = x.initial->dtype;
  part->numbers = calloc((size_t)part->seq.batch + 1, sizeof *part->numbers);
  if (!part->numbers) return cli_fail(command, CLI_SYSTEM, "no memory");
  count_rows(&x, call, first, n, part);
  const rd_tensor *from[] = {x.q, x.k, x.v, x.g, x.beta, x.out};
  rd_tensor *to[] = {&part->act.q, &part->act.k,    &part->act.v,
                     &part->act.g, &part->act.beta, &part->act.out};
  for (int i = 0; i < 6; i++) *to[i] = rows_of(from[i], x.b, x.t, x.h, first, n);
  part->initial.pool = *x.initial;
  part->final.pool = *x.final;
  return CLI_OK;
}
