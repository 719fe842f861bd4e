/* cli/demo.h - the main job. SPDX-License-Identifier: Apache-2.0
 *
 * Each part adds lines: what was done, whether it holds, and the figures. The demo fails when any
 * line of parts 1 to 3 does.
 */
#ifndef RD_CLI_DEMO_H
#define RD_CLI_DEMO_H

#include "cli/inputs.h"

typedef struct demo {
  int json, part, failed, lines, checks;
  json_t *list;
  rd_context *ctx; /* best kernels, all CPUs */
} demo;

enum { DEMO_SEED = 20240611 };

/* Starts a part: its title, printed. */
void demo_part(demo *d, int part, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A checked line. */
void demo_check(demo *d, int holds, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* An informative line. */
void demo_note(demo *d, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Parts. Each returns an exit status other than CLI_FAILED: CLI_OK although lines failed. */
int demo_part1(demo *d);
int demo_part2(demo *d);
int demo_part3(demo *d);
int demo_part4(demo *d);

/* Parts 1 and 2 once more, small, on the AI Core model. */
int demo_npu(demo *d);

/* The three cases of part 2, for whoever else runs them (seed, tensors and options are fixed). */
typedef struct demo_case {
  const char *title;
  rd_layout_qkv layout;
  int64_t heads, batch;
  int64_t lengths[3];
  int32_t accepted[3], block_num;
} demo_case;

enum { DEMO_CASES = 3 };
extern const demo_case demo_cases[DEMO_CASES];

/* The inputs of fused_recurrent_kda_replayssm. */
io_status demo_case_inputs(const demo_case *c, io_file *file, io_error *err);

#endif
