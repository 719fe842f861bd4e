/* A whole launch: is it valid, and the recordings of its cores. */
#ifndef REDELTA_NPU_LAUNCH_LAUNCH_H
#define REDELTA_NPU_LAUNCH_LAUNCH_H

#include "npu/core/core.h"
#include "npu/schedule/image.h"

typedef struct run_plan {
  bool execute, check, keep; /* keep: leave the recordings in the cores */
  const gm_image *before;    /* outputs before the launch, where cores overwrite them while others
                                are still recorded; else NULL */
} run_plan;
rd_npu_status rdn_run_cores(const rd_npu_launch *l, const rd_npu_options *o, run_plan plan,
                            rd_npu_core **cores, uint32_t *count);
void rdn_free_cores(rd_npu_core *cores, uint32_t count);
/* What is wrong with them, or NULL. */
const char *rdn_launch_problem(const rd_npu_launch *l, const rd_npu_options *o);

#endif
