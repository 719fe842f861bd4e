/* Merging per-core findings into a report, and printing it. */
#ifndef REDELTA_NPU_REPORT_H
#define REDELTA_NPU_REPORT_H

#include "model.h"

struct rd_npu_report {
  rd_npu_finding *list;
  size_t count, capacity;
  char summary[256];
  uint64_t instructions, schedules;
  bool capped;
  rd_npu_dropped *dropped; /* places of dropped channels */
  size_t dropped_count, dropped_capacity;
};

rd_npu_report *rdn_report_new(void);
__attribute__((format(printf, 2, 3))) void rdn_report_summary(rd_npu_report *r, const char *format,
                                                              ...);
/* Merges the findings of all cores in core order and adds the races between cores. */
bool rdn_report_collect(rd_npu_report *r, const rd_npu_launch *l, const rd_npu_core *cores,
                        uint32_t count);
/* Is this the first core with a finding of these sites and kind? */
bool rdn_report_is_first(const rd_npu_core *cores, uint32_t core, uint32_t index);
/* All schedules with few deviations; findings go to the cores. */
bool rdn_explore(rd_npu_report *r, const rd_npu_options *o, rd_npu_core *cores, uint32_t count,
                 const gm_image *before);

/* Fills `dropped` from the cores' control lists. */
bool rdn_report_implied(rd_npu_report *r, const rd_npu_core *cores, uint32_t count);
bool rdn_report_dropped(rd_npu_report *r, const char *place, bool implied, const char *by);

/* Growing text; ok turns false when memory is missing. */
typedef struct text {
  char *data;
  size_t used, capacity;
  bool ok, started;
} text;
__attribute__((format(printf, 2, 3))) void rdn_text_add(text *t, const char *format, ...);
void rdn_text_json(text *t, const char *string); /* quoted and escaped; NULL gives null */
void rdn_text_number(text *t, double value);     /* JSON number, or a string when not finite */
char *rdn_text_take(text *t);

#endif
