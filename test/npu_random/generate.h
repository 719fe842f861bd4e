/* Random operations, one at a time (operations.c), and kernels made of them (generate.c). */
#ifndef TEST_NPU_RANDOM_GENERATE_H
#define TEST_NPU_RANDOM_GENERATE_H

#include "kernel.h"

uint32_t below(uint64_t *s, uint32_t n);
step blank(const random_kernel *k, random_op op);
step burst(const random_kernel *k, random_op op, uint64_t d, uint64_t a, uint32_t blocks);
/* An operation the core has, its operands inside the windows and lying to each other as they may. */
step draw_operation(const random_kernel *k, uint64_t *s);

#endif
