/* Peak, bandwidth and the straightforward loop for one instruction set. Compiled once for each, with
 * its flags, BENCH_NAME, BENCH_ISA and BENCH_LANES; products feeding sums may fuse here. */
#include "bench/bench.h"
#include "bench/probes.h"

#include <string.h>

typedef float vec __attribute__((vector_size(4 * BENCH_LANES)));
typedef float loose __attribute__((vector_size(4 * BENCH_LANES), aligned(4), may_alias));

#if defined(__x86_64__)
#define KEEP(x) __asm__ volatile("" : "+" BENCH_CLASS(x))
#elif defined(__aarch64__)
#define KEEP(x) __asm__ volatile("" : "+w"(x))
#else
#define KEEP(x) __asm__ volatile("" : "+m"(x))
#endif
#ifdef __AVX512F__
#define BENCH_CLASS "v"
#else
#define BENCH_CLASS "x"
#endif

enum { CHAINS = 12, LANES = BENCH_LANES, STEP = 4 * LANES };

static vec load(const float *p) { return *(const loose *)(const void *)p; }
static void store(float *p, vec x) { *(loose *)(void *)p = x; }

static int64_t fma_burst(int64_t rounds) {
  vec x[CHAINS], a = (vec){0} + 0.75f, b = (vec){0} + 0.3f; /* no x[i] starts at the fixed point */
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS; i++) x[i] = (vec){0} + (float)i;
  for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) x[i] = x[i] * a + b;
  }
#pragma GCC unroll 12
  for (int i = 0; i < CHAINS; i++) KEEP(x[i]);
  return rounds * CHAINS;
}

static float read_all(const float *p, int64_t n) {
  vec s[4] = {{0}, {0}, {0}, {0}};
  for (int64_t i = 0; i < n; i += STEP)
    for (int j = 0; j < 4; j++) s[j] += load(p + i + j * LANES);
  vec t = s[0] + s[1] + s[2] + s[3];
  return t[0];
}

static void update_all(float *p, int64_t n) {
  for (int64_t i = 0; i < n; i += STEP)
    for (int j = 0; j < 4; j++) store(p + i + j * LANES, load(p + i + j * LANES) * 0.999f + 0.001f);
}

static void scale_rows(float *S, int64_t V, int64_t K, const float *a) {
  for (int64_t r = 0; r < V; r++, S += K)
    for (int64_t c = 0; c < K; c += LANES) store(S + c, load(S + c) * load(a + c));
}

static void multiply_rows(const float *S, int64_t V, int64_t K, const float *x, float *y) {
  for (int64_t r = 0; r < V; r++, S += K) {
    vec s[4] = {{0}, {0}, {0}, {0}};
    for (int64_t c = 0; c < K; c += STEP)
      for (int j = 0; j < 4; j++) s[j] += load(S + c + j * LANES) * load(x + c + j * LANES);
    vec t = (s[0] + s[1]) + (s[2] + s[3]);
    float sum = 0;
    for (int i = 0; i < LANES; i++) sum += t[i];
    y[r] = sum;
  }
}

static void update_rows(float *S, int64_t V, int64_t K, const float *u, const float *k) {
  for (int64_t r = 0; r < V; r++, S += K)
    for (int64_t c = 0; c < K; c += LANES) store(S + c, load(S + c) + u[r] * load(k + c));
}

static void token(float *S, int64_t V, int64_t K, const float *k, const float *a, const float *q,
                  float beta, const float *v, float *work, float *o) {
  scale_rows(S, V, K, a);
  multiply_rows(S, V, K, k, work);
  for (int64_t r = 0; r < V; r++) work[r] = beta * (v[r] - work[r]);
  update_rows(S, V, K, work, k);
  multiply_rows(S, V, K, q, o);
}

static void replay(float *S, int64_t V, int64_t K, const float *k, const float *a, const float *u) {
  scale_rows(S, V, K, a);
  update_rows(S, V, K, u, k);
}

const bench_probe BENCH_NAME = {
    .name = BENCH_TEXT,
    .isa = BENCH_ISA,
    .lanes = LANES,
    .fma = fma_burst,
    .read = read_all,
    .update = update_all,
    .token = token,
    .replay = replay,
};
