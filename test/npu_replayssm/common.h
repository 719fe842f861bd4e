/* Runs a model kernel from a shape text and keeps its tensors. */
#ifndef TEST_NPU_REPLAYSSM_COMMON_H
#define TEST_NPU_REPLAYSSM_COMMON_H

#include "npu/kernels/replayssm/replayssm.h"

#define VERIFY "fused_recurrent_kda_replayssm"
#define COMMIT "commit_recurrent_kda_replayssm"

typedef struct how {
  rd_npu_mode mode;
  rd_npu_schedule schedule;
  uint64_t seed;           /* of the schedule */
  uint32_t threads;        /* host threads, 0 = 1 */
  uint32_t cores;          /* modelled device, 0 = default */
  const char *settings[8]; /* name, value, name, value, ..., NULL */
} how;

/* Generates `shape` with seed 1, prepares and runs it. The call must be freed. Aborts the test when the
 * input is refused; a finding is counted as a failure and printed. */
rdn_call run_shape(const char *kernel, const char *shape, const how *h);

/* Outputs against the oracle at 0.005 + 0.005|r|. */
void check_oracle(const char *kernel, const char *shape, const how *h);

/* Bitwise equal outputs. */
void check_same(const char *what, const rdn_call *a, const rdn_call *b);

void passed_if(bool ok, const char *what, const char *detail);
void skipped(const char *what);
int summary(void); /* prints the closing line, returns the exit status */

#endif
