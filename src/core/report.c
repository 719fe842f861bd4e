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

/* The slots of FAST follow those of EXACT. */
enum { FOLD = RDI_SLOTS, PAIRS, SPREAD, SLOTS };

int32_t rd_kernel_slots(void) { return SLOTS; }

const char *rd_kernel_slot_name(int32_t slot) {
  static const char *const fast[] = {"fold", "pairs", "spread"};
  if (slot < 0 || slot >= SLOTS) return NULL;
  return slot < RDI_SLOTS ? rdi_slot_name((rdi_slot)slot) : fast[slot - RDI_SLOTS];
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

static const char *fast_chosen(const rdi_fast_kernels *f, int32_t slot, uint32_t *isa) {
  *isa = slot == FOLD ? f->fold_isa : slot == PAIRS ? f->pairs_isa : f->spread_isa;
  if (*isa == 0) return "exact";
  return slot == FOLD ? f->fold_name : slot == PAIRS ? f->pairs_name : f->spread_name;
}

static const char *serving(const rd_context *ctx, int32_t slot, uint32_t *isa) {
  *isa = 0;
  if (!ctx || slot < 0 || slot >= SLOTS) return NULL;
  const rdi_kernels *k = rdi_context_kernels(ctx);
  return slot < RDI_SLOTS ? chosen(k, (rdi_slot)slot, isa) : fast_chosen(&k->fast, slot, isa);
}

const char *rd_kernel_chosen(const rd_context *ctx, int32_t slot) {
  uint32_t isa;
  return serving(ctx, slot, &isa);
}

uint32_t rd_kernel_isa(const rd_context *ctx, int32_t slot) {
  uint32_t isa;
  (void)serving(ctx, slot, &isa);
  return isa;
}
