/* From named tensors and settings to a launch of the verify or the commit kernel. */
#include "replayssm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rd_npu_status number(rdn_call *call, const char *name, double fallback, double *value) {
  const char *text = rdn_call_setting(call, name);
  *value = fallback;
  if (!text || strcmp(text, "None") == 0) return RD_NPU_OK;
  char *end;
  *value = strtod(text, &end);
  if (end == text || *end)
    return rdn_call_fail(call, "%s: expected a number, got '%s'", name, text);
  return RD_NPU_OK;
}

/* Launch size in AI cores: None takes the largest the device has room for. */
static rd_npu_status launch_size(rdn_call *call, uint32_t cores, uint32_t *block_num) {
  static const uint32_t sizes[] = {32, 28, 24, 8};
  double wanted;
  rd_npu_status s = number(call, "block_num", 0, &wanted);
  if (s) return s;
  for (int i = 0; i < 4; i++) {
    if (wanted == 0 ? sizes[i] > cores : wanted != (double)sizes[i]) continue;
    if (sizes[i] > cores)
      return rdn_call_fail(call, "block_num: %u exceeds the modelled device's %u AI cores",
                           sizes[i], cores);
    *block_num = sizes[i];
    return RD_NPU_OK;
  }
  if (wanted == 0)
    return rdn_call_fail(call, "block_num: None needs a device of at least 8 AI cores, got %u",
                         cores);
  return rdn_call_fail(call, "block_num: expected None, 8, 24, 28 or 32, got %g", wanted);
}

/* Settings for experiments on the split; they may not change a bit. */
static rd_npu_status split(rdn_call *call, replay_args *a, uint32_t block_num) {
  double rows, slice;
  rd_npu_status s = number(call, "rows", 0, &rows);
  if (!s) s = number(call, "slice", REPLAY_SLICE, &slice);
  if (s) return s;
  if (rows != 0 && rows != 32 && rows != 64 && rows != 128)
    return rdn_call_fail(call, "rows: expected 32, 64 or 128, got %g", rows);
  if (!(slice >= 1 && slice <= REPLAY_SLICE) || slice != floor(slice))
    return rdn_call_fail(call, "slice: expected 1 to %d, got %g", REPLAY_SLICE, slice);
  a->rows = rows != 0 ? (uint32_t)rows : rdn_replay_rows(a->B * a->N, 2 * block_num);
  a->slice = (uint32_t)slice;
  return RD_NPU_OK;
}

static rd_npu_status finish(rdn_call *call, const replay_args *a, rd_npu_kernel *kernel,
                            uint32_t block_num) {
  const rd_npu_arch_info *arch = rd_npu_arch_get(RD_NPU_950);
  replay_args *copy = malloc(sizeof *copy);
  if (!copy) return RD_NPU_NO_MEMORY;
  *copy = *a;
  call->args = copy;
  call->launch.size = sizeof call->launch;
  call->launch.arch = RD_NPU_950;
  call->launch.kind = RD_NPU_VECTOR;
  call->launch.cores = call->cores ? call->cores : arch->cores;
  call->launch.block_num = block_num;
  call->launch.kernel = kernel;
  call->launch.args = copy;
  return RD_NPU_OK;
}

static rd_npu_status start(rdn_call *call, uint32_t *block_num) {
  if (call->arch != RD_NPU_950)
    return rdn_call_fail(call, "arch: this kernel runs on 950, got %s",
                         rd_npu_arch_get(call->arch)->name);
  return launch_size(call, call->cores ? call->cores : rd_npu_arch_get(RD_NPU_950)->cores,
                     block_num);
}

static rd_npu_status heads(rdn_call *call, const char *name, int64_t B, int64_t N) {
  if (B < 1 || B > 65536)
    return rdn_call_fail(call, "%s: expected B from 1 to 65536, got %" PRId64, name, B);
  if (N < 1 || N > REPLAY_HEADS)
    return rdn_call_fail(call, "%s: expected 1 to %d heads, got %" PRId64, name, REPLAY_HEADS, N);
  return RD_NPU_OK;
}

static rd_npu_status records(rdn_call *call, replay_args *a, rd_npu_access_mode mode) {
  const rdn_named *u = NULL, *k = NULL, *decay = NULL;
  int64_t shape[4] = {a->B, -1, a->N, REPLAY_DIM};
  rd_npu_status s = rdn_call_expect(call, "replay_u", RD_NPU_F16, 4, shape, &u);
  if (s) return s;
  shape[1] = u->shape[1];
  if (!s) s = rdn_call_expect(call, "replay_k", RD_NPU_F16, 4, shape, &k);
  if (!s) s = rdn_call_expect(call, "replay_decay", RD_NPU_F32, 4, shape, &decay);
  if (s) return s;
  if (shape[1] > 1 << 20)
    return rdn_call_fail(call, "replay_u: capacity %" PRId64 " is too large", shape[1]);
  a->C = (uint32_t)shape[1];
  a->u = rdn_call_gm(call, u, mode);
  a->k = rdn_call_gm(call, k, mode);
  a->decay = rdn_call_gm(call, decay, mode);
  return RD_NPU_OK;
}

static rd_npu_status layout_of(rdn_call *call, replay_args *a) {
  static const char *const names[] = {"BSND", "BNSD", "TND"};
  const char *text = rdn_call_setting(call, "layout_qkv");
  for (uint32_t i = 0; i < 3; i++)
    if (strcmp(text ? text : "BSND", names[i]) == 0) {
      a->layout = i;
      return RD_NPU_OK;
    }
  return rdn_call_fail(call, "layout_qkv: expected BSND, BNSD or TND, got '%s'", text);
}

/* cu_seqlens rises strictly from 0 to T; no sequence is longer than the window. */
static rd_npu_status sequences(rdn_call *call, replay_args *a, uint32_t *longest) {
  const rdn_named *cu = rdn_call_input(call, "cu_seqlens");
  *longest = a->S;
  if (a->layout != REPLAY_TND)
    return cu ? rdn_call_fail(call, "cu_seqlens: must be absent unless layout_qkv is TND")
              : RD_NPU_OK;
  rd_npu_status s = rdn_call_expect(call, "cu_seqlens", RD_NPU_S32, 1, (int64_t[]){-1}, &cu);
  if (!s) s = heads(call, "cu_seqlens", cu->shape[0] - 1, a->N);
  if (s) return s;
  a->B = (uint32_t)cu->shape[0] - 1;
  const int32_t *at = cu->data;
  *longest = 0;
  if (at[0] != 0) return rdn_call_fail(call, "cu_seqlens: expected to start at 0, got %d", at[0]);
  for (uint32_t b = 0; b < a->B; b++) {
    if (at[b + 1] <= at[b])
      return rdn_call_fail(call, "cu_seqlens: entry %u is %d, expected more than %d", b + 1,
                           at[b + 1], at[b]);
    if ((uint32_t)(at[b + 1] - at[b]) > *longest) *longest = (uint32_t)(at[b + 1] - at[b]);
  }
  if ((uint32_t)at[a->B] != a->S)
    return rdn_call_fail(call, "cu_seqlens: expected to end at %u tokens, got %d", a->S, at[a->B]);
  a->cu = rdn_call_gm(call, cu, RD_NPU_IN);
  return RD_NPU_OK;
}

/* Sizes from g; mixedqkv and beta must agree. */
static rd_npu_status activations(rdn_call *call, replay_args *a, const rdn_named **g_out) {
  const rdn_named *g = NULL, *mixed = NULL, *beta = NULL;
  const bool tnd = a->layout == REPLAY_TND, bnsd = a->layout == REPLAY_BNSD;
  const uint32_t rank = tnd ? 3 : 4;
  int64_t any[4] = {-1, -1, -1, REPLAY_DIM};
  any[rank - 1] = REPLAY_DIM;
  rd_npu_status s = rdn_call_expect(call, "g", RD_NPU_BF16, rank, any, &g);
  if (s) return s;
  const int64_t B = tnd ? 1 : g->shape[0], N = g->shape[bnsd ? 1 : rank - 2],
                S = g->shape[tnd    ? 0
                             : bnsd ? 2
                                    : 1];
  s = heads(call, "g", B, N);
  if (s) return s;
  if (S < 1 || S > 1 << 24)
    return rdn_call_fail(call, "g: expected at least one token, got %" PRId64, S);
  a->B = (uint32_t)B, a->N = (uint32_t)N, a->S = (uint32_t)S;
  const int64_t mixed_tnd[2] = {S, 3 * N * REPLAY_DIM}, mixed_bsnd[3] = {B, S, 3 * N * REPLAY_DIM};
  const int64_t mixed_bnsd[4] = {B, 3 * N, S, REPLAY_DIM};
  s = rdn_call_expect(call, "mixedqkv", RD_NPU_BF16,
                      tnd    ? 2
                      : bnsd ? 4
                             : 3,
                      tnd    ? mixed_tnd
                      : bnsd ? mixed_bnsd
                             : mixed_bsnd,
                      &mixed);
  int64_t logits[4];
  memcpy(logits, g->shape, sizeof logits);
  logits[rank - 1] = 1;
  if (!s) s = rdn_call_expect(call, "beta", RD_NPU_BF16, rank, logits, &beta);
  if (s) return s;
  a->mixedqkv = rdn_call_gm(call, mixed, RD_NPU_IN);
  a->beta = rdn_call_gm(call, beta, RD_NPU_IN);
  a->g = rdn_call_gm(call, g, RD_NPU_IN);
  *g_out = g;
  return RD_NPU_OK;
}

static rd_npu_status scalars(rdn_call *call, replay_args *a) {
  double scale, lb;
  rd_npu_status s = number(call, "scale", 1.0 / sqrt((double)REPLAY_DIM), &scale);
  if (!s) s = number(call, "lower_bound", -5.0, &lb);
  if (s) return s;
  if (!isfinite((float)scale))
    return rdn_call_fail(call, "scale: expected a finite number, got %g", scale);
  if (!(lb >= -5.0 && lb <= 0.0))
    return rdn_call_fail(call, "lower_bound: expected [-5, 0], got %g", lb);
  a->scale = (float)scale;
  a->lower_bound = (float)lb;
  return RD_NPU_OK;
}

rd_npu_status rdn_replay_verify_prepare(rdn_call *call) {
  replay_args a = {0};
  const rdn_named *g = NULL, *A_log = NULL, *dt_bias = NULL, *state = NULL;
  uint32_t block_num, longest;
  rd_npu_status s = start(call, &block_num);
  if (!s) s = scalars(call, &a);
  if (!s) s = layout_of(call, &a);
  if (!s) s = activations(call, &a, &g);
  if (!s) s = sequences(call, &a, &longest);
  if (!s) s = rdn_call_expect(call, "A_log", RD_NPU_F32, 1, (int64_t[]){a.N}, &A_log);
  if (!s)
    s = rdn_call_expect(call, "dt_bias", RD_NPU_F32, 2, (int64_t[]){a.N, REPLAY_DIM}, &dt_bias);
  if (!s)
    s = rdn_call_expect(call, "recurrent_state", RD_NPU_F32, 4,
                        (int64_t[]){a.B, a.N, REPLAY_DIM, REPLAY_DIM}, &state);
  if (!s) s = records(call, &a, RD_NPU_OUT);
  if (s) return s;
  if (longest > REPLAY_WINDOW)
    return rdn_call_fail(call, "g: expected at most %d tokens per sequence, got %u", REPLAY_WINDOW,
                         longest);
  if (longest > a.C)
    return rdn_call_fail(call, "replay_u: capacity %u is less than the longest sequence, %u", a.C,
                         longest);
  s = split(call, &a, block_num);
  if (s) return s;
  a.A_log = rdn_call_gm(call, A_log, RD_NPU_IN);
  a.dt_bias = rdn_call_gm(call, dt_bias, RD_NPU_IN);
  a.state = rdn_call_gm(call, state, RD_NPU_IN);
  rdn_named *out = rdn_call_add(call, "out", RD_NPU_BF16, g->rank, g->shape, NULL);
  if (!out) return call->status;
  a.out = rdn_call_gm(call, out, RD_NPU_OUT);
  static const char *const written[] = {"replay_u", "replay_k", "replay_decay", "out"};
  for (int i = 0; i < 4; i++) rdn_call_tensor(call, written[i])->output = true;
  return finish(call, &a, rdn_replay_verify_kernel, block_num);
}

rd_npu_status rdn_replay_commit_prepare(rdn_call *call) {
  replay_args a = {0};
  const rdn_named *state = NULL, *accepted = NULL;
  uint32_t block_num;
  rd_npu_status s = start(call, &block_num);
  if (!s)
    s = rdn_call_expect(call, "recurrent_state", RD_NPU_F32, 4,
                        (int64_t[]){-1, -1, REPLAY_DIM, REPLAY_DIM}, &state);
  if (!s) s = heads(call, "recurrent_state", state->shape[0], state->shape[1]);
  if (s) return s;
  a.B = (uint32_t)state->shape[0];
  a.N = (uint32_t)state->shape[1];
  s = records(call, &a, RD_NPU_IN);
  if (!s)
    s = rdn_call_expect(call, "num_accepted_tokens", RD_NPU_S32, 1, (int64_t[]){a.B}, &accepted);
  if (s) return s;
  for (uint32_t b = 0; b < a.B; b++) {
    const int32_t n = ((const int32_t *)accepted->data)[b];
    if (n < 0 || (uint32_t)n > a.C)
      return rdn_call_fail(call, "num_accepted_tokens: entry %u is %d, expected 0 to %u", b, n,
                           a.C);
  }
  s = split(call, &a, block_num);
  if (s) return s;
  a.accepted = rdn_call_gm(call, accepted, RD_NPU_IN);
  a.state = rdn_call_gm(call, state, RD_NPU_INOUT);
  rdn_call_tensor(call, "recurrent_state")->output = true;
  return finish(call, &a, rdn_replay_commit_kernel, block_num);
}

void rdn_replay_plan(const rdn_call *call, rdn_text_sink *sink, void *user) {
  const replay_args *a = call->args;
  const uint32_t programs = 2 * call->launch.block_num,
                 items = a->B * a->N * (REPLAY_DIM / a->rows);
  char line[200];
  snprintf(line, sizeof line, "launch: %u AI cores of %u, %u vector programs\n",
           call->launch.block_num, call->launch.cores, programs);
  sink(user, line);
  snprintf(line, sizeof line, "items: %u = %u sequences x %u heads x %u blocks of %u rows\n", items,
           a->B, a->N, REPLAY_DIM / a->rows, a->rows);
  sink(user, line);
  snprintf(line, sizeof line, "waves: %u (last one %u of %u programs busy), slices of %u tokens\n",
           (items + programs - 1) / programs, items % programs ? items % programs : programs,
           programs, a->slice);
  sink(user, line);
}

static const rdn_preset verify_presets[] = {
    {"default", "layout=TND,N=5,lengths=20:9:1,block_num=8"},
    {"demo-bsnd", "layout=BSND,B=1,N=1,S=8"},
    {"demo-bnsd", "layout=BNSD,B=2,N=17,S=9"},
    {"demo-tnd", "layout=TND,N=8,lengths=5:1:3"},
    {NULL, NULL},
};
/* Several waves with each row block, first/middle/last slices, ragged tails, one token, one program idle. */
static const char *const verify_shapes[] = {
    "layout=TND,N=5,lengths=20:9:1,block_num=8",
    "layout=BSND,B=2,N=17,S=10,block_num=8",
    "layout=BSND,B=2,N=17,S=2,block_num=8",
    "layout=BNSD,B=2,N=12,S=11,block_num=8",
    "layout=BSND,B=1,N=9,S=8,block_num=8",
    "layout=BSND,B=1,N=1,S=1,block_num=8",
    NULL,
};
static const rdn_limit verify_limits[] = {
    {"out", 0, 0.005, 0.005},
    {"replay_u", 0, 0.005, 0.005},
    {"replay_k", 0, 0.005, 0.005},
    {"replay_decay", 0, 0.005, 0.005},
    {NULL, 0, 0, 0},
};
const rdn_kernel_desc rdn_kernel_verify_replayssm = {
    .name = "fused_recurrent_kda_replayssm",
    .summary = "KDA verify from a read-only checkpoint on vector cores",
    .arch = RD_NPU_950,
    .presets = verify_presets,
    .mutation_shapes = verify_shapes,
    .generate = rdn_replay_verify_generate,
    .prepare = rdn_replay_verify_prepare,
    .oracle = rdn_replay_verify_oracle,
    .limits = verify_limits,
    .plan = rdn_replay_plan,
};

static const rdn_preset commit_presets[] = {
    {"default", "B=3,N=6,C=20,accepted=20:9:0,block_num=8"},
    {NULL, NULL},
};
static const char *const commit_shapes[] = {
    "B=3,N=6,C=20,accepted=20:9:0,block_num=8", "B=2,N=17,C=10,accepted=10:1,block_num=8",
    "B=2,N=12,C=11,accepted=11:8,block_num=8",  "B=1,N=1,C=1,accepted=1,block_num=8",
    "B=2,N=1,C=4,accepted=0:0,block_num=8",     NULL,
};
static const rdn_limit commit_limits[] = {{"recurrent_state", 0, 0.005, 0.005}, {NULL, 0, 0, 0}};
const rdn_kernel_desc rdn_kernel_commit_replayssm = {
    .name = "commit_recurrent_kda_replayssm",
    .summary = "applies the accepted prefix of the records to the checkpoint on vector cores",
    .arch = RD_NPU_950,
    .presets = commit_presets,
    .mutation_shapes = commit_shapes,
    .generate = rdn_replay_commit_generate,
    .prepare = rdn_replay_commit_prepare,
    .oracle = rdn_replay_commit_oracle,
    .limits = commit_limits,
    .plan = rdn_replay_plan,
};
