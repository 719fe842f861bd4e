/* rows: u = beta (v - S kt), S <- S diag(a) + u k', o = S qt + u kq over <= 16 tokens, AVX-512.
 * Native tile. 8 value rows x 16 keys per step: one load of S serves the update of the previous token
 * and the dot products of this one, 16 accumulators + 8 u + 6 = 30 registers. */
#include "kernels/registry.h"
#include "kernels/avx512/tree.h"

#include <string.h>

enum { ROWS = 8, GROUP = 4 }; /* rows of a block; blocks whose chains hide each other */
enum { DOTS = 1, UPDATE = 2, STORE = 4 };

typedef struct operands { /* one token's rows of Kp floats */
  const float *k, *a, *kt, *qt;
} operands;

RDI_INLINE __m512 load(const char *p, __mmask16 m) {
  return m == 0xffff ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
}

RDI_INLINE void store(char *p, __mmask16 m, __m512 x) {
  if (m == 0xffff) _mm512_storeu_ps(p, x);
  else _mm512_mask_storeu_ps(p, m, x);
}

/* 16 keys of 8 rows. p, now: operand rows of the previous token and of this one, at this column. */
RDI_INLINE void column(int kind, __mmask16 m, const char *in, char *out, int64_t stride, operands p,
                       operands now, const __m512 u[8], __m512 yk[8], __m512 yq[8]) {
  __m512 k = {0}, a = {0}, kt = {0}, qt = {0};
  if (kind & UPDATE) k = _mm512_load_ps(p.k), a = _mm512_load_ps(p.a);
  if (kind & DOTS) kt = _mm512_load_ps(now.kt), qt = _mm512_load_ps(now.qt);
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) {
    __m512 s = load(in + r * stride, m);
    if (kind & UPDATE) { /* pads stay +0: an infinite u times their zero k would be NaN */
      const __m512 x = _mm512_mul_ps(a, s);
      s = m == 0xffff ? _mm512_fmadd_ps(u[r], k, x) : _mm512_maskz_fmadd_ps(m, u[r], k, x);
    }
    if (kind & STORE) store(out + r * stride, m, s);
    if (kind & DOTS) {
      __asm__("" : "+v"(s)); /* one load: without this gcc folds it into both fmas */
      yk[r] = _mm512_fmadd_ps(s, kt, yk[r]);
      yq[r] = _mm512_fmadd_ps(s, qt, yq[r]);
    }
  }
}

RDI_INLINE operands at(operands o, int64_t c) {
  return (operands){o.k + c, o.a + c, o.kt + c, o.qt + c};
}

/* One block, one token: returns 8 yk and 8 yq. The sums start at -0, which an fma adds without a
 * trace: the first product enters as it is. */
RDI_INLINE __m512 pass(int kind, const char *in, char *out, int64_t stride, operands p, operands now,
                       const float *u, int64_t K) {
  __m512 yk[ROWS], yq[ROWS], ub[ROWS];
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) {
    yk[r] = yq[r] = _mm512_set1_ps(-0.0f);
    ub[r] = kind & UPDATE ? _mm512_set1_ps(u[r]) : _mm512_setzero_ps();
  }
  int64_t c = 0;
  for (; c + 16 <= K; c += 16)
    column(kind, 0xffff, in + 4 * c, out + 4 * c, stride, at(p, c), at(now, c), ub, yk, yq);
  if (c < K)
    column(kind, rdi_lanes(K - c), in + 4 * c, out + 4 * c, stride, at(p, c), at(now, c), ub, yk, yq);
  return kind & DOTS ? rdi_tree16(yk, yq) : _mm512_setzero_ps();
}

#define PASS(name, kind)                                                                            \
  static __attribute__((noinline)) __m512 name(const char *in, char *out, int64_t stride,           \
                                               operands p, operands now, const float *u,            \
                                               int64_t K) {                                         \
    return pass(kind, in, out, stride, p, now, u, K);                                               \
  }
PASS(pass_dots, DOTS)
PASS(pass_update, UPDATE | STORE)
PASS(pass_all, UPDATE | DOTS | STORE)
PASS(pass_last, UPDATE | DOTS)

/* Decode: the update of one block and the dots of the next in one sweep, so that the memory never
 * waits for a reduction. */
static __attribute__((noinline)) __m512 pass_chain(const char *in, char *out, const char *dots_in,
                                                   int64_t stride, operands p, const float *u,
                                                   int64_t K, const char *ahead) {
  __m512 yk[ROWS], yq[ROWS], ub[ROWS];
  RDI_UNROLL
  for (int r = 0; r < ROWS; r++) {
    yk[r] = yq[r] = _mm512_set1_ps(-0.0f);
    ub[r] = _mm512_set1_ps(u[r]);
  }
  int64_t c = 0;
  for (; c + 16 <= K; c += 16, ahead += ROWS * 64) {
    RDI_UNROLL
    for (int r = 0; r < ROWS; r++) _mm_prefetch(ahead + r * 64, _MM_HINT_T0);
    column(DOTS, 0xffff, dots_in + 4 * c, NULL, stride, at(p, c), at(p, c), ub, yk, yq);
    column(UPDATE | STORE, 0xffff, in + 4 * c, out + 4 * c, stride, at(p, c), at(p, c), ub, yk, yq);
  }
  if (c < K) {
    __mmask16 m = rdi_lanes(K - c);
    column(DOTS, m, dots_in + 4 * c, NULL, stride, at(p, c), at(p, c), ub, yk, yq);
    column(UPDATE | STORE, m, in + 4 * c, out + 4 * c, stride, at(p, c), at(p, c), ub, yk, yq);
  }
  return rdi_tree16(yk, yq);
}

typedef struct block {
  const char *in;
  char *out; /* where the state goes after the first update, same stride */
  int64_t row;
  __mmask8 rows;
  float *u; /* 8 floats of the last token */
} block;

RDI_INLINE operands token(const rdi_rows_args *g, int64_t t) {
  return (operands){g->k + t * g->Kp, g->a + t * g->Kp, g->kt + t * g->Kp, g->qt + t * g->Kp};
}

/* From the sums of token t to u and o of one block. */
RDI_INLINE void finish(const rdi_rows_args *g, const block *b, int64_t t, __m512 y) {
  __m256 yk = _mm512_castps512_ps256(y), yq = _mm512_extractf32x8_ps(y, 1);
  __m256 v = _mm256_maskz_loadu_ps(b->rows, g->v + t * g->v_stride + b->row);
  __m256 u = _mm256_mul_ps(_mm256_set1_ps(g->beta[t]), _mm256_sub_ps(v, yk));
  _mm256_store_ps(b->u, u);
  _mm256_mask_storeu_ps(g->u + t * g->u_stride + b->row, b->rows, u);
  if (g->o)
    _mm256_mask_storeu_ps(g->o + t * g->o_stride + b->row, b->rows,
                          _mm256_fmadd_ps(u, _mm256_set1_ps(g->kq[t]), yq));
}

/* Lines of the rows that come next, spread over the passes of this group. */
typedef struct ahead {
  const char *at, *end;
  int64_t step;
} ahead;

RDI_INLINE void prefetch(ahead *f) {
  const char *end = f->at + f->step < f->end ? f->at + f->step : f->end;
  for (; f->at < end; f->at += 64) _mm_prefetch(f->at, _MM_HINT_T1);
}

static void run_group(const rdi_rows_args *g, const block *b, int64_t blocks, int64_t stride,
                      int keep, ahead f) {
  operands p = token(g, 0);
  for (int64_t i = 0; i < blocks; i++) {
    finish(g, &b[i], 0, pass_dots(b[i].in, NULL, stride, p, p, NULL, g->K));
    prefetch(&f);
  }
  for (int64_t t = 1; t < g->n; t++) {
    operands now = token(g, t);
    int last = t + 1 == g->n && !keep;
    for (int64_t i = 0; i < blocks; i++) {
      const char *in = t == 1 ? b[i].in : b[i].out;
      __m512 y = last ? pass_last(in, NULL, stride, p, now, b[i].u, g->K)
                      : pass_all(in, b[i].out, stride, p, now, b[i].u, g->K);
      finish(g, &b[i], t, y);
      prefetch(&f);
    }
    p = now;
  }
  if (!keep) return;
  for (int64_t i = 0; i < blocks; i++)
    pass_update(g->n == 1 ? b[i].in : b[i].out, b[i].out, stride, p, p, b[i].u, g->K);
}

/* One token, full blocks only. */
static void run_decode(const rdi_rows_args *g, int64_t blocks, int64_t stride) {
  _Alignas(64) float u[2][ROWS];
  const char *in = (const char *)g->s_in;
  char *out = (char *)g->s_out;
  operands p = token(g, 0);
  int64_t step = ROWS * stride;
  block b = {in, out, 0, 0xff, u[0]};
  finish(g, &b, 0, pass_dots(in, NULL, stride, p, p, NULL, g->K));
  for (int64_t i = 1; i < blocks; i++) {
    const float *before = u[(i - 1) & 1];
    __m512 y = pass_chain(in, out, in + step, stride, p, before, g->K, in + 3 * step);
    in += step, out += step;
    b = (block){in, out, i * ROWS, 0xff, u[i & 1]};
    finish(g, &b, 0, y);
  }
  pass_update(in, out, stride, p, p, u[(blocks - 1) & 1], g->K);
}

static void copy_rows(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows,
                      int64_t K) {
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * to_stride, from + r * from_stride, (size_t)K * sizeof(float));
}

static ahead lines(const void *at, int64_t bytes, int64_t passes) {
  ahead f = {at, at ? (const char *)at + bytes : NULL, 0};
  f.step = (bytes / passes + 63) & ~(int64_t)63;
  return f;
}

/* The last R % 8 rows, in a zeroed block of scratch. */
static void run_tail(const rdi_rows_args *g, int64_t row, float *work) {
  _Alignas(64) float u[ROWS];
  int64_t rows = g->R - row, stride = g->Kp * 4;
  memset(work, 0, (size_t)(ROWS * stride));
  copy_rows((char *)work, stride, (const char *)(g->s_in + row * g->in_stride), g->in_stride * 4, rows,
            g->K);
  block b = {(char *)work, (char *)work, row, (__mmask8)((1u << rows) - 1), u};
  run_group(g, &b, 1, stride, g->s_out != NULL, lines(NULL, 0, 1));
  if (g->s_out)
    copy_rows((char *)(g->s_out + row * g->out_stride), g->out_stride * 4, (char *)work, stride, rows,
              g->K);
}

int64_t rdi_rows_scratch_avx512_8x16(int64_t R, int64_t K) {
  (void)R;
  return (GROUP + 1) * ROWS * ((K + 15) / 16 * 16);
}

void rdi_rows_avx512_8x16(const rdi_rows_args *g) {
  _Alignas(64) float u[GROUP][ROWS];
  float *tail = g->scratch + GROUP * ROWS * g->Kp;
  int64_t full = g->R / ROWS, in_stride = g->in_stride * 4, out_stride = g->out_stride * 4;
  int keep = g->s_out != NULL;
  if (!keep) out_stride = g->n == 1 ? in_stride : g->Kp * 4;
  if (g->n == 1 && keep && full > 0 && in_stride == out_stride) {
    run_decode(g, full, in_stride);
    full = 0;
  }
  for (int64_t i = 0; i < full; i += GROUP) {
    int64_t blocks = full - i < GROUP ? full - i : GROUP, span = blocks * ROWS * in_stride;
    const char *in = (const char *)g->s_in + i * ROWS * in_stride;
    char *out = keep ? (char *)g->s_out + i * ROWS * out_stride : (char *)g->scratch;
    ahead f = lines(i + GROUP < full ? in + span : (const char *)g->next, span, blocks * g->n);
    if (in_stride != out_stride) { /* one stride serves both sides of a pass */
      copy_rows(out, out_stride, in, in_stride, blocks * ROWS, g->K);
      in = out;
    }
    block b[GROUP];
    for (int64_t j = 0; j < blocks; j++) {
      int64_t at = j * ROWS * out_stride;
      b[j] = (block){in + at, out + at, (i + j) * ROWS, 0xff, u[j]};
    }
    run_group(g, b, blocks, out_stride, keep, f);
  }
  if (g->R % ROWS) run_tail(g, g->R / ROWS * ROWS, tail);
}
