/* bench/world.h - the tensors of one case. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_BENCH_WORLD_H
#define RD_BENCH_WORLD_H

#include "bench/bench.h"

typedef struct bench_world {
  bench_spec spec;
  int64_t B, Hk, Hv;
  rd_context *ctx;
  rd_plan *plan;
  rd_problem problem;
  rd_sequences seq;
  rd_activations act;
  rd_slots state;
  rd_records made, next; /* made: as a verify left it, copied before each commit */
  rd_tensor accepted;
  int32_t *lengths[2], *counts;
  void *memory[32];
  int blocks;
} bench_world;

/* Of the node in a tree of that shape. */
int32_t bench_tree_parent(int32_t tree, int32_t node, int32_t nodes);

/* Heads that make the level's working set. */
size_t bench_dram_bytes(void);

/* f32_out: for the error against double. NULL on failure. */
bench_world *bench_world_open(const bench_spec *spec, int f32_out);
void bench_world_close(bench_world *w);

/* The verb once over all sequences and heads. */
rd_status bench_world_run(bench_world *w);

/* Relative L2 of outputs (commit: states) against double; -1 when memory ran out. */
double bench_world_error(bench_world *w);

#endif
