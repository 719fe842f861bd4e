/* mpi/src/compose.h - segments as maps of the state, and their composition. SPDX-License-Identifier: Apache-2.0
 *
 * A run of tokens maps every row s of a state to s A + B_row: A [K,K] is the transition, B [V,K] the state
 * that zero becomes. (A1,B1) then (A2,B2) is (A1 A2, B1 A2 + B2). */
#ifndef RDM_COMPOSE_H
#define RDM_COMPOSE_H

#include "mpi/src/object.h"

/* One element of the scan: the head is followed by A and B. */
typedef struct rdm_map {
  int32_t K, V;
  int32_t identity; /* no tokens: A and B are not looked at */
  int32_t reserved[13];
} rdm_map;

size_t rdm_map_bytes(int64_t K, int64_t V);
float *rdm_map_A(rdm_map *map);
float *rdm_map_B(rdm_map *map);

/* Transitions hold no numbers below 1e-18 but zeros. */
void rdm_clear_small(float *A, int64_t n);

/* The operator of MPI_Exscan: later := earlier, then later. */
void rdm_compose(void *earlier, void *later, int *count, MPI_Datatype *type);

#endif
