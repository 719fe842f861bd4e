/* EXACT prefill, decode and verify. Within a block, a segment ends where the state is wanted (a
 * snapshot). The state is worked on where it lies when it is f32 and VK (no extra pass over it), else
 * in tiles of RDI_SUB_ROWS rows of scratch. */
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

typedef struct place { /* f32 rows in memory or scratch */
  float *p;
  int64_t stride;
} place;

static place in_memory(rdi_rows_at at) {
  return (place){(float *)(void *)at.p, at.p ? at.s->sr : 0};
}

/* One segment on such rows: from `from` to `to` (to.p NULL: state not wanted). A fresh commit of
 * the rows goes just before, while it still is their only pass through memory. */
static void direct_segment(const rdi_item *it, const rdi_block *blk, int64_t s, int64_t n,
                           place from, place to, int64_t commit, const float *next) {
  const int64_t step = commit ? RDI_SUB_ROWS : it->R;
  for (int64_t r = 0; r < it->R; r += step) {
    const int64_t R = rdi_min64(step, it->R - r);
    if (commit) rdi_replay_rows(it, commit, r, R);
    rdi_rows_args args = rdi_block_rows(it, blk, s, n, r, R);
    args.s_in = from.p + r * from.stride;
    args.in_stride = from.stride;
    args.s_out = to.p ? to.p + r * to.stride : NULL;
    args.out_stride = to.stride;
    args.next = r + R < it->R ? args.s_in + R * from.stride : next;
    it->k->rows(&args);
  }
}

static void run_direct(const rdi_item *it, rdi_rows_at dst, int64_t commit) {
  const int64_t Kp = it->job->m.Kp;
  const place scratch = {it->lane->tile, Kp}, final = in_memory(dst);
  place now = in_memory(it->src);
  if (!now.p) {
    memset(scratch.p, 0, (size_t)(it->R * Kp) * sizeof *scratch.p);
    now = scratch;
  }
  for (int64_t t = 0; t < it->length; t += RDI_TOKENS) {
    const rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->length - t));
    for (int64_t s = 0, n; s < blk.n; s += n) {
      rdi_rows_at snapshot;
      n = segment(it, &blk, s, &snapshot);
      const int last = t + s + n == it->length;
      place to = snapshot.p ? in_memory(snapshot) : final;
      if (!to.p && !last) to = scratch;
      direct_segment(it, &blk, s, n, now, to, commit, last ? it->next : NULL);
      commit = 0;
      if (to.p) now = to;
    }
    rdi_close_block(it, &blk);
  }
  if (final.p && now.p != final.p) /* the last token had a snapshot */
    for (int64_t r = 0; r < it->R; r++)
      memcpy(final.p + r * final.stride, now.p + r * now.stride,
             (size_t)it->job->m.K * sizeof(float));
}

static void run_tiles(const rdi_item *it, rdi_rows_at dst, int64_t commit) {
  const rdi_math *m = &it->job->m;
  const rdi_kernels *k = it->k;
  rdi_lane *lane = it->lane;
  for (int64_t t = 0; t < it->length; t += RDI_TOKENS) {
    const rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->length - t));
    for (int64_t s = 0, n; s < blk.n; s += n) {
      rdi_rows_at snapshot;
      n = segment(it, &blk, s, &snapshot);
      const int first = t + s == 0, last = t + s + n == it->length;
      for (int64_t r = 0; r < it->R; r += RDI_SUB_ROWS) {
        const int64_t R = rdi_min64(RDI_SUB_ROWS, it->R - r);
        /* With one segment all rows share one tile, which stays in cache. */
        float *tile = lane->tile + (first && last ? 0 : r * m->Kp);
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
}

void rdi_exact_item(const rdi_item *it, rdi_rows_at dst, int64_t commit) {
  const rdi_states *snapshots = &it->job->snapshots;
  if ((!it->src.p || rdi_is_plain(it->src.s)) && (!dst.p || rdi_is_plain(dst.s)) &&
      (!snapshots->base || rdi_is_plain(snapshots)))
    run_direct(it, dst, commit);
  else
    run_tiles(it, dst, commit);
}
