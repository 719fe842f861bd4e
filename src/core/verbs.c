/* The public verbs: check the arguments, fill a job, run it, keep the records' books. */
#include "core/args.h"
#include "core/context.h"

static const rdi_slots_names initial_names = {"initial", "initial.pool", "initial.slots"};
static const rdi_slots_names final_names = {"final", "final.pool", "final.slots"};
static const rdi_slots_names state_names = {"state", "state.pool", "state.slots"};
static const rdi_slots_names write_names = {"write", "write.pool", "write.slots"};
static const rdi_slots_names snapshot_names = {"snapshots", "snapshots.pool", "snapshots.slots"};
static const rdi_slots_names checkpoint_names = {"checkpoint", "checkpoint.pool",
                                                 "checkpoint.slots"};
static const rdi_slots_names from_names = {"from", "from.pool", "from.slots"};
static const rdi_slots_names to_names = {"to", "to.pool", "to.slots"};

static rd_status finish(rdi_call *c) {
  TRY(rdi_check_alias(c->ctx, c->entries, c->count));
  return rdi_run(c->ctx, &c->job);
}

/* ---------------------------------------------------------------- prefill --------------------- */

static rd_status prefill(rdi_call *c, const rd_sequences *seq, const rd_activations *act,
                         const rd_slots *initial, const rd_slots *final) {
  rdi_job *job = &c->job;
  TRY(rdi_call_tokens(c, seq, act));
  TRY(rdi_call_slots(c, &initial_names, initial, 1, 0, 0, NULL, &job->initial));
  TRY(rdi_call_slots(c, &final_names, final, 1, 0, 1, initial ? &initial->pool : NULL,
                     &job->final));
  TRY(rdi_check_slots(c->ctx, "slots", &job->initial, &job->final, job->seq.B, job->m.pad_slot));
  return finish(c);
}

rd_status rd_prefill(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                     const rd_activations *act, const rd_slots *initial, const rd_slots *final) {
  rdi_call c;
  rd_status status = rdi_enter(ctx);
  if (status != RD_OK) return status;
  status = rdi_call_begin(&c, ctx, plan, RDI_PREFILL);
  if (status == RD_OK) status = prefill(&c, seq, act, initial, final);
  return rdi_leave(ctx, status);
}

/* ---------------------------------------------------------------- decode ---------------------- */

static rd_status decode(rdi_call *c, const rd_sequences *seq, const rd_activations *act,
                        const rd_slots *state, const rd_slots *write, const rd_slots *snapshots) {
  rdi_job *job = &c->job;
  const int in_place = !write && !snapshots;
  TRY(rdi_call_tokens(c, seq, act));
  TRY(rdi_call_slots(c, &state_names, state, 0, 0, in_place, NULL, &job->initial));
  if (in_place) job->final = job->initial;
  if (write) TRY(rdi_call_slots(c, &write_names, write, 0, 0, 1, &state->pool, &job->final));
  if (!snapshots) {
    TRY(rdi_check_slots(c->ctx, "slots", &job->initial, &job->final, job->seq.B, job->m.pad_slot));
    return finish(c);
  }
  TRY(rdi_call_slots(c, &snapshot_names, snapshots, 0, 1, 1, &state->pool, &job->snapshots));
  if (write) c->entries[c->count - 1].same2 = &write->pool;
  const int64_t tokens = job->seq.cu ? job->seq.T : job->seq.B * job->seq.T;
  TRY(rdi_check_snapshots(c->ctx, "slots", &job->seq, tokens, &job->initial, &job->final,
                          &job->snapshots, job->m.pad_slot));
  return finish(c);
}

rd_status rd_decode(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                    const rd_activations *act, const rd_slots *state, const rd_slots *write,
                    const rd_slots *snapshots) {
  rdi_call c;
  rd_status status = rdi_enter(ctx);
  if (status != RD_OK) return status;
  status = rdi_call_begin(&c, ctx, plan, RDI_DECODE);
  if (status == RD_OK) status = decode(&c, seq, act, state, write, snapshots);
  return rdi_leave(ctx, status);
}

/* ---------------------------------------------------------------- verify ---------------------- */

/* Records of a run that an executor broke off hold nothing that may be committed. */
static rd_status keep_books(rdi_call *c, rd_status status, rd_records *records) {
  if (status == RD_OK) rdi_records_made(c, records);
  if (status == RD_E_EXECUTOR) records->made.magic = 0;
  return status;
}

static rd_status verify(rdi_call *c, const rd_sequences *seq, const rd_activations *act,
                        const rd_slots *checkpoint, rd_records *records) {
  rdi_job *job = &c->job;
  TRY(rdi_call_tokens(c, seq, act));
  TRY(rdi_call_slots(c, &checkpoint_names, checkpoint, 0, 0, 0, NULL, &job->initial));
  TRY(rdi_call_new_records(c, "records", records));
  TRY(rdi_check_slots(c->ctx, "slots", &job->initial, NULL, job->seq.B, job->m.pad_slot));
  return keep_books(c, finish(c), records);
}

rd_status rd_verify(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                    const rd_activations *act, const rd_slots *checkpoint, rd_records *records) {
  rdi_call c;
  rd_status status = rdi_enter(ctx);
  if (status != RD_OK) return status;
  status = rdi_call_begin(&c, ctx, plan, RDI_VERIFY);
  if (status == RD_OK) status = verify(&c, seq, act, checkpoint, records);
  return rdi_leave(ctx, status);
}

/* ---------------------------------------------------------------- commit ---------------------- */

static rd_status commit(rdi_call *c, rd_records *records, const rd_tensor *accepted,
                        const rd_slots *state) {
  rdi_job *job = &c->job;
  TRY(rdi_call_old_records(c, "records", records, accepted, 0, 1));
  TRY(rdi_call_slots(c, &state_names, state, 0, 0, 1, NULL, &job->initial));
  job->final = job->initial;
  TRY(rdi_check_slots(c->ctx, "slots", NULL, &job->final, job->seq.B, job->m.pad_slot));
  TRY(finish(c));
  records->made.consumed = 1;
  return RD_OK;
}

rd_status rd_commit(rd_context *ctx, const rd_plan *plan, rd_records *records,
                    const rd_tensor *accepted, const rd_slots *state) {
  rdi_call c;
  rd_status status = rdi_enter(ctx);
  if (status != RD_OK) return status;
  status = rdi_call_begin(&c, ctx, plan, RDI_COMMIT);
  if (status == RD_OK) status = commit(&c, records, accepted, state);
  return rdi_leave(ctx, status);
}

static rd_status materialize(rdi_call *c, const rd_records *records, const rd_tensor *accepted,
                             const rd_slots *from, const rd_slots *to) {
  rdi_job *job = &c->job;
  TRY(rdi_call_old_records(c, "records", records, accepted, 1, 1));
  TRY(rdi_call_slots(c, &from_names, from, 0, 0, 0, NULL, &job->initial));
  TRY(rdi_call_slots(c, &to_names, to, 0, 0, 1, &from->pool, &job->final));
  TRY(rdi_check_slots(c->ctx, "slots", &job->initial, &job->final, job->seq.B, job->m.pad_slot));
  if (job->initial.base == job->final.base)
    TRY(rdi_check_apart(c->ctx, &job->initial, &job->final, job->seq.B, job->m.pad_slot));
  return finish(c);
}

rd_status rd_materialize(rd_context *ctx, const rd_plan *plan, const rd_records *records,
                         const rd_tensor *accepted, const rd_slots *from, const rd_slots *to) {
  rdi_call c;
  rd_status status = rdi_enter(ctx);
  if (status != RD_OK) return status;
  status = rdi_call_begin(&c, ctx, plan, RDI_COMMIT);
  if (status == RD_OK) status = materialize(&c, records, accepted, from, to);
  return rdi_leave(ctx, status);
}

/* ---------------------------------------------------------------- commit and verify ----------- */

static rd_status commit_verify(rdi_call *c, rd_records *previous, const rd_tensor *accepted,
                               const rd_sequences *seq, const rd_activations *act,
                               const rd_slots *state, rd_records *next) {
  rdi_job *job = &c->job;
  if (previous && previous == next)
    return rdi_fail(c->ctx, RD_E_ALIAS, "next: must be other records than previous");
  TRY(rdi_call_tokens(c, seq, act));
  TRY(rdi_call_old_records(c, "previous", previous, accepted, 0, 0));
  TRY(rdi_call_slots(c, &state_names, state, 0, 0, 1, NULL, &job->initial));
  job->final = job->initial;
  TRY(rdi_call_new_records(c, "next", next));
  TRY(rdi_check_slots(c->ctx, "slots", NULL, &job->final, job->seq.B, job->m.pad_slot));
  TRY(keep_books(c, finish(c), next));
  previous->made.consumed = 1;
  return RD_OK;
}

rd_status rd_commit_verify(rd_context *ctx, const rd_plan *plan, rd_records *previous,
                           const rd_tensor *accepted, const rd_sequences *seq,
                           const rd_activations *act, const rd_slots *state, rd_records *next) {
  rdi_call c;
  rd_status status = rdi_enter(ctx);
  if (status != RD_OK) return status;
  status = rdi_call_begin(&c, ctx, plan, RDI_COMMIT_VERIFY);
  if (status == RD_OK) status = commit_verify(&c, previous, accepted, seq, act, state, next);
  return rdi_leave(ctx, status);
}
