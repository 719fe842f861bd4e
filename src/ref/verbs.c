/* The verbs of core.h as jobs of the specification. */
#include <math.h>
#include <stdlib.h>
#include "ref/job.h"

static int present(const rd_tensor *t) { return t != NULL && t->dtype != RD_ABSENT; }

static rdr_choices choices_of(const rd_problem *p) {
  return (rdr_choices){.gate = p->gate,
                       .axis = p->gate_axis,
                       .beta = p->beta,
                       .beta_times = p->beta_times,
                       .l2norm = p->qk_norm == RD_QK_L2,
                       .eps = p->l2_eps,
                       .lower_bound = p->lower_bound,
                       .scale = p->has_scale ? p->scale : 1 / sqrt((double)p->K)};
}

static rdr_view view_of(const rd_tensor *t, rd_layout layout) {
  if (!present(t)) return (rdr_view){0};
  const int64_t *s = t->stride;
  return layout == RD_PACKED ? (rdr_view){t->data, t->dtype, 0, s[0], s[1]}
                             : (rdr_view){t->data, t->dtype, s[0], s[1], s[2]};
}

static rdr_pool pool_of(const rd_slots *x, rd_state_layout layout) {
  if (x == NULL || !present(&x->pool)) return (rdr_pool){0};
  const int64_t *s = x->pool.stride;
  const int vk = layout == RD_STATE_VK;
  return (rdr_pool){x->pool.data, x->pool.dtype, s[0], s[1], vk ? s[2] : 1, vk ? 1 : s[2]};
}

static int64_t slot_of(const rd_slots *x, int64_t b) {
  if (!present(&x->slots)) return b;
  return ((const int32_t *)x->slots.data)[b * x->slots.stride[0]];
}

static int64_t index_at(const rd_tensor *t, int64_t i) {
  return (int64_t)rdr_load(t->data, t->dtype, i * t->stride[0]);
}

/* The parts of a job that all verbs share. */
static int begin(rdr_job *j, int mode, const rd_problem *p, int64_t B, const rd_slots *initial,
                 const rdr_results *res) {
  *j = (rdr_job){.mode = mode,
                 .c = choices_of(p),
                 .head_map = p->head_map,
                 .Hk = p->Hk,
                 .Hv = p->Hv,
                 .K = p->K,
                 .V = p->V};
  if (rdr_job_alloc(j, B) != 0) return -1;
  j->initial = pool_of(initial, p->state_layout);
  const int64_t size = p->V * p->K;
  j->state = (rdr_pool_sink){res->state, p->state_dtype, p->Hv * size, size, p->K, 1};
  j->snapshots = (rdr_pool_sink){res->snapshots, p->state_dtype, p->Hv * size, size, p->K, 1};
  for (int64_t b = 0; b < B; b++) {
    j->read_slot[b] = RDR_ZEROS;
    if (j->initial.data != NULL && slot_of(initial, b) != p->pad_slot)
      j->read_slot[b] = slot_of(initial, b);
  }
  return 0;
}

static void activations(rdr_job *j, const rd_problem *p, const rd_sequences *seq,
                        const rd_activations *act, const rdr_results *res) {
  j->padded = p->layout == RD_PADDED;
  j->T = act->v.shape[j->padded ? 1 : 0];
  j->q = view_of(&act->q, p->layout), j->k = view_of(&act->k, p->layout);
  j->v = view_of(&act->v, p->layout), j->g = view_of(&act->g, p->layout);
  j->beta = view_of(&act->beta, p->layout);
  j->A_log = &act->A_log, j->dt_bias = &act->dt_bias;
  j->out =
      (rdr_sink){res->out, p->out_dtype, j->padded ? j->T * p->Hv * p->V : 0, p->Hv * p->V, p->V};
  const int64_t C = res->C, nd = p->gate_axis == RD_PER_CHANNEL ? p->K : 1;
  j->u = (rdr_sink){res->u, p->record_dtype, C * p->Hv * p->V, p->Hv * p->V, p->V};
  j->kr = (rdr_sink){res->k, p->record_dtype, C * p->Hk * p->K, p->Hk * p->K, p->K};
  if (p->gate != RD_GATE_NONE)
    j->decay = (rdr_sink){res->decay, p->decay_dtype, C * p->Hv * nd, p->Hv * nd, nd};
  for (int64_t b = 0; b < j->B; b++) {
    if (!j->padded) {
      j->start[b] = index_at(&seq->cu_seqlens, b);
      j->length[b] = index_at(&seq->cu_seqlens, b + 1) - j->start[b];
    } else {
      j->length[b] = present(&seq->lengths) ? index_at(&seq->lengths, b) : j->T;
    }
  }
}

static void tree_of(rdr_job *j, const rd_tensor *parents) {
  if (!present(parents)) return;
  j->parents = parents->data;
  j->parents_sb = parents->rank == 2 ? parents->stride[0] : 0;
}

int rdr_prefill(int mode, const rd_problem *p, const rd_sequences *seq, const rd_activations *act,
                const rd_slots *initial, const rd_slots *final, const rdr_results *res) {
  rdr_job j;
  if (begin(&j, mode, p, seq->batch, initial, res) != 0) return -1;
  activations(&j, p, seq, act, res);
  j.u.data = j.kr.data = j.decay.data = NULL;
  const int shared = j.initial.data != NULL && final != NULL && present(&final->pool) &&
                     final->pool.data == initial->pool.data;
  for (int64_t b = 0; shared && b < j.B; b++)
    if (slot_of(initial, b) == p->pad_slot && slot_of(final, b) == p->pad_slot)
      j.read_slot[b] = RDR_SKIP;
  return rdr_job_run(&j);
}

static void pads(rdr_job *j) {
  for (int64_t b = 0; b < j->B; b++)
    if (j->read_slot[b] == RDR_ZEROS) j->read_slot[b] = RDR_SKIP;
}

int rdr_decode(int mode, const rd_problem *p, const rd_sequences *seq, const rd_activations *act,
               const rd_slots *state, const rdr_results *res) {
  rdr_job j;
  if (begin(&j, mode, p, seq->batch, state, res) != 0) return -1;
  activations(&j, p, seq, act, res);
  j.u.data = j.kr.data = j.decay.data = NULL;
  pads(&j);
  return rdr_job_run(&j);
}

int rdr_verify(int mode, const rd_problem *p, const rd_sequences *seq, const rd_activations *act,
               const rd_slots *checkpoint, const rdr_results *res) {
  rdr_job j;
  if (begin(&j, mode, p, seq->batch, checkpoint, res) != 0) return -1;
  activations(&j, p, seq, act, res);
  tree_of(&j, &seq->parents);
  pads(&j);
  return rdr_job_run(&j);
}

int rdr_commit(int mode, const rd_problem *p, const rd_records *records, const rd_tensor *accepted,
               const rd_slots *from, const rdr_results *res) {
  rdr_job j;
  if (begin(&j, mode, p, accepted->shape[0], from, res) != 0) return -1;
  pads(&j);
  j.records = 1;
  if (records->made.tree) tree_of(&j, &records->parents);
  j.ru = view_of(&records->u, RD_PADDED), j.rk = view_of(&records->k, RD_PADDED);
  j.rdecay = view_of(&records->decay, RD_PADDED);
  for (int64_t b = 0; b < j.B; b++) j.length[b] = index_at(accepted, b);
  return rdr_job_run(&j);
}

int rdr_commit_verify(int mode, const rd_problem *p, const rd_records *previous,
                      const rd_tensor *accepted, const rd_sequences *seq, const rd_activations *act,
                      const rd_slots *state, const rdr_results *res) {
  const int64_t B = seq->batch, size = p->Hv * p->V * p->K;
  double *held = malloc((size_t)(B * size) * sizeof *held + 1);
  if (held == NULL) return -1;
  rdr_results first = {.state = held};
  int status = rdr_commit(mode, p, previous, accepted, state, &first);
  rdr_job j;
  if (status == 0) status = begin(&j, mode, p, B, state, res);
  if (status == 0) {
    activations(&j, p, seq, act, res);
    tree_of(&j, &seq->parents);
    pads(&j);
    for (int64_t b = 0; b < B; b++) {
      if (j.read_slot[b] == RDR_SKIP) continue;
      j.read_slot[b] = b;
      for (int64_t i = 0; res->state != NULL && i < size; i++)
        res->state[b * size + i] = held[b * size + i];
    }
    j.initial = (rdr_pool){.data = held, .ss = size, .sh = p->V * p->K, .sv = p->K, .sk = 1};
    j.wide = 1;
    j.state.data = NULL;
    status = rdr_job_run(&j);
  }
  free(held);
  return status;
}
