/* The harness must catch what it exists for: each kernel here is the scalar one with one defect,
 * and the checks must fail it; the same wrapping without a defect must pass. selftest [every]   the
 * passing runs take only every so manieth case */
#define RDI_SOFT /* without a defect, these kernels are right in every mode */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "cpu/fpenv.h"
#include "kernels/c1.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef enum defect {
  NO_DEFECT,
  ORDER_OF_SUM,    /* one running sum */
  ONE_ULP,         /* in the last row of the last token */
  PAST_END,        /* writes one element after u */
  WRITES_GAP,      /* writes the native row's element K */
  READS_GAP,       /* adds the native row's element K to a sum */
  READS_OUT,       /* takes the state from s_out */
  WRITES_IN,       /* works in s_in although it is read-only */
  FUSED_DECAY,     /* one rounding too few: fma(a, S, u k) */
  UPDATES_PADS,    /* an infinite u makes the pads NaN */
  FORGETS_PADS,    /* a sum that is -0 stays -0 */
  NO_LAST_UPDATE,  /* the state after the last token is missing */
  LOSES_NAN,       /* NaN becomes 0 */
  FLUSHES,         /* subnormals that are only moved become 0 */
  GRADUAL,         /* keeps subnormals in arithmetic */
  FLUSHES_EARLY,   /* flushes by the value before rounding, as AArch64 does */
  NULL_OUTPUT,     /* writes o though it is not wanted */
  ENVIRONMENT,     /* leaves another rounding mode */
  ILLEGAL,         /* stops as an instruction does that the machine lacks */
  SCRATCH_OVERRUN, /* uses one float more scratch than it asked for */
  DEFECTS
} defect;

static defect now;

/* The operations, as the defect has them; GRADUAL runs with the modes of ordinary C. */
static float mul(float a, float b) {
  if (now == GRADUAL) return a * b;
  const float x = rdi_mul(a, b);
  return now == FLUSHES_EARLY && fabs((double)a * (double)b) < 0x1p-126 ? copysignf(0, x) : x;
}

static float add(float a, float b) { return now == GRADUAL ? a + b : rdi_add(a, b); }

static float fma1(float a, float b, float c) {
  if (now == GRADUAL) return fmaf(a, b, c);
  const float x = rdi_fma(a, b, c);
  return now == FLUSHES_EARLY && fabs((double)a * (double)b + (double)c) < 0x1p-126
             ? copysignf(0, x)
             : x;
}

static void gradual(rdi_fpenv *env) {
  rdi_fpenv_enter(env);
#if defined(__x86_64__)
  if (now == GRADUAL) _mm_setcsr(0x1f80);
#elif defined(__aarch64__)
  if (now == GRADUAL) __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#endif
}

/* ---- rows, one row at a time in a copy with pads ---- */

static float sum(const float *s, const float *b, int64_t K, int64_t Kp) {
  if (now == ORDER_OF_SUM) {
    float p = mul(s[0], b[0]);
    for (int64_t c = 1; c < K; c++) p = fma1(s[c], b[c], p);
    return p;
  }
  float p[16];
  const int64_t end = now == FORGETS_PADS ? K : Kp;
  for (int r = 0; r < 16; r++) p[r] = mul(s[r], b[r]);
  for (int64_t c = 16; c < end; c++) p[c % 16] = fma1(s[c], b[c], p[c % 16]);
  for (int h = 8; h >= 1; h /= 2)
    for (int r = 0; r < h; r++) p[r] = add(p[r], p[r + h]);
  return p[0];
}

static float update(float u, float k, float a, float s) {
  float x = now == FUSED_DECAY ? fma1(a, s, mul(u, k)) : fma1(u, k, mul(a, s));
  if (now == LOSES_NAN && isnan(x)) x = 0;
  return x;
}

static void environment(void) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x6000);
#elif defined(__aarch64__)
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | 3u << 22));
#endif
}

/* In the page of NULL, but nothing a sanitizer stops before the harness does. */
static float *nowhere(void) {
  static volatile uintptr_t address = 64;
  return (float *)address;
}

static void one_row(const rdi_rows_args *x, int64_t r, float *s) {
  for (int64_t t = 0; t < x->n; t++) {
    const int64_t at = t * x->Kp;
    float u = mul(x->beta[t], add(x->v[t * x->v_stride + r], -sum(s, x->kt + at, x->K, x->Kp)));
    if (now == ONE_ULP && r + 1 == x->R && t + 1 == x->n)
      u = rdi_f32_from_bits(rdi_f32_bits(u) ^ 1u);
    x->u[t * x->u_stride + r] = u;
    if (now == PAST_END) x->u[t * x->u_stride + r + 1] = u;
    if (x->o != NULL || now == NULL_OUTPUT)
      (x->o != NULL ? x->o : nowhere())[t * x->o_stride + r] =
          fma1(u, x->kq[t], sum(s, x->qt + at, x->K, x->Kp));
    if (now == NO_LAST_UPDATE && t + 1 == x->n) break;
    const int64_t end = now == UPDATES_PADS ? x->Kp : x->K;
    for (int64_t c = 0; c < end; c++) s[c] = update(u, x->k[at + c], x->a[at + c], s[c]);
  }
}

static void broken_rows(const rdi_rows_args *x) {
  float s[RDI_MAX_DIM] = {0};
  rdi_fpenv env;
  gradual(&env);
  for (int64_t r = 0; r < x->R; r++) {
    const float *in = x->s_in + r * x->in_stride;
    float *out = x->s_out != NULL ? x->s_out + r * x->out_stride : NULL;
    memcpy(s, now == READS_OUT && out != NULL ? out : in, (size_t)x->K * sizeof *s);
    if (now == READS_GAP) s[0] += 0 * in[x->K];
    one_row(x, r, s);
    if (now == WRITES_IN) memcpy((float *)(uintptr_t)in, s, (size_t)x->K * sizeof *s);
    if (out != NULL) memcpy(out, s, (size_t)x->K * sizeof *s);
    if (now == WRITES_GAP && out != NULL) out[x->K] = 0;
    for (int64_t c = x->K; c < x->Kp; c++) s[c] = 0;
  }
  rdi_fpenv_leave(&env);
  if (now == SCRATCH_OVERRUN) x->scratch[x->Kp] = 0;
  if (now == ENVIRONMENT) environment();
  if (now == ILLEGAL) raise(SIGILL);
}

static int64_t broken_scratch(int64_t R, int64_t K) {
  (void)R;
  return round_up(K, 16);
}

/* ---- commit ---- */

static void broken_commit(const rdi_commit_args *x) {
  float s[RDI_MAX_DIM];
  rdi_fpenv env;
  gradual(&env);
  for (int64_t r = 0; r < x->R; r++) {
    const float *in = x->s_in + r * x->in_stride;
    float *out = x->s_out + r * x->out_stride;
    memcpy(s, now == READS_OUT ? out : in, (size_t)x->K * sizeof *s);
    for (int64_t i = 0; i < x->m; i++) {
      const int64_t m = now == ORDER_OF_SUM ? x->m - 1 - i : i;
      for (int64_t c = 0; c < x->K; c++)
        s[c] = update(x->u[m * x->u_stride + r], x->k[m * x->Kp + c],
                      x->a == NULL ? 1 : x->a[m * x->Kp + c], s[c]);
    }
    memcpy(out, s, (size_t)x->K * sizeof *s);
    if (now == WRITES_GAP) out[x->K] = 0;
    if (now == WRITES_IN) memcpy((float *)(uintptr_t)in, s, (size_t)x->K * sizeof *s);
  }
  rdi_fpenv_leave(&env);
  if (now == ENVIRONMENT) environment();
}

/* ---- prep: the scalar kernel's results, spoiled afterwards ---- */

static const rdi_kernel_entry *scalar(rdi_slot slot) {
  for (int32_t i = 0; i < rdi_registry_count(); i++)
    if (rdi_registry_entry(i)->slot == slot) return rdi_registry_entry(i);
  exit(3);
}

static void broken_prep(const rdi_prep_args *x) {
  rdi_prep_args y = *x;
  if (now == ORDER_OF_SUM) y.eps = 0; /* the root's argument is another one */
  if (now == LOSES_NAN && y.gate == RD_GATE_SOFTPLUS) y.gate = RD_GATE_LOG;
  rdi_fpenv env;
  gradual(&env); /* on x86 the scalar kernel flushes by the modes in force */
  scalar(RDI_SLOT_prep)->prep(&y);
  rdi_fpenv_leave(&env);
  const int64_t last = (x->n - 1) * x->Kp;
  for (int64_t t = 0; t < x->n; t++) {
    float *b = &x->beta_out[t];
    if (now == ONE_ULP && t + 1 == x->n) *b = rdi_f32_from_bits(rdi_f32_bits(*b) ^ 1u);
    if (now == FUSED_DECAY) *b = rdi_f32_from_bf16(rdi_bf16_from_f32(*b)); /* beta in 16 bits */
  }
  for (int64_t c = 0; c < x->Kp; c++) {
    if (now == FLUSHES) x->k_out[last + c] = rdi_c2_in(x->k_out[last + c]); /* k is moved */
    if (now == UPDATES_PADS && c >= x->K) x->a_out[last + c] = 1;
  }
  if (now == PAST_END) x->kq_out[x->n] = 0;
  if (now == ENVIRONMENT) environment();
}

/* ---- widen and narrow ---- */

static void broken_widen(float *dst, const void *src, rd_dtype type, int64_t n) {
  scalar(RDI_SLOT_widen)->widen(dst, src, type, n);
  if (now == PAST_END) dst[n] = 0;
  if (now == READS_GAP && n > 0) dst[n - 1] += 0 * (float)((const volatile uint16_t *)src)[n];
  for (int64_t i = 0; i < n; i++) {
    if (now == FLUSHES) dst[i] = rdi_c2_in(dst[i]);
    if (now == LOSES_NAN && isnan(dst[i])) dst[i] = 0;
  }
}

static void broken_narrow(void *dst, rd_dtype type, const float *src, int64_t n) {
  scalar(RDI_SLOT_narrow)->narrow(dst, type, src, n);
  uint16_t *h = dst;
  if (now == PAST_END) ((char *)dst)[(size_t)n * (type == RD_F32 ? 4 : 2)] = 0;
  for (int64_t i = 0; i < n && type != RD_F32; i++) {
    if (now == ONE_ULP && type == RD_BF16) h[i] = (uint16_t)(rdi_f32_bits(src[i]) >> 16);
    if (now == ORDER_OF_SUM && type == RD_BF16 && !isnan(src[i])) /* ties away from zero */
      h[i] = (uint16_t)((rdi_f32_bits(src[i]) + 0x8000u) >> 16);
    if (now == FLUSHES && (h[i] & (type == RD_F16 ? 0x7c00 : 0x7f80)) == 0) h[i] &= 0x8000;
  }
  if (now == ENVIRONMENT) environment();
}

/* ---- FAST: the real kernels of this machine, spoiled afterwards ---- */

static rdi_fast_kernels real;

static int64_t broken_fold(const rdi_fold_args *x) {
  const int64_t n = real.fold(x);
  if (now == ONE_ULP) x->kf[0] *= 1.0001f;
  if (now == ORDER_OF_SUM && n < x->n) return n + 1; /* one token too many */
  if (now == UPDATES_PADS && x->Kp > x->K) x->kh[x->K] = 1;
  if (now == PAST_END && x->ck != NULL) x->ck[0] = 0;
  return n;
}

static void broken_pairs(const rdi_pairs_args *x) {
  real.pairs(x);
  if (now == ONE_ULP) x->o[0] *= 1.0001f;
  if (now == PAST_END) x->o[x->R] = 0;
  if (now == NO_LAST_UPDATE) x->panel[0] += 1;
  if (now == ENVIRONMENT) environment();
}

static void broken_spread(const rdi_spread_args *x) {
  real.spread(x);
  if (now == ONE_ULP) x->u[x->past * x->u_stride] *= 1.0001f;
  if (now == READS_GAP) /* a bit that depends on the stride */
    x->o[0] = rdi_f32_from_bits(rdi_f32_bits(x->o[0]) ^ (uint32_t)(x->s_stride & 1));
  if (now == WRITES_IN) *(float *)(uintptr_t)x->s = 0;
  if (now == WRITES_GAP && x->past > 0) x->u[x->R - 1] = 0;
}

static void fast(report *r, const char *slot, const defect *defects, int every) {
  rdi_fast_kernels f = real;
  if (slot[0] == 'f') f.fold = broken_fold;
  if (slot[0] == 'p') f.pairs = broken_pairs;
  if (slot[0] == 's') f.spread = broken_spread;
  for (int i = -1; i < 0 || defects[i] != NO_DEFECT; i++) {
    now = i < 0 ? NO_DEFECT : defects[i];
    harness h = {.seed = 1,
                 .isa = RD_ISA_ALL,
                 .function = slot,
                 .only_case = -1,
                 .repeat = 1,
                 .every = i < 0 ? every : 1,
                 .quiet = 1,
                 .self = ""};
    const rdi_kernels all = {.fast = f,
                             .serving = {[RDI_SLOT_pairs] = {"pairs", RD_ISA_SCALAR},
                                         [RDI_SLOT_spread] = {"spread", RD_ISA_SCALAR}}};
    check_fast(&h, &all, RD_ISA_SCALAR);
    CHECK(r, (h.tally.failed > 0) == (i >= 0), "%s with defect %d: %ld passed, %ld failed", slot,
          (int)now, h.tally.passed, h.tally.failed);
  }
}

static void all_fast(report *r, int every) {
  static const defect of_fold[] = {ONE_ULP, ORDER_OF_SUM, UPDATES_PADS, PAST_END, NO_DEFECT};
  static const defect of_pairs[] = {ONE_ULP, PAST_END, NO_LAST_UPDATE, ENVIRONMENT, NO_DEFECT};
  static const defect of_spread[] = {ONE_ULP, READS_GAP, WRITES_IN, WRITES_GAP, NO_DEFECT};
  rdi_kernels k = {0};
  rdi_kernels_select(&k, isa_usable());
  real = k.fast;
  if (real.fold == NULL || real.pairs == NULL || real.spread == NULL) {
    printf("fold, pairs, spread: not run (no FAST kernels for this machine)\n");
    r->skipped++;
    return;
  }
  fast(r, "fold", of_fold, every);
  fast(r, "pairs", of_pairs, every);
  fast(r, "spread", of_spread, every);
}

/* ---- the runs ---- */

static const char *const names[DEFECTS] = {"none",
                                           "order of the sum",
                                           "one ulp",
                                           "writes past the end",
                                           "writes a gap",
                                           "reads a gap",
                                           "reads s_out",
                                           "writes s_in",
                                           "fuses the decay",
                                           "updates pads",
                                           "forgets pads",
                                           "no last update",
                                           "loses NaN",
                                           "flushes what it moves",
                                           "gradual underflow",
                                           "flushes before rounding",
                                           "writes a NULL output",
                                           "changes the environment",
                                           "illegal instruction",
                                           "overruns scratch"};

typedef void (*check_fn)(harness *, const rdi_kernel_entry *const *, int);

static void expect(report *r, const rdi_kernel_entry *e, check_fn check, const char *what,
                   const defect *defects, int every) {
  for (int i = -1; i < 0 || defects[i] != NO_DEFECT; i++) {
    now = i < 0 ? NO_DEFECT : defects[i];
    harness h = {.seed = 1,
                 .isa = RD_ISA_ALL,
                 .only_case = -1,
                 .repeat = 1,
                 .every = i < 0 ? every : 1,
                 .quiet = 1,
                 .self = ""};
    check(&h, &e, 1);
    CHECK(r, (h.tally.failed > 0) == (i >= 0), "%s with defect \"%s\": %ld passed, %ld failed",
          what, names[now], h.tally.passed, h.tally.failed);
    printf("%-16s %-24s %s after %ld cases\n", what, names[now],
           h.tally.failed > 0 ? "caught" : "passed", h.tally.passed + h.tally.failed);
  }
}

static void broken_project(const rdi_project_args *x) {
  scalar(RDI_SLOT_project)->project(x);
  if (now == ONE_ULP) x->y[0] = nextafterf(x->y[0], 1);
  if (now == PAST_END) x->y[(x->M - 1) * x->y_stride + x->N] = 0;
  if (now == WRITES_GAP && x->M > 1) x->y[x->N] = 0;
  if (now != ORDER_OF_SUM) return;
  for (int64_t n = 0; n < x->N; n++) { /* one chain over all k, of row 0 */
    const uint16_t *w = x->w + n / 16 * 16 * x->Kp + n % 16 * 2;
    x->y[n] = 0;
    for (int64_t k = 0; k < x->Kp; k++)
      x->y[n] =
          rdi_c2_fma(rdi_f32_from_bf16(x->x[k]), rdi_f32_from_bf16(w[k / 2 * 32 + k % 2]), x->y[n]);
  }
}

int main(int argc, char **argv) {
  const int every = argc > 1 ? atoi(argv[1]) : 1;
  report r = {0};
  if (every < 1) return fprintf(stderr, "usage: selftest [every]\n"), 2;
  const rdi_kernel_entry rows = {.slot = RDI_SLOT_rows,
                                 .isa = RD_ISA_SCALAR,
                                 .name = "rows",
                                 .rows = broken_rows,
                                 .rows_scratch = broken_scratch};
  const rdi_kernel_entry commit = {
      .slot = RDI_SLOT_commit, .name = "commit", .commit = broken_commit};
  const rdi_kernel_entry prep = {.slot = RDI_SLOT_prep, .name = "prep", .prep = broken_prep};
  const rdi_kernel_entry widen = {.slot = RDI_SLOT_widen, .name = "widen", .widen = broken_widen};
  const rdi_kernel_entry narrow = {
      .slot = RDI_SLOT_narrow, .name = "narrow", .narrow = broken_narrow};
  const rdi_kernel_entry project = {
      .slot = RDI_SLOT_project, .name = "project", .project = broken_project};
  static const defect of_project[] = {ORDER_OF_SUM, ONE_ULP, PAST_END, WRITES_GAP, NO_DEFECT};
  static const defect of_rows[] = {ORDER_OF_SUM, ONE_ULP,         PAST_END,       WRITES_GAP,
                                   READS_GAP,    READS_OUT,       WRITES_IN,      FUSED_DECAY,
                                   UPDATES_PADS, FORGETS_PADS,    NO_LAST_UPDATE, LOSES_NAN,
                                   GRADUAL,      FLUSHES_EARLY,   NULL_OUTPUT,    ENVIRONMENT,
                                   ILLEGAL,      SCRATCH_OVERRUN, NO_DEFECT};
  static const defect of_commit[] = {ORDER_OF_SUM, WRITES_GAP, READS_OUT, WRITES_IN,
                                     FUSED_DECAY,  LOSES_NAN,  GRADUAL,   FLUSHES_EARLY,
                                     ENVIRONMENT,  NO_DEFECT};
  static const defect of_prep[] = {
    ORDER_OF_SUM,
    ONE_ULP,
    PAST_END,
    FUSED_DECAY,
    UPDATES_PADS,
    LOSES_NAN,
    FLUSHES,
    ENVIRONMENT,
#if defined(__x86_64__)
    GRADUAL,
#endif
    NO_DEFECT
  };
  static const defect of_widen[] = {PAST_END, READS_GAP, LOSES_NAN, FLUSHES, NO_DEFECT};
  static const defect of_narrow[] = {ORDER_OF_SUM, ONE_ULP,     PAST_END,
                                     FLUSHES,      ENVIRONMENT, NO_DEFECT};
  expect(&r, &rows, check_rows, "rows", of_rows, every);
  expect(&r, &commit, check_commit, "commit", of_commit, every);
  expect(&r, &prep, check_prep, "prep", of_prep, every);
  expect(&r, &widen, check_widen, "widen", of_widen, every);
  expect(&r, &narrow, check_narrow, "narrow", of_narrow, every);
  expect(&r, &project, check_project, "project", of_project, every);
  all_fast(&r, every);
  return report_end(&r);
}
