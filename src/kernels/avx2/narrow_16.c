/* narrow: f32 to f16, bf16 (nearest even, subnormals kept) or f32, 16 elements at a time, AVX2. */
#include "kernels/avx2/column.h"
#include "kernels/column.h"
#include "kernels/registry.h"

void rdi_narrow_avx2_16(void *dst, rd_dtype dst_dtype, const float *src, int64_t n) {
  if (dst_dtype == RD_F16)
    rdi_narrow(dst, RD_F16, src, n);
  else if (dst_dtype == RD_BF16)
    rdi_narrow(dst, RD_BF16, src, n);
  else if (n > 0)
    memcpy(dst, src, (size_t)n * sizeof(float));
}
