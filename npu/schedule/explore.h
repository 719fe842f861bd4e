/* All schedules with few deviations. */
#ifndef REDELTA_NPU_SCHEDULE_EXPLORE_H
#define REDELTA_NPU_SCHEDULE_EXPLORE_H

#include "npu/core/core.h"
#include "npu/schedule/image.h"

typedef struct explored {
  uint64_t schedules;
  bool capped;
} explored;

/* Findings go to the cores; false without memory. */
bool rdn_explore(const rd_npu_options *o, rd_npu_core *cores, uint32_t count,
                 const gm_image *before, explored *out);

#endif
