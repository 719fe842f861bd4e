/* The checks shared by verbs and operators. Each names the parameter, what was expected, what came.
 */
#ifndef RDI_CORE_CHECK_H
#define RDI_CORE_CHECK_H

#include "redelta/core.h"

#include "core/structs.h"

/* Leaves the calling function with the first status that is not RD_OK. */
#define RDI_TRY(call)                                                                              \
  do {                                                                                             \
    const rd_status status_ = (call);                                                              \
    if (status_ != RD_OK) return status_;                                                          \
  } while (0)

/* rdi_struct_take under the argument's name. */
rd_status rdi_check_struct(rd_context *ctx, rdi_struct kind, const char *name, const void *from,
                           void *to);

enum { /* sets of element types, 1 << rd_dtype */
       RDI_DT_F32 = 1 << RD_F32,
       RDI_DT_F16 = 1 << RD_F16,
       RDI_DT_BF16 = 1 << RD_BF16,
       RDI_DT_FLOAT = RDI_DT_F32 | RDI_DT_F16 | RDI_DT_BF16,
       RDI_DT_I32 = 1 << RD_I32,
       RDI_DT_INDEX = (1 << RD_I32) | (1 << RD_I64)
};

enum { RDI_CONTIGUOUS = 1, RDI_OUTPUT = 2, RDI_OPTIONAL = 4, RDI_ANY_INNER = 8 };

/* An absent tensor is all zero: RD_E_DTYPE for one whose type is 0 while other fields are set. For
 * places that ask for a type of RD_ABSENT themselves; the two checks below do it. */
rd_status rdi_check_blank(rd_context *ctx, const char *name, const rd_tensor *t);

/* RD_E_PRESENCE ("must be absent <why>") for a tensor that is there. */
rd_status rdi_check_absent(rd_context *ctx, const char *name, const rd_tensor *t, const char *why);

/* shape[i] < 0 accepts any extent >= 0 there. Checks presence (RD_E_NULL; with RDI_OPTIONAL an
 * absent tensor passes), dtype, rank, shape, strides (>= 0, innermost 1 except with RDI_ANY_INNER,
 * contiguous with RDI_CONTIGUOUS, no shared elements with RDI_OUTPUT), that the byte range fits 64 bits, and data
 * != NULL and aligned to its element when there are elements. */
rd_status rdi_check_tensor(rd_context *ctx, const char *name, const rd_tensor *t, int dtypes,
                           int rank, const int64_t *shape, int flags);

/* cu: [B+1], starts at 0, never decreases, ends <= total. RDI_CU_RISES: no two are equal;
 * RDI_CU_ALL: ends == total. */
enum { RDI_CU_RISES = 1, RDI_CU_ALL = 2 };
rd_status rdi_check_cu(rd_context *ctx, const char *name, const rd_tensor *cu, int64_t B,
                       int64_t total, int flags);

/* Every number of an i32/i64 vector in [lo, hi]; `status` is what a violation returns. */
rd_status rdi_check_range(rd_context *ctx, const char *name, const rd_tensor *t, int64_t lo,
                          int64_t hi, rd_status status);

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

#endif
