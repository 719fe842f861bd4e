/* Messages upwards: buffers, order, failures. */
#include "mpi/src/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 17 };

static rdm_buffer *buffer(rd_mpi *m, int i) {
  if (i < RDM_SENDS) return &m->sends[i];
  i -= RDM_SENDS;
  return i < RDM_RECEIVES ? &m->receives[i] : i == RDM_RECEIVES ? &m->work : NULL;
}

void rdm_release(rd_mpi *m) {
  for (int i = 0; buffer(m, i); i++) {
    free(buffer(m, i)->header);
    *buffer(m, i) = (rdm_buffer){.request = MPI_REQUEST_NULL, .peer = -1};
  }
  m->buffer_floats = 0;
}

rd_status rdm_reserve(rd_mpi *m, size_t floats) {
  if (floats <= m->buffer_floats) return RD_OK;
  rdm_release(m);
  const size_t bytes = (sizeof(rdm_header) + floats * sizeof(float) + 63) / 64 * 64;
  for (int i = 0; buffer(m, i); i++) {
    buffer(m, i)->header = aligned_alloc(64, bytes);
    if (!buffer(m, i)->header) {
      rdm_release(m);
      return rdm_fail(m, RD_E_NOMEM, "no memory for states on their way");
    }
    memset(buffer(m, i)->header, 0, bytes);
  }
  m->buffer_floats = floats;
  return RD_OK;
}

void rdm_progress(rd_mpi *m) {
  MPI_Request all[RDM_SENDS + RDM_RECEIVES];
  int n = 0, done = 0;
  for (int i = 0; i < RDM_SENDS + RDM_RECEIVES; i++)
    if (buffer(m, i)->request != MPI_REQUEST_NULL) all[n++] = buffer(m, i)->request;
  /* Requests that are done stay until somebody waits for them: MPI_Request_get_status frees none. */
  for (int i = 0; i < n; i++) (void)MPI_Request_get_status(all[i], &done, MPI_STATUS_IGNORE);
}

rdm_buffer *rdm_send_buffer(rd_mpi *m) {
  MPI_Request all[RDM_SENDS];
  int index;
  for (int i = 0; i < RDM_SENDS; i++) {
    if (m->sends[i].request == MPI_REQUEST_NULL) return &m->sends[i];
    all[i] = m->sends[i].request;
  }
  if (rdm_mpi(m, MPI_Waitany(RDM_SENDS, all, &index, MPI_STATUS_IGNORE), "MPI_Waitany") != RD_OK)
    return NULL;
  m->sends[index].request = MPI_REQUEST_NULL;
  return &m->sends[index];
}

rd_status rdm_send(rd_mpi *m, rdm_buffer *b, int to, int64_t item, int64_t floats) {
  rdm_header *h = b->header;
  h->status = RD_OK;
  h->rank = m->rank;
  h->layer = m->step.done, h->item = item, h->floats = floats;
  h->text[0] = '\0';
  const int bytes = (int)(sizeof *h + (size_t)floats * sizeof(float));
  m->peers[to].sent++;
  return rdm_mpi(m, MPI_Isend(h, bytes, MPI_BYTE, to, TAG, m->comm, &b->request), "MPI_Isend");
}

rd_status rdm_receive(rd_mpi *m, rdm_buffer *b, int from) {
  const int bytes = (int)(sizeof(rdm_header) + m->buffer_floats * sizeof(float));
  b->peer = from;
  return rdm_mpi(m, MPI_Irecv(b->header, bytes, MPI_BYTE, from, TAG, m->comm, &b->request),
                 "MPI_Irecv");
}

/* One message is in; keeps the books. 1: it was a failure. */
static int arrived(rd_mpi *m, const rdm_header *h, int from) {
  rdm_peer *p = &m->peers[from];
  p->got++;
  p->closed_in = h->status != RD_OK;
  return p->closed_in;
}

static rd_status wait_for(rd_mpi *m, rdm_buffer *b) {
  const rd_status status = rdm_mpi(m, MPI_Wait(&b->request, MPI_STATUS_IGNORE), "MPI_Wait");
  b->request = MPI_REQUEST_NULL;
  return status;
}

rd_status rdm_received(rd_mpi *m, rdm_buffer *b, int64_t item, int64_t floats) {
  rdm_header *h = b->header;
  const int from = b->peer;
  RDM_TRY(wait_for(m, b));
  b->peer = -1;
  if (arrived(m, h, from)) {
    h->text[RDM_TEXT - 1] = '\0';
    rdm_fail(m, (rd_status)h->status, "%s", h->text);
    return rdm_fail_step(m, (rd_status)h->status, h->rank);
  }
  if (h->layer == m->step.done && h->item == item && h->floats == floats) return RD_OK;
  rdm_fail(m, RD_E_SYSTEM,
           "item %lld of layer %lld came from rank %d, expected item %lld of layer %d",
           (long long)h->item, (long long)h->layer, from, (long long)item, m->step.done);
  return rdm_fail_step(m, RD_E_SYSTEM, m->rank);
}

/* ---------------------------------------------------------------- failure --------------------- */

static void tell(rd_mpi *m, int to) {
  rdm_peer *p = &m->peers[to];
  if (p->closed_out || p->sent >= p->owed) return;
  rdm_buffer *b = rdm_send_buffer(m);
  if (!b) return;
  rdm_header *h = b->header;
  *h = (rdm_header){.status = (int32_t)m->step.failed, .rank = m->failure_rank};
  snprintf(h->text, sizeof h->text, "%s", m->failure);
  p->closed_out = 1;
  (void)MPI_Isend(h, (int)sizeof *h, MPI_BYTE, to, TAG, m->comm, &b->request);
}

/* Messages that are still to come, and how many of them a receive waits for by name. */
static int64_t outstanding(const rd_mpi *m, int64_t *named) {
  int64_t n = 0;
  *named = 0;
  for (int r = 0; r < m->rank; r++)
    if (!m->peers[r].closed_in) n += m->peers[r].expected - m->peers[r].got;
  for (int i = 0; i < RDM_RECEIVES; i++)
    *named += m->receives[i].peer >= 0 && !m->peers[m->receives[i].peer].closed_in;
  return n;
}

/* Takes one message of whichever rank it is: waiting for one of them would hold up the others, who may
 * wait for each other through this rank. */
static rd_status take_any(rd_mpi *m, int64_t unnamed) {
  rdm_buffer *from[RDM_RECEIVES + 1];
  MPI_Request all[RDM_RECEIVES + 1];
  int n = 0, index = 0;
  for (int i = 0; i < RDM_RECEIVES; i++)
    if (m->receives[i].peer >= 0 && !m->peers[m->receives[i].peer].closed_in)
      from[n++] = &m->receives[i];
  if (m->work.request == MPI_REQUEST_NULL && unnamed > 0)
    RDM_TRY(rdm_receive(m, &m->work, MPI_ANY_SOURCE)); /* nobody computes in it any more */
  if (m->work.request != MPI_REQUEST_NULL) from[n++] = &m->work;
  for (int i = 0; i < n; i++) all[i] = from[i]->request;
  MPI_Status status;
  RDM_TRY(rdm_mpi(m, MPI_Waitany(n, all, &index, &status), "MPI_Waitany"));
  from[index]->request = MPI_REQUEST_NULL;
  from[index]->peer = -1;
  (void)arrived(m, from[index]->header, status.MPI_SOURCE);
  return RD_OK;
}

/* A receive that is left over would take a message of the next step. */
static void give_up(rdm_buffer *b) {
  if (b->request != MPI_REQUEST_NULL) {
    (void)MPI_Cancel(&b->request);
    (void)MPI_Wait(&b->request, MPI_STATUS_IGNORE);
  }
  b->request = MPI_REQUEST_NULL;
  b->peer = -1;
}

static void drain(rd_mpi *m) {
  int64_t named;
  for (int64_t n; (n = outstanding(m, &named)) > 0;)
    if (take_any(m, n - named) != RD_OK) break;
  for (int i = 0; i < RDM_RECEIVES; i++) give_up(&m->receives[i]);
  give_up(&m->work);
}

rd_status rdm_fail_step(rd_mpi *m, rd_status status, int first) {
  snprintf(m->failure, sizeof m->failure, "%.*s", RDM_TEXT - 1, m->message);
  m->failure_rank = first;
  m->step.failed = status;
  for (int r = m->rank + 1; r < m->ranks; r++) tell(m, r);
  drain(m);
  if (first == m->rank) return rdm_fail(m, status, "%s", m->failure);
  return rdm_fail(m, status, "rank %d: %s", first, m->failure);
}

rd_status rdm_flush(rd_mpi *m) {
  rd_status status = RD_OK;
  for (int i = 0; i < RDM_SENDS; i++) {
    if (m->sends[i].request == MPI_REQUEST_NULL) continue;
    const rd_status one = wait_for(m, &m->sends[i]);
    if (status == RD_OK) status = one;
  }
  return status;
}
