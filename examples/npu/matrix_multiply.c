/*
 * Second kernel: C = A B on the coupled 310P core, 32 x 64 times 64 x 48, f16 in, f32 out.
 *
 *   MTE2  GM -> L1, row-major to the NZ layout: per block of 16 columns one burst copy
 *   MTE1  L1 -> L0A (ZZ) and L0B (ZN): what the cube reads
 *   M     mad: the product, into L0C
 *   V     L0C -> UB: on this core the copy out of L0C runs on the *vector* pipe
 *   MTE3  UB -> GM
 *
 * The edge people forget is M_V: without it V may copy a product that the cube has not finished.
 * Its twin V_M matters as soon as a second product overwrites the same L0C block.
 *
 * usage: example-npu-matrix-multiply      exit status 0 when all is as told here.
 */
#include <redelta/npu_intrinsics.h>

#include <stdio.h>
#include <stdlib.h>

enum { M = 32, K = 64, N = 48, M1 = M / 16, K1 = K / 16, N1 = N / 16 };

/* Row-major [rows, columns] of 16-bit elements to NZ. */
static void rows_to_nz(rd_npu_core *c, uint64_t l1, uint64_t gm, uint32_t rows, uint32_t columns) {
  for (uint32_t j = 0; j < columns / 16; j++)
    copy_gm_to_cbuf(l1 + (uint64_t)j * rows * 32, gm + 32 * j, rows, 1, columns / 16 - 1, 0);
}

/* C in NZ order, block of 16 columns after block of 16 columns, to row-major GM. */
static void nz_to_rows(rd_npu_core *c, uint64_t gm, uint64_t ub) {
  for (uint32_t j = 0; j < N1; j++)
    copy_ubuf_to_gm(gm + 64 * j, ub + (uint64_t)j * M * 64, M, 2, 0, 2 * N1 - 2);
}

static void multiply(rd_npu_core *c, const void *args) {
  (void)args;
  uint64_t a = L1(0), b = L1(M * K * 2);
  rows_to_nz(c, a, GM(0), M, K);
  rows_to_nz(c, b, GM(1), K, N);
  set_flag(PIPE_MTE2, PIPE_MTE1, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE1, 0);
  for (uint32_t r = 0; r < M1; r++) load_cbuf_to_ca(L0A(r * K1 * 512), a, r, K1, M1, 0, false);
  for (uint32_t q = 0; q < K1; q++) load_cbuf_to_cb(L0B(q * N1 * 512), b, q, N1, K1, 0, true);
  set_flag(PIPE_MTE1, PIPE_M, 0);
  wait_flag(PIPE_MTE1, PIPE_M, 0);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), M, K, N, true);
  set_flag(PIPE_M, PIPE_V, 0);
  wait_flag(PIPE_M, PIPE_V, 0);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, M1 * N1, 0, 0);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  nz_to_rows(c, GM(2), UB(0));
  pipe_barrier(PIPE_ALL);
}

static uint16_t pa[M * K], pb[K * N]; /* f16 bit patterns */
static float pc[M * N];

/* Small integers as f16: 0 .. 15 and their negatives are exact, and so is every sum here. */
static uint16_t half_integer(int x) {
  unsigned sign = x < 0 ? 0x8000 : 0, v = (unsigned)abs(x), e = 0;
  if (!v) return 0;
  while (v >> (e + 1)) e++;
  return (uint16_t)(sign | (15 + e) << 10 | ((v << (10 - e)) & 0x3FF));
}
static int entry(int i, int j) { return (7 * i + 3 * j) % 13 - 6; }

static rd_npu_status run(const char *without) {
  rd_npu_tensor gm[3] = {{"a", pa, sizeof pa, 2, RD_NPU_IN},
                         {"b", pb, sizeof pb, 2, RD_NPU_IN},
                         {"c", pc, sizeof pc, 4, RD_NPU_OUT}};
  rd_npu_launch launch = {sizeof launch, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, multiply, NULL, gm, 3};
  rd_npu_options options = {.size = sizeof options, .without = without, .witnesses = true};
  rd_npu_report *report;
  rd_npu_status status = rd_npu_run(&launch, &options, &report);
  char *text = rd_npu_report_text(report);
  printf("%s\n", text ? text : "out of memory");
  free(text);
  rd_npu_report_free(report);
  return status;
}

int main(void) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < K; j++) pa[i * K + j] = half_integer(entry(i, j));
  for (int i = 0; i < K; i++)
    for (int j = 0; j < N; j++) pb[i * N + j] = half_integer(entry(j, i));

  printf("-- with its events\n");
  bool good = run(NULL) == RD_NPU_OK;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int sum = 0;
      for (int k = 0; k < K; k++) sum += entry(i, k) * entry(j, k);
      good = good && pc[i * N + j] == (float)sum;
    }

  printf("-- without M_V: the model drops the channel, the kernel is the same\n");
  bool caught = run("M_V") == RD_NPU_FINDING;
  printf("-- without any event between the pipes\n");
  caught = run("MTE2_MTE1,MTE1_M,M_V,V_MTE3") == RD_NPU_FINDING && caught;
  return good && caught ? 0 : 1;
}
