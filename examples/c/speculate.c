/*
 * Speculative decoding with replay records, the shortest complete form.
 *
 * A draft proposes T tokens; verify computes their outputs from a state that is only read; sampling
 * accepts the first m; commit applies exactly those. At the end the state has the bits that plain
 * decoding of the accepted tokens would have left: checked here by doing that too.
 */
#include <redelta/redelta.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H = 4, D = 64, WINDOW = 8, ROUNDS = 50 };

static float noise(void) { return (float)rand() / (float)RAND_MAX - 0.5f; }

/* Inputs of WINDOW tokens of one sequence; a draft token's values do not depend on what follows it. */
typedef struct tokens {
  float q[WINDOW][H][D], k[WINDOW][H][D], v[WINDOW][H][D], g[WINDOW][H][D], beta[WINDOW][H];
  float out[WINDOW][H][D];
} tokens;

static void draw(tokens *x) {
  for (int t = 0; t < WINDOW; t++)
    for (int h = 0; h < H; h++) {
      x->beta[t][h] = noise() + 0.5f;
      for (int i = 0; i < D; i++) {
        x->q[t][h][i] = noise(), x->k[t][h][i] = noise(), x->v[t][h][i] = noise();
        x->g[t][h][i] = -0.5f * (noise() + 0.5f);
      }
    }
}

static rd_activations views(tokens *x, int64_t T) {
  rd_activations a = {.struct_size = sizeof a};
  const int64_t rows[4] = {1, T, H, D};
  a.q = rd_tensor_contiguous(x->q, RD_F32, 4, rows);
  a.k = rd_tensor_contiguous(x->k, RD_F32, 4, rows);
  a.v = rd_tensor_contiguous(x->v, RD_F32, 4, rows);
  a.g = rd_tensor_contiguous(x->g, RD_F32, 4, rows);
  a.beta = rd_tensor_contiguous(x->beta, RD_F32, 3, rows);
  a.out = rd_tensor_contiguous(x->out, RD_F32, 4, rows);
  return a;
}

int main(void) {
  rd_context *ctx;
  rd_plan *plan;
  rd_problem p;
  if (rd_context_create(NULL, &ctx) != RD_OK) return 1;
  rd_problem_init(&p); /* log gate per channel (KDA), FP32 */
  p.qk_norm = RD_QK_L2;
  p.Hk = p.Hv = H;
  p.K = p.V = D;
  p.max_batch = 1;
  p.max_tokens = WINDOW;
  if (rd_plan_create(ctx, &p, &plan) != RD_OK) return puts(rd_last_error(ctx)), 1;

  rd_tensor state, plain; /* two pools of one slot: speculation, and plain decoding to compare */
  if (rd_pool_alloc(ctx, 1, H, D, D, RD_STATE_VK, RD_F32, &state) != RD_OK) return 1;
  if (rd_pool_alloc(ctx, 1, H, D, D, RD_STATE_VK, RD_F32, &plain) != RD_OK) return 1;
  static float u[WINDOW * H * D], k[WINDOW * H * D], decay[WINDOW * H * D];
  int32_t lengths[1];
  const int64_t shape[4] = {1, WINDOW, H, D};
  rd_records records = {.struct_size = sizeof records, .lengths = lengths};
  records.u = rd_tensor_contiguous(u, RD_F32, 4, shape);
  records.k = rd_tensor_contiguous(k, RD_F32, 4, shape);
  records.decay = rd_tensor_contiguous(decay, RD_F32, 4, shape);
  const rd_slots spec_slot = {.struct_size = sizeof(rd_slots), .pool = state};
  const rd_slots plain_slot = {.struct_size = sizeof(rd_slots), .pool = plain};
  const rd_sequences one = {.struct_size = sizeof one, .batch = 1};

  static tokens draft, same;
  int accepted_total = 0;
  for (int round = 0; round < ROUNDS; round++) {
    draw(&draft);
    memcpy(&same, &draft, sizeof same);
    rd_activations a = views(&draft, WINDOW);
    if (rd_verify(ctx, plan, &one, &a, &spec_slot, &records) != RD_OK)
      return puts(rd_last_error(ctx)), 1;

    int32_t accepted[1] = {rand() %
                           (WINDOW + 1)}; /* a sampler would compare draft and target here */
    const rd_tensor count = rd_tensor_contiguous(accepted, RD_I32, 1, (int64_t[]){1});
    if (rd_commit(ctx, plan, &records, &count, &spec_slot) != RD_OK)
      return puts(rd_last_error(ctx)), 1;
    accepted_total += accepted[0];

    if (accepted[0] == 0) continue;
    a = views(&same, accepted[0]);
    if (rd_decode(ctx, plan, &one, &a, &plain_slot, NULL, NULL) != RD_OK)
      return puts(rd_last_error(ctx)), 1;
    if (memcmp(draft.out, same.out, (size_t)accepted[0] * H * D * sizeof(float)) != 0)
      return puts("outputs differ from plain decoding"), 1;
  }
  const int equal = memcmp(state.data, plain.data, (size_t)H * D * D * sizeof(float)) == 0;
  printf("%d rounds, %d tokens accepted, state %s plain decoding to the bit\n", ROUNDS,
         accepted_total, equal ? "equals" : "DIFFERS from");
  rd_pool_free(ctx, &state);
  rd_pool_free(ctx, &plain);
  rd_plan_destroy(plan);
  rd_context_destroy(ctx);
  return !equal;
}
