/* Which instruction sets and kernels there are and which a context uses. */
#include "core/context.h"
#include "kernels/registry.h"

uint32_t rd_isa_built(void) { return rdi_registry_isas(); }

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
  }
  return NULL;
}

int32_t rd_kernel_slots(void) { return RDI_SLOTS; }

const char *rd_kernel_slot_name(int32_t slot) {
  return slot < 0 || slot >= RDI_SLOTS ? NULL : rdi_slot_name((rdi_slot)slot);
}

/* The switch has no default, so that a new slot without a line here is a compiler warning. */
static const char *chosen(const rdi_kernels *k, rdi_slot slot, uint32_t *isa) {
  switch (slot) {
  case RDI_SLOT_rows:
    *isa = k->rows_isa;
    return k->rows_name;
  case RDI_SLOT_commit:
    *isa = k->commit_isa;
    return k->commit_name;
  case RDI_SLOT_prep:
    *isa = k->prep_isa;
    return k->prep_name;
  case RDI_SLOT_widen:
    *isa = k->widen_isa;
    return k->widen_name;
  case RDI_SLOT_narrow:
    *isa = k->narrow_isa;
    return k->narrow_name;
  case RDI_SLOTS:
    break;
  }
  *isa = 0;
  return NULL;
}

const char *rd_kernel_chosen(const rd_context *ctx, int32_t slot) {
  uint32_t isa;
  if (!ctx || slot < 0 || slot >= RDI_SLOTS) return NULL;
  return chosen(rdi_context_kernels(ctx), (rdi_slot)slot, &isa);
}

uint32_t rd_kernel_isa(const rd_context *ctx, int32_t slot) {
  uint32_t isa;
  if (!ctx || slot < 0 || slot >= RDI_SLOTS) return 0;
  (void)chosen(rdi_context_kernels(ctx), (rdi_slot)slot, &isa);
  return isa;
}
