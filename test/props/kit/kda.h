/* Tensors of the named KDA operators in their three layouts, from one set of data.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PT_KDA_H
#define PT_KDA_H

#include "kit.h"

enum { KDA_D = 128 };

typedef struct kda {
  const data *d; /* Hk = Hv = N for the packed operators */
  rd_layout_qkv layout;
  int64_t B, S, rows; /* S: BSND and BNSD; rows: all tokens of TND */
  int64_t *row0;
} kda;

rd_problem kda_problem(int64_t Hk, int64_t Hv, double lower_bound);
/* Scales all q and k to a length of about 1e-3, where eps is as large as the sum of squares. */
void kda_short(data *d);
/* S 0: the longest sequence. */
kda kda_make(const data *d, rd_layout_qkv layout, int64_t S);
const char *kda_layout_name(rd_layout_qkv l);
/* A tensor with H heads of n numbers per token, in the layout; n 0: no innermost dimension. */
tb kda_tensor(const kda *x, rd_dtype t, int64_t H, int64_t n);
/* Address of head h of token t of sequence b. `t` must have been made by kda_tensor. */
void *kda_at(const kda *x, const rd_tensor *t, int64_t b, int64_t tok, int64_t h);
void kda_put(const kda *x, const tb *t, const float *const *per_sequence, int64_t H, int64_t n,
             int64_t head0,
             int64_t heads); /* [len][heads][n] per sequence into heads head0.. of H */
void kda_get(const kda *x, const tb *t, int64_t b, int64_t heads, int64_t n, float *dst);
tb kda_mixed(const kda *x); /* Q, K, V packed, filled and read-only */
tb kda_beta(const kda *x, bool trailing_one);
tb kda_g(const kda *x);
tb kda_state(const kda *x);                            /* [B,Hv,128,128] from S0 */
tb kda_weights(const float *w, int64_t Hv, int64_t n); /* n 0: [Hv] */
tb kda_cu(const kda *x);                               /* i32 [B+1] */
/* After the call: rows past a length +0, everything else inside. */
void kda_check_pads(const kda *x, const tb *out);

typedef struct kda_ref { /* per sequence, rounded to the operators' types */
  float **out, **u, **k, **a, **S;
  double **dout; /* double oracle */
} kda_ref;
kda_ref kda_expect(const data *d);

#endif
