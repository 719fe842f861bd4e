/* Problems and plans, inside. */
#ifndef RDI_CORE_PROBLEM_H
#define RDI_CORE_PROBLEM_H

#include "core/job.h"

struct rd_plan {
  rd_allocator allocator;
  uint32_t isa;
  rd_problem problem;
  rdi_math math;
  rd_plan_info info;
};

/* Takes the caller's problem into *p and checks everything that can be wrong; fills math. */
rd_status rdi_problem_take(rd_context *ctx, const rd_problem *given, rd_problem *p, rdi_math *math);

#endif
