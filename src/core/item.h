/* A work item: a block of rows of one head of one sequence, and where its data lie. A group is a run
 * of items of one sequence that take turns, a block of tokens each: a token's rows of neighbouring
 * heads share pages and cache lines, and the states of a group stay in the second-level cache. */
#ifndef RDI_CORE_ITEM_H
#define RDI_CORE_ITEM_H

#include "core/lane.h"
#include "core/states.h"
#include "util/tensor.h"

enum { RDI_GROUP = 64 }; /* items of a group, at most */

typedef struct rdi_item {
  const rdi_job *job;
  const rdi_kernels *k;
  rdi_lane *lane;
  float *tile;            /* the running state, where it cannot be in memory: [R][Kp] or panels */
  int64_t b, h, r, R;     /* sequence, value head, first row, rows */
  int64_t start, length;  /* tokens of the sequence */
  const int32_t *parents; /* of its tokens when they are a tree, else NULL */
  int64_t chain;    /* of the tree: nodes before the first that does not follow the one before */
  int64_t replayed; /* records to commit: path[0] ..., or NULL: 0, 1, 2, ... */
  const int32_t *path;
  rdi_rows_at src, dst; /* initial and final */
  const float *next;    /* state of the next item, to prefetch */
} rdi_item;

/* Row of token t of the sequence and head h: of an activation; of records. */
static inline char *rdi_view_at(const rdi_item *it, const rdi_view *v, int64_t t, int64_t h) {
  return rdi_at(v->base, it->b * v->sb + (it->start + t) * v->st + h * v->sh, v->dtype);
}

/* Whether its rows must be gathered: neighbours are not beside each other. */
static inline int rdi_gathers(const rdi_view *v) { return v->base && v->si != 1; }

static inline char *rdi_record_at(const rdi_item *it, const rdi_view *v, int64_t t, int64_t h) {
  return rdi_at(v->base, it->b * v->sb + t * v->st + h * v->sh, v->dtype);
}

#endif
