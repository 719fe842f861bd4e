/* Contexts and the names of instruction sets. SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <string.h>

const rd_isa cli_isas[CLI_ISAS] = {RD_ISA_SCALAR, RD_ISA_SCALAR_FMA, RD_ISA_NEON,
                                   RD_ISA_AVX2,   RD_ISA_AVX512,     RD_ISA_AMX};

uint32_t cli_isa_mask(const char *command, const char *name) {
  for (int i = 0; i < CLI_ISAS; i++) {
    uint32_t isa = (uint32_t)cli_isas[i];
    if (strcmp(name, rd_isa_name(cli_isas[i])) != 0) continue;
    if ((rd_isa_built() & isa) == 0) {
      cli_fail(command, 0, "--isa %s: this build has no such kernels", name);
      return 0;
    }
    if ((rd_isa_usable() & isa) == 0) {
      cli_fail(command, 0, "--isa %s: this machine cannot run it", name);
      return 0;
    }
    uint32_t scalar = isa == RD_ISA_SCALAR ? 0u : (uint32_t)RD_ISA_SCALAR_FMA & rd_isa_usable();
    if (isa == RD_ISA_AMX) isa |= RD_ISA_AVX512;
    return isa | scalar | (uint32_t)RD_ISA_SCALAR;
  }
  cli_fail(command, 0, "--isa: expected scalar, scalar_fma, avx2, avx512, amx or neon, got '%s'",
           name);
  return 0;
}

int cli_context(const char *command, int32_t threads, uint32_t isa_mask, rd_context **ctx) {
  rd_context_options options;
  rd_context_options_init(&options);
  options.threads = threads;
  options.isa_mask = isa_mask;
  rd_status status = rd_context_create(&options, ctx);
  if (status == RD_OK) return CLI_OK;
  char with[48] = "a thread per usable CPU";
  if (threads > 0) snprintf(with, sizeof with, "%d thread%s", threads, threads == 1 ? "" : "s");
  return cli_fail(command, cli_status_of(status), "cannot create a context with %s: %s", with,
                  rd_status_name(status));
}
