/* Which instruction sets and kernels there are and which a context uses. */
#include "core/context.h"
#include "kernels/registry.h"

uint32_t rd_isa_built(void) { return rdi_registry_isas(); }

uint32_t rd_isa_emulated(void) {
#ifdef RDI_EMULATE_AMX
  return rdi_registry_isas() & RD_ISA_AMX;
#else
  return 0;
#endif
}

const char *rd_isa_name(rd_isa isa) {
  switch (isa) {
  case RD_ISA_SCALAR:
    return "scalar";
  case RD_ISA_SCALAR_FMA:
    return "scalar_fma";
  case RD_ISA_AVX2:
    return "avx2";
  case RD_ISA_AVX512:
    return "avx512";
  case RD_ISA_NEON:
    return "neon";
  case RD_ISA_AMX:
    return "amx";
  }
  return NULL;
}

int32_t rd_kernel_slots(void) { return RDI_ALL_SLOTS; }

const char *rd_kernel_slot_name(int32_t slot) {
  return slot < 0 ? NULL : rdi_slot_name((rdi_slot)slot);
}

/* name NULL: no such slot. */
static rdi_serving serving(const rd_context *ctx, int32_t slot) {
  if (!ctx || slot < 0 || slot >= RDI_ALL_SLOTS) return (rdi_serving){NULL, 0};
  const rdi_serving s = rdi_context_kernels(ctx)->serving[slot];
  return s.isa ? s : (rdi_serving){"exact", 0}; /* FAST runs as EXACT there */
}

const char *rd_kernel_chosen(const rd_context *ctx, int32_t slot) {
  return serving(ctx, slot).name;
}

uint32_t rd_kernel_isa(const rd_context *ctx, int32_t slot) { return serving(ctx, slot).isa; }
