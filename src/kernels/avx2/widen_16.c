/* widen: f16, bf16 or f32 to f32, 16 elements at a time, AVX2. */
#include "kernels/avx2/column.h"
#include "kernels/convert_columns.h"
#include "kernels/registry.h"

void rdi_widen_avx2_16(float *dst, const void *src, rd_dtype src_dtype, int64_t n) {
  rdi_widen_any(dst, src, src_dtype, n);
}
