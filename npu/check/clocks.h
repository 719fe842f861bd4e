/* Happens-before: the vector clock that each instruction of a program runs under. */
#ifndef REDELTA_NPU_CHECK_CLOCKS_H
#define REDELTA_NPU_CHECK_CLOCKS_H

#include "npu/check/order.h"

typedef struct vclock {
  uint32_t at[PIPES];
  uint32_t
      waited; /* the newest wait or barrier of S after which it issued this, or what this awaits */
} vclock;

/* Called in reference order.  now: the instructions of each pipe that have finished when this one
 * starts; its own pipe's entry advances only by a barrier or by acquiring a clock that carries it. */
typedef void rdn_clocks_go(void *user, const insn *i, uint32_t position, const vclock *now);

typedef struct clock_queue { /* sets that ran and were not waited for */
  vclock *list;
  uint32_t head, count, capacity;
} clock_queue;

typedef struct rdn_clocks {
  rdn_order order;
  rdn_clocks_go *go;
  void *user;
  vclock vc[PIPES];
  uint32_t last[PIPES]; /* newest instruction of each pipe that ran */
  clock_queue flags[PIPES][PIPES][FLAG_SLOTS];
  vclock *issue; /* what S had acquired at some time; the last is now */
  size_t issues, issue_capacity;
  bool failed; /* out of memory */
} rdn_clocks;

void rdn_clocks_init(rdn_clocks *c, rdn_clocks_go *go, void *user);
void rdn_clocks_reset(rdn_clocks *c);
void rdn_clocks_free(rdn_clocks *c);
void rdn_clocks_issue(rdn_clocks *c, const insn *i, uint32_t position);
bool rdn_clocks_failed(const rdn_clocks *c);

#endif
