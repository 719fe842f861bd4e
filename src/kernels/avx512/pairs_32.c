/* pairs: FAST prefill of a panel of 32 values, two tokens per pass, AVX-512. */
#include "kernels/avx2/transpose.h"
#include "kernels/avx512/tree.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

typedef __m512 vec;
enum { LANES = 16 };
#define V_KEEP(x) __asm__("" : "+v"(x))

RDI_INLINE vec v_load(const float *p) { return _mm512_load_ps(p); }
RDI_INLINE void v_store(float *p, vec x) { _mm512_store_ps(p, x); }
RDI_INLINE vec v_set(float x) { return _mm512_set1_ps(x); }
RDI_INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
RDI_INLINE vec v_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
RDI_INLINE vec v_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
RDI_INLINE vec v_some(const float *p, int64_t left) {
  return _mm512_maskz_loadu_ps(rdi_lanes(left), p);
}
RDI_INLINE void v_put(float *p, vec x, int64_t left) {
  _mm512_mask_storeu_ps(p, rdi_lanes(left), x);
}

#include "kernels/fast_pairs.h"

void rdi_pairs_avx512_32(const rdi_pairs_args *g) { run_pairs(g); }

void rdi_to_panel_avx512_32(float *panel, const float *s, int64_t stride, int64_t R, int64_t K) {
  rdi_to_panel(panel, PANEL, s, stride, R, K);
}

void rdi_from_panel_avx512_32(float *s, int64_t stride, const float *panel, int64_t R, int64_t K) {
  rdi_transpose(s, stride, panel, PANEL, K, R);
}
