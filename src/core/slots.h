/* The checks of slot indices: every slot in range, written once, not read across sequences. */
#ifndef RDI_CORE_SLOTS_H
#define RDI_CORE_SLOTS_H

#include "core/job.h"

/* A pad slot of no problem: no index means "pad". */
#define RDI_NO_PAD INT64_MIN

/* Slots: range, duplicates among written ones, cross-sequence reads of written ones (when both are
 * of one pool). read or write may be NULL or absent. Linear in B, never in the pool's size beyond
 * it: takes at most rdi_slot_scratch(B) bytes of the arena. `name` stands in for a NULL
 * rdi_states.name. */
rd_status rdi_check_slots(rd_context *ctx, const char *name, const rdi_states *read,
                          const rdi_states *write, int64_t B, int64_t pad_slot);

/* The same with a written slot per token: snapshots->index is [tokens]. A sequence may overwrite
 * the slot that it reads itself. Takes rdi_slot_scratch(B) + rdi_slot_scratch(B + n), n being the
 * tokens of the sequences; rows of the activations that belong to none are not counted. */
rd_status rdi_check_snapshots(rd_context *ctx, const char *name, const rdi_seqs *seqs,
                              const rdi_states *read, const rdi_states *write,
                              const rdi_states *snapshots, int64_t pad_slot);
size_t rdi_slot_scratch(int64_t n);

/* Within one pool: no sequence writes the slot that it reads. */
rd_status rdi_check_apart(rd_context *ctx, const rdi_states *read, const rdi_states *write,
                          int64_t B, int64_t pad_slot);

#endif
