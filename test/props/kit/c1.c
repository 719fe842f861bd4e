/* The canonical arithmetic, once more: written for the tests from docs/NUMERICS.md, so that two
 * independent readings of the document have to agree bit for bit. SPDX-License-Identifier:
 * Apache-2.0
 *
 * Where the processor has FMA the functions are cloned for it (a library fmaf is many times slower;
 * the bits are the same). Sanitizer builds go without: ifuncs run before their runtime is up.
 *
 * On x86 subnormals are flushed by the processor: every public function here sets the modes around one
 * that is not inlined into it. Other processors flush otherwise and use the software of util/c2.h. */
#include "kit.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
typedef unsigned modes;
static modes flushing(void) {
  const modes before = _mm_getcsr();
  _mm_setcsr(0x9fc0);
  return before;
}
static void back(modes m) { _mm_setcsr(m); }
#define MUL(a, b)    ((a) * (b))
#define ADD(a, b)    ((a) + (b))
#define SUB(a, b)    ((a) - (b))
#define DIV(a, b)    ((a) / (b))
#define FMA(a, b, c) fmaf(a, b, c)
#define SQRT(a)      sqrtf(a)
#define NARROW(x)    ((float)(x))
#else
#include "util/c2.h"
typedef int modes;
static modes flushing(void) { return 0; }
static void back(modes m) { (void)m; }
#define MUL(a, b)    rdi_c2_mul(a, b)
#define ADD(a, b)    rdi_c2_add(a, b)
#define SUB(a, b)    rdi_c2_sub(a, b)
#define DIV(a, b)    rdi_c2_div(a, b)
#define FMA(a, b, c) rdi_c2_fma(a, b, c)
#define SQRT(a)      rdi_c2_sqrt(a)
#define NARROW(x)    rdi_c2_narrow(x)
#endif
#define APART static __attribute__((noinline))

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PT_NO_CLONES)
#define CLONES __attribute__((target_clones("default", "arch=haswell")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE float hex(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

INLINE float exp_c(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  if (x != x) return x;
  float n = rintf(MUL(x, hex(0x3FB8AA3B)));
  float r = FMA(-n, hex(0x3F317200), x);
  r = FMA(-n, hex(0x35BFBE8E), r);
  static const uint32_t E[6] = {0x39506967, 0x3AB743CE, 0x3C088908,
                                0x3D2AA9C1, 0x3E2AAAAA, 0x3F000000};
  float p = hex(E[0]);
  for (int i = 1; i < 6; i++) p = FMA(p, r, hex(E[i]));
  p = FMA(p, MUL(r, r), ADD(r, 1.0f));
  float y = ldexpf(p, (int)n);
  return y < 0x1p-126f ? 0.0f : y;
}

INLINE float sig(float x) { return DIV(1.0f, ADD(1.0f, exp_c(-x))); }

INLINE float softplus(float x) {
  static const uint32_t L[6] = {0x3D9D89D9, 0x3DBA2E8C, 0x3DE38E39,
                                0x3E124925, 0x3E4CCCCD, 0x3EAAAAAB};
  float z = exp_c(-fabsf(x)), s = DIV(z, ADD(2.0f, z)), w = MUL(s, s), p = hex(L[0]);
  for (int i = 1; i < 6; i++) p = FMA(p, w, hex(L[i]));
  p = FMA(p, w, 1.0f);
  return FMA(MUL(2.0f, s), p, x > 0.0f ? x : 0.0f);
}

/* n a multiple of 16. */
INLINE float dot16(const float *a, const float *b, int64_t n) {
  float p[16];
  for (int r = 0; r < 16; r++) p[r] = MUL(a[r], b[r]);
  for (int64_t j = 16; j < n; j += 16)
    for (int r = 0; r < 16; r++) p[r] = FMA(a[j + r], b[j + r], p[r]);
  for (int h = 8; h >= 1; h /= 2)
    for (int r = 0; r < h; r++) p[r] = ADD(p[r], p[r + h]);
  return p[0];
}

APART float apart(float (*f)(float), float x) {
  modes m = flushing();
  float y = f(x);
  back(m);
  return y;
}
APART float exp_1(float x) { return exp_c(x); }
APART float sig_1(float x) { return sig(x); }
APART float softplus_1(float x) { return softplus(x); }
float c1_exp(float x) { return apart(exp_1, x); }
float c1_sigmoid(float x) { return apart(sig_1, x); }
float c1_softplus(float x) { return apart(softplus_1, x); }

CLONES APART float dot(const float *a, const float *b, int64_t n) {
  float x[512] = {0}, y[512] = {0};
  memcpy(x, a, Z(n) * sizeof(float));
  memcpy(y, b, Z(n) * sizeof(float));
  return dot16(x, y, (n + 15) / 16 * 16);
}

float c1_dot(const float *a, const float *b, int64_t n) {
  modes m = flushing();
  float x = dot(a, b, n);
  back(m);
  return x;
}

INLINE float gate(const data *d, float A, float lb, float g, float dt) {
  float x = ADD(g, dt), eA = exp_c(A > 88.0f ? 88.0f : A), y = ADD(A, x);
  switch (d->p.gate) {
  case RD_GATE_LOWER_BOUND:
    return exp_c(MUL(lb, sig(MUL(eA, x))));
  case RD_GATE_SOFTPLUS:
    return exp_c(-(x < -17.0f ? exp_c(y > 88.0f ? 88.0f : y) : MUL(eA, softplus(x))));
  case RD_GATE_LOG:
    return exp_c(g);
  default:
    return g;
  }
}

CLONES APART void prepare(const data *d, int64_t s, int64_t t, int64_t hv, prep *o) {
  const rd_problem *p = &d->p;
  const seqdata *q = &d->s[s];
  int64_t K = p->K, KP = (K + 15) / 16 * 16, G = d->G, at = (t * p->Hk + hk_of(p, hv)) * K;
  float scale = NARROW(p->has_scale ? p->scale : 1.0 / sqrt((double)K));
  float lb = NARROW(p->lower_bound), eps = NARROW(p->l2_eps), nk = 1, nq = scale;
  memset(o, 0, sizeof *o);
  memcpy(o->k, q->k + at, Z(K) * sizeof(float));
  memcpy(o->q, q->q + at, Z(K) * sizeof(float));
  if (p->qk_norm == RD_QK_L2) {
    nk = DIV(1.0f, SQRT(ADD(dot16(o->k, o->k, KP), eps)));
    nq = DIV(scale, SQRT(ADD(dot16(o->q, o->q, KP), eps)));
    for (int64_t c = 0; c < K; c++) o->k[c] = MUL(o->k[c], nk);
  }
  for (int64_t c = 0; c < K; c++) o->q[c] = MUL(o->q[c], nq);
  o->beta = q->beta[t * p->Hv + hv];
  if (p->beta == RD_BETA_LOGIT) o->beta = sig(o->beta);
  o->beta = MUL((float)p->beta_times, o->beta);
  for (int64_t c = 0; c < K; c++) {
    int64_t i = G == K ? c : 0;
    if (G == 1 && c)
      o->a[c] = o->a[0];
    else
      o->a[c] =
          G == 0 ? 1.0f : gate(d, d->A[hv], lb, q->g[(t * p->Hv + hv) * G + i], d->dt[hv * G + i]);
  }
  o->kq = dot16(o->k, o->q, KP);
}

void c1_prep(const data *d, int64_t s, int64_t t, int64_t hv, prep *o) {
  modes m = flushing();
  prepare(d, s, t, hv, o);
  back(m);
}

/* One token on the V rows of one head; rows of S are contiguous [V][K]. */
CLONES APART void rows(const prep *o, int64_t K, int64_t V, const float *v, float *S, float *out,
                       float *u) {
  int64_t KP = (K + 15) / 16 * 16;
  float kt[512] = {0}, qt[512] = {0}, row[512] = {0};
  for (int64_t c = 0; c < K; c++) {
    kt[c] = MUL(o->a[c], o->k[c]);
    qt[c] = MUL(o->a[c], o->q[c]);
  }
  for (int64_t r = 0; r < V; r++) {
    float *s = S + r * K;
    memcpy(row, s, Z(K) * sizeof(float));
    float yk = dot16(row, kt, KP), yq = dot16(row, qt, KP);
    float ur = MUL(o->beta, SUB(v[r], yk));
    for (int64_t c = 0; c < K; c++) {
      float as = MUL(o->a[c], s[c]);
      s[c] = FMA(ur, o->k[c], as);
    }
    if (out) out[r] = FMA(ur, o->kq, yq);
    if (u) u[r] = ur;
  }
}

void c1_run(const data *d, int64_t s, int64_t t0, int64_t len, float *S, float *out, float *u,
            float *k, float *a) {
  const rd_problem *p = &d->p;
  int64_t Hv = p->Hv, K = p->K, V = p->V, G = d->G;
  prep *o = malloc(sizeof *o);
  if (!o) abort();
  modes m = flushing();
  for (int64_t t = 0; t < len; t++)
    for (int64_t h = 0; h < Hv; h++) {
      prepare(d, s, t0 + t, h, o);
      int64_t at = (t * Hv + h) * V;
      rows(o, K, V, d->s[s].v + ((t0 + t) * Hv + h) * V, S + h * V * K, out ? out + at : NULL,
           u ? u + at : NULL);
      if (k) memcpy(k + (t * p->Hk + hk_of(p, h)) * K, o->k, Z(K) * sizeof(float));
      if (a && G) memcpy(a + (t * Hv + h) * G, o->a, Z(G) * sizeof(float));
    }
  back(m);
  free(o);
}

CLONES APART void commit(const data *d, int64_t m, const float *u, const float *k, const float *a,
                         float *S) {
  const rd_problem *p = &d->p;
  int64_t Hv = p->Hv, K = p->K, V = p->V, G = d->G;
  for (int64_t t = 0; t < m; t++)
    for (int64_t h = 0; h < Hv; h++)
      for (int64_t r = 0; r < V; r++)
        for (int64_t c = 0; c < K; c++) {
          float *s = &S[(h * V + r) * K + c];
          float dec = G == 0 ? 1.0f : a[(t * Hv + h) * G + (G == K ? c : 0)];
          float as = MUL(dec, *s);
          *s = FMA(u[(t * Hv + h) * V + r], k[(t * p->Hk + hk_of(p, h)) * K + c], as);
        }
}

void c1_commit(const data *d, int64_t m, const float *u, const float *k, const float *a, float *S) {
  modes before = flushing();
  commit(d, m, u, k, a, S);
  back(before);
}
