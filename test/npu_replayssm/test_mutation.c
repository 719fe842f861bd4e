/* Every event of both kernels is needed, or is said to be redundant; none is missed by the checker. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_SHAPES = 8 };

static void mutate(const char *kernel) {
  const rdn_kernel_desc *desc = rdn_kernel_find(kernel);
  static rdn_call calls[MAX_SHAPES];
  rd_npu_launch launches[MAX_SHAPES];
  uint32_t count = 0;
  for (; desc->mutation_shapes[count]; count++) {
    rdn_call_init(&calls[count], RD_NPU_950);
    calls[count].seed = 1;
    if (desc->generate(&calls[count], desc->mutation_shapes[count]) ||
        desc->prepare(&calls[count])) {
      passed_if(false, kernel, calls[count].error);
      return;
    }
    launches[count] = calls[count].launch;
  }
  rd_npu_options o = {.size = sizeof o, .threads = 2};
  rd_npu_mutation *m = NULL;
  const rd_npu_status s = rd_npu_mutate(launches, count, &o, &m);
  uint64_t needed = 0, redundant = 0, undetected = 0;
  if (m) rd_npu_mutation_totals(m, &needed, &redundant, &undetected);
  char *text = m ? rd_npu_mutation_text(m) : NULL;
  printf("%s\n%s\n", kernel, text ? text : "");
  passed_if(s == RD_NPU_OK && undetected == 0 && needed > 0, kernel, "mutation");
  free(text);
  rd_npu_mutation_free(m);
  while (count > 0) rdn_call_free(&calls[--count]);
}

int main(void) {
  mutate(VERIFY);
  mutate(COMMIT);
  return summary();
}
