/* The driver: cuts a job, gives every slice its scratch, and walks its items. */
#include "core/run.h"

#include <sched.h>
#include <stdatomic.h>

#include "core/context.h"
#include "core/cut.h"
#include "core/dispatch.h"
#include "util/checked.h"

int rdi_run_scratch(const rdi_kernels *k, int64_t slices, int64_t threads,
                    const rdi_lane_size *size, size_t *bytes) {
  rdi_lane lane;
  const size_t lanes = (size_t)rdi_min64(slices, threads);
  const size_t starts = (size_t)(slices + 1) * sizeof(int64_t);
  return rdi_mulsz(lanes, rdi_lane_layout(&lane, NULL, k, size), bytes) &&
         rdi_addsz(*bytes, starts + lanes, bytes);
}

typedef struct run {
  const rdi_job *job;
  const rdi_kernels *k;
  rdi_cut cut;
  rdi_lane_size size;
  const int64_t *start; /* [slices + 1] */
  int64_t lane_count;   /* one for every thread, or for every slice when there are fewer */
  char *lanes;
  size_t lane_bytes;
  atomic_uchar *taken; /* [lane_count] */
} run;

/* A slice works in the lowest lane that is free, so that a thread finds its last lane again, warm
 * in its own cache. An executor that runs more slices at once than it has threads finds none at times:
 * the slice then waits for another to end, which needs nothing of it. */
static int64_t take_lane(const run *x) {
  int64_t i = 0;
  while (atomic_load_explicit(&x->taken[i], memory_order_relaxed) ||
         atomic_exchange_explicit(&x->taken[i], 1, memory_order_acquire)) {
    i = i + 1 < x->lane_count ? i + 1 : 0;
    if (i == 0) sched_yield();
  }
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
  it->parents = rdi_seq_parents(&job->seq, it->b);
  if (!it->parents) return;
  it->chain = rdi_chain_length(it->parents, it->length);
  if (it->chain == it->length) it->parents = NULL;
}

/* The records that the item replays; the lane keeps the path of one sequence. */
static void find_path(rdi_item *it) {
  const rdi_job *job = it->job;
  rdi_lane *lane = it->lane;
  it->path = NULL;
  it->replayed = job->accepted ? job->accepted[it->b] : 0;
  const int32_t *parents = rdi_record_parents(&job->prev, it->b);
  if (!parents || !job->accepted) return;
  if (lane->tree.path_b != it->b) {
    lane->tree.path_b = it->b;
    lane->tree.path_length = rdi_replayed(job, it->b);
    if (lane->tree.path_length < it->replayed)
      rdi_path_make(lane->tree.path, parents, it->replayed - 1, lane->tree.path_length);
  }
  if (lane->tree.path_length < it->replayed) it->path = lane->tree.path;
  it->replayed = lane->tree.path_length;
}

/* Items first .. of one sequence that take turns: as many as the lane has tiles for. items[0] is placed. */
static int64_t gather(const run *x, rdi_item *items, int64_t first, int64_t end) {
  const int64_t Kp = x->job->m.Kp;
  int64_t n = 1, used = rdi_tile_floats(items[0].R, Kp);
  items[0].tile = items[0].lane->tile;
  if (!rdi_item_groups(&items[0])) return 1;
  for (; n < RDI_GROUP && first + n < end; n++) {
    items[n] = items[0];
    place_item(&items[n], &x->cut, first + n);
    const int64_t floats = rdi_tile_floats(items[n].R, Kp);
    if (items[n].b != items[0].b || used + floats > items[0].lane->tile_floats) break;
    items[n].tile = items[0].lane->tile + used;
    used += floats;
  }
  return n;
}

static const float *in_place(const rdi_item *it) {
  const int there = it->src.p && (rdi_is_plain(it->src.s) || rdi_is_by_key(it->src.s, it->k));
  return there ? (const float *)(const void *)it->src.p : NULL;
}

static void run_slice(void *arg, int64_t slice) {
  const run *x = arg;
  const rdi_job *job = x->job;
  const int64_t end = x->start[slice + 1];
  const int64_t place = take_lane(x);
  rdi_lane lane;
  (void)rdi_lane_layout(&lane, x->lanes + (size_t)place * x->lane_bytes, x->k, &x->size);
  rdi_item group[RDI_GROUP], following = {.job = job, .k = x->k, .lane = &lane};
  if (x->start[slice] < end) place_item(&following, &x->cut, x->start[slice]);
  for (int64_t i = x->start[slice], n; i < end; i += n) {
    group[0] = following;
    n = gather(x, group, i, end);
    const int more = i + n < end;
    if (more) {
      place_item(&following, &x->cut, i + n);
      rdi_item_prefetch(&following);
    }
    for (int64_t j = 0; j < n; j++) {
      group[j].next = j + 1 < n ? in_place(&group[j + 1]) : more ? in_place(&following) : NULL;
      find_path(&group[j]);
      group[j].dst = rdi_state_at(&job->final, group[j].b, group[j].h, group[j].r, job->m.pad_slot);
    }
    rdi_group_run(group, n);
  }
  atomic_store_explicit(&x->taken[place], 0, memory_order_release);
}

/* State elements visited, tokens included; a saturating estimate. */
static int64_t work_of(const rdi_job *job) {
  double tokens = 0;
  for (int64_t b = 0; b < job->seq.B; b++) {
    tokens += 1;
    if (job->verb != RDI_COMMIT) tokens += (double)rdi_seq_length(&job->seq, b);
    tokens += (double)rdi_replayed(job, b);
  }
  const double work = tokens * (double)(job->m.Hv * job->m.V * job->m.K);
  return work < 9e18 ? (int64_t)work : INT64_MAX;
}

/* The largest tree that is verified and the longest path that is replayed, chains apart. */
static void measure_trees(const rdi_job *job, rdi_lane_size *size) {
  for (int64_t b = 0; b < job->seq.B; b++) {
    const int32_t *parents = rdi_seq_parents(&job->seq, b);
    if (parents && !rdi_is_pad(&job->initial, b, job->m.pad_slot)) {
      const int64_t n = rdi_seq_length(&job->seq, b);
      if (n > size->nodes && rdi_chain_length(parents, n) < n) size->nodes = n;
    }
    if (!job->accepted || !job->prev.parents.base) continue;
    const int64_t path = rdi_replayed(job, b);
    if (path > size->path && path < job->accepted[b]) size->path = path;
  }
}

/* Whether all items cost the same: then as many of them as threads are balanced already. */
static int even(const rdi_job *job) {
  return job->seq.B == 1 || (!job->seq.cu && !job->seq.lengths && !job->accepted);
}

static int scratch_of(run *x, size_t *bytes) {
  const rdi_job *job = x->job;
  x->size = (rdi_lane_size){
      .row_block = x->cut.row_block, .K = job->m.K, .heads = job->m.Hv, .V = job->m.V};
  x->size.gathers =
      rdi_gathers(&job->q) || rdi_gathers(&job->k) || rdi_gathers(&job->v) || rdi_gathers(&job->g);
  measure_trees(job, &x->size);
  return rdi_run_scratch(x->k, x->cut.slices, x->lane_count, &x->size, bytes);
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
  const int cut =
      rdi_cut_make(&x.cut, threads, cores, even(job), work, job->seq.B, job->m.Hv, job->m.V);
  if (cut) x.lane_count = rdi_min64(x.cut.slices, threads);
  if (!cut || !scratch_of(&x, &bytes))
    return rdi_fail(ctx, RD_E_OVERFLOW, "batch: sequences times heads do not fit 64 bits");
  const rd_status status = rdi_scratch_need(ctx, bytes);
  if (status != RD_OK) return status;
  char *memory = rdi_scratch_take(ctx, bytes);
  rdi_lane lane;
  x.lanes = memory;
  x.lane_bytes = rdi_lane_layout(&lane, NULL, x.k, &x.size);
  int64_t *start = (int64_t *)(void *)(memory + (size_t)x.lane_count * x.lane_bytes);
  x.start = start;
  x.taken = (atomic_uchar *)(void *)(start + x.cut.slices + 1);
  for (int64_t i = 0; i < x.lane_count; i++) atomic_init(&x.taken[i], 0);
  if (x.cut.slices == 1) {
    start[0] = 0;
    start[1] = x.cut.items;
  } else {
    rdi_cut_slices(&x.cut, job, start);
  }
  return rdi_execute(ctx, run_slice, &x, x.cut.slices);
}
