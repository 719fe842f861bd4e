/* redelta-mpi: prefills of the named operators over MPI ranks. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mpi/tool/tool.h"

int tool_rank, tool_ranks;

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"prefill", tool_prefill, "run an operator on a safetensors file, its tokens shared out"},
    {"check", tool_check, "the same, and compare with one rank bit by bit"},
    {"bench", tool_bench, "measure the ranks against one rank, and estimate both forms"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int help(FILE *to, int status) {
  fprintf(to, "usage: mpirun -np RANKS redelta-mpi COMMAND [arguments]\n\n"
              "One long prefill over the ranks of an MPI job, with the bits of one machine.\n\n"
              "commands:\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-7s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "\nredelta-mpi COMMAND --help tells more; redelta-mpi --version prints the version.\n"
              "exit status: 0 ok, 1 a check failed, 2 bad usage or input, 3 system failure\n");
  return status;
}

/* Help needs no other ranks, and no MPI. */
static int is_help(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 ||
        strcmp(argv[i], "--version") == 0)
      return 1;
  return argc < 2;
}

static int run(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help(stdout, CLI_OK);
  if (strcmp(name, "--version") == 0) {
    printf("redelta-mpi %s\n", rd_version());
    return cli_finish("version", CLI_OK);
  }
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  if (argc < 2) return help(stderr, CLI_BAD);
  fputs("redelta-mpi: unknown command '", stderr);
  cli_print(stderr, name);
  fputs("'; see redelta-mpi --help\n", stderr);
  return CLI_BAD;
}

int main(int argc, char **argv) {
  int level;
  cli_program = "redelta-mpi";
  if (is_help(argc, argv)) return run(argc, argv);
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) return CLI_SYSTEM;
  MPI_Comm_rank(MPI_COMM_WORLD, &tool_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &tool_ranks);
  /* Every rank comes to the same messages; one tells them. */
  if (tool_rank != 0 && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
    MPI_Abort(MPI_COMM_WORLD, CLI_SYSTEM);
  const int status = run(argc, argv);
  MPI_Finalize();
  /* The launcher takes any rank's status other than 0 for an accident, and says so at length. */
  return tool_rank == 0 ? status : CLI_OK;
}
