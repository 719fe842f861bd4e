/* The arguments of the public verbs, checked and resolved into a job. */
#ifndef RDI_CORE_ARGS_H
#define RDI_CORE_ARGS_H

#include "core/check.h"
#include "core/problem.h"

/* One call in the making: its job and every tensor it touches. */
typedef struct rdi_call {
  rd_context *ctx;
  const rd_plan *plan;
  rdi_job job;
  rdi_alias_entry entries[RDI_ALIAS_MAX];
  int count;
  rd_tensor lengths[2]; /* views of the records' length arrays, for the alias check */
} rdi_call;

/* Names of one rd_slots argument in messages. */
typedef struct rdi_slots_names {
  const char *arg, *pool, *slots;
} rdi_slots_names;

rd_status rdi_call_begin(rdi_call *c, rd_context *ctx, const rd_plan *plan, rdi_verb verb);

/* seq: job.seq; with act also T and the activations. */
rd_status rdi_call_tokens(rdi_call *c, const rd_sequences *seq, const rd_activations *act);

/* slots: [B] per sequence, or per token (padded [B,T], packed [T]). Absent pools leave *out empty
 * when `optional`. The pool joins the alias list; same: a pool it may be, or NULL. */
rd_status rdi_call_slots(rdi_call *c, const rdi_slots_names *names, const rd_slots *slots,
                         int optional, int per_token, int is_output, const rd_tensor *same,
                         rdi_states *out);

/* Records to fill (verify): every length <= C. */
rd_status rdi_call_new_records(rdi_call *c, const char *name, rd_records *records);
/* Records to apply: made for this plan, by a verify; accepted [B] in range. Sets job.seq.B when
 * `sets_batch`, else the batches must agree. */
rd_status rdi_call_old_records(rdi_call *c, const char *name, const rd_records *records,
                               const rd_tensor *accepted, int may_be_consumed, int sets_batch);

/* After a successful verify. */
void rdi_records_made(const rdi_call *c, rd_records *records);

#endif
