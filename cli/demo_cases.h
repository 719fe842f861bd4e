/* cli/demo_cases.h - the cases of part 2. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_CLI_DEMO_CASES_H
#define RD_CLI_DEMO_CASES_H

#include "cli/inputs.h"

enum { DEMO_SEED = 20240611 };

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
