/*
 * A kernel that is steered by what it computes: it doubles a tile until the largest number the tile
 * may hold is reached, counts the rounds in GM, and never knows beforehand how many there will be.
 *
 *   get_value   gives the scalar unit S a number out of UB, which may end a loop;
 *   set_value   lets S write one to GM - through a cache of 64-byte lines, which must be cleaned
 *               before anybody else can see it.
 *
 * S runs ahead of the pipes like everything else, so that V_S must come before each read, and S_V
 * before V overwrites what S reads.  The second kernel forgets V_S; what S reads then is
 * whatever happens to be there, and the kernel may take another path altogether.  The third forgets to
 * clean the line.
 *
 * usage: example-npu-steered-by-values      prints the runs; exit status 0 when all is as told here.
 */
#include <redelta/npu_intrinsics.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES  64u /* one repeat of 32-bit lanes: 256 bytes, 8 blocks of 32 */
#define LIMIT  1000
#define ROUNDS 64 /* one more than can be needed: the loop ends whatever S reads */

typedef struct variant {
  bool without_v_s, without_clean;
} variant;

static void double_until(rd_npu_core *c, const void *args) {
  const variant *v = args;
  int64_t rounds = 0;
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  while (rounds < ROUNDS) {
    vadd(S32, UB(256), UB(0), UB(0), 1, 1, 1, 1, 8, 8, 8);
    if (!v->without_v_s) {
      set_flag(PIPE_V, PIPE_S, 0);
      wait_flag(PIPE_V, PIPE_S, 0);
    }
    if (get_value_int(S32, UB(256)) > LIMIT) break; /* lane 0 holds the largest */
    set_flag(PIPE_S, PIPE_V, 0);                    /* S has read: V may go on */
    wait_flag(PIPE_S, PIPE_V, 0);
    pipe_barrier(PIPE_V);
    vadds(S32, UB(0), UB(256), 0, 1, 1, 1, 8, 8);
    pipe_barrier(PIPE_V);
    rounds++;
  }
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(0), 1, 8, 0, 0);
  set_value(GM(2), (uint64_t)rounds, 4);
  if (!v->without_clean) data_cache_clean_and_invalid(GM(2), RD_NPU_SINGLE_CACHE_LINE);
  pipe_barrier(PIPE_ALL);
}

static int32_t in[LANES], out[LANES], rounds[16]; /* rounds: a line of its own */

static rd_npu_status run(const variant *v, rd_npu_schedule schedule) {
  rd_npu_tensor gm[3] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                         {"out", out, sizeof out, 4, RD_NPU_OUT},
                         {"rounds", rounds, sizeof rounds, 4, RD_NPU_OUT}};
  rd_npu_launch launch = {sizeof launch, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, double_until, v, gm, 3};
  rd_npu_options options = {.size = sizeof options, .schedule = schedule, .witnesses = true};
  rd_npu_report *report;
  memset(out, 0, sizeof out);
  memset(rounds, 0, sizeof rounds);
  rd_npu_status status = rd_npu_run(&launch, &options, &report);
  char *text = rd_npu_report_text(report);
  printf("%s\n", text ? text : "out of memory");
  free(text);
  rd_npu_report_free(report);
  return status;
}

int main(void) {
  for (uint32_t i = 0; i < LANES; i++) in[i] = (int32_t)(LANES - i);
  const variant good = {0}, racing = {.without_v_s = true}, lost = {.without_clean = true};

  printf("-- with its events, every order with two departures from eager\n");
  bool ok = run(&good, RD_NPU_EXHAUSTIVE) == RD_NPU_OK;
  ok = ok && rounds[0] == 3; /* 64, 128, 256, 512; the next would be above 1000 */
  for (uint32_t i = 0; i < LANES; i++) ok = ok && out[i] == in[i] * 8;

  printf("-- without V_S\n");
  ok = run(&racing, RD_NPU_EAGER) == RD_NPU_FINDING && ok;

  printf("-- without cleaning the line\n");
  ok = run(&lost, RD_NPU_EAGER) == RD_NPU_FINDING && rounds[0] == 0 && ok;
  return ok ? 0 : 1;
}
