/* redelta demo: the main job, checked line by line. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo_cases.h"
#include "cli/demo_parts.h"

static const cli_option options[] = {{0}};

static const cli_command command = {
    "demo",
    "",
    "The main job: (1) a Gated DeltaNet prefill of a real model's shape, run 32 times,\n"
    "with every thread count and instruction set, against a double-precision oracle;\n"
    "(2) speculative verify and commit by replay against the oracle; (3) speculation\n"
    "giving exactly the bits of plain decoding; (4) speed and bytes, for information.\n"
    "Part 2 ends with the AI Core model: the 310P chunk kernel, which must show no race\n"
    "and must show one when its events are dropped, and part 2 again on the 950 kernels.\n"
    "Exit status 1 if any line of parts 1 to 3 fails.",
    options,
    0,
    0};

int cmd_demo(int argc, char **argv) {
  cli_args args;
  int status = cli_read(&args, &command, argc, argv, NULL, NULL);
  if (status != CLI_GO) return status;
  demo d = {.json = args.json, .list = json_array()};
  double start = cli_seconds();
  status = cli_context(command.name, 0, 0, &d.ctx);
  if (status == CLI_OK) status = demo_part1(&d);
  if (status == CLI_OK) status = demo_part2(&d);
  if (status == CLI_OK) status = demo_npu(&d);
  if (status == CLI_OK) status = demo_part3(&d);
  if (status == CLI_OK) status = demo_part4(&d);
  rd_context_destroy(d.ctx);
  if (status != CLI_OK) {
    json_decref(d.list);
    return status;
  }
  status = d.failed > 0 ? CLI_FAILED : CLI_OK;
  double seconds = cli_seconds() - start;
  if (d.json) {
    return cli_finish_json(command.name, status,
                           json_pack("{s:b, s:i, s:i, s:I, s:o, s:o}", "passed", status == CLI_OK,
                                     "checks", d.checks, "failed", d.failed, "seed",
                                     (json_int_t)DEMO_SEED, "seconds", io_json_real(seconds),
                                     "lines", d.list));
  }
  json_decref(d.list);
  printf("\n%d checks, %d failed, %.1f s\n", d.checks, d.failed, seconds);
  return cli_finish(command.name, status);
}
