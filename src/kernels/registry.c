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
#define RDI_LANES(suffix, set, path)                                                               \
  {.slot = RDI_SLOT_lanes,                                                                         \
   .isa = RD_ISA_##set,                                                                            \
   .name = "lanes_" #suffix,                                                                       \
   .file = path,                                                                                   \
   .lanes = rdi_lanes_##suffix,                                                                    \
   .lanes_scratch = rdi_lanes_scratch_##suffix,                                                    \
   .turn = rdi_turn_##suffix},
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
  rdi_slot slot;
  uint32_t isa;
  const char *name;
  rdi_fast_kernels k;
} fast_entry;

#define INIT_fold(suffix) .fold = rdi_fold_##suffix
#define INIT_spread(suffix)                                                                        \
  .spread = rdi_spread_##suffix, .spread_scratch = rdi_spread_scratch_##suffix
#define INIT_chunk(suffix) .chunk = rdi_chunk_##suffix, .chunk_scratch = rdi_chunk_scratch_##suffix

static const fast_entry fast_entries[] = {
    {RDI_ALL_SLOTS, 0, NULL, {0}}, /* never empty */
#define RDI_ROWS(suffix, set, path)
#define RDI_LANES(suffix, set, path)
#define RDI_KERNEL(member, suffix, set, path)
#define RDI_FAST(member, suffix, set, path)                                                        \
  {RDI_SLOT_##member, RD_ISA_##set, #member "_" #suffix, {INIT_##member(suffix)}},
#define RDI_FAST_PAIRS(suffix, set, path, width)                                                   \
  {RDI_SLOT_pairs,                                                                                 \
   RD_ISA_##set,                                                                                   \
   "pairs_" #suffix,                                                                               \
   {.pairs = rdi_pairs_##suffix,                                                                   \
    .panel = (width),                                                                              \
    .to_panel = rdi_to_panel_##suffix,                                                             \
    .from_panel = rdi_from_panel_##suffix}},
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
  for (size_t i = 0; i < sizeof fast_entries / sizeof fast_entries[0]; i++)
    set |= fast_entries[i].isa;
  return set & ~RD_ISA_SOFT;
}

const char *rdi_slot_name(rdi_slot slot) {
  static const char *const names[RDI_ALL_SLOTS] = {
#define NAME(slot) #slot,
      RDI_SLOT_LIST(NAME)
#undef NAME
  };
  return (int)slot < 0 || slot >= RDI_ALL_SLOTS ? NULL : names[slot];
}

/* The functions of an entry's slot. */
static void take(rdi_kernels *out, const rdi_kernel_entry *e) {
  const uint32_t isa = e->isa == RD_ISA_SOFT ? (uint32_t)RD_ISA_SCALAR : e->isa;
  out->serving[e->slot] = (rdi_serving){e->name, isa};
  if (e->rows) out->rows = e->rows, out->rows_scratch = e->rows_scratch;
  if (e->lanes) out->lanes = e->lanes, out->lanes_scratch = e->lanes_scratch, out->turn = e->turn;
  if (e->lanes_commit) out->lanes_commit = e->lanes_commit;
  if (e->project) out->project = e->project;
  if (e->commit) out->commit = e->commit;
  if (e->prep) out->prep = e->prep;
  if (e->widen) out->widen = e->widen;
  if (e->narrow) out->narrow = e->narrow;
}

static void take_fast(rdi_kernels *out, const fast_entry *e) {
  rdi_fast_kernels *f = &out->fast;
  out->serving[e->slot] = (rdi_serving){e->name, e->isa};
  if (e->k.fold) f->fold = e->k.fold;
  if (e->k.spread) f->spread = e->k.spread, f->spread_scratch = e->k.spread_scratch;
  if (e->k.chunk) f->chunk = e->k.chunk, f->chunk_scratch = e->k.chunk_scratch;
  if (e->k.pairs) {
    f->pairs = e->k.pairs, f->panel = e->k.panel;
    f->to_panel = e->k.to_panel, f->from_panel = e->k.from_panel;
  }
}

void rdi_kernels_select(rdi_kernels *out, uint32_t isa_mask) {
  isa_mask |= RD_ISA_SCALAR;
  *out = (rdi_kernels){0};
  for (uint32_t isa = RD_ISA_SCALAR; isa != 0 && isa <= isa_mask; isa <<= 1) {
    if ((isa & isa_mask) == 0) continue;
    for (int32_t i = 0; i < COUNT; i++)
      if (entries[i].isa == isa) take(out, &entries[i]);
    for (size_t i = 0; i < sizeof fast_entries / sizeof fast_entries[0]; i++)
      if (fast_entries[i].isa == isa) take_fast(out, &fast_entries[i]);
  }
}
