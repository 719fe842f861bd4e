/* A thread that is cancelled inside of a call would leave the context busy and other threads at work
 * on its stack. So calls are no cancellation points: neither their waits, nor the functions of the
 * caller's that they call. */
#ifndef RDI_EXEC_CANCEL_H
#define RDI_EXEC_CANCEL_H

#include <pthread.h>

/* Returns the state for rdi_cancel_restore. */
static inline int rdi_cancel_disable(void) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  return before;
}

static inline void rdi_cancel_restore(int before) {
  int ours;
  pthread_setcancelstate(before, &ours);
}

#endif
