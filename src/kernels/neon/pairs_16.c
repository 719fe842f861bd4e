/* pairs: FAST prefill of a panel of 16 values, two tokens per pass, NEON. A `vec` is two registers: 16
 * accumulators, 8 of u and 4 of the panel fill the register file. */
#include "kernels/neon/column.h"

#include "kernels/kernel.h"
#include "kernels/registry.h"

typedef struct vec {
  float32x4_t q[2];
} vec;
enum { LANES = 8 };
#define V_KEEP(x) __asm__("" : "+w"((x).q[0]))

RDI_INLINE vec v_load(const float *p) { return (vec){{vld1q_f32(p), vld1q_f32(p + 4)}}; }
RDI_INLINE void v_store(float *p, vec x) {
  vst1q_f32(p, x.q[0]);
  vst1q_f32(p + 4, x.q[1]);
}
RDI_INLINE vec v_set(float x) { return (vec){{vdupq_n_f32(x), vdupq_n_f32(x)}}; }
RDI_INLINE vec v_fma(vec a, vec b, vec c) {
  return (vec){{vfmaq_f32(c.q[0], a.q[0], b.q[0]), vfmaq_f32(c.q[1], a.q[1], b.q[1])}};
}
RDI_INLINE vec v_mul(vec a, vec b) {
  return (vec){{vmulq_f32(a.q[0], b.q[0]), vmulq_f32(a.q[1], b.q[1])}};
}
RDI_INLINE vec v_sub(vec a, vec b) {
  return (vec){{vsubq_f32(a.q[0], b.q[0]), vsubq_f32(a.q[1], b.q[1])}};
}
RDI_INLINE vec v_some(const float *p, int64_t left) {
  return (vec){{rdi_some(p, left), rdi_some(p + 4, left - 4)}};
}
RDI_INLINE void v_put(float *p, vec x, int64_t left) {
  rdi_put(p, x.q[0], left);
  rdi_put(p + 4, x.q[1], left - 4);
}

#include "kernels/fast_pairs.h"

void rdi_pairs_neon_16(const rdi_pairs_args *g) { run_pairs(g); }

void rdi_to_panel_neon_16(float *panel, const float *s, int64_t stride, int64_t R, int64_t K) {
  for (int64_t c = 0; c < K; c++)
    for (int64_t r = 0; r < PANEL; r++) panel[c * PANEL + r] = r < R ? s[r * stride + c] : 0.0f;
}

void rdi_from_panel_neon_16(float *s, int64_t stride, const float *panel, int64_t R, int64_t K) {
  for (int64_t r = 0; r < R; r++)
    for (int64_t c = 0; c < K; c++) s[r * stride + c] = panel[c * PANEL + r];
}
