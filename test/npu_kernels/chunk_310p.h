/* Running chunk_gated_delta_rule on the model from tests. */
#ifndef TEST_CHUNK_310P_H
#define TEST_CHUNK_310P_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "npu/kernels/harness/kernel.h"

#define THREADS 2

static inline const rdn_kernel_desc *chunk_kernel(void) {
  const rdn_kernel_desc *d = rdn_kernel_find("chunk_gated_delta_rule");
  assert_non_null(d);
  return d;
}

static inline rdn_call *new_call(const char *shape, uint64_t seed) {
  rdn_call *call = malloc(sizeof *call);
  assert_non_null(call);
  rdn_call_init(call, RD_NPU_310P);
  call->seed = seed;
  if (chunk_kernel()->generate(call, shape) != RD_NPU_OK) fail_msg("%s: %s", shape, call->error);
  return call;
}

static inline rdn_call *ready_call(const char *shape, uint64_t seed) {
  rdn_call *call = new_call(shape, seed);
  if (chunk_kernel()->prepare(call) != RD_NPU_OK) fail_msg("%s: %s", shape, call->error);
  return call;
}

static inline void drop_call(rdn_call *call) {
  rdn_call_free(call);
  free(call);
}

static inline rd_npu_options options(rd_npu_mode mode, rd_npu_schedule schedule, uint64_t seed) {
  return (rd_npu_options){.size = sizeof(rd_npu_options),
                          .mode = mode,
                          .schedule = schedule,
                          .seed = seed,
                          .threads = THREADS,
                          .gm_slack = chunk_kernel()->gm_slack};
}

/* Run and demand that there is no finding. */
static inline void run_clean(rdn_call *call, const rd_npu_options *o, const char *what) {
  rd_npu_report *report = NULL;
  rd_npu_status s = rd_npu_run(&call->launch, o, &report);
  char *text = report && s != RD_NPU_OK ? rd_npu_report_text(report) : NULL;
  if (s != RD_NPU_OK) print_error("%s\n", text ? text : "(no report)");
  free(text);
  rd_npu_report_free(report);
  if (s != RD_NPU_OK) fail_msg("%s: status %d", what, (int)s);
}

/* NRMSE of an output against the double oracle; every element must be finite. */
static inline double nrmse(const rdn_call *call, const char *output) {
  const rdn_named *t = rdn_call_input(call, output);
  assert_non_null(t);
  int64_t n = rdn_named_count(t);
  double *want = malloc((size_t)(n + 1) * sizeof *want), error = 0, size = 0;
  assert_non_null(want);
  assert_int_equal(chunk_kernel()->oracle(call, output, want), RD_NPU_OK);
  for (int64_t i = 0; i < n; i++) {
    double x = rdn_named_value(t, i);
    if (!isfinite(x)) fail_msg("%s[%lld] is not finite", output, (long long)i);
    error += (x - want[i]) * (x - want[i]);
    size += want[i] * want[i];
  }
  free(want);
  return n == 0 ? 0 : sqrt(error / (double)n) / fmax(sqrt(size / (double)n), 1e-12);
}

static inline void judge(const rdn_call *call, const char *shape) {
  for (const rdn_limit *l = chunk_kernel()->limits; l->output; l++) {
    double e = nrmse(call, l->output);
    print_message("  %-60s %-12s NRMSE %.2e (limit %.0e)\n", shape, l->output, e, l->nrmse);
    if (!(e <= l->nrmse)) fail_msg("%s: %s NRMSE %g", shape, l->output, e);
  }
}

static inline uint64_t hash_outputs(const rdn_call *call) {
  uint64_t h = 1469598103934665603u;
  for (uint32_t i = 0; i < call->tensor_count; i++) {
    const rdn_named *t = &call->tensor[i];
    const unsigned char *p = t->data;
    for (uint64_t k = 0; t->output && k < rdn_named_bytes(t); k++) h = (h ^ p[k]) * 1099511628211u;
  }
  return h;
}

/* The same call under 32 schedules: eager, lazy, 30 random ones.  The bits may not differ. */
static inline void same_bits(rdn_call *call, const char *shape) {
  uint64_t first = 0;
  for (uint64_t i = 0; i < 32; i++) {
    rd_npu_options o = options(RD_NPU_VALUES,
                               i == 0   ? RD_NPU_EAGER
                               : i == 1 ? RD_NPU_LAZY
                                        : RD_NPU_RANDOM,
                               i);
    run_clean(call, &o, shape);
    uint64_t h = hash_outputs(call);
    if (i == 0) first = h;
    if (h != first) fail_msg("%s: schedule %llu gives other bits", shape, (unsigned long long)i);
  }
  print_message("  %s: 32 schedules, the same bits\n", shape);
}

static inline double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
