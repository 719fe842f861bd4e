/* The walk over items and slices, shared by verify and commit. */
#include "replayssm.h"

uint32_t rdn_replay_rows(uint32_t heads, uint32_t programs) {
  if (heads >= programs) return 128;
  return 2 * heads >= programs ? 64 : 32;
}

static void begin_slice(replay_cursor *at) {
  uint32_t left = at->length - at->t0;
  at->tokens = left < at->a->slice ? left : at->a->slice;
}

/* Moves to the first item from at->item on that has tokens: a sequence without any costs nothing. */
static bool find_item(rd_npu_core *c, replay_cursor *at, replay_length *length) {
  const uint32_t blocks = REPLAY_DIM / at->a->rows;
  for (; at->item < at->items; at->item += at->programs) {
    const uint32_t head = at->item / blocks;
    at->b = head / at->a->N;
    at->n = head % at->a->N;
    at->row = at->item % blocks * at->a->rows;
    length(c, at);
    if (at->length == 0) continue;
    at->t0 = 0;
    begin_slice(at);
    return true;
  }
  return false;
}

bool rdn_replay_first(rd_npu_core *c, replay_cursor *at, const replay_args *a,
                      replay_length *length) {
  *at = (replay_cursor){.a = a,
                        .item = rd_npu_get_block_idx(c),
                        .programs = rd_npu_get_block_num(c),
                        .items = a->B * a->N * (REPLAY_DIM / a->rows)};
  return find_item(c, at, length);
}

bool rdn_replay_next(rd_npu_core *c, replay_cursor *at, replay_length *length) {
  at->step++;
  at->t0 += at->tokens;
  if (at->t0 < at->length) {
    begin_slice(at);
    return true;
  }
  at->ordinal++;
  at->item += at->programs;
  return find_item(c, at, length);
}

uint64_t rdn_replay_record_offset(const replay_cursor *at, uint32_t element) {
  const uint64_t token = (uint64_t)at->b * at->a->C + at->t0;
  return (token * at->a->N + at->n) * REPLAY_DIM + element;
}
