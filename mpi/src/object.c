/* Errors and verdicts. */
#include "mpi/src/object.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rd_status rdm_fail(rd_mpi *m, rd_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(m->message, sizeof m->message, format, list);
  va_end(list);
  return status;
}

rd_status rdm_mpi(rd_mpi *m, int code, const char *what) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS) return RD_OK;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  text[length] = '\0';
  return rdm_fail(m, RD_E_SYSTEM, "%s: %.150s", what, text);
}

const char *rd_mpi_last_error(const rd_mpi *m) { return m ? m->message : ""; }

typedef struct verdict {
  int32_t status;
  char text[RDM_TEXT];
} verdict;

rd_status rdm_verdict(rd_mpi *m, rd_status status, const char *text) {
  verdict mine = {.status = (int32_t)status}, *all = malloc((size_t)m->ranks * sizeof *all);
  /* Without memory to hear the others, at least they hear of it: the sum of failures needs none. */
  int bad = all == NULL, any = 0;
  rd_status result =
      rdm_mpi(m, MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, m->comm), "MPI_Allreduce");
  if (result == RD_OK && any)
    result = rdm_fail(m, RD_E_NOMEM, "no memory for the verdicts of %d ranks", m->ranks);
  if (result != RD_OK || !all) {
    free(all);
    return result;
  }
  if (status != RD_OK) snprintf(mine.text, sizeof mine.text, "%s", text);
  result = rdm_mpi(
      m, MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, m->comm),
      "MPI_Allgather");
  if (result == RD_OK && status != RD_OK) result = rdm_fail(m, status, "%s", mine.text);
  for (int r = 0; r < m->ranks && result == RD_OK; r++) {
    if (all[r].status == RD_OK) continue;
    all[r].text[RDM_TEXT - 1] = '\0';
    result = rdm_fail(m, (rd_status)all[r].status, "rank %d: %s", r, all[r].text);
  }
  free(all);
  return result;
}
