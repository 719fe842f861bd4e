/* The only way of a caller's struct into the library, and of results back into one. */
#include "core/structs.h"

#include <string.h>

#define RESERVED(type, field) offsetof(type, field), sizeof(((type *)0)->field)

static const size_t full_size[RDI_STRUCTS] = {
#define SIZE(id, type) [id] = sizeof(type),
    RDI_STRUCT_LIST(SIZE)
#undef SIZE
};

/* What must be zero; most structs have none. */
static void reserved_of(rdi_struct kind, size_t *at, size_t *bytes) {
  static const struct {
    rdi_struct kind;
    size_t at, bytes;
  } all[] = {
      {RDI_STRUCT_CONTEXT_OPTIONS, RESERVED(rd_context_options, executor.reserved)},
      {RDI_STRUCT_PROBLEM, RESERVED(rd_problem, reserved)},
      {RDI_STRUCT_CHUNK_GATED_DELTA_RULE, RESERVED(rd_chunk_gated_delta_rule_params, reserved)},
      {RDI_STRUCT_COMMIT_RECURRENT_KDA_REPLAYSSM,
       RESERVED(rd_commit_recurrent_kda_replayssm_params, reserved)},
      {RDI_STRUCT_FLASH_KDA_METADATA, RESERVED(rd_flash_kda_metadata_params, reserved)},
      {RDI_STRUCT_FLASH_KDA, RESERVED(rd_flash_kda_params, reserved)},
  };
  *at = *bytes = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    if (all[i].kind == kind) *at = all[i].at, *bytes = all[i].bytes;
}

size_t rdi_struct_newest(rdi_struct kind) {
  size_t size = 0;
  for (int i = 0; i < RDI_SIZES && rdi_struct_sizes[kind][i]; i++) size = rdi_struct_sizes[kind][i];
  return size;
}

rd_status rdi_struct_check_size(rdi_struct kind, size_t got) {
  for (int i = 0; i < RDI_SIZES && rdi_struct_sizes[kind][i]; i++)
    if (rdi_struct_sizes[kind][i] == got) return RD_OK;
  return RD_E_STRUCT_SIZE;
}

rd_status rdi_struct_take(rdi_struct kind, const void *from, void *to) {
  if (!from) return RD_E_NULL;
  size_t got;
  memcpy(&got, from, sizeof got);
  const rd_status status = rdi_struct_check_size(kind, got);
  if (status != RD_OK) return status;
  memcpy(to, from, got);
  memset((char *)to + got, 0, full_size[kind] - got);
  memcpy(to, &full_size[kind], sizeof full_size[kind]);
  size_t at, bytes;
  reserved_of(kind, &at, &bytes);
  for (size_t i = at; i < at + bytes; i++)
    if (((const char *)to)[i]) return RD_E_PRESENCE;
  return RD_OK;
}

void rdi_struct_put(void *to, const void *from, size_t at, size_t n) {
  size_t size;
  memcpy(&size, to, sizeof size);
  if (at >= size) return;
  if (n > size - at) n = size - at;
  memcpy((char *)to + at, (const char *)from + at, n);
}

void rdi_struct_init(void *to, size_t size, const void *defaults, size_t defaults_size) {
  if (!to || size < sizeof size) return;
  memset(to, 0, size);
  memcpy(to, defaults, size < defaults_size ? size : defaults_size);
  memcpy(to, &size, sizeof size);
}

/* ---- structs whose defaults are all zero */
#define ALL_ZERO(type)                                                                             \
  void type##_init_sized(type *to, size_t struct_size) {                                           \
    static const type zero;                                                                        \
    rdi_struct_init(to, struct_size, &zero, sizeof zero);                                          \
  }
ALL_ZERO(rd_context_options)
ALL_ZERO(rd_plan_info)
ALL_ZERO(rd_sequences)
ALL_ZERO(rd_activations)
ALL_ZERO(rd_slots)
ALL_ZERO(rd_records)
