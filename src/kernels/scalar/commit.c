/* commit: S = fma(u[i], k[i], a[i] S), i = 0..m-1 in order */
#include "kernels/c1.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "kernels/scalar/names.h"

void RDI_NAME(commit)(const rdi_commit_args *x) {
  float s[RDI_MAX_DIM];
  for (int64_t r = 0; r < x->R; r++) {
    memcpy(s, x->s_in + r * x->in_stride, (size_t)x->K * sizeof *s);
    for (int64_t i = 0; i < x->m; i++) {
      const float u = x->u[i * x->u_stride + r], *k = x->k + i * x->Kp;
      if (x->a == NULL) {
        for (int64_t c = 0; c < x->K; c++) s[c] = rdi_fma(u, k[c], s[c]);
      } else {
        const float *a = x->a + i * x->Kp;
        for (int64_t c = 0; c < x->K; c++) s[c] = rdi_fma(u, k[c], rdi_mul(a[c], s[c]));
      }
    }
    memcpy(x->s_out + r * x->out_stride, s, (size_t)x->K * sizeof *s);
  }
}
