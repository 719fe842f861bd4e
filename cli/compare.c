/* Error measures. SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare.h"

#include "io/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half a unit in the last place of a 16-bit type at |r|; 0 for f32, whose rounding the bounds hold.
 */
static double half_ulp(double r, rd_dtype dtype) {
  int digits = dtype == RD_F16 ? 11 : 8, lowest = dtype == RD_F16 ? -24 : -133;
  if ((dtype != RD_F16 && dtype != RD_BF16) || !isfinite(r)) return 0;
  int e = lowest + digits;
  if (r != 0) frexp(r, &e);
  int unit = e - digits > lowest ? e - digits : lowest;
  return ldexp(0.5, unit);
}

/* Sums of one (sequence, head). */
typedef struct head_sums {
  double error, expected, rounding; /* squares */
  int64_t n;
} head_sums;

/* What the type makes of r: a finite number may be expected to become infinite. */
static int rounds_to_infinity(double r, double x, rd_dtype dtype) {
  float rounded = (float)r;
  if (dtype == RD_F16) rounded = io_f16_to_f32(io_f32_to_f16(rounded));
  if (dtype == RD_BF16) rounded = io_bf16_to_f32(io_f32_to_bf16(rounded));
  return isinf(rounded) && (r > 0) == (x > 0);
}

static void note_element(cmp_result *c, const cmp_limits *limits, rd_dtype dtype, int64_t i,
                         double x, double r) {
  c->nan += isnan(x) != 0;
  c->inf += isinf(x) != 0;
  int bad;
  if (isfinite(x) && isfinite(r)) {
    double error = fabs(x - r), relative = r != 0 ? error / fabs(r) : error > 0 ? INFINITY : 0;
    if (error > c->max_abs || c->max_abs_at < 0) c->max_abs = error, c->max_abs_at = i;
    if (relative > c->max_rel || c->max_rel_at < 0) c->max_rel = relative, c->max_rel_at = i;
    double allowed = limits->atol + limits->rtol * fabs(r);
    if (allowed > 0) c->max_share = fmax(c->max_share, error / allowed);
    bad = limits->atol >= 0 && error > allowed;
  } else {
    bad = !((isnan(x) && isnan(r)) || x == r || (isinf(x) && rounds_to_infinity(r, x, dtype)));
    c->mismatched += bad;
  }
  if (bad && c->bad++ == 0) {
    c->first_bad = i;
    c->first_value = x;
    c->first_expected = r;
  }
}

static void judge_heads(const op_call *call, const cmp_limits *limits, const head_sums *sums,
                        int64_t groups, cmp_result *c) {
  int64_t K, T;
  op_extent(call, &K, &T);
  for (int64_t g = 0; g < groups; g++) {
    double norm = sqrt(sums[g].expected), error = sqrt(sums[g].error);
    /* (K+T) 2^-149 per element: what numbers below the normal range can lose. */
    double allowed = limits->per_head * norm + (double)(K + T) * 0x1p-149 * sqrt((double)sums[g].n);
    if (limits->allow_rounding) allowed += sqrt(sums[g].rounding);
    double relative = error / fmax(norm, 1e-30), limit = allowed / fmax(norm, 1e-30);
    if (limits->per_head >= 0 && error > allowed) c->heads_bad++;
    if (c->worst_head_group < 0 ||
        relative / fmax(limit, 1e-30) > c->worst_head / fmax(c->worst_head_limit, 1e-30)) {
      c->worst_head = relative;
      c->worst_head_limit = limit;
      c->worst_head_group = g;
    }
  }
}

/* Whole-tensor figures out of the sums over finite pairs. */
static void judge_tensor(const cmp_limits *limits, const head_sums *all, double xx, double xr,
                         cmp_result *c) {
  double n = all->n > 0 ? (double)all->n : 1, rms = sqrt(all->expected / n);
  c->nrmse = sqrt(all->error / n) / fmax(rms, 1e-12);
  c->cosine = xx == 0 && all->expected == 0 ? 1 : xr / fmax(sqrt(xx * all->expected), 1e-300);
  c->nrmse_limit = limits->nrmse;
  c->cosine_limit = limits->cosine;
  if (limits->allow_rounding && limits->nrmse >= 0) {
    c->nrmse_limit += sqrt(all->rounding / n) / fmax(rms, 1e-12);
    /* cos >= sqrt(1 - nrmse^2) for any error of that size; 1e-12 for the sums themselves. */
    if (limits->cosine < -1) c->cosine_limit = 1 - fmin(1, c->nrmse_limit * c->nrmse_limit) - 1e-12;
  }
  c->passed = c->bad == 0 && c->heads_bad == 0 &&
              !(c->nrmse_limit >= 0 && c->nrmse > c->nrmse_limit) &&
              !(c->cosine_limit >= -1 && c->cosine < c->cosine_limit);
}

io_status cmp_output(const op_call *call, int index, const double *expected,
                     const cmp_limits *limits, cmp_result *c) {
  const io_tensor *t = io_file_find(&call->out, call->op->outputs[index].name);
  *c = (cmp_result){.name = t->name,
                    .index = index,
                    .elements = io_tensor_elements(t),
                    .max_abs_at = -1,
                    .max_rel_at = -1,
                    .first_bad = -1,
                    .worst_head_group = -1};
  int64_t groups = op_groups(call, index);
  head_sums *sums = calloc((size_t)groups + 1, sizeof *sums);
  if (sums == NULL) return IO_SYSTEM;
  head_sums all = {0};
  double xx = 0, xr = 0;
  /* Elements of a row share their group: looked up once per innermost row. */
  int64_t row = t->rank > 0 ? t->shape[t->rank - 1] : 1, group = -1;
  for (int64_t i = 0; i < c->elements; i++) {
    double x = io_get(t->data, t->dtype->rd, i), r = expected[i];
    note_element(c, limits, t->dtype->rd, i, x, r);
    if (row > 0 && i % row == 0) group = op_group_of(call, index, i);
    if (!isfinite(x) || !isfinite(r)) continue;
    double error = x - r, rounding = half_ulp(r, t->dtype->rd);
    head_sums one = {error * error, r * r, rounding * rounding, 1};
    head_sums *into[2] = {&all, group >= 0 ? &sums[group] : NULL};
    for (int k = 0; k < 2 && into[k] != NULL; k++) {
      into[k]->error += one.error;
      into[k]->expected += one.expected;
      into[k]->rounding += one.rounding;
      into[k]->n++;
    }
    xx += x * x;
    xr += x * r;
  }
  judge_heads(call, limits, sums, groups, c);
  judge_tensor(limits, &all, xx, xr, c);
  free(sums);
  return IO_OK;
}

cmp_limits cmp_default_limits(const op_call *call) {
  int64_t K, T;
  op_extent(call, &K, &T);
  /* The bound of the stability set against all-double: holds for any gates, keys and lengths. */
  double bound = 6e-6 * sqrt(fmax(1, (double)T / 256)) + 6e-8 * (double)T;
  return (cmp_limits){.atol = 0.005,
                      .rtol = 0.005,
                      .cosine = -2,
                      .nrmse = bound,
                      .per_head = bound,
                      .allow_rounding = 1};
}

static int is_nan(const io_tensor *t, int64_t i) {
  rd_dtype dtype = t->dtype->rd;
  return (dtype == RD_F32 || dtype == RD_F16 || dtype == RD_BF16) &&
         isnan(io_get(t->data, dtype, i));
}

int64_t cmp_bits(const io_tensor *a, const io_tensor *b) {
  if (a->bytes != b->bytes || a->dtype != b->dtype) return 0;
  if (memcmp(a->data, b->data, (size_t)a->bytes) == 0) return -1;
  size_t size = a->dtype->size;
  const char *x = a->data, *y = b->data;
  for (int64_t i = 0; i < io_tensor_elements(a); i++) {
    if (memcmp(x + (size_t)i * size, y + (size_t)i * size, size) == 0) continue;
    if (!is_nan(a, i) || !is_nan(b, i)) return i;
  }
  return -1;
}

const char *cmp_same_set(const io_file *a, const io_file *b, int64_t *at) {
  for (size_t i = 0; i < a->count; i++) {
    const io_tensor *other = io_file_find(b, a->tensors[i].name);
    *at = other != NULL ? cmp_bits(&a->tensors[i], other) : 0;
    if (*at >= 0) return a->tensors[i].name;
  }
  return NULL;
}

void cmp_measure(const double *x, const double *r, int64_t n, double *cosine, double *nrmse) {
  double xx = 0, xr = 0, rr = 0, ee = 0;
  for (int64_t i = 0; i < n; i++) {
    xx += x[i] * x[i];
    xr += x[i] * r[i];
    rr += r[i] * r[i];
    ee += (x[i] - r[i]) * (x[i] - r[i]);
  }
  double count = n > 0 ? (double)n : 1;
  *cosine = xx == 0 && rr == 0 ? 1 : xr / fmax(sqrt(xx * rr), 1e-300);
  *nrmse = sqrt(ee / count) / fmax(sqrt(rr / count), 1e-12);
}
