/* Ascend C on the model: vector calls, by element count, by a number of lanes, and by a mask of two words. */
#ifndef REDELTA_ASCENDC_VECTOR_H
#define REDELTA_ASCENDC_VECTOR_H

#include <redelta/ascendc/tensors.h>

namespace AscendC {

struct BinaryRepeatParams {
  uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
  uint8_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t db, uint8_t s0b, uint8_t s1b, uint8_t dr, uint8_t s0r, uint8_t s1r)
      : dstBlkStride(db), src0BlkStride(s0b), src1BlkStride(s1b), dstRepStride(dr),
        src0RepStride(s0r), src1RepStride(s1r) {}
};
struct UnaryRepeatParams {
  uint8_t dstBlkStride = 1, srcBlkStride = 1, dstRepStride = 8, srcRepStride = 8;
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint8_t db, uint8_t sb, uint8_t dr, uint8_t sr)
      : dstBlkStride(db), srcBlkStride(sb), dstRepStride(dr), srcRepStride(sr) {}
};
enum class RoundMode {
  CAST_NONE,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD
};

inline void SetVectorMask(uint64_t high, uint64_t low, REDELTA_AT) {
  rd_npu_set_vector_mask(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE), high, low);
}

} // namespace AscendC

namespace redelta::ascendc {

inline void full_mask(REDELTA_AT) { AscendC::SetVectorMask(~0ull, ~0ull, REDELTA_HERE); }
inline uint64_t low_bits(uint64_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
inline void lanes_mask(uint64_t n, REDELTA_AT) {
  AscendC::SetVectorMask(n > 64 ? low_bits(n - 64) : 0, low_bits(n), REDELTA_HERE);
}

/* body(first element, repeats) over whole repeats, at most 255 at a time, then over what is left. */
template <class Body> void by_count(int64_t count, uint32_t lanes, Body body, REDELTA_AT) {
  if (count <= 0) return refuse("the element count is not positive", REDELTA_HERE);
  int64_t at = 0;
  for (int64_t n; (n = (count - at) / lanes) > 0; at += n * lanes) {
    n = n > 255 ? 255 : n;
    body(static_cast<uint32_t>(at), static_cast<uint32_t>(n));
  }
  if (at == count) return;
  lanes_mask(static_cast<uint64_t>(count - at), REDELTA_HERE);
  body(static_cast<uint32_t>(at), 1u);
  full_mask(REDELTA_HERE);
}

} // namespace redelta::ascendc

namespace AscendC {

#define REDELTA_BINARY(Name, intrinsic)                                                            \
  template <class T, bool isSetMask = true>                                                        \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &a, const LocalTensor<T> &b,           \
            const uint64_t mask[], uint8_t repeat, const BinaryRepeatParams &p, REDELTA_AT) {      \
    if (isSetMask) SetVectorMask(sizeof(T) == 4 ? 0 : mask[1], mask[0], REDELTA_HERE);             \
    intrinsic(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),                      \
              redelta::ascendc::Type<T>::value, dst.Address(), a.Address(), b.Address(), repeat,   \
              p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride,   \
              p.src1RepStride);                                                                    \
    if (isSetMask) redelta::ascendc::full_mask(REDELTA_HERE);                                      \
  }                                                                                                \
  template <class T, bool isSetMask = true>                                                        \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &a, const LocalTensor<T> &b,           \
            uint64_t mask, uint8_t repeat, const BinaryRepeatParams &p, REDELTA_AT) {              \
    const uint64_t words[2] = {redelta::ascendc::low_bits(mask),                                   \
                               mask > 64 ? redelta::ascendc::low_bits(mask - 64) : 0};             \
    Name<T, isSetMask>(dst, a, b, words, repeat, p, REDELTA_HERE);                                 \
  }                                                                                                \
  template <class T>                                                                               \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &a, const LocalTensor<T> &b,           \
            const int32_t &count, REDELTA_AT) {                                                    \
    redelta::ascendc::by_count(                                                                    \
        count, 256 / sizeof(T),                                                                    \
        [&](uint32_t i, uint32_t n) {                                                              \
          Name<T, false>(dst[i], a[i], b[i], uint64_t{0}, static_cast<uint8_t>(n), {},             \
                         REDELTA_HERE);                                                            \
        },                                                                                         \
        REDELTA_HERE);                                                                             \
  }
REDELTA_BINARY(Add, rd_npu_vadd)
REDELTA_BINARY(Sub, rd_npu_vsub)
REDELTA_BINARY(Mul, rd_npu_vmul)
REDELTA_BINARY(Div, rd_npu_vdiv)
REDELTA_BINARY(Max, rd_npu_vmax)
REDELTA_BINARY(Min, rd_npu_vmin)
REDELTA_BINARY(MulAddDst, rd_npu_vmla)
REDELTA_BINARY(FusedMulAdd, rd_npu_vmadd)
#undef REDELTA_BINARY

/* One source: EXTRA parameters come before the count or mask, PASS hands them on, OPERAND to the model. */
#define REDELTA_COMMA ,
#define REDELTA_UNARY(Name, intrinsic, EXTRA, PASS, OPERAND)                                       \
  template <class T, bool isSetMask = true>                                                        \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, EXTRA const uint64_t mask[],     \
            uint8_t repeat, const UnaryRepeatParams &p, REDELTA_AT) {                              \
    if (isSetMask) SetVectorMask(sizeof(T) == 4 ? 0 : mask[1], mask[0], REDELTA_HERE);             \
    intrinsic(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),                      \
              redelta::ascendc::Type<T>::value, dst.Address(), src.Address(), OPERAND repeat,      \
              p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride);                     \
    if (isSetMask) redelta::ascendc::full_mask(REDELTA_HERE);                                      \
  }                                                                                                \
  template <class T, bool isSetMask = true>                                                        \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, EXTRA uint64_t mask,             \
            uint8_t repeat, const UnaryRepeatParams &p, REDELTA_AT) {                              \
    const uint64_t words[2] = {redelta::ascendc::low_bits(mask),                                   \
                               mask > 64 ? redelta::ascendc::low_bits(mask - 64) : 0};             \
    Name<T, isSetMask>(dst, src, PASS words, repeat, p, REDELTA_HERE);                             \
  }                                                                                                \
  template <class T>                                                                               \
  void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, EXTRA const int32_t &count,      \
            REDELTA_AT) {                                                                          \
    redelta::ascendc::by_count(                                                                    \
        count, 256 / sizeof(T),                                                                    \
        [&](uint32_t i, uint32_t n) {                                                              \
          Name<T, false>(dst[i], src[i], PASS uint64_t{0}, static_cast<uint8_t>(n), {},            \
                         REDELTA_HERE);                                                            \
        },                                                                                         \
        REDELTA_HERE);                                                                             \
  }
REDELTA_UNARY(Exp, rd_npu_vexp, , , )
REDELTA_UNARY(Sqrt, rd_npu_vsqrt, , , )
#define REDELTA_SCALAR(Name, intrinsic)                                                            \
  REDELTA_UNARY(Name, intrinsic, const T &scalar REDELTA_COMMA, scalar REDELTA_COMMA,              \
                redelta::ascendc::scalar(scalar) REDELTA_COMMA)
REDELTA_SCALAR(Adds, rd_npu_vadds)
REDELTA_SCALAR(Muls, rd_npu_vmuls)
REDELTA_SCALAR(Maxs, rd_npu_vmaxs)
REDELTA_SCALAR(Mins, rd_npu_vmins)
REDELTA_SCALAR(Axpy, rd_npu_vaxpy)
#undef REDELTA_SCALAR
#undef REDELTA_UNARY
#undef REDELTA_COMMA

template <class T>
void Duplicate(const LocalTensor<T> &dst, const T &value, const int32_t &count, REDELTA_AT) {
  redelta::ascendc::by_count(
      count, 256 / sizeof(T),
      [&](uint32_t i, uint32_t n) {
        rd_npu_vector_dup(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                          redelta::ascendc::Type<T>::value, dst[i].Address(),
                          redelta::ascendc::scalar(value), n, 1, 8);
      },
      REDELTA_HERE);
}

/* half -> float is exact; float -> half rounds to nearest even. */
inline void Cast(const LocalTensor<float> &dst, const LocalTensor<half> &src, RoundMode mode,
                 uint32_t count, REDELTA_AT) {
  if (mode != RoundMode::CAST_NONE)
    return redelta::ascendc::refuse("Cast: half to float takes CAST_NONE", REDELTA_HERE);
  redelta::ascendc::by_count(
      count, 64,
      [&](uint32_t i, uint32_t n) {
        rd_npu_vconv_f162f32(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                             dst[i].Address(), src[i].Address(), n, 1, 1, 8, 4);
      },
      REDELTA_HERE);
}
inline void Cast(const LocalTensor<half> &dst, const LocalTensor<float> &src, RoundMode mode,
                 uint32_t count, REDELTA_AT) {
  if (mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT)
    return redelta::ascendc::refuse("Cast: float to half is covered with CAST_NONE and CAST_RINT",
                                    REDELTA_HERE);
  redelta::ascendc::by_count(
      count, 64,
      [&](uint32_t i, uint32_t n) {
        rd_npu_vconv_f322f16(redelta::ascendc::core(), redelta::ascendc::site(REDELTA_HERE),
                             dst[i].Address(), src[i].Address(), n, 1, 1, 4, 8);
      },
      REDELTA_HERE);
}

} // namespace AscendC
#endif
