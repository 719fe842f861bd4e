/* narrow: f32 to f16, bf16 (nearest even, subnormals kept) or f32, 16 elements at a time, AVX-512. */
#include "kernels/avx512/column.h"
#include "kernels/convert_columns.h"
#include "kernels/registry.h"

void rdi_narrow_avx512_16(void *dst, rd_dtype dst_dtype, const float *src, int64_t n) {
  rdi_narrow_any(dst, dst_dtype, src, n);
}
