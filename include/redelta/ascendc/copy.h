/* Ascend C on the model: DataCopy between GM and UB and inside UB, DataCopyPad where the machine has it. */
#ifndef REDELTA_ASCENDC_COPY_H
#define REDELTA_ASCENDC_COPY_H

#include <redelta/ascendc/tensors.h>

namespace AscendC {

/* Blocks of 32 bytes; gaps from the tail of a piece to the head of the next. */
struct DataCopyParams {
  uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src, uint16_t dst)
      : blockCount(count), blockLen(len), srcStride(src), dstStride(dst) {}
};
/* Length and the gap in GM in bytes, the gap in UB in blocks. */
struct DataCopyExtParams {
  uint16_t blockCount = 1;
  uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src, uint32_t dst, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(src), dstStride(dst), rsv(reserved) {}
};
template <class T> struct DataCopyPadExtParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;
  T paddingValue{};
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

template <class T>
void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p,
              REDELTA_AT) {
  rd_npu_copy_gm_to_ubuf(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                         dst.Address(), src.Address(), p.blockCount, p.blockLen, p.srcStride,
                         p.dstStride);
}
template <class T>
void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p,
              REDELTA_AT) {
  rd_npu_copy_ubuf_to_gm(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                         dst.Address(), src.Address(), p.blockCount, p.blockLen, p.srcStride,
                         p.dstStride);
}
template <class T>
void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p,
              REDELTA_AT) {
  rd_npu_copy_ubuf_to_ubuf(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                           dst.Address(), src.Address(), p.blockCount, p.blockLen, p.srcStride,
                           p.dstStride);
}
/* count elements, a whole number of blocks. */
template <class Dst, class Src>
auto DataCopy(const Dst &dst, const Src &src, uint32_t count, REDELTA_AT)
    -> decltype(DataCopy(dst, src, DataCopyParams(), REDELTA_HERE)) {
  const uint64_t bytes = uint64_t{count} * sizeof(typename Src::PrimType);
  if (bytes % 32 || bytes / 32 > 65535)
    return redelta::ascendc::refuse(
        "DataCopy: count is no whole number of 32-byte blocks up to 65535", REDELTA_HERE);
  DataCopy(dst, src, DataCopyParams(1, static_cast<uint16_t>(bytes / 32), 0, 0), REDELTA_HERE);
}

template <class T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &p,
                 const DataCopyPadExtParams<T> &pad, REDELTA_AT) {
  if (pad.isPad && (pad.leftPadding || pad.rightPadding))
    return redelta::ascendc::refuse("DataCopyPad: padding with a value is not covered",
                                    REDELTA_HERE);
  rd_npu_copy_gm_to_ubuf_align(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                               dst.Address(), src.Address(), p.blockCount, p.blockLen, p.srcStride,
                               p.dstStride);
}
template <class T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p,
                 REDELTA_AT) {
  rd_npu_copy_ubuf_to_gm_align(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                               dst.Address(), src.Address(), p.blockCount, p.blockLen, p.srcStride,
                               p.dstStride);
}

} // namespace AscendC
#endif
