/* The arguments of the public verbs, checked and resolved into a job. */
#ifndef RDI_CORE_ARGS_H
#define RDI_CORE_ARGS_H

#include "core/check.h"
#include "core/problem.h"
#include "core/slots.h"

/* One call in the making: its job and every tensor it touches. */
typedef struct rdi_call {
  rd_context *ctx;
  const rd_plan *plan;
  rdi_job job;
  rdi_alias_entry entries[RDI_ALIAS_MAX];
  int count;
  /* Whole copies of what the caller gave, whatever its version; the entries point into them. */
  rd_sequences seq;
  rd_activations act;
  rd_slots slots[3];
  rd_records next, prev;
  rd_tensor lengths[2], generation[2]; /* views of those arrays of next and prev */
} rdi_call;

/* Names of an argument and of its tensors in messages. */
typedef struct rdi_slots_names {
  const char *arg, *pool, *slots;
} rdi_slots_names;
typedef struct rdi_records_names {
  const char *arg, *u, *k, *decay, *parents, *lengths, *generation;
} rdi_records_names;

/* Beside RDI_OUTPUT and RDI_OPTIONAL of check.h: */
enum {
  RDI_PER_TOKEN = 64,   /* slots: padded [B,T], packed [T]; else [B] */
  RDI_ANY_STATE = 128,  /* records may be consumed or out of date; they stay as they are */
  RDI_SETS_BATCH = 256, /* records say how many sequences there are; else they must agree */
  RDI_TREES = 512       /* tokens may be draft trees */
};

rd_status rdi_call_begin(rdi_call *c, rd_context *ctx, const rd_plan *plan, rdi_verb verb);

/* seq: job.seq; with act also T and the activations. RDI_TREES: seq.parents may be given. */
rd_status rdi_call_tokens(rdi_call *c, const rd_sequences *seq, const rd_activations *act,
                          int flags);
/* The values of seq.parents, once job.initial is known: pad rows have none. */
rd_status rdi_call_check_trees(rdi_call *c);

/* Takes the slots into *copy, one of c->slots. Absent pools leave *out empty with RDI_OPTIONAL. The
 * pool joins the alias list, where it may be exactly the view of another one of the call. */
rd_status rdi_call_slots(rdi_call *c, const rdi_slots_names *names, const rd_slots *slots,
                         rd_slots *copy, int flags, rdi_states *out);

/* Records to fill (verify), taken into c->next: every length <= C; of trees, parents present. */
rd_status rdi_call_new_records(rdi_call *c, const rdi_records_names *names,
                               const rd_records *records);
/* Records to apply, taken into c->prev: made for this plan, by a verify; accepted [B] in range; the
 * path to each accepted record is one. */
rd_status rdi_call_old_records(rdi_call *c, const rdi_records_names *names,
                               const rd_records *records, const rd_tensor *accepted, int flags);

/* Into the caller's struct: after a successful verify, after a failed one, after a commit. */
void rdi_records_made(rdi_call *c, rd_records *records);
void rdi_records_lost(rdi_call *c, rd_records *records);
void rdi_records_consumed(rdi_call *c, rd_records *records);

#endif
