/* What flash_kda and flash_kda_metadata share: sizes from q and v, and the schedule's encoding. */
#ifndef RDI_OPERATORS_FLASH_KDA_H
#define RDI_OPERATORS_FLASH_KDA_H

#include "operators/common.h"

/* A schedule is int32 words: the header, then `count` numbers (cu_seqlens of TND, per-batch lengths of
 * the padded layouts, or nothing), then a check sum of everything before it. */
enum {
  RDO_META_MAGIC = 0x52444b41, /* "RDKA" */
  RDO_META_VERSION = 1,
  RDO_META_HEADER = 9, /* magic version layout B tokens Hk Hv count words */
  RDO_META_COUNT = 7,  /* place of `count` in it */
  RDO_META_WORDS = 8   /* place of `words`: all of the schedule */
};

typedef struct rdo_flash {
  int32_t layout;
  int64_t B, S, Hk, Hv; /* S: tokens in TND */
  int b, t, h;          /* positions of the axes in q and v, -1 without batch */
} rdo_flash;

/* Layout, ranks and sizes from q, v and initial_state; with `data` also their memory is required. */
rd_status rdo_flash_sizes(rd_context *ctx, rdo_flash *f, int32_t layout, const rd_tensor *q,
                          const rd_tensor *v, const rd_tensor *initial_state, int data);

/* Checks a schedule against the call; *numbers points at its count numbers (NULL when none). */
rd_status rdo_flash_schedule(rd_context *ctx, const rdo_flash *f, const rd_tensor *metadata,
                             const int32_t **numbers);

#endif
