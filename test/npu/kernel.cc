/* A kernel written in C++ against the public headers: every macro that takes a scalar, runs under the
 * checker, gives y = max(2*x + 1, 0) * s, and is reported when an event is taken away. */
#include <cmath>
#include <cstdio>
#include <vector>

#include <redelta/npu_intrinsics.h>

namespace {

constexpr uint32_t kCount = 256;

void affine(rd_npu_core *c, const void *args) {
  const auto repeat = *static_cast<const uint32_t *>(args) / 64;
  const uint64_t x = UB(0), y = UB(4096);
  copy_gm_to_ubuf(x, GM(0), 1, kCount / 8, 0, 0);
  copy_gm_to_ubuf(UB(8192), GM(1), 1, 1, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  set_flag(PIPE_MTE2, PIPE_S, 0);
  wait_flag(PIPE_MTE2, PIPE_S, 0);
  const rd_npu_scalar s = smul(F32, load_ub(F32, UB(8192)), 1); /* a register */
  set_vector_mask(~0ull, ~0ull);
  vector_dup(F32, y, 1.0f, repeat, 1, 8);
  pipe_barrier(PIPE_V);
  vaxpy(F32, y, x, 2.0, repeat, 1, 1, 8, 8);
  pipe_barrier(PIPE_V);
  vmaxs(F32, y, y, 0u, repeat, 1, 1, 8, 8);
  pipe_barrier(PIPE_V);
  vmuls(F32, y, y, s, repeat, 1, 1, 8, 8);
#ifndef WITHOUT_EVENT
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
#endif
  copy_ubuf_to_gm(GM(2), y, 1, kCount / 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

} // namespace

int main() {
  std::vector<float> x(kCount), s(8, 0.5f), y(kCount);
  for (uint32_t i = 0; i < kCount; i++) x[i] = static_cast<float>(i) - 100.25f;
  rd_npu_tensor gm[] = {{"x", x.data(), 4 * kCount, 4, RD_NPU_IN},
                        {"s", s.data(), 32, 4, RD_NPU_IN},
                        {"y", y.data(), 4 * kCount, 4, RD_NPU_OUT}};
  rd_npu_launch l = {};
  l.size = sizeof l;
  l.arch = RD_NPU_310P;
  l.kind = RD_NPU_COUPLED;
  l.block_num = 1;
  l.kernel = affine;
  l.args = &kCount;
  l.tensors = gm;
  l.tensor_count = 3;
  rd_npu_report *report = nullptr;
  const rd_npu_status status = rd_npu_run(&l, nullptr, &report);
  for (size_t i = 0; i < rd_npu_report_count(report); i++)
    std::printf("%s\n", rd_npu_finding_name(rd_npu_report_get(report, i)->kind));
  rd_npu_report_free(report);
  if (status != RD_NPU_OK) return 1;
  for (uint32_t i = 0; i < kCount; i++)
    if (y[i] != std::fmax(2 * x[i] + 1, 0.0f) * 0.5f) {
      std::printf("y[%u] = %g\n", i, static_cast<double>(y[i]));
      return 1;
    }
  std::puts("ok");
  return 0;
}
