/* widen: f16, bf16 or f32 to f32, 16 elements at a time, AVX-512. */
#include "kernels/avx512/column.h"
#include "kernels/column.h"
#include "kernels/registry.h"

void rdi_widen_avx512_16(float *dst, const void *src, rd_dtype src_dtype, int64_t n) {
  if (src_dtype == RD_F16)
    rdi_widen(dst, src, RD_F16, n);
  else if (src_dtype == RD_BF16)
    rdi_widen(dst, src, RD_BF16, n);
  else if (n > 0)
    memcpy(dst, src, (size_t)n * sizeof(float));
}
