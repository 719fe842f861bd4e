/* Shadow memory of the checker: per 32-byte granule, who touched it last and which bytes hold data.
 */
#ifndef REDELTA_NPU_SHADOW_H
#define REDELTA_NPU_SHADOW_H

#include "npu/isa/instruction.h"

#define GRANULE_ENTRIES 4
#define LIVE_RECORDS    32 /* unordered records of a granule that are told apart */

typedef struct shadow_entry {
  uint32_t index, mask;
  uint8_t pipe;
  bool write;
} shadow_entry;

typedef struct granule { /* one cache line */
  uint32_t init;         /* byte mask */
  uint32_t count;
  shadow_entry entry[GRANULE_ENTRIES];
  struct granule *more; /* further records, rare */
} granule;

#define PAGE_GRANULES 256 /* of GM, allocated when first touched */

typedef struct gm_shadow {
  granule **pages;
  uint64_t page_count;
} gm_shadow;

typedef struct shadow {
  const rd_npu_launch *launch;
  granule *local[RD_NPU_BUFFERS];
  uint64_t granules[RD_NPU_BUFFERS];
  gm_shadow *gm;
  bool grown; /* some granule has more records */
} shadow;

bool rdn_shadow_init(shadow *s, const rd_npu_launch *l);
void rdn_shadow_reset(shadow *s);
void rdn_shadow_free(shadow *s);
granule *rdn_shadow_at(shadow *s, unsigned buffer, uint32_t tensor,
                       uint64_t index); /* NULL: no memory */
/* A free record; NULL: no memory. */
shadow_entry *rdn_shadow_entry(shadow *s, granule *g);
/* Initialisation of a move's destination becomes that of its source. */
bool rdn_shadow_move(shadow *s, const insn *i, const operand *src, const operand *dst);

#endif
