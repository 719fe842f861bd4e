/* The machine's limits: FMA throughput and bandwidths of one thread. */
#include "bench/probes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

const char *const bench_level_name[BENCH_LEVELS] = {"hot", "L3", "DRAM"};

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

const bench_probe *bench_probe_best(uint32_t isa_mask) {
#ifdef BENCH_X86
  const uint32_t usable = rd_isa_usable() & (isa_mask ? isa_mask : RD_ISA_ALL);
  if (usable & RD_ISA_AVX512) return &bench_probe_avx512;
  if (usable & RD_ISA_AVX2) return &bench_probe_avx2;
#else
  (void)isa_mask;
#endif
  return &bench_probe_plain;
}

static double fma_ns(const bench_probe *p, double seconds) {
  const double end = bench_now() + seconds * 1e9;
  double best = 1e300;
  do {
    const double t = bench_now();
    const int64_t n = p->fma(BENCH_FMA_ROUNDS);
    const double ns = (bench_now() - t) / (double)n;
    if (ns < best) best = ns;
  } while (bench_now() < end);
  return best;
}

/* Bytes per ns over a buffer; passes until the time is over, at least two. */
static void bandwidth(const bench_probe *p, float *x, size_t bytes, double seconds, double *read,
                      double *update) {
  const int64_t n = (int64_t)(bytes / sizeof(float));
  const double end = bench_now() + seconds * 1e9;
  double r = 1e300, u = 1e300;
  float keep = 0;
  int turns = 0;
  const int inner = bytes < ((size_t)1 << 20) ? 8 : 1;
  do {
    double t = bench_now();
    for (int i = 0; i < inner; i++) keep += p->read(x, n);
    t = bench_now() - t;
    if (t / inner < r) r = t / inner;
    t = bench_now();
    for (int i = 0; i < inner; i++) p->update(x, n);
    t = bench_now() - t;
    if (t / inner < u) u = t / inner;
  } while (++turns < 3 || bench_now() < end);
  if (keep != keep) x[0] = 0; /* the sums are used */
  *read = (double)bytes / r;
  *update = 2 * (double)bytes / u;
}

int bench_machine_measure(bench_machine *m, uint32_t isa_mask, double seconds, size_t dram_bytes) {
  const size_t bytes[BENCH_LEVELS] = {(size_t)256 << 10, (size_t)6 << 20, dram_bytes};
  const size_t huge = (size_t)2 << 20;
  float *x = aligned_alloc(huge, (dram_bytes + huge - 1) / huge * huge);
  if (!x) return 0;
#ifdef MADV_HUGEPAGE
  (void)madvise(x, dram_bytes, MADV_HUGEPAGE);
#endif
  memset(x, 0, dram_bytes);
  m->probe = bench_probe_best(isa_mask);
  m->fma_ns = fma_ns(m->probe, seconds / 4);
  for (int level = 0; level < BENCH_LEVELS; level++)
    bandwidth(m->probe, x, bytes[level], seconds / 4, &m->read[level], &m->update[level]);
  free(x);
  return 1;
}
