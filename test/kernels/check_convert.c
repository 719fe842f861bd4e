/* widen and narrow: all 65536 values of both types, f32 around every rounding decision, all
 * lengths, all alignments, against the definition of the types. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include "ref/ref.h"

enum { MAX_N = 65536 };
static buffer src_buffer, dst_buffer;
static const rd_dtype dtypes[3] = {RD_F32, RD_F16, RD_BF16};

typedef struct call {
  const rdi_kernel_entry *e;
  rd_dtype dtype;
  int64_t n;
} call;

static void do_widen(void *arg) {
  const call *c = arg;
  c->e->widen((float *)(void *)dst_buffer.got, src_buffer.got, c->dtype, c->n);
}

static void do_narrow(void *arg) {
  const call *c = arg;
  c->e->narrow(dst_buffer.got, c->dtype, (const float *)(const void *)src_buffer.got, c->n);
}

static size_t size_of(rd_dtype dtype) { return dtype == RD_F32 ? 4 : 2; }

/* `src` and `expected` hold n elements of the two types. */
static void convert(harness *h, const rdi_kernel_entry *e, rd_dtype from, rd_dtype to,
                    const void *src, const void *expected, int64_t n, int64_t index, rng g) {
  buffer_place(&src_buffer, (size_t)n * size_of(from), size_of(from), &g);
  buffer_place(&dst_buffer, (size_t)n * size_of(to), size_of(to), &g);
  memcpy(src_buffer.want, src, (size_t)n * size_of(from));
  buffer_sync(&src_buffer);
  buffer_sync(&dst_buffer);
  const int widen = e->slot == RDI_SLOT_widen;
  call c = {e, widen ? from : to, n};
  const char *problem = guarded_call(widen ? do_widen : do_narrow, &c);
  memcpy(dst_buffer.want, expected, (size_t)n * size_of(to));
  const int64_t at = buffer_differs(&dst_buffer, to);
  if (problem != NULL)
    harness_fail(h, e, index, "type %d n=%lld: %s", (int)c.dtype, (long long)n, problem);
  else if (at != INT64_MIN)
    harness_fail(h, e, index, "type %d n=%lld: element %lld is wrong", (int)c.dtype, (long long)n,
                 (long long)at);
  else if (buffer_differs(&src_buffer, from) != INT64_MIN)
    harness_fail(h, e, index, "type %d n=%lld: writes its source", (int)c.dtype, (long long)n);
  else
    harness_pass(h);
}

/* A float near a decision of rounding to the type: a value of the type, or the middle between two,
 * give or take two units; now and then any bits. */
static float near_decision(rng *g, rd_dtype dtype) {
  const uint16_t h = (uint16_t)rng_u64(g);
  const float a = rdr_f32_of(h, dtype), b = rdr_f32_of((uint16_t)(h + 1u), dtype);
  float x = rng_below(g, 2) ? a : (float)(((double)a + (double)b) / 2);
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  u += (uint32_t)rng_below(g, 5) - 2u;
  if (rng_below(g, 8) == 0) u = (uint32_t)rng_u64(g);
  memcpy(&x, &u, sizeof x);
  return x;
}

static void convert_all(harness *h, const rdi_kernel_entry *const *entries, int count, int widen) {
  static float wide[MAX_N];
  static uint16_t narrow[MAX_N];
  int64_t index = 0;
  if (src_buffer.region == NULL) {
    buffer_make(&src_buffer, MAX_N * sizeof(float));
    buffer_make(&dst_buffer, MAX_N * sizeof(float));
  }
  for (int d = 0; d < 3; d++)
    for (int64_t i = 0; i < 301 + 20 * h->repeat;
         i++, index++) { /* lengths 0..300, then the most */
      if (harness_skips(h, index)) continue;
      const rd_dtype type = dtypes[d];
      const int64_t n = i <= 300 ? i : MAX_N;
      rng g = {.s = h->seed * 1000003u + (uint64_t)index};
      for (int64_t x = 0; x < n; x++) {
        if (type == RD_F32) {
          wide[x] = input(&g, IN_BITS);
        } else if (widen) {
          narrow[x] = (uint16_t)(n == MAX_N ? x : (int64_t)rng_u64(&g));
          wide[x] = rdr_f32_of(narrow[x], type);
        } else {
          wide[x] = near_decision(&g, type);
          narrow[x] = rdr_16_of(wide[x], type);
        }
      }
      const void *half = type == RD_F32 ? (const void *)wide : narrow;
      for (int e = 0; e < count; e++)
        convert(h, entries[e], widen ? type : RD_F32, widen ? RD_F32 : type, widen ? half : wide,
                widen ? wide : half, n, index, g);
    }
}

void check_widen(harness *h, const rdi_kernel_entry *const *entries, int count) {
  convert_all(h, entries, count, 1);
}

void check_narrow(harness *h, const rdi_kernel_entry *const *entries, int count) {
  convert_all(h, entries, count, 0);
}
