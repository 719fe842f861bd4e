/* Ascend C on the model: TPipe, TQue and TBuf. A queue is its buffers and two events: EnQue sets the
 * forward one and DeQue waits for it, FreeTensor sets the back one and AllocTensor waits for that. */
#ifndef REDELTA_ASCENDC_PIPE_H
#define REDELTA_ASCENDC_PIPE_H

#include <redelta/ascendc/tensors.h>

namespace AscendC {

template <TPosition position, int32_t depth, int32_t mask = 0> class TQue {
  static_assert(position == TPosition::VECIN || position == TPosition::VECOUT,
                "queues on this position are not covered: VECIN and VECOUT are");
  static_assert(mask == 0, "queues that convert layouts are not covered");
  static constexpr bool in = position == TPosition::VECIN;
  static constexpr HardEvent forward = in ? HardEvent::MTE2_V : HardEvent::V_MTE3;
  static constexpr HardEvent back = in ? HardEvent::V_MTE2 : HardEvent::MTE3_V;

public:
  template <class T> LocalTensor<T> AllocTensor(REDELTA_AT) {
    auto &all = redelta::ascendc::context.buffers;
    for (int i = 0; i < count; i++) {
      const int which = first + (next + i) % count;
      auto &b = all[static_cast<size_t>(which)];
      if (b.taken) continue;
      next = (which - first + 1) % count;
      b.taken = true;
      if (b.freed >= 0) redelta::ascendc::wait_event(back, b.freed, REDELTA_HERE);
      b.freed = -1;
      return tensor<T>(which);
    }
    redelta::ascendc::refuse("AllocTensor: every buffer of this queue is taken", REDELTA_HERE);
    return {};
  }
  template <class T> bool EnQue(const LocalTensor<T> &t, REDELTA_AT) {
    if (!owns(t.Owner(), "EnQue", REDELTA_HERE)) return false;
    if (waiting == 64) {
      redelta::ascendc::refuse("EnQue: 64 tensors are queued", REDELTA_HERE);
      return false;
    }
    buffer(t.Owner()).filled = redelta::ascendc::set_event(forward, REDELTA_HERE);
    queued[(head + waiting++) % 64] = t.Owner();
    return true;
  }
  template <class T> LocalTensor<T> DeQue(REDELTA_AT) {
    if (!waiting) {
      redelta::ascendc::refuse("DeQue: nothing is queued", REDELTA_HERE);
      return {};
    }
    const int which = queued[head];
    head = (head + 1) % 64;
    waiting--;
    redelta::ascendc::wait_event(forward, buffer(which).filled, REDELTA_HERE);
    buffer(which).filled = -1;
    return tensor<T>(which);
  }
  template <class T> void FreeTensor(const LocalTensor<T> &t, REDELTA_AT) {
    if (!owns(t.Owner(), "FreeTensor", REDELTA_HERE)) return;
    auto &b = buffer(t.Owner());
    b.back = back;
    b.freed = redelta::ascendc::set_event(back, REDELTA_HERE);
    b.taken = false;
  }
  bool HasTensorInQue() const { return waiting > 0; }
  void Bind(int from, int buffers) { first = from, count = buffers; }

private:
  static redelta::ascendc::Buffer &buffer(int i) {
    return redelta::ascendc::context.buffers[static_cast<size_t>(i)];
  }
  template <class T> static LocalTensor<T> tensor(int i) {
    return {buffer(i).address, static_cast<uint32_t>(buffer(i).bytes / sizeof(T)), i};
  }
  bool owns(int i, const char *call, REDELTA_AT) const {
    if (i >= first && i < first + count && buffer(i).taken) return true;
    redelta::ascendc::refuse(
        (std::string(call) + ": no tensor that this queue has handed out").c_str(), REDELTA_HERE);
    return false;
  }
  int first = 0, count = 0, next = 0, head = 0, waiting = 0;
  int queued[64] = {};
};

template <TPosition position = TPosition::VECCALC> class TBuf {
  static_assert(position == TPosition::VECCALC || position == TPosition::VECIN ||
                    position == TPosition::VECOUT,
                "a TBuf on this position is not covered");

public:
  template <class T> LocalTensor<T> Get() const {
    return {address, static_cast<uint32_t>(bytes / sizeof(T)), -1};
  }
  template <class T> LocalTensor<T> Get(uint32_t elements) const { return {address, elements, -1}; }
  void Bind(uint64_t where, uint32_t size) { address = where, bytes = size; }

private:
  uint64_t address = 0;
  uint32_t bytes = 0;
};

class TPipe {
public:
  explicit TPipe(REDELTA_AT) : file_(file), line_(line) {}
  TPipe(const TPipe &) = delete;
  TPipe &operator=(const TPipe &) = delete;
  ~TPipe() { Destroy(); }

  template <TPosition p, int32_t d, int32_t m>
  bool InitBuffer(TQue<p, d, m> &queue, uint8_t count, uint32_t bytes, REDELTA_AT) {
    auto &all = redelta::ascendc::context.buffers;
    const auto first = static_cast<int>(all.size());
    for (int i = 0; i < count; i++)
      if (!Take(bytes, REDELTA_HERE)) return false;
    queue.Bind(first, count);
    return true;
  }
  template <TPosition p> bool InitBuffer(TBuf<p> &buf, uint32_t bytes, REDELTA_AT) {
    if (!Take(bytes, REDELTA_HERE)) return false;
    const auto &b = redelta::ascendc::context.buffers.back();
    buf.Bind(b.address, b.bytes);
    return true;
  }
  /* Names a free id and does not take it. */
  event_t FetchEventID(HardEvent e, REDELTA_AT) {
    return redelta::ascendc::free_id(e, REDELTA_HERE);
  }
  event_t AllocEventIDOf(HardEvent e, REDELTA_AT) {
    const int id = redelta::ascendc::free_id(e, REDELTA_HERE);
    redelta::ascendc::context.ids[static_cast<int>(e)] |= static_cast<uint8_t>(1 << id);
    return id;
  }
  template <HardEvent e> event_t AllocEventID(REDELTA_AT) {
    return AllocEventIDOf(e, REDELTA_HERE);
  }
  template <HardEvent e> void ReleaseEventID(event_t id) {
    redelta::ascendc::context.ids[static_cast<int>(e)] &= static_cast<uint8_t>(~(1 << id));
  }
  /* Waits for what FreeTensor has set, then for everything. */
  void Destroy() {
    if (done_) return;
    done_ = true;
    for (auto &b : redelta::ascendc::context.buffers) {
      if (b.freed >= 0) redelta::ascendc::wait_event(b.back, b.freed, file_, line_);
      b.freed = -1;
    }
    rd_npu_pipe_barrier(redelta::ascendc::core(), redelta::ascendc::site(file_, line_),
                        RD_NPU_PIPE_ALL);
  }

private:
  bool Take(uint32_t bytes, REDELTA_AT) {
    auto &c = redelta::ascendc::context;
    const auto *arch = rd_npu_arch_get(rd_npu_get_arch(c.core));
    const uint64_t size = (uint64_t{bytes} + 31) / 32 * 32;
    if (c.buffers.size() == 64)
      return redelta::ascendc::refuse("InitBuffer: more than 64 buffers", REDELTA_HERE), false;
    if (c.used + size > arch->capacity[RD_NPU_UB])
      return redelta::ascendc::refuse("InitBuffer: UB is full", REDELTA_HERE), false;
    redelta::ascendc::Buffer b;
    b.address = RD_NPU_ADDR(RD_NPU_UB, c.used);
    b.bytes = static_cast<uint32_t>(size);
    c.buffers.push_back(b);
    c.used += static_cast<uint32_t>(size);
    return true;
  }
  const char *file_;
  int line_;
  bool done_ = false;
};

} // namespace AscendC
#endif
