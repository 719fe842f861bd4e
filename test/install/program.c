/* What a consumer compiles: the exactness promise in small. SPDX-License-Identifier: Apache-2.0 */
#include <redelta/redelta.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  enum { T = 3, K = 8, V = 4 };
  float q[T][K], k[T][K], v[T][V], beta[T], g[T], state[V][K], again[V][K], out[T][V], out2[T][V];
  for (int t = 0; t < T; t++) {
    for (int c = 0; c < K; c++) {
      q[t][c] = (float)(t + c) / 16;
      k[t][c] = (float)(t - c) / 16;
    }
    for (int c = 0; c < V; c++) v[t][c] = (float)(c - t);
    beta[t] = 0.75f;
    g[t] = -0.125f * (float)t;
  }
  memset(state, 0, sizeof state);
  memset(again, 0, sizeof again);
  rd_context *ctx;
  if (rd_context_create(NULL, &ctx) != RD_OK) return 1;
  rd_problem p;
  rd_problem_init(&p);
  p.gate_axis = RD_PER_HEAD;
  p.Hk = p.Hv = 1;
  p.K = K;
  p.V = V;
  p.max_batch = 1;
  p.max_tokens = T;
  rd_plan *plan;
  if (rd_plan_create(ctx, &p, &plan) != RD_OK) return 1;
  rd_sequences seq;
  rd_sequences_init(&seq);
  seq.batch = 1;
  for (int t0 = 0; t0 <= T; t0++) { /* t0 = T: in one go; else token t0 alone */
    int n = t0 == T ? T : 1, at = t0 == T ? 0 : t0;
    int64_t sq[4] = {1, n, 1, K}, sv[4] = {1, n, 1, V}, sg[3] = {1, n, 1}, ss[4] = {1, 1, V, K};
    rd_activations a;
    rd_activations_init(&a);
    a.q = rd_tensor_contiguous(q[at], RD_F32, 4, sq);
    a.k = rd_tensor_contiguous(k[at], RD_F32, 4, sq);
    a.v = rd_tensor_contiguous(v[at], RD_F32, 4, sv);
    a.g = rd_tensor_contiguous(&g[at], RD_F32, 3, sg);
    a.beta = rd_tensor_contiguous(&beta[at], RD_F32, 3, sg);
    a.out = rd_tensor_contiguous(t0 == T ? out2[0] : out[t0], RD_F32, 4, sv);
    rd_slots s;
    rd_slots_init(&s);
    s.pool = rd_tensor_contiguous(t0 == T ? again : state, RD_F32, 4, ss);
    rd_status st = rd_prefill(ctx, plan, &seq, &a, &s, &s, NULL);
    if (st != RD_OK) return printf("%s: %s\n", rd_status_name(st), rd_last_error(ctx)), 1;
  }
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  if (memcmp(out, out2, sizeof out) || memcmp(state, again, sizeof state))
    return puts("splits differ"), 1;
  printf("redelta %s: ok\n", rd_version());
  return 0;
}
