/* Ascend C on the model: macros, positions, half, and the core that the running kernel belongs to. */
#ifndef REDELTA_ASCENDC_TYPES_H
#define REDELTA_ASCENDC_TYPES_H

#include <redelta/npu.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define GM_ADDR __gm__ uint8_t *
#ifndef __CCE_AICORE__
#define __CCE_AICORE__ 200 /* 310P; 220 is 910B */
#endif

/* The line of the kernel that a call stands on: last parameters of every function that issues. */
#define REDELTA_AT   const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define REDELTA_HERE file, line

namespace AscendC {

/* IEEE binary16 as a host value; conversions round to nearest even. */
struct half {
  uint16_t bits;
  half() = default;
  half(float x) : bits(from(x)) {}
  operator float() const {
    const int e = bits >> 10 & 31, m = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (e == 31) return m ? NAN : sign * INFINITY;
    return sign * std::ldexp(static_cast<float>(e ? m + 1024 : m), (e ? e : 1) - 25);
  }

private:
  static uint16_t from(float x) {
    const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const float a = std::fabs(x);
    if (std::isnan(x)) return 0x7e00;
    if (a >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
    int e;
    std::frexp(a, &e); /* a = [0.5, 1) * 2^e */
    if (a == 0.0f || e < -13) e = -13;
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(a, 11 - e)));
    return static_cast<uint16_t>(sign + ((e + 13) << 10) + units);
  }
};
static_assert(sizeof(half) == 2, "half is 16 bits");

enum class TPosition { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, TSCM };
using QuePosition = TPosition;

enum class HardEvent : uint8_t {
  MTE2_V = RD_NPU_PIPE_MTE2 * 8 + RD_NPU_PIPE_V,
  V_MTE2 = RD_NPU_PIPE_V * 8 + RD_NPU_PIPE_MTE2,
  MTE3_V = RD_NPU_PIPE_MTE3 * 8 + RD_NPU_PIPE_V,
  V_MTE3 = RD_NPU_PIPE_V * 8 + RD_NPU_PIPE_MTE3,
  MTE2_MTE3 = RD_NPU_PIPE_MTE2 * 8 + RD_NPU_PIPE_MTE3,
  MTE3_MTE2 = RD_NPU_PIPE_MTE3 * 8 + RD_NPU_PIPE_MTE2,
  MTE2_S = RD_NPU_PIPE_MTE2 * 8 + RD_NPU_PIPE_S,
  S_MTE2 = RD_NPU_PIPE_S * 8 + RD_NPU_PIPE_MTE2,
  MTE3_S = RD_NPU_PIPE_MTE3 * 8 + RD_NPU_PIPE_S,
  S_MTE3 = RD_NPU_PIPE_S * 8 + RD_NPU_PIPE_MTE3,
  V_S = RD_NPU_PIPE_V * 8 + RD_NPU_PIPE_S,
  S_V = RD_NPU_PIPE_S * 8 + RD_NPU_PIPE_V
};

} // namespace AscendC

using AscendC::half;
using event_t = int32_t;
using pipe_t = rd_npu_pipe;
constexpr pipe_t PIPE_S = RD_NPU_PIPE_S, PIPE_V = RD_NPU_PIPE_V, PIPE_M = RD_NPU_PIPE_M,
                 PIPE_MTE1 = RD_NPU_PIPE_MTE1, PIPE_MTE2 = RD_NPU_PIPE_MTE2,
                 PIPE_MTE3 = RD_NPU_PIPE_MTE3, PIPE_ALL = RD_NPU_PIPE_ALL;

namespace redelta::ascendc {

/* A buffer of a queue or a TBuf, and the event that gives it back. */
struct Buffer {
  uint64_t address;
  uint32_t bytes;
  bool taken = false;
  int filled = -1; /* id of the set of EnQue whose wait DeQue issues */
  int freed = -1;  /* id of the set of FreeTensor whose wait AllocTensor issues */
  AscendC::HardEvent back = AscendC::HardEvent::V_MTE2;
};

/* What a core's run of the kernel knows. The model may leave a kernel without destroying its objects, so
 * everything that owns memory stands here and is cleared when the next run starts. */
struct Context {
  rd_npu_core *core = nullptr;
  std::vector<Buffer> buffers;
  uint32_t used = 0;    /* bytes of UB handed out, ascending */
  uint8_t ids[64] = {}; /* event ids in use, a bit each, by HardEvent */
  std::string refused;  /* first call that the front does not cover */

  void start(rd_npu_core *c) {
    core = c;
    buffers.clear();
    used = 0;
    std::memset(ids, 0, sizeof ids);
    refused.clear();
  }
};
inline thread_local Context context;

inline rd_npu_core *core() { return context.core; }
inline rd_npu_site site(REDELTA_AT) { return rd_npu_site_at(core(), file, line, 0); }
inline void refuse(const char *why, REDELTA_AT) {
  if (context.refused.empty())
    context.refused = std::string(file) + ":" + std::to_string(line) + ": " + why;
}

inline rd_npu_pipe source(AscendC::HardEvent e) {
  return static_cast<rd_npu_pipe>(static_cast<int>(e) / 8);
}
inline rd_npu_pipe target(AscendC::HardEvent e) {
  return static_cast<rd_npu_pipe>(static_cast<int>(e) % 8);
}

/* The lowest of a pair's eight ids that is free. */
inline int free_id(AscendC::HardEvent e, REDELTA_AT) {
  for (int id = 0; id < 8; id++)
    if (!(context.ids[static_cast<int>(e)] >> id & 1)) return id;
  refuse("all eight event ids of this pair of pipes are in use", REDELTA_HERE);
  return 0;
}
inline int set_event(AscendC::HardEvent e, REDELTA_AT) {
  const int id = free_id(e, REDELTA_HERE);
  context.ids[static_cast<int>(e)] |= static_cast<uint8_t>(1 << id);
  rd_npu_set_flag(core(), site(REDELTA_HERE), source(e), target(e), static_cast<uint32_t>(id));
  return id;
}
inline void wait_event(AscendC::HardEvent e, int id, REDELTA_AT) {
  rd_npu_wait_flag(core(), site(REDELTA_HERE), source(e), target(e), static_cast<uint32_t>(id));
  context.ids[static_cast<int>(e)] &= static_cast<uint8_t>(~(1 << id));
}

template <class T> struct Type;
template <> struct Type<float> { static constexpr rd_npu_type value = RD_NPU_F32; };
template <> struct Type<AscendC::half> { static constexpr rd_npu_type value = RD_NPU_F16; };
template <> struct Type<int32_t> { static constexpr rd_npu_type value = RD_NPU_S32; };
template <> struct Type<int16_t> { static constexpr rd_npu_type value = RD_NPU_S16; };

inline rd_npu_scalar scalar(float x) { return rd_npu_f32(x); }
inline rd_npu_scalar scalar(AscendC::half x) { return rd_npu_f32(static_cast<float>(x)); }
inline rd_npu_scalar scalar(int32_t x) { return rd_npu_s32(x); }
inline rd_npu_scalar scalar(int16_t x) { return rd_npu_s32(x); }

} // namespace redelta::ascendc
#endif
