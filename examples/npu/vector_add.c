/*
 * First kernel on the AI Core model: sum = a + b, tile by tile, and what happens without its
 * events.
 *
 * The scalar unit S issues these instructions in order, but each goes to the queue of its own pipe,
 * and the pipes run on their own:
 *
 *   MTE2   copy_gm_to_ubuf  a tile of a and b into the unified buffer UB
 *   V      vadd             adds 64 floats per repeat
 *   MTE3   copy_ubuf_to_gm  the result back
 *
 * An event is what makes one pipe wait for another: set_flag(X, Y, id) is queued on X and fires
 * when everything before it on X has finished; wait_flag(X, Y, id) holds Y until then.  The forward
 * edges MTE2_V and V_MTE3 carry the data; the back edges V_MTE2 and MTE3_V say that a buffer is
 * free again.
 *
 * usage: example-npu-vector-add      prints both runs; exit status 0 when all is as told here.
 */
#include <redelta/npu_intrinsics.h>

#include <stdio.h>
#include <stdlib.h>

#define LANES  64u /* floats per tile: one repeat of the vector unit, 256 bytes */
#define BYTES  (LANES * 4u)
#define BLOCKS (BYTES / 32u) /* copies count blocks of 32 bytes */
#define TILES  2u

static void add(rd_npu_core *c, const void *args) {
  (void)args;
  uint64_t a = UB(0), b = UB(BYTES), sum = UB(2 * BYTES);
  for (uint32_t tile = 0; tile < TILES; tile++) {
    if (tile) wait_flag(PIPE_V, PIPE_MTE2, 0); /* a and b have been read */
    copy_gm_to_ubuf(a, GM(0) + tile * BYTES, 1, BLOCKS, 0, 0);
    copy_gm_to_ubuf(b, GM(1) + tile * BYTES, 1, BLOCKS, 0, 0);
    set_flag(PIPE_MTE2, PIPE_V, 0);
    wait_flag(PIPE_MTE2, PIPE_V, 0);
    if (tile) wait_flag(PIPE_MTE3, PIPE_V, 0); /* sum has been stored */
    vadd(F32, sum, a, b, 1, 1, 1, 1, 8, 8, 8);
    set_flag(PIPE_V, PIPE_MTE3, 0);
    if (tile + 1 < TILES) set_flag(PIPE_V, PIPE_MTE2, 0);
    wait_flag(PIPE_V, PIPE_MTE3, 0);
    copy_ubuf_to_gm(GM(2) + tile * BYTES, sum, 1, BLOCKS, 0, 0);
    if (tile + 1 < TILES) set_flag(PIPE_MTE3, PIPE_V, 0);
  }
  pipe_barrier(PIPE_ALL); /* nothing may be left running */
}

/* The same without a single event.  In program order the result is right, on hardware it is luck.
 */
static void add_unsynchronised(rd_npu_core *c, const void *args) {
  (void)args;
  uint64_t a = UB(0), b = UB(BYTES), sum = UB(2 * BYTES);
  for (uint32_t tile = 0; tile < TILES; tile++) {
    copy_gm_to_ubuf(a, GM(0) + tile * BYTES, 1, BLOCKS, 0, 0);
    copy_gm_to_ubuf(b, GM(1) + tile * BYTES, 1, BLOCKS, 0, 0);
    vadd(F32, sum, a, b, 1, 1, 1, 1, 8, 8, 8);
    copy_ubuf_to_gm(GM(2) + tile * BYTES, sum, 1, BLOCKS, 0, 0);
  }
  pipe_barrier(PIPE_ALL);
}

static float pa[TILES * LANES], pb[TILES * LANES], psum[TILES * LANES];

static rd_npu_status run(rd_npu_kernel *kernel, const rd_npu_options *options) {
  rd_npu_tensor gm[3] = {{"a", pa, sizeof pa, 4, RD_NPU_IN},
                         {"b", pb, sizeof pb, 4, RD_NPU_IN},
                         {"sum", psum, sizeof psum, 4, RD_NPU_OUT}};
  rd_npu_launch launch = {sizeof launch, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, kernel, NULL, gm, 3};
  rd_npu_report *report;
  rd_npu_status status = rd_npu_run(&launch, options, &report);
  char *text = rd_npu_report_text(report);
  printf("%s\n", text ? text : "out of memory");
  free(text);
  rd_npu_report_free(report);
  return status;
}

int main(void) {
  for (uint32_t i = 0; i < TILES * LANES; i++) pa[i] = (float)i, pb[i] = 0.5f;

  printf("-- with its events, one run under the checker\n");
  rd_npu_options checked = {.size = sizeof checked, .witnesses = true};
  bool good = run(add, &checked) == RD_NPU_OK;
  for (uint32_t i = 0; i < TILES * LANES; i++) good = good && psum[i] == pa[i] + pb[i];

  printf("-- with its events, every order the machine allows\n");
  rd_npu_options all = {
      .size = sizeof all, .schedule = RD_NPU_EXHAUSTIVE, .deviations = UINT32_MAX};
  good = run(add, &all) == RD_NPU_OK && good;

  printf("-- without them\n");
  bool caught = run(add_unsynchronised, &checked) == RD_NPU_FINDING;
  return good && caught ? 0 : 1;
}
