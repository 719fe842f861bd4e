/* The discipline of flags: what is set twice, left set, or relies on flags that count. */
#ifndef REDELTA_NPU_CHECK_FLAGS_H
#define REDELTA_NPU_CHECK_FLAGS_H

#include "npu/check/clocks.h"

typedef struct flag_use {
  uint32_t *open; /* in program order: sites of sets that no wait stands for yet, a ring */
  uint32_t head, count, capacity;
  uint32_t owed;            /* waits ahead of their sets */
  uint32_t set_site;        /* in reference order: the newest set that ran */
  uint64_t sets, waits;     /* that ran */
  uint32_t wait, wait_site; /* the newest wait that ran: its index and site */
} flag_use;

typedef struct rdn_flags {
  flag_use use[PIPES][PIPES][FLAG_SLOTS];
} rdn_flags;

void rdn_flags_reset(rdn_flags *f);
void rdn_flags_free(rdn_flags *f);
/* A set or wait is issued.  false without memory. */
bool rdn_flags_issue(rdn_flags *f, const insn *i, finding_list *found);
/* ... and runs under `now`.  reuse: where a set goes that a binary flag may lose. */
bool rdn_flags_run(rdn_flags *f, const insn *i, const vclock *now, finding_list *reuse);
bool rdn_flags_finish(const rdn_flags *f, finding_list *found);

#endif
