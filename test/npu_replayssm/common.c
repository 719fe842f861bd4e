#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_passed, n_failed, n_skipped;

void passed_if(bool ok, const char *what, const char *detail) {
  if (ok) {
    n_passed++;
    return;
  }
  n_failed++;
  printf("FAILED %s: %s\n", what, detail);
}

void skipped(const char *what) {
  n_skipped++;
  printf("not run: %s\n", what);
}

int summary(void) {
  printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
  return n_failed != 0;
}

static void stop(const char *shape, const char *why) {
  printf("FAILED %s: %s\n", shape, why);
  n_failed++;
  summary();
  exit(1);
}

static rdn_call prepared(const rdn_kernel_desc *desc, const char *shape, const how *h) {
  rdn_call call;
  rdn_call_init(&call, RD_NPU_950);
  call.seed = 1;
  call.cores = h->cores;
  if (desc->generate(&call, shape) != RD_NPU_OK) stop(shape, call.error);
  for (int i = 0; h->settings[i]; i += 2) rdn_call_set(&call, h->settings[i], h->settings[i + 1]);
  if (desc->prepare(&call) != RD_NPU_OK) stop(shape, call.error);
  return call;
}

static void launch(rdn_call *call, const char *shape, const how *h) {
  rd_npu_options o = {.size = sizeof o,
                      .mode = h->mode,
                      .schedule = h->schedule,
                      .seed = h->seed,
                      .threads = h->threads};
  rd_npu_report *report = NULL;
  call->launch.tensors = call->gm; /* the call was copied since prepare() */
  rd_npu_status s = rd_npu_run(&call->launch, &o, &report);
  if (s == RD_NPU_FINDING && report) {
    char *text = rd_npu_report_text(report);
    printf("%s\n", text ? text : "");
    free(text);
  }
  passed_if(s == RD_NPU_OK, shape, report ? rd_npu_report_summary(report) : "no report");
  rd_npu_report_free(report);
}

rdn_call run_shape(const char *kernel, const char *shape, const how *h) {
  rdn_call call = prepared(rdn_kernel_find(kernel), shape, h);
  launch(&call, shape, h);
  return call;
}

static void check_output(const rdn_named *t, const double *expected, double atol, double rtol,
                         const char *shape) {
  char detail[160];
  for (int64_t i = 0, n = rdn_named_count(t); i < n; i++) {
    const double x = rdn_named_value(t, i), r = expected[i];
    if (fabs(x - r) <= atol + rtol * fabs(r)) continue;
    snprintf(detail, sizeof detail, "%s[%lld] = %g, expected %g", t->name, (long long)i, x, r);
    passed_if(false, shape, detail);
    return;
  }
  passed_if(true, shape, t->name);
}

void check_oracle(const char *kernel, const char *shape, const how *h) {
  const rdn_kernel_desc *desc = rdn_kernel_find(kernel);
  rdn_call call = prepared(desc, shape, h);
  double *expected[4] = {0};
  for (int i = 0; desc->limits[i].output; i++) {
    const rdn_named *t = rdn_call_input(&call, desc->limits[i].output);
    expected[i] = calloc((size_t)rdn_named_count(t) + 1, sizeof(double));
    if (!expected[i] || desc->oracle(&call, t->name, expected[i]) != RD_NPU_OK)
      stop(shape, "oracle failed");
  }
  launch(&call, shape, h);
  for (int i = 0; desc->limits[i].output; i++) {
    check_output(rdn_call_input(&call, desc->limits[i].output), expected[i], desc->limits[i].atol,
                 desc->limits[i].rtol, shape);
    free(expected[i]);
  }
  rdn_call_free(&call);
}

void check_same(const char *what, const rdn_call *a, const rdn_call *b) {
  for (uint32_t i = 0; i < a->tensor_count; i++) {
    if (!a->tensor[i].output) continue;
    const rdn_named *other = rdn_call_input(b, a->tensor[i].name);
    passed_if(other && memcmp(a->tensor[i].data, other->data, rdn_named_bytes(other)) == 0, what,
              a->tensor[i].name);
  }
}
