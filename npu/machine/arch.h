/* What a launch's cores have: pipes and programs. */
#ifndef REDELTA_NPU_MACHINE_ARCH_H
#define REDELTA_NPU_MACHINE_ARCH_H

#include "npu/machine/machine.h"

bool rdn_pipe_exists(const rd_npu_launch *l, unsigned pipe);
uint32_t rdn_launch_programs(const rd_npu_launch *l);

#endif
