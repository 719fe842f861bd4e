/* Independent tasks on host threads.  Each thread owns a state; tasks are taken from a counter and
 * write only to their own slot, so results cannot depend on the number of threads. */
#include "npu/launch/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct job {
  void *user;
  rdn_task_begin *begin;
  rdn_task *task;
  rdn_task_end *end;
  uint32_t count;
  atomic_uint next;
  atomic_bool failed;
} job;

static void *work(void *argument) {
  job *j = argument;
  void *state = j->begin ? j->begin(j->user) : NULL;
  if (j->begin && !state) {
    j->failed = true;
    return NULL;
  }
  for (uint32_t i; !j->failed && (i = atomic_fetch_add(&j->next, 1)) < j->count;)
    if (!j->task(j->user, state, i)) j->failed = true;
  if (j->end) j->end(j->user, state);
  return NULL;
}

bool rdn_parallel(uint32_t threads, uint32_t count, void *user, rdn_task_begin *begin,
                  rdn_task *task, rdn_task_end *end) {
  job j = {.user = user, .begin = begin, .task = task, .end = end, .count = count};
  if (threads > count) threads = count;
  if (threads <= 1) {
    work(&j);
    return !j.failed;
  }
  int before,
      ours; /* a caller that is cancelled in a join would leave threads at work on its stack */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_t *id = calloc(threads, sizeof *id);
  uint32_t started = 0;
  /* a thread that cannot be created leaves its share to the others */
  while (id && started + 1 < threads && pthread_create(&id[started], NULL, work, &j) == 0)
    started++;
  work(&j);
  for (uint32_t t = 0; t < started; t++) pthread_join(id[t], NULL);
  free(id);
  pthread_setcancelstate(before, &ours);
  return !j.failed;
}
