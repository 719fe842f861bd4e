/* cli/inputs.h - seeded inputs for every operator. SPDX-License-Identifier: Apache-2.0
 *
 * Every tensor is a stream of its own (io/rng.h, stream = tensor name), element i its number i:
 *   chunk_gated_delta_rule  query, key: N(0,1), each row divided by its length; value N(0,1);
 *                           beta sigmoid(N(0,1)); g -(U(0,1) + 0.01); state 0
 *   the KDA operators       activations, raw gates and beta logits 0.2 N(0,1); states 0.02 N(0,1);
 *                           A_log, dt_bias N(0,1); records to be written -7
 *   commit                  replay_u 0.2 N(0,1); replay_k N(0,1), rows of length 1;
 *                           replay_decay exp(-5 sigmoid(N(0,1)))
 */
#ifndef RD_CLI_INPUTS_H
#define RD_CLI_INPUTS_H

#include "cli/ops.h"

enum { INPUTS_MAX_LENGTHS = 4096 };

typedef struct inputs_spec {
  const op_desc *op;
  int64_t B, Hk, Hv, N, T, K, V, C, R;
  unsigned given; /* bit 1 << (letter's place in inputs_letters()) */
  int64_t lengths[INPUTS_MAX_LENGTHS];
  int length_count;
  rd_dtype dtype;           /* of the activations; RD_ABSENT: f16 or bf16, as the operator has it */
  rd_layout_qkv layout_qkv; /* 0: the operator's default */
  uint64_t seed;
} inputs_spec;

/* Starts a spec with the operator's defaults (op->shape_keys). */
void inputs_init(inputs_spec *spec, const op_desc *op, uint64_t seed);

/* "B=1,Hk=16": IO_BAD with a message for a key the operator does not have, or no number. S is
 * another name of T, and H of N. */
io_status inputs_shape(inputs_spec *spec, const char *text, io_error *err);

/* Makes the tensors. Completes the spec: B from the number of lengths, C and R from the lengths.
 * IO_BAD for what inputs_check refuses. */
io_status inputs_make(inputs_spec *spec, io_file *file, io_error *err);

/* Would the operator take inputs of this completed spec? IO_BAD with a message that names the
 * dimension, else IO_OK. */
io_status inputs_check(const inputs_spec *spec, io_error *err);

#endif
