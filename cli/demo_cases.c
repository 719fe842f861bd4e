/* The cases of part 2 of the demo. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_cases.h"

const demo_case demo_cases[DEMO_CASES] = {
    {"BSND, 1 head, block_num 24", RD_BSND, 1, 1, {8}, {8}, 24},
    {"BNSD, 17 heads, block_num 8", RD_BNSD, 17, 2, {9, 9}, {0, 9}, 8},
    {"TND, 8 heads, block_num None", RD_TND, 8, 3, {5, 1, 3}, {5, 0, 2}, 0},
};

io_status demo_case_inputs(const demo_case *c, io_file *file, io_error *err) {
  static inputs_spec spec;
  inputs_init(&spec, op_by_id(OP_FUSED_RECURRENT_KDA_REPLAYSSM),
              DEMO_SEED + (uint64_t)(c - demo_cases) + 1);
  spec.layout_qkv = c->layout;
  spec.N = c->heads;
  spec.B = c->batch;
  spec.T = c->lengths[0];
  if (c->layout == RD_TND) {
    spec.length_count = (int)c->batch;
    for (int64_t b = 0; b < c->batch; b++) spec.lengths[b] = c->lengths[b];
  }
  return inputs_make(&spec, file, err);
}
