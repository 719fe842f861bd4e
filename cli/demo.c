/* redelta demo: the main job, checked line by line. SPDX-License-Identifier: Apache-2.0 */
#include "cli/demo.h"

#include <stdarg.h>

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

void demo_part(demo *d, int part, const char *format, ...) {
  char title[256];
  va_list list;
  va_start(list, format);
  vsnprintf(title, sizeof title, format, list);
  va_end(list);
  d->part = part;
  if (!d->json) printf("%spart %d: %s\n", part > 1 ? "\n" : "", part, title);
}

static void add_line(demo *d, const char *name, int holds, const char *format, va_list list) {
  char text[512];
  vsnprintf(text, sizeof text, format, list);
  json_t *verdict = holds < 0 ? json_null() : json_boolean(holds);
  json_array_append_new(d->list, json_pack("{s:i, s:s, s:o, s:s}", "part", d->part, "line", name,
                                           "passed", verdict, "figures", text));
  d->lines++;
  if (!d->json) printf("  %-7s%-30s %s\n", holds < 0 ? "" : holds ? "ok" : "FAILED", name, text);
  fflush(stdout);
}

void demo_check(demo *d, int holds, const char *name, const char *format, ...) {
  va_list list;
  va_start(list, format);
  cli_progress_end();
  d->checks++;
  d->failed += !holds;
  add_line(d, name, holds != 0, format, list);
  va_end(list);
}

void demo_note(demo *d, const char *name, const char *format, ...) {
  va_list list;
  va_start(list, format);
  cli_progress_end();
  add_line(d, name, -1, format, list);
  va_end(list);
}

int cmd_demo(int argc, char **argv) {
  cli_args args;
  cli_begin(&args, &command, argc, argv);
  int id = cli_next(&args);
  if (id == CLI_HELP) return cli_finish(command.name, CLI_OK);
  if (id != CLI_END) return CLI_BAD;
  demo d = {.json = args.json, .list = json_array()};
  double start = cli_seconds();
  int status = cli_context(command.name, 0, 0, &d.ctx);
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
