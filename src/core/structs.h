/* The caller's parameter structs: which sizes there have been, and the only way in and out. */
#ifndef RDI_CORE_STRUCTS_H
#define RDI_CORE_STRUCTS_H

#include "redelta/operators.h"

/* Struct id, type. */
#define RDI_STRUCT_LIST(X)                                                                         \
  X(RDI_STRUCT_CONTEXT_OPTIONS, rd_context_options)                                                \
  X(RDI_STRUCT_PROBLEM, rd_problem)                                                                \
  X(RDI_STRUCT_PLAN_INFO, rd_plan_info)                                                            \
  X(RDI_STRUCT_SEQUENCES, rd_sequences)                                                            \
  X(RDI_STRUCT_ACTIVATIONS, rd_activations)                                                        \
  X(RDI_STRUCT_SLOTS, rd_slots)                                                                    \
  X(RDI_STRUCT_RECORDS, rd_records)                                                                \
  X(RDI_STRUCT_CHUNK_GATED_DELTA_RULE, rd_chunk_gated_delta_rule_params)                           \
  X(RDI_STRUCT_FUSED_RECURRENT_KDA_REPLAYSSM, rd_fused_recurrent_kda_replayssm_params)             \
  X(RDI_STRUCT_COMMIT_RECURRENT_KDA_REPLAYSSM, rd_commit_recurrent_kda_replayssm_params)           \
  X(RDI_STRUCT_FLASH_KDA_METADATA, rd_flash_kda_metadata_params)                                   \
  X(RDI_STRUCT_FLASH_KDA, rd_flash_kda_params)                                                     \
  X(RDI_STRUCT_FUSED_RECURRENT_KDA, rd_fused_recurrent_kda_params)

typedef enum rdi_struct {
#define ID(id, type) id,
  RDI_STRUCT_LIST(ID)
#undef ID
      RDI_STRUCTS
} rdi_struct;

/* The sizes that callers may have been compiled with, rising, zeros behind the last; the last one is
 * this library's. In a file of its own (struct_sizes.c), so that a test can bring another history. */
enum { RDI_SIZES = 8 };
extern const size_t rdi_struct_sizes[RDI_STRUCTS][RDI_SIZES];

/* Copies a caller's struct into the full-size `to`; fields its version does not have are zero.
 * RD_E_NULL, RD_E_STRUCT_SIZE (a size that no version had), RD_E_PRESENCE (reserved fields that are
 * not zero). rdi_check_struct (check.h) also says so in the context's message. */
rd_status rdi_struct_take(rdi_struct kind, const void *from, void *to);

/* RD_OK or RD_E_STRUCT_SIZE. */
rd_status rdi_struct_check_size(rdi_struct kind, size_t got);
size_t rdi_struct_newest(rdi_struct kind);

/* Writes bytes [at, at + n) of a full-size struct back, as far as the caller's struct_size goes. */
void rdi_struct_put(void *to, const void *from, size_t at, size_t n);

/* What every _init_sized does: the defaults as far as `size` goes, zeros beyond, and the size. */
void rdi_struct_init(void *to, size_t size, const void *defaults, size_t defaults_size);

#endif
