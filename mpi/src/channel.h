/* mpi/src/channel.h - states on their way, and the word of a failure. SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two ranks arrive in the order of the items, so one tag is enough. A failure closes
 * the way to a rank: it is the last message to it in this step. */
#ifndef RDM_CHANNEL_H
#define RDM_CHANNEL_H

#include "mpi/src/object.h"

/* Buffers for states of that many floats; nothing may be on its way. */
rd_status rdm_reserve(rd_mpi *m, size_t floats);
void rdm_release(rd_mpi *m);

/* Lets MPI move what is on its way: a large message makes no progress while a kernel runs. */
void rdm_progress(rd_mpi *m);

/* A free buffer to send from. NULL: MPI failed. */
rdm_buffer *rdm_send_buffer(rd_mpi *m);
rd_status rdm_send(rd_mpi *m, rdm_buffer *b, int to, int64_t item, int64_t floats);

/* Asks for the next state from a rank, before it is needed. */
rd_status rdm_receive(rd_mpi *m, rdm_buffer *b, int from);
/* Waits for it. A failure that came instead is returned as this step's. */
rd_status rdm_received(rd_mpi *m, rdm_buffer *b, int64_t item, int64_t floats);

/* The step fails with what m->message says, here first or at rank `first`: tells the ranks that wait for
 * this one, and takes what others still send in this step. Returns status. */
rd_status rdm_fail_step(rd_mpi *m, rd_status status, int first);

/* Waits until all that was sent has arrived. */
rd_status rdm_flush(rd_mpi *m);

#endif
