/* The checks shared by verbs and operators. Each names the parameter, what was expected, what came.
 */
#ifndef RDI_CORE_CHECK_H
#define RDI_CORE_CHECK_H

#include "redelta/core.h"
#include "core/job.h"

/* Leaves the calling function with the first status that is not RD_OK. */
#define TRY(call)                                                                                  \
  do {                                                                                             \
    const rd_status status_ = (call);                                                              \
    if (status_ != RD_OK) return status_;                                                          \
  } while (0)

enum { /* sets of element types, 1 << rd_dtype */
       RDI_DT_F32 = 1 << RD_F32,
       RDI_DT_F16 = 1 << RD_F16,
       RDI_DT_BF16 = 1 << RD_BF16,
       RDI_DT_FLOAT = RDI_DT_F32 | RDI_DT_F16 | RDI_DT_BF16,
       RDI_DT_I32 = 1 << RD_I32,
       RDI_DT_INDEX = (1 << RD_I32) | (1 << RD_I64)
};

enum { RDI_CONTIGUOUS = 1, RDI_OUTPUT = 2, RDI_OPTIONAL = 4 };

/* A pad slot of no problem: no index means "pad". */
#define RDI_NO_PAD INT64_MIN

/* shape[i] < 0 accepts any extent >= 0 there. Checks presence (RD_E_NULL; with RDI_OPTIONAL an
 * absent tensor passes), dtype, rank, shape, strides (innermost 1, >= 0, contiguous with
 * RDI_CONTIGUOUS, no shared elements with RDI_OUTPUT), that the byte range fits 64 bits, and data
 * != NULL and aligned to its element when there are elements. */
rd_status rdi_check_tensor(rd_context *ctx, const char *name, const rd_tensor *t, int dtypes,
                           int rank, const int64_t *shape, int flags);

/* cu: [B+1], starts at 0, never decreases (strict: rises), ends <= total (exact_end: == total). */
rd_status rdi_check_cu(rd_context *ctx, const char *name, const rd_tensor *cu, int64_t B,
                       int64_t total, int strict, int exact_end);

/* Every number of an i32/i64 vector in [lo, hi]; `status` is what a violation returns. */
rd_status rdi_check_range(rd_context *ctx, const char *name, const rd_tensor *t, int64_t lo,
                          int64_t hi, rd_status status);

/* The sequences of a call whose index vectors have passed the checks above. cu and lengths may be
 * NULL or absent. */
rdi_seqs rdi_seqs_of(int64_t B, int64_t T, const rd_tensor *cu, const rd_tensor *lengths);

/* Byte ranges. Add every tensor of the call, then check: an output may meet nothing, except a pair
 * registered as `same` whose views are identical. */
typedef struct rdi_alias_entry {
  const char *name;
  const rd_tensor *t;
  int is_output;
  const rd_tensor *same, *same2; /* may be exactly one of these views; NULL: of none */
} rdi_alias_entry;
enum { RDI_ALIAS_MAX = 40 }; /* entries of one check */
rd_status rdi_check_alias(rd_context *ctx, const rdi_alias_entry *entries, int count);

/* scale: finite, and finite as f32. none (or default) gives (float)(1/sqrt((double)K)). */
rd_status rdi_check_scale(rd_context *ctx, const char *name, int none, double scale, int64_t K,
                          float *out);
rd_status rdi_check_lower_bound(rd_context *ctx, const char *name, double lb, float *out);
rd_status rdi_check_heads(rd_context *ctx, const char *hk_name, int64_t Hk, const char *hv_name,
                          int64_t Hv);

/* Slots: range, duplicates among written ones, cross-sequence reads of written ones (when both are
 * of one pool). read or write may be NULL or absent. Linear in B, never in the pool's size beyond
 * it: takes at most rdi_slot_scratch(B) bytes of the arena. `name` stands in for a NULL
 * rdi_states.name. */
rd_status rdi_check_slots(rd_context *ctx, const char *name, const rdi_states *read,
                          const rdi_states *write, int64_t B, int64_t pad_slot);

/* The same with a written slot per token: snapshots->index is [tokens]. A sequence may overwrite
 * the slot that it reads itself. Takes rdi_slot_scratch(B) + rdi_slot_scratch(B + tokens). */
rd_status rdi_check_snapshots(rd_context *ctx, const char *name, const rdi_seqs *seqs,
                              int64_t tokens, const rdi_states *read, const rdi_states *write,
                              const rdi_states *snapshots, int64_t pad_slot);
size_t rdi_slot_scratch(int64_t n);

/* Within one pool: no sequence writes the slot that it reads. */
rd_status rdi_check_apart(rd_context *ctx, const rdi_states *read, const rdi_states *write,
                          int64_t B, int64_t pad_slot);

/* Views of the usual shapes. dims: positions of b, t, h in the tensor (or -1). */
rdi_view rdi_view_of(const rd_tensor *t, int b, int tt, int h);

#endif
