/*
 * redelta/ascendc/launch.h - run an Ascend C kernel on the AI Core model, from a C++17 program.
 *
 *   redelta::ascendc::Result r = redelta::ascendc::launch<add>(
 *       {RD_NPU_310P, RD_NPU_COUPLED, 2}, redelta::ascendc::options(),
 *       rd_npu_tensor{"x", x, bytes, 2, RD_NPU_IN}, rd_npu_tensor{"z", z, bytes, 2, RD_NPU_OUT}, n);
 *
 * A tensor binds to a pointer parameter, a number to a parameter of an arithmetic type.  A pointer holds an
 * address of the model and is never dereferenced; tensor 0 of the launch is a stand-in, so that a null
 * pointer is no tensor's.
 */
#ifndef REDELTA_ASCENDC_LAUNCH_H
#define REDELTA_ASCENDC_LAUNCH_H

#include <redelta/ascendc/types.h>

#include <cstdlib>
#include <mutex>
#include <tuple>
#include <type_traits>

namespace redelta::ascendc {

struct Device {
  rd_npu_arch arch;
  rd_npu_core_kind kind;
  uint32_t blocks; /* launch size in AI cores */
};

/* status RD_NPU_BAD_INPUT with a text that starts with the kernel's line: the front does not cover a call
 * that the kernel made; what it then computed has no meaning. */
struct Result {
  rd_npu_status status;
  std::string text;
};

namespace detail {

template <class P, class A> P bind(std::vector<rd_npu_tensor> &tensors, const A &a) {
  if constexpr (std::is_same_v<A, rd_npu_tensor>) {
    static_assert(std::is_pointer_v<P>, "a tensor binds to a pointer parameter");
    tensors.push_back(a);
    return reinterpret_cast<P>(RD_NPU_GM_ADDR(tensors.size() - 1, 0));
  } else {
    static_assert(std::is_arithmetic_v<P> && std::is_arithmetic_v<A>, "a number binds to a number");
    return static_cast<P>(a);
  }
}

template <auto kernel, class... P> struct Call {
  std::tuple<P...> args;
  mutable std::mutex lock;
  mutable std::string refused;

  explicit Call(std::tuple<P...> bound) : args(bound) {}
  static void run(rd_npu_core *core, const void *opaque) {
    const auto *call = static_cast<const Call *>(opaque);
    context.start(core);
    std::apply(kernel, call->args);
    if (!context.refused.empty()) {
      const std::lock_guard<std::mutex> hold(call->lock);
      if (call->refused.empty()) call->refused = context.refused;
    }
    context.core = nullptr;
  }
};

template <auto kernel, class... P, class... A>
Result launch(void (*)(P...), const Device &device, rd_npu_options options, const A &...a) {
  static_assert(sizeof...(P) == sizeof...(A), "one argument per parameter of the kernel");
  unsigned char none[32] = {};
  std::vector<rd_npu_tensor> tensors{{"null", none, sizeof none, 1, RD_NPU_IN}};
  Call<kernel, P...> call(std::tuple<P...>{bind<P>(tensors, a)...});
  rd_npu_launch l{};
  l.size = sizeof l;
  l.arch = device.arch, l.kind = device.kind, l.block_num = device.blocks;
  l.kernel = Call<kernel, P...>::run;
  l.args = &call;
  l.tensors = tensors.data();
  l.tensor_count = static_cast<uint32_t>(tensors.size());
  options.size = sizeof options;
  rd_npu_report *report = nullptr;
  Result result{rd_npu_run(&l, &options, &report), ""};
  if (char *text = rd_npu_report_text(report)) {
    result.text = text;
    std::free(text);
  }
  rd_npu_report_free(report);
  if (!call.refused.empty()) result = {RD_NPU_BAD_INPUT, call.refused};
  return result;
}

} // namespace detail

/* Options of a run: the compiler orders S with V, MTE2 and MTE3 on the same UB bytes, unless told otherwise. */
inline rd_npu_options options() {
  rd_npu_options o{};
  o.size = sizeof o;
  o.witnesses = true;
  o.auto_sync = RD_NPU_AUTO_SYNC_SCALAR;
  return o;
}

template <auto kernel, class... A>
Result launch(const Device &device, const rd_npu_options &o, const A &...a) {
  return detail::launch<kernel>(kernel, device, o, a...);
}

} // namespace redelta::ascendc
#endif
