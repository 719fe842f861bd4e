/* One core of a launch: what issuing an instruction works on.
 *
 * The instruction list of a core does not depend on the schedule.  Control flow may use launch
 * arguments, unwritten GM inputs, and values that the recording keeps, so every later question is
 * asked of the recording; the kernel function runs once. */
#ifndef REDELTA_NPU_CORE_CORE_H
#define REDELTA_NPU_CORE_CORE_H

#include "npu/check/checker.h"
#include "npu/machine/memory.h"
#include "npu/record/program.h"

#include <setjmp.h>

struct rd_npu_core {
  const rd_npu_launch *launch;
  const rd_npu_arch_info *arch;
  uint32_t block, programs;
  uint64_t mask_lo, mask_hi;
  uint32_t mask_site; /* where it was set last */
  uint32_t slack;     /* bytes behind a GM tensor that copies may read */
  bool record, check, execute;
  bool dropping; /* some channel is dropped */
  bool halted;   /* something hangs: later values would be invented */
  uint8_t without[PIPES][PIPES];
  uint32_t next_index[PIPES];
  rdn_order order; /* executes; the checker has its own */
  uint64_t issued;
  uint32_t remedies; /* places where options.with put an event */
  program prog;
  program control; /* with dropped channels: events and barriers, the dropped ones included */
  memory *mem;
  checker *chk;
  finding_list findings, notes;
  uint32_t marked;   /* findings already told apart by `doubt` */
  bool doubt;        /* a value was read behind a finding: what follows is one continuation */
  uint64_t doubt_at; /* ... instructions issued by then */
  uint32_t values_read;
  jmp_buf leave;             /* out of a kernel that would not end */
  range_set *ranges[RANGES]; /* per tensor, moved from the checker at the end */
  char *stuck;               /* what each pipe is held by, when halted */
  /* Called before the first value read of a recording that computes nothing: from then on mem holds
   * private copies, on which everything issued has been executed.  false: no memory. */
  bool (*begin_values)(rd_npu_core *c);
  struct value_run *values; /* of begin_values */
  uint8_t *
      *outputs; /* what the launch can write as it was before; NULL: the tensors still hold it */
  bool out_of_memory;
};

/* A blank instruction on its pipe, for a front to fill. */
insn rdn_insn(const rd_npu_core *c, op o, rd_npu_site s);
void rdn_issue(rd_npu_core *c, insn *i); /* validate, check, execute, record */
void rdn_core_run(rd_npu_core *c);       /* the kernel */
/* Tells findings behind a value read in doubt from those before it. */
void rdn_mark_continuation(rd_npu_core *c);
void rdn_core_begin(rd_npu_core *c);  /* before the first instruction */
bool rdn_core_finish(rd_npu_core *c); /* after the last one; false without memory */
/* "M_V,V_M" into the matrix; false when malformed. */
bool rdn_parse_without(const char *text, uint8_t without[PIPES][PIPES]);

#endif
