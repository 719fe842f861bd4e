/* Options and messages. SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ID_HELP = 1001, MAX_OPTIONS = 40 };

const char *cli_program = "redelta";

/* The table getopt_long reads; one command line is parsed at a time. */
static struct option table[MAX_OPTIONS + 3];

void cli_print(FILE *to, const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
    const int c1 =
        c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* as U+009B, which starts a sequence */
    if (*c < 0x20 || *c == 0x7f || c1)
      fprintf(to, "\\x%02x", c1 ? *++c : *c);
    else
      fputc(*c, to);
  }
}

static void message(const char *command, const char *kind, const char *format, va_list list)
    __attribute__((format(printf, 3, 0)));
static void message(const char *command, const char *kind, const char *format, va_list list) {
  char text[2048];
  cli_progress_end();
  fflush(stdout);
  fprintf(stderr, "%s %s: %s", cli_program, command, kind);
  vsnprintf(text, sizeof text, format, list);
  cli_print(stderr, text);
  fputc('\n', stderr);
}

int cli_fail(const char *command, int status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  message(command, "", format, list);
  va_end(list);
  return status;
}

void cli_warn(const char *command, const char *format, ...) {
  va_list list;
  va_start(list, format);
  message(command, "warning: ", format, list);
  va_end(list);
}

int cli_finish(const char *command, int status) {
  cli_progress_end();
  if (fflush(stdout) != 0 || ferror(stdout)) {
    return cli_fail(command, CLI_SYSTEM, "cannot write the output: %s", strerror(errno));
  }
  return status;
}

int cli_finish_json(const char *command, int status, json_t *value) {
  cli_progress_end();
  if (io_json_print(stdout, value) != IO_OK) {
    return cli_fail(command, CLI_SYSTEM, "cannot write the output: %s", strerror(errno));
  }
  return cli_finish(command, status);
}

int cli_status_of(rd_status status) {
  switch (status) {
  case RD_OK:
    return CLI_OK;
  case RD_E_NOMEM:
  case RD_E_BUSY:
  case RD_E_ARITHMETIC:
  case RD_E_EXECUTOR:
  case RD_E_SYSTEM:
    return CLI_SYSTEM;
  default:
    return CLI_BAD;
  }
}

/* ---------------------------------------------------------------- options --------------------- */

static int option_count(const cli_command *command) {
  int n = 0;
  while (command->options[n].name != NULL) n++;
  return n;
}

void cli_begin(cli_args *args, const cli_command *command, int argc, char **argv) {
  *args = (cli_args){.command = command, .argc = argc, .argv = argv};
  int n = option_count(command);
  if (n > MAX_OPTIONS) abort(); /* a table in this program outgrew another one */
  memset(table, 0, sizeof table);
  for (int i = 0; i < n; i++) {
    const cli_option *o = &command->options[i];
    table[i] = (struct option){o->name, o->argument != NULL ? required_argument : no_argument, NULL,
                               o->id};
  }
  table[n] = (struct option){"json", no_argument, NULL, CLI_ID_JSON};
  table[n + 1] = (struct option){"help", no_argument, NULL, ID_HELP};
  optind = 1;
  opterr = 0;
}

static void print_option(const char *name, const char *argument, const char *help) {
  char left[64];
  snprintf(left, sizeof left, "%s%s%s%s", name[1] == '\0' ? "-" : "--", name,
           argument != NULL ? " " : "", argument != NULL ? argument : "");
  printf("  %-24s ", left);
  for (const char *c = help; *c != '\0'; c++) {
    putchar(*c);
    if (*c == '\n') printf("%27s", "");
  }
  putchar('\n');
}

static void print_help(const cli_command *command) {
  printf("usage: %s %s %s%s[options]\n\n%s\n\noptions:\n", cli_program, command->name,
         command->operands, command->operands[0] != '\0' ? " " : "", command->summary);
  for (const cli_option *o = command->options; o->name != NULL; o++) {
    print_option(o->name, o->argument, o->help);
  }
  print_option("json", NULL, "machine-readable output");
  print_option("help", NULL, "this text");
  printf("\nexit status: 0 ok, 1 a check failed, 2 bad usage or input, 3 system failure\n");
}

static int usage(cli_args *args, const char *what, const char *text) {
  cli_fail(args->command->name, 0, "%s%s; see %s %s --help", what, text, cli_program,
           args->command->name);
  return CLI_USAGE;
}

/* 0: an option that stands once has been given before. */
static int note_given(cli_args *args, int id) {
  for (int i = 0; args->command->options[i].name != NULL; i++) {
    if (args->command->options[i].id != id) continue;
    const uint64_t bit = (uint64_t)1 << i;
    const int again = (args->given & bit) != 0;
    args->given |= bit;
    return !again;
  }
  return 1;
}

int cli_next(cli_args *args) {
  int index = -1;
  int shown = optind;
  /* "-o" is the only short option of the tool; commands without it refuse it by its id below. */
  int id = getopt_long(args->argc, args->argv, ":o:", table, &index);
  if (id == -1) {
    args->operands = args->argv + optind;
    args->operand_count = args->argc - optind;
    if (args->operand_count < args->command->min_operands) {
      return usage(args, "expected ", args->command->operands);
    }
    if (args->operand_count > args->command->max_operands) {
      return usage(args, "unexpected argument ", args->operands[args->command->max_operands]);
    }
    return CLI_END;
  }
  const char *text = args->argv[optind - 1 > 0 ? optind - 1 : shown];
  if (id == ':') return usage(args, "missing argument of ", text);
  if (id == '?') {
    char letter[3] = {'-', (char)optopt, '\0'};
    return usage(args, "unknown option ", optopt > 0 && optopt < 128 ? letter : text);
  }
  if (id == 'o') {
    int known = 0;
    for (const cli_option *o = args->command->options; o->name != NULL; o++) known |= o->id == 'o';
    if (!known) return usage(args, "unknown option ", "-o");
  }
  if (id == ID_HELP) {
    print_help(args->command);
    return CLI_HELP;
  }
  if (optarg != NULL && (id & CLI_REPEATABLE) == 0 && !note_given(args, id)) {
    return usage(args, "given twice: --", index >= 0 ? table[index].name : "out");
  }
  id &= ~CLI_REPEATABLE;
  args->value = optarg;
  args->option = index >= 0 ? table[index].name : "o";
  if (args->value != NULL && args->value[0] == '\0') {
    cli_fail(args->command->name, 0, "%s%s: its argument is empty; see %s %s --help",
             index >= 0 ? "--" : "-", args->option, cli_program, args->command->name);
    return CLI_USAGE;
  }
  if (id == CLI_ID_JSON) {
    args->json = 1;
    return cli_next(args);
  }
  return id;
}

int cli_read(cli_args *args, const cli_command *command, int argc, char **argv, cli_take take,
             void *options) {
  int id;
  cli_begin(args, command, argc, argv);
  while ((id = cli_next(args)) >= 0) {
    if (!take(args, id, options)) return CLI_BAD;
  }
  if (id == CLI_HELP) return cli_finish(command->name, CLI_OK);
  return id == CLI_END ? CLI_GO : CLI_BAD;
}

/* ---------------------------------------------------------------- numbers --------------------- */

static int bad_value(const cli_args *args, const char *expected) {
  cli_fail(args->command->name, 0, "--%s: expected %s, got '%s'", args->option, expected,
           args->value);
  return 0;
}

static int parse_int(const char *text, char until, int64_t *out, const char **after) {
  char *rest;
  errno = 0;
  if (!((text[0] >= '0' && text[0] <= '9') ||
        (text[0] == '-' && text[1] >= '0' && text[1] <= '9'))) {
    return 0;
  }
  long long value = strtoll(text, &rest, 10);
  if (errno != 0 || (*rest != '\0' && *rest != until)) return 0;
  *out = value;
  *after = rest;
  return 1;
}

int cli_int(const cli_args *args, int64_t low, int64_t high, int64_t *out) {
  const char *after;
  int64_t value;
  if (parse_int(args->value, '\0', &value, &after) && value >= low && value <= high) {
    *out = value;
    return 1;
  }
  char expected[96];
  snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)low,
           (long long)high);
  return bad_value(args, expected);
}

int cli_seed(const cli_args *args, uint64_t *out) {
  char *rest;
  errno = 0;
  if (args->value[0] >= '0' && args->value[0] <= '9') {
    unsigned long long value = strtoull(args->value, &rest, 10);
    if (errno == 0 && *rest == '\0') {
      *out = value;
      return 1;
    }
  }
  return bad_value(args, "a whole number from 0 to 2^64-1");
}

int cli_double(const cli_args *args, double *out) {
  char *rest;
  const char *t = args->value;
  /* strtod would also take leading blanks, hexadecimal and "infinity". */
  if (t[0] != '\0' && strspn(t, "0123456789+-.eE") == strlen(t)) {
    errno = 0;
    double value = strtod(t, &rest);
    if (*rest == '\0' && (errno == 0 || (value > -1 && value < 1))) {
      *out = value;
      return 1;
    }
  }
  return bad_value(args, "a number");
}

int cli_int_list(const cli_args *args, int64_t low, int64_t high, int64_t *out, int max) {
  const char *at = args->value;
  for (int n = 0; n < max; n++) {
    if (!parse_int(at, ',', &out[n], &at) || out[n] < low || out[n] > high) break;
    if (*at == '\0') return n + 1;
    at++;
  }
  char expected[128];
  snprintf(expected, sizeof expected,
           "at most %d whole numbers from %lld to %lld with commas between", max, (long long)low,
           (long long)high);
  return bad_value(args, expected);
}
