/* narrow: f32 to f16, bf16 (nearest even in integers, subnormals kept) or f32, AVX-512. */
#include "kernels/registry.h"
#include "kernels/avx512/math.h"

#include <string.h>

RDI_INLINE void run(uint16_t *dst, rd_dtype dtype, const float *src, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) rdi_store16(dst + i, dtype, 0xffff, _mm512_loadu_ps(src + i));
  if (i < n) rdi_store16(dst + i, dtype, rdi_lanes(n - i), _mm512_maskz_loadu_ps(rdi_lanes(n - i), src + i));
}

void rdi_narrow_avx512_16(void *dst, rd_dtype dst_dtype, const float *src, int64_t n) {
  if (dst_dtype == RD_F16) run(dst, RD_F16, src, n);
  else if (dst_dtype == RD_BF16) run(dst, RD_BF16, src, n);
  else if (n > 0) memcpy(dst, src, (size_t)n * sizeof(float));
}
