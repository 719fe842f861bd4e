/* EXACT prefill, decode and verify. Within a block, a segment ends where the state is wanted (a
 * snapshot). The state is worked on where it lies when it is f32 and VK, or KV where there are kernels for
 * that (no extra pass over it), else in tiles of RDI_SUB_ROWS rows of scratch. */
#include "core/exact.h"

#include <string.h>

#include "core/block.h"
#include "core/replay.h"
#include "util/checked.h"

/* Where the state after token t is wanted as a snapshot; p is NULL where it is not. */
static rdi_rows_at snapshot_at(const rdi_item *it, int64_t t) {
  const rdi_job *job = it->job;
  if (!job->snapshots.base) return (rdi_rows_at){NULL, &job->snapshots};
  const int64_t token = job->seq.cu ? it->start + t : it->b * job->seq.T + t;
  return rdi_state_at(&job->snapshots, token, it->h, it->r, job->m.pad_slot);
}

/* Tokens from s on that belong to one segment: up to the next snapshot or the block's end. */
static int64_t segment(const rdi_item *it, const rdi_block *blk, int64_t s, rdi_rows_at *snapshot) {
  *snapshot = (rdi_rows_at){NULL, &it->job->snapshots};
  if (!it->job->snapshots.base) return blk->n - s;
  int64_t n = 0;
  while (s + n < blk->n && !snapshot->p) *snapshot = snapshot_at(it, blk->t + s + n++);
  return n;
}

typedef struct place { /* f32 rows in memory or scratch; by key, rows are keys */
  float *p;
  int64_t stride;
} place;

static place in_memory(rdi_rows_at at) {
  return (place){(float *)(void *)at.p, at.p ? at.s->sr : 0};
}

/* One segment on such rows: from `from` to `to` (to.p NULL: state not wanted). A fresh commit of
 * the rows goes just before, while it still is their only pass through memory. */
static void direct_segment(const rdi_item *it, const rdi_block *blk, int64_t s, int64_t n,
                           int by_key, place from, place to, int64_t commit, const float *next) {
  const int64_t step = commit ? RDI_SUB_ROWS : it->R;
  for (int64_t r = 0; r < it->R; r += step) {
    const int64_t R = rdi_min64(step, it->R - r);
    if (commit) rdi_replay_rows(it, commit, r, R);
    rdi_rows_args args = rdi_block_rows(it, blk, s, n, r, R);
    args.s_in = from.p + (by_key ? r : r * from.stride);
    args.in_stride = from.stride;
    args.s_out = to.p ? to.p + (by_key ? r : r * to.stride) : NULL;
    args.out_stride = to.stride;
    args.next = r + R < it->R ? args.s_in + (by_key ? R : R * from.stride) : next;
    (by_key ? it->k->lanes : it->k->rows)(&args);
  }
}

/* ---------------------------------------------------------------- f32 rows in memory ---------- */

/* By key it is as wide as the item's own rows: those of a row block that is cut short have less room. */
static place tile_of(const rdi_item *it, int by_key) {
  return (place){it->tile, by_key ? (it->R + 15) / 16 * 16 : it->job->m.Kp};
}

static place direct_begin(const rdi_item *it, int by_key) {
  const place from = in_memory(it->src), scratch = tile_of(it, by_key);
  if (from.p) return from;
  memset(it->tile, 0, (size_t)((by_key ? it->job->m.K : it->R) * scratch.stride) * sizeof(float));
  return scratch;
}

/* Tokens from t on, a block of them; the state before in *now, then after. */
static void direct_block(const rdi_item *it, rdi_rows_at dst, int64_t t, int by_key, place *now,
                         int64_t commit) {
  const place scratch = tile_of(it, by_key), final = in_memory(dst);
  const rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->length - t));
  for (int64_t s = 0, n; s < blk.n; s += n) {
    rdi_rows_at snapshot;
    n = segment(it, &blk, s, &snapshot);
    const int last = t + s + n == it->length;
    place to = snapshot.p ? in_memory(snapshot) : final;
    if (!to.p && !last) to = scratch;
    direct_segment(it, &blk, s, n, by_key, *now, to, t + s ? 0 : commit,
                   last || !t ? it->next : NULL);
    if (to.p) *now = to;
  }
  rdi_close_block(it, &blk);
}

static void direct_end(const rdi_item *it, rdi_rows_at dst, int by_key, place now) {
  const place final = in_memory(dst);
  const int64_t K = it->job->m.K, rows = by_key ? K : it->R, width = by_key ? it->R : K;
  if (!final.p || now.p == final.p) return;
  for (int64_t r = 0; r < rows; r++) /* the last token had a snapshot */
    memcpy(final.p + r * final.stride, now.p + r * now.stride, (size_t)width * sizeof(float));
}

/* ---------------------------------------------------------------- any other state ------------- */

static void tiles_block(const rdi_item *it, rdi_rows_at dst, int64_t t, int64_t commit) {
  const rdi_math *m = &it->job->m;
  const rdi_kernels *k = it->k;
  const rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->length - t));
  for (int64_t s = 0, n; s < blk.n; s += n) {
    rdi_rows_at snapshot;
    n = segment(it, &blk, s, &snapshot);
    const int first = t + s == 0, last = t + s + n == it->length;
    for (int64_t r = 0; r < it->R; r += RDI_SUB_ROWS) {
      const int64_t R = rdi_min64(RDI_SUB_ROWS, it->R - r);
      /* With one segment all rows share one tile, which stays in cache. */
      float *tile = it->tile + (first && last ? 0 : r * m->Kp);
      if (first && commit) rdi_replay_rows(it, commit, r, R);
      if (first) rdi_load_native(k, tile, m->Kp, rdi_rows_from(it->src, r), R, m->K);
      rdi_rows_args args = rdi_block_rows(it, &blk, s, n, r, R);
      args.s_in = tile;
      args.in_stride = args.out_stride = m->Kp;
      args.s_out = last && !dst.p && !snapshot.p ? NULL : tile;
      k->rows(&args);
      if (snapshot.p) rdi_store_native(k, rdi_rows_from(snapshot, r), tile, m->Kp, R, m->K);
      if (last && dst.p) rdi_store_native(k, rdi_rows_from(dst, r), tile, m->Kp, R, m->K);
    }
  }
  rdi_close_block(it, &blk);
}

/* ---------------------------------------------------------------- items ----------------------- */

static int is_plain(const rdi_states *s, const rdi_kernels *k) {
  (void)k;
  return rdi_is_plain(s);
}

/* Whether all states of the item that there are lie in a form. */
static int all_lie(const rdi_item *it, rdi_rows_at dst,
                   int (*form)(const rdi_states *s, const rdi_kernels *k)) {
  const rdi_states *snapshots = &it->job->snapshots;
  return (!it->src.p || form(it->src.s, it->k)) && (!dst.p || form(dst.s, it->k)) &&
         (!snapshots->base || form(snapshots, it->k));
}

void rdi_exact_group(const rdi_item *items, int64_t count, int keep, int64_t commit) {
  const rdi_rows_at none = {NULL, &items->job->final};
  const rdi_rows_at first = keep ? items->dst : none;
  const int plain = all_lie(items, first, is_plain);
  const int by_key = !plain && all_lie(items, first, rdi_is_by_key), direct = plain || by_key;
  place now[RDI_GROUP];
  for (int64_t i = 0; i < count && direct; i++) now[i] = direct_begin(&items[i], by_key);
  for (int64_t t = 0; t < items->length; t += RDI_TOKENS)
    for (int64_t i = 0; i < count; i++) {
      const rdi_rows_at dst = keep ? items[i].dst : none;
      rdi_prefetch_turn(items, count, t, i);
      if (direct)
        direct_block(&items[i], dst, t, by_key, &now[i], commit);
      else
        tiles_block(&items[i], dst, t, commit);
    }
  for (int64_t i = 0; i < count && direct; i++)
    direct_end(&items[i], keep ? items[i].dst : none, by_key, now[i]);
}
