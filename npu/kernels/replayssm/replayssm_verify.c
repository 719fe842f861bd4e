/*
 * fused_recurrent_kda_replayssm on vector cores: outputs and records of all candidate tokens from a
 * checkpoint that is only read.
 *
 * Per token, on the state before it:  yk = S kt, yq = S qt  (kt = a*k, qt = a*q),  u = beta (v - yk),
 * o = yq + u (k.q),  S = a*S + u k'.  Row dots: the two 64-key halves are multiplied into one tile of
 * 64 lanes per row, then vcadd sums each row.  Numbers that belong to a token (beta, k.q, norms) or to
 * a row (u) are spread over a 32-byte block by vbrcb and read with block stride 0.
 *
 *   channel    id     set                                   waited for by
 *   MTE2_V     0,1    inputs of a slice loaded, and before    V, before the slice
 *                     the first one state and head weights
 *   V_MTE2     0,1    item finished                           MTE2, before the state buffer is loaded again
 *   V_MTE2     2,3    inputs of a slice widened               MTE2, before the input buffer is loaded again
 *   V_MTE3     0,1    results of a slice staged               MTE3, before they are stored
 *   MTE3_V     0,1    results of a slice stored               V, before the staging is written again
 *
 * Mutation finds every one of them needed. Redundant is only the exact place of three: the waits of a
 * slice may stand one instruction later, because V first clears numbers of its own, and the item's
 * V_MTE2 one earlier, because the last instruction before it stages results and reads no input.
 */
#include "replayssm.h"

#include <redelta/npu_intrinsics.h>

enum { ROW = REPLAY_DIM * 4, HALF = 256, ALL_LANES = 64 };

typedef struct verify_ub {
  uint64_t state[2], A_log[2], dt_bias[2];            /* per item, filled by MTE2 */
  uint64_t q16[2], k16[2], g16[2], v16[2], beta16[2]; /* per slice, filled by MTE2 */
  uint64_t u_out[2], k_out[2], decay[2],
      o_out[2];                   /* per slice, read by MTE3; decay is also V's a */
  uint64_t q, k, qt, kt, v, u, o; /* f32, V's own */
  uint64_t tile, expanded, yk, beta, sums, eight, ones;
  uint64_t norm_blocks, beta_blocks, kq_blocks, eA_blocks;
  uint32_t bytes;
} verify_ub;

static uint64_t take(uint32_t *top, uint32_t bytes) {
  uint64_t at = UB(*top);
  *top += (bytes + 31) / 32 * 32;
  return at;
}

static verify_ub layout_ub(uint32_t rows) {
  const uint32_t keys16 = REPLAY_SLICE * REPLAY_DIM * 2, rows16 = REPLAY_SLICE * rows * 2;
  verify_ub m;
  uint32_t top = 0;
  for (int i = 0; i < 2; i++) {
    m.state[i] = take(&top, rows * ROW);
    m.A_log[i] = take(&top, 32);
    m.dt_bias[i] = take(&top, ROW);
    m.q16[i] = take(&top, keys16);
    m.k16[i] = take(&top, keys16);
    m.g16[i] = take(&top, keys16);
    m.v16[i] = take(&top, rows16);
    m.beta16[i] = take(&top, REPLAY_SLICE * 32);
    m.u_out[i] = take(&top, rows16);
    m.k_out[i] = take(&top, keys16);
    m.decay[i] = take(&top, keys16 * 2);
    m.o_out[i] = take(&top, rows16);
  }
  m.q = take(&top, keys16 * 2);
  m.k = take(&top, keys16 * 2);
  m.qt = take(&top, keys16 * 2);
  m.kt = take(&top, keys16 * 2);
  m.v = take(&top, rows16 * 2);
  m.u = take(&top, rows16 * 2);
  m.o = take(&top, rows16 * 2);
  m.tile = take(&top, rows * HALF);
  m.expanded = take(&top, rows * 32);
  m.yk = take(&top, rows * 4);
  m.beta = take(&top, REPLAY_SLICE * 32);
  m.sums = take(&top, 32);
  m.eight = take(&top, 32);
  m.ones = take(&top, HALF);
  m.norm_blocks = take(&top, HALF);
  m.beta_blocks = take(&top, HALF);
  m.kq_blocks = take(&top, HALF);
  m.eA_blocks = take(&top, HALF);
  m.bytes = top;
  return m;
}

uint32_t rdn_replay_verify_ub_bytes(uint32_t rows) { return layout_ub(rows).bytes; }

static void sequence_length(rd_npu_core *c, replay_cursor *at) {
  if (at->a->layout != REPLAY_TND) {
    at->start = 0;
    at->length = at->a->S;
    return;
  }
  at->start = (uint32_t)load_gm_int(S32, GM(at->a->cu) + 4u * at->b);
  at->length = (uint32_t)load_gm_int(S32, GM(at->a->cu) + 4u * at->b + 4) - at->start;
}

/* Where a head's rows of `heads`-headed tensors stand: element of the slice's first token, and elements
 * from token to token. */
typedef struct place {
  uint64_t first;
  uint32_t stride;
} place;

static place token_place(const replay_cursor *at, uint32_t heads, uint32_t head, uint32_t width) {
  const replay_args *a = at->a;
  if (a->layout == REPLAY_BNSD)
    return (place){(((uint64_t)at->b * heads + head) * a->S + at->t0) * width, width};
  const uint64_t token =
      a->layout == REPLAY_TND ? at->start + at->t0 : (uint64_t)at->b * a->S + at->t0;
  return (place){(token * heads + head) * width, heads * width};
}

/* `width` 16-bit elements per token from GM, packed in UB. */
static void load_rows16(rd_npu_core *c, rd_npu_site site, uint64_t ub, uint64_t gm, place p,
                        uint32_t offset, uint32_t width, uint32_t tokens) {
  rd_npu_copy_gm_to_ubuf(c, RD_VIA(site), ub, gm + 2 * (p.first + offset), tokens, width / 16,
                         (p.stride - width) / 16, 0);
}

static void load_item(rd_npu_core *c, const replay_cursor *at, const verify_ub *m) {
  const replay_args *a = at->a;
  const uint32_t i = at->ordinal & 1;
  const uint64_t head = (uint64_t)at->b * a->N + at->n;
  wait_flag(PIPE_V, PIPE_MTE2, i);
  copy_gm_to_ubuf(m->state[i], GM(a->state) + (head * REPLAY_DIM + at->row) * ROW, 1, a->rows * 16,
                  0, 0);
  copy_gm_to_ubuf_align(m->A_log[i], GM(a->A_log) + 4ull * at->n, 1, 4, 0, 0);
  copy_gm_to_ubuf(m->dt_bias[i], GM(a->dt_bias) + (uint64_t)at->n * ROW, 1, 16, 0, 0);
}

static void load(rd_npu_core *c, const replay_cursor *at, const verify_ub *m) {
  const replay_args *a = at->a;
  const uint32_t slot = at->step & 1, N = a->N;
  if (at->t0 == 0) load_item(c, at, m);
  wait_flag(PIPE_V, PIPE_MTE2, 2 + slot);
  const uint64_t mixed = GM(a->mixedqkv);
  load_rows16(c, RD_SITE, m->q16[slot], mixed, token_place(at, 3 * N, at->n, 128), 0, 128,
              at->tokens);
  load_rows16(c, RD_SITE, m->k16[slot], mixed, token_place(at, 3 * N, N + at->n, 128), 0, 128,
              at->tokens);
  load_rows16(c, RD_SITE, m->v16[slot], mixed, token_place(at, 3 * N, 2 * N + at->n, 128), at->row,
              a->rows, at->tokens);
  load_rows16(c, RD_SITE, m->g16[slot], GM(a->g), token_place(at, N, at->n, 128), 0, 128,
              at->tokens);
  const place b = token_place(at, N, at->n, 1);
  copy_gm_to_ubuf_align(m->beta16[slot], GM(a->beta) + 2 * b.first, at->tokens, 2,
                        2 * (b.stride - 1), 0);
  set_flag(PIPE_MTE2, PIPE_V, slot);
}

static void lanes(rd_npu_core *c, uint32_t n) {
  set_vector_mask(0, n == 64 ? ~0ull : (1ull << n) - 1);
}

/* Spreads `count` <= 8 numbers over blocks: number t fills block t. */
static void spread(rd_npu_core *c, uint64_t blocks, uint64_t eight) {
  vbrcb(F32, blocks, eight, 1, 1, 8);
}

/* x := 1/(1+exp(-x)) over `repeat` repeats of the current lanes, `rep` blocks apart. */
static void sigmoid(rd_npu_core *c, const verify_ub *m, uint64_t x, uint32_t repeat, uint32_t rep) {
  vmuls(F32, x, x, -1.0f, repeat, 1, 1, rep, rep);
  vexp(F32, x, x, repeat, 1, 1, rep, rep);
  vadds(F32, x, x, 1.0f, repeat, 1, 1, rep, rep);
  vdiv(F32, x, m->ones, x, repeat, 1, 1, 1, rep, 0, rep);
}

/* sums[t] = x[t] . y[t] for the slice's tokens; the other of the eight numbers are 0. */
static void token_dots(rd_npu_core *c, const verify_ub *m, uint64_t x, uint64_t y,
                       uint32_t tokens) {
  lanes(c, 8);
  vector_dup(F32, m->sums, 0.0f, 1, 1, 1);
  lanes(c, ALL_LANES);
  vmul(F32, m->tile, x, y, tokens, 1, 1, 1, 8, 16, 16);
  vmla(F32, m->tile, x + HALF, y + HALF, tokens, 1, 1, 1, 8, 16, 16);
  vcadd(F32, m->sums, m->tile, tokens, 1, 1, 8);
}

/* x[t] := x[t] * numerator / sqrt(x[t].x[t] + 1e-6) */
static void normalise(rd_npu_core *c, const verify_ub *m, uint64_t x, float numerator,
                      uint32_t tokens) {
  token_dots(c, m, x, x, tokens);
  lanes(c, 8);
  vadds(F32, m->sums, m->sums, 1e-6f, 1, 1, 1, 1, 1);
  vsqrt(F32, m->sums, m->sums, 1, 1, 1, 1, 1);
  vector_dup(F32, m->eight, numerator, 1, 1, 1);
  vdiv(F32, m->sums, m->eight, m->sums, 1, 1, 1, 1, 1, 1, 1);
  spread(c, m->norm_blocks, m->sums);
  lanes(c, ALL_LANES);
  for (uint32_t half = 0; half < ROW; half += HALF)
    vmul(F32, x + half, x + half, m->norm_blocks, tokens, 1, 1, 0, 16, 16, 1);
}

/* exp(min(A_log, 88)) of the item's head, in every block of eA_blocks. */
static void head_rate(rd_npu_core *c, const verify_ub *m, uint64_t A_log) {
  lanes(c, 8);
  vector_dup(F32, m->sums, 0.0f, 1, 1, 1);
  lanes(c, 1);
  vmins(F32, m->eight, A_log, 88.0f, 1, 1, 1, 1, 1);
  vexp(F32, m->eight, m->eight, 1, 1, 1, 1, 1);
  vcadd(F32, m->sums, m->eight, 1, 1, 1, 1);
  spread(c, m->eA_blocks, m->sums);
}

/* The first number of each of `tokens` blocks of bf16 becomes beta, spread over beta_blocks. */
static void token_betas(rd_npu_core *c, const verify_ub *m, uint64_t logits, uint32_t tokens) {
  lanes(c, 8);
  vector_dup(F32, m->sums, 0.0f, 1, 1, 1);
  lanes(c, 1);
  vconv_bf162f32(m->beta, logits, tokens, 1, 1, 1, 1);
  sigmoid(c, m, m->beta, tokens, 1);
  vcadd(F32, m->sums, m->beta, tokens, 1, 1, 1);
  spread(c, m->beta_blocks, m->sums);
}

/* a = exp(lower_bound * sigmoid(eA * (g + dt_bias))), g already widened in place of a. */
static void decays(rd_npu_core *c, const replay_args *args, const verify_ub *m, uint64_t a,
                   uint64_t dt_bias, uint32_t tokens) {
  for (uint32_t half = 0; half < ROW; half += HALF)
    vadd(F32, a + half, a + half, dt_bias + half, tokens, 1, 1, 1, 16, 16, 0);
  vmul(F32, a, a, m->eA_blocks, tokens * 2, 1, 1, 0, 8, 8, 0);
  sigmoid(c, m, a, tokens * 2, 8);
  vmuls(F32, a, a, args->lower_bound, tokens * 2, 1, 1, 8, 8);
  vexp(F32, a, a, tokens * 2, 1, 1, 8, 8);
}

/* Everything of a slice that does not depend on the state. */
static void prepare_slice(rd_npu_core *c, const replay_cursor *at, const verify_ub *m) {
  const replay_args *args = at->a;
  const uint32_t slot = at->step & 1, item = at->ordinal & 1, tokens = at->tokens,
                 rows = args->rows;
  const uint32_t width = rows < ALL_LANES ? rows : ALL_LANES;
  const uint64_t a = m->decay[slot];
  if (at->t0 == 0) head_rate(c, m, m->A_log[item]);
  token_betas(c, m, m->beta16[slot], tokens);
  lanes(c, width);
  vconv_bf162f32(m->v, m->v16[slot], tokens * (rows / width), 1, 1, width / 8, width / 16);
  lanes(c, ALL_LANES);
  vconv_bf162f32(m->q, m->q16[slot], tokens * 2, 1, 1, 8, 4);
  vconv_bf162f32(m->k, m->k16[slot], tokens * 2, 1, 1, 8, 4);
  vconv_bf162f32(a, m->g16[slot], tokens * 2, 1, 1, 8, 4);
  set_flag(PIPE_V, PIPE_MTE2, 2 + slot); /* the 16-bit inputs have been read */
  decays(c, args, m, a, m->dt_bias[item], tokens);
  normalise(c, m, m->k, 1.0f, tokens);
  normalise(c, m, m->q, args->scale, tokens);
  token_dots(c, m, m->k, m->q, tokens);
  spread(c, m->kq_blocks, m->sums);
  vmul(F32, m->kt, m->k, a, tokens * 2, 1, 1, 1, 8, 8, 8);
  vmul(F32, m->qt, m->q, a, tokens * 2, 1, 1, 1, 8, 8, 8);
}

/* y[r] = S[r] . x */
static void row_dots(rd_npu_core *c, rd_npu_site site, const verify_ub *m, uint64_t y, uint64_t S,
                     uint64_t x, uint32_t rows) {
  rd_npu_vmul(c, RD_VIA(site), F32, m->tile, S, x, rows, 1, 1, 1, 8, 16, 0);
  rd_npu_vmla(c, RD_VIA(site), F32, m->tile, S + HALF, x + HALF, rows, 1, 1, 1, 8, 16, 0);
  rd_npu_vcadd(c, RD_VIA(site), F32, y, m->tile, rows, 1, 1, 8);
}

static void token(rd_npu_core *c, const replay_cursor *at, const verify_ub *m, uint32_t t) {
  const uint32_t rows = at->a->rows, width = rows < ALL_LANES ? rows : ALL_LANES;
  const uint32_t repeat = rows / width, rep = width / 8;
  const uint64_t S = m->state[at->ordinal & 1], a = m->decay[at->step & 1] + t * ROW;
  const uint64_t u = m->u + t * rows * 4, v = m->v + t * rows * 4, o = m->o + t * rows * 4;
  row_dots(c, RD_SITE, m, m->yk, S, m->kt + t * ROW, rows);
  row_dots(c, RD_SITE, m, o, S, m->qt + t * ROW, rows);
  lanes(c, width);
  vsub(F32, u, v, m->yk, repeat, 1, 1, 1, rep, rep, rep);
  vmul(F32, u, u, m->beta_blocks + t * 32, repeat, 1, 1, 0, rep, rep, 0);
  vmla(F32, o, u, m->kq_blocks + t * 32, repeat, 1, 1, 0, rep, rep, 0);
  lanes(c, ALL_LANES);
  if (at->t0 + t + 1 == at->length) return; /* nobody reads the state after the last token */
  vbrcb(F32, m->expanded, u, rows / 8, 1, 8);
  for (uint32_t half = 0; half < ROW; half += HALF) {
    vmul(F32, S + half, S + half, a + half, rows, 1, 1, 1, 16, 16, 0);
    vmla(F32, S + half, m->expanded, m->k + t * ROW + half, rows, 1, 0, 1, 16, 1, 0);
  }
}

static void stage(rd_npu_core *c, const replay_cursor *at, const verify_ub *m) {
  const uint32_t slot = at->step & 1, rows = at->a->rows,
                 width = rows < ALL_LANES ? rows : ALL_LANES;
  lanes(c, width);
  vconv_f322f16(m->u_out[slot], m->u, at->tokens * (rows / width), 1, 1, width / 16, width / 8);
  vconv_f322bf16(m->o_out[slot], m->o, at->tokens * (rows / width), 1, 1, width / 16, width / 8);
  lanes(c, ALL_LANES);
  if (at->row == 0) vconv_f322f16(m->k_out[slot], m->k, at->tokens * 2, 1, 1, 4, 8);
}

static void compute(rd_npu_core *c, const replay_cursor *at, const verify_ub *m) {
  const uint32_t slot = at->step & 1, item = at->ordinal & 1;
  wait_flag(PIPE_MTE2, PIPE_V, slot);
  wait_flag(PIPE_MTE3, PIPE_V, slot);
  prepare_slice(c, at, m);
  for (uint32_t t = 0; t < at->tokens; t++) token(c, at, m, t);
  stage(c, at, m);
  if (at->t0 + at->tokens == at->length) set_flag(PIPE_V, PIPE_MTE2, item);
  set_flag(PIPE_V, PIPE_MTE3, slot);
}

static void store(rd_npu_core *c, const replay_cursor *at, const verify_ub *m) {
  const replay_args *a = at->a;
  const uint32_t slot = at->step & 1, blocks = a->rows / 16;
  wait_flag(PIPE_V, PIPE_MTE3, slot);
  const place o = token_place(at, a->N, at->n, 128);
  copy_ubuf_to_gm(GM(a->out) + 2 * (o.first + at->row), m->o_out[slot], at->tokens, blocks, 0,
                  (o.stride - a->rows) / 16);
  copy_ubuf_to_gm(GM(a->u) + 2 * rdn_replay_record_offset(at, at->row), m->u_out[slot], at->tokens,
                  blocks, 0, a->N * 8 - blocks);
  if (at->row == 0) { /* once per head, or cores would race on the same bytes */
    copy_ubuf_to_gm(GM(a->k) + 2 * rdn_replay_record_offset(at, 0), m->k_out[slot], at->tokens, 8,
                    0, a->N * 8 - 8);
    copy_ubuf_to_gm(GM(a->decay) + 4 * rdn_replay_record_offset(at, 0), m->decay[slot], at->tokens,
                    16, 0, a->N * 16 - 16);
  }
  set_flag(PIPE_MTE3, PIPE_V, slot);
}

void rdn_replay_verify_kernel(rd_npu_core *c, const void *args) {
  const replay_args *a = args;
  const verify_ub m = layout_ub(a->rows);
  replay_cursor at;
  if (!rdn_replay_first(c, &at, a, sequence_length)) return;
  for (uint32_t i = 0; i < 2; i++) { /* every buffer starts free */
    set_flag(PIPE_V, PIPE_MTE2, i);
    set_flag(PIPE_V, PIPE_MTE2, 2 + i);
    set_flag(PIPE_MTE3, PIPE_V, i);
  }
  load(c, &at, &m);
  vector_dup(F32, m.ones, 1.0f, 1, 1, 8);
  for (bool more = true; more;) {
    replay_cursor next = at;
    more = rdn_replay_next(c, &next, sequence_length);
    if (more) load(c, &next, &m); /* one slice ahead of the arithmetic */
    compute(c, &at, &m);
    store(c, &at, &m);
    at = next;
  }
  for (uint32_t i = 0; i < 2; i++) {
    wait_flag(PIPE_V, PIPE_MTE2, i);
    wait_flag(PIPE_V, PIPE_MTE2, 2 + i);
    wait_flag(PIPE_MTE3, PIPE_V, i);
  }
  set_vector_mask(~0ull, ~0ull); /* as it was found */
  pipe_barrier(PIPE_ALL);
}
