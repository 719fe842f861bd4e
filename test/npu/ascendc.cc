/* Every call of the Ascend C front that computes or copies, each against a plain loop on the host; half against
 * the model's own conversions; and calls that the front refuses. Prints "N passed, N failed, 0 skipped". */
#include "kernel_operator.h"

#include <redelta/ascendc/launch.h>

#include <cstdio>
#include <functional>

using namespace AscendC;

namespace {

constexpr int32_t N = 208; /* whole blocks; whole repeats and a rest of 16 lanes of floats, 80 of half */
int passed = 0, failed = 0;

void check(bool good, const char *what) {
  good ? passed++ : failed++;
  if (!good) std::printf("FAILED: %s\n", what);
}

/* One vector call on tiles of x, y and a previous d, all loaded whole and stored whole. */
template <class T> using Body = void(LocalTensor<T> d, LocalTensor<T> x, LocalTensor<T> y);
template <class T> Body<T> *body;
template <class T> void vector_kernel(GM_ADDR x, GM_ADDR y, GM_ADDR d) {
  TPipe pipe;
  TBuf<> bx, by, bd;
  pipe.InitBuffer(bx, N * 4);
  pipe.InitBuffer(by, N * 4);
  pipe.InitBuffer(bd, N * 4);
  GlobalTensor<T> gx, gy, gd;
  gx.SetGlobalBuffer(reinterpret_cast<T *>(x));
  gy.SetGlobalBuffer(reinterpret_cast<T *>(y));
  gd.SetGlobalBuffer(reinterpret_cast<T *>(d));
  auto lx = bx.template Get<T>(N), ly = by.template Get<T>(N), ld = bd.template Get<T>(N);
  DataCopy(lx, gx, N);
  DataCopy(ly, gy, N);
  DataCopy(ld, gd, N);
  const event_t in = pipe.FetchEventID(HardEvent::MTE2_V), out = pipe.FetchEventID(HardEvent::V_MTE3);
  SetFlag<HardEvent::MTE2_V>(in);
  WaitFlag<HardEvent::MTE2_V>(in);
  body<T>(ld, lx, ly);
  SetFlag<HardEvent::V_MTE3>(out);
  WaitFlag<HardEvent::V_MTE3>(out);
  DataCopy(gd, ld, N);
}

template <class T>
void vector_case(const char *what, Body<T> *call, std::function<float(float, float, float, int)> expected) {
  body<T> = call;
  std::vector<T> x(N), y(N), d(N), before;
  for (int i = 0; i < N; i++) {
    x[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(i % 23) / 8 - 1);
    y[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(i % 13) / 4 + 0.25f);
    d[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(i % 5));
  }
  before = d;
  const uint64_t bytes = N * sizeof(T);
  const auto r = redelta::ascendc::launch<vector_kernel<T>>(
      {RD_NPU_310P, RD_NPU_COUPLED, 1}, redelta::ascendc::options(),
      rd_npu_tensor{"x", x.data(), bytes, sizeof(T), RD_NPU_IN},
      rd_npu_tensor{"y", y.data(), bytes, sizeof(T), RD_NPU_IN},
      rd_npu_tensor{"d", d.data(), bytes, sizeof(T), RD_NPU_INOUT});
  bool good = r.status == RD_NPU_OK;
  if (!good) std::printf("%s\n", r.text.c_str());
  for (size_t i = 0; i < static_cast<size_t>(N) && good; i++) {
    const T e = static_cast<T>(expected(x[i], y[i], before[i], static_cast<int>(i)));
    good = std::memcmp(&e, &d[i], sizeof e) == 0;
    if (!good) std::printf("%s: element %zu is %g, not %g\n", what, i, double(float(d[i])), double(float(e)));
  }
  check(good, what);
}

#define VECTOR(T, call, expression)                                                                   \
  vector_case<T>(#T ": " #call, [](LocalTensor<T> d, LocalTensor<T> x, LocalTensor<T> y) {            \
    (void)x, (void)y;                                                                                 \
    call;                                                                                             \
  }, [](float x, float y, float d, int i) -> float {                                   \
    (void)x, (void)y, (void)d, (void)i;                                                               \
    return expression;                                                                                \
  })

template <class T> void both_types() {
  VECTOR(T, Add(d, x, y, N), x + y);
  VECTOR(T, Sub(d, x, y, N), x - y);
  VECTOR(T, Mul(d, x, y, N), x *y);
  VECTOR(T, Div(d, x, y, N), x / y);
  VECTOR(T, Max(d, x, y, N), x > y ? x : y);
  VECTOR(T, Min(d, x, y, N), x < y ? x : y);
  VECTOR(T, MulAddDst(d, x, y, N), std::fma(x, y, d));
  VECTOR(T, FusedMulAdd(d, x, y, N), std::fma(x, d, y));
  VECTOR(T, Adds(d, x, T(1.5f), N), x + 1.5f);
  VECTOR(T, Muls(d, x, T(-3.0f), N), x * -3.0f);
  VECTOR(T, Maxs(d, x, T(0.5f), N), x > 0.5f ? x : 0.5f);
  VECTOR(T, Mins(d, x, T(0.5f), N), x < 0.5f ? x : 0.5f);
  VECTOR(T, Axpy(d, x, T(2.0f), N), std::fma(2.0f, x, d));
  VECTOR(T, Exp(d, x, N), static_cast<float>(std::exp(double(x))));
  VECTOR(T, Sqrt(d, y, N), std::sqrt(y));
  VECTOR(T, Duplicate(d, T(7.0f), N), 7.0f);
  VECTOR(T, Add(d, x, y, 37), i < 37 ? x + y : d);
}

void masks() {
  VECTOR(float, (Add(d, x, y, uint64_t{5}, 2, {1, 1, 1, 8, 8, 8})), i < 128 && i % 64 < 5 ? x + y : d);
  VECTOR(float, (Exp(d, x, uint64_t{64}, 1, {1, 1, 8, 8})), i < 64 ? static_cast<float>(std::exp(double(x))) : d);
  VECTOR(half, (Muls(d, x, half(2.0f), uint64_t{100}, 1, {1, 1, 8, 8})), i < 100 ? 2 * x : d);
  static const uint64_t odd[2] = {0xaaaaaaaaaaaaaaaaull, 1};
  VECTOR(half, (Sub(d, x, y, odd, 1, {1, 1, 1, 8, 8, 8})), (i < 64 && i % 2) || i == 64 ? x - y : d);
  VECTOR(float, (SetVectorMask(0, 3), Mul<float, false>(d, x, y, uint64_t{0}, 1, {}), SetVectorMask(~0ull, ~0ull)),
         i < 2 ? x * y : d);
}

/* y = half(float(x) + first element of x), the element as a C value; z: what S stores. */
void cast_kernel(GM_ADDR x, GM_ADDR y) {
  TPipe pipe;
  TBuf<> a, b;
  pipe.InitBuffer(a, 128);
  pipe.InitBuffer(b, 256);
  GlobalTensor<half> gx, gy;
  gx.SetGlobalBuffer(reinterpret_cast<half *>(x));
  gy.SetGlobalBuffer(reinterpret_cast<half *>(y));
  auto h = a.Get<half>();
  auto f = b.Get<float>();
  DataCopy(h, gx, DataCopyParams(1, 4, 0, 0));
  PipeBarrier<PIPE_ALL>();
  const float first = h.GetValue(0);
  h.SetValue(1, half(9.0f));
  PipeBarrier<PIPE_ALL>();
  Cast(f, h, RoundMode::CAST_NONE, 64);
  PipeBarrier<PIPE_V>();
  Adds(f, f, first, 64);
  PipeBarrier<PIPE_V>();
  Cast(h, f, RoundMode::CAST_RINT, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopy(gy, h.ReinterpretCast<half>(), 64);
}

void casts() {
  half x[64], y[64];
  for (int i = 0; i < 64; i++) x[i] = half(static_cast<float>(i) + 0.125f);
  const auto r = redelta::ascendc::launch<cast_kernel>(
      {RD_NPU_310P, RD_NPU_COUPLED, 1}, redelta::ascendc::options(), rd_npu_tensor{"x", x, sizeof x, 2, RD_NPU_IN},
      rd_npu_tensor{"y", y, sizeof y, 2, RD_NPU_OUT});
  bool good = r.status == RD_NPU_OK;
  if (!good) std::printf("%s\n", r.text.c_str());
  for (int i = 0; i < 64; i++)
    good = good && y[i].bits == half((i == 1 ? 9.0f : static_cast<float>(x[i])) + 0.125f).bits;
  check(good, "Cast, GetValue, SetValue, DataCopyParams, ReinterpretCast, PipeBarrier");
}

/* 910B: bytes that fill no block. */
void pad_kernel(GM_ADDR x, GM_ADDR y, uint32_t bytes) {
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> in;
  TQue<QuePosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, 64);
  pipe.InitBuffer(out, 1, 64);
  GlobalTensor<half> gx, gy;
  gx.SetGlobalBuffer(reinterpret_cast<half *>(x));
  gy.SetGlobalBuffer(reinterpret_cast<half *>(y));
  auto t = in.AllocTensor<half>();
  DataCopyPad(t, gx, DataCopyExtParams(1, bytes, 0, 0, 0), DataCopyPadExtParams<half>());
  in.EnQue(t);
  t = in.DeQue<half>();
  auto u = out.AllocTensor<half>();
  Muls(u, t, half(2.0f), static_cast<int32_t>(bytes / 2));
  out.EnQue(u);
  in.FreeTensor(t);
  u = out.DeQue<half>();
  DataCopyPad(gy, u, DataCopyExtParams(1, bytes, 0, 0, 0));
  out.FreeTensor(u);
}

void pads() {
  half x[32], y[32];
  for (int i = 0; i < 32; i++) x[i] = half(static_cast<float>(i)), y[i] = half(-1.0f);
  const rd_npu_tensor in{"x", x, sizeof x, 2, RD_NPU_IN}, out{"y", y, sizeof y, 2, RD_NPU_OUT};
  auto r = redelta::ascendc::launch<pad_kernel>({RD_NPU_910B, RD_NPU_VECTOR, 1}, redelta::ascendc::options(), in,
                                                out, 42u);
  /* both vector cores of the AI core run it and write the same bytes: a race between cores, values right */
  bool good = r.status == RD_NPU_FINDING && r.text.find("race between cores") != std::string::npos;
  for (int i = 0; i < 32; i++) good = good && static_cast<float>(y[i]) == (i < 21 ? 2.0f * static_cast<float>(i) : -1.0f);
  check(good, "DataCopyPad on 910B");
  r = redelta::ascendc::launch<pad_kernel>({RD_NPU_310P, RD_NPU_COUPLED, 1}, redelta::ascendc::options(), in, out,
                                           42u);
  check(r.status == RD_NPU_FINDING && r.text.find("missing instruction") != std::string::npos,
        "DataCopyPad is missing on 310P");
}

void refused_kernel(uint32_t which) {
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> in;
  pipe.InitBuffer(in, 1, 256);
  if (which == 0) (void)in.DeQue<half>();
  if (which == 1) {
    auto t = in.AllocTensor<half>();
    (void)in.AllocTensor<half>();
    (void)t;
  }
  if (which == 2) {
    TBuf<> all;
    pipe.InitBuffer(all, 256 * 1024);
  }
  if (which == 3) in.EnQue(LocalTensor<half>());
}

void refusals() {
  const char *const text[4] = {"DeQue: nothing is queued", "AllocTensor: every buffer", "InitBuffer: UB is full",
                               "EnQue: no tensor that this queue"};
  for (uint32_t i = 0; i < 4; i++) {
    const auto r = redelta::ascendc::launch<refused_kernel>({RD_NPU_310P, RD_NPU_COUPLED, 1},
                                                            redelta::ascendc::options(), i);
    check(r.status == RD_NPU_BAD_INPUT && r.text.find(text[i]) != std::string::npos &&
              r.text.find("ascendc.cc:") != std::string::npos,
          text[i]);
  }
}

void halves() {
  bool good = true;
  for (uint32_t bits = 0; bits < 65536 && good; bits++) {
    half h;
    h.bits = static_cast<uint16_t>(bits);
    if (bits % 32768 > 0x7c00) good = std::isnan(static_cast<float>(h));
    else good = half(static_cast<float>(h)).bits == bits;
  }
  check(good, "half and back");
  check(half(65519.0f).bits == 0x7bff && half(65520.0f).bits == 0x7c00 && half(1.00048828125f).bits == 0x3c00 &&
            half(1.00146484375f).bits == 0x3c02 && half(2.98023224e-8f).bits == 0 && half(5e-8f).bits == 1,
        "half rounds to nearest even");
}

} // namespace

int main() {
  both_types<float>();
  both_types<half>();
  masks();
  casts();
  pads();
  refusals();
  halves();
  std::printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed ? 1 : 0;
}
