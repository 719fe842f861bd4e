/*
 * redelta/npu_intrinsics.h - short names for kernel sources on the AI Core model.
 *
 * Every macro expands to rd_npu_NAME(c, RD_SITE, ...), `c` being the kernel's first parameter.
 * A helper that issues instructions takes the site of its caller and says so with RD_VIA:
 *
 *   static void land(rd_npu_core *c, rd_npu_site site, uint32_t slot, uint64_t ub) {
 *     rd_npu_wait_flag(c, RD_VIA(site), PIPE_M, PIPE_V, slot);
 *     ...
 *   }
 *   #define l0c_to_ub(...) land(c, RD_SITE, __VA_ARGS__)
 *
 * or, to use the short names inside helpers, redefine RD_SITE around them:
 *
 *   #undef RD_SITE
 *   #define RD_SITE RD_VIA(site)
 *
 * C11 or C++11.  Include it in kernel sources only: the names are those of the field and not prefixed.
 */
#ifndef REDELTA_NPU_INTRINSICS_H
#define REDELTA_NPU_INTRINSICS_H

#include <redelta/npu.h>

#define RD_VIA(site) rd_npu_site_at(c, __FILE__, __LINE__, (site))
#define RD_SITE      RD_VIA(0)

#define F16          RD_NPU_F16
#define BF16         RD_NPU_BF16
#define F32          RD_NPU_F32
#define S32          RD_NPU_S32
#define S16          RD_NPU_S16
#define S64          RD_NPU_S64

#define PIPE_S       RD_NPU_PIPE_S
#define PIPE_V       RD_NPU_PIPE_V
#define PIPE_M       RD_NPU_PIPE_M
#define PIPE_MTE1    RD_NPU_PIPE_MTE1
#define PIPE_MTE2    RD_NPU_PIPE_MTE2
#define PIPE_MTE3    RD_NPU_PIPE_MTE3
#define PIPE_FIX     RD_NPU_PIPE_FIX
#define PIPE_ALL     RD_NPU_PIPE_ALL

#define GM(tensor)   RD_NPU_GM_ADDR(tensor, 0)
#define L1(offset)   RD_NPU_ADDR(RD_NPU_L1, offset)
#define L0A(offset)  RD_NPU_ADDR(RD_NPU_L0A, offset)
#define L0B(offset)  RD_NPU_ADDR(RD_NPU_L0B, offset)
#define L0C(offset)  RD_NPU_ADDR(RD_NPU_L0C, offset)
#define UB(offset)   RD_NPU_ADDR(RD_NPU_UB, offset)

/* A number or an rd_npu_scalar as scalar operand: floating-point numbers are f32 immediates, every
 * other one is an s32. */
#ifdef __cplusplus
extern "C++" {
inline rd_npu_scalar rd_npu_scalar_of(rd_npu_scalar x) { return x; }
inline rd_npu_scalar rd_npu_scalar_of(float x) { return rd_npu_f32(x); }
inline rd_npu_scalar rd_npu_scalar_of(double x) { return rd_npu_f32(static_cast<float>(x)); }
template <class T> inline rd_npu_scalar rd_npu_scalar_of(T x) {
  return rd_npu_s32(static_cast<int32_t>(x));
}
}
#define RD_NPU_SCALAR(x) rd_npu_scalar_of(x)
#else
static inline rd_npu_scalar rd_npu_scalar_same(rd_npu_scalar x) { return x; }
static inline rd_npu_scalar rd_npu_scalar_double(double x) { return rd_npu_f32((float)x); }
#define RD_NPU_SCALAR(x)                                                                           \
  _Generic((x), rd_npu_scalar                                                                      \
           : rd_npu_scalar_same, float                                                             \
           : rd_npu_f32, double                                                                    \
           : rd_npu_scalar_double, default                                                         \
           : rd_npu_s32)(x)
#endif

#define get_block_idx()             rd_npu_get_block_idx(c)
#define get_block_num()             rd_npu_get_block_num(c)
#define set_flag(...)               rd_npu_set_flag(c, RD_SITE, __VA_ARGS__)
#define wait_flag(...)              rd_npu_wait_flag(c, RD_SITE, __VA_ARGS__)
#define pipe_barrier(...)           rd_npu_pipe_barrier(c, RD_SITE, __VA_ARGS__)
#define set_vector_mask(...)        rd_npu_set_vector_mask(c, RD_SITE, __VA_ARGS__)

#define copy_gm_to_ubuf(...)        rd_npu_copy_gm_to_ubuf(c, RD_SITE, __VA_ARGS__)
#define copy_ubuf_to_gm(...)        rd_npu_copy_ubuf_to_gm(c, RD_SITE, __VA_ARGS__)
#define copy_gm_to_cbuf(...)        rd_npu_copy_gm_to_cbuf(c, RD_SITE, __VA_ARGS__)
#define copy_ubuf_to_cbuf(...)      rd_npu_copy_ubuf_to_cbuf(c, RD_SITE, __VA_ARGS__)
#define copy_ubuf_to_ubuf(...)      rd_npu_copy_ubuf_to_ubuf(c, RD_SITE, __VA_ARGS__)
#define copy_gm_to_ubuf_align(...)  rd_npu_copy_gm_to_ubuf_align(c, RD_SITE, __VA_ARGS__)
#define copy_ubuf_to_gm_align(...)  rd_npu_copy_ubuf_to_gm_align(c, RD_SITE, __VA_ARGS__)

#define load_cbuf_to_ca(...)        rd_npu_load_cbuf_to_ca(c, RD_SITE, __VA_ARGS__)
#define load_cbuf_to_cb(...)        rd_npu_load_cbuf_to_cb(c, RD_SITE, __VA_ARGS__)
#define mad(...)                    rd_npu_mad(c, RD_SITE, __VA_ARGS__)
#define copy_matrix_cc_to_ubuf(...) rd_npu_copy_matrix_cc_to_ubuf(c, RD_SITE, __VA_ARGS__)
#define copy_matrix_cc_to_gm(...)   rd_npu_copy_matrix_cc_to_gm(c, RD_SITE, __VA_ARGS__)

#define vadd(...)                   rd_npu_vadd(c, RD_SITE, __VA_ARGS__)
#define vsub(...)                   rd_npu_vsub(c, RD_SITE, __VA_ARGS__)
#define vmul(...)                   rd_npu_vmul(c, RD_SITE, __VA_ARGS__)
#define vdiv(...)                   rd_npu_vdiv(c, RD_SITE, __VA_ARGS__)
#define vmax(...)                   rd_npu_vmax(c, RD_SITE, __VA_ARGS__)
#define vmin(...)                   rd_npu_vmin(c, RD_SITE, __VA_ARGS__)
#define vmla(...)                   rd_npu_vmla(c, RD_SITE, __VA_ARGS__)
#define vmadd(...)                  rd_npu_vmadd(c, RD_SITE, __VA_ARGS__)
#define vsqrt(...)                  rd_npu_vsqrt(c, RD_SITE, __VA_ARGS__)
#define vexp(...)                   rd_npu_vexp(c, RD_SITE, __VA_ARGS__)
#define vmuls(type, dst, src, x, ...)                                                              \
  rd_npu_vmuls(c, RD_SITE, type, dst, src, RD_NPU_SCALAR(x), __VA_ARGS__)
#define vadds(type, dst, src, x, ...)                                                              \
  rd_npu_vadds(c, RD_SITE, type, dst, src, RD_NPU_SCALAR(x), __VA_ARGS__)
#define vmaxs(type, dst, src, x, ...)                                                              \
  rd_npu_vmaxs(c, RD_SITE, type, dst, src, RD_NPU_SCALAR(x), __VA_ARGS__)
#define vmins(type, dst, src, x, ...)                                                              \
  rd_npu_vmins(c, RD_SITE, type, dst, src, RD_NPU_SCALAR(x), __VA_ARGS__)
#define vaxpy(type, dst, src, x, ...)                                                              \
  rd_npu_vaxpy(c, RD_SITE, type, dst, src, RD_NPU_SCALAR(x), __VA_ARGS__)
#define vector_dup(type, dst, x, ...)                                                              \
  rd_npu_vector_dup(c, RD_SITE, type, dst, RD_NPU_SCALAR(x), __VA_ARGS__)
#define vconv_f162f32(...)     rd_npu_vconv_f162f32(c, RD_SITE, __VA_ARGS__)
#define vconv_f322f16(...)     rd_npu_vconv_f322f16(c, RD_SITE, __VA_ARGS__)
#define vconv_bf162f32(...)    rd_npu_vconv_bf162f32(c, RD_SITE, __VA_ARGS__)
#define vconv_f322bf16(...)    rd_npu_vconv_f322bf16(c, RD_SITE, __VA_ARGS__)
#define vcadd(...)             rd_npu_vcadd(c, RD_SITE, __VA_ARGS__)
#define vcgadd(...)            rd_npu_vcgadd(c, RD_SITE, __VA_ARGS__)
#define vbrcb(...)             rd_npu_vbrcb(c, RD_SITE, __VA_ARGS__)
#define vtranspose(...)        rd_npu_vtranspose(c, RD_SITE, __VA_ARGS__)
#define v4dtrans(...)          rd_npu_v4dtrans(c, RD_SITE, __VA_ARGS__)
#define vgather(...)           rd_npu_vgather(c, RD_SITE, __VA_ARGS__)

#define load_gm_int(...)       rd_npu_load_gm_int(c, RD_SITE, __VA_ARGS__)
#define load_gm_float(...)     rd_npu_load_gm_float(c, RD_SITE, __VA_ARGS__)
#define load_ub(...)           rd_npu_load_ub(c, RD_SITE, __VA_ARGS__)
#define store_ub(type, dst, x) rd_npu_store_ub(c, RD_SITE, type, dst, RD_NPU_SCALAR(x))
#define get_value(...)         rd_npu_get_value(c, RD_SITE, __VA_ARGS__)
#define get_value_int(...)     rd_npu_get_value_int(c, RD_SITE, __VA_ARGS__)
#define get_value_float(...)   rd_npu_get_value_float(c, RD_SITE, __VA_ARGS__)
#define set_value(...)         rd_npu_set_value(c, RD_SITE, __VA_ARGS__)
#define data_cache_clean_and_invalid(...)                                                          \
  rd_npu_data_cache_clean_and_invalid(c, RD_SITE, __VA_ARGS__)
#define sadd(type, a, b)    rd_npu_sadd(c, RD_SITE, type, RD_NPU_SCALAR(a), RD_NPU_SCALAR(b))
#define ssub(type, a, b)    rd_npu_ssub(c, RD_SITE, type, RD_NPU_SCALAR(a), RD_NPU_SCALAR(b))
#define smul(type, a, b)    rd_npu_smul(c, RD_SITE, type, RD_NPU_SCALAR(a), RD_NPU_SCALAR(b))
#define scmp_lt(type, a, b) rd_npu_scmp_lt(c, RD_SITE, type, RD_NPU_SCALAR(a), RD_NPU_SCALAR(b))

#endif
