#include "core/lane.h"

#include "core/states.h"
#include "util/checked.h"

/* Arrays of a lane start at different places of a 4 KiB page, so that their streams do not meet in
 * the same cache sets. */
enum { STAGGER = 5 * 16 }; /* floats */

enum { GROUP_FLOATS = 512 * 1024 / sizeof(float) };

static float *carve(char *memory, size_t *at, int64_t floats) {
  float *p = memory ? (float *)(void *)(memory + *at) : NULL;
  *at += (((size_t)floats * sizeof(float) + 63) & ~(size_t)63) + STAGGER * sizeof(float);
  return p;
}

static void carve_operands(rdi_operands *op, char *memory, size_t *at, int64_t n, int64_t Kp) {
  op->k = carve(memory, at, n * Kp);
  op->a = carve(memory, at, n * Kp);
  op->kt = carve(memory, at, n * Kp);
  op->qt = carve(memory, at, n * Kp);
  op->kq = carve(memory, at, n);
  op->beta = carve(memory, at, n);
}

/* A tree of one piece is walked for a few rows at a time, all of it while their states are in the
 * first-level cache; of a larger one every row's states wait for the next piece. */
static void carve_tree(rdi_lane *lane, char *memory, size_t *at, const rdi_lane_size *size,
                       int64_t rows, int64_t Kp) {
  const int64_t n = rdi_min64(size->nodes, RDI_TREE_NODES);
  carve_operands(&lane->tree.op, memory, at, n, Kp);
  lane->tree.v = carve(memory, at, n * lane->Rp);
  lane->tree.u = carve(memory, at, n * lane->Rp);
  lane->tree.o = carve(memory, at, n * lane->Rp);
  lane->tree.kept_rows = size->nodes > RDI_TREE_NODES ? rows : RDI_SUB_ROWS;
  lane->tree.kept = carve(memory, at, rdi_walk_levels(size->nodes) * lane->tree.kept_rows * Kp);
  const size_t bytes = rdi_walk_layout(&lane->tree.walk, memory ? memory + *at : NULL, size->nodes);
  *at += (bytes + 63) & ~(size_t)63;
}

int64_t rdi_tile_floats(int64_t R, int64_t Kp) {
  return (R + RDI_SUB_ROWS - 1) / RDI_SUB_ROWS * RDI_SUB_ROWS * Kp;
}

static int64_t group_floats(const rdi_lane_size *size, int64_t Kp) {
  const int64_t head = rdi_tile_floats(size->V, Kp);
  if (size->heads > GROUP_FLOATS / head) return rdi_max64(head, GROUP_FLOATS);
  return size->heads * head;
}

size_t rdi_lane_layout(rdi_lane *lane, char *memory, const rdi_kernels *k,
                       const rdi_lane_size *size) {
  const int64_t row_block = size->row_block, K = size->K;
  const int64_t Kp = (K + 15) / 16 * 16, Rp = (row_block + 15) / 16 * 16;
  const int64_t rows = (row_block + RDI_SUB_ROWS - 1) / RDI_SUB_ROWS * RDI_SUB_ROWS;
  size_t at = 0;
  lane->Rp = Rp;
  carve_operands(&lane->op, memory, &at, RDI_TOKENS, Kp);
  lane->v = carve(memory, &at, RDI_TOKENS * Rp);
  lane->u = carve(memory, &at, RDI_TOKENS * Rp);
  lane->o = carve(memory, &at, RDI_TOKENS * Rp);
  lane->gq = lane->gk = lane->gg = lane->gv = NULL;
  if (size->gathers) {
    lane->gq = carve(memory, &at, RDI_TOKENS * Kp);
    lane->gk = carve(memory, &at, RDI_TOKENS * Kp);
    lane->gg = carve(memory, &at, RDI_TOKENS * Kp);
    lane->gv = carve(memory, &at, RDI_TOKENS * Rp);
  }
  lane->pk = carve(memory, &at, RDI_TOKENS * Kp);
  lane->pa = carve(memory, &at, RDI_TOKENS * Kp);
  lane->pu = carve(memory, &at, RDI_TOKENS * Rp);
  lane->tile_floats = group_floats(size, Kp);
  lane->tile = carve(memory, &at, lane->tile_floats);
  lane->stage = carve(memory, &at, RDI_SUB_ROWS * Kp);
  lane->rows =
      carve(memory, &at,
            rdi_max64(k->lanes ? k->lanes_scratch(row_block, K) : 0,
                      rdi_max64(k->rows_scratch(row_block, K), k->rows_scratch(RDI_SUB_ROWS, K))));
  if (k->fast.fold) {
    lane->kh = carve(memory, &at, RDI_FAST_TOKENS * Kp);
    lane->kf = carve(memory, &at, RDI_TOKENS * Kp);
    lane->qf = carve(memory, &at, RDI_TOKENS * Kp);
    lane->P = carve(memory, &at, Kp);
    lane->ck = carve(memory, &at, RDI_TOKENS);
    lane->cq = carve(memory, &at, RDI_TOKENS);
    lane->past_u = carve(memory, &at, RDI_FAST_TOKENS * Rp);
    lane->flat = carve(memory, &at, rows * Kp);
    lane->spread = carve(memory, &at, k->fast.spread ? k->fast.spread_scratch(K) : 0);
    lane->chunk = carve(memory, &at, k->fast.chunk ? k->fast.chunk_scratch(K) : 0);
  }
  if (size->nodes) carve_tree(lane, memory, &at, size, rows, Kp);
  if (size->path) lane->tree.path = (int32_t *)(void *)carve(memory, &at, size->path);
  lane->tree.walked_b = lane->tree.path_b = -1;
  lane->held_b = lane->held_h = lane->held_i = -1;
  return at;
}
