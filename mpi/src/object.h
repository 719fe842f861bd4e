/* mpi/src/object.h - the object, its step, its error. SPDX-License-Identifier: Apache-2.0 */
#ifndef RDM_OBJECT_H
#define RDM_OBJECT_H

#include "redelta/mpi.h"

enum { RDM_TEXT = 224, RDM_SENDS = 4, RDM_RECEIVES = 2 };

/* What precedes a state in a message; alone it is a failure, the last message of its step. */
typedef struct rdm_header {
  int32_t status; /* rd_status; RD_OK: a state follows */
  int32_t rank;   /* that failed first */
  int64_t layer, item;
  int64_t floats;
  char text[RDM_TEXT];
} rdm_header;
/* Buffers begin at 64 bytes, and so must the state: the kernels read and write it for every block of
 * tokens, and 64-byte accesses that straddle cache lines cost a fifth of their time. */
_Static_assert(sizeof(rdm_header) % 64 == 0, "the state begins at a cache line");

typedef struct rdm_buffer {
  MPI_Request request; /* MPI_REQUEST_NULL: free */
  int peer;            /* receives: the source, while posted; else -1 */
  rdm_header *header;  /* the state follows it */
} rdm_buffer;

/* Messages of the step with one other rank. */
typedef struct rdm_peer {
  int64_t expected, got;         /* from it */
  int64_t owed, sent;            /* to it */
  int32_t closed_in, closed_out; /* the last message of the step came early: a failure */
} rdm_peer;

typedef struct rdm_step {
  int32_t agreed, form, layers, done;
  int64_t B;
  const rd_mpi_plan *plan;
  const rd_sequences *seq;
  int64_t *counts; /* [ranks][B] tokens */
  int8_t *pad;     /* [B] pad rows */
  rd_status failed;
} rdm_step;

struct rd_mpi {
  rd_context *ctx;
  MPI_Comm comm;
  int rank, ranks;
  rdm_step step;
  rdm_peer *peers; /* [ranks] */
  rdm_buffer sends[RDM_SENDS], receives[RDM_RECEIVES], work;
  size_t buffer_floats;
  int64_t piece;          /* tokens of one call of the kernels */
  char failure[RDM_TEXT]; /* of the step, without a rank before it */
  int failure_rank;
  char message[RDM_TEXT + 32];
};

/* Sets the message; returns status. */
rd_status rdm_fail(rd_mpi *m, rd_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* RD_E_SYSTEM with MPI's own text unless code is MPI_SUCCESS. */
rd_status rdm_mpi(rd_mpi *m, int code, const char *what);

/* Every rank's verdict: when one is an error, all return one, their own or that of the lowest rank.
 * `text`: why, where status is an error. Collective. */
rd_status rdm_verdict(rd_mpi *m, rd_status status, const char *text);

#define RDM_TRY(call)                                                                              \
  do {                                                                                             \
    const rd_status rdm_status = (call);                                                           \
    if (rdm_status != RD_OK) return rdm_status;                                                    \
  } while (0)

#endif
