/* Draft trees as numbers: chains among them, the walk of a verify, the path of a commit. */
#ifndef RDI_CORE_WALK_H
#define RDI_CORE_WALK_H

#include <stddef.h>
#include <stdint.h>

/* Up to so many nodes of a tree are prepared at once; larger ones go in pieces of no more. */
enum { RDI_TREE_NODES = 64 };

/* Nodes 0 .. m-1 that follow each other, up to the first whose parent is another than the node before
 * it. n: it is a chain. */
int64_t rdi_chain_length(const int32_t *parents, int64_t n);

/* A stretch of the walk: nodes order[first] .. order[first+n-1], each the parent of the next. */
typedef struct rdi_segment {
  int32_t first, n;
  int16_t from; /* the kept block that it starts from; -1: the base, which is only read */
  int16_t to;   /* the block its last state goes to, may be `from`; -1: nobody wants it */
} rdi_segment;

/* The order in which a tree is walked: depth first, of each node's children the one with the largest
 * subtree last. That one goes on in the block it starts from; the others leave it as it is and go one
 * level up. So a subtree at level l has at most n / 2^l nodes, and there are at most
 * rdi_walk_levels(n) blocks. */
typedef struct rdi_walk {
  int32_t *order;
  rdi_segment *segments;
  int64_t nodes, count; /* of order; of segments */
  /* Used while the walk is made: */
  int32_t *size, *child, *sibling;
  struct rdi_turn *stack;
} rdi_walk;

int64_t rdi_walk_levels(int64_t n); /* floor(log2 n) + 1; 0 for no nodes */

/* Bytes that a walk of up to n nodes needs, and its arrays in `memory` (8-byte aligned; NULL: only
 * measures). */
size_t rdi_walk_layout(rdi_walk *w, char *memory, int64_t n);

/* The walk of the nodes in [first, n) that descend from `base`, which is -1 or a node before `first`,
 * through nodes from `first` on alone. No segment has more than `longest` nodes. */
void rdi_walk_make(rdi_walk *w, const int32_t *parents, int64_t n, int64_t first, int64_t base,
                   int64_t longest);

/* Nodes on the path from a root to `node` (-1: none); -1 when a parent on it is outside [-1, i). */
int64_t rdi_path_length(const int32_t *parents, int64_t node);
/* That path, of that length. */
void rdi_path_make(int32_t *path, const int32_t *parents, int64_t node, int64_t length);

#endif
