/* The body of the `pairs` kernels (kernels/fast.h). A pass over the panel applies the rank-2 update of
 * the pair of tokens before and takes the four dot products of this pair: 12 fmas for each key and two
 * registers of values, no sum across lanes, one load and one store of the panel for two tokens.
 * Included by a kernel file after it has defined
 *
 *   vec; enum { LANES }           a register of floats
 *   v_load v_store v_set v_fma v_mul v_sub
 *   v_some(p, left) v_put(p, x, left)   the first `left` lanes (<= 0: none), others +0
 *   V_KEEP(x)                     x stays in its register: gcc would load it into every use */
#include "kernels/fast.h"

enum { PANEL = 2 * LANES };
enum { UPDATE = 1, DOTS = 2, END = 4 };

typedef struct two { /* the values of a panel's rows */
  vec v[2];
} two;

typedef struct pair { /* two tokens' operands; the second of an odd tail is all zeros */
  const float *kh[2], *kf[2], *qf[2];
} pair;

RDI_INLINE two axpy(two y, vec s, const two *x) {
  return (two){{v_fma(s, x->v[0], y.v[0]), v_fma(s, x->v[1], y.v[1])}};
}

RDI_INLINE vec key(const float *p) {
  vec x = v_set(*p);
  V_KEEP(x);
  return x;
}

/* u: of the pair before, whose kh is in p. y: kf and qf of the first token, then of the second. */
RDI_INLINE void panel_pass(int what, float *panel, int64_t K, const pair *before,
                           const pair *at_now, const float *end, const two u_before[2], two y[4]) {
  two a[4];
  const two u[2] = {u_before[0],
                    u_before[1]}; /* in registers: the panel's stores might touch the array */
  const pair p = *before, now = *at_now;
  RDI_UNROLL
  for (int i = 0; i < 4; i++) a[i].v[0] = a[i].v[1] = v_set(0.0f);
  for (int64_t c = 0; c < K; c++, panel += PANEL) {
    two s = {{v_load(panel), v_load(panel + LANES)}};
    if (what & UPDATE) s = axpy(s, key(p.kh[0] + c), &u[0]);
    if (what & UPDATE) s = axpy(s, key(p.kh[1] + c), &u[1]);
    if (what & END) {
      vec e = key(end + c);
      s.v[0] = v_mul(s.v[0], e), s.v[1] = v_mul(s.v[1], e);
    }
    if (what & UPDATE) v_store(panel, s.v[0]), v_store(panel + LANES, s.v[1]);
    if (what & DOTS) {
      a[0] = axpy(a[0], key(now.kf[0] + c), &s);
      a[1] = axpy(a[1], key(now.qf[0] + c), &s);
      a[2] = axpy(a[2], key(now.kf[1] + c), &s);
      a[3] = axpy(a[3], key(now.qf[1] + c), &s);
    }
  }
  RDI_UNROLL
  for (int i = 0; i < 4; i++) y[i] = a[i];
}

static __attribute__((noinline)) void first_pass(float *panel, int64_t K, const pair *now,
                                                 two y[4]) {
  two none[2] = {{{v_set(0.0f), v_set(0.0f)}}, {{v_set(0.0f), v_set(0.0f)}}};
  panel_pass(DOTS, panel, K, now, now, NULL, none, y);
}
static __attribute__((noinline)) void next_pass(float *panel, int64_t K, const pair *p,
                                                const pair *now, const two u[2], two y[4]) {
  panel_pass(UPDATE | DOTS, panel, K, p, now, NULL, u, y);
}
static __attribute__((noinline)) void last_pass(float *panel, int64_t K, const pair *p,
                                                const float *end, const two u[2]) {
  two y[4];
  panel_pass(UPDATE | END, panel, K, p, p, end, u, y);
}

RDI_INLINE two some(const float *p, int64_t R) {
  return (two){{v_some(p, R), v_some(p + LANES, R - LANES)}};
}
RDI_INLINE void put(float *p, two x, int64_t R) {
  v_put(p, x.v[0], R);
  v_put(p + LANES, x.v[1], R - LANES);
}
RDI_INLINE two scaled_difference(vec b, two x, two y) { /* b (x - y) */
  return (two){{v_mul(b, v_sub(x.v[0], y.v[0])), v_mul(b, v_sub(x.v[1], y.v[1]))}};
}

RDI_INLINE void run_pairs(const rdi_pairs_args *g) {
  static const _Alignas(64) float zeros[RDI_MAX_DIM];
  const two none = {{v_set(0.0f), v_set(0.0f)}};
  pair p = {{zeros, zeros}, {zeros, zeros}, {zeros, zeros}};
  two u[2] = {none, none}, y[4];
  for (int64_t t = 0; t < g->n; t += 2) {
    const int both = t + 1 < g->n;
    const int64_t x = t * g->Kp, z = x + g->Kp;
    const pair now = {{g->kh + x, both ? g->kh + z : zeros},
                      {g->kf + x, both ? g->kf + z : zeros},
                      {g->qf + x, both ? g->qf + z : zeros}};
    if (t == 0)
      first_pass(g->panel, g->K, &now, y);
    else
      next_pass(g->panel, g->K, &p, &now, u, y);
    u[0] = scaled_difference(v_set(g->beta[t]), some(g->v + t * g->v_stride, g->R), y[0]);
    put(g->o + t * g->o_stride, axpy(y[1], v_set(g->kq[t]), &u[0]), g->R);
    u[1] = none;
    if (both) {
      const two y2 = axpy(y[2], v_set(g->ck[t + 1]), &u[0]);
      u[1] = scaled_difference(v_set(g->beta[t + 1]), some(g->v + (t + 1) * g->v_stride, g->R), y2);
      const two o2 = axpy(axpy(y[3], v_set(g->cq[t + 1]), &u[0]), v_set(g->kq[t + 1]), &u[1]);
      put(g->o + (t + 1) * g->o_stride, o2, g->R);
    }
    p = now;
  }
  last_pass(g->panel, g->K, &p, g->end, u);
}
