/* What an item needs: nothing (pad rows), a copy, a commit, or its tokens, FAST or EXACT. */
#include "core/dispatch.h"

#include <string.h>

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

static void tokens_item(const rdi_item *it) {
  const rdi_job *job = it->job;
  const int64_t length = it->length, rows = job->seq.cu ? length : job->seq.T;
  if (pad_row(job, it->b)) {
    zero_out(it, 0, rows);
    return;
  }
  const int64_t commit = job->verb == RDI_COMMIT_VERIFY ? it->replayed : 0;
  const rdi_rows_at none = {NULL, &job->final};
  const rdi_rows_at dst = rdi_makes_records(job) ? none : it->dst;
  if (length == 0) {
    if (commit)
      rdi_replay_item(it);
    else if (!rdi_makes_records(job))
      rdi_copy_rows(it->k, dst, it->src, it->lane->stage, it->R, job->m.K, job->m.Kp);
  } else if (!rdi_fast_item(it, dst)) {
    if (it->parents)
      rdi_tree_item(it, commit);
    else
      rdi_exact_item(it, dst, commit);
  }
  zero_out(it, length, rows);
}

void rdi_item_run(const rdi_item *it) {
  if (it->job->verb == RDI_COMMIT)
    rdi_replay_item(it);
  else
    tokens_item(it);
}

/* ---------------------------------------------------------------- the item after this one ------ */

static void prefetch(const char *p, int64_t elements, rd_dtype dtype) {
  const char *end = rdi_at((char *)(uintptr_t)p, elements, dtype);
  for (; p < end; p += 64) __builtin_prefetch(p, 0, 2);
}

/* Of an input; one that must be gathered is on a page per element, no use to ask for. */
static void prefetch_row(const rdi_item *it, const rdi_view *v, int64_t t, int64_t h, int64_t first,
                         int64_t n) {
  if (!rdi_gathers(v)) prefetch(rdi_at(rdi_view_at(it, v, t, h), first, v->dtype), n, v->dtype);
}

/* Rows of a few tokens lie on pages of their own, far from one another: no hardware guesses them. */
void rdi_item_prefetch(const rdi_item *it) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const int64_t hk = rdi_key_head(m, it->h);
  const int channels = m->axis == RD_PER_CHANNEL;
  const int64_t tokens = job->verb == RDI_COMMIT ? 0 : rdi_min64(it->length, RDI_TOKENS);
  const int32_t *parents = rdi_record_parents(&job->prev, it->b);
  int64_t record = job->accepted ? (int64_t)job->accepted[it->b] - 1 : -1; /* and those before it */
  for (int64_t t = 0; t < tokens; t++) {
    prefetch_row(it, &job->q, t, hk, 0, m->K);
    prefetch_row(it, &job->k, t, hk, 0, m->K);
    prefetch_row(it, &job->v, t, it->h, it->r, it->R);
    prefetch(rdi_at(rdi_view_at(it, &job->out, t, it->h), it->r, job->out.dtype), it->R,
             job->out.dtype);
    if (job->g.base) prefetch_row(it, &job->g, t, it->h, 0, channels ? m->K : 1);
    if (!rdi_makes_records(job)) continue;
    const rdi_recs *next = &job->next;
    prefetch(rdi_at(rdi_record_at(it, &next->u, t, it->h), it->r, next->u.dtype), it->R,
             next->u.dtype);
    prefetch(rdi_record_at(it, &next->k, t, hk), m->K, next->k.dtype);
    if (next->decay.base)
      prefetch(rdi_record_at(it, &next->decay, t, it->h), channels ? m->K : 1, next->decay.dtype);
  }
  for (int64_t n = 0; n < RDI_TOKENS && record >= 0; n++) {
    const rdi_recs *prev = &job->prev;
    prefetch(rdi_at(rdi_record_at(it, &prev->u, record, it->h), it->r, prev->u.dtype), it->R,
             prev->u.dtype);
    prefetch(rdi_record_at(it, &prev->k, record, hk), m->K, prev->k.dtype);
    if (prev->decay.base)
      prefetch(rdi_record_at(it, &prev->decay, record, it->h), channels ? m->K : 1,
               prev->decay.dtype);
    record = parents ? parents[record] : record - 1;
  }
}
