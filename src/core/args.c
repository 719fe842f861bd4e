#include "core/args.h"

#include <inttypes.h>
#include <string.h>

#include "core/context.h"
#include "core/states.h"
#include "util/tensor.h"

enum { RECORDS_MAGIC = 0x52444c31 };

rd_status rdi_call_begin(rdi_call *c, rd_context *ctx, const rd_plan *plan, rdi_verb verb) {
  c->ctx = ctx;
  c->plan = plan;
  c->count = 0;
  c->job = (rdi_job){.verb = verb};
  if (!plan) return rdi_fail(ctx, RD_E_NULL, "plan: required, got NULL");
  if (plan->isa != rdi_context_isa(ctx))
    return rdi_fail(ctx, RD_E_PLAN, "plan: made with CPU mask 0x%x, but the context's is 0x%x",
                    plan->isa, rdi_context_isa(ctx));
  c->job.m = plan->math;
  return RD_OK;
}

static void list(rdi_call *c, const char *name, const rd_tensor *t, int is_output) {
  c->entries[c->count++] = (rdi_alias_entry){.name = name, .t = t, .is_output = is_output};
}

/* Checks a tensor and lists it. An optional one that is absent is not listed. */
static rd_status take(rdi_call *c, const char *name, const rd_tensor *t, int dtypes, int rank,
                      const int64_t *shape, int flags) {
  const rd_status status = rdi_check_tensor(c->ctx, name, t, dtypes, rank, shape, flags);
  if (status == RD_OK && t->dtype != RD_ABSENT) list(c, name, t, flags & RDI_OUTPUT);
  return status;
}

static rd_status must_be_absent(rdi_call *c, const char *name, const rd_tensor *t,
                                const char *why) {
  return rdi_check_absent(c->ctx, name, t, why);
}

/* ---------------------------------------------------------------- sequences ------------------- */

static rd_status check_sequences(rdi_call *c, const rd_sequences *given, int flags) {
  const rd_problem *p = &c->plan->problem;
  const rd_sequences *seq = &c->seq;
  RDI_TRY(rdi_check_struct(c->ctx, RDI_STRUCT_SEQUENCES, "seq", given, &c->seq));
  if (seq->batch < 0)
    return rdi_fail(c->ctx, RD_E_SHAPE, "seq.batch: expected at least 0, got %" PRId64, seq->batch);
  if (p->max_batch >= 0 && seq->batch > p->max_batch)
    return rdi_fail(c->ctx, RD_E_PLAN,
                    "seq.batch: the plan was made for at most %" PRId64 ", got %" PRId64,
                    p->max_batch, seq->batch);
  if (!(flags & RDI_TREES))
    RDI_TRY(must_be_absent(c, "seq.parents", &seq->parents, "outside of verify and commit_verify"));
  if (p->layout == RD_PACKED) {
    RDI_TRY(must_be_absent(c, "seq.lengths", &seq->lengths, "in a packed problem"));
    const int64_t shape[] = {seq->batch + 1};
    return take(c, "seq.cu_seqlens", &seq->cu_seqlens, RDI_DT_INDEX, 1, shape, RDI_CONTIGUOUS);
  }
  RDI_TRY(must_be_absent(c, "seq.cu_seqlens", &seq->cu_seqlens, "in a padded problem"));
  const int64_t shape[] = {seq->batch};
  return take(c, "seq.lengths", &seq->lengths, RDI_DT_INDEX, 1, shape,
              RDI_CONTIGUOUS | RDI_OPTIONAL);
}

static rd_status take_parents(rdi_call *c, int64_t T) {
  const rd_tensor *parents = &c->seq.parents;
  const int packed = c->plan->problem.layout == RD_PACKED;
  const int64_t shape[] = {c->seq.batch, T};
  RDI_TRY(take(c, "seq.parents", parents, RDI_DT_I32, packed ? 1 : 2, packed ? shape + 1 : shape,
               RDI_OPTIONAL));
  if (parents->dtype == RD_ABSENT || rdi_tensor_empty(parents)) return RD_OK;
  c->job.seq.parents = (rdi_parents){parents->data, packed ? 0 : parents->stride[0]};
  return RD_OK;
}

rd_status rdi_call_check_trees(rdi_call *c) {
  const rdi_job *job = &c->job;
  for (int64_t b = 0; job->seq.parents.base && b < job->seq.B; b++) {
    if (rdi_is_pad(&job->initial, b, job->m.pad_slot)) continue;
    const int32_t *parents = rdi_seq_parents(&job->seq, b);
    const int64_t n = rdi_seq_length(&job->seq, b);
    for (int64_t i = 0; i < n; i++)
      if (parents[i] < -1 || parents[i] >= i)
        return rdi_fail(c->ctx, RD_E_TREE,
                        "seq.parents: sequence %" PRId64 ", node %" PRId64
                        ": expected -1 to %" PRId64 ", got %" PRId32,
                        b, i, i - 1, parents[i]);
  }
  return RD_OK;
}

/* The values, once T is known. */
static rd_status check_lengths(rdi_call *c, int64_t T) {
  const rd_problem *p = &c->plan->problem;
  const rd_sequences *seq = &c->seq;
  if (p->layout == RD_PACKED)
    RDI_TRY(rdi_check_cu(c->ctx, "seq.cu_seqlens", &seq->cu_seqlens, seq->batch, T, 0));
  else if (seq->lengths.dtype != RD_ABSENT)
    RDI_TRY(rdi_check_range(c->ctx, "seq.lengths", &seq->lengths, 0, T, RD_E_LENGTH));
  c->job.seq = rdi_seqs_of(seq->batch, T, &seq->cu_seqlens, &seq->lengths);
  if (p->max_tokens < 0 || T <= p->max_tokens) return RD_OK;
  for (int64_t b = 0; b < seq->batch; b++) {
    const int64_t length = rdi_seq_length(&c->job.seq, b);
    if (length > p->max_tokens)
      return rdi_fail(c->ctx, RD_E_PLAN,
                      "sequence %" PRId64 ": the plan was made for at most %" PRId64
                      " tokens, got %" PRId64,
                      b, p->max_tokens, length);
    if (!c->job.seq.cu && !c->job.seq.lengths) break; /* all the same */
  }
  return RD_OK;
}

/* ---------------------------------------------------------------- activations ----------------- */

/* A_log and dt_bias: for the two raw gates, and only for them. */
static rd_status check_raw_gate(rdi_call *c) {
  const rd_problem *p = &c->plan->problem;
  const rd_activations *act = &c->act;
  if (p->gate != RD_GATE_LOWER_BOUND && p->gate != RD_GATE_SOFTPLUS) {
    RDI_TRY(must_be_absent(c, "A_log", &act->A_log, "with this gate"));
    return must_be_absent(c, "dt_bias", &act->dt_bias, "with this gate");
  }
  const int64_t per_channel[] = {p->Hv, p->K};
  RDI_TRY(take(c, "A_log", &act->A_log, RDI_DT_F32, 1, per_channel, 0));
  RDI_TRY(take(c, "dt_bias", &act->dt_bias, RDI_DT_F32, p->gate_axis == RD_PER_CHANNEL ? 2 : 1,
               per_channel, 0));
  c->job.A_log = act->A_log.data;
  c->job.A_log_stride = act->A_log.stride[0];
  c->job.dt_bias = act->dt_bias.data;
  c->job.dt_stride = act->dt_bias.stride[0];
  return RD_OK;
}

rd_status rdi_call_tokens(rdi_call *c, const rd_sequences *seq, const rd_activations *given,
                          int flags) {
  const rd_problem *p = &c->plan->problem;
  const rd_activations *act = &c->act;
  RDI_TRY(check_sequences(c, seq, flags));
  RDI_TRY(rdi_check_struct(c->ctx, RDI_STRUCT_ACTIVATIONS, "act", given, &c->act));
  const int packed = p->layout == RD_PACKED, first = packed ? 1 : 0, rank = packed ? 3 : 4;
  int64_t shape[4] = {c->seq.batch, -1, p->Hk, p->K}; /* q decides T */
  const int qkv = 1 << p->qkv_dtype;
  RDI_TRY(take(c, "q", &act->q, qkv, rank, shape + first, RDI_ANY_INNER));
  const int64_t T = shape[1] = act->q.shape[packed ? 0 : 1];
  RDI_TRY(take(c, "k", &act->k, qkv, rank, shape + first, RDI_ANY_INNER));
  shape[2] = p->Hv;
  shape[3] = p->V;
  RDI_TRY(take(c, "v", &act->v, qkv, rank, shape + first, RDI_ANY_INNER));
  RDI_TRY(take(c, "out", &act->out, 1 << p->out_dtype, rank, shape + first, RDI_OUTPUT));
  RDI_TRY(take(c, "beta", &act->beta, 1 << p->beta_dtype, rank - 1, shape + first, RDI_ANY_INNER));
  shape[3] = p->K;
  if (p->gate == RD_GATE_NONE)
    RDI_TRY(must_be_absent(c, "g", &act->g, "without a gate"));
  else
    RDI_TRY(take(c, "g", &act->g, 1 << p->gate_dtype,
                 p->gate_axis == RD_PER_CHANNEL ? rank : rank - 1, shape + first, RDI_ANY_INNER));
  RDI_TRY(check_raw_gate(c));
  RDI_TRY(check_lengths(c, T));
  RDI_TRY(take_parents(c, T));
  const int b = packed ? -1 : 0, t = packed ? 0 : 1, h = packed ? 1 : 2;
  c->job.q = rdi_view_of(&act->q, b, t, h);
  c->job.k = rdi_view_of(&act->k, b, t, h);
  c->job.v = rdi_view_of(&act->v, b, t, h);
  c->job.g = rdi_view_of(&act->g, b, t, h);
  c->job.beta = rdi_view_of(&act->beta, b, t, h);
  c->job.out = rdi_view_of(&act->out, b, t, h);
  return RD_OK;
}

/* ---------------------------------------------------------------- states ---------------------- */

static rd_status check_pad_slot(rdi_call *c, const char *pool, int64_t slots) {
  const int64_t pad = c->plan->problem.pad_slot;
  if (pad < 0 || pad >= slots) return RD_OK;
  return rdi_fail(c->ctx, RD_E_SLOT_RANGE,
                  "%s: the pad slot %" PRId64 " must be outside the pool of %" PRId64 " slots",
                  pool, pad, slots);
}

rd_status rdi_call_slots(rdi_call *c, const rdi_slots_names *names, const rd_slots *given,
                         rd_slots *slots, int flags, rdi_states *out) {
  const rd_problem *p = &c->plan->problem;
  *out = (rdi_states){.dtype = p->state_dtype, .layout = p->state_layout, .name = names->slots};
  if (!given && flags & RDI_OPTIONAL) return RD_OK;
  RDI_TRY(rdi_check_struct(c->ctx, RDI_STRUCT_SLOTS, names->arg, given, slots));
  if (slots->pool.dtype == RD_ABSENT) {
    RDI_TRY(rdi_check_blank(c->ctx, names->pool, &slots->pool));
    if (!(flags & RDI_OPTIONAL))
      return rdi_fail(c->ctx, RD_E_NULL, "%s: required, but absent", names->pool);
    return must_be_absent(c, names->slots, &slots->slots, "without a pool");
  }
  const int vk = p->state_layout == RD_STATE_VK;
  const int64_t shape[] = {-1, p->Hv, vk ? p->V : p->K, vk ? p->K : p->V};
  RDI_TRY(take(c, names->pool, &slots->pool, 1 << p->state_dtype, 4, shape, flags & RDI_OUTPUT));
  c->entries[c->count - 1].same = &c->slots[0].pool;
  c->entries[c->count - 1].same2 = &c->slots[1].pool;
  RDI_TRY(check_pad_slot(c, names->pool, slots->pool.shape[0]));
  const int packed = p->layout == RD_PACKED, per_token = flags & RDI_PER_TOKEN;
  const int64_t rows[] = {c->job.seq.B, c->job.seq.T};
  RDI_TRY(take(c, names->slots, &slots->slots, RDI_DT_I32, per_token && !packed ? 2 : 1,
               per_token && packed ? rows + 1 : rows, RDI_CONTIGUOUS | RDI_OPTIONAL));
  /* A pool without slots may have no address, yet is not absent; nothing is read or written there.
   */
  static const char no_slots[1] = {0};
  out->base = slots->pool.data ? slots->pool.data : (char *)(uintptr_t)no_slots;
  out->slots = slots->pool.shape[0];
  out->ss = slots->pool.stride[0];
  out->sh = slots->pool.stride[1];
  out->sr = slots->pool.stride[2];
  if (slots->slots.dtype != RD_ABSENT) out->index = slots->slots.data;
  return RD_OK;
}

/* ---------------------------------------------------------------- records --------------------- */

static int gate_kind(const rd_problem *p) {
  if (p->gate == RD_GATE_NONE) return 1;
  return p->gate_axis == RD_PER_HEAD ? 2 : 3;
}

/* The tensors of records of B sequences; fills recs. C comes from u when negative. */
static rd_status take_records(rdi_call *c, const rdi_records_names *names, const rd_records *r,
                              int64_t B, int64_t C, int flags, rdi_recs *recs, rd_tensor *lengths) {
  const rd_problem *p = &c->plan->problem;
  int64_t shape[] = {B, C, p->Hv, p->V};
  RDI_TRY(take(c, names->u, &r->u, 1 << p->record_dtype, 4, shape, flags));
  shape[1] = C = r->u.shape[1];
  shape[2] = p->Hk;
  shape[3] = p->K;
  RDI_TRY(take(c, names->k, &r->k, 1 << p->record_dtype, 4, shape, flags));
  shape[2] = p->Hv;
  if (p->gate == RD_GATE_NONE)
    RDI_TRY(must_be_absent(c, names->decay, &r->decay, "without a gate"));
  else
    RDI_TRY(take(c, names->decay, &r->decay, 1 << p->decay_dtype,
                 p->gate_axis == RD_PER_CHANNEL ? 4 : 3, shape, flags));
  const int64_t nodes[] = {B, C};
  RDI_TRY(take(c, names->parents, &r->parents, RDI_DT_I32, 2, nodes, flags | RDI_OPTIONAL));
  if (!r->lengths && B > 0)
    return rdi_fail(c->ctx, RD_E_NULL, "%s: required, got NULL", names->lengths);
  *lengths = rd_tensor_contiguous(r->lengths, RD_I32, 1, &B);
  RDI_TRY(take(c, names->lengths, lengths, RDI_DT_I32, 1, &B, flags));
  recs->u = rdi_view_of(&r->u, 0, 1, 2);
  recs->k = rdi_view_of(&r->k, 0, 1, 2);
  recs->decay = rdi_view_of(&r->decay, 0, 1, 2);
  recs->decay_axis = p->gate_axis;
  recs->C = C;
  recs->parents = (rdi_parents){0};
  if (r->parents.dtype != RD_ABSENT && !rdi_tensor_empty(&r->parents))
    recs->parents = (rdi_parents){r->parents.data, r->parents.stride[0]};
  return RD_OK;
}

/* The number that copies of the records share; written by every call that reads it. */
static rd_status take_generation(rdi_call *c, const rdi_records_names *names, const rd_records *r,
                                 rd_tensor *view) {
  const int64_t one = 1;
  if (!r->generation) return RD_OK;
  *view = rd_tensor_contiguous(r->generation, RD_I64, 1, &one);
  return take(c, names->generation, view, 1 << RD_I64, 1, &one, RDI_OUTPUT);
}

rd_status rdi_call_new_records(rdi_call *c, const rdi_records_names *names,
                               const rd_records *records) {
  RDI_TRY(rdi_check_struct(c->ctx, RDI_STRUCT_RECORDS, names->arg, records, &c->next));
  RDI_TRY(
      take_records(c, names, &c->next, c->job.seq.B, -1, RDI_OUTPUT, &c->job.next, &c->lengths[0]));
  RDI_TRY(take_generation(c, names, &c->next, &c->generation[0]));
  if (c->seq.parents.dtype != RD_ABSENT && c->next.parents.dtype == RD_ABSENT)
    return rdi_fail(c->ctx, RD_E_PRESENCE, "%s: required with seq.parents, but absent",
                    names->parents);
  for (int64_t b = 0; b < c->job.seq.B; b++) {
    const int64_t length = rdi_seq_length(&c->job.seq, b);
    if (length > c->job.next.C || length > INT32_MAX)
      return rdi_fail(c->ctx, RD_E_CAPACITY,
                      "%s: sequence %" PRId64 " has %" PRId64 " tokens, the capacity is %" PRId64,
                      names->arg, b, length, c->job.next.C);
  }
  return RD_OK;
}

static rd_status missing_record(rdi_call *c, const char *name, const char *letter,
                                const rd_tensor *t) {
  if (rdi_tensor_blank(t))
    return rdi_fail(c->ctx, RD_E_NULL, "%s.%s: required, got an absent tensor", name, letter);
  return rdi_fail(c->ctx, RD_E_DTYPE, "%s.%s: has no element type, yet other fields are set", name,
                  letter);
}

static rd_status check_made(rdi_call *c, const char *name, const rd_records *r) {
  const rd_problem *p = &c->plan->problem;
  if (r->made.magic != RECORDS_MAGIC)
    return rdi_fail(c->ctx, RD_E_RECORDS, "%s: not filled by a verify", name);
  const rd_tensor *tensors[] = {&r->u, &r->k, &r->decay};
  const char *const letters[] = {"u", "k", "decay"};
  for (int i = 0; i < (p->gate == RD_GATE_NONE ? 2 : 3); i++)
    if (tensors[i]->dtype == RD_ABSENT) return missing_record(c, name, letters[i], tensors[i]);
  const struct {
    const char *what;
    int64_t want, got;
  } fields[] = {
      {"gate kind", gate_kind(p), r->made.gate_kind},
      {"head map", p->head_map, r->made.head_map},
      {"Hk", p->Hk, r->made.Hk},
      {"Hv", p->Hv, r->made.Hv},
      {"K", p->K, r->made.K},
      {"V", p->V, r->made.V},
      {"type of u", p->record_dtype, r->u.dtype},
      {"type of k", p->record_dtype, r->k.dtype},
      {"batch", r->made.batch, r->u.shape[0]},
      {"C", r->made.C, r->u.shape[1]},
      {"type of decay", p->gate == RD_GATE_NONE ? RD_ABSENT : p->decay_dtype, r->decay.dtype},
  };
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
    if (fields[i].want != fields[i].got)
      return rdi_fail(c->ctx, RD_E_RECORDS, "%s: expected %s %" PRId64 ", got %" PRId64, name,
                      fields[i].what, fields[i].want, fields[i].got);
  return RD_OK;
}

static rd_status check_fresh(rdi_call *c, const rdi_records_names *names, const rd_records *r) {
  if (r->made.consumed) return rdi_fail(c->ctx, RD_E_CONSUMED, "%s: already committed", names->arg);
  RDI_TRY(take_generation(c, names, r, &c->generation[1]));
  if (!r->generation || *r->generation == r->made.generation) return RD_OK;
  return rdi_fail(c->ctx, RD_E_CONSUMED,
                  "%s: verified again or committed through another copy since (generation %" PRId64
                  ", expected %" PRId64 ")",
                  names->arg, *r->generation, r->made.generation);
}

/* accepted[b] - 1 is a node of the tree in the records; the path to it is checked node by node. */
static rd_status check_path(rdi_call *c, const rdi_records_names *names, int64_t b) {
  const int32_t *parents = rdi_record_parents(&c->job.prev, b);
  int64_t node = (int64_t)c->job.accepted[b] - 1;
  while (node >= 0 && parents) {
    if (parents[node] < -1 || parents[node] >= node)
      return rdi_fail(c->ctx, RD_E_RECORDS,
                      "%s: sequence %" PRId64 ", record %" PRId64 ": expected -1 to %" PRId64
                      ", got %" PRId32,
                      names->parents, b, node, node - 1, parents[node]);
    node = parents[node];
  }
  return RD_OK;
}

static rd_status check_accepted(rdi_call *c, const rdi_records_names *names, int64_t b) {
  const rd_records *records = &c->prev;
  if (records->lengths[b] < 0 || records->lengths[b] > records->made.C)
    return rdi_fail(c->ctx, RD_E_RECORDS,
                    "%s.lengths[%" PRId64 "]: expected 0 to %" PRId64 ", got %" PRId32, names->arg,
                    b, records->made.C, records->lengths[b]);
  if (c->job.accepted[b] < 0 || c->job.accepted[b] > records->lengths[b])
    return rdi_fail(c->ctx, RD_E_ACCEPTED,
                    "accepted[%" PRId64 "]: expected 0 to %" PRId32 ", got %" PRId32, b,
                    records->lengths[b], c->job.accepted[b]);
  return check_path(c, names, b);
}

rd_status rdi_call_old_records(rdi_call *c, const rdi_records_names *names, const rd_records *given,
                               const rd_tensor *accepted, int flags) {
  const char *name = names->arg;
  const rd_records *records = &c->prev;
  RDI_TRY(rdi_check_struct(c->ctx, RDI_STRUCT_RECORDS, name, given, &c->prev));
  RDI_TRY(check_made(c, name, records));
  if (!(flags & RDI_ANY_STATE)) RDI_TRY(check_fresh(c, names, records));
  const int64_t B = records->made.batch;
  if (flags & RDI_SETS_BATCH)
    c->job.seq = (rdi_seqs){.B = B};
  else if (B != c->job.seq.B)
    return rdi_fail(c->ctx, RD_E_SHAPE, "%s: expected %" PRId64 " sequences, got %" PRId64, name,
                    c->job.seq.B, B);
  if (c->plan->problem.max_batch >= 0 && B > c->plan->problem.max_batch)
    return rdi_fail(c->ctx, RD_E_PLAN,
                    "%s: the plan was made for at most %" PRId64 " sequences, got %" PRId64, name,
                    c->plan->problem.max_batch, B);
  RDI_TRY(take_records(c, names, records, B, records->made.C, 0, &c->job.prev, &c->lengths[1]));
  if (!records->made.tree)
    c->job.prev.parents = (rdi_parents){0}; /* of a chain, they are not read */
  else if (records->parents.dtype == RD_ABSENT)
    return rdi_fail(c->ctx, RD_E_RECORDS, "%s: made by a verify of trees, but absent",
                    names->parents);
  RDI_TRY(take(c, "accepted", accepted, RDI_DT_I32, 1, &B, RDI_CONTIGUOUS));
  c->job.accepted = accepted->data;
  for (int64_t b = 0; b < B; b++) RDI_TRY(check_accepted(c, names, b));
  return RD_OK;
}

static void put_made(rd_records *to, const rd_records *from) {
  rdi_struct_put(to, from, offsetof(rd_records, made), sizeof from->made);
}

/* From here on copies of the struct are out of date. */
static void advance(rd_records *r) {
  if (!r->generation) return;
  *r->generation = (int64_t)((uint64_t)*r->generation + 1);
  r->made.generation = *r->generation;
}

/* The parents of sequence b, as verified. */
static void put_parents(rdi_call *c, int64_t b, int64_t n) {
  const rdi_parents *to = &c->job.next.parents;
  const int32_t *from = rdi_seq_parents(&c->job.seq, b);
  for (int64_t i = 0; to->base && i < n; i++)
    to->base[b * to->sb + i] = from ? from[i] : (int32_t)i - 1;
}

void rdi_records_made(rdi_call *c, rd_records *records) {
  const rd_problem *p = &c->plan->problem;
  const rdi_states *from = &c->job.initial;
  rd_records *next = &c->next;
  for (int64_t b = 0; b < c->job.seq.B; b++) {
    const int pad = from->index && from->index[b] == p->pad_slot;
    next->lengths[b] = pad ? 0 : (int32_t)rdi_seq_length(&c->job.seq, b);
    put_parents(c, b, next->lengths[b]);
  }
  memset(&next->made, 0, sizeof next->made);
  next->made.magic = RECORDS_MAGIC;
  next->made.gate_kind = gate_kind(p);
  next->made.head_map = p->head_map;
  next->made.tree = c->seq.parents.dtype != RD_ABSENT;
  next->made.batch = c->job.seq.B;
  next->made.C = c->job.next.C;
  next->made.Hk = p->Hk;
  next->made.Hv = p->Hv;
  next->made.K = p->K;
  next->made.V = p->V;
  advance(next);
  put_made(records, next);
}

void rdi_records_lost(rdi_call *c, rd_records *records) {
  c->next.made.magic = 0;
  advance(&c->next);
  put_made(records, &c->next);
}

void rdi_records_consumed(rdi_call *c, rd_records *records) {
  c->prev.made.consumed = 1;
  advance(&c->prev);
  put_made(records, &c->prev);
}
