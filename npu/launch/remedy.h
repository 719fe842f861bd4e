/* options.with: the remedies that a report names, put into a recording. */
#ifndef REDELTA_NPU_LAUNCH_REMEDY_H
#define REDELTA_NPU_LAUNCH_REMEDY_H

#include "npu/core/core.h"

/* "M_V,pipe_barrier(V)" into the matrix, barriers on its diagonal; false when malformed. */
bool rdn_parse_with(const char *text, uint8_t with[PIPES][PIPES]);
/* Between the two accesses of each finding of `c` that misses one of these, at their sites, the event goes
 * in: a set after the first access, a wait before the second, on an id that no kernel has.  Then the
 * checker judges the core's program anew, until no finding misses them.  Counts places; false: no memory. */
bool rdn_apply_remedies(rd_npu_core *c, const uint8_t with[PIPES][PIPES]);

#endif
