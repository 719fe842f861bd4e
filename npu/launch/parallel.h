/* Independent tasks on host threads. */
#ifndef REDELTA_NPU_LAUNCH_PARALLEL_H
#define REDELTA_NPU_LAUNCH_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

/* Runs task(user, state, i) for i < count on up to `threads` host threads, each with its own state.
 */
typedef bool rdn_task(void *user, void *state, uint32_t i);
typedef void *rdn_task_begin(void *user);
typedef void rdn_task_end(void *user, void *state);
bool rdn_parallel(uint32_t threads, uint32_t count, void *user, rdn_task_begin *begin,
                  rdn_task *task, rdn_task_end *end);

#endif
