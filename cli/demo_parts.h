/* cli/demo_parts.h - the parts of the main job. SPDX-License-Identifier: Apache-2.0
 *
 * The demo fails when any line of parts 1 to 3 does. Each part returns an exit status other than
 * CLI_FAILED: CLI_OK although lines failed.
 */
#ifndef RD_CLI_DEMO_PARTS_H
#define RD_CLI_DEMO_PARTS_H

#include "cli/demo_lines.h"

int demo_part1(demo *d); /* cli/demo_operators.c */
int demo_part2(demo *d);
int demo_part3(demo *d); /* cli/demo_speculation.c */
int demo_part4(demo *d); /* cli/demo_speed.c */

/* Parts 1 and 2 once more, small, on the AI Core model. */
int demo_npu(demo *d);

#endif
