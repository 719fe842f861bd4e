/* What every verb has to make of one set of data. SPDX-License-Identifier: Apache-2.0 */
#ifndef PT_WORLD_H
#define PT_WORLD_H

#include "kit.h"

typedef struct expected {
  float *out, *u, *k, *a, *S; /* rounded to the problem's element types */
} expected;
typedef struct world {
  const data *d;
  expected *w; /* per sequence, in C1 */
} world;

world *world_make(const data *d);
double world_bound(const data *d, int64_t T); /* numerics.md's, for random gates or none at all */
double world_abs(const data *d, int64_t T);
void world_check_oracle(const world *w); /* the specification against double */
void world_prefill(const world *w, rd_context *cx, const callopt *o);
void world_decode(const world *w, rd_context *cx, const callopt *o);
void world_speculate(const world *w, rd_context *cx, const callopt *o);
/* All of them: bits of C1, and (oracle) C1 within the bounds of double. */
void world_all(const data *d, rd_context *cx, const callopt *o, bool oracle);

#endif
