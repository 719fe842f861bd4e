/* cli/npu_cli.h - what the npu subcommands share. SPDX-License-Identifier: Apache-2.0 */
#ifndef RD_CLI_NPU_CLI_H
#define RD_CLI_NPU_CLI_H

#include "cli/load.h"
#include "npu/kernels/harness/kernel.h"

/* Options of run, race and trace alike; ids below NPU_ID_OWN. */
enum {
  NPU_ID_ARCH = 1,
  NPU_ID_CORES,
  NPU_ID_SCHEDULE,
  NPU_ID_SEED,
  NPU_ID_SHAPE,
  NPU_ID_LENGTHS,
  NPU_ID_THREADS,
  NPU_ID_WITHOUT,
  NPU_ID_SLACK,
  NPU_ID_FLAGS,
  NPU_ID_AUTO_SYNC,
  NPU_ID_SET,
  NPU_ID_SCALAR, /* .. + NPU_SCALARS */
  NPU_ID_OWN = 100
};
enum { NPU_SCALARS = 5 };
extern const char *const npu_scalar_names[NPU_SCALARS]; /* with dashes, as options */

#define NPU_OPTIONS                                                                                \
  {"arch", NPU_ID_ARCH, "A", "310P, 910B or 950 (default: the kernel's)"},                         \
      {"cores", NPU_ID_CORES, "N", "AI cores of the modelled device (default 8, 24, 32)"},         \
      {"schedule", NPU_ID_SCHEDULE, "S", "eager, lazy, random or exhaustive (default eager)"},     \
      {"seed", NPU_ID_SEED, "N", "of the random schedule and of generated inputs (default 1)"},    \
      {"shape", NPU_ID_SHAPE, "S", "a named shape or B=2,Hk=1,... when no file is given"},         \
      {"lengths", NPU_ID_LENGTHS, "LIST", "tokens of each sequence, for --shape"},                 \
      {"threads", NPU_ID_THREADS, "N", "host threads (default: the usable CPUs)"},                 \
      {"without", NPU_ID_WITHOUT, "LIST", "drop event channels: M_V or M_V,V_M"},                  \
      {"gm-slack", NPU_ID_SLACK, "N", "bytes readable behind GM tensors (default: the kernel's)"}, \
      {"flags", NPU_ID_FLAGS, "F", "count or binary: what a set of a set flag does (count)"},      \
      {"auto-sync", NPU_ID_AUTO_SYNC, "A",                                                         \
       "what the compiler synchronises: none, scalar or all (none)"},                              \
      LOAD_SET_OPTION(NPU_ID_SET), {"scale", NPU_ID_SCALAR, "X", "scale"},                         \
      {"scale-value", NPU_ID_SCALAR + 1, "X", "scale_value"},                                      \
      {"lower-bound", NPU_ID_SCALAR + 2, "X", "lower_bound"},                                      \
      {"layout-qkv", NPU_ID_SCALAR + 3, "L", "layout_qkv: BSND, BNSD or TND"}, {                   \
    "block-num", NPU_ID_SCALAR + 4, "N", "launch size in AI cores"                                 \
  }

typedef struct npu_request {
  const rdn_kernel_desc *kernel;
  const char *command; /* "npu race" */
  rd_npu_arch arch;
  int arch_given;
  int64_t cores, threads, gm_slack; /* gm_slack < 0: the kernel's */
  rd_npu_schedule schedule;
  uint64_t seed;
  const char *shape, *lengths, *without, *with;
  rd_npu_flags flags;
  rd_npu_auto_sync auto_sync;
  const char *scalars[NPU_SCALARS];
  load_sets sets;
  int json;
} npu_request;

/* Reads a whole command line and finds the kernel, its first operand: CLI_GO, or the exit status to
 * return.  `own` takes the options that are not common, into `options`. */
int npu_read(npu_request *r, cli_args *args, const cli_command *command, int argc, char **argv,
             cli_take own, void *options);

/* Named tensors, from the file (path may be NULL: generated) to a prepared launch.  `in` owns the
 * file's tensors and must live as long as the call.  Returns an exit status after a message. */
int npu_prepare(const npu_request *r, const char *path, const char *out, io_file *in,
                rdn_call *call);
/* Prepares a call from the second operand (if there is one) and runs go(options, call) on it. */
typedef int npu_go(void *options, rdn_call *call);
int npu_on_call(const npu_request *r, const cli_args *args, const char *out, npu_go *go,
                void *options);
/* Adds a tensor of a file to the call, without a copy. Returns an exit status after a message. */
int npu_add_tensor(const char *command, const io_tensor *t, rdn_call *call);
void npu_model_options(const npu_request *r, rd_npu_options *o);

int npu_run(int argc, char **argv);
int npu_race(int argc, char **argv);
int npu_trace(int argc, char **argv);

#endif
