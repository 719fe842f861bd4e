/* Ascend C on the model: explicit events, barriers, and who this core is. */
#ifndef REDELTA_ASCENDC_SYNC_H
#define REDELTA_ASCENDC_SYNC_H

#include <redelta/ascendc/types.h>

namespace AscendC {

template <HardEvent e> void SetFlag(event_t id, REDELTA_AT) {
  rd_npu_set_flag(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                  redelta::ascendc::source(e), redelta::ascendc::target(e),
                  static_cast<uint32_t>(id));
}
template <HardEvent e> void WaitFlag(event_t id, REDELTA_AT) {
  rd_npu_wait_flag(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                   redelta::ascendc::source(e), redelta::ascendc::target(e),
                   static_cast<uint32_t>(id));
}
template <pipe_t pipe> void PipeBarrier(REDELTA_AT) {
  rd_npu_pipe_barrier(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE), pipe);
}
inline int64_t GetBlockIdx() { return rd_npu_get_block_idx(redelta::ascendc::core()); }
inline int64_t GetBlockNum() { return rd_npu_get_block_num(redelta::ascendc::core()); }

} // namespace AscendC
#endif
