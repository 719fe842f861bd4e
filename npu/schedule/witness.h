/* The values that the orders a race allows can give. */
#ifndef REDELTA_NPU_SCHEDULE_WITNESS_H
#define REDELTA_NPU_SCHEDULE_WITNESS_H

#include "npu/check/findings.h"
#include "npu/check/rules.h"
#include "npu/record/program.h"
#include "npu/schedule/image.h"

/* Runs the orders each race of one core allows and fills in what they show. */
bool rdn_witness(const program *p, const rd_npu_launch *l, rdn_rules rules, const gm_image *before,
                 raw_finding *f);

#endif
