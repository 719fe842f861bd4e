/*
 * What every instruction does to memory.  An instruction is cut into units (repeats, bursts,
 * fractals); a step executes a range of them.
 */
#include "model.h"
#include "float16.h"

#include <string.h>

/* ---- addresses ---------------------------------------------------------------------------------
 */

static uint8_t *local(const memory *m, uint64_t addr) {
  return m->buffer[addr_buffer(addr)] + addr_offset(addr);
}

/* From GM; bytes past the tensor (the slack that may be copied) read as poison. */
static void gm_load(const memory *m, uint8_t *dst, uint64_t addr, uint64_t bytes) {
  const rd_npu_tensor *t = &m->tensors[addr_tensor(addr)];
  uint64_t at = addr_offset(addr), have = at < t->bytes ? t->bytes - at : 0;
  if (have > bytes) have = bytes;
  if (have) memcpy(dst, m->gm[addr_tensor(addr)] + at, have);
  if (have < bytes) memset(dst + have, 0xFF, bytes - have);
}

static void copy_range(const memory *m, uint64_t dst, uint64_t src, uint64_t bytes) {
  if (addr_buffer(src) == RD_NPU_GM)
    gm_load(m, local(m, dst), src, bytes);
  else if (addr_buffer(dst) == RD_NPU_GM)
    memcpy(m->gm[addr_tensor(dst)] + addr_offset(dst), local(m, src), bytes);
  else
    memmove(local(m, dst), local(m, src), bytes);
}

/* ---- scalars ------------------------------------------------------------------------------------
 */

/* The operand's bits in the instruction's type: immediates convert, registers hold the type asked.
 */
static uint32_t scalar_bits(const memory *m, rd_npu_scalar s, uint8_t type) {
  uint32_t bits = s.kind == 2 ? m->reg[s.bits] : s.bits;
  bool integer = type == RD_NPU_S32 || type == RD_NPU_S16;
  if (s.kind == 1 && !integer) bits = float_bits((float)(int32_t)bits);
  if (s.kind == 0 && integer) bits = (uint32_t)(int32_t)float_from(bits);
  if (type == RD_NPU_F16) return f16_from_float(float_from(bits));
  if (type == RD_NPU_BF16) return bf16_from_float(float_from(bits));
  return bits;
}

static void scalar_op(memory *m, const insn *i) {
  if (i->op == OP_load_gm) return; /* its value went to the kernel when it was issued */
  if (i->op == OP_load_ub) {
    memcpy(&m->reg[i->s.reg], local(m, i->s.addr), 4);
    return;
  }
  uint32_t a = scalar_bits(m, i->s.a, i->type_dst);
  if (i->op == OP_store_ub) {
    memcpy(local(m, i->s.addr), &a, 4);
    return;
  }
  uint32_t b = scalar_bits(m, i->s.b, i->type_dst), r = 0;
  if (i->type_dst == RD_NPU_S32) {
    r = i->op == OP_sadd   ? a + b
        : i->op == OP_ssub ? a - b
        : i->op == OP_smul ? a * b
                           : (uint32_t)((int32_t)a < (int32_t)b);
  } else {
    float x = float_from(a), y = float_from(b);
    r = float_bits(i->op == OP_sadd   ? x + y
                   : i->op == OP_ssub ? x - y
                   : i->op == OP_smul ? x * y
                   : x < y            ? 1.0f
                                      : 0.0f);
  }
  m->reg[i->s.reg] = r;
}

/* ---- copies and matrix --------------------------------------------------------------------------
 */

static void copy_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  operand o[MAX_OPERANDS];
  rdn_operands(i, o);
  for (uint32_t u = begin; u < end; u++) {
    copy_range(m, i->copy.dst + u * o[1].stride, i->copy.src + u * o[0].stride, o[0].bytes);
    if (o[1].bytes > o[0].bytes) /* the padding of an unaligned burst */
      memset(local(m, i->copy.dst + u * o[1].stride) + o[0].bytes, 0xFF, o[1].bytes - o[0].bytes);
  }
}

static void load_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  for (uint32_t u = begin; u < end; u++) {
    const uint8_t *src =
        local(m, i->load.src) + 512 * (uint64_t)(i->load.start + u * i->load.stride);
    uint8_t *dst = local(m, i->load.dst) + 512 * (uint64_t)u * (1 + i->load.gap);
    if (!i->load.transpose) {
      memcpy(dst, src, 512);
      continue;
    }
    for (unsigned r = 0; r < 16; r++)
      for (unsigned c = 0; c < 16; c++) memcpy(dst + 2 * (c * 16 + r), src + 2 * (r * 16 + c), 2);
  }
}

static void convert_run(uint8_t *dst, const uint8_t *src, uint8_t to, uint8_t from, size_t n) {
  if (to == from) {
    memcpy(dst, src, n * type_size(to));
    return;
  }
  vector_fn *fn =
      rdn_vector_fn(to == RD_NPU_F16 ? OP_vconv_f322f16 : OP_vconv_f322bf16, RD_NPU_F32);
  fn(dst, src, NULL, 0, n);
}

static void cc_to_ub(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  operand o[MAX_OPERANDS];
  rdn_operands(i, o);
  for (uint32_t u = begin; u < end; u++)
    convert_run(local(m, i->copy.dst) + u * o[1].stride, local(m, i->copy.src) + u * o[0].stride,
                i->type_dst, i->type_src, (size_t)i->copy.len * 256);
}

static void cc_to_gm(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t rows = i->copy.len, n = i->copy.src_gap, to = type_size(i->type_dst),
           from = type_size(i->type_src);
  uint8_t *gm = m->gm[addr_tensor(i->copy.dst)] + addr_offset(i->copy.dst);
  const uint8_t *src = local(m, i->copy.src);
  for (uint32_t r = begin; r < end; r++)
    for (uint32_t c = 0; c < n; c += 16)
      convert_run(gm + ((uint64_t)r * i->copy.dst_gap + c) * to,
                  src + (((uint64_t)(c / 16) * rows / 16 + r / 16) * 256 + r % 16 * 16) * from,
                  i->type_dst, i->type_src, 16);
}

/* C[4][16] += A[4 rows][k] B[k][16], k ascending, one rounding per addition (the products of 16-bit
 * floats are exact in f32). */
static void mad_rows(float *restrict acc, const float *restrict a, const float *restrict b,
                     uint32_t k) {
  float r0[16], r1[16], r2[16], r3[16];
  for (unsigned n = 0; n < 16; n++)
    r0[n] = acc[n], r1[n] = acc[16 + n], r2[n] = acc[32 + n], r3[n] = acc[48 + n];
  const float *a1 = a + k, *a2 = a1 + k, *a3 = a2 + k;
  for (uint32_t j = 0; j < k; j++)
    for (unsigned n = 0; n < 16; n++) {
      float x = b[16 * j + n];
      r0[n] += a[j] * x;
      r1[n] += a1[j] * x;
      r2[n] += a2[j] * x;
      r3[n] += a3[j] * x;
    }
  for (unsigned n = 0; n < 16; n++)
    acc[n] = r0[n], acc[16 + n] = r1[n], acc[32 + n] = r2[n], acc[48 + n] = r3[n];
}

static void widen(float *dst, const uint8_t *src, uint8_t type, size_t n) {
  rdn_vector_fn(type == RD_NPU_BF16 ? OP_vconv_bf162f32 : OP_vconv_f162f32, RD_NPU_F32)(dst, src,
                                                                                        NULL, 0, n);
}

/* Fractal u of C is column block u / M1, row block u % M1. */
static void mad_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t m1 = i->mad.m / 16, k1 = i->mad.k / 16, n1 = i->mad.n / 16, k = i->mad.k;
  float *a = m->scratch, *b = m->scratch + 32768;
  const uint8_t *l0a = local(m, i->mad.a), *l0b = local(m, i->mad.b);
  for (uint32_t r = 0; r < m1; r++) /* A row major */
    for (uint32_t q = 0; q < k1; q++) {
      float f[256];
      uint64_t fractal = m->arch == RD_NPU_950 ? (uint64_t)q * m1 + r : (uint64_t)r * k1 + q;
      widen(f, l0a + 512 * fractal, i->type_src, 256);
      for (unsigned x = 0; x < 16; x++)
        memcpy(a + (uint64_t)(r * 16 + x) * k + q * 16, f + 16 * x, 64);
    }
  uint32_t strip = UINT32_MAX;
  for (uint32_t u = begin; u < end; u++) {
    uint32_t column = u / m1, row = u % m1;
    if (column != strip) { /* B's strip of 16 columns, k major */
      strip = column;
      for (uint32_t q = 0; q < k1; q++) {
        float f[256];
        widen(f, l0b + 512 * ((uint64_t)q * n1 + column), i->type_src, 256);
        for (unsigned x = 0; x < 16; x++)
          for (unsigned y = 0; y < 16; y++) b[(q * 16 + y) * 16 + x] = f[16 * x + y];
      }
    }
    uint8_t *c = local(m, i->mad.dst) + (uint64_t)u * 256 * type_size(i->type_dst);
    float acc[256];
    if (i->mad.init)
      memset(acc, 0, sizeof acc);
    else if (i->type_dst == RD_NPU_F16)
      widen(acc, c, RD_NPU_F16, 256);
    else
      memcpy(acc, c, sizeof acc);
    for (unsigned x = 0; x < 16; x += 4)
      mad_rows(acc + 16 * x, a + (uint64_t)(row * 16 + x) * k, b, k);
    convert_run(c, (const uint8_t *)acc, i->type_dst, RD_NPU_F32, 256);
  }
}

/* ---- vector -------------------------------------------------------------------------------------
 */

typedef struct lane_run {
  uint8_t *dst, *a, *b;
  uint32_t size_dst, size_src, chunk; /* lanes per chunk: one block of the widest operand */
  bool src0, src1;
} lane_run;

static uint64_t lane_at(uint32_t lane, uint32_t size, uint32_t blk) {
  uint32_t per = GRANULE / size;
  return 32ull * (lane / per) * blk + (uint64_t)(lane % per) * size;
}

static uint64_t mask_bits(const insn *i, uint32_t lane, uint32_t count) {
  uint64_t word = lane < 64 ? i->v.lo >> lane : i->v.hi >> (lane - 64);
  return word & ((1ull << count) - 1);
}

/* One repeat, chunk by chunk; a partly masked chunk is computed aside and only active lanes land.
 */
static void vector_repeat(const lane_run *v, const insn *i, uint32_t r, vector_fn *fn,
                          uint32_t scalar, uint32_t lanes) {
  for (uint32_t l = 0; l < lanes; l += v->chunk) {
    uint64_t on = mask_bits(i, l, v->chunk), full = (1ull << v->chunk) - 1;
    if (!on) continue;
    uint8_t *d = v->dst + 32ull * r * i->v.dst_rep + lane_at(l, v->size_dst, i->v.dst_blk);
    const uint8_t *a =
        v->src0 ? v->a + 32ull * r * i->v.src0_rep + lane_at(l, v->size_src, i->v.src0_blk) : NULL;
    const uint8_t *b =
        v->src1 ? v->b + 32ull * r * i->v.src1_rep + lane_at(l, v->size_src, i->v.src1_blk) : a;
    if (on == full) {
      fn(d, a, b, scalar, v->chunk);
      continue;
    }
    uint64_t aside[4];
    memcpy(aside, d, (size_t)v->chunk * v->size_dst);
    fn(aside, a, b, scalar, v->chunk);
    for (uint32_t x = 0; x < v->chunk; x++)
      if (on >> x & 1) memcpy(d + x * v->size_dst, (uint8_t *)aside + x * v->size_dst, v->size_dst);
  }
}

static void vector_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint8_t class = rdn_ops[i->op].class;
  lane_run v = {.dst = local(m, i->v.dst),
                .size_dst = type_size(i->type_dst),
                .size_src = type_size(i->type_src)};
  v.src0 = class != CLASS_VEC1, v.src1 = class == CLASS_VEC3;
  if (v.src0) v.a = local(m, i->v.src0);
  if (v.src1) v.b = local(m, i->v.src1);
  bool wide = v.size_dst == 4 || v.size_src == 4;
  uint32_t lanes = wide ? 64 : 128;
  v.chunk = wide ? 8 : 16;
  vector_fn *fn =
      rdn_vector_fn(i->op, i->type_dst == RD_NPU_F16 && wide ? RD_NPU_F32 : i->type_dst);
  uint32_t scalar = scalar_bits(m, i->v.scalar, i->type_dst);
  bool all = i->v.lo == ~0ull && (wide || i->v.hi == ~0ull);
  uint32_t drep = lanes * v.size_dst / 32, srep = lanes * v.size_src / 32;
  bool row = all && i->v.dst_blk == 1 && (!v.src0 || i->v.src0_blk == 1) &&
             (!v.src1 || i->v.src1_blk == 1);
  if (row && i->v.dst_rep == drep && (!v.src0 || i->v.src0_rep == srep) &&
      (!v.src1 || i->v.src1_rep == srep)) {
    const uint8_t *a = v.src0 ? v.a + 32ull * begin * srep : NULL;
    fn(v.dst + 32ull * begin * drep, a, v.src1 ? v.b + 32ull * begin * srep : a, scalar,
       (size_t)(end - begin) * lanes);
    return;
  }
  for (uint32_t r = begin; r < end; r++) {
    if (!row) {
      vector_repeat(&v, i, r, fn, scalar, lanes);
      continue;
    }
    const uint8_t *a = v.src0 ? v.a + 32ull * r * i->v.src0_rep : NULL;
    fn(v.dst + 32ull * r * i->v.dst_rep, a, v.src1 ? v.b + 32ull * r * i->v.src1_rep : a, scalar,
       lanes);
  }
}

/* Lanes of one repeat in f32, inactive ones +0. */
static uint32_t gather_lanes(const memory *m, const insn *i, uint32_t r, float out[128]) {
  uint32_t size = type_size(i->type_src), lanes = size == 4 ? 64 : 128;
  const uint8_t *src = local(m, i->v.src0) + 32ull * r * i->v.src0_rep;
  for (uint32_t l = 0; l < lanes; l++) {
    out[l] = 0;
    if (!mask_bits(i, l, 1)) continue;
    uint16_t h;
    if (size == 4) {
      memcpy(&out[l], src + lane_at(l, 4, i->v.src0_blk), 4);
    } else {
      memcpy(&h, src + lane_at(l, 2, i->v.src0_blk), 2);
      out[l] = f16_to_float(h);
    }
  }
  return lanes;
}

/* Adjacent pairs, each sum rounded to the type. */
static float tree_sum(float *x, uint32_t n, bool half) {
  for (; n > 1; n /= 2)
    for (uint32_t l = 0; l < n / 2; l++) {
      float s = x[2 * l] + x[2 * l + 1];
      x[l] = half ? f16_to_float(f16_from_float(s)) : s;
    }
  return x[0];
}

static void reduce_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  bool half = i->type_dst == RD_NPU_F16, groups = i->op == OP_vcgadd;
  uint32_t size = half ? 2 : 4;
  for (uint32_t r = begin; r < end; r++) {
    float x[128];
    uint32_t lanes = gather_lanes(m, i, r, x), count = groups ? 8 : 1;
    uint8_t *dst = local(m, i->v.dst) + (uint64_t)r * i->v.dst_rep * size * count;
    for (uint32_t g = 0; g < count; g++) {
      float s = tree_sum(x + g * (lanes / count), lanes / count, half);
      uint16_t h = f16_from_float(s);
      memcpy(dst + g * size, half ? (const void *)&h : (const void *)&s, size);
    }
  }
}

static void brcb_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t size = type_size(i->type_dst);
  for (uint32_t r = begin; r < end; r++) {
    uint8_t row[32]; /* read before writing: the step reads first */
    memcpy(row, local(m, i->v.src0) + 8ull * r * size, 8 * size);
    for (uint32_t j = 0; j < 8; j++) {
      uint8_t *dst =
          local(m, i->v.dst) + 32ull * ((uint64_t)r * i->v.dst_rep + (uint64_t)j * i->v.dst_blk);
      for (uint32_t x = 0; x < 32; x += size) memcpy(dst + x, row + j * size, size);
    }
  }
}

static void transpose(const memory *m, const insn *i) {
  uint32_t size = i->op == OP_vtranspose ? 2 : type_size(i->type_dst);
  uint32_t rows = 16, columns = 16;
  if (i->op == OP_v4dtrans) {
    uint32_t length = i->v.extra >> 16, channels = i->v.extra & 0xFFFF;
    bool to_hwc = i->v.scalar.bits;
    rows = to_hwc ? channels : length;
    columns = to_hwc ? length : channels;
  }
  const uint8_t *src = local(m, i->v.src0);
  uint8_t *dst = local(m, i->v.dst);
  for (uint64_t r = 0; r < rows; r++)
    for (uint64_t c = 0; c < columns; c++)
      memcpy(dst + (c * rows + r) * size, src + (r * columns + c) * size, size);
}

static bool gather_units(const memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t size = type_size(i->type_dst), lanes = size == 4 ? 64 : 128;
  bool inside = true;
  for (uint32_t r = begin; r < end; r++)
    for (uint32_t l = 0; l < lanes; l++) {
      if (!mask_bits(i, l, 1)) continue;
      uint32_t offset;
      memcpy(&offset, local(m, i->v.src0) + 4ull * (r * lanes + l), 4);
      if (offset % size || (uint64_t)offset + size > i->v.extra) {
        inside = false;
        continue;
      }
      memcpy(local(m, i->v.dst) + 32ull * r * i->v.dst_rep + lane_at(l, size, 1),
             local(m, i->v.src1) + offset, size);
    }
  return inside;
}

bool rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  if (begin >= end) return true;
  switch (rdn_ops[i->op].class) {
  case CLASS_BURST:
  case CLASS_ALIGN:
    copy_units(m, i, begin, end);
    break;
  case CLASS_LOAD:
    load_units(m, i, begin, end);
    break;
  case CLASS_MAD:
    mad_units(m, i, begin, end);
    break;
  case CLASS_CC_UB:
    cc_to_ub(m, i, begin, end);
    break;
  case CLASS_CC_GM:
    cc_to_gm(m, i, begin, end);
    break;
  case CLASS_VEC3:
  case CLASS_VEC2:
  case CLASS_VEC1:
    vector_units(m, i, begin, end);
    break;
  case CLASS_VRED:
    reduce_units(m, i, begin, end);
    break;
  case CLASS_VBRCB:
    brcb_units(m, i, begin, end);
    break;
  case CLASS_VTRANS:
    transpose(m, i);
    break;
  case CLASS_VGATHER:
    return gather_units(m, i, begin, end);
  case CLASS_S_GM:
  case CLASS_S_UB:
  case CLASS_S_OP:
    scalar_op(m, i);
    break;
  default:
    break;
  }
  return true;
}
