/* The kernels that ship with the model: one line each. */
#include "kernel.h"

#include <string.h>

extern const rd_npu_kernel_desc rd_npu_kernel_chunk_gated_delta_rule;
extern const rd_npu_kernel_desc rd_npu_kernel_verify_replayssm;
extern const rd_npu_kernel_desc rd_npu_kernel_commit_replayssm;

static const rd_npu_kernel_desc *const kernels[] = {
    &rd_npu_kernel_chunk_gated_delta_rule,
    &rd_npu_kernel_verify_replayssm,
    &rd_npu_kernel_commit_replayssm,
    NULL,
};

const rd_npu_kernel_desc *rd_npu_kernel_at(size_t index) {
  size_t count = sizeof kernels / sizeof kernels[0] - 1;
  return index < count ? kernels[index] : NULL;
}

const rd_npu_kernel_desc *rd_npu_kernel_find(const char *name) {
  for (size_t i = 0; rd_npu_kernel_at(i); i++)
    if (strcmp(rd_npu_kernel_at(i)->name, name) == 0) return rd_npu_kernel_at(i);
  return NULL;
}
