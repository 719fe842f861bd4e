/* The inputs of run and check. SPDX-License-Identifier: Apache-2.0 */
#include "cli/load.h"

#include <stdlib.h>
#include <string.h>

int load_set_option(const cli_args *args, load_sets *sets) {
  const char *equals = strchr(args->value, '=');
  if (equals == NULL || equals == args->value || equals[1] == '\0') {
    cli_fail(args->command->name, 0, "--set: expected NAME=FILE.npy, got '%s'", args->value);
    return 0;
  }
  if (sets->count == LOAD_MAX_SETS) {
    cli_fail(args->command->name, 0, "--set: at most %d times", LOAD_MAX_SETS);
    return 0;
  }
  sets->items[sets->count++] = (char *)(uintptr_t)args->value;
  return 1;
}

static io_status one_set(const char *item, const char *out, io_file *in, io_error *err) {
  const char *equals = strchr(item, '=');
  char *name = strndup(item, (size_t)(equals - item));
  if (name == NULL) return io_fail(err, IO_SYSTEM, "no memory");
  io_status status = out != NULL ? io_refuse_same_file(out, equals + 1, err) : IO_OK;
  if (status == IO_OK) status = io_npy_read(equals + 1, name, in, err);
  free(name);
  return status;
}

int load_inputs(const char *command, const char *path, const load_sets *sets, const char *out,
                io_file *in) {
  io_error err;
  io_status status = out != NULL ? io_check_output(out, &err) : IO_OK;
  if (status == IO_OK && out != NULL) status = io_refuse_same_file(out, path, &err);
  if (status == IO_OK) status = io_safetensors_read(path, in, &err);
  for (int i = 0; i < sets->count && status == IO_OK; i++)
    status = one_set(sets->items[i], out, in, &err);
  if (status == IO_OK) return CLI_OK;
  io_file_free(in);
  return cli_fail(command, (int)status, "%s", err.text);
}

const op_desc *load_operator(const char *command, const char *name) {
  const op_desc *op = op_find(name);
  if (op == NULL) cli_fail(command, 0, "unknown operator '%s'; one of %s", name, op_names());
  return op;
}
