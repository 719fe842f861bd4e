/* mpi/src/plan.h - a problem, its checks, and the plans of its items. SPDX-License-Identifier: Apache-2.0 */
#ifndef RDM_PLAN_H
#define RDM_PLAN_H

#include "mpi/src/object.h"

struct rd_mpi_plan {
  rd_problem problem;
  uint64_t fingerprint;
  int64_t heads, rows; /* of an item */
  rd_plan *whole;      /* the problem as given, for one rank */
  rd_plan *item;       /* `heads` value heads and their key heads, `rows` rows, f32 states VK */
  rd_plan *transition; /* of the scan, RD_FAST only: one value head, V = K */
  rd_plan *segment;    /* of the scan: one value head */
  rd_context *checker; /* checks arguments and can run nothing */
  rd_plan *checked;
  int refuse; /* the checker's allocator */
};

int64_t rdm_items(const rd_mpi_plan *plan);           /* of one sequence */
int64_t rdm_keys(const rd_problem *p, int64_t heads); /* key heads of that many value heads */

/* One sequence's states of an item: heads, first value head, first key head and first row. */
typedef struct rdm_item {
  int64_t heads, hv, hk, row, rows;
} rdm_item;
rdm_item rdm_item_at(const rd_mpi_plan *plan, int64_t i);

/* What rd_prefill says to the arguments, with its message; writes nothing. */
rd_status rdm_check(rd_mpi *m, const rd_mpi_plan *plan, const rd_sequences *seq,
                    const rd_activations *act, const rd_slots *initial, const rd_slots *final);

/* Element i of a tensor of numbers. */
int64_t rdm_number(const rd_tensor *t, int64_t i);

/* Tokens of sequence b on this rank, and its first row in the token dimension. `seq` was checked. */
int64_t rdm_length(const rd_mpi_plan *plan, const rd_sequences *seq, const rd_activations *act,
                   int64_t b, int64_t *first);

/* The slot of sequence b, or the pad slot where there is no pool. */
int64_t rdm_slot(const rd_mpi_plan *plan, const rd_slots *slots, int64_t b);

/* Pools given and the same for both. */
int rdm_shared_pool(const rd_slots *initial, const rd_slots *final);

#endif
