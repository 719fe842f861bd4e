/* Commit and materialize: the accepted records applied to states, those on a path of a tree.
 *   S <- S diag(decay_i) + u_i k_i'    i = path[0] .. path[m-1] */
#include "core/replay.h"

#include <string.h>

#include "util/checked.h"

/* The record at position i of the path. */
static int64_t record_at(const rdi_item *it, int64_t i) { return it->path ? it->path[i] : i; }

/* k and decay of the path's records i .. i+n-1 as operands, pads +0. A lane keeps what it holds: row blocks
 * and row groups of one head ask for the same again. */
static void load_operands(const rdi_item *it, int64_t i, int64_t n) {
  rdi_lane *lane = it->lane;
  if (lane->held_b == it->b && lane->held_h == it->h && lane->held_i == i) return;
  lane->held_b = it->b, lane->held_h = it->h, lane->held_i = i;
  const rdi_math *m = &it->job->m;
  const rdi_recs *recs = &it->job->prev;
  const int64_t hk = rdi_key_head(m, it->h);
  const size_t pad = (size_t)(m->Kp - m->K) * sizeof(float);
  for (int64_t t = 0; t < n; t++) {
    float *k = lane->pk + t * m->Kp, *a = lane->pa + t * m->Kp;
    it->k->widen(k, rdi_record_at(it, &recs->k, record_at(it, i + t), hk), recs->k.dtype, m->K);
    memset(k + m->K, 0, pad);
    if (!recs->decay.base) continue;
    const int64_t numbers = recs->decay_axis == RD_PER_CHANNEL ? m->K : 1;
    it->k->widen(a, rdi_record_at(it, &recs->decay, record_at(it, i + t), it->h), recs->decay.dtype,
                 numbers);
    for (int64_t c = numbers; c < m->K; c++) a[c] = a[0];
    memset(a + m->K, 0, pad);
  }
}

/* u of the path's records i .. i+n-1, rows [r, r+R) of the item: in place when the records are f32 and
 * follow each other. */
static const float *load_u(const rdi_item *it, int64_t i, int64_t n, int64_t r, int64_t R,
                           int64_t *stride) {
  const rdi_view *u = &it->job->prev.u;
  if (u->dtype == RD_F32 && record_at(it, i + n - 1) - record_at(it, i) == n - 1) {
    *stride = u->st;
    return (const float *)(const void *)rdi_at(rdi_record_at(it, u, record_at(it, i), it->h),
                                               it->r + r, u->dtype);
  }
  *stride = it->lane->Rp;
  for (int64_t t = 0; t < n; t++)
    it->k->widen(it->lane->pu + t * it->lane->Rp,
                 rdi_at(rdi_record_at(it, u, record_at(it, i + t), it->h), it->r + r, u->dtype),
                 u->dtype, R);
  return it->lane->pu;
}

/* Where the updates are done: in memory, by row or by key, or in lane->stage. */
typedef enum form { STAGED, BY_ROW, BY_KEY } form;

static form form_of(const rdi_item *it) {
  const rdi_states *src = it->src.s, *dst = it->dst.s;
  if (rdi_is_plain(src) && rdi_is_plain(dst)) return BY_ROW;
  return rdi_is_by_key(src, it->k) && rdi_is_by_key(dst, it->k) ? BY_KEY : STAGED;
}

/* The rows that are needed after [r, r+R) of the item: its own, or those of the next item. */
static const float *rows_after(const rdi_item *it, int64_t r, int64_t R) {
  return r + R < it->R ? (const float *)(const void *)rdi_rows_from(it->src, r + R).p : it->next;
}

void rdi_replay_rows(const rdi_item *it, int64_t m, int64_t r, int64_t R) {
  const rdi_math *math = &it->job->m;
  const rdi_rows_at src = rdi_rows_from(it->src, r), dst = rdi_rows_from(it->dst, r);
  const form where = form_of(it);
  /* A state in another layout or type is widened once, updated, and rounded once. */
  if (where == STAGED) rdi_load_native(it->k, it->lane->stage, math->Kp, src, R, math->K);
  rdi_commit_args args = {
      .R = R,
      .K = math->K,
      .Kp = math->Kp,
      .s_in = where ? (const float *)(const void *)src.p : it->lane->stage,
      .s_out = where ? (float *)(void *)dst.p : it->lane->stage,
      .in_stride = where ? src.s->sr : math->Kp,
      .out_stride = where ? dst.s->sr : math->Kp,
      .k = it->lane->pk,
      .a = it->job->prev.decay.base ? it->lane->pa : NULL,
      .next = where ? rows_after(it, r, R) : NULL,
  };
  for (int64_t i = 0; i < m; i += RDI_TOKENS) {
    args.m = rdi_min64(m - i, RDI_TOKENS);
    load_operands(it, i, args.m);
    args.u = load_u(it, i, args.m, r, R, &args.u_stride);
    (where == BY_KEY ? it->k->lanes_commit : it->k->commit)(&args);
    args.s_in = args.s_out;
    args.in_stride = args.out_stride;
  }
  if (where == STAGED) rdi_store_native(it->k, dst, it->lane->stage, math->Kp, R, math->K);
}

void rdi_replay_item(const rdi_item *it) {
  const int64_t m = it->replayed;
  if (!it->src.p || !it->dst.p) return; /* pad slot */
  if (m == 0) {
    rdi_copy_rows(it->k, it->dst, it->src, it->lane->stage, it->R, it->job->m.K, it->job->m.Kp);
    return;
  }
  const int whole = m <= RDI_TOKENS && form_of(it) != STAGED;
  const int64_t step = whole ? it->R : RDI_SUB_ROWS;
  for (int64_t r = 0; r < it->R; r += step) rdi_replay_rows(it, m, r, rdi_min64(step, it->R - r));
}
