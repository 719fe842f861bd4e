/* redelta: the command-line tool. SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"demo", cmd_demo, "the main job: operators, speculation and speed, every claim checked"},
    {"info", cmd_info, "CPU features, chosen kernels and why better ones were refused"},
    {"run", cmd_run, "run an operator on a safetensors file"},
    {"check", cmd_check, "run it and compare with the double oracle and a reference file"},
    {"diff", cmd_diff, "compare two safetensors files"},
    {"gen", cmd_gen, "make seeded inputs for an operator"},
    {"bench", cmd_bench, "measure this machine and the operators on it"},
    {"npu", cmd_npu, "NPU kernels on the AI Core model: run, race, trace"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to) {
  fprintf(to, "usage: redelta COMMAND [arguments]\n\n"
              "Delta-rule attention (Gated DeltaNet, Kimi Delta Attention) on any CPU: the exact\n"
              "operators, checks against a double-precision oracle, and a model of the NPU "
              "core.\n\ncommands:\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-7s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "\nredelta COMMAND --help tells more; redelta --version prints the version.\n"
              "exit status: 0 ok, 1 a check failed, 2 bad usage or input, 3 system failure\n");
}

/* A stopped run leaves no temporary file behind. */
static void on_signal(int number) {
  for (int i = 0; i < IO_OUTPUTS; i++)
    if (io_temporary_names[i][0] != '\0') unlink(io_temporary_names[i]);
  signal(number, SIG_DFL);
  raise(number);
}

int main(int argc, char **argv) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    if (signal(signals[i], on_signal) == SIG_IGN) signal(signals[i], SIG_IGN);
  }
  signal(SIGXFSZ,
         SIG_IGN); /* a write beyond a file size limit is an error message, not a core dump */

  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help(stdout);
    return cli_finish("help", CLI_OK);
  }
  if (strcmp(name, "--version") == 0) {
    printf("redelta %s\n", rd_version());
    return cli_finish("version", CLI_OK);
  }
  for (int i = 0; i < COMMANDS; i++) {
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  }
  if (argc < 2) {
    print_help(stderr);
  } else {
    fputs("redelta: unknown command '", stderr);
    cli_print(stderr, name);
    fputs("'; see redelta --help\n", stderr);
  }
  return CLI_BAD;
}
