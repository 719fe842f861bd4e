/* widen: f16, bf16 or f32 to f32, 16 elements at a time, AVX-512. */
#include "kernels/avx512/column.h"
#include "kernels/convert_columns.h"
#include "kernels/registry.h"

void rdi_widen_avx512_16(float *dst, const void *src, rd_dtype src_dtype, int64_t n) {
  rdi_widen_any(dst, src, src_dtype, n);
}
