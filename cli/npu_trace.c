/* redelta npu trace. SPDX-License-Identifier: Apache-2.0 */
#include "cli/npu_cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { ID_LOG = NPU_ID_OWN };

static const cli_option options[] = {
    {"out", 'o', "OUT.json", "Chrome/Perfetto trace to write (also -o OUT.json)"},
    NPU_OPTIONS,
    {"log", ID_LOG, "FILE", "text log, one line per instruction"},
    {0}};

static const cli_command command = {
    "npu trace",
    "KERNEL [IN.safetensors] [-o OUT.json]",
    "Draws the pipes' timeline under the cost model of docs/NPU-MODEL.md (a model, not\n"
    "silicon; one cycle is shown as one microsecond) and prints how busy each pipe is.",
    options,
    1,
    2};

static bool to_file(void *user, const char *bytes, size_t count) {
  return fwrite(bytes, 1, count, user) == count;
}

/* A file the trace is written to, or none. */
typedef struct sink {
  io_output out;
  FILE *file;
} sink;

static int open_sink(sink *k, const char *path) {
  io_error err;
  k->file = NULL;
  if (!path) return CLI_OK;
  io_status status = io_output_open(&k->out, path, &err);
  if (status != IO_OK) return cli_fail(command.name, (int)status, "%s", err.text);
  int fd = dup(k->out.fd);
  k->file = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (k->file) return CLI_OK;
  if (fd >= 0) close(fd);
  (void)io_output_close(&k->out, 1, &err);
  return cli_fail(command.name, CLI_SYSTEM, "%s", err.text);
}

/* Lets the file appear, or takes it away when what it should hold is not there. */
static int close_sink(sink *k, bool unwanted) {
  io_error err;
  if (!k->file) return CLI_OK;
  bool bad = ferror(k->file) || fflush(k->file) != 0;
  const int error = errno;
  (void)fclose(k->file);
  errno = error;
  io_status status = io_output_close(&k->out, bad || unwanted, &err);
  if (status == IO_OK || unwanted) return CLI_OK;
  return cli_fail(command.name, (int)status, "%s", err.text);
}

static double percent(uint64_t part, uint64_t cycles, uint32_t cores) {
  return cycles && cores ? 100.0 * (double)part / ((double)cycles * (double)cores) : 0;
}

static int table(const npu_request *r, const rd_npu_trace_result *t, int status) {
  json_t *pipes = json_array();
  if (!r->json) {
    printf("%s: %llu modelled cycles on %u cores\n", r->kernel->name, (unsigned long long)t->cycles,
           t->cores);
    printf("%-5s %10s %8s %8s %14s\n", "pipe", "operations", "busy %", "wait %", "bytes");
  }
  for (int p = 0; p < RD_NPU_PIPES; p++) {
    const rd_npu_pipe_use *u = &t->pipe[p];
    if (!u->operations && !u->waiting) continue;
    double busy = percent(u->busy, t->cycles, t->cores),
           wait = percent(u->waiting, t->cycles, t->cores);
    const char *name = rd_npu_pipe_name((rd_npu_pipe)p);
    if (!r->json)
      printf("%-5s %10llu %8.1f %8.1f %14llu\n", name, (unsigned long long)u->operations, busy,
             wait, (unsigned long long)u->bytes);
    json_array_append_new(pipes, json_pack("{s:s, s:I, s:f, s:f, s:I}", "pipe", name, "operations",
                                           (json_int_t)u->operations, "busy_percent", busy,
                                           "wait_percent", wait, "bytes", (json_int_t)u->bytes));
  }
  if (!r->json) {
    json_decref(pipes);
    return cli_finish(command.name, status);
  }
  return cli_finish_json(command.name, status,
                         json_pack("{s:s, s:I, s:I, s:o}", "kernel", r->kernel->name, "cycles",
                                   (json_int_t)t->cycles, "cores", (json_int_t)t->cores, "pipes",
                                   pipes));
}

typedef struct trace_state {
  npu_request r;
  const char *out, *log;
} trace_state;

static int trace(void *state, rdn_call *call) {
  const trace_state *own = state;
  const npu_request *r = &own->r;
  static sink json_sink, log_sink; /* too large for a stack frame */
  int status = open_sink(&json_sink, own->out);
  if (status != CLI_OK) return status;
  status = open_sink(&log_sink, own->log);
  if (status != CLI_OK) {
    (void)close_sink(&json_sink, true);
    return status;
  }
  rd_npu_options o;
  rd_npu_trace_result t;
  npu_model_options(r, &o);
  rd_npu_status s = rd_npu_trace(&call->launch, &o, json_sink.file ? to_file : NULL, json_sink.file,
                                 log_sink.file ? to_file : NULL, log_sink.file, &t);
  cli_progress_end();
  const bool failed = s == RD_NPU_BAD_INPUT || s == RD_NPU_NO_MEMORY;
  int closed = close_sink(&json_sink, failed), logged = close_sink(&log_sink, failed);
  if (closed != CLI_OK || logged != CLI_OK) return CLI_SYSTEM;
  if (failed)
    return cli_fail(command.name, s == RD_NPU_BAD_INPUT ? CLI_BAD : CLI_SYSTEM, "%s",
                    s == RD_NPU_BAD_INPUT ? "invalid launch" : "out of memory or threads");
  return table(r, &t, s == RD_NPU_FINDING ? CLI_FAILED : CLI_OK);
}

/* The log may be neither the input nor the trace. */
static int check_log(const char *log, const char *in, const char *out) {
  io_error err;
  if (!log) return CLI_OK;
  if (out && strcmp(log, out) == 0)
    return cli_fail(command.name, CLI_BAD, "%s: both --log and -o", log);
  io_status status = io_check_output(log, &err);
  if (status == IO_OK && in) status = io_refuse_same_file(log, in, &err);
  if (status == IO_OK && out) status = io_refuse_same_file(log, out, &err);
  return status == IO_OK ? CLI_OK : cli_fail(command.name, (int)status, "%s", err.text);
}

static int take_option(const cli_args *args, int id, void *state) {
  trace_state *s = state;
  if (id == 'o') s->out = args->value;
  if (id == ID_LOG) s->log = args->value;
  return 1;
}

int npu_trace(int argc, char **argv) {
  static trace_state s;
  cli_args args;
  int status = npu_read(&s.r, &args, &command, argc, argv, take_option, &s);
  if (status != CLI_GO) return status;
  status = check_log(s.log, args.operand_count > 1 ? args.operands[1] : NULL, s.out);
  return status == CLI_OK ? npu_on_call(&s.r, &args, s.out, trace, &s) : status;
}
