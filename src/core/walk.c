#include "core/walk.h"

/* A node whose subtree is still to be walked. */
typedef struct rdi_turn {
  int32_t node;
  int16_t from, level;
} turn;

int64_t rdi_chain_length(const int32_t *parents, int64_t n) {
  int64_t i = 0;
  while (i < n && parents[i] == i - 1) i++;
  return i;
}

int64_t rdi_walk_levels(int64_t n) {
  int64_t levels = 0;
  for (; n > 0; n /= 2) levels++;
  return levels;
}

/* ---------------------------------------------------------------- memory ---------------------- */

static char *carve(char *memory, size_t *at, size_t bytes) {
  char *p = memory ? memory + *at : NULL;
  *at += (bytes + 7) & ~(size_t)7;
  return p;
}

size_t rdi_walk_layout(rdi_walk *w, char *memory, int64_t n) {
  size_t at = 0;
  const size_t count = (size_t)n, numbers = (count + 1) * sizeof(int32_t);
  w->order = (int32_t *)(void *)carve(memory, &at, numbers);
  w->size = (int32_t *)(void *)carve(memory, &at, numbers);
  w->child = (int32_t *)(void *)carve(memory, &at, numbers); /* of node i at i + 1 */
  w->sibling = (int32_t *)(void *)carve(memory, &at, numbers);
  w->segments = (rdi_segment *)(void *)carve(memory, &at, count * sizeof *w->segments);
  w->stack = (turn *)(void *)carve(memory, &at, count * sizeof *w->stack);
  return at;
}

/* ---------------------------------------------------------------- the walk -------------------- */

/* child[i + 1] and sibling: the children of node i that are walked, the latest first. size: of the
 * subtrees, 0 for nodes that do not belong. */
static void find_children(rdi_walk *w, const int32_t *parents, int64_t n, int64_t first,
                          int64_t base) {
  w->child[base + 1] = -1;
  w->nodes = 0;
  for (int64_t i = first; i < n; i++) {
    const int32_t parent = parents[i];
    const int belongs = parent == base || (parent >= first && w->size[parent]);
    w->size[i] = belongs;
    w->child[i + 1] = -1;
    if (!belongs) continue;
    w->nodes++;
    w->sibling[i] = w->child[parent + 1];
    w->child[parent + 1] = (int32_t)i;
  }
  for (int64_t i = n - 1; i >= first; i--)
    if (w->size[i] && parents[i] >= first) w->size[parents[i]] += w->size[i];
}

/* The children of `node` (the base: in a block of their own each) wait for their turn: the largest is
 * pushed first, so that it comes last, then the others, latest first. */
static int64_t push_children(rdi_walk *w, int64_t depth, int64_t node, int16_t from,
                             int16_t level) {
  int32_t largest = w->child[node + 1];
  for (int32_t c = largest; c >= 0; c = w->sibling[c])
    if (w->size[c] > w->size[largest]) largest = c;
  if (largest < 0) return depth;
  w->stack[depth++] = (turn){largest, from, level};
  const int16_t beside = (int16_t)(from < 0 ? level : level + 1); /* the base needs no care */
  for (int32_t c = w->child[node + 1]; c >= 0; c = w->sibling[c])
    if (c != largest) w->stack[depth++] = (turn){c, from, beside};
  return depth;
}

/* From the turn's node down as long as there is one child. Returns the last node. */
static int32_t walk_down(rdi_walk *w, turn t, int64_t *at, int64_t longest) {
  int32_t node = t.node;
  rdi_segment *s = &w->segments[w->count++];
  *s = (rdi_segment){(int32_t)*at, 0, t.from, t.level};
  for (;;) {
    w->order[(*at)++] = node;
    s->n++;
    const int32_t child = w->child[node + 1];
    if (child < 0 || w->sibling[child] >= 0) {
      if (child < 0) s->to = -1;
      return node;
    }
    node = child;
    if (s->n < longest) continue;
    s = &w->segments[w->count++];
    *s = (rdi_segment){(int32_t)*at, 0, t.level, t.level};
  }
}

void rdi_walk_make(rdi_walk *w, const int32_t *parents, int64_t n, int64_t first, int64_t base,
                   int64_t longest) {
  find_children(w, parents, n, first, base);
  w->count = 0;
  int64_t at = 0, depth = push_children(w, 0, base, -1, 0);
  while (depth > 0) {
    const turn t = w->stack[--depth];
    const int32_t last = walk_down(w, t, &at, longest);
    depth = push_children(w, depth, last, t.level, t.level);
  }
}

/* ---------------------------------------------------------------- paths ----------------------- */

int64_t rdi_path_length(const int32_t *parents, int64_t node) {
  int64_t length = 0;
  while (node >= 0) {
    const int64_t parent = parents[node];
    if (parent < -1 || parent >= node) return -1;
    node = parent;
    length++;
  }
  return length;
}

void rdi_path_make(int32_t *path, const int32_t *parents, int64_t node, int64_t length) {
  for (int64_t i = length - 1; i >= 0; i--) {
    path[i] = (int32_t)node;
    node = parents[node];
  }
}
