/* Prefill, decode and verify of one item: rows [r, r+R) of one head through all tokens of one
 * sequence. Tokens go in blocks of RDI_TOKENS whose operands stay in cache; within a block, a
 * segment ends where the state is wanted (a snapshot). The state is worked on where it lies when it
 * is f32 and VK (no extra pass over it), else in tiles of RDI_SUB_ROWS rows of scratch. */
#include <string.h>

#include "core/run.h"
#include "kernels/c1.h"
#include "util/checked.h"

static int records(const rdi_job *job) {
  return job->verb == RDI_VERIFY || job->verb == RDI_COMMIT_VERIFY;
}

static int64_t key_head(const rdi_math *m, int64_t h) {
  return m->head_map == RD_HEADS_GROUPED ? h / (m->Hv / m->Hk) : h % m->Hk;
}

static int first_of_group(const rdi_math *m, int64_t h) {
  return m->head_map == RD_HEADS_GROUPED ? h % (m->Hv / m->Hk) == 0 : h < m->Hk;
}

static char *view_at(const rdi_item *it, const rdi_view *v, int64_t t, int64_t h) {
  return rdi_at(v->base, it->b * v->sb + (it->start + t) * v->st + h * v->sh, v->dtype);
}

static char *record_at(const rdi_item *it, const rdi_record_view *v, int64_t t, int64_t h) {
  return rdi_at(v->base, it->b * v->sb + t * v->st + h * v->sh, v->dtype);
}

static void prepare(const rdi_item *it, const rdi_block *blk) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const int64_t hk = key_head(m, it->h);
  const int raw = m->gate == RD_GATE_LOWER_BOUND || m->gate == RD_GATE_SOFTPLUS;
  it->k->prep(&(rdi_prep_args){
      .n = blk->n,
      .K = m->K,
      .Kp = m->Kp,
      .q = view_at(it, &job->q, blk->t, hk),
      .k = view_at(it, &job->k, blk->t, hk),
      .q_stride = job->q.st,
      .k_stride = job->k.st,
      .qk_dtype = job->q.dtype,
      .l2norm = m->l2norm,
      .eps = m->eps,
      .scale = m->scale,
      .gate = m->gate,
      .axis = m->axis,
      .g = job->g.base ? view_at(it, &job->g, blk->t, it->h) : NULL,
      .g_stride = job->g.st,
      .g_dtype = job->g.dtype,
      .lb = m->lb,
      .eA = raw ? rdi_eA_c(job->A_log[it->h * job->A_log_stride]) : 0.0f,
      .dt = raw ? job->dt_bias + it->h * job->dt_stride : NULL,
      .beta = view_at(it, &job->beta, blk->t, it->h),
      .beta_stride = job->beta.st,
      .beta_dtype = job->beta.dtype,
      .beta_kind = m->beta_kind,
      .beta_times = m->beta_times,
      .k_out = it->lane->k,
      .a_out = it->lane->a,
      .kt_out = it->lane->kt,
      .qt_out = it->lane->qt,
      .kq_out = it->lane->kq,
      .beta_out = it->lane->beta,
  });
}

/* Operands and v of tokens [t, t+n); u and o go to the caller's memory at once when it is f32. */
rdi_block rdi_open_block(const rdi_item *it, int64_t t, int64_t n) {
  const rdi_job *job = it->job;
  const int64_t Rp = it->lane->Rp;
  rdi_block blk = {.t = t, .n = n, .v_stride = Rp, .u_stride = Rp, .o_stride = Rp};
  prepare(it, &blk);
  char *v = rdi_at(view_at(it, &job->v, t, it->h), it->r, job->v.dtype);
  if (job->v.dtype == RD_F32) {
    blk.v = (const float *)(const void *)v;
    blk.v_stride = job->v.st;
  } else {
    for (int64_t i = 0; i < n; i++)
      it->k->widen(it->lane->v + i * Rp, rdi_at(v, i * job->v.st, job->v.dtype), job->v.dtype,
                   it->R);
    blk.v = it->lane->v;
  }
  blk.o = it->lane->o;
  if (job->out.dtype == RD_F32) {
    blk.o = (float *)(void *)rdi_at(view_at(it, &job->out, t, it->h), it->r, RD_F32);
    blk.o_stride = job->out.st;
  }
  blk.u = it->lane->u;
  if (records(job) && job->next.u.dtype == RD_F32) {
    blk.u = (float *)(void *)rdi_at(record_at(it, &job->next.u, t, it->h), it->r, RD_F32);
    blk.u_stride = job->next.u.st;
  }
  return blk;
}

/* Narrows what was not written in place, and writes k and decay once per head. */
void rdi_close_block(const rdi_item *it, const rdi_block *blk) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const rdi_kernels *k = it->k;
  if (job->out.dtype != RD_F32)
    for (int64_t i = 0; i < blk->n; i++)
      k->narrow(rdi_at(view_at(it, &job->out, blk->t + i, it->h), it->r, job->out.dtype),
                job->out.dtype, blk->o + i * blk->o_stride, it->R);
  if (!records(job)) return;
  const rdi_recs *recs = &job->next;
  if (recs->u.dtype != RD_F32)
    for (int64_t i = 0; i < blk->n; i++)
      k->narrow(rdi_at(record_at(it, &recs->u, blk->t + i, it->h), it->r, recs->u.dtype),
                recs->u.dtype, blk->u + i * blk->u_stride, it->R);
  if (it->r != 0) return;
  if (first_of_group(m, it->h))
    for (int64_t i = 0; i < blk->n; i++)
      k->narrow(record_at(it, &recs->k, blk->t + i, key_head(m, it->h)), recs->k.dtype,
                it->lane->k + i * m->Kp, m->K);
  if (recs->decay.base)
    for (int64_t i = 0; i < blk->n; i++)
      k->narrow(record_at(it, &recs->decay, blk->t + i, it->h), recs->decay.dtype,
                it->lane->a + i * m->Kp, recs->decay_axis == RD_PER_CHANNEL ? m->K : 1);
}

/* Tokens [s, s+n) of the block, R rows from row r of the item on. */
rdi_rows_args rdi_block_rows(const rdi_item *it, const rdi_block *blk, int64_t s, int64_t n,
                             int64_t r, int64_t R) {
  const int64_t Kp = it->job->m.Kp;
  const rdi_lane *lane = it->lane;
  return (rdi_rows_args){
      .R = R,
      .K = it->job->m.K,
      .Kp = Kp,
      .n = n,
      .k = lane->k + s * Kp,
      .a = lane->a + s * Kp,
      .kt = lane->kt + s * Kp,
      .qt = lane->qt + s * Kp,
      .kq = lane->kq + s,
      .beta = lane->beta + s,
      .v = blk->v + s * blk->v_stride + r,
      .u = blk->u + s * blk->u_stride + r,
      .o = blk->o + s * blk->o_stride + r,
      .v_stride = blk->v_stride,
      .u_stride = blk->u_stride,
      .o_stride = blk->o_stride,
      .scratch = lane->rows,
  };
}

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

/* ---------------------------------------------------------------- the item after this one ------ */

static void bring(const char *p, int64_t elements, rd_dtype dtype) {
  const char *end = rdi_at((char *)(uintptr_t)p, elements, dtype);
  for (; p < end; p += 64) __builtin_prefetch(p, 0, 2);
}

/* Rows of a few tokens lie on pages of their own, far from one another: no hardware guesses them. */
void rdi_bring_near(const rdi_item *it) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const int64_t hk = key_head(m, it->h);
  const int channels = m->axis == RD_PER_CHANNEL;
  const int64_t tokens = job->verb == RDI_COMMIT ? 0 : rdi_min64(it->length, RDI_TOKENS);
  const int64_t replayed = job->accepted ? rdi_min64(job->accepted[it->b], RDI_TOKENS) : 0;
  for (int64_t t = 0; t < tokens; t++) {
    bring(view_at(it, &job->q, t, hk), m->K, job->q.dtype);
    bring(view_at(it, &job->k, t, hk), m->K, job->k.dtype);
    bring(rdi_at(view_at(it, &job->v, t, it->h), it->r, job->v.dtype), it->R, job->v.dtype);
    bring(rdi_at(view_at(it, &job->out, t, it->h), it->r, job->out.dtype), it->R, job->out.dtype);
    if (job->g.base) bring(view_at(it, &job->g, t, it->h), channels ? m->K : 1, job->g.dtype);
    if (!records(job)) continue;
    const rdi_recs *next = &job->next;
    bring(rdi_at(record_at(it, &next->u, t, it->h), it->r, next->u.dtype), it->R, next->u.dtype);
    bring(record_at(it, &next->k, t, hk), m->K, next->k.dtype);
    if (next->decay.base)
      bring(record_at(it, &next->decay, t, it->h), channels ? m->K : 1, next->decay.dtype);
  }
  for (int64_t t = 0; t < replayed; t++) {
    const rdi_recs *prev = &job->prev;
    bring(rdi_at(record_at(it, &prev->u, t, it->h), it->r, prev->u.dtype), it->R, prev->u.dtype);
    bring(record_at(it, &prev->k, t, hk), m->K, prev->k.dtype);
    if (prev->decay.base)
      bring(record_at(it, &prev->decay, t, it->h), channels ? m->K : 1, prev->decay.dtype);
  }
}

/* +0 into the item's columns of output rows [from, to) of its sequence. */
static void zero_out(const rdi_item *it, int64_t from, int64_t to) {
  const rdi_view *out = &it->job->out;
  const size_t bytes = (size_t)it->R * rd_dtype_size(out->dtype);
  for (int64_t t = from; t < to; t++)
    memset(rdi_at(view_at(it, out, t, it->h), it->r, out->dtype), 0, bytes);
}

/* A sequence whose read slot is the pad slot: a row of the batch that stands for nothing. In a
 * prefill a pad slot to start from means zeros, so there the final slot of the same pool must be
 * one, too. */
static int pad_row(const rdi_job *job, int64_t b) {
  if (!rdi_is_pad(&job->initial, b, job->m.pad_slot)) return 0;
  if (job->verb != RDI_PREFILL) return 1;
  return job->final.base == job->initial.base && rdi_is_pad(&job->final, b, job->m.pad_slot);
}

void rdi_tokens_item(const rdi_item *it) {
  const rdi_job *job = it->job;
  const int64_t length = it->length, rows = job->seq.cu ? length : job->seq.T;
  if (pad_row(job, it->b)) {
    zero_out(it, 0, rows);
    return;
  }
  const int64_t commit = job->verb == RDI_COMMIT_VERIFY ? job->accepted[it->b] : 0;
  const rdi_rows_at none = {NULL, &job->final};
  const rdi_rows_at dst = records(job) ? none : it->dst;
  if (length == 0) {
    if (commit)
      rdi_replay_item(it);
    else if (!records(job))
      rdi_copy_rows(it->k, dst, it->src, it->lane->stage, it->R, job->m.K, job->m.Kp);
  } else if (rdi_fast_item(it, dst)) {
    /* done */
  } else if ((!it->src.p || rdi_is_plain(it->src.s)) && (!dst.p || rdi_is_plain(dst.s)) &&
             (!job->snapshots.base || rdi_is_plain(&job->snapshots))) {
    run_direct(it, dst, commit);
  } else {
    run_tiles(it, dst, commit);
  }
  zero_out(it, length, rows);
}
