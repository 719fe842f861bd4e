/* The chunk kernel: with emulated and, where the machine has them, real tiles; against the recurrence in
 * double, each other's bits, and the bits of the same tokens elsewhere. chunk.c [SEED [CASES]] */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/fpenv.h"
#include "harness.h"
#include "util/half.h"

int rdi_chunk_emulated(const rdi_chunk_args *args);
int64_t rdi_chunk_scratch_emulated(int64_t K);

enum { N = 32, MAX_K = 512, MAX_R = 160, GAP = 24 };
#define BOUND 2e-6 /* of docs/NUMERICS.md */

static report tally;

typedef struct sample {
  int64_t K, R, n;
  int l2norm;
  uint16_t q[N * MAX_K], k[N * MAX_K], v[N * MAX_R];
  float g[N], beta[N], s[MAX_R * MAX_K]; /* of the state: [R][K] */
} sample;

typedef struct outcome {
  int done;
  float o[N * MAX_R], s[MAX_R * MAX_K];
} outcome;

static uint16_t half(double x) {
  const uint32_t b = rdi_f32_bits((float)x);
  return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static float wide(uint16_t x) { return rdi_f32_from_bits((uint32_t)x << 16); }

/* alike: how much all keys are one. */
static void draw(sample *x, rng *g, double alike) {
  static double one[MAX_K];
  x->K = 32 * (1 + rng_below(g, rng_below(g, 4) ? 4 : MAX_K / 32));
  x->R = 1 + rng_below(g, MAX_R), x->n = 1 + rng_below(g, N), x->l2norm = rng_below(g, 4) != 0;
  const double size = x->l2norm ? 1 : 1 / sqrt((double)x->K);
  for (int64_t c = 0; c < x->K; c++) one[c] = rng_normal(g);
  for (int64_t t = 0; t < x->n; t++) {
    for (int64_t c = 0; c < x->K; c++) {
      x->q[t * x->K + c] = half(rng_normal(g));
      x->k[t * x->K + c] = half(size * ((1 - alike) * rng_normal(g) + alike * one[c]));
    }
    for (int64_t r = 0; r < x->R; r++) x->v[t * x->R + r] = half(rng_normal(g));
    x->g[t] = (float)-exp(-6 * rng_unit(g)), x->beta[t] = (float)(0.1 + 0.9 * rng_unit(g));
    if (rng_below(g, 20) == 0)
      x->g[t] = -200; /* products of decays vanish, no quotient may overflow */
  }
  for (int64_t i = 0; i < x->R * x->K; i++) x->s[i] = (float)(0.3 * rng_normal(g));
}

/* The recurrence, token by token. */
static void solve(const sample *x, double *o, double *s) {
  const double scale = 1 / sqrt((double)x->K);
  for (int64_t i = 0; i < x->R * x->K; i++) s[i] = (double)x->s[i];
  for (int64_t t = 0; t < x->n; t++) {
    const uint16_t *k = x->k + t * x->K, *q = x->q + t * x->K;
    double kk = 0, qq = 0;
    for (int64_t c = 0; c < x->K; c++) {
      kk += (double)wide(k[c]) * (double)wide(k[c]), qq += (double)wide(q[c]) * (double)wide(q[c]);
    }
    const double nk = x->l2norm ? 1 / sqrt(kk + 1e-6) : 1;
    const double nq = x->l2norm ? scale / sqrt(qq + 1e-6) : scale, a = exp((double)x->g[t]);
    for (int64_t r = 0; r < x->R; r++) {
      double *z = s + r * x->K, y = 0, w = 0;
      for (int64_t c = 0; c < x->K; c++) z[c] *= a, y += z[c] * nk * (double)wide(k[c]);
      const double u = (double)x->beta[t] * ((double)wide(x->v[t * x->R + r]) - y);
      for (int64_t c = 0; c < x->K; c++) {
        z[c] += u * nk * (double)wide(k[c]), w += z[c] * nq * (double)wide(q[c]);
      }
      o[t * x->R + r] = w;
    }
  }
}

static void *at_gap(uint16_t *to, const uint16_t *from, int64_t rows, int64_t width, int64_t gap) {
  for (int64_t t = 0; t < rows; t++)
    memcpy(to + t * (width + gap), from + t * width, (size_t)width * sizeof *to);
  return to;
}

/* Rows gap elements further apart; what lies between outputs must stay. */
static void run(const sample *x, rdi_chunk_fn chunk, int64_t scratch, int64_t gap, outcome *y) {
  static uint16_t q[N * (MAX_K + GAP)], k[N * (MAX_K + GAP)], v[N * (MAX_R + GAP)];
  static float o[N * (MAX_R + GAP)];
  const int64_t panels = (x->R + 31) / 32;
  float *memory = aligned_alloc(64, (size_t)(scratch + 15) / 16 * 64);
  float *panel = aligned_alloc(64, (size_t)(panels * x->K * 32) * sizeof *panel);
  if (!memory || !panel) exit(3);
  memset(memory, 0xff, (size_t)(scratch + 15) / 16 * 64); /* NaNs */
  memset(panel, 0, (size_t)(panels * x->K * 32) * sizeof *panel);
  for (int64_t i = 0; i < N * (MAX_R + GAP); i++) o[i] = -7;
  for (int64_t r = 0; r < x->R; r++)
    for (int64_t c = 0; c < x->K; c++)
      panel[(r / 32 * x->K + c) * 32 + r % 32] = x->s[r * x->K + c];
  const rdi_chunk_args args = {.from = {.n = x->n,
                                        .K = x->K,
                                        .Kp = x->K,
                                        .q = at_gap(q, x->q, x->n, x->K, gap),
                                        .k = at_gap(k, x->k, x->n, x->K, gap),
                                        .q_stride = x->K + gap,
                                        .k_stride = x->K + gap,
                                        .qk_dtype = RD_BF16,
                                        .l2norm = x->l2norm,
                                        .eps = 1e-6f,
                                        .scale = (float)(1 / sqrt((double)x->K)),
                                        .gate = RD_GATE_LOG,
                                        .axis = RD_PER_HEAD,
                                        .g = x->g,
                                        .g_stride = 1,
                                        .g_dtype = RD_F32,
                                        .beta = x->beta,
                                        .beta_stride = 1,
                                        .beta_dtype = RD_F32,
                                        .beta_kind = RD_BETA_VALUE,
                                        .beta_times = 1},
                               .n = x->n,
                               .R = x->R,
                               .panel = panel,
                               .v = at_gap(v, x->v, x->n, x->R, gap),
                               .v_stride = x->R + gap,
                               .v_dtype = RD_BF16,
                               .o = o,
                               .o_stride = x->R + gap,
                               .o_dtype = RD_F32,
                               .scratch = memory};
  y->done = chunk(&args);
  for (int64_t r = 0; r < x->R; r++)
    for (int64_t c = 0; c < x->K; c++)
      y->s[r * x->K + c] = panel[(r / 32 * x->K + c) * 32 + r % 32];
  int64_t touched = 0;
  for (int64_t i = 0; i < N * (MAX_R + GAP); i++) {
    const int64_t t = i / (x->R + gap), r = i % (x->R + gap);
    if (t < x->n && r < x->R && y->done)
      y->o[t * x->R + r] = o[i];
    else
      touched += o[i] != -7;
  }
  CHECK(&tally, touched == 0, "%lld numbers beside the outputs changed", (long long)touched);
  free(memory), free(panel);
}

static double error(const float *x, const double *want, int64_t n) {
  double e = 0, s = 0;
  for (int64_t i = 0; i < n; i++) {
    const double d = (double)x[i] - want[i];
    e += d * d, s += want[i] * want[i];
  }
  return sqrt(e / s);
}

static int equal(const sample *x, const outcome *a, const outcome *b) {
  return memcmp(a->o, b->o, (size_t)(x->n * x->R) * sizeof(float)) == 0 &&
         memcmp(a->s, b->s, (size_t)(x->R * x->K) * sizeof(float)) == 0;
}

static void one(const sample *x, rdi_chunk_fn real, int64_t real_scratch, rng *g) {
  static double o[N * MAX_R], s[MAX_R * MAX_K];
  static outcome a, b;
  const int64_t scratch = rdi_chunk_scratch_emulated(x->K);
  run(x, rdi_chunk_emulated, scratch, 0, &a);
  solve(x, o, s);
  const double eo = error(a.o, o, x->n * x->R), es = error(a.s, s, x->R * x->K);
  CHECK(&tally, a.done && eo <= BOUND && es <= BOUND,
        "K %lld R %lld n %lld: outputs are off by %.2g, the state by %.2g", (long long)x->K,
        (long long)x->R, (long long)x->n, eo, es);
  run(x, rdi_chunk_emulated, scratch, rng_below(g, GAP), &b);
  CHECK(&tally, equal(x, &a, &b), "other strides give other bits");
  if (real == NULL) return;
  run(x, real, real_scratch, rng_below(g, GAP), &b);
  CHECK(&tally, equal(x, &a, &b), "K %lld R %lld n %lld: real tiles give other bits",
        (long long)x->K, (long long)x->R, (long long)x->n);
}

/* Later values and tokens, other columns and a NaN reach what they must and nothing else. */
static void spreads(sample *x, rng *g) {
  static outcome a, b;
  x->R = 40, x->n = 32;
  const int64_t scratch = rdi_chunk_scratch_emulated(x->K), r = rng_below(g, 40),
                t = rng_below(g, 32);
  for (int64_t i = 0; i < 32 * 40; i++) x->v[i] = half(rng_normal(g));
  for (int64_t i = 0; i < 32 * x->K; i++)
    x->q[i] = half(rng_normal(g)), x->k[i] = half(rng_normal(g) / 9);
  for (int i = 0; i < 32; i++) x->g[i] = -0.1f, x->beta[i] = 0.5f;
  for (int64_t i = 0; i < 40 * x->K; i++) x->s[i] = 0.25f;
  run(x, rdi_chunk_emulated, scratch, 0, &a);
  x->v[t * 40 + r] = 0x7fc0; /* NaN */
  run(x, rdi_chunk_emulated, scratch, 0, &b);
  int64_t wrong = 0;
  for (int64_t i = 0; i < 32 * 40; i++) {
    const int hit = i % 40 == r && i / 40 >= t;
    wrong += hit ? b.o[i] == b.o[i] : memcmp(&a.o[i], &b.o[i], 4) != 0;
  }
  for (int64_t i = 0; i < 40 * x->K; i++)
    wrong += i / x->K == r ? b.s[i] == b.s[i] : memcmp(&a.s[i], &b.s[i], 4) != 0;
  CHECK(&tally, wrong == 0, "a NaN of v: %lld numbers are not what they should", (long long)wrong);
  x->v[t * 40 + r] = 0, x->g[t] = 0.5f;
  run(x, rdi_chunk_emulated, scratch, 0, &b);
  CHECK(&tally, !b.done, "a decay above 1 was not declined");
}

int main(int argc, char **argv) {
  rng g = {.s = argc > 1 ? strtoull(argv[1], NULL, 10) : 1};
  const int cases = argc > 2 ? atoi(argv[2]) : 24;
  printf("seed %llu\n", (unsigned long long)g.s);
  if (!(isa_usable() & RD_ISA_AVX512)) {
    printf("chunk: not run (this machine lacks avx512)\n"), tally.skipped++;
    return report_end(&tally);
  }
  rdi_kernels k = {0};
  rdi_kernels_select(&k, RD_ISA_AVX512 | RD_ISA_AMX);
  const int real = (isa_usable() & RD_ISA_AMX) && k.fast.chunk && !rd_isa_emulated();
  if (!real)
    printf("real tiles: not run (this machine or this build lacks amx)\n"), tally.skipped++;
  rdi_fpenv saved;
  rdi_fpenv_enter(&saved);
  static sample x;
  for (int i = 0; i < cases; i++) {
    draw(&x, &g, i % 3 == 2 ? 0.9 : 0);
    one(&x, real ? k.fast.chunk : NULL, real ? k.fast.chunk_scratch(x.K) : 0, &g);
    spreads(&x, &g);
  }
  rdi_fpenv_leave(&saved);
  return report_end(&tally);
}
