/* project against W1 of the specification: all row counts to 19, ragged N and K, gaps between rows, numbers
 * of every class and any bits of bf16. */
#include "harness.h"

#include <string.h>
#include "ref/ref.h"

enum { MAX_M = 19, MAX_N = 50, MAX_K = 224, GAP = 3 };
static buffer x_buffer, w_buffer, y_buffer;
static uint16_t x[MAX_M * MAX_K], w[MAX_N * MAX_K];

typedef struct call {
  const rdi_kernel_entry *e;
  rdi_project_args args;
} call;

static void run(void *arg) {
  const call *c = arg;
  c->e->project(&c->args);
}

/* Products and sums at 2^-126: the range where flushing decides has bf16 operands of about 2^-63. */
static uint16_t draw(rng *g, input_class c) {
  const uint32_t u = (uint32_t)rng_u64(g);
  if (c == IN_BITS) return (uint16_t)u;
  if (c == IN_BORDER)
    return (uint16_t)((u & 0x807f) | (u >> 16) % 9 * (u >> 24 > 30) << 7 | 60u << 7);
  return rdr_16_of(input(g, c), RD_BF16);
}

/* The packed form, written from the contract: output n, k. */
static int64_t place(int64_t n, int64_t k, int64_t Kp) {
  return ((n / 16 * (Kp / 32) + k / 32) * 16 + k % 32 / 2) * 32 + n % 16 * 2 + k % 2;
}

static void fill(int64_t M, int64_t N, int64_t K, int64_t Kp, rng *g) {
  buffer_place(&x_buffer, (size_t)(M * (Kp + GAP) - GAP) * 2, 2, g);
  buffer_place(&w_buffer, (size_t)(round_up(N, 16) * Kp) * 2, 64, g);
  uint16_t *px = (uint16_t *)(void *)x_buffer.want, *pw = (uint16_t *)(void *)w_buffer.want;
  memset(pw, 0, w_buffer.bytes);
  for (int64_t m = 0; m < M; m++)
    for (int64_t k = 0; k < Kp; k++) px[m * (Kp + GAP) + k] = k < K ? x[m * K + k] : 0;
  for (int64_t n = 0; n < N; n++)
    for (int64_t k = 0; k < K; k++) pw[place(n, k, Kp)] = w[n * K + k];
  buffer_sync(&x_buffer), buffer_sync(&w_buffer);
}

static void one(harness *h, const rdi_kernel_entry *e, int64_t index, const float *expected,
                int64_t M, int64_t N, int64_t Kp, rng g) {
  const int64_t stride = N + GAP;
  buffer_place(&y_buffer, (size_t)(M * stride - GAP) * 4, 4, &g);
  buffer_sync(&y_buffer);
  call c = {e,
            {M, N, Kp, (const uint16_t *)(void *)x_buffer.got,
             (const uint16_t *)(void *)w_buffer.got, (float *)(void *)y_buffer.got, Kp + GAP,
             stride}};
  const char *problem = guarded_call(run, &c);
  for (int64_t m = 0; m < M; m++)
    memcpy(y_buffer.want + m * stride * 4, expected + m * N, (size_t)N * 4);
  const int64_t at = buffer_differs(&y_buffer, RD_F32);
  const long long s[3] = {(long long)M, (long long)N, (long long)Kp};
  if (problem != NULL)
    harness_fail(h, e, index, "M=%lld N=%lld Kp=%lld: %s", s[0], s[1], s[2], problem);
  else if (at != INT64_MIN)
    harness_fail(h, e, index, "M=%lld N=%lld Kp=%lld: element %lld is wrong", s[0], s[1], s[2],
                 (long long)at);
  else if (buffer_differs(&x_buffer, RD_BF16) != INT64_MIN ||
           buffer_differs(&w_buffer, RD_BF16) != INT64_MIN)
    harness_fail(h, e, index, "M=%lld N=%lld Kp=%lld: writes its inputs", s[0], s[1], s[2]);
  else
    harness_pass(h);
}

void check_project(harness *h, const rdi_kernel_entry *const *entries, int count) {
  static const int16_t sizes_N[] = {1, 7, 8, 15, 16, 17, 24, 33, 50};
  static const int16_t sizes_K[] = {1, 2, 31, 32, 33, 64, 95, 224};
  static float expected[MAX_M * MAX_N];
  if (y_buffer.region == NULL) {
    buffer_make(&x_buffer, MAX_M * (MAX_K + GAP) * 2);
    buffer_make(&w_buffer, 64 * MAX_K * 2);
    buffer_make(&y_buffer, MAX_M * (MAX_N + GAP) * 4);
  }
  for (int64_t index = 0; index < MAX_M * IN_CLASSES * h->repeat; index++) {
    if (harness_skips(h, index)) continue;
    rng g = {.s = h->seed * 1000003u + (uint64_t)index};
    const input_class c = (input_class)(index % IN_CLASSES);
    const int64_t M = 1 + index / IN_CLASSES % MAX_M;
    const int64_t N = sizes_N[rng_below(&g, 9)], K = sizes_K[rng_below(&g, 8)];
    const int64_t Kp = round_up(K, 32);
    for (int64_t i = 0; i < M * K; i++) x[i] = draw(&g, c);
    for (int64_t i = 0; i < N * K; i++) w[i] = draw(&g, c);
    fill(M, N, K, Kp, &g);
    for (int64_t m = 0; m < M; m++)
      for (int64_t n = 0; n < N; n++) expected[m * N + n] = rdr_w1(x + m * K, w + n * K, K);
    for (int e = 0; e < count; e++) one(h, entries[e], index, expected, M, N, Kp, g);
  }
}
