/* redelta/types.h - status codes, element types, tensor views. SPDX-License-Identifier: Apache-2.0
 *
 * Letters used in every comment of this library:
 *   B batch   T tokens   Hk key heads   Hv value heads   K key size   V value size   C record capacity
 *   S the state [V,K] of one head in equations, the tokens of a sequence in operator layouts (BSND)
 *   N heads of an operator whose key and value heads are as many    R slots of an operator's states
 * All strides are in elements, all counts are 64-bit.
 *
 * Structs: fields that hold an enumeration are int32_t, so that no compiler option changes a size.
 * Parameter structs begin with their size, which their _init function sets beside the defaults (NULL
 * is allowed); later versions append fields, take the sizes of earlier ones, and read what an older
 * caller does not have as zero. The _init functions are inline, so that they know the caller's size;
 * bindings call _init_sized with theirs.
 * `reserved` must stay zero (RD_E_PRESENCE). rd_tensor, rd_executor and rd_allocator have no size and
 * never change.
 */
#ifndef REDELTA_TYPES_H
#define REDELTA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RD_API
#elif defined(__GNUC__)
#define RD_API __attribute__((visibility("default")))
#else
#define RD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns. On any status other than RD_OK no output byte has changed; rd_last_error()
 * then names the parameter, what was expected and what came. Later versions may return further
 * statuses: treat one that you do not know as a failure. */
typedef enum rd_status {
  RD_OK = 0,
  RD_E_NULL = 1,         /* a required pointer or tensor is missing */
  RD_E_STRUCT_SIZE = 2,  /* struct_size of a parameter struct is not one this library knows */
  RD_E_ENUM = 3,         /* an enumeration or flag has no such value */
  RD_E_DTYPE = 4,        /* element type not accepted for this tensor */
  RD_E_RANK = 5,         /* wrong number of dimensions */
  RD_E_SHAPE = 6,        /* a dimension is out of range or disagrees with another tensor */
  RD_E_HEADS = 7,        /* Hv is not a multiple of Hk, or a head count is out of range */
  RD_E_STRIDE = 8,       /* negative, unfit innermost, misaligned data, self-overlapping output */
  RD_E_ALIAS = 9,        /* an output shares bytes with another tensor */
  RD_E_SCALE = 10,       /* scale is not finite (also after rounding to f32) */
  RD_E_LOWER_BOUND = 11, /* lower_bound outside [-5, 0] */
  RD_E_EPS = 12,         /* l2 epsilon negative or not finite */
  RD_E_CU_START = 13,    /* cu_seqlens does not start at 0 */
  RD_E_CU_ORDER = 14,    /* cu_seqlens decreases (or does not rise where it must) */
  RD_E_CU_END = 15,      /* cu_seqlens ends outside the token dimension */
  RD_E_LENGTH = 16,      /* a sequence length is negative, zero where forbidden, or too long */
  RD_E_CAPACITY = 17,    /* more tokens than the records' capacity C */
  RD_E_SLOT_RANGE = 18,  /* a slot index is outside the pool */
  RD_E_SLOT_DUPLICATE = 19, /* a slot written twice, or read by another sequence */
  RD_E_ACCEPTED = 20,       /* an accepted count is outside [0, length] */
  RD_E_BLOCK_NUM = 21,      /* block_num is none of the allowed values */
  RD_E_RECORDS = 22,        /* records do not belong to this problem (kind, sizes, types) */
  RD_E_CONSUMED = 23,       /* records were already committed */
  RD_E_PRESENCE = 24,   /* something is given that must be absent here, or two exclude each other */
  RD_E_METADATA = 25,   /* metadata is damaged or was made for another call */
  RD_E_OVERFLOW = 26,   /* a size does not fit 64 bits */
  RD_E_NOMEM = 27,      /* the allocator returned NULL */
  RD_E_BUSY = 28,       /* the context is inside another call */
  RD_E_ARITHMETIC = 29, /* known-answer check failed: this build or machine rounds differently */
  RD_E_EXECUTOR = 30,   /* the executor reported failure; outputs are undefined (only this one) */
  RD_E_ISA = 31,        /* the CPU mask leaves no kernel, or names an ISA this machine lacks */
  RD_E_PLAN = 32,       /* plan was made for another problem or smaller maximum shapes */
  RD_E_BUFFER = 33,     /* a serialised buffer is too small, damaged or of another version */
  RD_E_SYSTEM = 34,     /* the operating system refused (threads) */
  RD_E_TREE = 35        /* a draft tree in which a node's parent is no earlier node and not -1 */
} rd_status;

/* A short English name of a status ("RD_E_DTYPE"); "RD_E_?" for an unknown one. Never NULL. */
RD_API const char *rd_status_name(rd_status status);

/* Element types. 0 is that of an absent tensor, whose other fields are zero, too. */
typedef enum rd_dtype {
  RD_ABSENT = 0,
  RD_F32 = 1,
  RD_F16 = 2,  /* IEEE binary16 */
  RD_BF16 = 3, /* upper half of binary32 */
  RD_I32 = 4,
  RD_I64 = 5
} rd_dtype;

/* Bytes of one element; 0 for RD_ABSENT or an unknown type. */
RD_API size_t rd_dtype_size(rd_dtype dtype);

#define RD_MAX_RANK 4

/* A view of caller-owned memory. A zero-initialised view is an absent tensor; one whose dtype alone is
 * 0 is a mistake (RD_E_DTYPE), wherever a tensor may be absent, too.
 *   - Innermost stride must be 1 where the innermost dimension exceeds 1, except of those inputs of a
 *     verb that say otherwise. Other strides: any value >= 0 for inputs (0 broadcasts); elements of an
 *     output may not share memory.
 *   - A tensor with no elements may have data == NULL.
 *   - `data` is not const so that one type serves all; inputs are never written. */
typedef struct rd_tensor {
  void *data;
  int32_t dtype; /* rd_dtype */
  int32_t rank;
  int64_t shape[RD_MAX_RANK];
  int64_t stride[RD_MAX_RANK];
} rd_tensor;

/* A contiguous view: strides from shape, last dimension fastest. rank 1..RD_MAX_RANK.
 * Returns an absent tensor when rank is out of range. Shapes are checked by the call that uses it. */
RD_API rd_tensor rd_tensor_contiguous(void *data, rd_dtype dtype, int32_t rank,
                                      const int64_t *shape);

#ifdef __cplusplus
}
#endif
#endif
