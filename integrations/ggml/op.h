/* GATED_DELTA_NET of a ggml graph by redelta. SPDX-License-Identifier: Apache-2.0 */
#ifndef REDELTA_GGML_OP_H
#define REDELTA_GGML_OP_H

#include "ggml_abi.h"

typedef struct rdg_runner rdg_runner; /* contexts by thread count, plans by shape */

rdg_runner *rdg_runner_new(void); /* NULL without memory */
void rdg_runner_free(rdg_runner *runner);
void rdg_runner_threads(rdg_runner *runner, int threads);

/* Whether the plugin computes this node: the operator itself, the rows of a state cache (GET_ROWS) and the
 * copy of the operator's states into it (CPY). */
bool rdg_supports(const ggml_tensor *node);

/* Computes the nodes in order. GET_ROWS, operator and CPY that follow one another become one pass over the
 * cache's rows: the states are read and written where they lie. Returns GGML_OK or GGML_FAILED. */
int rdg_compute(rdg_runner *runner, ggml_graph *graph);

#endif
