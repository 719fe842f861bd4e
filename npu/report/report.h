/* Merging per-core findings into a report, and printing it. */
#ifndef REDELTA_NPU_REPORT_H
#define REDELTA_NPU_REPORT_H

#include "npu/core/core.h"
#include "npu/record/text.h"

struct rd_npu_report {
  rd_npu_finding *list;
  size_t count, capacity;
  rd_npu_finding *notes;
  size_t note_count, note_capacity;
  char summary[256];
  uint64_t instructions, schedules;
  bool capped;
  rd_npu_dropped *dropped; /* places of dropped channels */
  size_t dropped_count, dropped_capacity;
};

rd_npu_report *rdn_report_new(void);
__attribute__((format(printf, 2, 3))) void rdn_report_summary(rd_npu_report *r, const char *format,
                                                              ...);
/* Merges the findings and notes of all cores in core order and adds the races between cores. */
bool rdn_report_collect(rd_npu_report *r, const rd_npu_launch *l, const rd_npu_core *cores,
                        uint32_t count);
/* Is this the first core with a finding of these sites and kind? */
bool rdn_report_is_first(const rd_npu_core *cores, uint32_t core, uint32_t index);
/* Counts one place of a dropped channel; false without memory. */
bool rdn_report_dropped(rd_npu_report *r, const char *place, bool implied, const char *by);

#endif
