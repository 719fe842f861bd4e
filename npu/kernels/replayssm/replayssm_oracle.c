/* The operators' equations in double, token by token, straight from the inputs. */
#include "replayssm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct head {
  int64_t b, n;       /* which */
  int64_t start, len; /* first token row and tokens */
} head;

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

static int64_t row_of(uint32_t layout, int64_t S, int64_t heads, int64_t b, int64_t h,
                      int64_t token) {
  if (layout == REPLAY_BNSD) return (b * heads + h) * S + token;
  if (layout == REPLAY_TND) return token * heads + h;
  return (b * S + token) * heads + h;
}

/* One token of one head: fills k, a and q (normalised and scaled), returns beta. */
static double operands(const rdn_call *call, const replay_args *a, const head *h, int64_t token,
                       double *q, double *k, double *v, double *decay) {
  const rdn_named *mixed = rdn_call_input(call, "mixedqkv"), *g = rdn_call_input(call, "g");
  const rdn_named *A_log = rdn_call_input(call, "A_log"), *dt = rdn_call_input(call, "dt_bias");
  const int64_t N = a->N, t = h->start + token;
  const int64_t rows[3] = {row_of(a->layout, a->S, 3 * N, h->b, h->n, t),
                           row_of(a->layout, a->S, 3 * N, h->b, N + h->n, t),
                           row_of(a->layout, a->S, 3 * N, h->b, 2 * N + h->n, t)};
  const int64_t own = row_of(a->layout, a->S, N, h->b, h->n, t);
  double qq = 0, kk = 0;
  for (int i = 0; i < REPLAY_DIM; i++) {
    q[i] = rdn_named_value(mixed, rows[0] * REPLAY_DIM + i);
    k[i] = rdn_named_value(mixed, rows[1] * REPLAY_DIM + i);
    v[i] = rdn_named_value(mixed, rows[2] * REPLAY_DIM + i);
    qq += q[i] * q[i];
    kk += k[i] * k[i];
    const double x =
        rdn_named_value(g, own * REPLAY_DIM + i) + rdn_named_value(dt, h->n * REPLAY_DIM + i);
    decay[i] = exp((double)a->lower_bound * sigmoid(exp(rdn_named_value(A_log, h->n)) * x));
  }
  for (int i = 0; i < REPLAY_DIM; i++) {
    q[i] *= (double)a->scale / sqrt(qq + 1e-6);
    k[i] /= sqrt(kk + 1e-6);
  }
  return sigmoid(rdn_named_value(rdn_call_input(call, "beta"), own));
}

static void verify_head(const rdn_call *call, const replay_args *a, const head *h, int what,
                        double *expected) {
  static const int D = REPLAY_DIM;
  double q[REPLAY_DIM], k[REPLAY_DIM], v[REPLAY_DIM], decay[REPLAY_DIM], u[REPLAY_DIM],
      o[REPLAY_DIM];
  double *S = malloc(sizeof *S * REPLAY_DIM * REPLAY_DIM);
  if (!S) return;
  const rdn_named *state = rdn_call_input(call, "recurrent_state");
  for (int64_t i = 0; i < D * D; i++)
    S[i] = rdn_named_value(state, (h->b * a->N + h->n) * D * D + i);
  for (int64_t t = 0; t < h->len; t++) {
    const double beta = operands(call, a, h, t, q, k, v, decay);
    for (int r = 0; r < D; r++) {
      double y = 0;
      for (int i = 0; i < D; i++) y += (S[r * D + i] *= decay[i]) * k[i];
      u[r] = beta * (v[r] - y);
      o[r] = 0;
      for (int i = 0; i < D; i++) o[r] += (S[r * D + i] += u[r] * k[i]) * q[i];
    }
    const int64_t record = ((h->b * a->C + t) * a->N + h->n) * D;
    const int64_t out = row_of(a->layout, a->S, a->N, h->b, h->n, h->start + t) * D;
    const double *const from[4] = {o, u, k, decay};
    memcpy(expected + (what == 0 ? out : record), from[what], sizeof o);
  }
  free(S);
}

rd_npu_status rdn_replay_verify_oracle(const rdn_call *call, const char *output, double *expected) {
  static const char *const names[4] = {"out", "replay_u", "replay_k", "replay_decay"};
  const replay_args *a = call->args;
  const rdn_named *t = rdn_call_input(call, output), *cu = rdn_call_input(call, "cu_seqlens");
  int what = 0;
  while (what < 4 && strcmp(names[what], output) != 0) what++;
  if (what == 4 || !t) return RD_NPU_BAD_INPUT;
  /* What the operator does not write keeps its bytes. */
  for (int64_t i = 0, n = rdn_named_count(t); i < n; i++) expected[i] = rdn_named_value(t, i);
  for (int64_t b = 0; b < a->B; b++)
    for (int64_t n = 0; n < a->N; n++) {
      head h = {b, n, 0, a->S};
      if (a->layout == REPLAY_TND) {
        h.start = (int64_t)rdn_named_value(cu, b);
        h.len = (int64_t)rdn_named_value(cu, b + 1) - h.start;
      }
      verify_head(call, a, &h, what, expected);
    }
  return RD_NPU_OK;
}

rd_npu_status rdn_replay_commit_oracle(const rdn_call *call, const char *output, double *expected) {
  const replay_args *a = call->args;
  const rdn_named *state = rdn_call_input(call, "recurrent_state"),
                  *u = rdn_call_input(call, "replay_u");
  const rdn_named *k = rdn_call_input(call, "replay_k"),
                  *decay = rdn_call_input(call, "replay_decay");
  const rdn_named *accepted = rdn_call_input(call, "num_accepted_tokens");
  if (strcmp(output, "recurrent_state") != 0) return RD_NPU_BAD_INPUT;
  const int64_t D = REPLAY_DIM;
  for (int64_t i = 0, n = rdn_named_count(state); i < n; i++)
    expected[i] = rdn_named_value(state, i);
  for (int64_t b = 0; b < a->B; b++)
    for (int64_t n = 0; n < a->N; n++)
      for (int64_t t = 0; t < (int64_t)rdn_named_value(accepted, b); t++) {
        const int64_t record = ((b * a->C + t) * a->N + n) * D;
        double *S = expected + (b * a->N + n) * D * D;
        for (int64_t r = 0; r < D; r++)
          for (int64_t i = 0; i < D; i++)
            S[r * D + i] = S[r * D + i] * rdn_named_value(decay, record + i) +
                           rdn_named_value(u, record + r) * rdn_named_value(k, record + i);
      }
  return RD_NPU_OK;
}
