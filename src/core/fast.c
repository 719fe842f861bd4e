/* FAST prefill and verify (kernels/fast.h). Everything that decides between FAST and EXACT
 * here looks at the tokens only, never at rows, threads or what else is in the batch; verify decides
 * token by token, so that a token's result does not depend on how many follow. */
#include "core/fast.h"

#include <string.h>

#include "core/block.h"
#include "core/replay.h"
#include "core/tree.h"
#include "util/checked.h"

static void ones(const rdi_item *it) {
  for (int64_t c = 0; c < it->job->m.Kp; c++) it->lane->P[c] = 1.0f;
}

/* Operands of the open block's n tokens, rows of kh from `past` on. Returns how many are in range. */
static int64_t fold(const rdi_item *it, int64_t n, int64_t past, int pairs) {
  const rdi_math *m = &it->job->m;
  const rdi_lane *lane = it->lane;
  return it->k->fast.fold(&(rdi_fold_args){
      .n = n,
      .K = m->K,
      .Kp = m->Kp,
      .head = m->axis == RD_PER_HEAD || m->gate == RD_GATE_NONE,
      .whole = pairs,
      .k = lane->op.k,
      .a = lane->op.a,
      .kt = lane->op.kt,
      .qt = lane->op.qt,
      .P = lane->P,
      .kh = lane->kh + past * m->Kp,
      .kf = lane->kf,
      .qf = lane->qf,
      .ck = pairs ? lane->ck : NULL,
      .cq = pairs ? lane->cq : NULL,
  });
}

/* ---------------------------------------------------------------- prefill --------------------- */

/* The running state in the item's tile, native or in panels. What changes its form goes through
 * lane->flat. */
typedef enum form { NOWHERE = 0, FLAT, PANELS } form;

static float *panel_at(const rdi_item *it, int64_t r) { return it->tile + r * it->job->m.K; }

static void to_panels(const rdi_item *it, const float *s, int64_t stride) {
  const rdi_fast_kernels *f = &it->k->fast;
  for (int64_t r = 0; r < it->R; r += f->panel)
    f->to_panel(panel_at(it, r), s + r * stride, stride, rdi_min64(f->panel, it->R - r),
                it->job->m.K);
}

static void from_panels(const rdi_item *it, float *s, int64_t stride) {
  const rdi_fast_kernels *f = &it->k->fast;
  for (int64_t r = 0; r < it->R; r += f->panel)
    f->from_panel(s + r * stride, stride, panel_at(it, r), rdi_min64(f->panel, it->R - r),
                  it->job->m.K);
}

static void load_flat(const rdi_item *it) {
  const rdi_math *m = &it->job->m;
  rdi_load_native(it->k, it->lane->flat, m->Kp, it->src, it->R, m->K);
}

static void move_to(const rdi_item *it, form *now, form want) {
  const int64_t Kp = it->job->m.Kp, K = it->job->m.K;
  const size_t bytes = (size_t)(it->R * Kp) * sizeof(float);
  if (*now == want) return;
  if (want == FLAT && *now == NOWHERE) {
    rdi_load_native(it->k, it->tile, Kp, it->src, it->R, K);
  } else if (want == FLAT) {
    from_panels(it, it->lane->flat, Kp);
    memcpy(it->tile, it->lane->flat, bytes);
  } else if (*now == NOWHERE && it->src.p && rdi_is_plain(it->src.s)) {
    to_panels(it, (const float *)(const void *)it->src.p, it->src.s->sr);
  } else {
    if (*now == NOWHERE)
      load_flat(it);
    else
      memcpy(it->lane->flat, it->tile, bytes);
    to_panels(it, it->lane->flat, Kp);
  }
  *now = want;
}

static void pairs_block(const rdi_item *it, const rdi_block *blk) {
  const rdi_math *m = &it->job->m;
  const rdi_lane *lane = it->lane;
  const int64_t panel = it->k->fast.panel;
  for (int64_t r = 0; r < it->R; r += panel)
    it->k->fast.pairs(&(rdi_pairs_args){
        .R = rdi_min64(panel, it->R - r),
        .K = m->K,
        .Kp = m->Kp,
        .n = blk->n,
        .panel = panel_at(it, r),
        .kh = lane->kh,
        .kf = lane->kf,
        .qf = lane->qf,
        .end = lane->P,
        .kq = lane->op.kq,
        .beta = lane->op.beta,
        .ck = lane->ck,
        .cq = lane->cq,
        .v = blk->v + r,
        .o = blk->o + r,
        .v_stride = blk->v_stride,
        .o_stride = blk->o_stride,
    });
}

/* Tokens [s, n) of the block on the state at `at`. */
static void exact_block(const rdi_item *it, const rdi_block *blk, int64_t s, float *at) {
  rdi_rows_args args = rdi_block_rows(it, blk, s, blk->n - s, 0, it->R);
  args.s_in = args.s_out = at;
  args.in_stride = args.out_stride = it->job->m.Kp;
  it->k->rows(&args);
}

/* At most RDI_FAST_BLOCK tokens. 0: the kernel has declined, a decay is none. */
static int chunk_block(const rdi_item *it, int64_t t, form *now) {
  const rdi_view *out = &it->job->out;
  const int64_t n = rdi_min64(RDI_FAST_BLOCK, it->length - t);
  rdi_chunk_args args = {.from = rdi_prep_from(it, t, n),
                         .n = n,
                         .R = it->R,
                         .panel = it->tile,
                         .v_dtype = it->job->v.dtype,
                         .o = rdi_at(rdi_view_at(it, out, t, it->h), it->r, out->dtype),
                         .o_stride = out->st,
                         .o_dtype = out->dtype,
                         .scratch = it->lane->chunk};
  args.v = rdi_value_rows(it, t, n, &args.v_stride);
  move_to(it, now, PANELS);
  return it->k->fast.chunk(&args);
}

static void prefill_block(const rdi_item *it, int64_t t, form *now) {
  const rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->length - t));
  ones(it);
  const form want = fold(it, blk.n, 0, 1) == blk.n ? PANELS : FLAT;
  move_to(it, now, want);
  if (want == PANELS)
    pairs_block(it, &blk);
  else
    exact_block(it, &blk, 0, it->tile);
  rdi_close_block(it, &blk);
}

static void prefill_end(const rdi_item *it, form now) {
  const rdi_math *m = &it->job->m;
  const rdi_rows_at dst = it->dst;
  if (!dst.p) return;
  if (now == PANELS && rdi_is_plain(dst.s)) {
    from_panels(it, (float *)(void *)dst.p, dst.s->sr);
    return;
  }
  if (now == PANELS) from_panels(it, it->lane->flat, m->Kp);
  rdi_store_native(it->k, dst, now == PANELS ? it->lane->flat : it->tile, m->Kp, it->R, m->K);
}

static void prefetch_chunk(const rdi_item *items, int64_t count, int64_t t, int64_t i) {
  if (count == 1) return; /* its rows follow each other */
  const int last = i + 1 == count;
  for (int64_t s = 0; s < RDI_FAST_BLOCK; s += RDI_TOKENS)
    rdi_block_prefetch(last ? items : &items[i + 1], t + s + (last ? RDI_FAST_BLOCK : 0));
}

/* Turns of RDI_FAST_BLOCK tokens on the matrix unit. What it declines goes the way of all others. */
static void prefill_chunks(const rdi_item *items, int64_t count, form *now) {
  const int64_t length = items->length;
  for (int64_t t = 0; t < length; t += RDI_FAST_BLOCK)
    for (int64_t i = 0; i < count; i++) {
      const int64_t end = rdi_min64(t + RDI_FAST_BLOCK, length);
      prefetch_chunk(items, count, t, i);
      if (chunk_block(&items[i], t, &now[i])) continue;
      for (int64_t s = t; s < end; s += RDI_TOKENS) prefill_block(&items[i], s, &now[i]);
    }
}

static void prefill(const rdi_item *items, int64_t count) {
  form now[RDI_GROUP] = {NOWHERE};
  const rdi_math *m = &items->job->m;
  if (rdi_has_chunks(&items->k->fast, m->gate, m->axis, items->job->q.dtype, m->K)) {
    prefill_chunks(items, count, now);
    for (int64_t i = 0; i < count; i++) prefill_end(&items[i], now[i]);
    return;
  }
  for (int64_t t = 0; t < items->length; t += RDI_TOKENS)
    for (int64_t i = 0; i < count; i++) {
      rdi_prefetch_turn(items, count, t, i);
      prefill_block(&items[i], t, &now[i]);
    }
  for (int64_t i = 0; i < count; i++) prefill_end(&items[i], now[i]);
}

/* ---------------------------------------------------------------- verify ---------------------- */

typedef struct history { /* u of all tokens of the sequence so far */
  float *u;
  int64_t stride;
} history;

/* lane->flat := the state after `total` tokens that ran FAST, n of them in the open block, which began
 * with the decay `before`. */
static void state_after(const rdi_item *it, history h, int64_t total, int64_t n,
                        const float *before) {
  const rdi_math *m = &it->job->m;
  rdi_lane *lane = it->lane;
  load_flat(it);
  if (total == 0) return;
  memcpy(lane->P, before, (size_t)m->Kp * sizeof *before);
  if (n) (void)fold(it, n, total - n, 0);
  it->k->commit(&(rdi_commit_args){.R = it->R,
                                   .K = m->K,
                                   .Kp = m->Kp,
                                   .m = total,
                                   .s_in = lane->flat,
                                   .s_out = lane->flat,
                                   .in_stride = m->Kp,
                                   .out_stride = m->Kp,
                                   .k = lane->kh,
                                   .u = h.u,
                                   .u_stride = h.stride});
  for (int64_t r = 0; r < it->R; r++)
    for (int64_t c = 0; c < m->K; c++) lane->flat[r * m->Kp + c] *= lane->P[c];
}

static void spread_block(const rdi_item *it, const rdi_block *blk, int64_t n, history h,
                         const float *s, int64_t s_stride) {
  const rdi_math *m = &it->job->m;
  const rdi_lane *lane = it->lane;
  it->k->fast.spread(&(rdi_spread_args){
      .R = it->R,
      .K = m->K,
      .Kp = m->Kp,
      .n = n,
      .past = blk->t,
      .s = s,
      .s_stride = s_stride,
      .kh = lane->kh,
      .kf = lane->kf,
      .qf = lane->qf,
      .beta = lane->op.beta,
      .v = blk->v,
      .u = h.u,
      .o = blk->o,
      .v_stride = blk->v_stride,
      .u_stride = h.stride,
      .o_stride = blk->o_stride,
      .scratch = lane->spread,
      .next = blk->t + blk->n == it->length ? it->next : NULL,
  });
}

/* The state that `spread` reads: where it lies, or in lane->flat. */
static const float *spread_state(const rdi_item *it, int64_t *stride) {
  const int plain = it->src.p && rdi_is_plain(it->src.s);
  *stride = plain ? it->src.s->sr : it->job->m.Kp;
  if (plain) return (const float *)(const void *)it->src.p;
  load_flat(it);
  return it->lane->flat;
}

/* u of a verify of one block is where it belongs at once. */
static history history_of(const rdi_item *it, const rdi_block *blk, int64_t tokens) {
  return tokens <= RDI_TOKENS ? (history){blk->u, blk->u_stride}
                              : (history){it->lane->past_u, it->lane->Rp};
}

/* The open block's first tokens, as many as are in range, FAST. Returns how many. */
static int64_t fast_part(const rdi_item *it, const rdi_block *blk, history h, const float *s,
                         int64_t s_stride) {
  const int64_t n = fold(it, blk->n, blk->t, 0);
  if (n) spread_block(it, blk, n, h, s, s_stride);
  for (int64_t i = 0; i < n && h.u == it->lane->past_u; i++)
    memcpy(blk->u + i * blk->u_stride, h.u + (blk->t + i) * h.stride,
           (size_t)it->R * sizeof(float));
  return n;
}

static void verify(const rdi_item *it) {
  float before[RDI_MAX_DIM];
  int64_t s_stride;
  const float *s = spread_state(it, &s_stride);
  int exact = 0;
  ones(it);
  for (int64_t t = 0; t < it->length; t += RDI_TOKENS) {
    const rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->length - t));
    int64_t n = 0;
    if (!exact) {
      const history h = history_of(it, &blk, it->length);
      memcpy(before, it->lane->P, (size_t)it->job->m.Kp * sizeof *before);
      n = fast_part(it, &blk, h, s, s_stride);
      if (n < blk.n) state_after(it, h, t + n, n, before);
      exact = n < blk.n;
    }
    if (exact) exact_block(it, &blk, n, it->lane->flat);
    rdi_close_block(it, &blk);
  }
}

/* ---------------------------------------------------------------- trees ----------------------- */

/* lane->flat := the state after n nodes that ran FAST, whose operands are prepared once more. */
static void state_after_nodes(const rdi_item *it, history h, int64_t n) {
  float before[RDI_MAX_DIM];
  int64_t t = 0;
  ones(it);
  for (; n - t > RDI_TOKENS; t += RDI_TOKENS) {
    rdi_prepare(it, t, RDI_TOKENS, &it->lane->op);
    (void)fold(it, RDI_TOKENS, t, 0);
  }
  memcpy(before, it->lane->P, (size_t)it->job->m.Kp * sizeof *before);
  if (n > t) rdi_prepare(it, t, n - t, &it->lane->op);
  state_after(it, h, n, n - t, before);
}

/* The nodes before the first that does not follow the one before it run FAST, as a chain of them would,
 * as far as they are in range; all others EXACT, from the state after the FAST node that they descend
 * from. So a node's result depends on no later node. */
static void verify_tree(const rdi_item *it) {
  int64_t s_stride, t = 0;
  const float *s = spread_state(it, &s_stride);
  history h = {0};
  int exact = 0;
  ones(it);
  while (t < it->chain && !exact) {
    rdi_block blk = rdi_open_block(it, t, rdi_min64(RDI_TOKENS, it->chain - t));
    if (t == 0) h = history_of(it, &blk, it->chain);
    const int64_t n = fast_part(it, &blk, h, s, s_stride);
    exact = n < blk.n;
    blk.n = n;
    rdi_close_block(it, &blk);
    t += n;
  }
  for (int64_t base = -1; base < t; base++) {
    int64_t child = t;
    while (child < it->length && it->parents[child] != base) child++;
    if (child == it->length) continue;
    state_after_nodes(it, h, base + 1);
    rdi_tree_rest(it, t, base, it->lane->flat, it->job->m.Kp);
  }
}

/* ---------------------------------------------------------------- choice ---------------------- */

int rdi_fast_serves(const rdi_job *job, const rdi_kernels *k, int64_t length) {
  if (job->m.numerics != RD_FAST || job->m.gate == RD_GATE_DECAY || !k->fast.fold) return 0;
  switch (job->verb) {
  case RDI_PREFILL:
    return k->fast.pairs != NULL;
  case RDI_VERIFY:
  case RDI_COMMIT_VERIFY:
    return k->fast.spread && length <= RDI_FAST_TOKENS;
  case RDI_DECODE:
  case RDI_COMMIT:
    break;
  }
  return 0;
}

void rdi_fast_group(const rdi_item *items, int64_t count) {
  const rdi_job *job = items->job;
  if (job->verb == RDI_PREFILL) {
    prefill(items, count);
    return;
  }
  for (const rdi_item *it = items; it < items + count; it++) {
    if (job->verb == RDI_COMMIT_VERIFY && it->replayed) rdi_replay_item(it);
    if (it->parents)
      verify_tree(it);
    else
      verify(it);
  }
}
