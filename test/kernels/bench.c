/* --bench: the call sites of the checks, timed. The minimum of many calls at K = V = 128; widen and
 * narrow on 4096 elements. For comparing kernels with one another; `redelta bench` measures verbs.
 */
#include "harness.h"

#include <time.h>

enum { D = 128, N = RDI_TOKENS, ROUNDS = 200, LENGTH = 4096 };

static _Alignas(64) float state[D * D], rest[2 * N * D], k[N * D], a[N * D], kt[N * D], qt[N * D];
static _Alignas(64) float kq[N], beta[N], v[N * D], u[N * D], o[N * D], scratch[1 << 18];
static uint16_t half[LENGTH];

static void call_rows(const rdi_kernel_entry *e) {
  e->rows(&(rdi_rows_args){.R = D,
                           .K = D,
                           .Kp = D,
                           .n = N,
                           .s_in = state,
                           .s_out = state,
                           .in_stride = D,
                           .out_stride = D,
                           .k = k,
                           .a = a,
                           .kt = kt,
                           .qt = qt,
                           .kq = kq,
                           .beta = beta,
                           .v = v,
                           .u = u,
                           .o = o,
                           .v_stride = D,
                           .u_stride = D,
                           .o_stride = D,
                           .scratch = scratch});
}

static void call_commit(const rdi_kernel_entry *e) {
  e->commit(&(rdi_commit_args){.R = D,
                               .K = D,
                               .Kp = D,
                               .m = 4,
                               .s_in = state,
                               .s_out = state,
                               .in_stride = D,
                               .out_stride = D,
                               .k = k,
                               .a = a,
                               .u = v,
                               .u_stride = D});
}

static void call_prep(const rdi_kernel_entry *e) {
  e->prep(&(rdi_prep_args){.n = N,
                           .K = D,
                           .Kp = D,
                           .q = qt,
                           .k = kt,
                           .q_stride = D,
                           .k_stride = D,
                           .qk_dtype = RD_F32,
                           .l2norm = 1,
                           .eps = 1e-6f,
                           .scale = 1,
                           .gate = RD_GATE_LOWER_BOUND,
                           .axis = RD_PER_CHANNEL,
                           .g = v,
                           .g_stride = D,
                           .g_dtype = RD_F32,
                           .lb = -5,
                           .A_log = 0,
                           .eA = 1,
                           .dt = v,
                           .beta = beta,
                           .beta_stride = 1,
                           .beta_dtype = RD_F32,
                           .beta_kind = RD_BETA_LOGIT,
                           .beta_times = 1,
                           .k_out = k,
                           .a_out = a,
                           .kt_out = rest,
                           .qt_out = rest + N * D,
                           .kq_out = kq,
                           .beta_out = u});
}

static void call(const rdi_kernel_entry *e) {
  if (e->slot == RDI_SLOT_rows) call_rows(e);
  if (e->slot == RDI_SLOT_commit) call_commit(e);
  if (e->slot == RDI_SLOT_prep) call_prep(e);
  if (e->slot == RDI_SLOT_widen) e->widen(scratch, half, RD_BF16, LENGTH);
  if (e->slot == RDI_SLOT_narrow) e->narrow(half, RD_BF16, scratch, LENGTH);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench(const rdi_kernel_entry *e) {
  if (e->slot > RDI_SLOT_narrow) return; /* measured by the verbs that use them */
  rng g = {.s = 1};
  float *const all[] = {state, k, a, kt, qt, v};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) inputs(all[i], N * D, &g, IN_NORMAL);
  for (int i = 0; i < N * D; i++) a[i] = (float)(0.5 + 0.5 * rng_unit(&g)), k[i] *= 0.05f;
  for (int i = 0; i < N * D; i++) kt[i] = a[i] * k[i];
  for (int i = 0; i < N; i++) beta[i] = 0.5f, kq[i] = 0.1f;
  double best = 1e9;
  for (int i = 0; i < ROUNDS; i++) {
    const double from = seconds();
    call(e);
    const double took = seconds() - from;
    if (took < best) best = took;
  }
  const double unit = e->slot == RDI_SLOT_commit ? 4 : e->slot <= RDI_SLOT_prep ? N : LENGTH;
  printf("%-20s %10.2f ns per %s\n", e->name, best * 1e9 / unit,
         e->slot <= RDI_SLOT_prep ? "token and head" : "element");
}
