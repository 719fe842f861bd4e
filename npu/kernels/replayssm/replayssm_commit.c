/*
 * commit_recurrent_kda_replayssm on vector cores: S <- S diag(decay) + u k' for the accepted prefix.
 *
 * In place in GM, double-buffered: the next item's state is loaded while this one is computed, into
 * the buffer whose store has finished.
 *
 *   channel    id          set                             waited for by
 *   MTE2_V     0,1         records of a slice loaded, and    V, before the slice
 *                          before the first one the state
 *   V_MTE2     0,1         records of a slice used up        MTE2, before the buffer is loaded again
 *   V_MTE3     0,1         item finished                     MTE3, before the state is stored
 *   MTE3_MTE2  0,1         state stored                      MTE2, before the buffer is loaded again
 *
 * Mutation finds every one of them needed. Redundant is only the exact place of one set: V_MTE2 may
 * stand one instruction earlier, because the last vmla of a slice reads nothing that MTE2 fills.
 */
#include "replayssm.h"

#include <redelta/npu_intrinsics.h>

typedef struct commit_ub {
  uint64_t state[2], u16[2], k16[2], decay[2]; /* filled by MTE2 */
  uint64_t u, k, expanded;                     /* V's own */
  uint32_t bytes;
} commit_ub;

static uint64_t take(uint32_t *top, uint32_t bytes) {
  uint64_t at = UB(*top);
  *top += (bytes + 31) / 32 * 32;
  return at;
}

static commit_ub layout_ub(uint32_t rows) {
  commit_ub m;
  uint32_t top = 0;
  for (int i = 0; i < 2; i++) {
    m.state[i] = take(&top, rows * REPLAY_DIM * 4);
    m.u16[i] = take(&top, REPLAY_SLICE * rows * 2);
    m.k16[i] = take(&top, REPLAY_SLICE * REPLAY_DIM * 2);
    m.decay[i] = take(&top, REPLAY_SLICE * REPLAY_DIM * 4);
  }
  m.u = take(&top, REPLAY_SLICE * rows * 4);
  m.k = take(&top, REPLAY_SLICE * REPLAY_DIM * 4);
  m.expanded = take(&top, rows * 32);
  m.bytes = top;
  return m;
}

uint32_t rdn_replay_commit_ub_bytes(uint32_t rows) { return layout_ub(rows).bytes; }

static void accepted_length(rd_npu_core *c, replay_cursor *at) {
  at->length = (uint32_t)load_gm_int(S32, GM(at->a->accepted) + 4u * at->b);
}

static uint64_t state_address(const replay_cursor *at) {
  const uint64_t head = (uint64_t)at->b * at->a->N + at->n;
  return GM(at->a->state) + (head * REPLAY_DIM + at->row) * REPLAY_DIM * 4;
}

static void load(rd_npu_core *c, const replay_cursor *at, const commit_ub *m) {
  const replay_args *a = at->a;
  const uint32_t state = at->ordinal & 1, slot = at->step & 1, rows = a->rows;
  if (at->t0 == 0) {
    wait_flag(PIPE_MTE3, PIPE_MTE2, state);
    copy_gm_to_ubuf(m->state[state], state_address(at), 1, rows * 16, 0, 0);
  }
  wait_flag(PIPE_V, PIPE_MTE2, slot);
  copy_gm_to_ubuf(m->u16[slot], GM(a->u) + 2 * rdn_replay_record_offset(at, at->row), at->tokens,
                  rows / 16, a->N * 8 - rows / 16, 0);
  copy_gm_to_ubuf(m->k16[slot], GM(a->k) + 2 * rdn_replay_record_offset(at, 0), at->tokens, 8,
                  a->N * 8 - 8, 0);
  copy_gm_to_ubuf(m->decay[slot], GM(a->decay) + 4 * rdn_replay_record_offset(at, 0), at->tokens,
                  16, a->N * 16 - 16, 0);
  set_flag(PIPE_MTE2, PIPE_V, slot);
}

static void compute(rd_npu_core *c, const replay_cursor *at, const commit_ub *m) {
  const uint32_t state = at->ordinal & 1, slot = at->step & 1, rows = at->a->rows;
  const uint32_t lanes = rows < 64 ? rows : 64; /* of one u row per repeat */
  const uint64_t S = m->state[state];
  wait_flag(PIPE_MTE2, PIPE_V, slot);
  set_vector_mask(0, lanes == 64 ? ~0ull : (1ull << lanes) - 1);
  vconv_f162f32(m->u, m->u16[slot], at->tokens * (rows / lanes), 1, 1, lanes / 8, lanes / 16);
  set_vector_mask(0, ~0ull);
  vconv_f162f32(m->k, m->k16[slot], at->tokens * 2, 1, 1, 8, 4);
  for (uint32_t t = 0; t < at->tokens; t++) {
    vbrcb(F32, m->expanded, m->u + t * rows * 4, rows / 8, 1, 8);
    for (uint32_t half = 0; half < 512; half += 256) {
      vmul(F32, S + half, S + half, m->decay[slot] + t * 512 + half, rows, 1, 1, 1, 16, 16, 0);
      vmla(F32, S + half, m->expanded, m->k + t * 512 + half, rows, 1, 0, 1, 16, 1, 0);
    }
  }
  set_flag(PIPE_V, PIPE_MTE2, slot);
}

static void store(rd_npu_core *c, const replay_cursor *at, const commit_ub *m) {
  const uint32_t state = at->ordinal & 1;
  set_flag(PIPE_V, PIPE_MTE3, state);
  wait_flag(PIPE_V, PIPE_MTE3, state);
  copy_ubuf_to_gm(state_address(at), m->state[state], 1, at->a->rows * 16, 0, 0);
  set_flag(PIPE_MTE3, PIPE_MTE2, state);
}

void rdn_replay_commit_kernel(rd_npu_core *c, const void *args) {
  const replay_args *a = args;
  const commit_ub m = layout_ub(a->rows);
  replay_cursor at;
  if (!rdn_replay_first(c, &at, a, accepted_length)) return;
  for (uint32_t i = 0; i < 2; i++) { /* both buffers of either kind start free */
    set_flag(PIPE_MTE3, PIPE_MTE2, i);
    set_flag(PIPE_V, PIPE_MTE2, i);
  }
  load(c, &at, &m);
  for (bool more = true; more;) {
    replay_cursor next = at;
    more = rdn_replay_next(c, &next, accepted_length);
    if (more) load(c, &next, &m); /* one slice ahead of the arithmetic */
    compute(c, &at, &m);
    if (!more || next.ordinal != at.ordinal) store(c, &at, &m);
    at = next;
  }
  for (uint32_t i = 0; i < 2; i++) {
    wait_flag(PIPE_MTE3, PIPE_MTE2, i);
    wait_flag(PIPE_V, PIPE_MTE2, i);
  }
  set_vector_mask(~0ull, ~0ull); /* as it was found */
  pipe_barrier(PIPE_ALL);
}
