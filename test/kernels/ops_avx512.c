#include "kernels/avx512/column.h"
#define OPS_COLUMNS
#include "ops.h"

void ops_avx512(op which, const float *a, const float *b, const float *c, float *out) {
  ops_columns(which, a, b, c, out);
}
