/* Runs of elements between f32 and 16-bit floats, for the matrix unit. */
#include "npu/isa/class.h"
#include "npu/machine/vector.h"

#include <string.h>

void rdn_convert(const memory *m, uint8_t *dst, const uint8_t *src, uint8_t to, uint8_t from,
                 size_t n) {
  if (to == from) {
    memcpy(dst, src, n * type_size(to));
    return;
  }
  op o = to == RD_NPU_F16 ? OP_vconv_f322f16 : OP_vconv_f322bf16;
  rdn_vector_fn(o, RD_NPU_F32, m->saturates)(dst, src, NULL, 0, n);
}

void rdn_widen(float *dst, const uint8_t *src, uint8_t type, size_t n) {
  op o = type == RD_NPU_BF16 ? OP_vconv_bf162f32 : OP_vconv_f162f32;
  rdn_vector_fn(o, RD_NPU_F32, false)(dst, src, NULL, 0, n);
}
