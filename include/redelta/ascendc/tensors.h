/* Ascend C on the model: GlobalTensor and LocalTensor, a typed address each. */
#ifndef REDELTA_ASCENDC_TENSORS_H
#define REDELTA_ASCENDC_TENSORS_H

#include <redelta/ascendc/types.h>

namespace AscendC {

/* What both kinds of tensor share; offsets and sizes are in elements. */
template <class T> class TensorBase {
public:
  using PrimType = T;
  /* The C value of an element, an access of the scalar unit. */
  T GetValue(uint64_t offset, REDELTA_AT) const {
    const uint64_t bits =
        rd_npu_get_value(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                         address + offset * sizeof(T), sizeof(T));
    T value;
    std::memcpy(&value, &bits, sizeof value); /* the model's hosts are little-endian */
    return value;
  }
  void SetValue(uint64_t offset, T value, REDELTA_AT) const {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    rd_npu_set_value(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                     address + offset * sizeof(T), bits, sizeof(T));
  }
  uint64_t Address() const { return address; }

protected:
  uint64_t address = 0;
};

template <class T> class GlobalTensor : public TensorBase<T> {
public:
  void SetGlobalBuffer(__gm__ T *buffer, uint64_t elements = 0) {
    this->address = reinterpret_cast<uintptr_t>(buffer);
    size = elements;
  }
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor t = *this;
    t.address += offset * sizeof(T);
    return t;
  }
  uint64_t GetSize() const { return size; }
  __gm__ T *GetPhyAddr(uint64_t offset = 0) const {
    return reinterpret_cast<T *>(this->address + offset * sizeof(T));
  }

private:
  uint64_t size = 0;
};

template <class T> class LocalTensor : public TensorBase<T> {
public:
  LocalTensor() = default;
  LocalTensor(uint64_t where, uint32_t count, int of) : size(count), buffer(of) {
    this->address = where;
  }
  LocalTensor operator[](uint32_t offset) const {
    return {this->address + uint64_t{offset} * sizeof(T), offset < size ? size - offset : 0,
            buffer};
  }
  template <class U> LocalTensor<U> ReinterpretCast() const {
    return {this->address, static_cast<uint32_t>(size * sizeof(T) / sizeof(U)), buffer};
  }
  uint32_t GetSize() const { return size; }
  void SetSize(uint32_t elements) { size = elements; }
  int Owner() const { return buffer; }

private:
  uint32_t size = 0;
  int buffer = -1; /* index in the core's list of buffers */
};

} // namespace AscendC
#endif
