/* Replaying a recording under a schedule. */
#ifndef REDELTA_NPU_SCHEDULE_SCHEDULER_H
#define REDELTA_NPU_SCHEDULE_SCHEDULER_H

#include "npu/check/rules.h"
#include "npu/machine/memory.h"
#include "npu/check/findings.h"
#include "npu/record/program.h"

typedef enum replay_end {
  REPLAY_DONE,
  REPLAY_STUCK,    /* nothing can move */
  REPLAY_LOST_SET, /* a binary flag was set while set: the event is lost */
  REPLAY_DIFFERS,  /* a value read gave other bytes: mem->differs */
  REPLAY_NO_MEMORY
} replay_end;

typedef struct deviation {
  uint32_t at, choice;
} deviation;

typedef struct schedule {
  rd_npu_schedule kind;
  rdn_rules rules;
  uint64_t seed;
  const deviation *script; /* EXHAUSTIVE: departures from eager, ascending */
  uint32_t script_count;
  uint8_t *options; /* EXHAUSTIVE: how many choices each decision had, as far as there is room */
  uint32_t options_capacity, decisions;
  uint32_t held; /* after STUCK and LOST_SET: position of an instruction that it was at */
} schedule;

/* mem NULL: no values, only whether it gets through.  On STUCK, text (may be NULL) says what each
 * pipe is held by. */
replay_end rdn_replay(const program *p, memory *mem, schedule *s, char *text, size_t size);
/* The instruction at a position, for a finding. */
raw_access rdn_access_at(const program *p, size_t at);
/* The last instruction in program order that writes this byte of a GM tensor; the program's count when
 * none does. */
size_t rdn_last_writer(const program *p, uint32_t tensor, uint64_t byte);
/* Executes the whole list in reference order, up to a value read that differs; false: no memory. */
bool rdn_replay_plain(const program *p, memory *mem);
/* "S would read 5 instead of 7 at file.c:12" */
void rdn_differs_text(const divergence *d, const program *p, char *out, size_t size);
double rdn_differs_number(const divergence *d, uint64_t bits);

#endif
