/* Kernels that read values while only a recording was asked for. */
#ifndef REDELTA_NPU_LAUNCH_VALUES_H
#define REDELTA_NPU_LAUNCH_VALUES_H

#include "npu/core/core.h"

/* rd_npu_core.begin_values: private copies of what the launch can write, brought to where the
 * recording is. */
bool rdn_values_begin(rd_npu_core *c);
void rdn_values_end(rd_npu_core *c);

#endif
