/* mpi/src/step.h - who has which tokens. SPDX-License-Identifier: Apache-2.0 */
#ifndef RDM_STEP_H
#define RDM_STEP_H

#include "mpi/src/object.h"

void rdm_step_free(rd_mpi *m);

/* Tokens of sequence b on a rank. */
int64_t rdm_count(const rd_mpi *m, int rank, int64_t b);

/* The nearest rank before, after this one that has tokens of sequence b; -1: none. */
int rdm_previous(const rd_mpi *m, int64_t b);
int rdm_next(const rd_mpi *m, int64_t b);

/* The step has failed everywhere, with what m->message says. */
void rdm_step_failed(rd_mpi *m, rd_status status);

/* Whether this rank may make another call of this form. Sets the message. */
rd_status rdm_may_run(rd_mpi *m, const rd_mpi_plan *plan, rd_mpi_form form);

#endif
