/* The misuse tables of the named operators. SPDX-License-Identifier: Apache-2.0 */
#ifndef OP_FIXTURE_H
#define OP_FIXTURE_H

#include "misuse.h"

/* A fixture begins with this; op_fix_make makes it, zeroed but for the context. */
typedef struct op_fix {
  rd_context *cx; /* what the call is given */
  bool no_params;
  watch w;
  int32_t *ints; /* what op_ints made last, to spoil */
} op_fix;
void *op_fix_make(size_t bytes);

#define SH(...) ((int64_t[]){__VA_ARGS__})
tb op_zeros(rd_dtype t, int rank, const int64_t *shape);
rd_tensor op_input(rd_dtype t, int rank, const int64_t *shape);              /* zeros */
rd_tensor op_watched(op_fix *f, rd_dtype t, int rank, const int64_t *shape); /* an output */
rd_tensor op_ints(op_fix *f, int64_t n, const int32_t *x);

/* Makes every slip of the table, each on a fixture of its own, and at last the valid call. */
void misuse_op(const char *what, void (*table)(void *fixture, slips *s), void *(*make)(void),
               rd_status (*call_it)(void *fixture));

#endif
