/* Which orders of dropped events other edges give all the same. */
#ifndef REDELTA_NPU_CHECK_IMPLIED_H
#define REDELTA_NPU_CHECK_IMPLIED_H

#include "npu/record/program.h"

/* One dropped place, each time it comes by; `by` is the chain of events that implies
 * the order, where one does.  false: no memory. */
typedef bool rdn_dropped_place(void *user, const char *place, bool implied, const char *by);

/* `control` are the events and barriers of one core, the dropped ones included; its sites are those
 * of `sites`.  false: no memory. */
bool rdn_implied(const program *control, const program *sites, rdn_dropped_place *report,
                 void *user);

#endif
