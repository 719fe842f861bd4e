/* cli/load.h - the inputs of run and check. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_CLI_LOAD_H
#define RD_CLI_LOAD_H

#include "cli/ops.h"

enum { LOAD_MAX_SETS = 64 };

/* --set name=file.npy, as often as wanted. */
typedef struct load_sets {
  char *items[LOAD_MAX_SETS]; /* "name=file", in argv */
  int count;
} load_sets;

#define LOAD_SET_OPTION(id)                                                                        \
  {                                                                                                \
    "set", (id) | CLI_REPEATABLE, "NAME=F.npy",                                                    \
        "add or replace a tensor by an npy file (repeatable)"                                      \
  }

int load_set_option(const cli_args *args, load_sets *sets); /* 0 after a message */

/* Reads path and the npy files into `in`. out (may be NULL) must be none of them. Returns an exit
 * status, with a message unless CLI_OK. */
int load_inputs(const char *command, const char *path, const load_sets *sets, const char *out,
                io_file *in);

/* Operator by name, or a message and NULL. */
const op_desc *load_operator(const char *command, const char *name);

#endif
