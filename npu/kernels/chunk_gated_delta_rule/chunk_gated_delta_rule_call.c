/* Descriptor of chunk_gated_delta_rule: made-up inputs, validation, the double oracle. */
#include "npu/kernels/harness/kernel.h"
#include "chunk_gated_delta_rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dims {
  int64_t B, Hk, Hv, T, K, V;
} dims;

static const rdn_preset presets[] = {
    {"default", "B=2,Hk=1,Hv=2,T=150,K=32,V=48,lengths=150:37"},
    {"qwen3.5", "B=1,Hk=16,Hv=32,T=512,K=128,V=128,s0=0"},
    {NULL, NULL},
};

/* First, middle and last chunk, ragged tails, lengths 0, K = V = 16 (where accumulating needs the
 * barrier), K != V, one value strip, full size; one and several heads per core; both state types;
 * no gate. */
static const char *const mutation_shapes[] = {
    "B=2,Hk=1,Hv=2,T=150,K=32,V=48,lengths=150:37",
    "B=3,Hk=1,Hv=1,T=200,K=16,V=16,lengths=200:0:5",
    "B=3,Hk=1,Hv=2,T=66,K=48,V=32,lengths=66:0:33,gate=none,cores=2",
    "B=5,Hk=1,Hv=1,T=130,K=32,V=16,lengths=0:0:130:0:1,state=f32,cores=1",
    "B=3,Hk=1,Hv=1,T=64,K=64,V=64,lengths=20:64:36,state=f32,cores=1",
    "B=2,Hk=1,Hv=1,T=140,K=128,V=128,lengths=140:128,cores=1",
    NULL,
};

static const rdn_limit limits[] = {
    {"out", 1e-3, 0, 0},
    {"final_state", 1e-3, 0, 0},
    {NULL, 0, 0, 0},
};

/* ------------------------------------------------------------------ generate */

static bool shape_double(const char *shape, const char *key, double fallback, double *value) {
  char text[32], *end = NULL;
  *value = fallback;
  if (!rdn_shape_text(shape, key, text, sizeof text)) return true;
  *value = strtod(text, &end);
  return end != text && *end == 0 && isfinite(*value);
}

/* `rows` unit vectors; any two share the cosine `cosine` when that is not 0. */
static void fill_units(rdn_named *t, int64_t rows, int64_t n, double cosine, uint64_t *seed) {
  double common[128], x[128];
  for (int64_t r = -1; r < rows; r++) {
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n; i++) x[i] = rdn_rand_normal(seed);
    for (int64_t i = 0; i < n && r >= 0 && cosine > 0; i++) dot += x[i] * common[i];
    for (int64_t i = 0; i < n; i++) {
      if (r >= 0 && cosine > 0) x[i] -= dot * common[i];
      sum += x[i] * x[i];
    }
    for (int64_t i = 0; i < n; i++) {
      x[i] /= sqrt(sum);
      if (r < 0)
        common[i] = x[i];
      else
        rdn_named_store(t, r * n + i, sqrt(cosine) * common[i] + sqrt(1 - cosine) * x[i]);
    }
  }
}

static double gate_value(const char *kind, int64_t t, uint64_t *seed) {
  double x = rdn_rand_uniform(seed);
  if (strcmp(kind, "zero") == 0) return 0;
  if (strcmp(kind, "slow") == 0) return -0.01 * x;
  if (strcmp(kind, "hard") == 0) return t % 37 == 11 ? -INFINITY : t % 13 == 5 ? -2661 : -0.05 * x;
  return -(x + 0.01);
}

static bool read_dims(const char *shape, dims *d) {
  return rdn_shape_int(shape, "B", 2, &d->B) && rdn_shape_int(shape, "Hk", 1, &d->Hk) &&
         rdn_shape_int(shape, "Hv", 2, &d->Hv) && rdn_shape_int(shape, "T", 150, &d->T) &&
         rdn_shape_int(shape, "K", 32, &d->K) && rdn_shape_int(shape, "V", 48, &d->V) && d->B > 0 &&
         d->B <= 256 && d->Hk > 0 && d->Hv > 0 && d->T >= 0 && d->K > 0 && d->K <= 128 &&
         d->V > 0 && d->B * d->Hv <= 4096 && d->T <= 65536 && d->V <= 128 && d->Hk <= d->Hv;
}

static rd_npu_status generate(rdn_call *call, const char *shape) {
  dims d;
  double cosine, beta, s0;
  int64_t lengths[256], cores;
  char gate[16] = "random", state_type[8] = "f16", scale[32];
  if (!read_dims(shape, &d) || !shape_double(shape, "cosine", 0, &cosine) ||
      !shape_double(shape, "beta", -1, &beta) || !shape_double(shape, "s0", 1, &s0) ||
      !rdn_shape_int(shape, "cores", 0, &cores) || cosine < 0 || cosine > 1 || beta > 1)
    return rdn_call_fail(call, "shape %s: a value is malformed or out of range", shape);
  rdn_shape_text(shape, "gate", gate, sizeof gate);
  rdn_shape_text(shape, "state", state_type, sizeof state_type);
  if (cores > 0) call->cores = (uint32_t)cores;
  int given = rdn_shape_list(shape, "lengths", lengths, 256);
  if (given == 0 && d.B == 2 && d.T == 150 && !strstr(shape, "B=") && !strstr(shape, "T="))
    given = 2, lengths[0] = 150, lengths[1] = 37;
  for (; given == 0 || (given > 0 && given < d.B && lengths[given - 1] == d.T); given++) {
    if (given == d.B) break;
    lengths[given] = d.T;
  }
  if (given != d.B)
    return rdn_call_fail(call, "shape %s: lengths must name %lld values", shape, (long long)d.B);

  rd_npu_type st = strcmp(state_type, "f32") == 0 ? RD_NPU_F32 : RD_NPU_F16;
  rdn_named *q = rdn_call_add(call, "query", RD_NPU_F16, 4, (int64_t[]){d.B, d.Hk, d.T, d.K}, NULL);
  rdn_named *k = rdn_call_add(call, "key", RD_NPU_F16, 4, (int64_t[]){d.B, d.Hk, d.T, d.K}, NULL);
  rdn_named *v = rdn_call_add(call, "value", RD_NPU_F16, 4, (int64_t[]){d.B, d.Hv, d.T, d.V}, NULL);
  rdn_named *b = rdn_call_add(call, "beta", RD_NPU_F16, 3, (int64_t[]){d.B, d.Hv, d.T}, NULL);
  rdn_named *s = rdn_call_add(call, "state", st, 4, (int64_t[]){d.B, d.Hv, d.K, d.V}, NULL);
  rdn_named *n = rdn_call_add(call, "actual_seq_lengths", RD_NPU_S32, 1, (int64_t[]){d.B}, NULL);
  rdn_named *g = NULL;
  if (!q || !k || !v || !b || !s || !n) return call->status;
  if (strcmp(gate, "none") != 0) {
    g = rdn_call_add(call, "g", RD_NPU_F32, 3, (int64_t[]){d.B, d.Hv, d.T}, NULL);
    if (!g) return call->status;
  }

  uint64_t seed = call->seed;
  fill_units(q, d.B * d.Hk * d.T, d.K, 0, &seed);
  fill_units(k, d.B * d.Hk * d.T, d.K, cosine, &seed);
  for (int64_t i = 0; i < rdn_named_count(v); i++) rdn_named_store(v, i, rdn_rand_normal(&seed));
  for (int64_t i = 0; i < rdn_named_count(b); i++)
    rdn_named_store(b, i,
                    beta < 0 ? 1 / (1 + exp(-rdn_rand_normal(&seed)))
                             : beta + (1 - beta) * rdn_rand_uniform(&seed));
  for (int64_t i = 0; i < rdn_named_count(s); i++)
    rdn_named_store(s, i, s0 * rdn_rand_normal(&seed));
  for (int64_t i = 0; i < d.B; i++) rdn_named_store(n, i, (double)lengths[i]);
  for (int64_t i = 0; g && i < rdn_named_count(g); i++)
    rdn_named_store(g, i, gate_value(gate, i % d.T, &seed));
  snprintf(scale, sizeof scale, "%.17g", 1 / sqrt((double)d.K));
  return rdn_call_set(call, "scale_value", scale) ? RD_NPU_OK : RD_NPU_BAD_INPUT;
}

/* ------------------------------------------------------------------ prepare */

static const rdn_named *expect(rdn_call *call, const char *name, rd_npu_type type, uint32_t rank,
                               const int64_t *shape) {
  const rdn_named *t = NULL;
  return rdn_call_expect(call, name, type, rank, shape, &t) ? NULL : t;
}

static bool dims_ok(rdn_call *call, dims *d) {
  const rdn_named *q = expect(call, "query", RD_NPU_F16, 4, NULL);
  const rdn_named *v = q ? expect(call, "value", RD_NPU_F16, 4, NULL) : NULL;
  if (!v) return false;
  *d = (dims){q->shape[0], q->shape[1], v->shape[1], q->shape[2], q->shape[3], v->shape[3]};
  const char *bad = NULL;
  if (d->B < 1 || d->Hk < 1 || d->Hv < 1)
    bad = "batch and head counts must be at least 1";
  else if (d->Hv % d->Hk)
    bad = "the value heads must be a multiple of the key heads";
  else if (d->K < 16 || d->K > 128 || d->K % 16)
    bad = "K (last dimension of query) must be a multiple of 16, 16 to 128";
  else if (d->V < 16 || d->V > 128 || d->V % 16)
    bad = "V (last dimension of value) must be a multiple of 16, 16 to 128";
  else if (d->B > INT32_MAX || d->Hv > INT32_MAX || d->T > INT32_MAX || d->B * d->Hv > INT32_MAX ||
           d->B * d->Hv * 512 > ((int64_t)1 << 43) / (d->T + 128))
    bad = "the tensors are too large for the model";
  if (bad) rdn_call_fail(call, "%s", bad);
  return !bad;
}

static bool lengths_ok(rdn_call *call, const rdn_named *lengths, const dims *d) {
  for (int64_t i = 0; i < d->B; i++) {
    double n = rdn_named_value(lengths, i);
    if (n >= 0 && n <= (double)d->T) continue;
    rdn_call_fail(call, "actual_seq_lengths[%lld] must be in 0..%lld, not %.0f", (long long)i,
                  (long long)d->T, n);
    return false;
  }
  return true;
}

static bool scale_ok(rdn_call *call, float *scale) {
  const char *text = rdn_call_setting(call, "scale_value");
  char *end = NULL;
  double x = text ? strtod(text, &end) : 1.0;
  *scale = (float)x;
  if ((text && (end == text || *end)) || !isfinite(*scale)) {
    rdn_call_fail(call, "scale_value must be a finite number, not %s", text ? text : "");
    return false;
  }
  return true;
}

static rd_npu_status prepare(rdn_call *call) {
  dims d;
  float scale;
  if (call->arch != RD_NPU_310P)
    return rdn_call_fail(call, "chunk_gated_delta_rule runs on 310P only, not %s",
                         rd_npu_arch_get(call->arch) ? rd_npu_arch_get(call->arch)->name : "?");
  if (!dims_ok(call, &d)) return RD_NPU_BAD_INPUT;
  const rdn_named *s = rdn_call_input(call, "state"), *g = rdn_call_input(call, "g");
  rd_npu_type st = s && s->type == RD_NPU_F32 ? RD_NPU_F32 : RD_NPU_F16;
  const rdn_named *in[RD_CG_TENSORS] = {0};
  in[RD_CG_QUERY] = rdn_call_input(call, "query");
  in[RD_CG_KEY] = expect(call, "key", RD_NPU_F16, 4, (int64_t[]){d.B, d.Hk, d.T, d.K});
  if (!in[RD_CG_KEY]) return RD_NPU_BAD_INPUT;
  in[RD_CG_VALUE] = expect(call, "value", RD_NPU_F16, 4, (int64_t[]){d.B, d.Hv, d.T, d.V});
  if (!in[RD_CG_VALUE]) return RD_NPU_BAD_INPUT;
  in[RD_CG_BETA] = expect(call, "beta", RD_NPU_F16, 3, (int64_t[]){d.B, d.Hv, d.T});
  if (!in[RD_CG_BETA]) return RD_NPU_BAD_INPUT;
  in[RD_CG_STATE] = expect(call, "state", st, 4, (int64_t[]){d.B, d.Hv, d.K, d.V});
  if (!in[RD_CG_STATE]) return RD_NPU_BAD_INPUT;
  in[RD_CG_LENGTHS] = expect(call, "actual_seq_lengths", RD_NPU_S32, 1, (int64_t[]){d.B});
  if (!in[RD_CG_LENGTHS] || !lengths_ok(call, in[RD_CG_LENGTHS], &d) || !scale_ok(call, &scale))
    return RD_NPU_BAD_INPUT;
  if (g && !expect(call, "g", RD_NPU_F32, 3, (int64_t[]){d.B, d.Hv, d.T})) return RD_NPU_BAD_INPUT;
  in[RD_CG_G] = g;

  rdn_named *out = rdn_call_add(call, "out", RD_NPU_F16, 4, (int64_t[]){d.B, d.Hv, d.T, d.V}, NULL);
  rdn_named *fs =
      out ? rdn_call_add(call, "final_state", st, 4, (int64_t[]){d.B, d.Hv, d.K, d.V}, NULL) : NULL;
  if (!fs) return call->status;
  rdn_cg_args *a = calloc(1, sizeof *a);
  call->args = a;
  if (!a) return RD_NPU_NO_MEMORY;
  out->output = fs->output = true;
  in[RD_CG_OUT] = out;
  in[RD_CG_FINAL_STATE] = fs;
  *a = (rdn_cg_args){(uint32_t)d.B, (uint32_t)d.Hk, (uint32_t)d.Hv,   (uint32_t)d.T, (uint32_t)d.K,
                     (uint32_t)d.V, g != NULL,      st == RD_NPU_F32, scale};
  uint32_t cores = call->cores ? call->cores : rd_npu_arch_get(RD_NPU_310P)->cores;
  uint32_t items = (uint32_t)(d.B * d.Hv);
  call->launch = (rd_npu_launch){.size = sizeof call->launch,
                                 .arch = RD_NPU_310P,
                                 .kind = RD_NPU_COUPLED,
                                 .cores = cores,
                                 .block_num = items < cores ? items : cores,
                                 .kernel = rdn_chunk_gated_delta_rule,
                                 .args = a};
  for (uint32_t i = 0; i < RD_CG_TENSORS; i++)
    if (in[i])
      rdn_call_gm(call, in[i], i == RD_CG_OUT || i == RD_CG_FINAL_STATE ? RD_NPU_OUT : RD_NPU_IN);
  return RD_NPU_OK;
}

/* ------------------------------------------------------------------ oracle */

static void read_rows(const rdn_named *t, int64_t at, int64_t n, double *x) {
  for (int64_t i = 0; i < n; i++) x[i] = rdn_named_value(t, at + i);
}

/* One token: S <- a S; u = beta (v - k S); S += k^T u; o = scale q S.  S is [K,V]. */
static void token(const dims *d, double *S, const double *q, const double *k, const double *v,
                  double beta, double a, double scale, double *o) {
  double u[128];
  for (int64_t j = 0; j < d->V; j++) u[j] = v[j];
  for (int64_t i = 0; i < d->K; i++)
    for (int64_t j = 0; j < d->V; j++) {
      S[i * d->V + j] *= a;
      u[j] -= k[i] * S[i * d->V + j];
    }
  for (int64_t j = 0; j < d->V; j++) u[j] *= beta, o[j] = 0;
  for (int64_t i = 0; i < d->K; i++)
    for (int64_t j = 0; j < d->V; j++) {
      S[i * d->V + j] += k[i] * u[j];
      o[j] += scale * q[i] * S[i * d->V + j];
    }
}

static rd_npu_status oracle(const rdn_call *call, const char *output, double *expected) {
  const rdn_named *q = rdn_call_input(call, "query"), *k = rdn_call_input(call, "key");
  const rdn_named *v = rdn_call_input(call, "value"), *beta = rdn_call_input(call, "beta");
  const rdn_named *s0 = rdn_call_input(call, "state"), *g = rdn_call_input(call, "g");
  const rdn_named *n = rdn_call_input(call, "actual_seq_lengths");
  const char *text = rdn_call_setting(call, "scale_value");
  double scale = text ? (double)(float)strtod(text, NULL) : 1.0, qt[128], kt[128], vt[128], o[128];
  dims d = {q->shape[0], q->shape[1], v->shape[1], q->shape[2], q->shape[3], v->shape[3]};
  bool state = strcmp(output, "final_state") == 0;
  double *S = malloc((size_t)(d.K * d.V) * sizeof *S);
  if (!S) return RD_NPU_NO_MEMORY;
  for (int64_t i = 0; i < d.B * d.Hv; i++) {
    int64_t b = i / d.Hv, hk = i % d.Hv / (d.Hv / d.Hk), length = (int64_t)rdn_named_value(n, b);
    read_rows(s0, i * d.K * d.V, d.K * d.V, S);
    for (int64_t t = 0; t < d.T; t++) {
      if (t < length) {
        read_rows(q, ((b * d.Hk + hk) * d.T + t) * d.K, d.K, qt);
        read_rows(k, ((b * d.Hk + hk) * d.T + t) * d.K, d.K, kt);
        read_rows(v, (i * d.T + t) * d.V, d.V, vt);
        token(&d, S, qt, kt, vt, rdn_named_value(beta, i * d.T + t),
              g ? exp(rdn_named_value(g, i * d.T + t)) : 1.0, scale, o);
      }
      for (int64_t j = 0; j < d.V && !state; j++)
        expected[(i * d.T + t) * d.V + j] = t < length ? o[j] : 0;
    }
    if (state) memcpy(expected + i * d.K * d.V, S, (size_t)(d.K * d.V) * sizeof *S);
  }
  free(S);
  return RD_NPU_OK;
}

static void plan(const rdn_call *call, rdn_text_sink *sink, void *user) {
  const rdn_cg_args *a = call->args;
  char line[160];
  snprintf(line, sizeof line,
           "%u heads (sequence x value head) on %u cores: core i takes heads i, i+%u, ...\n",
           a->B * a->Hv, call->launch.block_num, call->launch.block_num);
  if (!sink(user, line)) return;
  snprintf(line, sizeof line,
           "each head in chunks of 64 tokens, %u for the longest possible sequence; "
           "%u products per chunk\n",
           (a->T + 63) / 64, a->V > 16 ? 8u : 7u);
  sink(user, line);
}

const rdn_kernel_desc rdn_kernel_chunk_gated_delta_rule = {
    .name = "chunk_gated_delta_rule",
    .summary = "chunked gated delta rule (GDN prefill) on the coupled 310P core, f16",
    .gm_slack = RD_CG_SLACK,
    .arch = RD_NPU_310P,
    .presets = presets,
    .mutation_shapes = mutation_shapes,
    .generate = generate,
    .prepare = prepare,
    .oracle = oracle,
    .limits = limits,
    .plan = plan,
};
