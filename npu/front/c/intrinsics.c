/* The intrinsics: each fills one instruction record and issues it.  Semantics: the header for the
 * author, npu/isa for the machine. */
#include "npu/core/core.h"
#include "npu/isa/instruction.h"
#include "npu/machine/float16.h"

#include <string.h>

/* Strides are 16-bit fields; a larger one must fail the checks, not wrap. */
static uint16_t stride(uint32_t x) { return x > 65535 ? 65535 : (uint16_t)x; }

void rd_npu_set_flag(rd_npu_core *c, rd_npu_site s, rd_npu_pipe src, rd_npu_pipe dst, uint32_t id) {
  insn i = rdn_insn(c, OP_set_flag, s);
  i.pipe = i.flag.src = (uint8_t)src, i.flag.dst = (uint8_t)dst;
  i.flag.id = id > 255 ? 255 : (uint8_t)id;
  rdn_issue(c, &i);
}

void rd_npu_wait_flag(rd_npu_core *c, rd_npu_site s, rd_npu_pipe src, rd_npu_pipe dst,
                      uint32_t id) {
  insn i = rdn_insn(c, OP_wait_flag, s);
  i.flag.src = (uint8_t)src, i.pipe = i.flag.dst = (uint8_t)dst;
  i.flag.id = id > 255 ? 255 : (uint8_t)id;
  rdn_issue(c, &i);
}

void rd_npu_pipe_barrier(rd_npu_core *c, rd_npu_site s, rd_npu_pipe pipe) {
  insn i = rdn_insn(c, OP_pipe_barrier, s);
  i.barrier.pipe = (uint8_t)pipe;
  i.pipe = pipe == RD_NPU_PIPE_ALL ? RD_NPU_PIPE_S : (uint8_t)pipe;
  rdn_issue(c, &i);
}

void rd_npu_set_vector_mask(rd_npu_core *c, rd_npu_site s, uint64_t hi, uint64_t lo) {
  /* a register of S: captured by each instruction when it is issued */
  c->mask_site = s;
  c->mask_hi = hi;
  c->mask_lo = lo;
}

/* ---- copies -------------------------------------------------------------------------------------
 */

#define BURST(name)                                                                                \
  void rd_npu_##name(RD_NPU_BURST) {                                                               \
    insn i = rdn_insn(c, OP_##name, s);                                                            \
    i.copy.dst = dst, i.copy.src = src, i.copy.n = n_burst, i.copy.len = len_burst;                \
    i.copy.src_gap = src_gap, i.copy.dst_gap = dst_gap;                                            \
    rdn_issue(c, &i);                                                                              \
  }
BURST(copy_gm_to_ubuf)
BURST(copy_ubuf_to_gm)
BURST(copy_gm_to_cbuf)
BURST(copy_ubuf_to_cbuf)
BURST(copy_ubuf_to_ubuf)

void rd_npu_copy_gm_to_ubuf_align(rd_npu_core *c, rd_npu_site s, uint64_t dst_ub, uint64_t src_gm,
                                  uint32_t n_burst, uint32_t len_bytes, uint32_t gm_gap,
                                  uint32_t ub_gap) {
  insn i = rdn_insn(c, OP_copy_gm_to_ubuf_align, s);
  i.copy.dst = dst_ub, i.copy.src = src_gm, i.copy.n = n_burst, i.copy.len = len_bytes;
  i.copy.src_gap = gm_gap, i.copy.dst_gap = ub_gap;
  rdn_issue(c, &i);
}

void rd_npu_copy_ubuf_to_gm_align(rd_npu_core *c, rd_npu_site s, uint64_t dst_gm, uint64_t src_ub,
                                  uint32_t n_burst, uint32_t len_bytes, uint32_t ub_gap,
                                  uint32_t gm_gap) {
  insn i = rdn_insn(c, OP_copy_ubuf_to_gm_align, s);
  i.copy.dst = dst_gm, i.copy.src = src_ub, i.copy.n = n_burst, i.copy.len = len_bytes;
  i.copy.src_gap = ub_gap, i.copy.dst_gap = gm_gap;
  rdn_issue(c, &i);
}

/* ---- matrix
 * -------------------------------------------------------------------------------------- */

#define LOAD(name)                                                                                 \
  void rd_npu_##name(RD_NPU_LOAD) {                                                                \
    insn i = rdn_insn(c, OP_##name, s);                                                            \
    i.load.dst = dst, i.load.src = src, i.load.start = start, i.load.repeat = repeat;              \
    i.load.stride = src_stride, i.load.gap = dst_gap, i.load.transpose = transpose;                \
    rdn_issue(c, &i);                                                                              \
  }
LOAD(load_cbuf_to_ca)
LOAD(load_cbuf_to_cb)

void rd_npu_mad(rd_npu_core *c, rd_npu_site s, rd_npu_type type_c, rd_npu_type type_ab,
                uint64_t dst_c, uint64_t a, uint64_t b, uint32_t m, uint32_t k, uint32_t n,
                bool init) {
  insn i = rdn_insn(c, OP_mad, s);
  i.type_dst = (uint8_t)type_c, i.type_src = (uint8_t)type_ab;
  i.mad.dst = dst_c, i.mad.a = a, i.mad.b = b, i.mad.m = m, i.mad.k = k, i.mad.n = n,
  i.mad.init = init;
  rdn_issue(c, &i);
}

void rd_npu_copy_matrix_cc_to_ubuf(rd_npu_core *c, rd_npu_site s, rd_npu_type type_dst,
                                   rd_npu_type type_src, uint64_t dst_ub, uint64_t src_l0c,
                                   uint32_t n_burst, uint32_t len, uint32_t src_gap,
                                   uint32_t dst_gap) {
  insn i = rdn_insn(c, OP_copy_matrix_cc_to_ubuf, s);
  i.type_dst = (uint8_t)type_dst, i.type_src = (uint8_t)type_src;
  i.copy.dst = dst_ub, i.copy.src = src_l0c, i.copy.n = n_burst, i.copy.len = len;
  i.copy.src_gap = src_gap, i.copy.dst_gap = dst_gap;
  rdn_issue(c, &i);
}

void rd_npu_copy_matrix_cc_to_gm(rd_npu_core *c, rd_npu_site s, rd_npu_type type_dst,
                                 uint64_t dst_gm, uint64_t src_l0c, uint32_t m, uint32_t n,
                                 uint32_t rows, uint32_t dst_ld) {
  insn i = rdn_insn(c, OP_copy_matrix_cc_to_gm, s);
  i.type_dst = (uint8_t)type_dst, i.type_src = RD_NPU_F32;
  i.copy.dst = dst_gm, i.copy.src = src_l0c, i.copy.n = rows, i.copy.len = m;
  i.copy.src_gap = n, i.copy.dst_gap = dst_ld;
  rdn_issue(c, &i);
}

/* ---- vector
 * -------------------------------------------------------------------------------------- */

static insn vector(rd_npu_core *c, op o, rd_npu_site s, rd_npu_type dst, rd_npu_type src,
                   uint32_t repeat) {
  insn i = rdn_insn(c, o, s);
  i.type_dst = (uint8_t)dst, i.type_src = (uint8_t)src;
  i.v.lo = c->mask_lo, i.v.hi = c->mask_hi;
  i.v.repeat = repeat;
  return i;
}

#define VEC3(name)                                                                                 \
  void rd_npu_##name(RD_NPU_VEC3) {                                                                \
    insn i = vector(c, OP_##name, s, type, type, repeat);                                          \
    i.v.dst = dst, i.v.src0 = src0, i.v.src1 = src1;                                               \
    i.v.dst_blk = stride(dst_blk), i.v.src0_blk = stride(src0_blk);                                \
    i.v.src1_blk = stride(src1_blk), i.v.dst_rep = stride(dst_rep);                                \
    i.v.src0_rep = stride(src0_rep), i.v.src1_rep = stride(src1_rep);                              \
    rdn_issue(c, &i);                                                                              \
  }
VEC3(vadd)
VEC3(vsub)
VEC3(vmul)
VEC3(vdiv)
VEC3(vmax)
VEC3(vmin)
VEC3(vmla)
VEC3(vmadd)

static void vec2(rd_npu_core *c, op o, rd_npu_site s, rd_npu_type to, rd_npu_type from,
                 uint64_t dst, uint64_t src, rd_npu_scalar scalar, const uint32_t at[5]) {
  insn i = vector(c, o, s, to, from, at[0]);
  i.v.dst = dst, i.v.src0 = src, i.v.scalar = scalar;
  i.v.dst_blk = stride(at[1]), i.v.src0_blk = stride(at[2]);
  i.v.dst_rep = stride(at[3]), i.v.src0_rep = stride(at[4]);
  rdn_issue(c, &i);
}
#define AT ((const uint32_t[5]){repeat, dst_blk, src_blk, dst_rep, src_rep})
static const rd_npu_scalar no_scalar = {0, 0};

#define VEC2(name)                                                                                 \
  void rd_npu_##name(RD_NPU_VEC2) { vec2(c, OP_##name, s, type, type, dst, src, no_scalar, AT); }
VEC2(vsqrt)
VEC2(vexp)

#define VECS(name)                                                                                 \
  void rd_npu_##name(RD_NPU_VECS) { vec2(c, OP_##name, s, type, type, dst, src, scalar, AT); }
VECS(vmuls)
VECS(vadds)
VECS(vmaxs)
VECS(vmins)
VECS(vaxpy)

#define VCONV(name, to, from)                                                                      \
  void rd_npu_##name(RD_NPU_VCONV) {                                                               \
    vec2(c, OP_##name, s, RD_NPU_##to, RD_NPU_##from, dst, src, no_scalar, AT);                    \
  }
VCONV(vconv_f162f32, F32, F16)
VCONV(vconv_f322f16, F16, F32)
VCONV(vconv_bf162f32, F32, BF16)
VCONV(vconv_f322bf16, BF16, F32)

void rd_npu_vector_dup(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst,
                       rd_npu_scalar scalar, uint32_t repeat, uint32_t dst_blk, uint32_t dst_rep) {
  insn i = vector(c, OP_vector_dup, s, type, type, repeat);
  i.v.dst = dst, i.v.scalar = scalar;
  i.v.dst_blk = stride(dst_blk), i.v.dst_rep = stride(dst_rep);
  rdn_issue(c, &i);
}

#define VRED(name)                                                                                 \
  void rd_npu_##name(RD_NPU_VRED) {                                                                \
    insn i = vector(c, OP_##name, s, type, type, repeat);                                          \
    i.v.dst = dst, i.v.src0 = src, i.v.dst_rep = stride(dst_rep);                                  \
    i.v.src0_blk = stride(src_blk), i.v.src0_rep = stride(src_rep);                                \
    rdn_issue(c, &i);                                                                              \
  }
VRED(vcadd)
VRED(vcgadd)

void rd_npu_vbrcb(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t src,
                  uint32_t repeat, uint32_t dst_blk, uint32_t dst_rep) {
  insn i = vector(c, OP_vbrcb, s, type, type, repeat);
  i.v.dst = dst, i.v.src0 = src;
  i.v.dst_blk = stride(dst_blk), i.v.dst_rep = stride(dst_rep);
  rdn_issue(c, &i);
}

void rd_npu_vtranspose(rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t src) {
  insn i = vector(c, OP_vtranspose, s, RD_NPU_F16, RD_NPU_F16, 1);
  i.v.dst = dst, i.v.src0 = src;
  rdn_issue(c, &i);
}

void rd_npu_v4dtrans(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t src,
                     uint32_t m, uint32_t channels, bool chw_to_hwc) {
  insn i = vector(c, OP_v4dtrans, s, type, type, 1);
  i.v.dst = dst, i.v.src0 = src, i.v.scalar.bits = chw_to_hwc;
  i.v.extra = (m > 65535 ? 0 : m) << 16 | (channels > 65535 ? 0 : channels);
  rdn_issue(c, &i);
}

void rd_npu_vgather(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t offsets,
                    uint64_t table, uint32_t table_bytes, uint32_t repeat, uint32_t dst_rep) {
  insn i = vector(c, OP_vgather, s, type, type, repeat);
  i.v.dst = dst, i.v.src0 = offsets, i.v.src1 = table, i.v.extra = table_bytes;
  i.v.dst_blk = 1, i.v.dst_rep = stride(dst_rep);
  rdn_issue(c, &i);
}

/* ---- scalar unit
 * ---------------------------------------------------------------------------------- */

rd_npu_scalar rd_npu_f32(float value) { return (rd_npu_scalar){0, float_bits(value)}; }
rd_npu_scalar rd_npu_s32(int32_t value) { return (rd_npu_scalar){1, (uint32_t)value}; }

static rd_npu_scalar new_register(rd_npu_core *c) {
  uint32_t reg = c->prog.regs++;
  if (c->mem && !rdn_memory_regs(c->mem, c->prog.regs)) c->out_of_memory = true;
  return (rd_npu_scalar){2, reg};
}

rd_npu_scalar rd_npu_load_ub(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t src_ub) {
  insn i = rdn_insn(c, OP_load_ub, s);
  i.type_dst = i.type_src = (uint8_t)type;
  i.s.addr = src_ub;
  rd_npu_scalar r = new_register(c);
  i.s.reg = r.bits;
  rdn_issue(c, &i);
  return r;
}

void rd_npu_store_ub(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst_ub,
                     rd_npu_scalar value) {
  insn i = rdn_insn(c, OP_store_ub, s);
  i.type_dst = i.type_src = (uint8_t)type;
  i.s.addr = dst_ub, i.s.a = value;
  rdn_issue(c, &i);
}

#define SOP(name)                                                                                  \
  rd_npu_scalar rd_npu_##name(RD_NPU_SOP) {                                                        \
    insn i = rdn_insn(c, OP_##name, s);                                                            \
    i.type_dst = i.type_src = (uint8_t)type;                                                       \
    rd_npu_scalar r = new_register(c);                                                             \
    i.s.reg = r.bits, i.s.a = a, i.s.b = b;                                                        \
    rdn_issue(c, &i);                                                                              \
    return r;                                                                                      \
  }
SOP(sadd)
SOP(ssub)
SOP(smul)
SOP(scmp_lt)
