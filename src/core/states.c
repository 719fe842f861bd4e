/* States between memory, in any layout and type, and the blocks that kernels work on. */
#include "core/states.h"

#include <string.h>

#include "util/checked.h"
#include "util/tensor.h"

int rdi_is_pad(const rdi_states *s, int64_t b, int64_t pad_slot) {
  return s->base && s->index && s->index[b] == pad_slot;
}

rdi_rows_at rdi_state_at(const rdi_states *s, int64_t i, int64_t h, int64_t r, int64_t pad_slot) {
  if (!s->base || rdi_is_pad(s, i, pad_slot)) return (rdi_rows_at){NULL, s};
  const int64_t slot = s->index ? s->index[i] : i;
  const rdi_rows_at at = {rdi_at(s->base, slot * s->ss + h * s->sh, s->dtype), s};
  return rdi_rows_from(at, r);
}

rdi_rows_at rdi_rows_from(rdi_rows_at at, int64_t r) {
  const int64_t step = at.s->layout == RD_STATE_VK ? at.s->sr : 1;
  if (at.p) at.p = rdi_at(at.p, r * step, at.s->dtype);
  return at;
}

int rdi_is_plain(const rdi_states *s) { return s->dtype == RD_F32 && s->layout == RD_STATE_VK; }

int rdi_is_by_key(const rdi_states *s, const rdi_kernels *k) {
  return k->lanes && s->dtype == RD_F32 && s->layout == RD_STATE_KV;
}

/* ---------------------------------------------------------------- blocks ---------------------- */

/* Between [K][.] and [R][.] in 16 x 16 squares, which stay in a few cache lines on both sides. */
static void transpose(const rdi_kernels *k, float *dst, int64_t dst_stride, const float *src,
                      int64_t src_stride, int64_t n, int64_t m) {
  enum { SQUARE = 16 };
  if (k->turn) {
    k->turn(dst, dst_stride, src, src_stride, m, n);
    return;
  }
  for (int64_t i0 = 0; i0 < n; i0 += SQUARE)
    for (int64_t j0 = 0; j0 < m; j0 += SQUARE)
      for (int64_t i = i0; i < rdi_min64(n, i0 + SQUARE); i++)
        for (int64_t j = j0; j < rdi_min64(m, j0 + SQUARE); j++)
          dst[i * dst_stride + j] = src[j * src_stride + i];
}

void rdi_load_native(const rdi_kernels *k, float *dst, int64_t stride, rdi_rows_at src, int64_t R,
                     int64_t K) {
  const rdi_states *s = src.s;
  if (!src.p) {
    memset(dst, 0, (size_t)(R * stride) * sizeof *dst);
  } else if (s->layout == RD_STATE_VK) {
    for (int64_t r = 0; r < R; r++)
      k->widen(dst + r * stride, rdi_at(src.p, r * s->sr, s->dtype), s->dtype, K);
  } else if (s->dtype == RD_F32) {
    transpose(k, dst, stride, (const float *)(const void *)src.p, s->sr, R, K);
  } else {
    float row[RDI_MAX_DIM];
    for (int64_t c = 0; c < K; c++) {
      k->widen(row, rdi_at(src.p, c * s->sr, s->dtype), s->dtype, R);
      for (int64_t r = 0; r < R; r++) dst[r * stride + c] = row[r];
    }
  }
}

void rdi_store_native(const rdi_kernels *k, rdi_rows_at dst, const float *src, int64_t stride,
                      int64_t R, int64_t K) {
  const rdi_states *s = dst.s;
  if (s->layout == RD_STATE_VK) {
    for (int64_t r = 0; r < R; r++)
      k->narrow(rdi_at(dst.p, r * s->sr, s->dtype), s->dtype, src + r * stride, K);
  } else if (s->dtype == RD_F32) {
    transpose(k, (float *)(void *)dst.p, s->sr, src, stride, K, R);
  } else {
    float row[RDI_MAX_DIM];
    for (int64_t c = 0; c < K; c++) {
      for (int64_t r = 0; r < R; r++) row[r] = src[r * stride + c];
      k->narrow(rdi_at(dst.p, c * s->sr, s->dtype), s->dtype, row, R);
    }
  }
}

/* ---------------------------------------------------------------- copies ---------------------- */

void rdi_copy_rows(const rdi_kernels *k, rdi_rows_at dst, rdi_rows_at src, float *stage, int64_t R,
                   int64_t K, int64_t Kp) {
  if (dst.p == src.p || !dst.p) return;
  const int vk = dst.s->layout == RD_STATE_VK;
  const int64_t rows = vk ? R : K;
  const size_t row_bytes = (size_t)(vk ? K : R) * rd_dtype_size(dst.s->dtype);
  if (!src.p) {
    for (int64_t r = 0; r < rows; r++)
      memset(rdi_at(dst.p, r * dst.s->sr, dst.s->dtype), 0, row_bytes);
  } else if (dst.s->dtype == src.s->dtype && dst.s->layout == src.s->layout) {
    for (int64_t r = 0; r < rows; r++)
      memcpy(rdi_at(dst.p, r * dst.s->sr, dst.s->dtype), rdi_at(src.p, r * src.s->sr, src.s->dtype),
             row_bytes);
  } else {
    for (int64_t r = 0; r < R; r += RDI_SUB_ROWS) {
      const int64_t n = rdi_min64(R - r, RDI_SUB_ROWS);
      rdi_load_native(k, stage, Kp, rdi_rows_from(src, r), n, K);
      rdi_store_native(k, rdi_rows_from(dst, r), stage, Kp, n, K);
    }
  }
}
