/* rows: u = beta (v - S kt), S <- S diag(a) + u k', o = S qt + u kq over <= 16 tokens, AVX2 + FMA.
 * Native tile. 2 value rows x 16 keys per step: 8 accumulators, 2 u and 5 temporaries of 16 registers;
 * four pairs of rows (r, r + 4) make a block of 8, whose sums share one tree. */
#include "kernels/avx2/tree.h"
#include "kernels/registry.h"
#include "kernels/rows_blocks.h"

enum { DOTS = 1, UPDATE = 2, STORE = 4, PAIR = 2 };

typedef struct rdi_sums {
  __m256 yk, yq;
} rdi_sums;

typedef struct partials { /* of one pair: [row][half of the 16 partial sums] */
  __m256 yk[PAIR][2], yq[PAIR][2];
} partials;

/* 8 keys of 2 rows. p, now: operand rows of the previous token and of this one, at these keys. */
RDI_INLINE void eight(int kind, int full, __m256i m, int half, const char *in, char *out,
                      int64_t stride, operands p, operands now, const __m256 u[PAIR], partials *y) {
  __m256 k = {0}, a = {0}, kt = {0}, qt = {0};
  if (kind & UPDATE) k = _mm256_load_ps(p.k), a = _mm256_load_ps(p.a);
  if (kind & DOTS) {
    kt = _mm256_load_ps(now.kt), qt = _mm256_load_ps(now.qt);
    __asm__("" : "+x"(kt), "+x"(qt)); /* one load each: else gcc folds them into every fma */
  }
  RDI_UNROLL
  for (int r = 0; r < PAIR; r++) {
    const float *from = (const float *)(const void *)(in + 4 * r * stride);
    float *to = (float *)(void *)(out + 4 * r * stride);
    __m256 s = full ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, m);
    if (kind & UPDATE) s = _mm256_fmadd_ps(u[r], k, _mm256_mul_ps(a, s));
    if ((kind & UPDATE) && !full) s = _mm256_and_ps(s, _mm256_castsi256_ps(m)); /* inf 0 at pads */
    if ((kind & STORE) && full) _mm256_storeu_ps(to, s);
    if ((kind & STORE) && !full) _mm256_maskstore_ps(to, m, s);
    if (kind & DOTS) {
      __asm__("" : "+x"(s));
      y->yk[r][half] = _mm256_fmadd_ps(s, kt, y->yk[r][half]);
      y->yq[r][half] = _mm256_fmadd_ps(s, qt, y->yq[r][half]);
    }
  }
}

/* One pair, one token. The sums start at -0, which an fma adds without a trace: the first product
 * enters as it is. */
RDI_INLINE void pair(int kind, const char *in, char *out, int64_t stride, operands p, operands now,
                     const __m256 u[PAIR], int64_t K, partials *y) {
  const __m256i all = _mm256_set1_epi32(-1);
  int64_t c = 0;
  RDI_UNROLL
  for (int i = 0; i < 2 * PAIR; i++)
    y->yk[i / 2][i % 2] = y->yq[i / 2][i % 2] = _mm256_set1_ps(-0.0f);
  for (; c + 16 <= K; c += 16) {
    eight(kind, 1, all, 0, in + 4 * c, out + 4 * c, stride, at(p, c), at(now, c), u, y);
    eight(kind, 1, all, 1, in + 4 * c + 32, out + 4 * c + 32, stride, at(p, c + 8), at(now, c + 8),
          u, y);
  }
  if (c == K) return;
  RDI_UNROLL
  for (int half = 0; half < 2; half++) {
    int64_t d = c + 8 * half;
    eight(kind, 0, rdi_lanes(K - d), half, in + 4 * d, out + 4 * d, stride, at(p, d), at(now, d), u,
          y);
  }
}

RDI_INLINE rdi_sums pass(int kind, const char *in, char *out, int64_t stride, operands p,
                         operands now, const float *u, int64_t K) {
  __m256 wk[4], wq[4];
  RDI_UNROLL
  for (int r = 0; r < 4; r++) {
    __m256 ub[PAIR] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    partials y;
    if (kind & UPDATE) ub[0] = _mm256_broadcast_ss(u + r), ub[1] = _mm256_broadcast_ss(u + r + 4);
    pair(kind, in + r * stride, out + r * stride, stride, p, now, ub, K, &y);
    if (!(kind & DOTS)) continue;
    wk[r] = rdi_fold4(_mm256_add_ps(y.yk[0][0], y.yk[0][1]), _mm256_add_ps(y.yk[1][0], y.yk[1][1]));
    wq[r] = rdi_fold4(_mm256_add_ps(y.yq[0][0], y.yq[0][1]), _mm256_add_ps(y.yq[1][0], y.yq[1][1]));
  }
  if (kind & DOTS) return (rdi_sums){rdi_tree4x2(wk), rdi_tree4x2(wq)};
  return (rdi_sums){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

#define RDI_OUT static __attribute__((noinline))

RDI_OUT rdi_sums pass_dots(const char *in, int64_t stride, operands now, int64_t K) {
  return pass(DOTS, in, nowhere(in), stride, now, now, NULL, K);
}
RDI_OUT rdi_sums pass_all(const char *in, char *out, int64_t stride, operands p, operands now,
                          const float *u, int64_t K) {
  return pass(UPDATE | DOTS | STORE, in, out, stride, p, now, u, K);
}
RDI_OUT rdi_sums pass_last(const char *in, int64_t stride, operands p, operands now, const float *u,
                           int64_t K) {
  return pass(UPDATE | DOTS, in, nowhere(in), stride, p, now, u, K);
}
/* Without sums there is room for four rows, which halves the loads of k and a. */
RDI_INLINE void update(const char *in, char *out, int64_t stride, operands p, const float *u,
                       int64_t K, const char *near) {
  for (int r = 0; r < ROWS; r += 4, in += 4 * stride, out += 4 * stride, u += 4) {
    __m256 ub[4];
    RDI_UNROLL
    for (int i = 0; i < 4; i++) ub[i] = _mm256_broadcast_ss(u + i);
    for (int64_t c = 0; c < K; c += 8) {
      __m256 k = _mm256_load_ps(p.k + c), a = _mm256_load_ps(p.a + c);
      const int full = c + 8 <= K;
      __m256i m = rdi_lanes(K - c);
      if (near) _mm_prefetch(near, _MM_HINT_T0), _mm_prefetch(near + 64, _MM_HINT_T0), near += 128;
      RDI_UNROLL
      for (int i = 0; i < 4; i++) {
        const float *from = (const float *)(const void *)(in + i * stride + 4 * c);
        float *to = (float *)(void *)(out + i * stride + 4 * c);
        __m256 s = full ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, m);
        s = _mm256_fmadd_ps(ub[i], k, _mm256_mul_ps(a, s));
        if (full)
          _mm256_storeu_ps(to, s);
        else
          _mm256_maskstore_ps(to, m, s);
      }
    }
  }
}

RDI_OUT void pass_update(const char *in, char *out, int64_t stride, operands p, const float *u,
                         int64_t K) {
  update(in, out, stride, p, u, K, NULL);
}

/* The block that is updated is still in the first cache: there is nothing to gain from mixing. */
RDI_OUT rdi_sums pass_chain(const char *in, char *out, const char *dots_in, int64_t stride,
                            operands p, const float *u, int64_t K, const char *near,
                            const char *far) {
  rdi_sums y = pass_dots(dots_in, stride, p, K);
  (void)far; /* eight lanes ask for lines slowly enough */
  update(in, out, stride, p, u, K, near);
  return y;
}

RDI_INLINE void finish(const rdi_rows_args *g, const block *b, int64_t t, rdi_sums y) {
  const float *v = g->v + t * g->v_stride + b->row;
  float *u_out = g->u + t * g->u_stride + b->row,
        *o_out = g->o ? g->o + t * g->o_stride + b->row : NULL;
  __m256i m = rdi_lanes(b->rows);
  __m256 vv = b->rows == ROWS ? _mm256_loadu_ps(v) : _mm256_maskload_ps(v, m);
  __m256 u = _mm256_mul_ps(_mm256_broadcast_ss(g->beta + t), _mm256_sub_ps(vv, y.yk));
  __m256 o = _mm256_fmadd_ps(u, _mm256_broadcast_ss(g->kq + t), y.yq);
  _mm256_store_ps(b->u, u);
  if (b->rows == ROWS) {
    _mm256_storeu_ps(u_out, u);
    if (o_out) _mm256_storeu_ps(o_out, o);
  } else {
    _mm256_maskstore_ps(u_out, m, u);
    if (o_out) _mm256_maskstore_ps(o_out, m, o);
  }
}

RDI_INLINE void prefetch_far(const char *p) { _mm_prefetch(p, _MM_HINT_T1); }

#define RDI_ROWS_BLOCKS_BODY
#include "kernels/rows_blocks.h"

int64_t rdi_rows_scratch_avx2_8x16(int64_t R, int64_t K) {
  (void)R;
  return rows_scratch(K);
}

void rdi_rows_avx2_8x16(const rdi_rows_args *g) { run_rows(g); }
