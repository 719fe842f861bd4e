/* Part 4 of the demo: speed and bytes, for information. SPDX-License-Identifier: Apache-2.0
 *
 * One thread, K = V = 128, f32 inputs, 16 heads in cache; the best of several runs. The loop beside
 * it is what engines write by hand: four plain passes over the state per token, vectorised by the
 * compiler for this machine; for speculation it keeps one state snapshot per candidate token.
 */
#include "cli/demo.h"

#include "io/rng.h"

#include <math.h>
#include <string.h>

enum { HEADS = 16, DIM = 128, PREFILL = 256, DRAFT = 8, ACCEPTED = 4, REPEATS = 7 };

/* ---------------------------------------------------------------- the straightforward loop ---- */

/* St is [K][V], so that every pass runs along values. a: K decays; next: where a snapshot goes. */
static inline __attribute__((always_inline)) void plain_body(float *St, const float *q,
                                                             const float *k, const float *a,
                                                             const float *v, float beta,
                                                             float *out) {
  float y[DIM] = {0};
  for (int c = 0; c < DIM; c++) {
    for (int r = 0; r < DIM; r++) St[c * DIM + r] *= a[c];
  }
  for (int c = 0; c < DIM; c++) {
    for (int r = 0; r < DIM; r++) y[r] += St[c * DIM + r] * k[c];
  }
  for (int r = 0; r < DIM; r++) y[r] = beta * (v[r] - y[r]);
  for (int c = 0; c < DIM; c++) {
    for (int r = 0; r < DIM; r++) St[c * DIM + r] += k[c] * y[r];
  }
  for (int r = 0; r < DIM; r++) out[r] = 0;
  for (int c = 0; c < DIM; c++) {
    for (int r = 0; r < DIM; r++) out[r] += St[c * DIM + r] * q[c];
  }
}

typedef void (*plain_fn)(float *, const float *, const float *, const float *, const float *, float,
                         float *);

static void plain_default(float *St, const float *q, const float *k, const float *a, const float *v,
                          float beta, float *out) {
  plain_body(St, q, k, a, v, beta, out);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void plain_avx2(float *St, const float *q, const float *k,
                                                       const float *a, const float *v, float beta,
                                                       float *out) {
  plain_body(St, q, k, a, v, beta, out);
}
__attribute__((target("avx512f"))) static void plain_avx512(float *St, const float *q,
                                                            const float *k, const float *a,
                                                            const float *v, float beta,
                                                            float *out) {
  plain_body(St, q, k, a, v, beta, out);
}
#endif

static plain_fn plain_choose(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (rd_isa_usable() & RD_ISA_AVX512) return plain_avx512;
  if (rd_isa_usable() & RD_ISA_AVX2) return plain_avx2;
#endif
  return plain_default;
}

/* ---------------------------------------------------------------- buffers --------------------- */

typedef struct speed {
  rd_context *ctx;
  rd_plan *plan;
  int kda;
  io_file buffers;
  float *q, *k, *v, *g, *beta, *out, *state, *snapshots;
  rd_tensor pool;
  rd_records records;
  int32_t lengths[1];
  plain_fn plain;
  double best[4], best_plain[4]; /* seconds: prefill, decode, verify, commit */
} speed;

static float *floats(speed *s, const char *name, int64_t n, double low, double high) {
  io_tensor *t = NULL;
  if (io_file_add(&s->buffers, name, io_dtype_of(RD_F32), 1, &n, &t, NULL) != IO_OK) return NULL;
  rng r = rng_stream(DEMO_SEED, name);
  float *to = t->data;
  for (int64_t i = 0; i < n; i++) to[i] = (float)(low + (high - low) * rng_uniform(r, (uint64_t)i));
  return to;
}

static int speed_init(speed *s, int kda) {
  int64_t gate = kda ? DIM : 1, rows = (int64_t)PREFILL * HEADS, S = (int64_t)HEADS * DIM * DIM;
  s->kda = kda;
  s->plain = plain_choose();
  s->q = floats(s, "q", rows * DIM, -0.1, 0.1);
  s->k = floats(s, "k", rows * DIM, -0.1, 0.1);
  s->v = floats(s, "v", rows * DIM, -1, 1);
  s->g = floats(s, "g", rows * gate, -0.5, 0);
  s->beta = floats(s, "beta", rows, 0.1, 0.9);
  s->out = floats(s, "out", rows * DIM, 0, 0);
  s->state = floats(s, "state", S, -0.1, 0.1);
  s->snapshots = floats(s, "snapshots", S * DRAFT, 0, 0);
  float *u = floats(s, "u", (int64_t)DRAFT * HEADS * DIM, 0, 0);
  float *k = floats(s, "record k", (int64_t)DRAFT * HEADS * DIM, 0, 0);
  float *decay = floats(s, "decay", (int64_t)DRAFT * HEADS * gate, 0, 0);
  if (s->snapshots == NULL || s->state == NULL || decay == NULL || u == NULL || k == NULL)
    return -1;
  s->pool = rd_tensor_contiguous(s->state, RD_F32, 4, (int64_t[]){1, HEADS, DIM, DIM});
  s->records = (rd_records){.struct_size = sizeof s->records, .lengths = s->lengths};
  s->records.u = rd_tensor_contiguous(u, RD_F32, 4, (int64_t[]){1, DRAFT, HEADS, DIM});
  s->records.k = rd_tensor_contiguous(k, RD_F32, 4, (int64_t[]){1, DRAFT, HEADS, DIM});
  s->records.decay =
      rd_tensor_contiguous(decay, RD_F32, kda ? 4 : 3, (int64_t[]){1, DRAFT, HEADS, DIM});
  return 0;
}

static rd_activations view(const speed *s, int64_t T) {
  rd_activations a = {.struct_size = sizeof a};
  int64_t vectors[] = {1, T, HEADS, DIM};
  a.q = rd_tensor_contiguous(s->q, RD_F32, 4, vectors);
  a.k = rd_tensor_contiguous(s->k, RD_F32, 4, vectors);
  a.v = rd_tensor_contiguous(s->v, RD_F32, 4, vectors);
  a.g = rd_tensor_contiguous(s->g, RD_F32, s->kda ? 4 : 3, vectors);
  a.beta = rd_tensor_contiguous(s->beta, RD_F32, 3, vectors);
  a.out = rd_tensor_contiguous(s->out, RD_F32, 4, vectors);
  return a;
}

/* ---------------------------------------------------------------- measuring ------------------- */

static rd_status verb(speed *s, int which) {
  rd_sequences seq = {.struct_size = sizeof seq, .batch = 1};
  rd_slots slots = {.pool = s->pool};
  static const int64_t tokens[] = {PREFILL, 1, DRAFT};
  rd_activations act = view(s, which < 3 ? tokens[which] : 1);
  int32_t accepted = ACCEPTED;
  rd_tensor counts = rd_tensor_contiguous(&accepted, RD_I32, 1, (int64_t[]){1});
  switch (which) {
  case 0:
    return rd_prefill(s->ctx, s->plan, &seq, &act, &slots, &slots);
  case 1:
    return rd_decode(s->ctx, s->plan, &seq, &act, &slots, NULL, NULL);
  case 2:
    return rd_verify(s->ctx, s->plan, &seq, &act, &slots, &s->records);
  default:
    return rd_commit(s->ctx, s->plan, &s->records, &counts, &slots);
  }
}

/* T tokens of every head; with snapshots each token first copies the state, as speculation must. */
static void plain_loop(speed *s, int64_t T, int snapshots) {
  for (int64_t h = 0; h < HEADS; h++) {
    float *St = s->state + h * DIM * DIM;
    for (int64_t t = 0; t < T; t++) {
      int64_t row = t * HEADS + h;
      float a[DIM];
      for (int c = 0; c < DIM; c++) a[c] = expf(s->g[s->kda ? row * DIM + c : row]);
      if (snapshots) {
        float *copy = s->snapshots + (t * HEADS + h) * DIM * DIM;
        memcpy(copy, St, sizeof(float) * DIM * DIM);
        St = copy;
      }
      s->plain(St, s->q + row * DIM, s->k + row * DIM, a, s->v + row * DIM, s->beta[row],
               s->out + row * DIM);
    }
  }
}

/* Selecting the accepted snapshot: copied back into the pool. */
static void plain_select(speed *s) {
  size_t bytes = sizeof(float) * HEADS * DIM * DIM;
  memcpy(s->state, s->snapshots + (size_t)(ACCEPTED - 1) * HEADS * DIM * DIM, bytes);
}

static rd_status measure(speed *s) {
  static const int inner[] = {1, 16, 4,
                              4}; /* calls per measurement: some tens of microseconds each */
  for (int which = 0; which < 4; which++) s->best[which] = s->best_plain[which] = INFINITY;
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    for (int which = 0; which < 4; which++) {
      double spent = 0;
      for (int i = 0; i < inner[which]; i++) {
        rd_status status = which == 3 ? verb(s, 2) : RD_OK; /* fresh records to commit */
        double start = cli_seconds();
        if (status == RD_OK) status = verb(s, which);
        spent += cli_seconds() - start;
        if (status != RD_OK) return status;
      }
      s->best[which] = fmin(s->best[which], spent / inner[which]);
      double start = cli_seconds();
      for (int i = 0; i < inner[which]; i++) {
        if (which == 3) {
          plain_select(s);
        } else {
          plain_loop(s, which == 0 ? PREFILL : which == 1 ? 1 : DRAFT, which == 2);
        }
      }
      s->best_plain[which] = fmin(s->best_plain[which], (cli_seconds() - start) / inner[which]);
    }
  }
  return RD_OK;
}

static void report(demo *d, const speed *s, const rd_plan_info *info) {
  static const char *const names[] = {"prefill of 256 tokens", "decode", "verify of 8",
                                      "commit of 4"};
  static const int tokens[] = {PREFILL, 1, DRAFT, ACCEPTED};
  char name[48];
  for (int which = 0; which < 4; which++) {
    double per = 1e9 / (HEADS * tokens[which]);
    snprintf(name, sizeof name, "%s %s", s->kda ? "KDA" : "GDN", names[which]);
    demo_note(d, name, "%7.0f ns per token and head; straightforward loop %7.0f, %4.1f times that",
              s->best[which] * per, s->best_plain[which] * per,
              s->best_plain[which] / s->best[which]);
  }
  double mine = s->best[2] + s->best[3], plain = s->best_plain[2] + s->best_plain[3];
  snprintf(name, sizeof name, "%s verify of 8 + commit of 4", s->kda ? "KDA" : "GDN");
  demo_note(d, name,
            "%7.0f ns per head; straightforward loop with snapshots %7.0f, %4.1f times that",
            mine * 1e9 / HEADS, plain * 1e9 / HEADS, plain / mine);
  snprintf(name, sizeof name, "%s bytes per draft token", s->kda ? "KDA" : "GDN");
  demo_note(d, name, "%7zu of records; snapshots %zu, %.0f times that",
            info->record_bytes_per_token, info->snapshot_bytes_per_token,
            (double)info->snapshot_bytes_per_token / (double)info->record_bytes_per_token);
}

int demo_part4(demo *d) {
  demo_part(d, 4,
            "speed and bytes (for information): one thread, f32, %d heads, K=V=128,\n"
            "  best of %d; speculation by hand keeps a state snapshot per candidate",
            HEADS, REPEATS);
  rd_status status = RD_OK;
  rd_context *ctx = NULL;
  int result = cli_context("demo", 1, 0, &ctx);
  for (int kda = 1; kda >= 0 && result == CLI_OK && status == RD_OK; kda--) {
    speed s = {.ctx = ctx};
    rd_plan_info info = {.struct_size = sizeof info};
    rd_problem p;
    rd_problem_init(&p);
    p.gate_axis = kda ? RD_PER_CHANNEL : RD_PER_HEAD;
    p.Hk = p.Hv = HEADS;
    p.K = p.V = DIM;
    p.max_batch = 1;
    p.max_tokens = PREFILL;
    status = speed_init(&s, kda) == 0 ? rd_plan_create(ctx, &p, &s.plan) : RD_E_NOMEM;
    if (status == RD_OK) status = rd_plan_get_info(s.plan, &info);
    cli_progress("measuring", 0, 0);
    if (status == RD_OK) status = measure(&s);
    if (status == RD_OK) report(d, &s, &info);
    rd_plan_destroy(s.plan);
    io_file_free(&s.buffers);
  }
  if (status != RD_OK) {
    result = cli_fail("demo", cli_status_of(status), "part 4: %s: %s", rd_status_name(status),
                      rd_last_error(ctx));
  }
  rd_context_destroy(ctx);
  return result;
}
