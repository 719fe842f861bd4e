/* The commands of a tool built with -DREDELTA_BUILD_BENCH=OFF. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_parts.h"

int cmd_bench(int argc, char **argv) {
  (void)argc;
  (void)argv;
  return cli_fail("bench", CLI_BAD, "this tool was built without it (REDELTA_BUILD_BENCH)");
}

int demo_part4(demo *d) {
  if (!d->json)
    printf("\n4. Speed: not run, this tool was built without it (REDELTA_BUILD_BENCH)\n");
  return CLI_OK;
}
