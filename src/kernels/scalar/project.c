/* project: y = W x in the order W1 */
#include "kernels/c1.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "kernels/scalar/names.h"

void RDI_NAME(project)(const rdi_project_args *x) {
  for (int64_t n = 0; n < x->N; n++) {
    const uint16_t *panel = x->w + n / 16 * 16 * x->Kp + n % 16 * 2;
    for (int64_t m = 0; m < x->M; m++) {
      const uint16_t *row = x->x + m * x->x_stride;
      float sum = 0;
      for (int64_t k = 0; k < x->Kp; k += 32) {
        float even = 0, odd = 0;
        for (int64_t i = k; i < k + 32; i += 2) {
          const uint16_t *w = panel + i * 16;
          even = rdi_fma(rdi_f32_from_bf16(row[i]), rdi_f32_from_bf16(w[0]), even);
          odd = rdi_fma(rdi_f32_from_bf16(row[i + 1]), rdi_f32_from_bf16(w[1]), odd);
        }
        sum = rdi_add(sum, rdi_add(even, odd));
      }
      x->y[m * x->y_stride + n] = sum;
    }
  }
}
