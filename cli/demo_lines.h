/* cli/demo_lines.h - what the parts of the demo report. SPDX-License-Identifier: Apache-2.0
 *
 * Each part adds lines: what was done, whether it holds, and the figures.
 */
#ifndef RD_CLI_DEMO_LINES_H
#define RD_CLI_DEMO_LINES_H

#include "cli/cli.h"

typedef struct demo {
  int json, part, failed, lines, checks;
  json_t *list;
  rd_context *ctx; /* best kernels, all CPUs */
} demo;

/* Starts a part: its title, printed. */
void demo_part(demo *d, int part, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A checked line. */
void demo_check(demo *d, int holds, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* An informative line. */
void demo_note(demo *d, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
