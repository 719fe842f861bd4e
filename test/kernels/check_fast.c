/* The kernels of FAST (kernels/fast.h): same memory, environment and crash rules as the others,
 * values against double, and the bits FAST does promise: those of a second call with other gaps and
 * places. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include "ref/ref.h"

enum { N = RDI_TOKENS, MAX_N = RDI_FAST_TOKENS + N, MAX_K = RDI_MAX_DIM, MAX_R = 128, GAP = 9 };
/* Relative L2 of the results of one block; the bound of docs/NUMERICS.md is on whole sequences. */
#define BOUND 2e-6

enum {
  B_S,
  B_KH,
  B_KF,
  B_QF,
  B_K,
  B_A,
  B_P,
  B_CK,
  B_CQ,
  B_KQ,
  B_BETA,
  B_V,
  B_U,
  B_O,
  B_SCRATCH,
  BUFFERS
};
static buffer buffers[BUFFERS];
static const char *const buffer_names[BUFFERS] = {"s",       "kh", "kf", "qf", "k or kt",
                                                  "a or qt", "P",  "ck", "cq", "kq",
                                                  "beta",    "v",  "u",  "o",  "scratch"};

/* One block. Operands have rows of Kp with +0 past K. */
typedef struct fast_case {
  int64_t K, Kp, R, n, past, index;
  int head, whole, pairs; /* of fold */
  float s[MAX_R * MAX_K], kh[MAX_N * MAX_K], kf[N * MAX_K], qf[N * MAX_K];
  float k[N * MAX_K], a[N * MAX_K], kt[N * MAX_K], qt[N * MAX_K], P[MAX_K];
  float ck[N], cq[N], kq[N], beta[N], v[N * MAX_R], u[MAX_N * MAX_R];
  double z[MAX_R * MAX_K], du[N * MAX_R], o[N * MAX_R];
  double u_size, o_size; /* L2 that vectors of these lengths at random angles would give */
} fast_case;

static uint32_t isa_now;

static float *want(int i) { return (float *)(void *)buffers[i].want; }
static float *got(int i) { return (float *)(void *)buffers[i].got; }

static void place(int i, const float *src, int64_t rows, int64_t width, int64_t gap, size_t align,
                  rng *g) {
  const int64_t floats = rows > 0 ? (rows - 1) * (width + gap) + width : 0;
  buffer_place(&buffers[i], (size_t)floats * sizeof(float), align, g);
  for (int64_t r = 0; src != NULL && r < rows; r++)
    memcpy(want(i) + r * (width + gap), src + r * width, (size_t)width * sizeof(float));
  buffer_sync(&buffers[i]);
}

/* No buffer takes part in a case before it is placed. */
static void forget(void) {
  for (int i = 0; i < BUFFERS; i++) buffers[i].got = NULL;
}

static double dot(const float *a, const float *b, int64_t K) {
  double s = 0;
  for (int64_t c = 0; c < K; c++) s += (double)a[c] * (double)b[c];
  return s;
}

static void operand(float *dst, int64_t rows, const fast_case *x, rng *g, double size) {
  memset(dst, 0, (size_t)(rows * x->Kp) * sizeof *dst);
  for (int64_t t = 0; t < rows; t++)
    for (int64_t c = 0; c < x->K; c++) dst[t * x->Kp + c] = (float)(size * rng_normal(g));
}

/* ---- verdicts ---- */

/* Takes what the kernel wrote as expected, so that the windows show everything else it touched. */
static void accept(int i, int64_t first, int64_t rows, int64_t width, int64_t gap) {
  for (int64_t r = first; r < first + rows; r++)
    memcpy(want(i) + r * (width + gap), got(i) + r * (width + gap), (size_t)width * sizeof(float));
}

/* Relative to the reference or to `size`, whichever is more: a few elements may happen to cancel.
 */
static double error(const float *x, int64_t gap, const double *ref, int64_t rows, int64_t width,
                    double size) {
  double e = 0, s = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < width; c++) {
      const double y = ref[r * width + c], d = (double)x[r * (width + gap) + c] - y;
      e += d * d, s += y * y;
    }
  return sqrt(e) / fmax(sqrt(s), size);
}

static int settle(harness *h, const char *name, const fast_case *x, const char *problem,
                  double worst, const char *which) {
  const rdi_kernel_entry named = {.name = name, .isa = isa_now};
  char text[120];
  snprintf(text, sizeof text, "K=%lld R=%lld n=%lld past=%lld head=%d", (long long)x->K,
           (long long)x->R, (long long)x->n, (long long)x->past, x->head);
  if (problem != NULL) return harness_fail(h, &named, x->index, "%s: %s", text, problem), 0;
  if (!(worst <= BOUND))
    return harness_fail(h, &named, x->index, "%s: %s is off by %.3g", text, which, worst), 0;
  for (int i = 0; i < BUFFERS; i++) {
    const int64_t at = buffers[i].got != NULL ? buffer_differs(&buffers[i], RD_F32) : INT64_MIN;
    if (at == INT64_MIN) continue;
    return harness_fail(h, &named, x->index, "%s: writes %s element %lld", text, buffer_names[i],
                        (long long)at),
           0;
  }
  return harness_pass(h), 1;
}

typedef struct call {
  const rdi_fast_kernels *f;
  rdi_fold_args fold;
  rdi_pairs_args pairs;
  rdi_spread_args spread;
  int64_t in_range, stride, R, K;
} call;

/* ---- fold ---- */

static void do_fold(void *arg) {
  call *c = arg;
  c->in_range = c->f->fold(&c->fold);
}

static void draw_fold(fast_case *x, rng *g) {
  x->past = 0, x->R = 0, x->n = 1 + rng_below(g, N);
  x->head = (int)rng_below(g, 2), x->whole = (int)rng_below(g, 2), x->pairs = (int)rng_below(g, 2);
  const double steep = rng_below(g, 3) ? 2 : 6; /* 16 tokens of e^-2 stay inside, of e^-6 do not */
  operand(x->k, x->n, x, g, 1 / sqrt((double)x->K)), operand(x->kt, x->n, x, g, 1);
  operand(x->qt, x->n, x, g, 1), operand(x->a, x->n, x, g, 0);
  for (int64_t t = 0; t < x->n; t++)
    for (int64_t c = 0; c < x->K; c++)
      x->a[t * x->Kp + c] = c > 0 && x->head ? x->a[t * x->Kp] : (float)exp(-steep * rng_unit(g));
  if (rng_below(g, 8) == 0) {
    static const float bad[] = {0.0f, 1.5f, NAN, INFINITY, -1.0f};
    const int64_t t = rng_below(g, x->n), c = rng_below(g, x->K);
    const float b = bad[rng_below(g, 5)];
    for (int64_t i = 0; i < x->K; i++)
      if (i == c || x->head) x->a[t * x->Kp + i] = b;
  }
  for (int64_t c = 0; c < x->Kp; c++) x->P[c] = 1;
}

/* Leading tokens in range, and the error of the rows of those. */
static int64_t judge_fold(const fast_case *x, double *worst) {
  double e = 0;
  float P[MAX_K];
  memcpy(P, x->P, sizeof P);
  for (int64_t t = 0; t < x->n; t++) {
    int inside = 1;
    for (int64_t c = 0; c < x->K; c++) {
      const int64_t at = t * x->Kp + c;
      const double before = (double)P[c], after = (double)(P[c] *= x->a[at]);
      inside &= P[c] >= RDI_FAST_LOW && P[c] <= 1.0f;
      /* P by the kernel's own products, so that the verdict on the range is exact */
      const double ref[3] = {(double)x->k[at] / after, (double)x->kt[at] * before,
                             (double)x->qt[at] * before};
      const double have[3] = {(double)got(B_KH)[at], (double)got(B_KF)[at], (double)got(B_QF)[at]};
      for (int i = 0; inside && i < 3; i++)
        e = fmax(e, isfinite(have[i]) ? fabs(have[i] - ref[i]) / fabs(ref[i]) : (double)INFINITY);
    }
    if (!inside) return t;
    *worst = fmax(*worst, e);
    if (!x->pairs || t % 2 == 0) continue;
    const float *kh = got(B_KH) + (t - 1) * x->Kp, *kf = got(B_KF) + t * x->Kp,
                *qf = got(B_QF) + t * x->Kp;
    const double size = sqrt(dot(kh, kh, x->K)), nk = size * sqrt(dot(kf, kf, x->K));
    const double nq = size * sqrt(dot(qf, qf, x->K));
    *worst = fmax(*worst, fabs((double)got(B_CK)[t] - dot(kh, kf, x->K)) / nk);
    *worst = fmax(*worst, fabs((double)got(B_CQ)[t] - dot(kh, qf, x->K)) / nq);
  }
  return x->n;
}

static int pads_are_zero(int i, const fast_case *x) {
  for (int64_t t = 0; t < x->n; t++)
    for (int64_t c = x->K; c < x->Kp; c++)
      if (got(i)[t * x->Kp + c] != 0) return 0;
  return 1;
}

static const char *name_of[2]; /* the pairs and the spread kernel that are checked */

static void fold_case(harness *h, const rdi_fast_kernels *f, const fast_case *x, rng g) {
  const int64_t size = x->n * x->Kp;
  call c = {.f = f};
  forget();
  place(B_KH, NULL, 1, size, 0, 64, &g), place(B_KF, NULL, 1, size, 0, 64, &g);
  place(B_QF, NULL, 1, size, 0, 64, &g), place(B_P, x->P, 1, x->Kp, 0, 64, &g);
  place(B_K, x->k, 1, size, 0, 64, &g), place(B_A, x->a, 1, size, 0, 64, &g);
  place(B_S, x->kt, 1, size, 0, 64, &g), place(B_V, x->qt, 1, size, 0, 64, &g);
  place(B_CK, NULL, 1, x->n, 0, 4, &g), place(B_CQ, NULL, 1, x->n, 0, 4, &g);
  c.fold = (rdi_fold_args){.n = x->n,
                           .K = x->K,
                           .Kp = x->Kp,
                           .head = x->head,
                           .whole = x->whole,
                           .k = got(B_K),
                           .a = got(B_A),
                           .kt = got(B_S),
                           .qt = got(B_V),
                           .P = got(B_P),
                           .kh = got(B_KH),
                           .kf = got(B_KF),
                           .qf = got(B_QF),
                           .ck = x->pairs ? got(B_CK) : NULL,
                           .cq = x->pairs ? got(B_CQ) : NULL};
  const char *problem = guarded_call(do_fold, &c);
  double worst = 0;
  const int64_t inside = judge_fold(x, &worst);
  if (problem == NULL && c.in_range != (x->whole && inside < x->n ? 0 : inside))
    problem = "counts the tokens in range wrongly";
  if (problem == NULL && inside == x->n &&
      (!pads_are_zero(B_KH, x) || !pads_are_zero(B_KF, x) || !pads_are_zero(B_QF, x)))
    problem = "leaves pads that are not zero";
  accept(B_KH, 0, 1, size, 0), accept(B_KF, 0, 1, size, 0), accept(B_QF, 0, 1, size, 0),
      accept(B_P, 0, 1, x->Kp, 0);
  for (int64_t t = 1; x->pairs && t < x->n; t += 2)
    want(B_CK)[t] = got(B_CK)[t], want(B_CQ)[t] = got(B_CQ)[t];
  settle(h, "fold", x, problem, x->whole && inside < x->n ? 0 : worst, "an operand");
}

/* ---- pairs and spread: the undecayed recurrence in double ---- */

static double square(const double *z, int64_t K) {
  double s = 0;
  for (int64_t c = 0; c < K; c++) s += z[c] * z[c];
  return s;
}

static void solve_row(fast_case *x, int64_t r) {
  double *z = x->z + r * x->K;
  for (int64_t c = 0; c < x->K; c++) z[c] = (double)x->s[r * x->K + c];
  for (int64_t t = 0; t < x->past + x->n; t++) {
    const int64_t i = t - x->past;
    const float *kh = x->kh + t * x->Kp;
    if (i < 0) {
      for (int64_t c = 0; c < x->K; c++) z[c] += (double)x->u[t * x->R + r] * (double)kh[c];
      continue;
    }
    const float *kf = x->kf + i * x->Kp, *qf = x->qf + i * x->Kp;
    double y = 0, o = 0;
    for (int64_t c = 0; c < x->K; c++) y += z[c] * (double)kf[c];
    const double b = (double)x->beta[i], v = (double)x->v[i * x->R + r], u = b * (v - y);
    x->u_size += b * b * square(z, x->K) * dot(kf, kf, x->K) / (double)x->K;
    for (int64_t c = 0; c < x->K; c++) z[c] += u * (double)kh[c];
    for (int64_t c = 0; c < x->K; c++) o += z[c] * (double)qf[c];
    x->o_size += square(z, x->K) * dot(qf, qf, x->K) / (double)x->K;
    x->du[i * x->R + r] = u, x->o[i * x->R + r] = o;
  }
}

static void draw_block(fast_case *x, rng *g, int64_t most, int64_t past) {
  x->n = 1 + rng_below(g, N), x->past = past, x->head = 0;
  x->R = 1 + rng_below(g, most);
  const double size = 1 / sqrt((double)x->K);
  for (int64_t i = 0; i < x->R * x->K; i++) x->s[i] = (float)rng_normal(g);
  operand(x->kh, past + x->n, x, g, size), operand(x->kf, x->n, x, g, size);
  operand(x->qf, x->n, x, g, size);
  for (int64_t i = 0; i < (past + x->n) * x->R; i++) x->u[i] = (float)rng_normal(g);
  for (int64_t i = 0; i < x->n * x->R; i++) x->v[i] = (float)rng_normal(g);
  for (int64_t c = 0; c < x->Kp; c++) x->P[c] = c < x->K ? (float)rng_unit(g) : 1.0f;
  for (int64_t t = 0; t < x->n; t++) {
    const float *kh = x->kh + (past + t) * x->Kp;
    x->beta[t] = (float)rng_unit(g), x->kq[t] = (float)dot(kh, x->qf + t * x->Kp, x->K);
    x->ck[t] = t > 0 ? (float)dot(kh - x->Kp, x->kf + t * x->Kp, x->K) : 0;
    x->cq[t] = t > 0 ? (float)dot(kh - x->Kp, x->qf + t * x->Kp, x->K) : 0;
  }
  x->u_size = x->o_size = 0;
  for (int64_t r = 0; r < x->R; r++) solve_row(x, r);
  x->u_size = sqrt(x->u_size), x->o_size = sqrt(x->o_size);
}

static void do_pairs(void *arg) {
  call *c = arg;
  c->f->to_panel(got(B_SCRATCH), got(B_S), c->stride, c->R, c->K);
  c->f->pairs(&c->pairs);
  c->f->from_panel(got(B_S), c->stride, got(B_SCRATCH), c->R, c->K);
}

/* The state goes into the panel, through the block and back. */
static void pairs_case(harness *h, const rdi_fast_kernels *f, const fast_case *x, rng g,
                       float *bits) {
  const int64_t gap = rng_below(&g, GAP), vg = rng_below(&g, GAP), og = rng_below(&g, GAP);
  const int64_t size = x->n * x->Kp;
  call c = {.f = f, .stride = x->K + gap, .R = x->R, .K = x->K};
  forget();
  place(B_S, x->s, x->R, x->K, gap, 4, &g), place(B_SCRATCH, NULL, 1, x->K * f->panel, 0, 64, &g);
  place(B_KH, x->kh, 1, size, 0, 64, &g), place(B_KF, x->kf, 1, size, 0, 64, &g);
  place(B_QF, x->qf, 1, size, 0, 64, &g), place(B_P, x->P, 1, x->Kp, 0, 64, &g);
  place(B_KQ, x->kq, 1, x->n, 0, 4, &g), place(B_BETA, x->beta, 1, x->n, 0, 4, &g);
  place(B_CK, x->ck, 1, x->n, 0, 4, &g), place(B_CQ, x->cq, 1, x->n, 0, 4, &g);
  place(B_V, x->v, x->n, x->R, vg, 4, &g), place(B_O, NULL, x->n, x->R, og, 4, &g);
  c.pairs = (rdi_pairs_args){.R = x->R,
                             .K = x->K,
                             .Kp = x->Kp,
                             .n = x->n,
                             .panel = got(B_SCRATCH),
                             .kh = got(B_KH),
                             .kf = got(B_KF),
                             .qf = got(B_QF),
                             .end = got(B_P),
                             .kq = got(B_KQ),
                             .beta = got(B_BETA),
                             .ck = got(B_CK),
                             .cq = got(B_CQ),
                             .v = got(B_V),
                             .o = got(B_O),
                             .v_stride = x->R + vg,
                             .o_stride = x->R + og};
  const char *problem = guarded_call(do_pairs, &c);
  double *z = malloc((size_t)(x->R * x->K) * sizeof *z);
  if (z == NULL) exit(3);
  for (int64_t i = 0; i < x->R * x->K; i++) z[i] = x->z[i] * (double)x->P[i % x->K];
  const double es = error(got(B_S), gap, z, x->R, x->K, 0),
               eo = error(got(B_O), og, x->o, x->n, x->R, x->o_size);
  free(z);
  accept(B_S, 0, x->R, x->K, gap), accept(B_O, 0, x->n, x->R, og),
      accept(B_SCRATCH, 0, 1, x->K * f->panel, 0);
  if (!settle(h, name_of[0], x, problem, es > eo ? es : eo, es > eo ? "the state" : "an output"))
    return;
  for (int64_t t = 0; t < x->n; t++)
    memcpy(bits + t * x->R, got(B_O) + t * (x->R + og), (size_t)x->R * sizeof *bits);
}

static void do_spread(void *arg) {
  const call *c = arg;
  c->f->spread(&c->spread);
}

static void spread_case(harness *h, const rdi_fast_kernels *f, const fast_case *x, rng g,
                        float *bits) {
  const int64_t gap = rng_below(&g, GAP), vg = rng_below(&g, GAP), og = rng_below(&g, GAP);
  const int64_t ug = rng_below(&g, GAP), size = x->n * x->Kp, all = x->past + x->n;
  call c = {.f = f};
  forget();
  place(B_S, x->s, x->R, x->K, gap, 4, &g), place(B_KH, x->kh, 1, all * x->Kp, 0, 64, &g);
  place(B_KF, x->kf, 1, size, 0, 64, &g), place(B_QF, x->qf, 1, size, 0, 64, &g);
  place(B_BETA, x->beta, 1, x->n, 0, 4, &g), place(B_V, x->v, x->n, x->R, vg, 4, &g);
  place(B_U, NULL, all, x->R, ug, 4, &g), place(B_O, NULL, x->n, x->R, og, 4, &g);
  for (int64_t t = 0; t < x->past; t++)
    memcpy(want(B_U) + t * (x->R + ug), x->u + t * x->R, (size_t)x->R * sizeof(float));
  buffer_sync(&buffers[B_U]);
  place(B_SCRATCH, NULL, 1, f->spread_scratch(x->K), 0, 64, &g);
  c.spread = (rdi_spread_args){.R = x->R,
                               .K = x->K,
                               .Kp = x->Kp,
                               .n = x->n,
                               .past = x->past,
                               .s = got(B_S),
                               .s_stride = x->K + gap,
                               .kh = got(B_KH),
                               .kf = got(B_KF),
                               .qf = got(B_QF),
                               .beta = got(B_BETA),
                               .v = got(B_V),
                               .u = got(B_U),
                               .o = got(B_O),
                               .v_stride = x->R + vg,
                               .u_stride = x->R + ug,
                               .o_stride = x->R + og,
                               .scratch = got(B_SCRATCH),
                               .next = rng_below(&g, 2) ? got(B_V) : NULL};
  const char *problem = guarded_call(do_spread, &c);
  const float *u = got(B_U) + x->past * (x->R + ug);
  const double eu = error(u, ug, x->du, x->n, x->R, x->u_size),
               eo = error(got(B_O), og, x->o, x->n, x->R, x->o_size);
  accept(B_U, x->past, x->n, x->R, ug);
  accept(B_O, 0, x->n, x->R, og), accept(B_SCRATCH, 0, 1, f->spread_scratch(x->K), 0);
  if (!settle(h, name_of[1], x, problem, eu > eo ? eu : eo, eu > eo ? "u" : "an output")) return;
  for (int64_t t = 0; t < x->n; t++)
    memcpy(bits + t * x->R, got(B_O) + t * (x->R + og), (size_t)x->R * sizeof *bits);
}

/* ---- all kernels of one instruction set ---- */

static int asked(const harness *h, const char *slot, const char *name) {
  return h->function == NULL || strcmp(h->function, "fast") == 0 ||
         strcmp(h->function, slot) == 0 || strcmp(h->function, name) == 0;
}

/* One drawn block twice, at different places with different gaps: FAST promises the same bits. */
static void twice(harness *h, const rdi_fast_kernels *f, const fast_case *x, int spread, rng *g) {
  static float bits[2][N * MAX_R];
  const rdi_kernel_entry named = {.name = spread ? name_of[1] : name_of[0], .isa = isa_now};
  const long failed = h->tally.failed;
  for (int i = 0; i < 2; i++) {
    const rng at = {.s = rng_u64(g)};
    if (spread)
      spread_case(h, f, x, at, bits[i]);
    else
      pairs_case(h, f, x, at, bits[i]);
  }
  if (h->tally.failed != failed) return;
  if (memcmp(bits[0], bits[1], (size_t)(x->n * x->R) * sizeof **bits) == 0)
    harness_pass(h);
  else
    harness_fail(h, &named, x->index, "K=%lld R=%lld: other places or gaps give other bits",
                 (long long)x->K, (long long)x->R);
}

void check_fast(harness *h, const rdi_kernels *k, uint32_t isa) {
  const rdi_fast_kernels *f = &k->fast;
  name_of[0] = k->serving[RDI_SLOT_pairs].name;
  name_of[1] = k->serving[RDI_SLOT_spread].name;
  static fast_case x;
  int64_t index = 0;
  isa_now = isa;
  for (int i = 0; i < BUFFERS && buffers[i].region == NULL; i++)
    buffer_make(&buffers[i], sizeof(float) * (MAX_K + GAP) * (MAX_R + N));
  for (const int16_t *K = shape_K; *K != 0; K++)
    for (int i = 0; i < (h->all ? 60 : 6 * h->repeat); i++, index++) {
      if (harness_skips(h, index)) continue;
      rng g = {.s = h->seed * 1000003u + (uint64_t)index};
      x.K = *K, x.Kp = round_up(*K, 16), x.index = index;
      draw_fold(&x, &g);
      if (f->fold != NULL && asked(h, "fold", "fold")) fold_case(h, f, &x, g);
      draw_block(&x, &g, f->panel, 0);
      if (f->pairs != NULL && asked(h, "pairs", name_of[0])) twice(h, f, &x, 0, &g);
      draw_block(&x, &g, i % 6 ? 20 : MAX_R,
                 rng_below(&g, 2) ? 0 : rng_below(&g, MAX_N - 2 * N + 1));
      if (f->spread != NULL && asked(h, "spread", name_of[1])) twice(h, f, &x, 1, &g);
    }
}
