/* cli/check_report.h - what check says, as text or JSON. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_CLI_CHECK_REPORT_H
#define RD_CLI_CHECK_REPORT_H

#include "cli/compare.h"

typedef struct check_report {
  const op_call *call;
  int json, failed;
  json_t *comparisons, *stability;
} check_report;

void check_report_begin(check_report *r, const op_call *call, int json);

/* One tensor against "oracle" or the reference. */
void check_report_comparison(check_report *r, const char *against, const cmp_result *c);

/* `runs` runs in some way ("repeats", "5 threads"): where they first differed, tensor NULL if
 * nowhere. */
void check_report_stability(check_report *r, const char *way, int runs, const char *tensor,
                            int64_t at);

/* The verdict; returns the exit status. */
int check_report_end(check_report *r, const char *command);

#endif
