/* The conversion kernels, once for every instruction set; included after <isa>/column.h. The type is
 * told apart outside the loop. */
#include "kernels/column.h"

RDI_INLINE void rdi_widen_any(float *dst, const void *src, rd_dtype src_dtype, int64_t n) {
  if (src_dtype == RD_F16)
    rdi_widen(dst, src, RD_F16, n);
  else if (src_dtype == RD_BF16)
    rdi_widen(dst, src, RD_BF16, n);
  else if (n > 0)
    memcpy(dst, src, (size_t)n * sizeof(float));
}

RDI_INLINE void rdi_narrow_any(void *dst, rd_dtype dst_dtype, const float *src, int64_t n) {
  if (dst_dtype == RD_F16)
    rdi_narrow(dst, RD_F16, src, n);
  else if (dst_dtype == RD_BF16)
    rdi_narrow(dst, RD_BF16, src, n);
  else if (n > 0)
    memcpy(dst, src, (size_t)n * sizeof(float));
}
