/*
 * Running redelta on threads that a program already has: an executor over OpenMP.
 *
 * Slices are independent, so any scheduler will do; how they are spread never changes a bit. Compared
 * here with the built-in pool.
 */
#include <redelta/redelta.h>

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  (void)self;
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < n; i++) fn(arg, i);
  return 0;
}

enum { H = 8, T = 100, K = 64, V = 48 };

static float q[H * T * K], k[H * T * K], v[H * T * V], beta[H * T], g[H * T], state[H * K * V];

static int prefill(const rd_context_options *options, float *out, float *final_state) {
  rd_context *ctx;
  if (rd_context_create(options, &ctx) != RD_OK) return 1;
  int32_t lengths[1] = {T};
  rd_chunk_gated_delta_rule_params p;
  rd_chunk_gated_delta_rule_init(&p);
  p.query = rd_tensor_contiguous(q, RD_F32, 4, (int64_t[]){1, H, T, K});
  p.key = rd_tensor_contiguous(k, RD_F32, 4, (int64_t[]){1, H, T, K});
  p.value = rd_tensor_contiguous(v, RD_F32, 4, (int64_t[]){1, H, T, V});
  p.beta = rd_tensor_contiguous(beta, RD_F32, 3, (int64_t[]){1, H, T});
  p.g = rd_tensor_contiguous(g, RD_F32, 3, (int64_t[]){1, H, T});
  p.state = rd_tensor_contiguous(state, RD_F32, 4, (int64_t[]){1, H, K, V});
  p.actual_seq_lengths = rd_tensor_contiguous(lengths, RD_I32, 1, (int64_t[]){1});
  p.out = rd_tensor_contiguous(out, RD_F32, 4, (int64_t[]){1, H, T, V});
  p.final_state = rd_tensor_contiguous(final_state, RD_F32, 4, (int64_t[]){1, H, K, V});
  const rd_status s = rd_chunk_gated_delta_rule(ctx, &p);
  if (s != RD_OK) puts(rd_last_error(ctx));
  rd_context_destroy(ctx);
  return s != RD_OK;
}

int main(void) {
  static float out[2][H * T * V], final_state[2][H * K * V];
  for (int i = 0; i < H * T * K; i++)
    q[i] = (float)(rand() % 100) / 400, k[i] = (float)(rand() % 100) / 400;
  for (int i = 0; i < H * T * V; i++) v[i] = (float)(rand() % 100) / 50 - 1;
  for (int i = 0; i < H * T; i++) beta[i] = 0.5f, g[i] = -0.01f * (float)(rand() % 50);

  rd_context_options options;
  rd_context_options_init(&options);
  if (prefill(&options, out[0], final_state[0])) return 1;
  options.executor = (rd_executor){.run = run, .concurrency = omp_get_max_threads()};
  if (prefill(&options, out[1], final_state[1])) return 1;

  const int same = memcmp(out[0], out[1], sizeof out[0]) == 0 &&
                   memcmp(final_state[0], final_state[1], sizeof final_state[0]) == 0;
  printf("%d OpenMP threads and the built-in pool: %s bits\n", omp_get_max_threads(),
         same ? "the same" : "OTHER");
  return !same;
}
