/* mpi/src/local.h - one item's tokens on this rank. SPDX-License-Identifier: Apache-2.0 */
#ifndef RDM_LOCAL_H
#define RDM_LOCAL_H

#include "mpi/src/plan.h"

/* The arguments of one layer, checked. */
typedef struct rdm_layer {
  rd_mpi *m;
  const rd_mpi_plan *plan;
  const rd_activations *act;
  const rd_slots *initial, *final;
} rdm_layer;

/* S [heads,rows,K] f32 := the initial state of sequence b: from the pool, or zeros. */
rd_status rdm_load(const rdm_layer *x, const rdm_item *it, int64_t b, float *S);
/* The final state of sequence b := S, rounded; dropped where there is no place. */
rd_status rdm_store(const rdm_layer *x, const rdm_item *it, int64_t b, float *S);

/* All tokens of sequence b on this rank by the plan of such items: from state `from` (may be `S`) to state S. MPI gets a turn at
 * least every millisecond. */
rd_status rdm_tokens(const rdm_layer *x, const rd_plan *plan, const rdm_item *it, int64_t b,
                     float *from, float *S);

/* The activations of n tokens from row t of sequence b, of one item; rank 4 and 3, batch 1. */
rd_activations rdm_views(const rdm_layer *x, const rdm_item *it, int64_t b, int64_t t, int64_t n);

/* f32 states [1,heads,rows,K] as a pool of one slot. */
rd_slots rdm_state(float *S, int64_t heads, int64_t rows, int64_t K);

/* The layer is what rd_prefill takes and what was agreed upon. */
rd_status rdm_layer_check(const rdm_layer *x);

/* What no item writes: output rows past a length (PADDED) and of pad rows become +0; a sequence without
 * tokens on any rank passes its state through as bytes, on rank 0. */
void rdm_layer_rest(const rdm_layer *x);

#endif
