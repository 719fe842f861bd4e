/*
 * kernel_operator.h - Ascend C kernels on the AI Core model of redelta/npu.h.
 *
 * Stands in for the header of that name: with `-I .../include/redelta/ascendc` before any other folder, a
 * kernel's source compiles as it is with a C++17 host compiler and issues its instructions to the model.
 * docs/ASCEND-C.md says what is covered and what is assumed; launch.h runs a kernel.
 *
 * Of the C++17 compilers only those with __builtin_FILE (gcc, clang): a report names the kernel's lines.
 */
#ifndef REDELTA_ASCENDC_KERNEL_OPERATOR_H
#define REDELTA_ASCENDC_KERNEL_OPERATOR_H

#include <redelta/ascendc/copy.h>
#include <redelta/ascendc/pipe.h>
#include <redelta/ascendc/sync.h>
#include <redelta/ascendc/tensors.h>
#include <redelta/ascendc/types.h>
#include <redelta/ascendc/vector.h>

#endif
