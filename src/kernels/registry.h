/* The list of kernels (registry.def) as prototypes and as a table. Slots: see rdi_kernels. */
#ifndef RDI_KERNELS_REGISTRY_H
#define RDI_KERNELS_REGISTRY_H

#include "kernels/kernel.h"

/* Kernels that flush subnormals in software. Selected alone by contexts that need them, where the
 * scalar kernels do not do so themselves; reported as RD_ISA_SCALAR, never part of a mask. */
#define RD_ISA_SOFT 0x40000000u

/* One line of the registry. Only the function of its own slot is set (rows and lanes: with its scratch).
 */
typedef struct rdi_kernel_entry {
  rdi_slot slot;
  uint32_t isa;     /* one rd_isa bit, or RD_ISA_SOFT */
  const char *name; /* "<slot>_<suffix>" */
  const char *file; /* under src/kernels */
  rdi_rows_fn rows;
  rdi_scratch_fn rows_scratch;
  rdi_commit_fn commit;
  rdi_prep_fn prep;
  rdi_widen_fn widen;
  rdi_narrow_fn narrow;
  rdi_rows_fn lanes;
  rdi_scratch_fn lanes_scratch;
  rdi_turn_fn turn;
  rdi_commit_fn lanes_commit;
  rdi_project_fn project;
} rdi_kernel_entry;

/* Entry i of [0, rdi_registry_count()), in the order of registry.def. */
int32_t rdi_registry_count(void);
const rdi_kernel_entry *rdi_registry_entry(int32_t i);

/* The instruction sets that have a line in the registry of this build, as rd_isa bits (without SOFT). */
uint32_t rdi_registry_isas(void);

const char *rdi_slot_name(rdi_slot slot); /* "rows", ...; NULL out of range */

#define RDI_ROWS(suffix, isa, file)                                                                \
  void rdi_rows_##suffix(const rdi_rows_args *args);                                               \
  int64_t rdi_rows_scratch_##suffix(int64_t R, int64_t K);
#define RDI_LANES(suffix, isa, file)                                                               \
  void rdi_lanes_##suffix(const rdi_rows_args *args);                                              \
  int64_t rdi_lanes_scratch_##suffix(int64_t R, int64_t K);                                        \
  void rdi_turn_##suffix(float *dst, int64_t dst_stride, const float *src, int64_t src_stride,     \
                         int64_t n, int64_t m);
#define RDI_TYPE_lanes_commit(name)         void name(const rdi_commit_args *args)
#define RDI_TYPE_project(name)              void name(const rdi_project_args *args)
#define RDI_TYPE_commit(name)               void name(const rdi_commit_args *args)
#define RDI_TYPE_prep(name)                 void name(const rdi_prep_args *args)
#define RDI_TYPE_widen(name)                void name(float *dst, const void *src, rd_dtype src_dtype, int64_t n)
#define RDI_TYPE_narrow(name)               void name(void *dst, rd_dtype dst_dtype, const float *src, int64_t n)
#define RDI_KERNEL(slot, suffix, isa, file) RDI_TYPE_##slot(rdi_##slot##_##suffix);
#define RDI_TYPE_fold(suffix)               int64_t rdi_fold_##suffix(const rdi_fold_args *args)
#define RDI_TYPE_spread(suffix)                                                                    \
  void rdi_spread_##suffix(const rdi_spread_args *args);                                           \
  int64_t rdi_spread_scratch_##suffix(int64_t K)
#define RDI_TYPE_chunk(suffix)                                                                     \
  int rdi_chunk_##suffix(const rdi_chunk_args *args);                                              \
  int64_t rdi_chunk_scratch_##suffix(int64_t K)
#define RDI_FAST(slot, suffix, isa, file) RDI_TYPE_##slot(suffix);
#define RDI_FAST_PAIRS(suffix, isa, file, panel)                                                   \
  void rdi_pairs_##suffix(const rdi_pairs_args *args);                                             \
  void rdi_to_panel_##suffix(float *panel_out, const float *s, int64_t stride, int64_t R,          \
                             int64_t K);                                                           \
  void rdi_from_panel_##suffix(float *s, int64_t stride, const float *panel_in, int64_t R,         \
                               int64_t K);
#include "kernels/registry.def"

#endif
