/* Which sizes the parameter structs have had since 0.2, the first version whose layout is kept.
 *
 * Whoever appends a field puts the size before it in front of `sizeof`, as offsetof(type, that
 * field): no struct ends in padding, so the two are one number. */
#include "core/structs.h"

const size_t rdi_struct_sizes[RDI_STRUCTS][RDI_SIZES] = {
    [RDI_STRUCT_CONTEXT_OPTIONS] = {sizeof(rd_context_options)},
    [RDI_STRUCT_PROBLEM] = {sizeof(rd_problem)},
    [RDI_STRUCT_PLAN_INFO] = {sizeof(rd_plan_info)},
    [RDI_STRUCT_SEQUENCES] = {sizeof(rd_sequences)},
    [RDI_STRUCT_ACTIVATIONS] = {sizeof(rd_activations)},
    [RDI_STRUCT_SLOTS] = {sizeof(rd_slots)},
    [RDI_STRUCT_RECORDS] = {sizeof(rd_records)},
    [RDI_STRUCT_CHUNK_GATED_DELTA_RULE] = {sizeof(rd_chunk_gated_delta_rule_params)},
    [RDI_STRUCT_FUSED_RECURRENT_KDA_REPLAYSSM] = {sizeof(rd_fused_recurrent_kda_replayssm_params)},
    [RDI_STRUCT_COMMIT_RECURRENT_KDA_REPLAYSSM] = {sizeof(
        rd_commit_recurrent_kda_replayssm_params)},
    [RDI_STRUCT_FLASH_KDA_METADATA] = {sizeof(rd_flash_kda_metadata_params)},
    [RDI_STRUCT_FLASH_KDA] = {sizeof(rd_flash_kda_params)},
    [RDI_STRUCT_FUSED_RECURRENT_KDA] = {sizeof(rd_fused_recurrent_kda_params)},
};
