/* redelta info: this machine as the library sees it. SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */

#include "cli/ops.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const cli_option options[] = {{0}};

static const cli_command command = {
    "info",
    "",
    "Shows the library's version, the CPU's features, which instruction sets this\n"
    "build has kernels for and this machine can run, and for every kernel slot the\n"
    "kernel that is chosen and why each better instruction set does not serve it.\n"
    "--json also has the operators' parameters, defaults and outputs.",
    options,
    0,
    0};

typedef struct feature {
  const char *name;
  int present;
} feature;

enum { MAX_FEATURES = 24 };

static int cpu_features(feature out[MAX_FEATURES]) {
  int n = 0;
#if defined(__x86_64__) && defined(__GNUC__)
#define F(name) out[n++] = (feature){name, __builtin_cpu_supports(name) != 0}
  F("sse4.2");
  F("avx");
  F("fma");
  F("avx2");
  F("bmi2");
  F("avx512f");
  F("avx512bw");
  F("avx512dq");
  F("avx512vl");
  F("avx512vnni");
  F("avx512vbmi2");
#undef F
#elif defined(__aarch64__)
  out[n++] = (feature){"asimd", 1};
#else
  (void)out;
#endif
  return n;
}

/* "model name" of the first processor. */
static void cpu_name(char *text, size_t size) {
  snprintf(text, size, "unknown");
  FILE *f = fopen("/proc/cpuinfo", "re");
  if (f == NULL) return;
  char line[256];
  while (fgets(line, sizeof line, f) != NULL) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    snprintf(text, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  fclose(f);
}

static int allowed_cpus(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/* ---------------------------------------------------------------- kernels --------------------- */

typedef enum answer { SERVES, NO_KERNEL, REFUSED } answer;

/* Whether `isa` has a kernel of its own in a slot: a context that may use only it and plain C says.
 */
static answer serves(rd_isa isa, int32_t slot) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1;
  o.isa_mask = (uint32_t)isa | (uint32_t)RD_ISA_SCALAR;
  if (isa == RD_ISA_AMX) o.isa_mask |= RD_ISA_AVX512;
  rd_context *ctx = NULL;
  if (rd_context_create(&o, &ctx) != RD_OK) return REFUSED;
  answer result = rd_kernel_isa(ctx, slot) == (uint32_t)isa ? SERVES : NO_KERNEL;
  rd_context_destroy(ctx);
  return result;
}

/* What the processor itself says, whether or not the system saves the registers: tells the two
 * reasons for an unusable instruction set apart. */
static int cpu_claims(rd_isa isa) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  if (isa == RD_ISA_AMX) return (d >> 24 & 1u) != 0;
  if (isa == RD_ISA_AVX512) return (b >> 16 & 1u) != 0;
  return (b >> 5 & 1u) != 0;
#else
  (void)isa;
  return 0;
#endif
}

static const char *why_not(rd_isa isa, int32_t slot) {
  if ((rd_isa_built() & (uint32_t)isa) == 0) return "not in this build";
  if ((rd_isa_usable() & (uint32_t)isa) == 0) {
    return cpu_claims(isa) ? "the system does not save its registers, or a part of it is missing"
                           : "the CPU lacks it";
  }
  switch (serves(isa, slot)) {
  case REFUSED:
    return "the system refuses the permission";
  case NO_KERNEL:
    return "has no kernel for this slot";
  case SERVES:
    break;
  }
  return "usable but not chosen";
}

static int rank_of(uint32_t isa) {
  for (int i = 0; i < CLI_ISAS; i++) {
    if ((uint32_t)cli_isas[i] == isa) return i;
  }
  return -1;
}

/* The name, and whether the build replaces its instructions. */
static const char *shown_isa(uint32_t isa) {
  if (isa & rd_isa_emulated()) return "amx, emulated";
  return rd_isa_name((rd_isa)isa);
}

/* Instruction sets of other architectures are no news in a refusal list. */
static int foreign(rd_isa isa) {
#if defined(__x86_64__)
  return isa == RD_ISA_NEON;
#elif defined(__aarch64__)
  return isa == RD_ISA_AVX2 || isa == RD_ISA_AVX512 || isa == RD_ISA_AMX;
#else
  return isa != RD_ISA_SCALAR;
#endif
}

/* Whether the context runs the kernels that flush subnormals in software: plain C although there is more,
 * or the plain C of that name. */
static int flushes_in_software(const rd_context *ctx) {
  if (strstr(rd_kernel_chosen(ctx, 0), "_soft") != NULL) return 1;
  const uint32_t better = rd_isa_usable() & rd_isa_built() & ~(uint32_t)RD_ISA_SCALAR;
  return better != 0 && rd_kernel_isa(ctx, 0) == RD_ISA_SCALAR;
}

static json_t *slot_json(const rd_context *ctx, int32_t slot, int quiet) {
  uint32_t isa = rd_kernel_isa(ctx, slot);
  const char *name = rd_isa_name((rd_isa)isa);
  json_t *refused = json_object();
  if (!quiet)
    printf("  %-16s %s (%s)\n", rd_kernel_slot_name(slot), rd_kernel_chosen(ctx, slot),
           name ? shown_isa(isa) : "FAST runs as EXACT here");
  for (int i = CLI_ISAS - 1; i > rank_of(isa); i--) {
    if (foreign(cli_isas[i])) continue;
    const char *why = why_not(cli_isas[i], slot);
    if (flushes_in_software(ctx) && (rd_isa_usable() & (uint32_t)cli_isas[i]) != 0)
      why = "the machine does not flush subnormals as the arithmetic asks";
    json_object_set_new(refused, rd_isa_name(cli_isas[i]), json_string(why));
    if (!quiet) printf("  %-16s   %s: %s\n", "", rd_isa_name(cli_isas[i]), why);
  }
  return json_pack("{s:s, s:s, s:s?, s:o}", "slot", rd_kernel_slot_name(slot), "kernel",
                   rd_kernel_chosen(ctx, slot), "isa", name, "refused", refused);
}

static json_t *isa_list(uint32_t set, int quiet, const char *title) {
  json_t *list = json_array();
  if (!quiet) printf("%-18s", title);
  for (int i = 0; i < CLI_ISAS; i++) {
    if ((set & (uint32_t)cli_isas[i]) == 0) continue;
    const int emulated = (rd_isa_emulated() & (uint32_t)cli_isas[i]) != 0;
    if (!quiet) printf(" %s%s", rd_isa_name(cli_isas[i]), emulated ? " (emulated)" : "");
    json_array_append_new(list, json_string(rd_isa_name(cli_isas[i])));
  }
  if (!quiet) putchar('\n');
  return list;
}

static json_t *features_json(int quiet) {
  feature features[MAX_FEATURES];
  int n = cpu_features(features);
  json_t *object = json_object();
  if (!quiet) printf("%-18s", "CPU features");
  for (int i = 0; i < n; i++) {
    if (!quiet) printf(" %s%s", features[i].present ? "" : "no-", features[i].name);
    json_object_set_new(object, features[i].name, json_boolean(features[i].present));
  }
  if (!quiet) putchar('\n');
  return object;
}

int cmd_info(int argc, char **argv) {
  cli_args args;
  int result = cli_read(&args, &command, argc, argv, NULL, NULL);
  if (result != CLI_GO) return result;
  int quiet = args.json;
  rd_context *ctx = NULL;
  result = cli_context(command.name, 0, 0, &ctx);
  if (result != CLI_OK) return result;

  char cpu[128];
  struct utsname machine = {0};
  cpu_name(cpu, sizeof cpu);
  uname(&machine);
  if (!quiet) {
    printf("%-18s %s\n", "redelta", rd_version());
    printf("%-18s %s, %s\n", "machine", machine.machine, cpu);
    printf("%-18s %d used, %d allowed\n", "threads", rd_context_threads(ctx), allowed_cpus());
    printf("%-18s %s\n", "subnormals",
           flushes_in_software(ctx) ? "flushed in software, with the same bits (the machine's own "
                                      "arithmetic does not flush them as asked)"
                                    : "flushed");
  }
  json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:i}", "version", rd_version(), "machine",
                           machine.machine, "cpu", cpu, "threads", (int)rd_context_threads(ctx),
                           "allowed_cpus", allowed_cpus());
  json_object_set_new(root, "subnormals",
                      json_string(flushes_in_software(ctx) ? "software" : "processor"));
  json_object_set_new(root, "features", features_json(quiet));
  json_object_set_new(root, "isa_built", isa_list(rd_isa_built(), quiet, "kernels built for"));
  json_object_set_new(root, "isa_usable", isa_list(rd_isa_usable(), quiet, "usable here"));
  json_object_set_new(root, "isa_emulated", isa_list(rd_isa_emulated(), 1, ""));
  json_t *slots = json_array();
  if (!quiet) printf("kernel slots\n");
  for (int32_t i = 0; i < rd_kernel_slots(); i++)
    json_array_append_new(slots, slot_json(ctx, i, quiet));
  json_object_set_new(root, "slots", slots);
  json_object_set_new(root, "operators", op_table_json());
  rd_context_destroy(ctx);
  if (quiet) return cli_finish_json(command.name, CLI_OK, root);
  json_decref(root);
  return cli_finish(command.name, CLI_OK);
}
