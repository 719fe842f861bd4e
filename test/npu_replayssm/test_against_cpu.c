/* The model's kernels beside the CPU operators on the same tensors: verify within 0.005, commit to the
 * bit (its fused multiply-adds and record types are the same). */
#include "common.h"

#include <redelta/redelta.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rd_tensor view(const rdn_call *call, const char *name) {
  static const rd_dtype types[] = {
      [RD_NPU_F16] = RD_F16, [RD_NPU_BF16] = RD_BF16, [RD_NPU_F32] = RD_F32, [RD_NPU_S32] = RD_I32};
  const rdn_named *t = rdn_call_input(call, name);
  if (!t) return (rd_tensor){0};
  return rd_tensor_contiguous(t->data, types[t->type], (int32_t)t->rank, t->shape);
}

/* A second call with the same bytes, for the CPU to write into. */
static rdn_call generated(const char *kernel, const char *shape) {
  rdn_call call;
  rdn_call_init(&call, RD_NPU_950);
  call.seed = 1;
  const rdn_kernel_desc *desc = rdn_kernel_find(kernel);
  passed_if(desc->generate(&call, shape) == RD_NPU_OK && desc->prepare(&call) == RD_NPU_OK, shape,
            call.error);
  return call;
}

static void verify(rd_context *ctx, const char *shape) {
  const how h = {.mode = RD_NPU_VALUES, .threads = 2};
  rdn_call npu = run_shape(VERIFY, shape, &h), cpu = generated(VERIFY, shape);
  rd_fused_recurrent_kda_replayssm_params p;
  rd_fused_recurrent_kda_replayssm_init(&p);
  p.mixedqkv = view(&cpu, "mixedqkv"), p.recurrent_state = view(&cpu, "recurrent_state");
  p.beta = view(&cpu, "beta"), p.g = view(&cpu, "g"), p.A_log = view(&cpu, "A_log"),
  p.dt_bias = view(&cpu, "dt_bias");
  p.replay_u = view(&cpu, "replay_u"), p.replay_k = view(&cpu, "replay_k");
  p.replay_decay = view(&cpu, "replay_decay"), p.cu_seqlens = view(&cpu, "cu_seqlens"),
  p.out = view(&cpu, "out");
  p.layout_qkv = rd_layout_qkv_parse(rdn_call_setting(&cpu, "layout_qkv"));
  passed_if(rd_fused_recurrent_kda_replayssm(ctx, &p) == RD_OK, shape, rd_last_error(ctx));
  static const char *const outputs[] = {"out", "replay_u", "replay_k", "replay_decay"};
  for (int i = 0; i < 4; i++) {
    const rdn_named *a = rdn_call_input(&npu, outputs[i]), *b = rdn_call_input(&cpu, outputs[i]);
    double worst = 0;
    for (int64_t j = 0, n = rdn_named_count(a); j < n; j++) {
      const double r = rdn_named_value(b, j), e = fabs(rdn_named_value(a, j) - r) / (1 + fabs(r));
      if (!(e <= worst)) worst = e;
    }
    char detail[80];
    snprintf(detail, sizeof detail, "%s differs by %g", outputs[i], worst);
    passed_if(worst <= 0.005, shape, detail);
  }
  rdn_call_free(&npu);
  rdn_call_free(&cpu);
}

static void commit(rd_context *ctx, const char *shape) {
  const how h = {.mode = RD_NPU_VALUES, .threads = 2};
  rdn_call npu = run_shape(COMMIT, shape, &h), cpu = generated(COMMIT, shape);
  rd_commit_recurrent_kda_replayssm_params p;
  rd_commit_recurrent_kda_replayssm_init(&p);
  p.recurrent_state = view(&cpu, "recurrent_state"),
  p.num_accepted_tokens = view(&cpu, "num_accepted_tokens");
  p.replay_u = view(&cpu, "replay_u"), p.replay_k = view(&cpu, "replay_k");
  p.replay_decay = view(&cpu, "replay_decay");
  passed_if(rd_commit_recurrent_kda_replayssm(ctx, &p) == RD_OK, shape, rd_last_error(ctx));
  check_same(shape, &npu, &cpu);
  rdn_call_free(&npu);
  rdn_call_free(&cpu);
}

/* The commit grid. What one call needs beside the model's copy: two states and two sets of records. */
static void grid(rd_context *ctx, const int *B, int nB, const int *N, int nN, double memory_gb) {
  static const int S[] = {1, 4, 8, 16};
  for (int b = 0; b < nB; b++)
    for (int n = 0; n < nN; n++)
      for (int s = 0; s < 4; s++) {
        char shape[4][96];
        const int count = S[s] == 1 ? 2 : 4;
        const int accepted[3] = {0, S[s], 1};
        for (int i = 0; i < 3; i++)
          snprintf(shape[i], sizeof shape[i], "B=%d,N=%d,C=%d,accepted=%d", B[b], N[n], S[s],
                   accepted[i]);
        snprintf(shape[3], sizeof shape[3], "B=%d,N=%d,C=%d", B[b], N[n], S[s]);
        const double gb = (double)B[b] * N[n] * 65536 * 3 / 1e9;
        for (int i = 0; i < count; i++)
          if (gb > memory_gb)
            skipped(shape[i]);
          else
            commit(ctx, shape[i]);
      }
}

int main(int argc, char **argv) {
  rd_context *ctx;
  if (rd_context_create(NULL, &ctx) != RD_OK) return 1;
  if (argc > 1 && strcmp(argv[1], "--full") == 0) {
    const double memory = argc > 2 ? atof(argv[2]) : 0;
    grid(ctx, (const int[]){1, 7, 16, 32, 256}, 5, (const int[]){1, 6, 32, 96}, 4, memory);
  } else {
    verify(ctx, "layout=BSND,B=1,N=1,S=8");
    verify(ctx, "layout=BNSD,B=2,N=17,S=9");
    verify(ctx, "layout=TND,N=8,lengths=5:1:3");
    verify(ctx, "layout=TND,N=3,lengths=64:33:1,C=64");
    grid(ctx, (const int[]){1, 7}, 2, (const int[]){1, 6}, 2, 1);
    commit(ctx, "B=2,N=33,C=9,accepted=9:4");
  }
  rd_context_destroy(ctx);
  return summary();
}
