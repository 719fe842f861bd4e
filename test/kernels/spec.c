/* The specification against itself: C1 stays within docs/NUMERICS.md's bound of the double oracle
 * for every gate, the verbs agree with one another, and the named operators with the verbs. spec
 * [seed] */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ref/ref.h"
#include "random.h"
#include "report.h"

enum { B = 3, T = 7, HK = 2, HV = 4, K = 20, V = 12, C = 9, D = 128 };
#define STATES (B * HV * V * K)
#define OUTS   (B * T * HV * V)

static report tally;
static rng seed;

static float *normals(int64_t n, double size) {
  float *x = malloc((size_t)n * sizeof *x);
  if (x == NULL) exit(3);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(size * rng_normal(&seed));
  return x;
}

static double *doubles(int64_t n) {
  double *x = calloc((size_t)n, sizeof *x);
  if (x == NULL) exit(3);
  return x;
}

/* contiguous view; shapes end at the first 0 */
static rd_tensor view(void *data, rd_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
  rd_tensor t = {.data = data, .dtype = dtype, .shape = {a, b, c, d}};
  while (t.rank < 4 && t.shape[t.rank] != 0) t.rank++;
  int64_t n = 1;
  for (int32_t i = t.rank - 1; i >= 0; i--) t.stride[i] = n, n *= t.shape[i];
  return t;
}

static double distance(const double *x, const double *ref, int64_t n) {
  double e = 0, s = 0;
  for (int64_t i = 0; i < n; i++) e += (x[i] - ref[i]) * (x[i] - ref[i]), s += ref[i] * ref[i];
  return s > 0 ? sqrt(e / s) : sqrt(e);
}

typedef struct data {
  rd_problem p;
  rd_activations act;
  rd_sequences seq;
  rd_slots pool;
  int32_t lengths[B];
} data;

static void make(data *x, rd_gate gate, rd_gate_axis axis, rd_beta beta, rd_qk_norm norm) {
  memset(x, 0, sizeof *x);
  x->p = (rd_problem){.layout = RD_PADDED,
                      .gate = gate,
                      .gate_axis = axis,
                      .lower_bound = -5,
                      .beta = beta,
                      .beta_times = beta == RD_BETA_LOGIT ? 2 : 1,
                      .qk_norm = norm,
                      .l2_eps = 1e-6,
                      .Hk = HK,
                      .Hv = HV,
                      .K = K,
                      .V = V,
                      .head_map = axis == RD_PER_HEAD ? RD_HEADS_TILED : RD_HEADS_GROUPED,
                      .out_dtype = RD_F32,
                      .state_layout = RD_STATE_VK,
                      .state_dtype = RD_F32,
                      .record_dtype = RD_F32,
                      .decay_dtype = RD_F32,
                      .pad_slot = -1};
  const int64_t ng = axis == RD_PER_CHANNEL ? K : 1;
  float *g = normals(B * T * HV * ng, 1), *b = normals(B * T * HV, 1);
  for (int64_t i = 0; i < B * T * HV * ng; i++) {
    if (gate == RD_GATE_LOG) g[i] = -fabsf(g[i]) - 0.01f;
    if (gate == RD_GATE_DECAY) g[i] = (float)rng_unit(&seed);
  }
  for (int64_t i = 0; i < B * T * HV; i++)
    if (beta == RD_BETA_VALUE) b[i] = (float)(0.1 + 0.9 * rng_unit(&seed));
  x->act.q = view(normals(B * T * HK * K, 1), RD_F32, B, T, HK, K);
  x->act.k = view(normals(B * T * HK * K, 1 / sqrt(K)), RD_F32, B, T, HK, K);
  x->act.v = view(normals(B * T * HV * V, 1), RD_F32, B, T, HV, V);
  x->act.g = view(g, RD_F32, B, T, HV, axis == RD_PER_CHANNEL ? K : 0);
  x->act.beta = view(b, RD_F32, B, T, HV, 0);
  if (gate == RD_GATE_LOWER_BOUND || gate == RD_GATE_SOFTPLUS) {
    x->act.A_log = view(normals(HV, 1), RD_F32, HV, 0, 0, 0);
    x->act.dt_bias = view(normals(HV * ng, 1), RD_F32, HV, axis == RD_PER_CHANNEL ? K : 0, 0, 0);
  }
  x->seq.batch = B;
  for (int b3 = 0; b3 < B; b3++) x->lengths[b3] = T - b3;
  x->seq.lengths = view(x->lengths, RD_I32, B, 0, 0, 0);
  rd_slots_init(&x->pool);
  x->pool.pool = view(normals(STATES, 1), RD_F32, B, HV, V, K);
}

static void release(data *x) {
  rd_tensor *const all[] = {&x->act.q,    &x->act.k,     &x->act.v,       &x->act.g,
                            &x->act.beta, &x->act.A_log, &x->act.dt_bias, &x->pool.pool};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]->data);
}

static void accuracy(const data *x, const char *name) {
  double *out[2] = {doubles(OUTS), doubles(OUTS)}, *state[2] = {doubles(STATES), doubles(STATES)};
  static const int modes[2] = {RDR_C1, RDR_F64};
  for (int i = 0; i < 2; i++)
    if (rdr_prefill(modes[i], &x->p, &x->seq, &x->act, &x->pool, NULL,
                    &(rdr_results){.out = out[i], .state = state[i]}) != 0)
      exit(3);
  const double eo = distance(out[0], out[1], OUTS), es = distance(state[0], state[1], STATES);
  CHECK(&tally, eo <= 2e-6 && eo > 0, "%s: out %.3g", name, eo);
  CHECK(&tally, es <= 2e-6 && es > 0, "%s: state %.3g", name, es);
  if (rdr_prefill(RDR_F64_C1, &x->p, &x->seq, &x->act, &x->pool, NULL,
                  &(rdr_results){.state = state[1]}) != 0)
    exit(3);
  const double ef = distance(state[0], state[1], STATES);
  CHECK(&tally, ef <= 2e-6, "%s: state against the fed recurrence %.3g", name, ef);
  for (int i = 0; i < 2; i++) free(out[i]), free(state[i]);
}

/* verify + commit(m) leaves the bits of prefill over the first m tokens; outputs agree too. */
static void replay(data *x, const char *name) {
  const int64_t nd = x->p.gate_axis == RD_PER_CHANNEL ? K : 1;
  double *u = doubles(B * C * HV * V), *k = doubles(B * C * HK * K), *d = doubles(B * C * HV * nd);
  double *out = doubles(OUTS), *ref = doubles(OUTS), *s = doubles(STATES), *sref = doubles(STATES);
  rdr_results rec = {.out = out, .u = u, .k = k, .decay = d, .C = C};
  int bad = rdr_verify(RDR_C1, &x->p, &x->seq, &x->act, &x->pool, &rec);
  bad |= rdr_prefill(RDR_C1, &x->p, &x->seq, &x->act, &x->pool, NULL, &(rdr_results){.out = ref});
  CHECK(&tally, !bad && memcmp(out, ref, OUTS * sizeof *out) == 0, "%s: verify out", name);
  float *f[3] = {normals(B * C * HV * V, 1), normals(B * C * HK * K, 1),
                 normals(B * C * HV * nd, 1)};
  for (int64_t i = 0; i < B * C * HV * V; i++) f[0][i] = (float)u[i];
  for (int64_t i = 0; i < B * C * HK * K; i++) f[1][i] = (float)k[i];
  for (int64_t i = 0; i < B * C * HV * nd; i++) f[2][i] = (float)d[i];
  rd_records records = {.u = view(f[0], RD_F32, B, C, HV, V),
                        .k = view(f[1], RD_F32, B, C, HK, K),
                        .decay = view(f[2], RD_F32, B, C, HV, nd == K ? K : 0)};
  if (x->p.gate == RD_GATE_NONE) records.decay = (rd_tensor){0};
  for (int32_t m = 0; m < T; m++) {
    for (int b = 0; b < B; b++) x->lengths[b] = m < T - b ? m : T - b;
    rd_tensor accepted = x->seq.lengths;
    bad = rdr_commit(RDR_C1, &x->p, &records, &accepted, &x->pool, &(rdr_results){.state = s});
    bad |=
        rdr_prefill(RDR_C1, &x->p, &x->seq, &x->act, &x->pool, NULL, &(rdr_results){.state = sref});
    CHECK(&tally, !bad && memcmp(s, sref, STATES * sizeof *s) == 0, "%s: commit %d", name, m);
  }
  double *const all[] = {u, k, d, out, ref, s, sref};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
  for (int i = 0; i < 3; i++) free(f[i]);
}

static void verbs(void) {
  for (int gate = RD_GATE_NONE; gate <= RD_GATE_DECAY; gate++)
    for (int axis = RD_PER_HEAD; axis <= RD_PER_CHANNEL; axis++)
      for (int norm = RD_QK_AS_IS; norm <= RD_QK_L2; norm++) {
        char name[64];
        snprintf(name, sizeof name, "gate %d axis %d norm %d", gate, axis, norm);
        data x;
        make(&x, (rd_gate)gate, (rd_gate_axis)axis,
             norm == RD_QK_L2 ? RD_BETA_LOGIT : RD_BETA_VALUE, (rd_qk_norm)norm);
        accuracy(&x, name);
        replay(&x, name);
        release(&x);
      }
}

/* The worked example of redelta.h: two tokens, one head; the second output is 2 2.5 3. */
static void worked_example(void) {
  float q[] = {1, 0, 0, 0, 0, 1, 0, 0}, k[] = {1, 0, 0, 0, 0, 1, 0, 0}, v[] = {1, 2, 3, 4, 5, 6};
  float beta[] = {1, 0.5f}, g[] = {0, -0.1f}, state[12] = {0};
  int32_t lengths[] = {2};
  double out[6], final[12];
  rd_chunk_gated_delta_rule_params p = {.query = view(q, RD_F32, 1, 1, 2, 4),
                                        .key = view(k, RD_F32, 1, 1, 2, 4),
                                        .value = view(v, RD_F32, 1, 1, 2, 3),
                                        .beta = view(beta, RD_F32, 1, 1, 2, 0),
                                        .state = view(state, RD_F32, 1, 1, 4, 3),
                                        .g = view(g, RD_F32, 1, 1, 2, 0),
                                        .actual_seq_lengths = view(lengths, RD_I32, 1, 0, 0, 0),
                                        .scale_value = 1};
  for (int mode = RDR_C1; mode <= RDR_F64; mode++) {
    const int bad = rdr_chunk_gated_delta_rule(mode, &p, out, final);
    CHECK(&tally, !bad && out[3] == 2 && out[4] == 2.5 && out[5] == 3, "%g %g %g", out[3], out[4],
          out[5]);
    /* KV layout: row 0 is key 0 = exp(-0.1) * v0, row 1 is key 1 = v1 / 2 */
    CHECK(&tally, fabs(final[1] - 2 * exp(-0.1)) < 1e-6 && final[3] == 2, "%g %g", final[1],
          final[3]);
  }
}

enum { N = 2, S = 5, ROWS = B * S * N * D, NS = B * N * D * D };

/* Committing all records, here unrounded in f32, ends in the state of the other operators. */
static void family_commit(float *state, double *const rec[3], const double *final) {
  int32_t all[B] = {S, S, S};
  float *frec[3];
  for (int i = 0; i < 3; i++) {
    frec[i] = normals(ROWS, 0);
    for (int64_t x = 0; x < ROWS; x++) frec[i][x] = (float)rec[i][x];
  }
  double *committed = doubles(NS);
  rd_commit_recurrent_kda_replayssm_params c = {.recurrent_state = view(state, RD_F32, B, N, D, D),
                                                .replay_u = view(frec[0], RD_F32, B, S, N, D),
                                                .replay_k = view(frec[1], RD_F32, B, S, N, D),
                                                .replay_decay = view(frec[2], RD_F32, B, S, N, D),
                                                .num_accepted_tokens =
                                                    view(all, RD_I32, B, 0, 0, 0)};
  const int bad = rdr_commit_recurrent_kda_replayssm(RDR_C1, &c, committed);
  CHECK(&tally, !bad && memcmp(committed, final, NS * sizeof(double)) == 0, "commit");
  for (int i = 0; i < 3; i++) free(frec[i]);
  free(committed);
}

/* The same tokens through three operators of the KDA family and the layouts BSND and TND. */
static void family(void) {
  uint16_t *qkv = malloc(3 * ROWS * 2), *g = malloc(ROWS * 2), beta[B * S * N],
           *part = malloc(ROWS * 6);
  for (int i = 0; i < 3 * ROWS; i++) qkv[i] = rdr_16_of((float)(0.2 * rng_normal(&seed)), RD_BF16);
  for (int i = 0; i < ROWS; i++) g[i] = rdr_16_of((float)(0.2 * rng_normal(&seed)), RD_BF16);
  for (int i = 0; i < B * S * N; i++)
    beta[i] = rdr_16_of((float)(0.2 * rng_normal(&seed)), RD_BF16);
  for (int i = 0; i < B * S; i++)
    for (int which = 0; which < 3; which++)
      memcpy(part + which * ROWS + i * N * D, qkv + (3 * i + which) * N * D, N * D * 2);
  float *state = normals(NS, 0.02), *A = normals(N, 1), *dt = normals(N * D, 1);
  float *wide = normals(B * S * N * D * D, 0);
  int32_t cu[B + 1], first[B * S], one[B];
  for (int b = 0; b <= B; b++) cu[b] = b * S;
  for (int i = 0; i < B * S; i++) first[i] = i;
  for (int b = 0; b < B; b++)
    one[b] = 1, memcpy(wide + b * S * N * D * D, state + b * N * D * D, N * D * D * sizeof *state);
  double *out[4], *final = doubles(NS), *pool = doubles(B * S * N * D * D), *rec[3];
  for (int i = 0; i < 4; i++) out[i] = doubles(ROWS);
  for (int i = 0; i < 3; i++) rec[i] = doubles(ROWS);
  rd_fused_recurrent_kda_replayssm_params v = {.mixedqkv = view(qkv, RD_BF16, B, S, 3 * N * D, 0),
                                               .recurrent_state = view(state, RD_F32, B, N, D, D),
                                               .beta = view(beta, RD_BF16, B, S, N, 1),
                                               .g = view(g, RD_BF16, B, S, N, D),
                                               .A_log = view(A, RD_F32, N, 0, 0, 0),
                                               .dt_bias = view(dt, RD_F32, N, D, 0, 0),
                                               .lower_bound = -5,
                                               .layout_qkv = RD_BSND,
                                               .replay_u = view(NULL, RD_F16, B, S, N, D)};
  int bad = rdr_fused_recurrent_kda_replayssm(RDR_C1, &v, out[0], rec[0], rec[1], rec[2]);
  v.layout_qkv = RD_TND, v.cu_seqlens = view(cu, RD_I32, B + 1, 0, 0, 0);
  v.mixedqkv = view(qkv, RD_BF16, B * S, 3 * N * D, 0, 0),
  v.beta = view(beta, RD_BF16, B * S, N, 1, 0);
  v.g = view(g, RD_BF16, B * S, N, D, 0);
  bad |= rdr_fused_recurrent_kda_replayssm(RDR_C1, &v, out[1], NULL, NULL, NULL);
  rd_flash_kda_params f = {.q = view(part, RD_BF16, B, S, N, D),
                           .k = view(part + ROWS, RD_BF16, B, S, N, D),
                           .v = view(part + 2 * ROWS, RD_BF16, B, S, N, D),
                           .g = view(g, RD_BF16, B, S, N, D),
                           .beta = view(beta, RD_BF16, B, S, N, 0),
                           .initial_state = v.recurrent_state,
                           .A_log = v.A_log,
                           .dt_bias = v.dt_bias,
                           .lower_bound = -5,
                           .layout_qkv = RD_BSND};
  bad |= rdr_flash_kda(RDR_C1, &f, NULL, out[2], final);
  rd_fused_recurrent_kda_params r = {.mixedqkv = v.mixedqkv,
                                     .state = view(wide, RD_F32, B * S, N, D, D),
                                     .beta = v.beta,
                                     .g = v.g,
                                     .A_log = v.A_log,
                                     .dt_bias = v.dt_bias,
                                     .lower_bound = -5,
                                     .layout_qkv = RD_TND,
                                     .cu_seqlens = v.cu_seqlens,
                                     .ssm_state_indices = view(first, RD_I32, B * S, 0, 0, 0),
                                     .num_accepted_tokens = view(one, RD_I32, B, 0, 0, 0)};
  bad |= rdr_fused_recurrent_kda(RDR_C1, &r, pool, out[3]);
  CHECK(&tally, !bad, "out of memory");
  for (int i = 1; i < 4; i++)
    CHECK(&tally, memcmp(out[0], out[i], ROWS * sizeof(double)) == 0, "operator %d", i);
  for (int b = 0; b < B; b++)
    CHECK(&tally, memcmp(pool + ((b + 1) * S - 1) * NS / B, final + b * NS / B, NS / B * 8) == 0,
          "last snapshot and final state of %d", b);
  family_commit(state, rec, final);
  for (int i = 0; i < 4; i++) free(out[i]);
  for (int i = 0; i < 3; i++) free(rec[i]);
  free(qkv), free(g), free(part), free(state), free(A), free(dt), free(wide), free(final),
      free(pool);
}

/* The bits themselves, whatever the machine, compiler and C library: inputs without a library
 * function, FNV-1a over outputs and states of every gate. The number came from x86-64 and aarch64.
 */
static void known_answer(void) {
  rng g = {.s = 42};
  uint64_t hash = 0xcbf29ce484222325u;
  enum { KK = 37, VV = 5, TT = 9 };
  float q[KK], k[KK], gt[KK], dt[KK], v[VV], St[VV * KK], kn[KK], a[KK], qn[KK], kt[KK], qt[KK],
      u[VV], o[VV];
  for (int gate = RD_GATE_NONE; gate <= RD_GATE_DECAY; gate++) {
    const rdr_choices c = {.gate = (rd_gate)gate,
                           .axis = RD_PER_CHANNEL,
                           .beta = RD_BETA_LOGIT,
                           .beta_times = 1,
                           .l2norm = 1,
                           .eps = 1e-6,
                           .scale = 0.164,
                           .lower_bound = -5};
    memset(St, 0, sizeof St);
    for (int i = 0; i < KK; i++) dt[i] = (float)(rng_unit(&g) - 0.5);
    for (int t = 0; t < TT; t++) {
      float beta = (float)(rng_unit(&g) - 0.5), kq;
      for (int i = 0; i < KK; i++) {
        q[i] = (float)(rng_unit(&g) - 0.5), k[i] = (float)(rng_unit(&g) - 0.5);
        gt[i] = (float)(gate == RD_GATE_DECAY ? rng_unit(&g) : -rng_unit(&g));
      }
      for (int i = 0; i < VV; i++) v[i] = (float)(rng_unit(&g) - 0.5);
      rdr_c1_operands(&c, KK, q, k, gt, dt, 0.3f, beta, kn, a, qn, &beta);
      rdr_c1_derive(KK, kn, a, qn, kt, qt, &kq);
      rdr_c1_step(St, KK, VV, kn, a, kt, qt, kq, beta, v, u, o);
      for (size_t i = 0; i < sizeof o; i++)
        hash = (hash ^ ((unsigned char *)o)[i]) * 0x100000001b3u;
    }
    for (size_t i = 0; i < sizeof St; i++)
      hash = (hash ^ ((unsigned char *)St)[i]) * 0x100000001b3u;
  }
  CHECK(&tally, hash == 0x7016700d3212d08dU, "hash %016llx", (unsigned long long)hash);
}

int main(int argc, char **argv) {
  seed.s = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  printf("seed %llu\n", (unsigned long long)seed.s);
  worked_example();
  known_answer();
  verbs();
  family();
  return report_end(&tally);
}
