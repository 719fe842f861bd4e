/* chunk: FAST prefill of up to 32 tokens, products on AMX. Each phase is one function, with what it reads
 * and leaves in a `work`. */
#include "kernels/avx512/column.h"

#include "kernels/amx/tile.h"
#include "kernels/avx512/transpose.h"
#include "kernels/gate_columns.h"
#include "kernels/registry.h"

enum { C = 32, HALF = 16, PANEL = 32, TERMS = 3, GROUP = 128, TILE = 512 /* bf16 of a tile */ };

/* Tiles are [16 rows][32 bf16]. `blocks`: of 32 keys. Kt: rows are keys, tokens s and s+16 side by side. */
typedef struct work {
  int64_t blocks;
  uint16_t *k, *q; /* [blocks][2 halves of the tokens]: rows are tokens */
  uint16_t *kb;    /* the same of k as a right operand: rows are pairs of keys, columns tokens */
  uint16_t *kt;    /* [2 blocks] */
  uint16_t *s;     /* [blocks + 1][TERMS]: right operands, a ring */
  uint16_t *u16;   /* [GROUP / 16][TERMS]: right operands, pairs of tokens s and s+16 */
  float *y, *u;    /* [2 C][GROUP] of k, then of q; [C][GROUP] */
  float *sum;      /* [32][PANEL]: what is added to a part of the state */
  float *m;        /* [2][C][C]: k.k, q.k, then the factors of u */
  float *a, *beta, *nk, *nq, *from_start, *to_end; /* [C] */
} work;

static float *take(float **at, int64_t floats) {
  float *p = *at;
  *at += floats;
  return p;
}

/* Of a scratch at `at`; returns its floats. */
static int64_t lay_out(work *w, float *at, int64_t K) {
  float *const start = at;
  const int64_t blocks = K / 32, tile = TILE / 2;
  w->blocks = blocks;
  w->k = (uint16_t *)(void *)take(&at, 2 * blocks * tile);
  w->q = (uint16_t *)(void *)take(&at, 2 * blocks * tile);
  w->kb = (uint16_t *)(void *)take(&at, 2 * blocks * tile);
  w->kt = (uint16_t *)(void *)take(&at, 2 * blocks * tile);
  w->s = (uint16_t *)(void *)take(&at, (blocks + 1) * TERMS * tile);
  w->u16 = (uint16_t *)(void *)take(&at, GROUP / 16 * TERMS * tile);
  w->y = take(&at, 2 * C * GROUP), w->u = take(&at, C * GROUP), w->m = take(&at, 2 * C * C);
  w->sum = take(&at, 32 * PANEL);
  w->a = take(&at, C), w->beta = take(&at, C), w->nk = take(&at, C), w->nq = take(&at, C);
  w->from_start = take(&at, C), w->to_end = take(&at, C);
  return at - start;
}

/* ---- gates, norms, tiles of q and k ---- */

/* a and beta; of tokens past n 1 and 0. Whether all decays are in [0, 1]. */
static int gates(const rdi_chunk_args *g, work *w) {
  const __m512 one = _mm512_set1_ps(1.0f);
  int inside = 1;
  for (int64_t t = 0; t < C; t += HALF) {
    const int64_t n = g->n - t < HALF ? g->n - t : HALF;
    const __mmask16 lanes = rdi_lanes(n);
    float a[HALF], beta[HALF];
    rdi_prep_args p = g->from;
    p.n = n > 0 ? n : 0, p.beta_out = beta;
    if (n > 0) {
      p.g = p.g ? (const char *)p.g + (size_t)(t * p.g_stride) * rd_dtype_size(p.g_dtype) : NULL;
      p.beta = (const char *)p.beta + (size_t)(t * p.beta_stride) * rd_dtype_size(p.beta_dtype);
      heads(&p, a), betas(&p);
    }
    const __m512 x = _mm512_mask_loadu_ps(one, lanes, a);
    inside &= _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GE_OQ) == 0xffff &&
              _mm512_cmp_ps_mask(x, one, _CMP_LE_OQ) == 0xffff;
    _mm512_store_ps(w->a + t, x);
    _mm512_store_ps(w->beta + t, _mm512_maskz_loadu_ps(lanes, beta));
  }
  return inside;
}

RDI_INLINE __m512 wide_low(__m512i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
RDI_INLINE __m512 wide_high(__m512i x) {
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Rows of q or k into tiles, and their squares' sums. */
static void rows(const rdi_chunk_args *g, const void *from, int64_t stride, uint16_t *tiles,
                 int64_t blocks, float *sum) {
  for (int64_t t = 0; t < C; t++) {
    uint16_t *to = tiles + t / HALF * TILE + t % HALF * 32;
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (int64_t b = 0; b < blocks; b++) {
      const uint16_t *x = (const uint16_t *)from + t * stride + b * 32;
      const __m512i y = t < g->n ? _mm512_loadu_si512(x) : _mm512_setzero_si512();
      const __m512 low = wide_low(y), high = wide_high(y);
      even = _mm512_fmadd_ps(low, low, even), odd = _mm512_fmadd_ps(high, high, odd);
      _mm512_store_si512(to + b * 2 * TILE, y);
    }
    sum[t] = rdi_tree1(_mm512_add_ps(even, odd));
  }
}

static void operands(const rdi_chunk_args *g, work *w) {
  const rdi_prep_args *p = &g->from;
  rows(g, p->k, p->k_stride, w->k, w->blocks, w->nk);
  rows(g, p->q, p->q_stride, w->q, w->blocks, w->nq);
  const __m512 one = _mm512_set1_ps(1.0f), scale = _mm512_set1_ps(p->scale);
  const __m512 eps = _mm512_set1_ps(p->eps);
  for (int64_t t = 0; t < C; t += HALF) {
    const __m512 k = _mm512_sqrt_ps(_mm512_add_ps(_mm512_load_ps(w->nk + t), eps));
    const __m512 q = _mm512_sqrt_ps(_mm512_add_ps(_mm512_load_ps(w->nq + t), eps));
    /* Rows past n are zeros: with eps 0 their norm would be infinite, and 0 x inf a NaN. */
    const __mmask16 lanes = rdi_lanes(g->n - t);
    _mm512_store_ps(w->nk + t, p->l2norm ? _mm512_maskz_div_ps(lanes, one, k) : one);
    _mm512_store_ps(w->nq + t, p->l2norm ? _mm512_maskz_div_ps(lanes, scale, q) : scale);
  }
  const __m512i low = _mm512_set1_epi32(0xffff);
  for (int64_t b = 0; b < w->blocks; b++) {
    __m512 x[2][16];
    for (int h = 0; h < 2; h++) {
      uint16_t *to = w->kb + (2 * b + h) * TILE;
      RDI_UNROLL
      for (int i = 0; i < 16; i++) x[h][i] = _mm512_load_ps(w->k + (2 * b + h) * TILE + i * 32);
      rdi_transpose16(x[h]);
      RDI_UNROLL
      for (int i = 0; i < 16; i++) _mm512_store_ps(to + i * 32, x[h][i]);
    }
    uint16_t *to = w->kt + 2 * b * TILE;
    RDI_UNROLL
    for (int i = 0; i < 16; i++, to += 64) {
      const __m512i s = _mm512_castps_si512(x[0][i]), r = _mm512_castps_si512(x[1][i]);
      _mm512_store_si512(to, _mm512_or_si512(_mm512_and_si512(s, low), _mm512_slli_epi32(r, 16)));
      _mm512_store_si512(to + 32,
                         _mm512_or_si512(_mm512_srli_epi32(s, 16), _mm512_andnot_si512(low, r)));
    }
  }
}

/* ---- the triangles: decays, A and P ---- */

static void triangles(rdi_tiles *tiles, work *w) {
  for (int r = 0; r < 2; r++) { /* products of keys, then of queries, with keys */
    const uint16_t *x = r ? w->q : w->k;
    float *m = w->m + r * C * C;
    RDI_TILE_ZERO(tiles, 0);
    RDI_TILE_ZERO(tiles, 1);
    RDI_TILE_ZERO(tiles, 2);
    for (int64_t b = 0; b < w->blocks; b++) {
      RDI_TILE_LOAD(tiles, 4, x + 2 * b * TILE, 64);
      RDI_TILE_LOAD(tiles, 5, x + (2 * b + 1) * TILE, 64);
      RDI_TILE_LOAD(tiles, 6, w->kb + 2 * b * TILE, 64);
      RDI_TILE_LOAD(tiles, 7, w->kb + (2 * b + 1) * TILE, 64);
      RDI_TILE_PRODUCT(tiles, 0, 4, 6);
      RDI_TILE_PRODUCT(tiles, 1, 5, 6);
      RDI_TILE_PRODUCT(tiles, 2, 5, 7);
    }
    RDI_TILE_STORE(tiles, 0, m, 4 * C);
    RDI_TILE_STORE(tiles, 1, m + HALF * C, 4 * C);
    RDI_TILE_STORE(tiles, 2, m + HALF * C + HALF, 4 * C);
  }
  /* d: the products a[s+1] .. a[t] in lane s <= t, row by row; `all`: from the first token on. */
  __m512 d[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  const __m512 n[2] = {_mm512_load_ps(w->nk), _mm512_load_ps(w->nk + HALF)};
  float all = 1.0f;
  for (int t = 0; t < C; t++) {
    const __m512 a = _mm512_set1_ps(w->a[t]), nq = _mm512_set1_ps(w->nq[t]);
    const __m512 k = _mm512_set1_ps(w->beta[t] * w->nk[t]);
    float *A = w->m + t * C, *P = A + C * C;
    w->from_start[t] = all *= w->a[t];
    for (int h = 0; h <= t / HALF; h++, A += HALF, P += HALF) {
      d[h] = _mm512_mul_ps(d[h], a);
      if (h == t / HALF)
        d[h] = _mm512_mask_mov_ps(d[h], (__mmask16)(1u << t % HALF), _mm512_set1_ps(1.0f));
      const __m512 x = _mm512_mul_ps(d[h], n[h]);
      _mm512_store_ps(A, _mm512_mul_ps(_mm512_mul_ps(_mm512_load_ps(A), x), k));
      _mm512_store_ps(P, _mm512_mul_ps(_mm512_mul_ps(_mm512_load_ps(P), x), nq));
    }
  }
  for (int h = 0; h < 2; h++) _mm512_store_ps(w->to_end + h * HALF, _mm512_mul_ps(d[h], n[h]));
}

/* ---- K S and Q S ---- */

/* Three terms of two rows as rows of pairs, `step` apart: each takes the top 16 bits of what is left. */
RDI_INLINE void split(__m512 x, __m512 y, uint16_t *to, int64_t step) {
  const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
  RDI_UNROLL
  for (int i = 0; i < TERMS; i++) {
    const __m512i a = _mm512_castps_si512(x), b = _mm512_castps_si512(y);
    /* (b & high) | a >> 16 */
    _mm512_store_si512(to + i * step,
                       _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, high, 0xf8));
    if (i == TERMS - 1) break;
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(a, high)));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(_mm512_and_si512(b, high)));
  }
}

/* Pairs [from, to) of the 16 of a block of 32 keys, of 16 values at s, into tiles of each term. */
RDI_INLINE void split_keys(const float *s, uint16_t *tiles, int from, int to) {
  for (int p = from; p < to; p++)
    split(_mm512_load_ps(s + 2 * p * PANEL), _mm512_load_ps(s + (2 * p + 1) * PANEL),
          tiles + p * 32, TILE);
}

/* y of `values` tiles of 16 values from `panel` on. While the matrix unit works on one tile, the vector unit
 * splits the next. */
static void state_products(rdi_tiles *tiles, work *w, const float *panel, int64_t pitch,
                           int values) {
  int64_t at = 0; /* place in the ring: blocks of this tile, and room for one of the next */
  for (int64_t b = 0; b < w->blocks; b++)
    split_keys(panel + b * 32 * PANEL, w->s + b * TERMS * TILE, 0, 16);
  for (int i = 0; i < values; i++) {
    const float *next = i + 1 < values ? panel + (i + 1) / 2 * pitch + (i + 1) % 2 * 16 : NULL;
    RDI_TILE_ZERO(tiles, 0);
    RDI_TILE_ZERO(tiles, 1);
    RDI_TILE_ZERO(tiles, 2);
    RDI_TILE_ZERO(tiles, 3);
    for (int64_t b = 0; b < w->blocks; b++) {
      const uint16_t *now = w->s + at * TERMS * TILE;
      uint16_t *then = w->s + (at > 0 ? at - 1 : w->blocks) * TERMS * TILE;
      at = at < w->blocks ? at + 1 : 0;
      const float *s = next ? next + b * 32 * PANEL : NULL;
      RDI_TILE_LOAD(tiles, 4, w->k + 2 * b * TILE, 64);
      RDI_TILE_LOAD(tiles, 5, w->k + (2 * b + 1) * TILE, 64);
#define STEP(term, from, to)                                                                       \
  RDI_TILE_LOAD(tiles, 7, now + (term)*TILE, 64);                                                  \
  RDI_TILE_PRODUCT(tiles, 0, 4, 7);                                                                \
  RDI_TILE_LOAD(tiles, 6, w->q + 2 * b * TILE, 64);                                                \
  RDI_TILE_PRODUCT(tiles, 1, 5, 7);                                                                \
  RDI_TILE_PRODUCT(tiles, 2, 6, 7);                                                                \
  RDI_TILE_LOAD(tiles, 6, w->q + (2 * b + 1) * TILE, 64);                                          \
  RDI_TILE_PRODUCT(tiles, 3, 6, 7);                                                                \
  if (s) split_keys(s, then, from, to)
      STEP(0, 0, 5);
      STEP(1, 5, 10);
      STEP(2, 10, 16);
#undef STEP
    }
    float *y = w->y + i * 16;
    RDI_TILE_STORE(tiles, 0, y, 4 * GROUP);
    RDI_TILE_STORE(tiles, 1, y + HALF * GROUP, 4 * GROUP);
    RDI_TILE_STORE(tiles, 2, y + C * GROUP, 4 * GROUP);
    RDI_TILE_STORE(tiles, 3, y + (C + HALF) * GROUP, 4 * GROUP);
  }
}

/* ---- forward substitution and outputs, in FP32: two tokens share the loads of u ---- */

/* x[i] += factor(first + i, s) u[s] for s < n, of N vectors of values. */
RDI_INLINE void combine(__m512 x[2][8], const float *factor, const float *u, int n, int N) {
  for (int s = 0; s < n; s++) {
    const __m512 f = _mm512_set1_ps(factor[s]), g = _mm512_set1_ps(factor[C + s]);
    RDI_UNROLL
    for (int j = 0; j < N; j++) {
      const __m512 y = _mm512_load_ps(u + s * GROUP + 16 * j);
      x[0][j] = _mm512_fnmadd_ps(f, y, x[0][j]), x[1][j] = _mm512_fnmadd_ps(g, y, x[1][j]);
    }
  }
}

RDI_INLINE void one_row(const rdi_chunk_args *g, const work *w, int64_t r, int t, __m512 x[8],
                        int N) {
  const __m512 beta = _mm512_set1_ps(w->beta[t]);
  const __m512 f = _mm512_set1_ps(w->beta[t] * (w->nk[t] * w->from_start[t]));
  RDI_UNROLL
  for (int j = 0; j < N; j++) {
    const __m512 v = t < g->n
                         ? c_any(g->v, g->v_dtype, t * g->v_stride + r + 16 * j, g->R - r - 16 * j)
                         : _mm512_setzero_ps();
    const __m512 y = _mm512_load_ps(w->y + t * GROUP + 16 * j);
    x[j] = _mm512_fnmadd_ps(f, y, _mm512_mul_ps(beta, v));
  }
}

RDI_INLINE void substitute(const rdi_chunk_args *g, const work *w, int64_t r, int N) {
  for (int t = 0; t < C; t += 2) {
    __m512 x[2][8];
    float *u = w->u + t * GROUP;
    one_row(g, w, r, t, x[0], N), one_row(g, w, r, t + 1, x[1], N);
    combine(x, w->m + t * C, w->u, t, N);
    const __m512 f = _mm512_set1_ps(w->m[(t + 1) * C + t]);
    RDI_UNROLL
    for (int j = 0; j < N; j++) {
      _mm512_store_ps(u + 16 * j, x[0][j]);
      _mm512_store_ps(u + GROUP + 16 * j, _mm512_fnmadd_ps(f, x[0][j], x[1][j]));
    }
  }
}

RDI_INLINE void put_row(const rdi_chunk_args *g, int64_t r, int64_t t, const __m512 x[8], int N) {
  if (t >= g->n) return;
  RDI_UNROLL
  for (int j = 0; j < N; j++) {
    const int64_t left = g->R - r - 16 * j, at = t * g->o_stride + r + 16 * j;
    const __m512 y = c_flip(x[j]);
    if (left <= 0) return;
    if (g->o_dtype == RD_F32)
      c_put((float *)g->o + at, y, left);
    else
      c_put16((uint16_t *)g->o + at, g->o_dtype, y, left);
  }
}

/* Of tokens t and t + 1, with the opposite sign until they are put: `combine` subtracts. */
RDI_INLINE void outputs(const rdi_chunk_args *g, const work *w, int64_t r, int t, int N) {
  __m512 x[2][8];
  const float *P = w->m + C * C + t * C;
  for (int i = 0; i < 2; i++) {
    const __m512 f = _mm512_set1_ps(-(w->nq[t + i] * w->from_start[t + i]));
    RDI_UNROLL
    for (int j = 0; j < N; j++)
      x[i][j] = _mm512_mul_ps(f, _mm512_load_ps(w->y + (C + t + i) * GROUP + 16 * j));
  }
  combine(x, P, w->u, t, N);
  const __m512 f = _mm512_set1_ps(P[t]), f1 = _mm512_set1_ps(P[C + t]);
  const __m512 f2 = _mm512_set1_ps(P[C + t + 1]);
  RDI_UNROLL
  for (int j = 0; j < N; j++) {
    const __m512 u = _mm512_load_ps(w->u + t * GROUP + 16 * j);
    x[0][j] = _mm512_fnmadd_ps(f, u, x[0][j]);
    x[1][j] = _mm512_fnmadd_ps(f2, _mm512_load_ps(w->u + (t + 1) * GROUP + 16 * j),
                               _mm512_fnmadd_ps(f1, u, x[1][j]));
  }
  put_row(g, r, t, x[0], N), put_row(g, r, t + 1, x[1], N);
}

/* ---- S += K' (nk d u) ---- */

RDI_INLINE void split_u(const work *w, int N) {
  for (int s = 0; s < HALF; s++) {
    const __m512 f = _mm512_set1_ps(w->to_end[s]), h = _mm512_set1_ps(w->to_end[s + HALF]);
    const float *u = w->u + s * GROUP;
    RDI_UNROLL
    for (int j = 0; j < N; j++)
      split(_mm512_mul_ps(f, _mm512_load_ps(u + 16 * j)),
            _mm512_mul_ps(h, _mm512_load_ps(u + HALF * GROUP + 16 * j)),
            w->u16 + j * TERMS * TILE + s * 32, TILE);
  }
}

/* What the tokens add to 32 keys x one panel of values, in tiles 0 to 3; and where that goes. */
static inline void update_products(rdi_tiles *tiles, const work *w, int64_t block, int64_t panel) {
  const uint16_t *u = w->u16 + 2 * panel * TERMS * TILE;
  RDI_TILE_ZERO(tiles, 0);
  RDI_TILE_ZERO(tiles, 1);
  RDI_TILE_ZERO(tiles, 2);
  RDI_TILE_ZERO(tiles, 3);
  RDI_TILE_LOAD(tiles, 4, w->kt + 2 * block * TILE, 64);
  RDI_TILE_LOAD(tiles, 5, w->kt + (2 * block + 1) * TILE, 64);
  for (int i = 0; i < TERMS; i++) {
    RDI_TILE_LOAD(tiles, 6, u + i * TILE, 64);
    RDI_TILE_LOAD(tiles, 7, u + (TERMS + i) * TILE, 64);
    RDI_TILE_PRODUCT(tiles, 0, 4, 6);
    RDI_TILE_PRODUCT(tiles, 1, 4, 7);
    RDI_TILE_PRODUCT(tiles, 2, 5, 6);
    RDI_TILE_PRODUCT(tiles, 3, 5, 7);
  }
}

static inline void update_sum(rdi_tiles *tiles, float *sum) {
  RDI_TILE_STORE(tiles, 0, sum, 4 * PANEL);
  RDI_TILE_STORE(tiles, 1, sum + 16, 4 * PANEL);
  RDI_TILE_STORE(tiles, 2, sum + 16 * PANEL, 4 * PANEL);
  RDI_TILE_STORE(tiles, 3, sum + 16 * PANEL + 16, 4 * PANEL);
}

RDI_INLINE void update_state(float *s, const float *sum, __m512 decay) {
  for (int i = 0; i < 32 * PANEL; i += 16)
    _mm512_store_ps(s + i, _mm512_fmadd_ps(_mm512_load_ps(s + i), decay, _mm512_load_ps(sum + i)));
}

/* Values [r, r + 16 N) of the head. Outputs and the state's update do not depend on each other: a step of
 * one, a step of the other. */
RDI_INLINE void group(const rdi_chunk_args *g, rdi_tiles *tiles, work *w, int64_t r, int N) {
  float *panel = g->panel + r * g->from.K;
  const int64_t pitch = PANEL * g->from.K, steps = w->blocks * (N / 2);
  state_products(tiles, w, panel, pitch, N);
  substitute(g, w, r, N);
  split_u(w, N);
  const __m512 decay = _mm512_set1_ps(w->from_start[C - 1]);
  float *before = NULL; /* added while the matrix unit makes the next sum */
  int t = 0;
  for (int64_t i = 0; i < steps; i++) {
    const int64_t block = i / (N / 2), at = i % (N / 2);
    update_products(tiles, w, block, at);
    if (before) update_state(before, w->sum, decay);
    for (; t * steps < C * (i + 1); t += 2) outputs(g, w, r, t, N);
    update_sum(tiles, w->sum);
    before = panel + at * pitch + block * 32 * PANEL;
  }
  update_state(before, w->sum, decay);
}

static __attribute__((noinline)) void group8(const rdi_chunk_args *g, rdi_tiles *t, work *w,
                                             int64_t r) {
  group(g, t, w, r, 8);
}
static __attribute__((noinline)) void group6(const rdi_chunk_args *g, rdi_tiles *t, work *w,
                                             int64_t r) {
  group(g, t, w, r, 6);
}
static __attribute__((noinline)) void group4(const rdi_chunk_args *g, rdi_tiles *t, work *w,
                                             int64_t r) {
  group(g, t, w, r, 4);
}
static __attribute__((noinline)) void group2(const rdi_chunk_args *g, rdi_tiles *t, work *w,
                                             int64_t r) {
  group(g, t, w, r, 2);
}

int rdi_chunk_amx_32(const rdi_chunk_args *g) {
  work w;
  (void)lay_out(&w, g->scratch, g->from.K);
  if (!gates(g, &w)) return 0;
  rdi_tiles tiles;
  rdi_tiles_whole(&tiles);
  RDI_TILES_BEGIN(&tiles);
  operands(g, &w);
  triangles(&tiles, &w);
  for (int64_t r = 0; r < g->R; r += GROUP) {
    const int64_t panels = (g->R - r + PANEL - 1) / PANEL;
    if (panels >= 4)
      group8(g, &tiles, &w, r);
    else if (panels == 3)
      group6(g, &tiles, &w, r);
    else if (panels == 2)
      group4(g, &tiles, &w, r);
    else
      group2(g, &tiles, &w, r);
  }
  RDI_TILES_END(&tiles);
  return 1;
}

int64_t rdi_chunk_scratch_amx_32(int64_t K) {
  work w;
  static float nowhere[1];
  return lay_out(&w, nowhere, K);
}
