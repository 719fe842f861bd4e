/* cli/compare.h - how far a tensor is from what was expected. SPDX-License-Identifier: Apache-2.0
 */
#ifndef RD_CLI_COMPARE_H
#define RD_CLI_COMPARE_H

#include "cli/ops.h"

/* A negative limit is "not judged". nrmse and cosine judge the whole tensor; per_head judges the
 * relative L2 of every (sequence, value head). The rounding to a 16-bit type (half a unit in the
 * last place of each expected number) is added to nrmse and per_head when `allow_rounding`. */
typedef struct cmp_limits {
  double atol, rtol; /* |x - r| <= atol + rtol |r| */
  double cosine, nrmse, per_head;
  int allow_rounding;
} cmp_limits;

typedef struct cmp_result {
  const char *name;
  int index; /* of the output in op->outputs */
  int64_t elements;
  double cosine, nrmse; /* rms(x - r) / max(rms(r), 1e-12), over finite pairs */
  double cosine_limit, nrmse_limit;
  double max_abs, max_rel;
  double max_share; /* of the limit atol + rtol |r| */
  int64_t max_abs_at, max_rel_at;
  int64_t nan, inf;       /* in the result                                        */
  int64_t mismatched;     /* NaN or infinity against something else               */
  int64_t bad, first_bad; /* elements beyond atol + rtol |r|, or mismatched; -1   */
  double first_value, first_expected;
  double worst_head, worst_head_limit; /* largest relative L2 and what was allowed there */
  int64_t worst_head_group;            /* -1: none                                             */
  int heads_bad;
  int passed;
} cmp_result;

/* Tensor `index` of the call's outputs against `expected`. IO_SYSTEM when memory runs out. */
io_status cmp_output(const op_call *call, int index, const double *expected,
                     const cmp_limits *limits, cmp_result *result);

/* The limits of docs/NUMERICS.md for a call: exact enough for any input, not just friendly ones. */
cmp_limits cmp_default_limits(const op_call *call);

/* Equal bits, all NaNs being equal to each other. First difference, or -1. */
int64_t cmp_bits(const io_tensor *a, const io_tensor *b);

/* Names, types and bits of two sets; the name of the first tensor that differs, or NULL. */
const char *cmp_same_set(const io_file *a, const io_file *b, int64_t *at);

/* Cosine and NRMSE of x against r, both dense. */
void cmp_measure(const double *x, const double *r, int64_t n, double *cosine, double *nrmse);

#endif
