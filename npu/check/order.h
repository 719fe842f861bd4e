/* The reference order: what an eager machine with queues of any depth would run, and when. */
#ifndef REDELTA_NPU_CHECK_ORDER_H
#define REDELTA_NPU_CHECK_ORDER_H

#include "npu/check/findings.h"
#include "npu/machine/insn.h"
#include "npu/record/program.h"

#define QUEUE_DEPTH 32u /* instructions that wait in a pipe's queue before S has to */

/* An instruction runs: called in reference order.  tag is what it was issued with. */
typedef void rdn_order_go(void *user, const insn *i, uint32_t position, uint64_t tag);

typedef struct held_insn {
  insn i;
  uint32_t position;
  uint64_t tag;
} held_insn;

typedef struct held_queue {
  held_insn *list; /* a ring */
  uint32_t head, count, capacity;
} held_queue;

typedef struct rdn_order {
  rdn_order_go *go;
  void *user;
  held_queue pipe[PIPES];
  uint32_t flag[PIPES][PIPES][FLAG_SLOTS]; /* counters: sets that ran minus waits that ran */
  uint32_t held;                           /* instructions in all queues */
  bool s_stuck; /* S cannot go on; what it was asked later never happens */
  held_insn s;  /* where */
  uint32_t never_set[PIPES][PIPES][FLAG_SLOTS]; /* site of the first set that S never reached */
  uint32_t deepest; /* the longest that a queue became, and what did it */
  insn deepest_by;
  bool failed; /* out of memory */
} rdn_order;

void rdn_order_init(rdn_order *o, rdn_order_go *go, void *user);
void rdn_order_reset(rdn_order *o); /* for the next program; keeps its memory */
void rdn_order_free(rdn_order *o);
/* The next instruction of the program.  Whatever can run because of it runs before this returns. */
void rdn_order_issue(rdn_order *o, const insn *i, uint32_t position, uint64_t tag);
/* Is something left that nothing will ever let run?  Asked at the end. */
bool rdn_order_hangs(const rdn_order *o);
/* A deadlock finding for each wait that something hangs at; false without memory. */
bool rdn_order_report(const rdn_order *o, finding_list *f);
/* A whole recording.  false without memory; what hangs is left out. */
bool rdn_order_program(const program *p, rdn_order_go *go, void *user);

#endif
