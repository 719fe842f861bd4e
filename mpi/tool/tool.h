/* mpi/tool/tool.h - the tool redelta-mpi. SPDX-License-Identifier: Apache-2.0 */
#ifndef RDM_TOOL_H
#define RDM_TOOL_H

#include "cli/load.h"
#include "redelta/mpi.h"

extern int tool_rank, tool_ranks;

/* The worst exit status of all ranks; rank 0 says which rank it was unless itself failed. Collective. */
int tool_worst(const char *command, int status);

/* Rank 0 reads the file, all ranks get it. Collective; the same exit status everywhere. */
int tool_share(const char *command, const char *path, const load_sets *sets, const char *out,
               io_file *in);

/* Rank 0's tensor becomes the union of all ranks': what a rank did not write is zero bytes. Collective. */
int tool_merge(const char *command, io_tensor *tensor);

/* One rank's part of a bound call. */
typedef struct tool_part {
  rd_problem problem;
  rd_sequences seq;
  rd_activations act;
  rd_slots initial, final;
  int32_t *numbers; /* lengths or cu_seqlens */
} tool_part;

/* Takes this rank's tokens out of a whole call: rows of the token dimension, shared out evenly (RD_FAST:
 * in multiples of 32). Returns an exit status, with a message unless CLI_OK. */
int tool_split(const char *command, const op_call *call, tool_part *part);

/* Rows first .. of the token dimension that are a rank's. */
int64_t tool_first_row(int64_t rows, int rank, int ranks, int64_t grain);

int tool_prefill(int argc, char **argv);
int tool_check(int argc, char **argv);
int tool_bench(int argc, char **argv);

#endif
