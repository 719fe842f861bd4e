/* widen and narrow: contiguous elements between f16, bf16 or f32 and f32 */
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "kernels/scalar/names.h"
#include "util/half.h"

void RDI_NAME(widen)(float *dst, const void *src, rd_dtype src_dtype, int64_t n) {
  const uint16_t *h = src;
  if (src_dtype == RD_F32)
    memcpy(dst, src, (size_t)n * sizeof *dst);
  else if (src_dtype == RD_F16)
    for (int64_t i = 0; i < n; i++) dst[i] = rdi_f32_from_f16(h[i]);
  else
    for (int64_t i = 0; i < n; i++) dst[i] = rdi_f32_from_bf16(h[i]);
}

void RDI_NAME(narrow)(void *dst, rd_dtype dst_dtype, const float *src, int64_t n) {
  uint16_t *h = dst;
  if (dst_dtype == RD_F32)
    memcpy(dst, src, (size_t)n * sizeof *src);
  else if (dst_dtype == RD_F16)
    for (int64_t i = 0; i < n; i++) h[i] = rdi_f16_from_f32(src[i]);
  else
    for (int64_t i = 0; i < n; i++) h[i] = rdi_bf16_from_f32(src[i]);
}
