/*
 * The chunked gated delta rule on the coupled 310P core.
 *
 * Per chunk of up to 64 tokens, with G the cumulative sum of max(g, -60) and D_ij = e^(G_i - G_j),
 * j < i: A   = (k k^T . D) * beta_i            strictly lower T   = (I + A)^-1 forward substitution
 * in f32 on the vector unit r   = v - e^G (k S) v'  = (T * beta_j) r                  the new
 * values of all tokens of the chunk out = scale (e^G (q S) + (q k^T . (D + I)) v') S   = e^(G_last)
 * S + k^T (e^(G_last - G) v') k and q enter every product as given.  Everything computed enters as
 * an f16 pair hi + lo, and S stays f32 in UB over all chunks: plain f16 operands lose a factor of 5
 * to 20 when keys are correlated.
 *
 * M runs ahead of V: the products that need only inputs or the previous state are issued as soon as
 * the copy that frees their slot is.  Program order of the ring: k k^T, q k^T, k S, q S, T r, P v',
 * then k^T v'' in two halves, because a [128,128] result would fill both landing zones.
 *
 * chunk_gated_delta_rule_moves.h has the memory map and the table of events.
 */
#include "chunk_gated_delta_rule_moves.h"

/* e^-60 is below the last bit of anything it scales, and 64 of them stay exact enough in f32. */
#define CG_GATE_FLOOR -60.0

/* Lane masks of one repeat seen as 8 blocks of 8 lanes. */
#define MASK_ALL      ~0ull
#define MASK_LANE0    0x0101010101010101ull /* lane 0 of every block */
#define MASK_DIAGONAL 0x8040201008040201ull /* lane i of block i */
#define MASK_BELOW    0x7f3f1f0f07030100ull /* lanes j < i of block i */

/* Masked instructions have 64 lanes; the full register serves every type. */
static void mask(rd_npu_core *c, uint64_t lanes) {
  set_vector_mask(lanes == MASK_ALL ? MASK_ALL : 0, lanes);
}
static uint64_t first_lanes(uint32_t n) { return n < 64 ? (1ull << n) - 1 : MASK_ALL; }

/* A chunk in the order in which this core works: item = sequence and value head, t = its first
 * token. */
typedef struct place {
  uint64_t item;
  uint32_t t, length;
  bool valid;
} place;

static uint32_t length_of(rd_npu_core *c, const rdn_cg_args *a, uint64_t item) {
  return (uint32_t)load_gm_int(S32, GM(RD_CG_LENGTHS) + item / a->Hv * 4);
}

/* The first chunk at or after `item` in this core's share. */
static place first_place(rd_npu_core *c, const rdn_cg_args *a, uint64_t item) {
  uint64_t items = (uint64_t)a->B * a->Hv;
  for (; item < items; item += get_block_num()) {
    uint32_t length = length_of(c, a, item);
    if (length > 0) return (place){item, 0, length, true};
  }
  return (place){items, 0, 0, false};
}

static place next_place(rd_npu_core *c, const rdn_cg_args *a, place p) {
  if (p.t + CG_CHUNK < p.length) {
    p.t += CG_CHUNK;
    return p;
  }
  return first_place(c, a, p.item + get_block_num());
}

static uint32_t rows_of(place p) { return p.length - p.t < CG_CHUNK ? p.length - p.t : CG_CHUNK; }

static uint32_t pad16(uint32_t n) { return (n + 15) / 16 * 16; }

/* Row-major f16 [rows, 16*strips] in GM to NZ strips of `pad` rows. */
static void fetch_tile(rd_npu_core *c, uint64_t l1, uint64_t gm, uint32_t rows, uint32_t pad,
                       uint32_t strips) {
  for (uint32_t s = 0; s < strips; s++)
    copy_gm_to_cbuf(l1 + s * pad * 32, gm + s * 32, rows, 1, strips - 1, 0);
}

static void zero_tail(rd_npu_core *c, uint64_t l1, uint32_t rows, uint32_t pad, uint32_t strips) {
  for (uint32_t s = 0; s < strips; s++)
    copy_ubuf_to_cbuf(l1 + (s * pad + rows) * 32, UB(UB_ZERO), 1, pad - rows, 0, 0);
}

/* Start loading the inputs of a chunk into an input slot. */
static void fetch(rd_npu_core *c, const rdn_cg_args *a, place p, uint32_t slot) {
  uint32_t rows = rows_of(p), pad = pad16(rows), K1 = a->K / 16, V1 = a->V / 16;
  uint64_t b = p.item / a->Hv, hv = p.item % a->Hv, hk = hv / (a->Hv / a->Hk);
  uint64_t qk = (((b * a->Hk + hk) * a->T) + p.t) * a->K * 2;
  uint64_t token = p.item * a->T + p.t;
  uint64_t k_tile = L1(L1_K + slot * CG_INPUT_SLOT), q_tile = L1(L1_Q + slot * CG_INPUT_SLOT);

  wait_flag(PIPE_MTE1, PIPE_MTE2, slot);
  fetch_tile(c, k_tile, GM(RD_CG_KEY) + qk, rows, pad, K1);
  fetch_tile(c, q_tile, GM(RD_CG_QUERY) + qk, rows, pad, K1);
  set_flag(PIPE_MTE2, PIPE_MTE1, slot);

  if (a->has_g)
    copy_gm_to_ubuf(UB(UB_GIN + slot * 256), GM(RD_CG_G) + token * 4, 1, (rows + 7) / 8, 0, 0);
  copy_gm_to_ubuf(UB(UB_BIN + slot * 128), GM(RD_CG_BETA) + token * 2, 1, (rows + 15) / 16, 0, 0);
  for (uint32_t s = 0; s < V1; s++)
    copy_gm_to_ubuf(UB(UB_V + slot * CG_INPUT_SLOT + s * pad * 32),
                    GM(RD_CG_VALUE) + token * a->V * 2 + s * 32, rows, 1, V1 - 1, 0);
  set_flag(PIPE_MTE2, PIPE_V, slot);

  if (rows < pad) {
    /* MTE3 may overwrite the tile without a flag: it has staged a result of the slot's previous
     * chunk that was computed from that chunk's last product, so MTE1 was done with the tile. */
    zero_tail(c, k_tile, rows, pad, K1);
    zero_tail(c, q_tile, rows, pad, K1);
    set_flag(PIPE_MTE3, PIPE_MTE1, 4 + slot);
  }
}

/* Expand a vector with one f32 lane per row: row 8i+j gets lane j of block i, or the sum of its
 * lanes 0..j (prefix). */
static void expand(rd_npu_core *c, uint32_t dst, uint32_t src, uint32_t pad, bool prefix) {
  for (uint32_t j = 0; j < 8; j++) {
    mask(c, MASK_LANE0 * (prefix ? (2u << j) - 1 : 1u << j));
    vcgadd(F32, UB(dst + j * 32), UB(src), pad / 8, 8, 0, 1);
  }
  mask(c, MASK_ALL);
}

/* The per-row vectors of a chunk from g and beta. */
static void gates(rd_npu_core *c, const rdn_cg *w) {
  uint32_t groups = w->pad / 8;
  vector_dup(F32, UB(UB_G0), 0.0, 1, 1, 8);
  vector_dup(F32, UB(UB_BROW), 0.0, 1, 1, 8);
  pipe_barrier(PIPE_V);
  wait_flag(PIPE_MTE2, PIPE_V, w->slot);
  mask(c, first_lanes(w->rows));
  if (w->a->has_g) vmaxs(F32, UB(UB_G0), UB(UB_GIN + w->slot * 256), CG_GATE_FLOOR, 1, 1, 1, 8, 8);
  vconv_f162f32(UB(UB_BROW), UB(UB_BIN + w->slot * 128), 1, 1, 1, 8, 4);
  pipe_barrier(PIPE_V);
  expand(c, UB_BETA, UB_BROW, w->pad, false);
  /* Inclusive sums within each 8 rows, then the carry from group to group. */
  expand(c, UB_G, UB_G0, w->pad, true);
  for (uint32_t i = 1; i < groups; i++) {
    pipe_barrier(PIPE_V);
    vadd(F32, UB(UB_G + i * 256), UB(UB_G + i * 256), UB(UB_G + i * 256 - 32), 1, 1, 1, 0, 8, 8, 0);
  }
  pipe_barrier(PIPE_V);
  mask(c, MASK_LANE0);
  vcgadd(F32, UB(UB_GROW), UB(UB_G), groups, 1, 1, 8);
  mask(c, MASK_ALL);
  vexp(F32, UB(UB_EG), UB(UB_G), groups, 1, 1, 8, 8);
  vsub(F32, UB(UB_EL), UB(UB_G + w->pad * 32 - 32), UB(UB_G), groups, 1, 0, 1, 8, 0, 8);
  pipe_barrier(PIPE_V);
  vexp(F32, UB(UB_EL), UB(UB_EL), groups, 1, 1, 8, 8);
}

/* Columns 8h..8h+7 of an NZ matrix with `pad` rows, from row 8*group on: one block of 32 bytes per
 * row, 64 bytes apart. */
static uint32_t columns(uint32_t m, uint32_t pad, uint32_t h, uint32_t group) {
  return m + (h / 2) * pad * 64 + (h % 2) * 32 + group * 512;
}

/* The 8x8 blocks on the diagonal of an NZ matrix [pad,pad]: blocks 0,2,4.. and 1,3,5.. lie at even
 * strides. */
static uint32_t diagonal(uint32_t m, uint32_t odd) { return m + odd * (8 * 64 + 32); }
static uint32_t diagonal_step(uint32_t pad) { return 2 * pad + 32; }

/* m = I */
static void identity(rd_npu_core *c, uint32_t m, uint32_t pad) {
  fill(m, 0.0f, pad * pad);
  pipe_barrier(PIPE_V);
  mask(c, MASK_DIAGONAL);
  for (uint32_t odd = 0; odd < 2; odd++)
    vector_dup(F32, UB(diagonal(m, odd)), 1.0, pad / 16, 2, diagonal_step(pad));
  mask(c, MASK_ALL);
}

/* D_ij = e^(G_i - G_j) for j < i, else 0.  Differences above the diagonal, which may be large and
 * positive, are never formed. */
static void decays(rd_npu_core *c, const rdn_cg *w) {
  uint32_t pad = w->pad, groups = pad / 8;
  fill(UB_D, 0.0f, pad * pad);
  pipe_barrier(PIPE_V);
  for (uint32_t h = 0; h + 1 < groups; h++)
    vsub(F32, UB(columns(UB_D, pad, h, h + 1)), UB(UB_G + (h + 1) * 256), UB(UB_GROW + h * 32),
         groups - h - 1, 2, 1, 0, 16, 8, 0);
  mask(c, MASK_BELOW);
  for (uint32_t odd = 0; odd < 2; odd++)
    vsub(F32, UB(diagonal(UB_D, odd)), UB(UB_G + odd * 256), UB(UB_GROW + odd * 32), pad / 16, 2, 1,
         0, diagonal_step(pad), 16, 2);
  pipe_barrier(PIPE_V);
  for (uint32_t odd = 0; odd < 2; odd++)
    vexp(F32, UB(diagonal(UB_D, odd)), UB(diagonal(UB_D, odd)), pad / 16, 2, 2, diagonal_step(pad),
         diagonal_step(pad));
  mask(c, MASK_ALL);
  for (uint32_t h = 0; h + 1 < groups; h++) {
    uint32_t part = columns(UB_D, pad, h, h + 1);
    vexp(F32, UB(part), UB(part), groups - h - 1, 2, 2, 16, 16);
  }
}

/* T = (I + A)^-1 by forward substitution, column after column: T_i -= A_ij T_j for all rows i > j
 * at once. A is strictly lower, so rows up to j of the same group of 8 get a zero added.  Row j is
 * copied first because an instruction may not read a row that another of its repeats writes. */
static void invert(rd_npu_core *c, const rdn_cg *w) {
  uint32_t pad = w->pad;
  for (uint32_t j = 0; j + 1 < pad; j++) {
    uint32_t group = j / 8, rows = pad - group * 8;

    pipe_barrier(PIPE_V);
    mask(c, MASK_LANE0 << (j % 8));
    vcgadd(F32, UB(UB_COL), UB(columns(UB_A, pad, group, group)), rows, 1, 0, 2);
    for (uint32_t half = 0; half < 2 && half <= group; half++) {
      mask(c, first_lanes(((group - half) / 2 + 1) * 8));
      vmuls(F32, UB(UB_TJ + half * 32), UB(UB_T + j * 64 + half * 32), -1.0, 1, 2, 2 * pad, 8, 8);
    }
    mask(c, MASK_ALL);
    pipe_barrier(PIPE_V);
    for (uint32_t h = 0; h <= group; h++)
      vmla(F32, UB(columns(UB_T, pad, h, group)), UB(UB_COL), UB(UB_TJ + h * 32), rows / 8, 2, 1, 0,
           16, 8, 0);
  }
}

/* T_ij *= beta_j */
static void scale_inverse(rd_npu_core *c, const rdn_cg *w) {
  uint32_t groups = w->pad / 8;
  for (uint32_t h = 0; h < groups; h++) {
    uint32_t part = columns(UB_T, w->pad, h, h);
    vmul(F32, UB(part), UB(part), UB(UB_BROW + h * 32), groups - h, 2, 2, 0, 16, 16, 0);
  }
}

/* Y = v of this chunk in f32, zero in the padding rows. */
static void widen_values(rd_npu_core *c, const rdn_cg *w) {
  uint32_t V1 = w->a->V / 16, in = UB_V + w->slot * CG_INPUT_SLOT;
  if (w->rows == w->pad) {
    widen(UB_Y, in, w->pad * w->a->V);
    return;
  }
  fill(UB_Y, 0.0f, w->pad * w->a->V);
  pipe_barrier(PIPE_V);
  for (uint32_t s = 0; s < V1; s++) {
    uint32_t dst = UB_Y + s * w->pad * 64, src = in + s * w->pad * 32, whole = w->rows / 4;
    if (whole > 0) vconv_f162f32(UB(dst), UB(src), whole, 1, 1, 8, 4);
    if (w->rows % 4 == 0) continue;
    mask(c, first_lanes(w->rows % 4 * 16));
    vconv_f162f32(UB(dst + whole * 256), UB(src + whole * 128), 1, 1, 1, 8, 4);
    mask(c, MASK_ALL);
  }
}

/* Columns of the state that land together. */
static uint32_t half_strips(const rdn_cg *w, uint32_t half) {
  uint32_t V1 = w->a->V / 16;
  return half == 0 ? (V1 + 1) / 2 : V1 / 2;
}

static uint32_t half_state(const rdn_cg *w, uint32_t half) {
  return half == 0 ? UB_S : UB_S + half_strips(w, 0) * w->a->K * 64;
}

static void state_to_l1(rd_npu_core *c, const rdn_cg *w, uint32_t half, uint32_t tmp) {
  uint32_t at = half == 0 ? 0 : half_strips(w, 0) * w->a->K * 32;
  split_to_l1(half_state(w, half), tmp, half_strips(w, half) * 16 * w->a->K, L1_SHI + at,
              L1_SLO + at);
}

/* S = the initial state of an item, and its f16 pair in L1. */
static void load_state(rd_npu_core *c, const rdn_cg *w, uint64_t item) {
  uint32_t K = w->a->K, V1 = w->a->V / 16, wide = w->a->state_f32 ? 2 : 1;
  uint64_t gm = GM(RD_CG_STATE) + item * K * w->a->V * (wide * 2);
  set_flag(PIPE_V, PIPE_MTE2, 2);
  wait_flag(PIPE_V, PIPE_MTE2, 2);
  for (uint32_t s = 0; s < V1; s++)
    copy_gm_to_ubuf(UB(UB_X + s * K * 32 * wide), gm + s * 32 * wide, K, wide, (V1 - 1) * wide, 0);
  set_flag(PIPE_MTE2, PIPE_V, 2);
  wait_flag(PIPE_MTE2, PIPE_V, 2);
  if (w->a->state_f32)
    copy_ubuf_to_ubuf(UB(UB_S), UB(UB_X), 1, K * V1 * 2, 0, 0);
  else
    widen(UB_S, UB_X, K * w->a->V);
  pipe_barrier(PIPE_V);
  state_to_l1(c, w, 0, UB_X);
  if (half_strips(w, 1) > 0) state_to_l1(c, w, 1, UB_Y);
  set_flag(PIPE_MTE3, PIPE_MTE1, 3);
}

static void store_state_f32(rd_npu_core *c, const rdn_cg *w, uint64_t item) {
  uint32_t K = w->a->K, V1 = w->a->V / 16;
  uint64_t gm = GM(RD_CG_FINAL_STATE) + item * K * w->a->V * 4;
  set_flag(PIPE_V, PIPE_MTE3, 2);
  wait_flag(PIPE_V, PIPE_MTE3, 2);
  for (uint32_t s = 0; s < V1; s++)
    copy_ubuf_to_gm(gm + s * 64, UB(UB_S + s * K * 64), K, 2, 0, (V1 - 1) * 2);
  set_flag(PIPE_MTE3, PIPE_V, 2);
  wait_flag(PIPE_MTE3, PIPE_V, 2);
}

/* S = e^(G_last) S + k^T v'' for one half; then to L1 for the next chunk, or to GM after the last.
 */
static void update_state(rd_npu_core *c, const rdn_cg *w, place p, bool last, uint32_t half,
                         uint32_t slot) {
  uint32_t K = w->a->K, strips = half_strips(w, half), s = half_state(w, half),
           x = half == 0 ? UB_X : UB_Y;
  l0c_to_ub(slot, x, K, strips * 16);
  pipe_barrier(PIPE_V);
  vmadd(F32, UB(s), UB(UB_EG + w->pad * 32 - 32), UB(x), strips * K / 4, 1, 0, 1, 8, 0, 8);
  pipe_barrier(PIPE_V);
  if (!last) {
    state_to_l1(c, w, half, x);
  } else if (!w->a->state_f32) {
    uint64_t gm = GM(RD_CG_FINAL_STATE) + p.item * K * w->a->V * 2 + half * half_strips(w, 0) * 32;
    store_f16(gm, s, K, K, strips, w->a->V / 16);
  }
}

/* One chunk; its inputs are in, or on their way to, w->slot. */
static void chunk(rd_npu_core *c, rdn_cg *w, place p) {
  const rdn_cg_args *a = w->a;
  uint32_t K = a->K, V = a->V, V1 = V / 16, pad, n;
  bool last = p.t + CG_CHUNK >= p.length;
  w->rows = rows_of(p);
  w->pad = pad = pad16(w->rows);
  n = pad * V;
  uint64_t k = L1(L1_K + w->slot * CG_INPUT_SLOT), q = L1(L1_Q + w->slot * CG_INPUT_SLOT);

  wait_flag(PIPE_MTE2, PIPE_MTE1, w->slot);
  if (w->rows < pad) wait_flag(PIPE_MTE3, PIPE_MTE1, 4 + w->slot);
  uint32_t kk = mad_to_slot(w, pad, K, pad, &(rdn_cg_term){k, k, false, true}, 1);
  uint32_t qk = mad_to_slot(w, pad, K, pad, &(rdn_cg_term){q, k, false, true}, 1);
  gates(c, w);
  decays(c, w);

  l0c_to_ub(kk, UB_A, pad, pad);
  wait_flag(PIPE_MTE3, PIPE_MTE1, 3);
  uint32_t ks =
      mad_to_slot(w, pad, K, V,
                  (rdn_cg_term[]){{k, L1(L1_SHI), false, false}, {k, L1(L1_SLO), false, false}}, 2);
  pipe_barrier(PIPE_V);
  flat(rd_npu_vmul, UB_A, UB_A, UB_D, pad * pad);
  pipe_barrier(PIPE_V);
  scale_rows(UB_A, UB_BETA, pad, pad / 16);
  mask(c, MASK_DIAGONAL);
  for (uint32_t odd = 0; odd < 2; odd++)
    vector_dup(F32, UB(diagonal(UB_D, odd)), 1.0, pad / 16, 2, diagonal_step(pad));
  mask(c, MASK_ALL);

  l0c_to_ub(qk, UB_X, pad, pad);
  uint32_t qs =
      mad_to_slot(w, pad, K, V,
                  (rdn_cg_term[]){{q, L1(L1_SHI), false, false}, {q, L1(L1_SLO), false, false}}, 2);
  pipe_barrier(PIPE_V);
  flat(rd_npu_vmul, UB_D, UB_D, UB_X, pad * pad);
  pipe_barrier(PIPE_V);
  split_to_l1(UB_D, UB_Y, pad * pad, L1_PHI, L1_PLO);

  identity(c, UB_T, pad);
  invert(c, w);
  pipe_barrier(PIPE_V);
  scale_inverse(c, w);
  pipe_barrier(PIPE_V);
  split_to_l1(UB_T, UB_Y, pad * pad, L1_THI, L1_TLO);

  l0c_to_ub(ks, UB_X, pad, V);
  pipe_barrier(PIPE_V);
  scale_rows(UB_X, UB_EG, pad, V1);
  widen_values(c, w);
  pipe_barrier(PIPE_V);
  flat(rd_npu_vsub, UB_Y, UB_Y, UB_X, n);
  pipe_barrier(PIPE_V);
  split_to_l1(UB_Y, UB_X, n, L1_RHI, L1_RLO);
  set_flag(PIPE_MTE3, PIPE_MTE1, 0);

  wait_flag(PIPE_MTE3, PIPE_MTE1, 0);
  uint32_t tr = mad_to_slot(w, pad, pad, V,
                            (rdn_cg_term[]){{L1(L1_THI), L1(L1_RHI), false, false},
                                            {L1(L1_THI), L1(L1_RLO), false, false},
                                            {L1(L1_TLO), L1(L1_RHI), false, false}},
                            3);
  l0c_to_ub(tr, UB_X, pad, V);
  pipe_barrier(PIPE_V);
  split_to_l1(UB_X, UB_Y, n, L1_UHI, L1_ULO);
  set_flag(PIPE_MTE3, PIPE_MTE1, 1);
  scale_rows(UB_X, UB_EL, pad, V1);
  pipe_barrier(PIPE_V);
  split_to_l1(UB_X, UB_Y, n, L1_WHI, L1_WLO);
  set_flag(PIPE_MTE3, PIPE_MTE1, 2);

  pipe_barrier(PIPE_V);
  l0c_to_ub(qs, UB_Y, pad, V);
  wait_flag(PIPE_MTE3, PIPE_MTE1, 1);
  uint32_t pv = mad_to_slot(w, pad, pad, V,
                            (rdn_cg_term[]){{L1(L1_PHI), L1(L1_UHI), false, false},
                                            {L1(L1_PHI), L1(L1_ULO), false, false},
                                            {L1(L1_PLO), L1(L1_UHI), false, false}},
                            3);
  wait_flag(PIPE_MTE3, PIPE_MTE1, 2);
  uint32_t kv[2] = {0, 0};
  kv[0] =
      mad_to_slot(w, K, pad, half_strips(w, 0) * 16,
                  (rdn_cg_term[]){{k, L1(L1_WHI), true, false}, {k, L1(L1_WLO), true, false}}, 2);
  pipe_barrier(PIPE_V);
  scale_rows(UB_Y, UB_EG, pad, V1);
  l0c_to_ub(pv, UB_X, pad, V);
  if (half_strips(w, 1) > 0) {
    uint32_t at = half_strips(w, 0) * pad * 32;
    kv[1] = mad_to_slot(
        w, K, pad, half_strips(w, 1) * 16,
        (rdn_cg_term[]){{k, L1(L1_WHI + at), true, false}, {k, L1(L1_WLO + at), true, false}}, 2);
  }
  set_flag(PIPE_MTE1, PIPE_MTE2, w->slot);
  pipe_barrier(PIPE_V);
  flat(rd_npu_vadd, UB_Y, UB_Y, UB_X, n);
  pipe_barrier(PIPE_V);
  vmuls(F32, UB(UB_Y), UB(UB_Y), a->scale, n / 64, 1, 1, 8, 8);
  pipe_barrier(PIPE_V);
  store_f16(GM(RD_CG_OUT) + (p.item * a->T + p.t) * V * 2, UB_Y, w->rows, pad, V1, V1);

  update_state(c, w, p, last, 0, kv[0]);
  if (half_strips(w, 1) > 0) update_state(c, w, p, last, 1, kv[1]);
  if (!last)
    set_flag(PIPE_MTE3, PIPE_MTE1, 3);
  else if (a->state_f32)
    store_state_f32(c, w, p.item);
}

/* Everything that is not a token: +0 in the output rows past each length, and the untouched bytes
 * of the state where the length is 0. */
static void no_tokens(rd_npu_core *c, const rdn_cg_args *a) {
  uint64_t items = (uint64_t)a->B * a->Hv, bytes = (uint64_t)a->K * a->V * (a->state_f32 ? 4 : 2);
  fill(UB_X, 0.0f, 8192);
  vector_dup(F32, UB(UB_ZERO), 0.0, 2, 1, 8);
  set_flag(PIPE_V, PIPE_MTE3, 2);
  wait_flag(PIPE_V, PIPE_MTE3, 2);
  for (uint64_t item = get_block_idx(); item < items; item += get_block_num()) {
    uint64_t at = (item * a->T + length_of(c, a, item)) * a->V * 2,
             end = (item + 1) * a->T * a->V * 2;
    for (; at < end; at += 32768) {
      uint64_t part = end - at < 32768 ? end - at : 32768;
      copy_ubuf_to_gm(GM(RD_CG_OUT) + at, UB(UB_X), 1, (uint32_t)(part / 32), 0, 0);
    }
  }
  set_flag(PIPE_MTE3, PIPE_MTE2, 0);
  for (uint64_t item = get_block_idx(); item < items; item += get_block_num()) {
    if (length_of(c, a, item) > 0) continue;
    wait_flag(PIPE_MTE3, PIPE_MTE2, 0);
    copy_gm_to_ubuf(UB(UB_X), GM(RD_CG_STATE) + item * bytes, 1, (uint32_t)(bytes / 32), 0, 0);
    set_flag(PIPE_MTE2, PIPE_MTE3, 0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, 0);
    copy_ubuf_to_gm(GM(RD_CG_FINAL_STATE) + item * bytes, UB(UB_X), 1, (uint32_t)(bytes / 32), 0,
                    0);
    set_flag(PIPE_MTE3, PIPE_MTE2, 0);
  }
  wait_flag(PIPE_MTE3, PIPE_MTE2, 0);
}

void rdn_chunk_gated_delta_rule(rd_npu_core *c, const void *args) {
  rdn_cg w = {.a = args};
  for (uint32_t i = 0; i < 2; i++) {
    set_flag(PIPE_V, PIPE_M, i);
    set_flag(PIPE_M, PIPE_MTE1, i);
    set_flag(PIPE_MTE1, PIPE_MTE2, i);
    set_flag(PIPE_MTE3, PIPE_V, i);
  }
  mask(c, MASK_ALL);
  no_tokens(c, w.a);

  place p = first_place(c, w.a, get_block_idx());
  if (p.valid) fetch(c, w.a, p, w.slot);
  while (p.valid) {
    place next = next_place(c, w.a, p);
    if (next.valid) fetch(c, w.a, next, w.slot ^ 1);
    if (p.t == 0) load_state(c, &w, p.item);
    chunk(c, &w, p);
    w.slot ^= 1;
    p = next;
  }

  for (uint32_t i = 0; i < 2; i++) {
    wait_flag(PIPE_V, PIPE_M, i);
    wait_flag(PIPE_M, PIPE_MTE1, i);
    wait_flag(PIPE_MTE1, PIPE_MTE2, i);
    wait_flag(PIPE_MTE3, PIPE_V, i);
  }
  pipe_barrier(PIPE_ALL);
}
