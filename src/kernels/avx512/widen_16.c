/* widen: f16, bf16 or f32 to f32, 16 elements at a time, AVX-512. */
#include "kernels/registry.h"
#include "kernels/avx512/math.h"

#include <string.h>

RDI_INLINE void run(float *dst, const void *src, rd_dtype dtype, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(dst + i, rdi_load(src, dtype, i, 0xffff));
  if (i < n) _mm512_mask_storeu_ps(dst + i, rdi_lanes(n - i), rdi_load(src, dtype, i, rdi_lanes(n - i)));
}

void rdi_widen_avx512_16(float *dst, const void *src, rd_dtype src_dtype, int64_t n) {
  if (src_dtype == RD_F16) run(dst, src, RD_F16, n);
  else if (src_dtype == RD_BF16) run(dst, src, RD_BF16, n);
  else if (n > 0) memcpy(dst, src, (size_t)n * sizeof(float));
}
