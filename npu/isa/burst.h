/* What L0C -> UB shares with copies in bursts.  Internal to npu/isa. */
#ifndef REDELTA_NPU_ISA_BURST_H
#define REDELTA_NPU_ISA_BURST_H

#include "npu/machine/insn.h"

bool rdn_burst_limits(const insn *i, char *why, size_t size);

#endif
