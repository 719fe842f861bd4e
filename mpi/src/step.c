/* Making, ending and asking about steps. */
#include "mpi/src/step.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/src/channel.h"

void rdm_step_free(rd_mpi *m) {
  free(m->step.counts);
  free(m->step.pad);
  m->step = (rdm_step){0};
}

int64_t rdm_count(const rd_mpi *m, int rank, int64_t b) {
  return m->step.counts[(int64_t)rank * m->step.B + b];
}

int rdm_previous(const rd_mpi *m, int64_t b) {
  int r = m->rank - 1;
  while (r >= 0 && rdm_count(m, r, b) == 0) r--;
  return r;
}

int rdm_next(const rd_mpi *m, int64_t b) {
  for (int r = m->rank + 1; r < m->ranks; r++)
    if (rdm_count(m, r, b) > 0) return r;
  return -1;
}

static rd_status failed_before(rd_mpi *m) {
  if (m->failure_rank == m->rank) return rdm_fail(m, m->step.failed, "%s", m->failure);
  return rdm_fail(m, m->step.failed, "rank %d: %s", m->failure_rank, m->failure);
}

void rdm_step_failed(rd_mpi *m, rd_status status) {
  /* The message names its rank already. */
  memcpy(m->failure, m->message, sizeof m->failure - 1);
  m->failure[sizeof m->failure - 1] = '\0';
  m->failure_rank = m->rank;
  m->step.failed = status;
}

rd_status rdm_may_run(rd_mpi *m, const rd_mpi_plan *plan, rd_mpi_form form) {
  const rdm_step *s = &m->step;
  m->message[0] = '\0';
  if (!s->agreed) return rdm_fail(m, RD_E_PRESENCE, "no step has been agreed upon");
  if (s->failed != RD_OK) return failed_before(m);
  if (s->form != (int32_t)form)
    return rdm_fail(m, RD_E_PRESENCE, "the step was agreed upon in the other form");
  if (plan != s->plan) return rdm_fail(m, RD_E_PLAN, "plan: not the one that was agreed upon");
  if (s->done >= s->layers)
    return rdm_fail(m, RD_E_PRESENCE, "all %d layers of the step are done", s->layers);
  return RD_OK;
}

rd_status rd_mpi_finish(rd_mpi *m) {
  if (!m) return RD_E_NULL;
  rdm_step *s = &m->step;
  m->message[0] = '\0';
  if (!s->agreed) return RD_OK;
  rd_status status = s->failed;
  if (status != RD_OK) {
    (void)failed_before(m);
  } else if (s->done < s->layers) {
    status =
        rdm_fail(m, RD_E_PRESENCE, "the step was ended after %d of %d layers", s->done, s->layers);
    if (s->form == RD_MPI_SCAN) /* the others' next call begins with this */
      (void)rdm_verdict(m, status, "the step was ended before its last layer");
    else
      (void)rdm_fail_step(m, status, m->rank);
  }
  const rd_status flushed = rdm_flush(m);
  rdm_step_free(m);
  return status != RD_OK ? status : flushed;
}

rd_status rd_mpi_create(rd_context *ctx, MPI_Comm comm, rd_mpi **out) {
  if (!out) return RD_E_NULL;
  *out = NULL;
  if (!ctx) return RD_E_NULL;
  MPI_Comm own;
  if (MPI_Comm_dup(comm, &own) != MPI_SUCCESS) return RD_E_SYSTEM;
  if (MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN) != MPI_SUCCESS) return RD_E_SYSTEM;
  rd_mpi *m = calloc(1, sizeof *m);
  int ranks = 0, rank = 0, good = 0, all = 0;
  if (MPI_Comm_size(own, &ranks) == MPI_SUCCESS && MPI_Comm_rank(own, &rank) == MPI_SUCCESS && m) {
    m->peers = calloc((size_t)ranks, sizeof *m->peers);
    good = m->peers != NULL;
  }
  const int code = MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, own);
  if (code != MPI_SUCCESS || !all) {
    if (m) free(m->peers);
    free(m);
    (void)MPI_Comm_free(&own);
    return code != MPI_SUCCESS ? RD_E_SYSTEM : RD_E_NOMEM;
  }
  m->ctx = ctx, m->comm = own;
  m->rank = rank, m->ranks = ranks;
  rdm_release(m); /* no buffers yet */
  *out = m;
  return RD_OK;
}

void rd_mpi_destroy(rd_mpi *m) {
  if (!m) return;
  (void)rd_mpi_finish(m);
  rdm_release(m);
  (void)MPI_Comm_free(&m->comm);
  free(m->peers);
  free(m);
}
