/* The kernels that ship with the model: one line each. */
#include "npu/kernels/harness/kernel.h"

#include <string.h>

extern const rdn_kernel_desc rdn_kernel_chunk_gated_delta_rule;
extern const rdn_kernel_desc rdn_kernel_verify_replayssm;
extern const rdn_kernel_desc rdn_kernel_commit_replayssm;

static const rdn_kernel_desc *const kernels[] = {
    &rdn_kernel_chunk_gated_delta_rule,
    &rdn_kernel_verify_replayssm,
    &rdn_kernel_commit_replayssm,
    NULL,
};

const rdn_kernel_desc *rdn_kernel_at(size_t index) {
  size_t count = sizeof kernels / sizeof kernels[0] - 1;
  return index < count ? kernels[index] : NULL;
}

const rdn_kernel_desc *rdn_kernel_find(const char *name) {
  for (size_t i = 0; rdn_kernel_at(i); i++)
    if (strcmp(rdn_kernel_at(i)->name, name) == 0) return rdn_kernel_at(i);
  return NULL;
}
