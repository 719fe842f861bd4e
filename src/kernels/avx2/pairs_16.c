/* pairs: FAST prefill of a panel of 16 values, two tokens per pass, AVX2 + FMA. */
#include "kernels/avx2/transpose.h"
#include "kernels/avx2/tree.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

typedef __m256 vec;
enum { LANES = 8 };
#define V_KEEP(x) __asm__("" : "+x"(x))

RDI_INLINE vec v_load(const float *p) { return _mm256_load_ps(p); }
RDI_INLINE void v_store(float *p, vec x) { _mm256_store_ps(p, x); }
RDI_INLINE vec v_set(float x) { return _mm256_set1_ps(x); }
RDI_INLINE vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
RDI_INLINE vec v_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
RDI_INLINE vec v_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
RDI_INLINE vec v_some(const float *p, int64_t left) {
  return left >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, rdi_lanes(left));
}
RDI_INLINE void v_put(float *p, vec x, int64_t left) {
  if (left >= LANES)
    _mm256_storeu_ps(p, x);
  else
    _mm256_maskstore_ps(p, rdi_lanes(left), x);
}

#include "kernels/fast_pairs.h"

void rdi_pairs_avx2_16(const rdi_pairs_args *g) { run_pairs(g); }

void rdi_to_panel_avx2_16(float *panel, const float *s, int64_t stride, int64_t R, int64_t K) {
  rdi_to_panel(panel, PANEL, s, stride, R, K);
}

void rdi_from_panel_avx2_16(float *s, int64_t stride, const float *panel, int64_t R, int64_t K) {
  rdi_transpose(s, stride, panel, PANEL, K, R);
}
