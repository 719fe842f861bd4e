/*
 * Runs add.cpp on the AI Core model: values against a plain loop, one run under the checker, then random
 * orders.  Exit status 0: right and no finding; 1: a finding or a wrong value.
 *
 *   c++ -std=c++17 -I include -I include/redelta/ascendc examples/npu/ascendc/add_main.cpp libredelta-npu.a -lm -pthread
 */
#include "add.cpp"

#include <redelta/ascendc/launch.h>

#include <cstdio>

int main() {
  constexpr uint32_t cores = 2, perCore = 5 * TILE;
  std::vector<half> x(cores * perCore), y(x.size()), z(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    x[i] = half(static_cast<float>(i % 61) / 4);
    y[i] = half(static_cast<float>(i % 7) - 2);
  }
  const uint64_t bytes = x.size() * sizeof(half);
  const auto run = [&](const rd_npu_options &options) {
    return redelta::ascendc::launch<add>({RD_NPU_310P, RD_NPU_COUPLED, cores}, options,
                                         rd_npu_tensor{"x", x.data(), bytes, 2, RD_NPU_IN},
                                         rd_npu_tensor{"y", y.data(), bytes, 2, RD_NPU_IN},
                                         rd_npu_tensor{"z", z.data(), bytes, 2, RD_NPU_OUT}, perCore);
  };
  auto options = redelta::ascendc::options();
  auto result = run(options);
  std::printf("%s\n", result.text.c_str());
  if (result.status != RD_NPU_OK) return 1;
  options.schedule = RD_NPU_RANDOM;
  for (options.seed = 0; options.seed < 8; options.seed++) {
    if (run(options).status != RD_NPU_OK) return 1;
    for (size_t i = 0; i < x.size(); i++)
      if (z[i].bits != half(static_cast<float>(x[i]) + static_cast<float>(y[i])).bits) {
        std::printf("z[%zu] is wrong under seed %llu\n", i, static_cast<unsigned long long>(options.seed));
        return 1;
      }
  }
  std::printf("%zu sums are right in 8 random orders\n", x.size());
  return 0;
}
