/* Draft trees for the property tests. SPDX-License-Identifier: Apache-2.0 */
#ifndef PT_TREE_H
#define PT_TREE_H

#include "kit.h"

typedef enum tree_kind {
  TREE_CHAIN,
  TREE_ROOTS,      /* every node a child of the checkpoint */
  TREE_STAR,       /* every node a child of node 0 */
  TREE_BINARY,     /* breadth first */
  TREE_BINARY_DFS, /* the same, numbered depth first */
  TREE_FOUR,       /* one root, four chains, numbered chain by chain */
  TREE_FOUR_BFS,   /* the same, numbered level by level */
  TREE_COMB,       /* a chain with a leaf at every node */
  TREE_ATTACHED,   /* each to any node before it, or to the checkpoint */
  TREE_RECENT,     /* each to one of the last three */
  TREE_DFS,        /* a drawn tree numbered depth first, children in any order */
  TREE_BFS,
  TREE_LATE, /* a chain for the first half, attached at random from then on */
  TREE_KINDS
} tree_kind;
const char *tree_name(tree_kind kind);

int32_t *tree_make(tree_kind kind, int64_t n); /* heap, freed by the mark */
int64_t tree_path(const int32_t *parents, int64_t node, int64_t *path); /* returns its length */
int64_t tree_chain(const int32_t *parents, int64_t n); /* nodes before the first not to follow */

/* Gives the call its parents; those of pad pieces and past lengths are nonsense, in a read-only
 * page. trees[i] NULL: a chain spelled out. */
void call_trees(call *c, int32_t *const *trees);
void recs_trees(recs *r); /* gives records room for parents */
/* What verify wrote of them: trees[i] up to the length, 0xff beyond. */
void recs_check_trees(const recs *r, int32_t *const *trees);

#endif
