#include "core/args.h"

#include <inttypes.h>
#include <string.h>

#include "core/context.h"
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
  if (t->dtype == RD_ABSENT) return RD_OK;
  return rdi_fail(c->ctx, RD_E_PRESENCE, "%s: must be absent %s", name, why);
}

/* ---------------------------------------------------------------- sequences ------------------- */

static rd_status check_sequences(rdi_call *c, const rd_sequences *seq) {
  const rd_problem *p = &c->plan->problem;
  if (!seq) return rdi_fail(c->ctx, RD_E_NULL, "seq: required, got NULL");
  if (seq->struct_size != sizeof *seq)
    return rdi_fail(c->ctx, RD_E_STRUCT_SIZE, "seq.struct_size: expected %zu, got %zu", sizeof *seq,
                    seq->struct_size);
  if (seq->batch < 0)
    return rdi_fail(c->ctx, RD_E_SHAPE, "seq.batch: expected at least 0, got %" PRId64, seq->batch);
  if (seq->batch > p->max_batch)
    return rdi_fail(c->ctx, RD_E_PLAN,
                    "seq.batch: the plan was made for at most %" PRId64 ", got %" PRId64,
                    p->max_batch, seq->batch);
  if (p->layout == RD_PACKED) {
    TRY(must_be_absent(c, "seq.lengths", &seq->lengths, "in a packed problem"));
    const int64_t shape[] = {seq->batch + 1};
    return take(c, "seq.cu_seqlens", &seq->cu_seqlens, RDI_DT_INDEX, 1, shape, RDI_CONTIGUOUS);
  }
  TRY(must_be_absent(c, "seq.cu_seqlens", &seq->cu_seqlens, "in a padded problem"));
  const int64_t shape[] = {seq->batch};
  return take(c, "seq.lengths", &seq->lengths, RDI_DT_INDEX, 1, shape,
              RDI_CONTIGUOUS | RDI_OPTIONAL);
}

/* The values, once T is known. */
static rd_status check_lengths(rdi_call *c, const rd_sequences *seq, int64_t T) {
  const rd_problem *p = &c->plan->problem;
  if (p->layout == RD_PACKED)
    TRY(rdi_check_cu(c->ctx, "seq.cu_seqlens", &seq->cu_seqlens, seq->batch, T, 0, 0));
  else if (seq->lengths.dtype != RD_ABSENT)
    TRY(rdi_check_range(c->ctx, "seq.lengths", &seq->lengths, 0, T, RD_E_LENGTH));
  c->job.seq = rdi_seqs_of(seq->batch, T, &seq->cu_seqlens, &seq->lengths);
  if (T <= p->max_tokens) return RD_OK;
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
static rd_status check_raw_gate(rdi_call *c, const rd_activations *act) {
  const rd_problem *p = &c->plan->problem;
  if (p->gate != RD_GATE_LOWER_BOUND && p->gate != RD_GATE_SOFTPLUS) {
    TRY(must_be_absent(c, "A_log", &act->A_log, "with this gate"));
    return must_be_absent(c, "dt_bias", &act->dt_bias, "with this gate");
  }
  const int64_t per_channel[] = {p->Hv, p->K};
  TRY(take(c, "A_log", &act->A_log, RDI_DT_F32, 1, per_channel, 0));
  TRY(take(c, "dt_bias", &act->dt_bias, RDI_DT_F32, p->gate_axis == RD_PER_CHANNEL ? 2 : 1,
           per_channel, 0));
  c->job.A_log = act->A_log.data;
  c->job.A_log_stride = act->A_log.stride[0];
  c->job.dt_bias = act->dt_bias.data;
  c->job.dt_stride = act->dt_bias.stride[0];
  return RD_OK;
}

rd_status rdi_call_tokens(rdi_call *c, const rd_sequences *seq, const rd_activations *act) {
  const rd_problem *p = &c->plan->problem;
  TRY(check_sequences(c, seq));
  if (!act) return rdi_fail(c->ctx, RD_E_NULL, "act: required, got NULL");
  if (act->struct_size != sizeof *act)
    return rdi_fail(c->ctx, RD_E_STRUCT_SIZE, "act.struct_size: expected %zu, got %zu", sizeof *act,
                    act->struct_size);
  const int packed = p->layout == RD_PACKED, first = packed ? 1 : 0, rank = packed ? 3 : 4;
  int64_t shape[4] = {seq->batch, -1, p->Hk, p->K}; /* q decides T */
  const int qkv = 1 << p->qkv_dtype;
  TRY(take(c, "q", &act->q, qkv, rank, shape + first, 0));
  const int64_t T = shape[1] = act->q.shape[packed ? 0 : 1];
  TRY(take(c, "k", &act->k, qkv, rank, shape + first, 0));
  shape[2] = p->Hv;
  shape[3] = p->V;
  TRY(take(c, "v", &act->v, qkv, rank, shape + first, 0));
  TRY(take(c, "out", &act->out, 1 << p->out_dtype, rank, shape + first, RDI_OUTPUT));
  TRY(take(c, "beta", &act->beta, 1 << p->beta_dtype, rank - 1, shape + first, 0));
  shape[3] = p->K;
  if (p->gate == RD_GATE_NONE)
    TRY(must_be_absent(c, "g", &act->g, "without a gate"));
  else
    TRY(take(c, "g", &act->g, 1 << p->gate_dtype, p->gate_axis == RD_PER_CHANNEL ? rank : rank - 1,
             shape + first, 0));
  TRY(check_raw_gate(c, act));
  TRY(check_lengths(c, seq, T));
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

rd_status rdi_call_slots(rdi_call *c, const rdi_slots_names *names, const rd_slots *slots,
                         int optional, int per_token, int is_output, const rd_tensor *same,
                         rdi_states *out) {
  const rd_problem *p = &c->plan->problem;
  *out = (rdi_states){.dtype = p->state_dtype, .layout = p->state_layout, .name = names->slots};
  if (!slots || slots->pool.dtype == RD_ABSENT) {
    if (!optional) return rdi_fail(c->ctx, RD_E_NULL, "%s: required, but absent", names->pool);
    return slots ? must_be_absent(c, names->slots, &slots->slots, "without a pool") : RD_OK;
  }
  const int vk = p->state_layout == RD_STATE_VK;
  const int64_t shape[] = {-1, p->Hv, vk ? p->V : p->K, vk ? p->K : p->V};
  TRY(take(c, names->pool, &slots->pool, 1 << p->state_dtype, 4, shape,
           is_output ? RDI_OUTPUT : 0));
  c->entries[c->count - 1].same = same;
  TRY(check_pad_slot(c, names->pool, slots->pool.shape[0]));
  const int packed = p->layout == RD_PACKED;
  const int64_t rows[] = {c->job.seq.B, c->job.seq.T};
  TRY(take(c, names->slots, &slots->slots, RDI_DT_I32, per_token && !packed ? 2 : 1,
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

typedef struct record_names {
  const char *u, *k, *decay, *lengths;
} record_names;

static const record_names records_names = {"records.u", "records.k", "records.decay",
                                           "records.lengths"};
static const record_names previous_names = {"previous.u", "previous.k", "previous.decay",
                                            "previous.lengths"};
static const record_names next_names = {"next.u", "next.k", "next.decay", "next.lengths"};

/* The tensors of records of B sequences; fills recs. C comes from u when negative. */
static rd_status take_records(rdi_call *c, const record_names *names, const rd_records *r,
                              int64_t B, int64_t C, int flags, rdi_recs *recs, rd_tensor *lengths) {
  const rd_problem *p = &c->plan->problem;
  int64_t shape[] = {B, C, p->Hv, p->V};
  TRY(take(c, names->u, &r->u, 1 << p->record_dtype, 4, shape, flags));
  shape[1] = C = r->u.shape[1];
  shape[2] = p->Hk;
  shape[3] = p->K;
  TRY(take(c, names->k, &r->k, 1 << p->record_dtype, 4, shape, flags));
  shape[2] = p->Hv;
  if (p->gate == RD_GATE_NONE)
    TRY(must_be_absent(c, names->decay, &r->decay, "without a gate"));
  else
    TRY(take(c, names->decay, &r->decay, 1 << p->decay_dtype,
             p->gate_axis == RD_PER_CHANNEL ? 4 : 3, shape, flags));
  if (!r->lengths && B > 0)
    return rdi_fail(c->ctx, RD_E_NULL, "%s: required, got NULL", names->lengths);
  *lengths = rd_tensor_contiguous(r->lengths, RD_I32, 1, &B);
  TRY(take(c, names->lengths, lengths, RDI_DT_I32, 1, &B, flags));
  const rd_tensor *from[] = {&r->u, &r->k, &r->decay};
  rdi_record_view *to[] = {&recs->u, &recs->k, &recs->decay};
  for (int i = 0; i < 3; i++) {
    const rdi_view v = rdi_view_of(from[i], 0, 1, 2);
    *to[i] = (rdi_record_view){v.base, v.dtype, v.sb, v.st, v.sh};
  }
  recs->decay_axis = p->gate_axis;
  recs->C = C;
  return RD_OK;
}

static rd_status check_records_struct(rdi_call *c, const char *name, const rd_records *r) {
  if (!r) return rdi_fail(c->ctx, RD_E_NULL, "%s: required, got NULL", name);
  if (r->struct_size == sizeof *r) return RD_OK;
  return rdi_fail(c->ctx, RD_E_STRUCT_SIZE, "%s.struct_size: expected %zu, got %zu", name,
                  sizeof *r, r->struct_size);
}

rd_status rdi_call_new_records(rdi_call *c, const char *name, rd_records *records) {
  TRY(check_records_struct(c, name, records));
  TRY(take_records(c, strcmp(name, "next") == 0 ? &next_names : &records_names, records,
                   c->job.seq.B, -1, RDI_OUTPUT, &c->job.next, &c->lengths[0]));
  for (int64_t b = 0; b < c->job.seq.B; b++) {
    const int64_t length = rdi_seq_length(&c->job.seq, b);
    if (length > c->job.next.C || length > INT32_MAX)
      return rdi_fail(c->ctx, RD_E_CAPACITY,
                      "%s: sequence %" PRId64 " has %" PRId64 " tokens, the capacity is %" PRId64,
                      name, b, length, c->job.next.C);
  }
  return RD_OK;
}

static rd_status check_made(rdi_call *c, const char *name, const rd_records *r,
                            int may_be_consumed) {
  const rd_problem *p = &c->plan->problem;
  if (r->made.magic != RECORDS_MAGIC)
    return rdi_fail(c->ctx, RD_E_RECORDS, "%s: not filled by a verify", name);
  const rd_tensor *tensors[] = {&r->u, &r->k, &r->decay};
  const char *const letters[] = {"u", "k", "decay"};
  for (int i = 0; i < (p->gate == RD_GATE_NONE ? 2 : 3); i++)
    if (tensors[i]->dtype == RD_ABSENT)
      return rdi_fail(c->ctx, RD_E_NULL, "%s.%s: required, got an absent tensor", name, letters[i]);
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
  if (r->made.consumed && !may_be_consumed)
    return rdi_fail(c->ctx, RD_E_CONSUMED, "%s: already committed", name);
  return RD_OK;
}

rd_status rdi_call_old_records(rdi_call *c, const char *name, const rd_records *records,
                               const rd_tensor *accepted, int may_be_consumed, int sets_batch) {
  TRY(check_records_struct(c, name, records));
  TRY(check_made(c, name, records, may_be_consumed));
  const int64_t B = records->made.batch;
  if (sets_batch)
    c->job.seq = (rdi_seqs){.B = B};
  else if (B != c->job.seq.B)
    return rdi_fail(c->ctx, RD_E_SHAPE, "%s: expected %" PRId64 " sequences, got %" PRId64, name,
                    c->job.seq.B, B);
  if (B > c->plan->problem.max_batch)
    return rdi_fail(c->ctx, RD_E_PLAN,
                    "%s: the plan was made for at most %" PRId64 " sequences, got %" PRId64, name,
                    c->plan->problem.max_batch, B);
  TRY(take_records(c, sets_batch ? &records_names : &previous_names, records, B, records->made.C, 0,
                   &c->job.prev, &c->lengths[1]));
  TRY(take(c, "accepted", accepted, RDI_DT_I32, 1, &B, RDI_CONTIGUOUS));
  c->job.accepted = accepted->data;
  for (int64_t b = 0; b < B; b++) {
    if (records->lengths[b] < 0 || records->lengths[b] > records->made.C)
      return rdi_fail(c->ctx, RD_E_RECORDS,
                      "%s.lengths[%" PRId64 "]: expected 0 to %" PRId64 ", got %" PRId32, name, b,
                      records->made.C, records->lengths[b]);
    if (c->job.accepted[b] < 0 || c->job.accepted[b] > records->lengths[b])
      return rdi_fail(c->ctx, RD_E_ACCEPTED,
                      "accepted[%" PRId64 "]: expected 0 to %" PRId32 ", got %" PRId32, b,
                      records->lengths[b], c->job.accepted[b]);
  }
  return RD_OK;
}

void rdi_records_made(const rdi_call *c, rd_records *records) {
  const rd_problem *p = &c->plan->problem;
  const rdi_states *from = &c->job.initial;
  for (int64_t b = 0; b < c->job.seq.B; b++) {
    const int pad = from->index && from->index[b] == p->pad_slot;
    records->lengths[b] = pad ? 0 : (int32_t)rdi_seq_length(&c->job.seq, b);
  }
  records->made.magic = RECORDS_MAGIC;
  records->made.consumed = 0;
  records->made.gate_kind = gate_kind(p);
  records->made.head_map = (int32_t)p->head_map;
  records->made.batch = c->job.seq.B;
  records->made.C = c->job.next.C;
  records->made.Hk = p->Hk;
  records->made.Hv = p->Hv;
  records->made.K = p->K;
  records->made.V = p->V;
}
