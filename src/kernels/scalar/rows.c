/* rows: yk = S kt, yq = S qt; u = beta (v - yk); S = fma(u, k, a S); o = fma(u, kq, yq)
 * One row at a time through all tokens, in a padded copy so that the dots see +0 past K. */
#include "kernels/c1.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "kernels/scalar/names.h"

int64_t RDI_NAME(rows_scratch)(int64_t R, int64_t K) {
  (void)R, (void)K;
  return 0;
}

void RDI_NAME(rows)(const rdi_rows_args *x) {
  float s[RDI_MAX_DIM];
  for (int64_t c = x->K; c < x->Kp; c++) s[c] = 0.0f;
  for (int64_t r = 0; r < x->R; r++) {
    memcpy(s, x->s_in + r * x->in_stride, (size_t)x->K * sizeof *s);
    for (int64_t t = 0; t < x->n; t++) {
      const float *k = x->k + t * x->Kp, *a = x->a + t * x->Kp;
      const float yk = rdi_dot16(s, x->kt + t * x->Kp, x->Kp);
      const float u = rdi_mul(x->beta[t], rdi_sub(x->v[t * x->v_stride + r], yk));
      x->u[t * x->u_stride + r] = u;
      if (x->o != NULL)
        x->o[t * x->o_stride + r] = rdi_fma(u, x->kq[t], rdi_dot16(s, x->qt + t * x->Kp, x->Kp));
      if (t + 1 == x->n && x->s_out == NULL) break;
      for (int64_t c = 0; c < x->K; c++) s[c] = rdi_fma(u, k[c], rdi_mul(a[c], s[c]));
    }
    if (x->s_out != NULL) memcpy(x->s_out + r * x->out_stride, s, (size_t)x->K * sizeof *s);
  }
}
