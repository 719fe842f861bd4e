/* The commands of a tool built with -DREDELTA_BUILD_NPU=OFF. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_parts.h"

int cmd_npu(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return cli_fail("npu", CLI_BAD, "this tool was built without the model (REDELTA_BUILD_NPU)");
}

int demo_npu(demo *d) {
  if (!d->json)
    printf("AI Core model: not run, this tool was built without it (REDELTA_BUILD_NPU)\n");
  return CLI_OK;
}
