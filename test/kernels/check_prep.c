/* prep: operands of up to 16 tokens of one head, every gate, type and norm, against the float
 * specification. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include "ref/ref.h"

enum { N = RDI_TOKENS, MAX_K = RDI_MAX_DIM, GAP = 9 };
enum { B_Q, B_K, B_G, B_DT, B_BETA, B_KO, B_A, B_KT, B_QT, B_KQ, B_BO, BUFFERS };
static buffer buffers[BUFFERS];
static const char *const buffer_names[BUFFERS] = {
    "q", "k", "g", "dt", "beta", "k_out", "a_out", "kt_out", "qt_out", "kq_out", "beta_out"};
static const rd_dtype dtypes[3] = {RD_F32, RD_F16, RD_BF16};

typedef struct prep_case {
  rdr_choices c;
  int64_t n, K, Kp, q_gap, k_gap, g_gap, beta_gap, index;
  rd_dtype qk, gd, bd;
  float A_log;
  float q[N * MAX_K], k[N * MAX_K], g[N * MAX_K], dt[MAX_K], beta[N]; /* exact in their types */
  float k_out[N * MAX_K], a[N * MAX_K], kt[N * MAX_K], qt[N * MAX_K], kq[N], beta_out[N];
} prep_case;

static int64_t gate_width(const prep_case *x) { return x->c.axis == RD_PER_CHANNEL ? x->K : 1; }
static int raw(const prep_case *x) {
  return x->c.gate == RD_GATE_LOWER_BOUND || x->c.gate == RD_GATE_SOFTPLUS;
}

/* Numbers a gate or a logit may meet: ordinary, saturated, exactly zero, infinite. */
static float gate_input(rng *g, input_class c) {
  static const float hard[] = {0.0f,     -0.0f, 15.0f,   -15.0f, 19.9f,   20.0f,    20.1f,
                               88.0f,    89.0f, -88.0f,  -89.0f, -104.0f, 100.0f,   -100.0f,
                               -2661.0f, -1e4f, 1000.0f, -1e-8f, 1e-30f,  -INFINITY};
  if (rng_below(g, 3) != 0) return input(g, c);
  return hard[rng_below(g, (int64_t)(sizeof hard / sizeof hard[0]))];
}

static void to_type(float *x, int64_t n, rd_dtype dtype) {
  if (dtype == RD_F32) return;
  for (int64_t i = 0; i < n; i++) x[i] = rdr_f32_of(rdr_16_of(x[i], dtype), dtype);
}

static void draw_prep(prep_case *x, rng *g) {
  const input_class c = rng_below(g, 3) ? IN_NORMAL : (input_class)rng_below(g, IN_CLASSES);
  x->Kp = round_up(x->K, 16), x->n = 1 + rng_below(g, N);
  x->c.gate = (rd_gate)(1 + rng_below(g, 5)), x->c.axis = (rd_gate_axis)(1 + rng_below(g, 2));
  x->c.beta = (rd_beta)(1 + rng_below(g, 2)), x->c.beta_times = (int32_t)(1 + rng_below(g, 2));
  x->c.l2norm = (int32_t)rng_below(g, 2);
  x->c.eps = rng_below(g, 4) ? 1e-6 : 0, x->c.scale = rng_below(g, 4) ? 0.125 : rng_normal(g);
  x->c.lower_bound = rng_below(g, 4) ? -5 : -5 * rng_unit(g);
  x->A_log = (float)(rng_below(g, 4) ? rng_normal(g) : 100 * rng_normal(g));
  x->qk = dtypes[rng_below(g, 3)], x->gd = dtypes[rng_below(g, 3)], x->bd = dtypes[rng_below(g, 3)];
  x->q_gap = rng_below(g, GAP), x->k_gap = rng_below(g, GAP), x->g_gap = rng_below(g, GAP);
  x->beta_gap = rng_below(g, GAP);
  inputs(x->q, x->n * x->K, g, c);
  inputs(x->k, x->n * x->K, g, c);
  if (rng_below(g, 8) == 0) memset(x->k, 0, sizeof x->k);
  for (int64_t i = 0; i < x->n * x->K; i++) x->g[i] = gate_input(g, c);
  for (int64_t i = 0; i < x->K; i++) x->dt[i] = gate_input(g, c);
  for (int64_t i = 0; i < x->n; i++) x->beta[i] = gate_input(g, c);
  to_type(x->q, x->n * x->K, x->qk), to_type(x->k, x->n * x->K, x->qk);
  to_type(x->g, x->n * x->K, x->gd), to_type(x->beta, x->n, x->bd);
  memset(x->k_out, 0, sizeof x->k_out), memset(x->a, 0, sizeof x->a);
  memset(x->kt, 0, sizeof x->kt), memset(x->qt, 0, sizeof x->qt);
  for (int64_t t = 0; t < x->n; t++) {
    float q[MAX_K];
    const int64_t at = t * x->Kp;
    rdr_c1_operands(&x->c, x->K, x->q + t * x->K, x->k + t * x->K, x->g + t * gate_width(x), x->dt,
                    x->A_log, x->beta[t], x->k_out + at, x->a + at, q, &x->beta_out[t]);
    rdr_c1_derive(x->K, x->k_out + at, x->a + at, q, x->kt + at, x->qt + at, &x->kq[t]);
  }
}

/* n rows of `width` numbers in their type, with gaps. */
static void load(int i, const float *src, int64_t n, int64_t width, int64_t gap, rd_dtype dtype,
                 rng *g) {
  const size_t size = dtype == RD_F32 ? 4 : 2;
  buffer_place(&buffers[i], (size_t)((n - 1) * (width + gap) + width) * size, size, g);
  for (int64_t t = 0; t < n; t++)
    for (int64_t c = 0; c < width; c++) {
      char *to = buffers[i].want + (size_t)(t * (width + gap) + c) * size;
      const uint16_t h = rdr_16_of(src[t * width + c], dtype == RD_F32 ? RD_BF16 : dtype);
      memcpy(to, dtype == RD_F32 ? (const void *)&src[t * width + c] : &h, size);
    }
  buffer_sync(&buffers[i]);
}

static float *result(int i, int64_t floats, size_t align, rng *g) {
  buffer_place(&buffers[i], (size_t)floats * sizeof(float), align, g);
  buffer_sync(&buffers[i]);
  return (float *)(void *)buffers[i].got;
}

typedef struct call {
  const rdi_kernel_entry *e;
  rdi_prep_args args;
} call;

static void do_prep(void *arg) {
  const call *c = arg;
  c->e->prep(&c->args);
}

static void compare(harness *h, const rdi_kernel_entry *e, const prep_case *x,
                    const char *problem) {
  char shape[200];
  snprintf(shape, sizeof shape, "K=%lld n=%lld gate=%d axis=%d beta=%d l2norm=%d types=%d,%d,%d",
           (long long)x->K, (long long)x->n, (int)x->c.gate, (int)x->c.axis, (int)x->c.beta,
           (int)x->c.l2norm, (int)x->qk, (int)x->gd, (int)x->bd);
  if (problem != NULL) {
    harness_fail(h, e, x->index, "%s: %s", shape, problem);
    return;
  }
  const rd_dtype types[BUFFERS] = {x->qk,  x->qk,  x->gd,  RD_F32, x->bd, RD_F32,
                                   RD_F32, RD_F32, RD_F32, RD_F32, RD_F32};
  for (int i = 0; i < BUFFERS; i++) {
    const int64_t at = buffer_differs(&buffers[i], types[i]);
    if (at == INT64_MIN) continue;
    if (i < B_KO || at < 0 || at * 4 >= (int64_t)buffers[i].bytes)
      harness_fail(h, e, x->index, "%s: writes %s element %lld", shape, buffer_names[i],
                   (long long)at);
    else
      harness_fail(h, e, x->index, "%s: %s element %lld is %a, expected %a", shape, buffer_names[i],
                   (long long)at, (double)((float *)(void *)buffers[i].got)[at],
                   (double)((float *)(void *)buffers[i].want)[at]);
    return;
  }
  harness_pass(h);
}

static void expect(int i, const float *src, int64_t floats) {
  memcpy(buffers[i].want, src, (size_t)floats * sizeof *src);
}

static void prep_one(harness *h, const rdi_kernel_entry *e, const prep_case *x, rng g) {
  const int64_t size = x->n * x->Kp, width = gate_width(x);
  load(B_Q, x->q, x->n, x->K, x->q_gap, x->qk, &g);
  load(B_K, x->k, x->n, x->K, x->k_gap, x->qk, &g);
  load(B_G, x->g, x->n, width, x->g_gap, x->gd, &g);
  load(B_DT, x->dt, 1, width, 0, RD_F32, &g);
  load(B_BETA, x->beta, x->n, 1, x->beta_gap, x->bd, &g);
  call c = {.e = e};
  c.args = (rdi_prep_args){.n = x->n,
                           .K = x->K,
                           .Kp = x->Kp,
                           .q = buffers[B_Q].got,
                           .k = buffers[B_K].got,
                           .q_stride = x->K + x->q_gap,
                           .k_stride = x->K + x->k_gap,
                           .qk_dtype = x->qk,
                           .l2norm = x->c.l2norm,
                           .eps = (float)x->c.eps,
                           .scale = (float)x->c.scale,
                           .gate = x->c.gate,
                           .axis = x->c.axis,
                           .g = x->c.gate == RD_GATE_NONE ? NULL : buffers[B_G].got,
                           .g_stride = width + x->g_gap,
                           .g_dtype = x->gd,
                           .lb = (float)x->c.lower_bound,
                           .A_log = x->A_log,
                           .eA = rdr_c1_eA(x->A_log),
                           .dt = raw(x) ? (const float *)(const void *)buffers[B_DT].got : NULL,
                           .beta = buffers[B_BETA].got,
                           .beta_stride = 1 + x->beta_gap,
                           .beta_dtype = x->bd,
                           .beta_kind = x->c.beta,
                           .beta_times = (float)x->c.beta_times};
  c.args.k_out = result(B_KO, size, 64, &g), c.args.a_out = result(B_A, size, 64, &g);
  c.args.kt_out = result(B_KT, size, 64, &g), c.args.qt_out = result(B_QT, size, 64, &g);
  c.args.kq_out = result(B_KQ, x->n, 4, &g), c.args.beta_out = result(B_BO, x->n, 4, &g);
  const char *problem = guarded_call(do_prep, &c);
  expect(B_KO, x->k_out, size), expect(B_A, x->a, size), expect(B_KT, x->kt, size);
  expect(B_QT, x->qt, size), expect(B_KQ, x->kq, x->n), expect(B_BO, x->beta_out, x->n);
  compare(h, e, x, problem);
}

void check_prep(harness *h, const rdi_kernel_entry *const *entries, int count) {
  static prep_case x;
  int64_t index = 0;
  for (int i = 0; i < BUFFERS && buffers[i].region == NULL; i++)
    buffer_make(&buffers[i], sizeof(float) * (MAX_K + GAP) * (N + 1));
  for (const int16_t *K = shape_K; *K != 0; K++)
    for (int i = 0; i < (h->all ? 1000 : 40 * h->repeat); i++, index++) {
      if (harness_skips(h, index)) continue;
      rng g = {.s = h->seed * 1000003u + (uint64_t)index};
      x.K = *K, x.index = index;
      draw_prep(&x, &g);
      for (int e = 0; e < count; e++) prep_one(h, entries[e], &x, g);
    }
}
