/* The public verbs: check the arguments, fill a job, run it, keep the records' books. */
#include "core/args.h"
#include "core/context.h"
#include "core/run.h"

static const rdi_slots_names initial_names = {"initial", "initial.pool", "initial.slots"};
static const rdi_slots_names final_names = {"final", "final.pool", "final.slots"};
static const rdi_slots_names state_names = {"state", "state.pool", "state.slots"};
static const rdi_slots_names write_names = {"write", "write.pool", "write.slots"};
static const rdi_slots_names snapshot_names = {"snapshots", "snapshots.pool", "snapshots.slots"};
static const rdi_slots_names checkpoint_names = {"checkpoint", "checkpoint.pool",
                                                 "checkpoint.slots"};
static const rdi_slots_names from_names = {"from", "from.pool", "from.slots"};
static const rdi_slots_names to_names = {"to", "to.pool", "to.slots"};

#define RECORDS_NAMES(arg)                                                                         \
  { arg, arg ".u", arg ".k", arg ".decay", arg ".parents", arg ".lengths", arg ".generation" }
static const rdi_records_names records_names = RECORDS_NAMES("records");
static const rdi_records_names previous_names = RECORDS_NAMES("previous");
static const rdi_records_names next_names = RECORDS_NAMES("next");

/* What a verb was given; each takes its own. */
typedef struct given {
  const rd_sequences *seq;
  const rd_activations *act;
  const rd_slots *read, *write, *snapshots;
  rd_records *records; /* to fill */
  rd_records *replayed;
  const rd_records *kept; /* replayed, and as they were afterwards */
  const rd_tensor *accepted;
} given;

typedef rd_status verb_fn(rdi_call *c, const given *a);

static rd_status call(rd_context *ctx, const rd_plan *plan, rdi_verb verb, verb_fn *run,
                      const given *a) {
  rdi_call c;
  RDI_TRY(rdi_enter(ctx));
  rd_status status = rdi_call_begin(&c, ctx, plan, verb);
  if (status == RD_OK) status = run(&c, a);
  return rdi_leave(ctx, status);
}

/* The last check, for shared memory, is due once all tensors are known. */
static rd_status check_and_run(rdi_call *c) {
  RDI_TRY(rdi_check_alias(c->ctx, c->entries, c->count));
  return rdi_run(c->ctx, &c->job);
}

/* One slot per sequence: `read` and `write`, either of which may be absent or NULL. */
static rd_status check_slots(rdi_call *c, const rdi_states *read, const rdi_states *write) {
  return rdi_check_slots(c->ctx, "slots", read, write, c->job.seq.B, c->job.m.pad_slot);
}

/* Takes the snapshots and checks all slots. */
static rd_status take_snapshots(rdi_call *c, const rd_slots *snapshots) {
  rdi_job *job = &c->job;
  RDI_TRY(rdi_call_slots(c, &snapshot_names, snapshots, &c->slots[2], RDI_PER_TOKEN | RDI_OUTPUT,
                         &job->snapshots));
  return rdi_check_snapshots(c->ctx, "slots", &job->seq, &job->initial, &job->final,
                             &job->snapshots, job->m.pad_slot);
}

/* ---------------------------------------------------------------- prefill and decode ---------- */

static rd_status prefill(rdi_call *c, const given *a) {
  rdi_job *job = &c->job;
  RDI_TRY(rdi_call_tokens(c, a->seq, a->act, 0));
  RDI_TRY(rdi_call_slots(c, &initial_names, a->read, &c->slots[0], RDI_OPTIONAL, &job->initial));
  RDI_TRY(rdi_call_slots(c, &final_names, a->write, &c->slots[1], RDI_OPTIONAL | RDI_OUTPUT,
                         &job->final));
  if (!a->snapshots) {
    RDI_TRY(check_slots(c, &job->initial, &job->final));
    return check_and_run(c);
  }
  job->m.numerics = RD_EXACT; /* FAST never has the state between two tokens */
  RDI_TRY(take_snapshots(c, a->snapshots));
  return check_and_run(c);
}

rd_status rd_prefill(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                     const rd_activations *act, const rd_slots *initial, const rd_slots *final,
                     const rd_slots *snapshots) {
  const given a = {.seq = seq, .act = act, .read = initial, .write = final, .snapshots = snapshots};
  return call(ctx, plan, RDI_PREFILL, prefill, &a);
}

static rd_status decode(rdi_call *c, const given *a) {
  rdi_job *job = &c->job;
  const int in_place = !a->write && !a->snapshots;
  RDI_TRY(rdi_call_tokens(c, a->seq, a->act, 0));
  RDI_TRY(rdi_call_slots(c, &state_names, a->read, &c->slots[0], in_place ? RDI_OUTPUT : 0,
                         &job->initial));
  if (in_place) job->final = job->initial;
  if (a->write)
    RDI_TRY(rdi_call_slots(c, &write_names, a->write, &c->slots[1], RDI_OUTPUT, &job->final));
  RDI_TRY(a->snapshots ? take_snapshots(c, a->snapshots)
                       : check_slots(c, &job->initial, &job->final));
  return check_and_run(c);
}

rd_status rd_decode(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                    const rd_activations *act, const rd_slots *state, const rd_slots *write,
                    const rd_slots *snapshots) {
  const given a = {.seq = seq, .act = act, .read = state, .write = write, .snapshots = snapshots};
  return call(ctx, plan, RDI_DECODE, decode, &a);
}

/* ---------------------------------------------------------------- verify ---------------------- */

/* Records of a run that an executor broke off hold nothing that may be committed. */
static rd_status keep_books(rdi_call *c, rd_status status, rd_records *records) {
  if (status == RD_OK) rdi_records_made(c, records);
  if (status == RD_E_EXECUTOR) rdi_records_lost(c, records);
  return status;
}

static rd_status verify(rdi_call *c, const given *a) {
  rdi_job *job = &c->job;
  RDI_TRY(rdi_call_tokens(c, a->seq, a->act, RDI_TREES));
  RDI_TRY(rdi_call_slots(c, &checkpoint_names, a->read, &c->slots[0], 0, &job->initial));
  RDI_TRY(rdi_call_new_records(c, &records_names, a->records));
  RDI_TRY(check_slots(c, &job->initial, NULL));
  RDI_TRY(rdi_call_check_trees(c));
  return keep_books(c, check_and_run(c), a->records);
}

rd_status rd_verify(rd_context *ctx, const rd_plan *plan, const rd_sequences *seq,
                    const rd_activations *act, const rd_slots *checkpoint, rd_records *records) {
  const given a = {.seq = seq, .act = act, .read = checkpoint, .records = records};
  return call(ctx, plan, RDI_VERIFY, verify, &a);
}

/* ---------------------------------------------------------------- commit ---------------------- */

/* The state of a commit: read and written in place. */
static rd_status take_state(rdi_call *c, const rd_slots *state) {
  RDI_TRY(rdi_call_slots(c, &state_names, state, &c->slots[0], RDI_OUTPUT, &c->job.initial));
  c->job.final = c->job.initial;
  return RD_OK;
}

static rd_status commit(rdi_call *c, const given *a) {
  RDI_TRY(rdi_call_old_records(c, &records_names, a->replayed, a->accepted, RDI_SETS_BATCH));
  RDI_TRY(take_state(c, a->write));
  RDI_TRY(check_slots(c, NULL, &c->job.final));
  RDI_TRY(check_and_run(c));
  rdi_records_consumed(c, a->replayed);
  return RD_OK;
}

rd_status rd_commit(rd_context *ctx, const rd_plan *plan, rd_records *records,
                    const rd_tensor *accepted, const rd_slots *state) {
  const given a = {.replayed = records, .accepted = accepted, .write = state};
  return call(ctx, plan, RDI_COMMIT, commit, &a);
}

static rd_status materialize(rdi_call *c, const given *a) {
  rdi_job *job = &c->job;
  RDI_TRY(rdi_call_old_records(c, &records_names, a->kept, a->accepted,
                               RDI_SETS_BATCH | RDI_ANY_STATE));
  RDI_TRY(rdi_call_slots(c, &from_names, a->read, &c->slots[0], 0, &job->initial));
  RDI_TRY(rdi_call_slots(c, &to_names, a->write, &c->slots[1], RDI_OUTPUT, &job->final));
  RDI_TRY(check_slots(c, &job->initial, &job->final));
  if (job->initial.base == job->final.base)
    RDI_TRY(rdi_check_apart(c->ctx, &job->initial, &job->final, job->seq.B, job->m.pad_slot));
  return check_and_run(c);
}

rd_status rd_materialize(rd_context *ctx, const rd_plan *plan, const rd_records *records,
                         const rd_tensor *accepted, const rd_slots *from, const rd_slots *to) {
  const given a = {.kept = records, .accepted = accepted, .read = from, .write = to};
  return call(ctx, plan, RDI_COMMIT, materialize, &a);
}

/* ---------------------------------------------------------------- commit and verify ----------- */

static rd_status commit_verify(rdi_call *c, const given *a) {
  if (a->replayed && a->replayed == a->records) /* copies of one struct meet in the alias check */
    return rdi_fail(c->ctx, RD_E_ALIAS, "next: must be other records than previous");
  RDI_TRY(rdi_call_tokens(c, a->seq, a->act, RDI_TREES));
  RDI_TRY(rdi_call_old_records(c, &previous_names, a->replayed, a->accepted, 0));
  RDI_TRY(take_state(c, a->write));
  RDI_TRY(rdi_call_new_records(c, &next_names, a->records));
  RDI_TRY(check_slots(c, NULL, &c->job.final));
  RDI_TRY(rdi_call_check_trees(c));
  RDI_TRY(keep_books(c, check_and_run(c), a->records));
  rdi_records_consumed(c, a->replayed);
  return RD_OK;
}

rd_status rd_commit_verify(rd_context *ctx, const rd_plan *plan, rd_records *previous,
                           const rd_tensor *accepted, const rd_sequences *seq,
                           const rd_activations *act, const rd_slots *state, rd_records *next) {
  const given a = {.replayed = previous,
                   .accepted = accepted,
                   .seq = seq,
                   .act = act,
                   .write = state,
                   .records = next};
  return call(ctx, plan, RDI_COMMIT_VERIFY, commit_verify, &a);
}
