/* Draft trees for the property tests. SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

const char *tree_name(tree_kind kind) {
  static const char *const names[] = {
      "chain", "roots",    "star",   "binary",      "binary depth first", "four", "four by level",
      "comb",  "attached", "recent", "depth first", "breadth first",      "late"};
  return kind < TREE_KINDS ? names[kind] : "?";
}

/* The same tree under other numbers: number[i] of node i; a parent's is the smaller. */
static void renumber(int32_t *parents, const int32_t *number, int64_t n) {
  int32_t *old = mem_heap(Z(n) * sizeof *old);
  memcpy(old, parents, Z(n) * sizeof *old);
  for (int64_t i = 0; i < n; i++) parents[number[i]] = old[i] < 0 ? -1 : number[old[i]];
}

static int32_t number_depth_first(const int32_t *parents, int64_t n, int64_t node, int32_t next,
                                  int32_t *number) {
  if (node >= 0) number[node] = next++;
  const int64_t turn = n ? rng_int(0, n - 1) : 0; /* children in any order */
  for (int64_t j = 0; j < n; j++) {
    const int64_t i = (j + turn) % n;
    if (parents[i] == node) next = number_depth_first(parents, n, i, next, number);
  }
  return next;
}

static void number_levels(const int32_t *parents, int64_t n, int32_t *number) {
  int64_t *depth = mem_heap(Z(n) * sizeof *depth);
  int32_t next = 0;
  for (int64_t i = 0; i < n; i++) depth[i] = parents[i] < 0 ? 0 : depth[parents[i]] + 1;
  for (int64_t level = 0; next < n; level++)
    for (int64_t i = 0; i < n; i++)
      if (depth[i] == level) number[i] = next++;
}

static int64_t parent_of(tree_kind kind, int64_t i, int64_t n) {
  const int64_t arm = n > 4 ? (n - 1 + 3) / 4 : 1;
  switch (kind) {
  case TREE_ROOTS:
    return -1;
  case TREE_STAR:
    return i ? 0 : -1;
  case TREE_BINARY:
  case TREE_BINARY_DFS:
    return i ? (i - 1) / 2 : -1;
  case TREE_FOUR:
  case TREE_FOUR_BFS:
    return i ? ((i - 1) % arm ? i - 1 : 0) : -1;
  case TREE_COMB:
    return i < 2 ? i - 1 : i % 2 ? i - 1 : i - 2;
  case TREE_ATTACHED:
  case TREE_DFS:
  case TREE_BFS:
    return rng_int(-1, i - 1);
  case TREE_RECENT:
    return rng_int(i < 4 ? -1 : i - 3, i - 1);
  case TREE_LATE:
    return i < n / 2 ? i - 1 : rng_int(-1, i - 1);
  default:
    return i - 1;
  }
}

int32_t *tree_make(tree_kind kind, int64_t n) {
  int32_t *parents = mem_heap(Z(n + 1) * sizeof *parents);
  int32_t *number = mem_heap(Z(n + 1) * sizeof *number);
  for (int64_t i = 0; i < n; i++) parents[i] = (int32_t)parent_of(kind, i, n);
  if (kind == TREE_BINARY_DFS || kind == TREE_DFS) {
    number_depth_first(parents, n, -1, 0, number);
    renumber(parents, number, n);
  }
  if (kind == TREE_FOUR_BFS || kind == TREE_BFS) {
    number_levels(parents, n, number);
    renumber(parents, number, n);
  }
  return parents;
}

int64_t tree_path(const int32_t *parents, int64_t node, int64_t *path) {
  int64_t length = 0;
  for (int64_t i = node; i >= 0; i = parents[i]) length++;
  for (int64_t i = length; i-- > 0; node = parents[node]) path[i] = node;
  return length;
}

int64_t tree_chain(const int32_t *parents, int64_t n) {
  int64_t i = 0;
  while (i < n && parents[i] == i - 1) i++;
  return i;
}

void call_trees(call *c, int32_t *const *trees) {
  const bool packed = c->p.layout == RD_PACKED;
  const int64_t shape[2] = {c->B, c->T};
  tb t = tb_make(RD_I32, packed ? 1 : 2, packed ? shape + 1 : shape, NULL);
  int32_t *x = (void *)t.b->p;
  for (size_t i = 0; i < t.b->bytes / sizeof *x; i++) x[i] = (int32_t)rng_u64();
  for (int64_t b = 0; b < c->B; b++)
    for (int64_t i = 0; c->pc[b].seq >= 0 && i < c->pc[b].len; i++)
      x[packed ? c->row0[b] + i : b * c->T + i] = trees[b] ? trees[b][i] : (int32_t)i - 1;
  mem_readonly(t.b);
  c->seq.parents = t.t;
}

void recs_trees(recs *r) {
  const int64_t shape[2] = {r->B, r->C}, stride[2] = {r->C + 3, 1};
  r->parents = tb_make(RD_I32, 2, shape, stride);
  r->r.parents = r->parents.t;
}

void recs_check_trees(const recs *r, int32_t *const *trees) {
  for (int64_t b = 0; b < r->B; b++)
    for (int64_t i = 0; i < r->C; i++) {
      const int32_t got = *(int32_t *)tb_at(&r->parents.t, b, i, 0, 0);
      const int32_t want = i >= r->r.lengths[b] ? -1
                           : trees && trees[b]  ? trees[b][i]
                                                : (int32_t)i - 1;
      if (got != want)
        pt_fail("recorded parent of sequence %lld, node %lld: got %d, want %d", (long long)b,
                (long long)i, got, want);
    }
}
