/* States between memory, in any layout and type, and the blocks that kernels work on. */
#ifndef RDI_CORE_STATES_H
#define RDI_CORE_STATES_H

#include "core/job.h"
#include "kernels/kernel.h"

/* Rows that are worked on together while they are in the first-level cache (32 x 128 floats = 16
 * KiB). */
enum { RDI_SUB_ROWS = 32 };

typedef struct rdi_rows_at { /* row r of a located head block, at p; NULL: no such state */
  char *p;
  const rdi_states *s;
} rdi_rows_at;

/* Whether the index of sequence b is the pad slot (never for an absent pool). */
int rdi_is_pad(const rdi_states *s, int64_t b, int64_t pad_slot);
/* The state of index entry i, head h, rows from r on. p is NULL when absent or the pad slot. */
rdi_rows_at rdi_state_at(const rdi_states *s, int64_t i, int64_t h, int64_t r, int64_t pad_slot);
rdi_rows_at rdi_rows_from(rdi_rows_at at, int64_t r); /* r rows further */

/* f32 rows that a kernel can work on where they are. */
int rdi_is_plain(const rdi_states *s);
/* The same of an f32 state that lies key by key, where there are kernels for that. */
int rdi_is_by_key(const rdi_states *s, const rdi_kernels *k);

/* R rows x K keys between memory and an f32 block [R][stride]; src.p NULL: zeros. */
void rdi_load_native(const rdi_kernels *k, float *dst, int64_t stride, rdi_rows_at src, int64_t R,
                     int64_t K);
void rdi_store_native(const rdi_kernels *k, rdi_rows_at dst, const float *src, int64_t stride,
                      int64_t R, int64_t K);
/* dst := src without arithmetic when both are of one kind, else converted; src.p NULL: zeros. */
void rdi_copy_rows(const rdi_kernels *k, rdi_rows_at dst, rdi_rows_at src, float *stage, int64_t R,
                   int64_t K, int64_t Kp);

#endif
