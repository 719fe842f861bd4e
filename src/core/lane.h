/* A lane: the scratch that one slice works in. */
#ifndef RDI_CORE_LANE_H
#define RDI_CORE_LANE_H

#include "core/walk.h"
#include "kernels/kernel.h"

typedef struct rdi_operands { /* of n tokens of one head: [n][Kp] and [n] */
  float *k, *a, *kt, *qt, *kq, *beta;
} rdi_operands;

/* What a lane has to hold. */
typedef struct rdi_lane_size {
  int64_t row_block, K;
  int64_t heads, V; /* what bounds the tiles of a group */
  int64_t nodes;    /* of the largest draft tree to verify; 0: chains only */
  int64_t path;     /* of the longest path to replay that is no chain */
  int gathers;      /* some of q, k, v and g have an innermost stride other than 1 */
} rdi_lane_size;

/* Everything is 64-byte aligned. */
typedef struct rdi_lane {
  rdi_operands op;     /* of one block of tokens, RDI_TOKENS */
  float *v, *u, *o;    /* [16][Rp]; unused where the caller's memory serves */
  void *gq, *gk, *gg;  /* [16][Kp] of the caller's type: rows that are no rows in memory; or NULL */
  void *gv;            /* [16][Rp], the same */
  float *pk, *pa, *pu; /* operands of records, as above */
  float *tile;         /* running states of a group of items, tile_floats in all */
  int64_t tile_floats;
  float *stage; /* [SUB_ROWS][Kp] */
  float *rows;  /* what rows_scratch asked for */
  /* FAST only, else NULL: operands of kernels/fast.h (kh of a whole verify), u of its tokens, the
   * state in native rows, what spread_scratch and chunk_scratch asked for */
  float *kh, *kf, *qf, *P, *ck, *cq, *past_u, *flat, *spread, *chunk;
  int64_t Rp;
  int64_t held_b, held_h, held_i; /* record operands in pk and pa: whose, from which record of the
                                     path on */
  struct { /* draft trees only; operands and rows of a piece, in the order of the walk */
    rdi_operands op;
    float *v, *u, *o; /* [RDI_TREE_NODES][Rp] */
    float *kept;      /* blocks of states, kept_rows each; rows of all of them, or of one stretch */
    int64_t kept_rows;
    rdi_walk walk;
    int64_t walked_b; /* whose walk it is, of all nodes; -1: of nobody's */
    int32_t *path;    /* of the records to replay, of sequence path_b */
    int64_t path_b, path_length;
  } tree;
} rdi_lane;

/* Floats of the tile of R rows, and of all tiles of a lane: the states of one head, or of as many as
 * 512 KiB hold, the same on every machine. */
int64_t rdi_tile_floats(int64_t R, int64_t Kp);

/* Lays the arrays out from `memory` on (NULL: only measures) and forgets what was held. Returns the
 * bytes of the lane, which grow with each number of `size`. */
size_t rdi_lane_layout(rdi_lane *lane, char *memory, const rdi_kernels *k,
                       const rdi_lane_size *size);

#endif
