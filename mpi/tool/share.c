/* What ranks tell each other beside the states. */
#include <stdlib.h>
#include <string.h>

#include "mpi/tool/tool.h"

enum { CHUNK = 1 << 28 }; /* bytes of one call: counts are ints */

int tool_worst(const char *command, int status) {
  struct {
    int status, rank;
  } mine = {status, -tool_rank}, worst;
  MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
  if (worst.status != CLI_OK && status == CLI_OK)
    cli_fail(command, 0, "rank %d failed with status %d", abs(worst.rank), worst.status);
  return worst.status;
}

static void broadcast(void *data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += CHUNK) {
    const uint64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
    MPI_Bcast((char *)data + at, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
}

/* What describes a tensor; the data follow. */
typedef struct described {
  char name[512], dtype[32];
  int32_t rank;
  int32_t unused;
  int64_t shape[IO_MAX_RANK];
  uint64_t bytes;
} described;

static int describe(const io_tensor *t, described *d) {
  memset(d, 0, sizeof *d);
  if (strlen(t->name) >= sizeof d->name || strlen(t->dtype->name) >= sizeof d->dtype) return 0;
  memcpy(d->name, t->name, strlen(t->name));
  memcpy(d->dtype, t->dtype->name, strlen(t->dtype->name));
  d->rank = t->rank;
  memcpy(d->shape, t->shape, sizeof d->shape);
  d->bytes = t->bytes;
  return 1;
}

/* Tensors that no operator takes stay at home. */
static int is_sent(const io_tensor *t) { return t->dtype->rd != RD_ABSENT; }

int tool_share(const char *command, const char *path, const load_sets *sets, const char *out,
               io_file *in) {
  io_error err;
  uint64_t count = 0;
  int status = tool_rank == 0 ? load_inputs(command, path, sets, out, in) : CLI_OK;
  if ((status = tool_worst(command, status)) != CLI_OK) return status;
  for (size_t i = 0; i < in->count; i++) count += (uint64_t)is_sent(&in->tensors[i]);
  broadcast(&count, sizeof count);
  for (uint64_t i = 0, next = 0; i < count; i++) {
    described d;
    io_tensor *t = NULL;
    if (tool_rank == 0) {
      while (!is_sent(&in->tensors[next])) next++;
      t = &in->tensors[next++];
      if (!describe(t, &d))
        status = cli_fail(command, CLI_BAD, "tensor %.40s...: name too long", t->name);
    }
    if ((status = tool_worst(command, status)) != CLI_OK) return status;
    broadcast(&d, sizeof d);
    if (tool_rank != 0) {
      const io_status added =
          io_file_add(in, d.name, io_dtype_by_name(d.dtype), d.rank, d.shape, &t, &err);
      if (added != IO_OK) status = cli_fail(command, (int)added, "%s", err.text);
    }
    if ((status = tool_worst(command, status)) != CLI_OK) return status;
    broadcast(t->data, d.bytes);
  }
  return CLI_OK;
}

int tool_merge(const char *command, io_tensor *tensor) {
  for (uint64_t at = 0; at < tensor->bytes; at += CHUNK) {
    const uint64_t n = tensor->bytes - at < CHUNK ? tensor->bytes - at : CHUNK;
    char *data = (char *)tensor->data + at;
    const int code =
        tool_rank == 0
            ? MPI_Reduce(MPI_IN_PLACE, data, (int)n, MPI_BYTE, MPI_BOR, 0, MPI_COMM_WORLD)
            : MPI_Reduce(data, NULL, (int)n, MPI_BYTE, MPI_BOR, 0, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) return cli_fail(command, CLI_SYSTEM, "MPI_Reduce failed");
  }
  return CLI_OK;
}
