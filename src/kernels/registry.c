/* The table of all kernels and the choice for one context. */
#include "kernels/registry.h"

static const rdi_kernel_entry entries[] = {
#define RDI_ROWS(suffix, set, path)                                                                \
  {.slot = RDI_SLOT_rows,                                                                          \
   .isa = RD_ISA_##set,                                                                            \
   .name = "rows_" #suffix,                                                                        \
   .file = path,                                                                                   \
   .rows = rdi_rows_##suffix,                                                                      \
   .rows_scratch = rdi_rows_scratch_##suffix},
#define RDI_KERNEL(member, suffix, set, path)                                                      \
  {.slot = RDI_SLOT_##member,                                                                      \
   .isa = RD_ISA_##set,                                                                            \
   .name = #member "_" #suffix,                                                                    \
   .file = path,                                                                                   \
   .member = rdi_##member##_##suffix},
#define RDI_FAST(member, suffix, set, path)
#define RDI_FAST_PAIRS(suffix, set, path, width)
#include "kernels/registry.def"
};

/* FAST has a table of its own: a line sets some members, the others stay as they are. */
typedef struct fast_entry {
  uint32_t isa;
  rdi_fast_kernels k;
} fast_entry;

#define INIT_fold(suffix) .fold = rdi_fold_##suffix, .fold_name = "fold_" #suffix
#define INIT_spread(suffix)                                                                        \
  .spread = rdi_spread_##suffix, .spread_scratch = rdi_spread_scratch_##suffix,                    \
  .spread_name = "spread_" #suffix

static const fast_entry fast_entries[] = {
    {0, {0}}, /* never empty */
#define RDI_ROWS(suffix, set, path)
#define RDI_KERNEL(member, suffix, set, path)
#define RDI_FAST(member, suffix, set, path) {RD_ISA_##set, {INIT_##member(suffix)}},
#define RDI_FAST_PAIRS(suffix, set, path, width)                                                   \
  {RD_ISA_##set,                                                                                   \
   {.pairs = rdi_pairs_##suffix,                                                                   \
    .panel = (width),                                                                              \
    .to_panel = rdi_to_panel_##suffix,                                                             \
    .from_panel = rdi_from_panel_##suffix,                                                         \
    .pairs_name = "pairs_" #suffix}},
#include "kernels/registry.def"
};

enum { COUNT = sizeof entries / sizeof entries[0] };

int32_t rdi_registry_count(void) { return COUNT; }

const rdi_kernel_entry *rdi_registry_entry(int32_t i) {
  return i < 0 || i >= COUNT ? NULL : &entries[i];
}

uint32_t rdi_registry_isas(void) {
  uint32_t set = 0;
  for (int32_t i = 0; i < COUNT; i++) set |= entries[i].isa;
  return set;
}

const char *rdi_slot_name(rdi_slot slot) {
  static const char *const names[RDI_SLOTS] = {"rows", "commit", "prep", "widen", "narrow"};
  return (int)slot < 0 || slot >= RDI_SLOTS ? NULL : names[slot];
}

static void take(rdi_kernels *out, const rdi_kernel_entry *e) {
  switch (e->slot) {
  case RDI_SLOT_rows:
    out->rows = e->rows, out->rows_scratch = e->rows_scratch;
    out->rows_name = e->name, out->rows_isa = e->isa;
    break;
  case RDI_SLOT_commit:
    out->commit = e->commit, out->commit_name = e->name, out->commit_isa = e->isa;
    break;
  case RDI_SLOT_prep:
    out->prep = e->prep, out->prep_name = e->name, out->prep_isa = e->isa;
    break;
  case RDI_SLOT_widen:
    out->widen = e->widen, out->widen_name = e->name, out->widen_isa = e->isa;
    break;
  case RDI_SLOT_narrow:
    out->narrow = e->narrow, out->narrow_name = e->name, out->narrow_isa = e->isa;
    break;
  case RDI_SLOTS:
    break;
  }
}

static void take_fast(rdi_fast_kernels *out, const rdi_fast_kernels *k, uint32_t isa) {
  if (k->fold) out->fold = k->fold, out->fold_name = k->fold_name, out->fold_isa = isa;
  if (k->spread) {
    out->spread = k->spread, out->spread_scratch = k->spread_scratch;
    out->spread_name = k->spread_name, out->spread_isa = isa;
  }
  if (k->pairs) {
    out->pairs = k->pairs, out->panel = k->panel;
    out->pairs_name = k->pairs_name, out->pairs_isa = isa;
    out->to_panel = k->to_panel, out->from_panel = k->from_panel;
  }
}

static void select_fast(rdi_fast_kernels *out, uint32_t isa_mask) {
  *out = (rdi_fast_kernels){0};
  for (uint32_t isa = RD_ISA_SCALAR; isa != 0 && isa <= isa_mask; isa <<= 1)
    for (size_t i = 0; i < sizeof fast_entries / sizeof fast_entries[0]; i++)
      if (fast_entries[i].isa == isa && (isa & isa_mask) != 0)
        take_fast(out, &fast_entries[i].k, isa);
}

void rdi_kernels_select(rdi_kernels *out, uint32_t isa_mask) {
  isa_mask |= RD_ISA_SCALAR;
  select_fast(&out->fast, isa_mask);
  for (uint32_t isa = RD_ISA_SCALAR; isa != 0 && isa <= isa_mask; isa <<= 1)
    for (int32_t i = 0; i < COUNT; i++)
      if (entries[i].isa == isa && (isa & isa_mask) != 0) take(out, &entries[i]);
}
