/* The arithmetic of the vector unit. */
#ifndef REDELTA_NPU_MACHINE_VECTOR_H
#define REDELTA_NPU_MACHINE_VECTOR_H

#include "npu/machine/isa.h"

/* n lanes in a row; NULL operands where the instruction has none. */
typedef void vector_fn(void *dst, const void *a, const void *b, uint32_t scalar, size_t n);
vector_fn *rdn_vector_fn(op o, rd_npu_type type, bool saturates);
float rdn_exp(float x);

#endif
