/* rows, commit and their forms for states that lie key by key (lanes, lanes_commit) against the float
 * specification. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include "ref/ref.h"

enum { MAX_R = 128, MAX_K = RDI_MAX_DIM, N = RDI_TOKENS, MAX_M = 40, GAP = 9 };
enum { IN_PLACE, ELSEWHERE, NOWHERE, MODES };

/* One case: inputs as the kernel gets them (operand rows padded to Kp), and the expected results.
 */
typedef struct state_case {
  int64_t K, Kp, R, n, in_gap, out_gap, v_gap, u_gap, o_gap, index;
  int mode, with_o, with_a, with_next;
  int by_key; /* the state lies [K][R] */
  float s[MAX_R * MAX_K], k[MAX_M * MAX_K], a[MAX_M * MAX_K], kt[N * MAX_K], qt[N * MAX_K];
  float kq[N], beta[N], v[MAX_M * MAX_R];
  float s_end[MAX_R * MAX_K], u[MAX_M * MAX_R], o[N * MAX_R];
} state_case;

/* Buffers of one call. */
enum { B_IN, B_OUT, B_K, B_A, B_KT, B_QT, B_KQ, B_BETA, B_V, B_U, B_O, B_SCRATCH, BUFFERS };
static buffer buffers[BUFFERS];
static const char *const buffer_names[BUFFERS] = {"s_in", "s_out", "k", "a", "kt", "qt",
                                                  "kq",   "beta",  "v", "u", "o",  "scratch"};

static void make_buffers(void) {
  if (buffers[0].region != NULL) return;
  for (int i = 0; i < BUFFERS; i++)
    buffer_make(&buffers[i], sizeof(float) * (MAX_K + GAP + 16) * (MAX_R + GAP + 16));
}

static float *want(int i) { return (float *)(void *)buffers[i].want; }
static float *got(int i) { return (float *)(void *)buffers[i].got; }

static void place(int i, int64_t floats, size_t align, rng *g) {
  buffer_place(&buffers[i], (size_t)floats * sizeof(float), align, g);
}

static void put_rows(float *dst, int64_t stride, const float *src, int64_t src_stride, int64_t rows,
                     int64_t width) {
  for (int64_t r = 0; r < rows; r++)
    memcpy(dst + r * stride, src + r * src_stride, (size_t)width * sizeof *dst);
}

/* A state, by value or by key. */
static void put_state(const state_case *x, float *dst, int64_t stride, const float *src) {
  for (int64_t r = 0; r < x->R; r++)
    for (int64_t c = 0; c < x->K; c++)
      dst[x->by_key ? c * stride + r : r * stride + c] = src[r * x->K + c];
}

static void operand(float *dst, int64_t rows, const state_case *x, rng *g, input_class c) {
  for (int64_t t = 0; t < rows; t++) {
    inputs(dst + t * x->Kp, x->K, g, c);
    memset(dst + t * x->Kp + x->K, 0, (size_t)(x->Kp - x->K) * sizeof *dst);
  }
}

/* One class for the state, another for the operands now and then, so that ordinary numbers meet
 * special ones. Decays are mostly in (0, 1], with exact 0 (a gate of -inf) and 1 among them. */
static void draw_common(state_case *x, rng *g, int64_t rows) {
  const input_class c = (input_class)rng_below(g, IN_CLASSES);
  const input_class other = rng_below(g, 2) ? c : IN_NORMAL;
  x->Kp = round_up(x->K, 16);
  x->in_gap = rng_below(g, GAP), x->out_gap = rng_below(g, GAP);
  x->v_gap = rng_below(g, GAP), x->u_gap = rng_below(g, GAP), x->o_gap = rng_below(g, GAP);
  x->with_next = (int)rng_below(g, 2);
  inputs(x->s, x->R * x->K, g, c);
  operand(x->k, rows, x, g, other);
  operand(x->a, rows, x, g, other);
  if (rng_below(g, 2))
    for (int64_t i = 0; i < rows * x->Kp; i++)
      if (i % x->Kp < x->K) {
        const int64_t dice = rng_below(g, 8);
        x->a[i] = dice == 0 ? 0.0f : dice == 1 ? 1.0f : (float)rng_unit(g);
      }
  inputs(x->v, rows * x->R, g, other);
}

/* Every product is -0, so that a sum is -0 exactly where no pad takes part; v = -0 shows it in u.
 */
static void negative_zeros(state_case *x) {
  for (int64_t i = 0; i < x->R * x->K; i++) x->s[i] = 0.0f;
  for (int64_t i = 0; i < x->n * x->Kp; i++)
    if (i % x->Kp < x->K) x->kt[i] = -1.0f - fabsf(x->kt[i]), x->qt[i] = -1.0f - fabsf(x->qt[i]);
  for (int64_t i = 0; i < x->n * x->R; i++) x->v[i] = -0.0f;
  for (int64_t t = 0; t < x->n; t++) x->beta[t] = 1.0f;
}

static void draw_rows(state_case *x, rng *g) {
  draw_common(x, g, x->n);
  const input_class c = rng_below(g, 2) ? IN_NORMAL : (input_class)rng_below(g, IN_CLASSES);
  x->with_o = rng_below(g, 8) != 0;
  operand(x->kt, x->n, x, g, c);
  operand(x->qt, x->n, x, g, c);
  inputs(x->kq, x->n, g, c);
  inputs(x->beta, x->n, g, c);
  if (rng_below(g, 32) == 0) negative_zeros(x);
  memcpy(x->s_end, x->s, sizeof x->s);
  for (int64_t t = 0; t < x->n; t++)
    rdr_c1_step(x->s_end, x->K, x->R, x->k + t * x->Kp, x->a + t * x->Kp, x->kt + t * x->Kp,
                x->qt + t * x->Kp, x->kq[t], x->beta[t], x->v + t * x->R, x->u + t * x->R,
                x->o + t * x->R);
}

/* Copies a plain operand into its buffer and syncs it. */
static void load(int i, const float *src, int64_t floats, size_t align, rng *g) {
  place(i, floats, align, g);
  memcpy(buffers[i].want, src, (size_t)floats * sizeof *src);
  buffer_sync(&buffers[i]);
}

static void load_strided(int i, const float *src, int64_t rows, int64_t width, int64_t gap,
                         rng *g) {
  place(i, (rows - 1) * (width + gap) + width, sizeof(float), g);
  if (src != NULL) put_rows(want(i), width + gap, src, width, rows, width);
  buffer_sync(&buffers[i]);
}

/* Compares all buffers; scratch is the kernel's own. */
static void compare(harness *h, const rdi_kernel_entry *e, const state_case *x, const char *problem,
                    const int *used, int count) {
  char shape[160];
  snprintf(shape, sizeof shape, "K=%lld R=%lld n=%lld %s", (long long)x->K, (long long)x->R,
           (long long)x->n,
           x->mode == IN_PLACE    ? "in place"
           : x->mode == ELSEWHERE ? "out of place"
                                  : "state not wanted");
  if (problem != NULL) {
    harness_fail(h, e, x->index, "%s: %s", shape, problem);
    return;
  }
  for (int i = 0; i < count; i++) {
    const int64_t at = buffer_differs(&buffers[used[i]], RD_F32);
    if (at == INT64_MIN) continue;
    const int64_t size = (int64_t)(buffers[used[i]].bytes / sizeof(float));
    if (at < 0 || at >= size)
      harness_fail(h, e, x->index, "%s: writes %s element %lld of %lld", shape,
                   buffer_names[used[i]], (long long)at, (long long)size);
    else
      harness_fail(h, e, x->index, "%s: %s element %lld is %a, expected %a", shape,
                   buffer_names[used[i]], (long long)at, (double)got(used[i])[at],
                   (double)want(used[i])[at]);
    return;
  }
  harness_pass(h);
}

typedef struct call {
  const rdi_kernel_entry *e;
  rdi_rows_args rows;
  rdi_commit_args commit;
} call;

static void do_rows(void *arg) {
  const call *c = arg;
  (c->e->lanes ? c->e->lanes : c->e->rows)(&c->rows);
}

static void do_commit(void *arg) {
  const call *c = arg;
  (c->e->lanes_commit ? c->e->lanes_commit : c->e->commit)(&c->commit);
}

/* The state buffers before the call. */
static void load_state(const state_case *x, call *c, rng *g) {
  const int64_t width = x->by_key ? x->R : x->K, rows = x->by_key ? x->K : x->R;
  const int64_t si = width + x->in_gap, so = x->mode == IN_PLACE ? si : width + x->out_gap;
  place(B_IN, (rows - 1) * si + width, sizeof(float), g);
  place(B_OUT, (rows - 1) * so + width, sizeof(float), g);
  put_state(x, want(B_IN), si, x->s);
  buffer_sync(&buffers[B_IN]);
  buffer_sync(&buffers[B_OUT]);
  c->rows.s_in = got(B_IN), c->rows.in_stride = si, c->rows.out_stride = so;
  c->rows.s_out = x->mode == NOWHERE ? NULL : x->mode == IN_PLACE ? got(B_IN) : got(B_OUT);
}

/* The expected state into the right buffer. */
static void expect_state(const state_case *x, const call *c) {
  if (x->mode != NOWHERE)
    put_state(x, want(x->mode == IN_PLACE ? B_IN : B_OUT), c->rows.out_stride, x->s_end);
}

static void rows_case(harness *h, const rdi_kernel_entry *e, const state_case *x, rng g) {
  static const int used[] = {B_IN, B_OUT,  B_K, B_A, B_KT, B_QT,
                             B_KQ, B_BETA, B_V, B_U, B_O,  B_SCRATCH};
  call c = {.e = e};
  load_state(x, &c, &g);
  load(B_K, x->k, x->n * x->Kp, 64, &g);
  load(B_A, x->a, x->n * x->Kp, 64, &g);
  load(B_KT, x->kt, x->n * x->Kp, 64, &g);
  load(B_QT, x->qt, x->n * x->Kp, 64, &g);
  load(B_KQ, x->kq, x->n, sizeof(float), &g);
  load(B_BETA, x->beta, x->n, sizeof(float), &g);
  load_strided(B_V, x->v, x->n, x->R, x->v_gap, &g);
  load_strided(B_U, NULL, x->n, x->R, x->u_gap, &g);
  load_strided(B_O, NULL, x->n, x->R, x->o_gap, &g);
  place(B_SCRATCH, (e->lanes ? e->lanes_scratch : e->rows_scratch)(x->R, x->K), 64, &g);
  buffer_sync(&buffers[B_SCRATCH]);
  c.rows.R = x->R, c.rows.K = x->K, c.rows.Kp = x->Kp, c.rows.n = x->n;
  c.rows.k = got(B_K), c.rows.a = got(B_A), c.rows.kt = got(B_KT), c.rows.qt = got(B_QT);
  c.rows.kq = got(B_KQ), c.rows.beta = got(B_BETA), c.rows.v = got(B_V), c.rows.u = got(B_U);
  c.rows.o = x->with_o ? got(B_O) : NULL;
  c.rows.v_stride = x->R + x->v_gap, c.rows.u_stride = x->R + x->u_gap;
  c.rows.o_stride = x->R + x->o_gap;
  c.rows.scratch = got(B_SCRATCH);
  c.rows.next = x->with_next ? got(B_V) : NULL;
  const char *problem = guarded_call(do_rows, &c);
  put_rows(want(B_U), c.rows.u_stride, x->u, x->R, x->n, x->R);
  if (x->with_o) put_rows(want(B_O), c.rows.o_stride, x->o, x->R, x->n, x->R);
  memcpy(buffers[B_SCRATCH].want, buffers[B_SCRATCH].got, buffers[B_SCRATCH].bytes);
  if (problem == NULL) expect_state(x, &c);
  compare(h, e, x, problem, used, BUFFERS);
}

static void one_rows(harness *h, const rdi_kernel_entry *const *entries, int count, state_case *x) {
  rng g = {.s = h->seed * 1000003u + (uint64_t)x->index};
  draw_rows(x, &g);
  for (int i = 0; i < count; i++) rows_case(h, entries[i], x, g);
}

static void all_rows(harness *h, const rdi_kernel_entry *const *entries, int count, int by_key) {
  static state_case x;
  x.by_key = by_key;
  int64_t index = 0;
  make_buffers();
  for (const int16_t *K = shape_K; *K != 0; K++)
    for (const int16_t *R = shape_R; *R != 0; R++)
      for (int i = 0; i < (h->all ? N * MODES : h->repeat); i++, index++) {
        if (harness_skips(h, index)) continue;
        rng g = {.s = h->seed + (uint64_t)index};
        x.K = *K, x.R = *R, x.index = index;
        x.n = 1 + (h->all ? i / MODES : rng_below(&g, N));
        x.mode = h->all ? i % MODES : (int)rng_below(&g, MODES);
        one_rows(h, entries, count, &x);
      }
}

void check_rows(harness *h, const rdi_kernel_entry *const *entries, int count) {
  all_rows(h, entries, count, 0);
}

void check_lanes(harness *h, const rdi_kernel_entry *const *entries, int count) {
  all_rows(h, entries, count, 1);
}

static void commit_case(harness *h, const rdi_kernel_entry *e, const state_case *x, rng g) {
  static const int used[] = {B_IN, B_OUT, B_K, B_A, B_U};
  call c = {.e = e};
  load_state(x, &c, &g);
  load(B_K, x->k, x->n * x->Kp, 64, &g);
  load(B_A, x->a, x->n * x->Kp, 64, &g);
  load_strided(B_U, x->v, x->n, x->R, x->u_gap, &g);
  c.commit = (rdi_commit_args){.R = x->R,
                               .K = x->K,
                               .Kp = x->Kp,
                               .m = x->n,
                               .s_in = c.rows.s_in,
                               .s_out = c.rows.s_out,
                               .in_stride = c.rows.in_stride,
                               .out_stride = c.rows.out_stride,
                               .k = got(B_K),
                               .a = x->with_a ? got(B_A) : NULL,
                               .u = got(B_U),
                               .u_stride = x->R + x->u_gap,
                               .next = x->with_next ? got(B_U) : NULL};
  const char *problem = guarded_call(do_commit, &c);
  if (problem == NULL) expect_state(x, &c);
  compare(h, e, x, problem, used, 5);
}

static void all_commits(harness *h, const rdi_kernel_entry *const *entries, int count, int by_key) {
  static state_case x;
  x.by_key = by_key;
  int64_t index = 0;
  make_buffers();
  for (const int16_t *K = shape_K; *K != 0; K++)
    for (const int16_t *R = shape_R; *R != 0; R++)
      for (int i = 0; i < (h->all ? 2 * MAX_M : h->repeat); i++, index++) {
        if (harness_skips(h, index)) continue;
        rng g = {.s = h->seed + (uint64_t)index};
        x.K = *K, x.R = *R, x.index = index;
        x.n = 1 + (h->all ? i / 2 : rng_below(&g, rng_below(&g, 4) ? 8 : MAX_M));
        x.mode = h->all ? i % 2 : (int)rng_below(&g, 2);
        draw_common(&x, &g, x.n);
        x.with_a = rng_below(&g, 4) != 0;
        memcpy(x.s_end, x.s, sizeof x.s);
        static float ones[MAX_K];
        for (int64_t k = 0; k < x.K; k++) ones[k] = 1.0f;
        for (int64_t m = 0; m < x.n; m++)
          rdr_c1_commit(x.s_end, x.K, x.R, x.v + m * x.R, x.k + m * x.Kp,
                        x.with_a ? x.a + m * x.Kp : ones);
        for (int e = 0; e < count; e++) commit_case(h, entries[e], &x, g);
      }
}

void check_commit(harness *h, const rdi_kernel_entry *const *entries, int count) {
  all_commits(h, entries, count, 0);
}

void check_lanes_commit(harness *h, const rdi_kernel_entry *const *entries, int count) {
  all_commits(h, entries, count, 1);
}
