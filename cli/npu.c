/* redelta npu: kernels on the AI Core model. SPDX-License-Identifier: Apache-2.0 */
#include "cli/npu_cli.h"

#include <string.h>

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"run", npu_run, "run a kernel on a file or on generated inputs"},
    {"race", npu_race, "find missing synchronisation; --mutate: what is needed and what is not"},
    {"trace", npu_trace, "the pipes' timeline under a cost model, for Perfetto"},
};

static void print_help(FILE *to) {
  fprintf(to, "usage: redelta npu COMMAND KERNEL [options]\n\n"
              "NPU kernels on an executable model of the Ascend AI Core.\n\ncommands:\n");
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    fprintf(to, "  %-6s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "\nkernels:\n");
  for (size_t i = 0; rdn_kernel_at(i); i++) {
    const rdn_kernel_desc *k = rdn_kernel_at(i);
    fprintf(to, "  %s (%s): %s\n", k->name, rd_npu_arch_get(k->arch)->name, k->summary);
  }
  fprintf(to, "\nexit status: 0 ok, 1 a finding or a failed check, 2 bad usage or input, 3 system "
              "failure\n");
}

int cmd_npu(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help(stdout);
    return cli_finish("npu", CLI_OK);
  }
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  if (argc < 2)
    print_help(stderr);
  else
    cli_fail("npu", CLI_BAD, "unknown command '%s'; see redelta npu --help", name);
  return CLI_BAD;
}
