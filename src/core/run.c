/* The driver: cuts a job, gives every slice its scratch, and walks its items. */
#include "core/run.h"

#include <stdatomic.h>

#include "core/context.h"
#include "util/checked.h"

/* ---------------------------------------------------------------- lanes ----------------------- */

/* Arrays of a lane start at different places of a 4 KiB page, so that their streams do not meet in
 * the same cache sets. */
enum { STAGGER = 5 * 16 }; /* floats */

static float *carve(char *memory, size_t *at, int64_t floats) {
  float *p = memory ? (float *)(void *)(memory + *at) : NULL;
  *at += (((size_t)floats * sizeof(float) + 63) & ~(size_t)63) + STAGGER * sizeof(float);
  return p;
}

/* Bytes of a lane; memory may be NULL. */
static size_t lane_layout(rdi_lane *lane, char *memory, const rdi_kernels *k, int64_t row_block,
                          int64_t K) {
  const int64_t Kp = (K + 15) / 16 * 16, Rp = (row_block + 15) / 16 * 16;
  const int64_t rows = (row_block + RDI_SUB_ROWS - 1) / RDI_SUB_ROWS * RDI_SUB_ROWS;
  size_t at = 0;
  lane->k = carve(memory, &at, RDI_TOKENS * Kp);
  lane->a = carve(memory, &at, RDI_TOKENS * Kp);
  lane->kt = carve(memory, &at, RDI_TOKENS * Kp);
  lane->qt = carve(memory, &at, RDI_TOKENS * Kp);
  lane->kq = carve(memory, &at, RDI_TOKENS);
  lane->beta = carve(memory, &at, RDI_TOKENS);
  lane->v = carve(memory, &at, RDI_TOKENS * Rp);
  lane->u = carve(memory, &at, RDI_TOKENS * Rp);
  lane->o = carve(memory, &at, RDI_TOKENS * Rp);
  lane->pk = carve(memory, &at, RDI_TOKENS * Kp);
  lane->pa = carve(memory, &at, RDI_TOKENS * Kp);
  lane->pu = carve(memory, &at, RDI_TOKENS * Rp);
  lane->tile = carve(memory, &at, rows * Kp);
  lane->stage = carve(memory, &at, RDI_SUB_ROWS * Kp);
  lane->rows = carve(memory, &at,
                     rdi_max64(k->rows_scratch(row_block, K), k->rows_scratch(RDI_SUB_ROWS, K)));
  if (k->fast.fold) {
    lane->kh = carve(memory, &at, RDI_FAST_TOKENS * Kp);
    lane->kf = carve(memory, &at, RDI_TOKENS * Kp);
    lane->qf = carve(memory, &at, RDI_TOKENS * Kp);
    lane->P = carve(memory, &at, Kp);
    lane->ck = carve(memory, &at, RDI_TOKENS);
    lane->cq = carve(memory, &at, RDI_TOKENS);
    lane->past_u = carve(memory, &at, RDI_FAST_TOKENS * Rp);
    lane->flat = carve(memory, &at, rows * Kp);
    lane->spread = carve(memory, &at, k->fast.spread ? k->fast.spread_scratch(K) : 0);
  }
  lane->Rp = Rp;
  lane->held_b = lane->held_h = lane->held_i = -1;
  return at;
}

int rdi_run_scratch(const rdi_kernels *k, int64_t slices, int64_t row_block, int64_t K,
                    size_t *bytes) {
  rdi_lane lane;
  const size_t starts = (size_t)(slices + 1) * sizeof(int64_t), taken = (size_t)slices;
  return rdi_mulsz((size_t)slices, lane_layout(&lane, NULL, k, row_block, K), bytes) &&
         rdi_addsz(*bytes, starts + taken, bytes);
}

/* ---------------------------------------------------------------- slices ---------------------- */

typedef struct run {
  const rdi_job *job;
  const rdi_kernels *k;
  rdi_cut cut;
  const int64_t *start; /* [slices + 1] */
  char *lanes;          /* [slices] */
  size_t lane_bytes;
  atomic_uchar *taken; /* [slices] */
} run;

/* A slice works in the lowest lane that is free, so that a thread finds its last lane again, warm
 * in its own cache. There is one for every slice, hence always a free one, whatever the executor
 * does. */
static int64_t take_lane(const run *x) {
  int64_t i = 0;
  while (atomic_load_explicit(&x->taken[i], memory_order_relaxed) ||
         atomic_exchange_explicit(&x->taken[i], 1, memory_order_acquire))
    i = i + 1 < x->cut.slices ? i + 1 : 0;
  return i;
}

static void place_item(rdi_item *it, const rdi_cut *cut, int64_t item) {
  const rdi_job *job = it->job;
  const int64_t head = item / cut->blocks;
  it->b = head / job->m.Hv;
  it->h = head % job->m.Hv;
  it->r = item % cut->blocks * cut->row_block;
  it->R = rdi_min64(cut->row_block, job->m.V - it->r);
  it->src = rdi_state_at(&job->initial, it->b, it->h, it->r, job->m.pad_slot);
  if (job->verb == RDI_COMMIT) return;
  it->start = rdi_seq_start(&job->seq, it->b);
  it->length = rdi_seq_length(&job->seq, it->b);
}

static void run_slice(void *arg, int64_t slice) {
  const run *x = arg;
  const rdi_job *job = x->job;
  const int64_t end = x->start[slice + 1];
  const int64_t place = take_lane(x);
  rdi_lane lane;
  (void)lane_layout(&lane, x->lanes + (size_t)place * x->lane_bytes, x->k, x->cut.row_block,
                    job->m.K);
  rdi_item it = {.job = job, .k = x->k, .lane = &lane}, following = it;
  if (x->start[slice] < end) place_item(&following, &x->cut, x->start[slice]);
  for (int64_t i = x->start[slice]; i < end; i++) {
    it = following;
    if (i + 1 < end) {
      place_item(&following, &x->cut, i + 1);
      rdi_bring_near(&following);
    }
    it.next = i + 1 < end && following.src.p && rdi_is_plain(following.src.s)
                  ? (const float *)(const void *)following.src.p
                  : NULL;
    it.dst = rdi_state_at(&job->final, it.b, it.h, it.r, job->m.pad_slot);
    if (job->verb == RDI_COMMIT) {
      rdi_replay_item(&it);
      continue;
    }
    rdi_tokens_item(&it);
  }
  atomic_store_explicit(&x->taken[place], 0, memory_order_release);
}

/* State elements visited, tokens included; a saturating estimate. */
static int64_t work_of(const rdi_job *job) {
  double tokens = 0;
  for (int64_t b = 0; b < job->seq.B; b++) {
    tokens += 1;
    if (job->verb != RDI_COMMIT) tokens += (double)rdi_seq_length(&job->seq, b);
    if (job->accepted) tokens += (double)job->accepted[b];
  }
  const double work = tokens * (double)(job->m.Hv * job->m.V * job->m.K);
  return work < 9e18 ? (int64_t)work : INT64_MAX;
}

/* Whether all items cost the same: then as many of them as threads are balanced already. */
static int even(const rdi_job *job) {
  return job->seq.B == 1 || (!job->seq.cu && !job->seq.lengths && !job->accepted);
}

rd_status rdi_run(rd_context *ctx, const rdi_job *job) {
  /* No tokens and no state to pass through: B itself may be any number then. */
  if (job->seq.B == 0 ||
      (job->verb != RDI_COMMIT && !job->seq.cu && job->seq.T == 0 && !job->final.base))
    return RD_OK;
  const int64_t threads = rd_context_threads(ctx);
  const int64_t cores = job->block_num ? 2 * (int64_t)job->block_num : threads;
  const int forced = job->block_num != 0 || rdi_context_forced(ctx);
  run x = {.job = job, .k = rdi_context_kernels(ctx)};
  size_t bytes;
  const int64_t work = forced ? INT64_MAX : threads > 1 ? work_of(job) : 0;
  if (!rdi_cut_make(&x.cut, threads, cores, even(job), work, job->seq.B, job->m.Hv, job->m.V) ||
      !rdi_run_scratch(x.k, x.cut.slices, x.cut.row_block, job->m.K, &bytes))
    return rdi_fail(ctx, RD_E_OVERFLOW, "batch: sequences times heads do not fit 64 bits");
  const rd_status status = rdi_scratch_need(ctx, bytes);
  if (status != RD_OK) return status;
  char *memory = rdi_scratch_take(ctx, bytes);
  rdi_lane lane;
  x.lanes = memory;
  x.lane_bytes = lane_layout(&lane, NULL, x.k, x.cut.row_block, job->m.K);
  int64_t *start = (int64_t *)(void *)(memory + (size_t)x.cut.slices * x.lane_bytes);
  x.start = start;
  x.taken = (atomic_uchar *)(void *)(start + x.cut.slices + 1);
  for (int64_t i = 0; i < x.cut.slices; i++) atomic_init(&x.taken[i], 0);
  if (x.cut.slices == 1) {
    start[0] = 0;
    start[1] = x.cut.items;
  } else {
    rdi_cut_slices(&x.cut, job, start);
  }
  return rdi_execute(ctx, run_slice, &x, x.cut.slices);
}
