/* What items need: nothing (pad rows), a copy, a commit, or its tokens, FAST or EXACT. */
#include "core/dispatch.h"

#include <string.h>

#include "core/block.h"
#include "core/exact.h"
#include "core/fast.h"
#include "core/replay.h"
#include "core/tree.h"
#include "util/checked.h"

/* +0 into the item's columns of output rows [from, to) of its sequence. */
static void zero_out(const rdi_item *it, int64_t from, int64_t to) {
  const rdi_view *out = &it->job->out;
  const size_t bytes = (size_t)it->R * rd_dtype_size(out->dtype);
  for (int64_t t = from; t < to; t++)
    memset(rdi_at(rdi_view_at(it, out, t, it->h), it->r, out->dtype), 0, bytes);
}

/* A sequence whose read slot is the pad slot: a row of the batch that stands for nothing. In a
 * prefill a pad slot to start from means zeros, so there the final slot of the same pool must be
 * one, too. */
static int pad_row(const rdi_job *job, int64_t b) {
  if (!rdi_is_pad(&job->initial, b, job->m.pad_slot)) return 0;
  if (job->verb != RDI_PREFILL) return 1;
  return job->final.base == job->initial.base && rdi_is_pad(&job->final, b, job->m.pad_slot);
}

static void tokens_group(const rdi_item *items, int64_t count) {
  const rdi_item *it = items;
  const rdi_job *job = it->job;
  const int64_t length = it->length, rows = job->seq.cu ? length : job->seq.T;
  const int keep = !rdi_makes_records(job), pad = pad_row(job, it->b);
  const int64_t commit = job->verb == RDI_COMMIT_VERIFY ? it->replayed : 0;
  if (pad) {
    /* stands for nothing: zeros, below */
  } else if (length == 0) { /* never in a group of more than one */
    if (commit)
      rdi_replay_item(it);
    else if (keep)
      rdi_copy_rows(it->k, it->dst, it->src, it->lane->stage, it->R, job->m.K, job->m.Kp);
  } else if (rdi_fast_serves(job, it->k, length)) {
    rdi_fast_group(items, count);
  } else if (it->parents) {
    rdi_tree_item(it, commit);
  } else {
    rdi_exact_group(items, count, keep, commit);
  }
  for (int64_t i = 0; i < count; i++) zero_out(&items[i], pad ? 0 : length, rows);
}

int rdi_item_groups(const rdi_item *it) {
  const rdi_job *job = it->job;
  if (job->verb == RDI_COMMIT || job->verb == RDI_COMMIT_VERIFY) return 0;
  if (it->parents || it->length <= RDI_TOKENS || pad_row(job, it->b)) return 0;
  return job->verb == RDI_PREFILL || !rdi_fast_serves(job, it->k, it->length);
}

void rdi_group_run(const rdi_item *items, int64_t count) {
  if (items->job->verb == RDI_COMMIT)
    rdi_replay_item(items);
  else
    tokens_group(items, count);
}

/* ---------------------------------------------------------------- the item after this one ------ */

void rdi_item_prefetch(const rdi_item *it) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const int64_t hk = rdi_key_head(m, it->h);
  const int channels = m->axis == RD_PER_CHANNEL;
  const int32_t *parents = rdi_record_parents(&job->prev, it->b);
  int64_t record = job->accepted ? (int64_t)job->accepted[it->b] - 1 : -1; /* and those before it */
  if (job->verb != RDI_COMMIT) rdi_block_prefetch(it, 0);
  for (int64_t n = 0; n < RDI_TOKENS && record >= 0; n++) {
    const rdi_recs *prev = &job->prev;
    rdi_prefetch(rdi_at(rdi_record_at(it, &prev->u, record, it->h), it->r, prev->u.dtype), it->R,
                 prev->u.dtype);
    rdi_prefetch(rdi_record_at(it, &prev->k, record, hk), m->K, prev->k.dtype);
    if (prev->decay.base)
      rdi_prefetch(rdi_record_at(it, &prev->decay, record, it->h), channels ? m->K : 1,
                   prev->decay.dtype);
    record = parents ? parents[record] : record - 1;
  }
}
