/* cli/cli.h - what every subcommand of the tool shares. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_CLI_CLI_H
#define RD_CLI_CLI_H

#include "io/io.h"
#include "redelta/redelta.h"

/* Exit statuses of every command. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_BAD = 2, CLI_SYSTEM = 3 };

/* ---- options: one table per command, read by getopt_long and printed by --help ------------------
 */

typedef struct cli_option {
  const char *name;
  int id;               /* > 0; what cli_next returns; | CLI_REPEATABLE: may be given again */
  const char *argument; /* its name in the help; NULL: a flag */
  const char *help;
} cli_option;

typedef struct cli_command {
  const char *name;          /* "run" */
  const char *operands;      /* "OP IN.safetensors" */
  const char *summary;       /* paragraphs, each line at most 78 wide */
  const cli_option *options; /* ends with a zero name; --help and --json are added */
  int min_operands, max_operands;
} cli_command;

/* Any other option with an argument is refused the second time: the last of two would win without a
 * word. */
enum { CLI_REPEATABLE = 1 << 20 };

enum { CLI_END = -1, CLI_USAGE = -2, CLI_HELP = -3, CLI_ID_JSON = 1000, CLI_ID_FIRST = 1 };

typedef struct cli_args {
  const cli_command *command;
  int argc;
  char **argv;
  const char *value;  /* argument of the option just returned */
  const char *option; /* its name, "--scale" */
  int json;
  uint64_t given;  /* bit per option of the table */
  char **operands; /* after CLI_END */
  int operand_count;
} cli_args;

void cli_begin(cli_args *args, const cli_command *command, int argc, char **argv);

/* The next option's id; CLI_END after the last one, when the operands are counted too. CLI_USAGE: a
 * message went to stderr, the command returns CLI_BAD. CLI_HELP: the help was printed, it returns
 * CLI_OK. */
int cli_next(cli_args *args);

/* Takes one option into `options`: 1 good, 0 after a message. */
typedef int (*cli_take)(const cli_args *args, int id, void *options);

/* Reads a whole command line. CLI_GO: the command goes on; else the exit status to return, after a
 * message or the help. take may be NULL when the command has no options of its own. */
enum { CLI_GO = -1 };
int cli_read(cli_args *args, const cli_command *command, int argc, char **argv, cli_take take,
             void *options);

/* Strict numbers of an option's argument: the whole text, in range, or a message and 0. */
int cli_int(const cli_args *args, int64_t low, int64_t high, int64_t *out);
int cli_seed(const cli_args *args, uint64_t *out);
int cli_double(const cli_args *args, double *out);

/* "3,1,2": at most `max` numbers. Returns the count, 0 after a message. */
int cli_int_list(const cli_args *args, int64_t low, int64_t high, int64_t *out, int max);

/* Text that may come from a file or a command line: control characters are shown as \xNN, so that no
 * name can move the cursor of a terminal or pass for a line of ours. */
void cli_print(FILE *to, const char *text);

/* The program that messages and usage lines name. */
extern const char *cli_program;

/* A message to stderr, "redelta run: ..."; returns `status`. Control characters as by cli_print. */
int cli_fail(const char *command, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void cli_warn(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Exit status of a library status. */
int cli_status_of(rd_status status);

/* Flushes stdout: `status`, or CLI_SYSTEM with a message when the output could not be written. */
int cli_finish(const char *command, int status);

/* Prints `value` and releases it; returns as cli_finish. */
int cli_finish_json(const char *command, int status, json_t *value);

/* ---- contexts -----------------------------------------------------------------------------------
 */

/* "avx2" -> the mask of that instruction set and the scalar forms, which serve the slots it has no
 * kernel for; 0 after a message when unknown or not usable here. */
uint32_t cli_isa_mask(const char *command, const char *name);

/* Instruction sets in the order of preference, worst first: CLI_ISAS bits. */
enum { CLI_ISAS = 6 };
extern const rd_isa cli_isas[CLI_ISAS];

/* threads 0: all CPUs; isa_mask 0: everything. A message and the exit status on failure. */
int cli_context(const char *command, int32_t threads, uint32_t isa_mask, rd_context **ctx);

/* ---- progress -----------------------------------------------------------------------------------
 */

/* On a terminal, shows "label done/total, seconds" on stderr for work that lasts over a second.
 * Starts at most one thread for the whole process; does nothing elsewhere. total 0: no count. */
void cli_progress(const char *label, int done, int total);
void cli_progress_end(void);

double cli_seconds(void); /* monotonic */

/* ---- commands -----------------------------------------------------------------------------------
 */

int cmd_demo(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_gen(int argc, char **argv);
int cmd_bench(int argc, char **argv); /* cli/bench.c */
int cmd_npu(int argc, char **argv);   /* cli/npu.c */

#endif
