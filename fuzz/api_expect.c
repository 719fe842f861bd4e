/* What an execution may change, and what the specification says it becomes. */
#include "api.h"
#include "ref/ref.h"

#include <math.h>
#include <string.h>

double *expect_add(expect *e, arena *a, const rd_tensor *view) {
  if (view->dtype == RD_ABSENT) return NULL;
  FUZZ_MUST(e->count < EXPECT_MAX);
  int64_t n = rdr_elements(view);
  size_t bytes = (size_t)n * rd_dtype_size(view->dtype);
  expect_one *one = &e->one[e->count++];
  *one = (expect_one){*view, arena_take(a, bytes), arena_take(a, (size_t)n * sizeof(double))};
  memcpy(one->before, view->data, bytes);
  rdr_dense(view, one->after);
  return one->after;
}

static int same_number(double x, double y) {
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y && signbit(x) == signbit(y);
}

void expect_check(const expect *e, rd_status status) {
  for (int i = 0; i < e->count; i++) {
    const expect_one *one = &e->one[i];
    int64_t n = rdr_elements(&one->view);
    if (status != RD_OK) {
      FUZZ_MUST(memcmp(one->before, one->view.data, (size_t)n * rd_dtype_size(one->view.dtype)) ==
                0);
      continue;
    }
    for (int64_t j = 0; j < n; j++) {
      double x = rdr_load(one->view.data, one->view.dtype, j);
      if (same_number(x, one->after[j])) continue;
      fprintf(stderr, "tensor %d of the call, element %lld of %lld: %.9g, specification %.9g\n", i,
              (long long)j, (long long)n, x, one->after[j]);
      abort();
    }
  }
}

void expect_states(double *pool, const rd_problem *p, const rd_tensor *view, const rd_slots *slots,
                   int64_t batch, const double *states) {
  int64_t size = p->V * p->K;
  if (pool == NULL || view->dtype == RD_ABSENT) return;
  for (int64_t b = 0; b < batch; b++) {
    int64_t slot = slots->slots.dtype == RD_ABSENT ? b : ((const int32_t *)slots->slots.data)[b];
    if (slot < 0) continue;
    /* The specification writes nothing for a pad row: still the arena's pattern, which is no float.
     */
    if (memcmp(&states[b * p->Hv * size], "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8) == 0) continue;
    for (int64_t h = 0; h < p->Hv; h++) {
      for (int64_t i = 0; i < size; i++) {
        int64_t to = p->state_layout == RD_STATE_VK ? i : i % p->K * p->V + i / p->K;
        pool[(slot * p->Hv + h) * size + to] = states[(b * p->Hv + h) * size + i];
      }
    }
  }
}
