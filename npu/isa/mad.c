/* The matrix unit: C (+)= A B, from L0A and L0B into L0C. */
#include "npu/isa/class.h"

#include <string.h>

static uint32_t blocks(uint32_t n) { return (n + 15) / 16; }

/* m, n and k need not fill their fractals.  Whole fractals are read, but their padding reaches no
 * result and need not be initialised; the padding of the result is unknown. */
static uint32_t a_padding(const insn *i, rd_npu_arch arch, uint64_t offset) {
  uint32_t fractal = (uint32_t)(offset / 512), x = (uint32_t)(offset % 512 / 32);
  uint32_t m1 = blocks(i->mad.m), k1 = blocks(i->mad.k);
  bool nz = arch == RD_NPU_950;
  uint32_t row = (nz ? fractal % m1 : fractal / k1) * 16 + x, q = nz ? fractal / m1 : fractal % k1;
  return row >= i->mad.m ? UINT32_MAX : rdn_bytes_from(2, i->mad.k - q * 16);
}

static uint32_t b_padding(const insn *i, rd_npu_arch arch, uint64_t offset) {
  (void)arch;
  uint32_t fractal = (uint32_t)(offset / 512), x = (uint32_t)(offset % 512 / 32);
  uint32_t n1 = blocks(i->mad.n), column = fractal % n1 * 16 + x, q = fractal / n1;
  return column >= i->mad.n ? UINT32_MAX : rdn_bytes_from(2, i->mad.k - q * 16);
}

static uint32_t c_padding(const insn *i, rd_npu_arch arch, uint64_t offset) {
  (void)arch;
  return rdn_l0c_padding(type_size(i->type_dst), blocks(i->mad.m), i->mad.m, i->mad.n, offset);
}

static unsigned operands(const insn *i, operand *o) {
  uint64_t m = 16 * (uint64_t)blocks(i->mad.m), k = 16 * (uint64_t)blocks(i->mad.k),
           n = 16 * (uint64_t)blocks(i->mad.n);
  o[0] = rdn_ranges(RD_NPU_L0A, i->mad.a, READ | CONSUME, 1, 0, m * k * 2);
  o[1] = rdn_ranges(RD_NPU_L0B, i->mad.b, READ | CONSUME, 1, 0, k * n * 2);
  o[2] = rdn_ranges(RD_NPU_L0C, i->mad.dst, WRITE | (i->mad.init ? 0u : READ | CONSUME), 1, 0,
                    m * n * type_size(i->type_dst));
  o[2].align = (uint16_t)(256 * type_size(i->type_dst));
  if ((i->mad.m | i->mad.k | i->mad.n) % 16)
    o[0].padding = a_padding, o[1].padding = b_padding, o[2].padding = c_padding;
  return 3;
}

static bool limits(const insn *i, char *why, size_t size) {
  uint32_t m = i->mad.m, k = i->mad.k, n = i->mad.n;
  if (m < 2 || !k || !n || m > 4095 || k > 4095 || n > 4095)
    return rdn_fail(why, size, "m,k,n = %u,%u,%u: 1 to 4095 (m = 1 is another mode)", m, k, n);
  bool types =
      (i->type_dst == RD_NPU_F32 && (i->type_src == RD_NPU_F16 || i->type_src == RD_NPU_BF16)) ||
      (i->type_dst == RD_NPU_F16 && i->type_src == RD_NPU_F16);
  if (!types) return rdn_fail(why, size, "products are f16 or bf16 into f32, or f16 into f16");
  return true;
}

/* C[4][16] += A[4 rows][k] B[k][16], k ascending, one rounding per addition (the products of 16-bit
 * floats are exact in f32).  Rows of A are `ld` apart. */
static void mad_rows(float *restrict acc, const float *restrict a, uint32_t ld,
                     const float *restrict b, uint32_t k) {
  float r0[16], r1[16], r2[16], r3[16];
  for (unsigned n = 0; n < 16; n++)
    r0[n] = acc[n], r1[n] = acc[16 + n], r2[n] = acc[32 + n], r3[n] = acc[48 + n];
  const float *a1 = a + ld, *a2 = a1 + ld, *a3 = a2 + ld;
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

/* What no documentation defines reads as poison. */
static void poison_padding(const insn *i, uint8_t *c, uint32_t u) {
  uint32_t size = type_size(i->type_dst), m1 = blocks(i->mad.m);
  uint32_t row = u % m1 * 16, column = u / m1 * 16;
  if (row + 16 <= i->mad.m && column + 16 <= i->mad.n) return;
  for (uint32_t e = 0; e < 256; e++)
    if (row + e / 16 >= i->mad.m || column + e % 16 >= i->mad.n) memset(c + e * size, 0xFF, size);
}

/* Fractal u of C is column block u / M1, row block u % M1. */
static bool execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t m1 = blocks(i->mad.m), k1 = blocks(i->mad.k), n1 = blocks(i->mad.n), ld = 16 * k1;
  float *a = m->scratch, *b = m->scratch + 32768;
  const uint8_t *l0a = local(m, i->mad.a), *l0b = local(m, i->mad.b);
  for (uint32_t r = 0; r < m1; r++) /* A row major */
    for (uint32_t q = 0; q < k1; q++) {
      float f[256];
      uint64_t fractal = m->arch == RD_NPU_950 ? (uint64_t)q * m1 + r : (uint64_t)r * k1 + q;
      rdn_widen(f, l0a + 512 * fractal, i->type_src, 256);
      for (unsigned x = 0; x < 16; x++)
        memcpy(a + (uint64_t)(r * 16 + x) * ld + q * 16, f + 16 * x, 64);
    }
  uint32_t strip = UINT32_MAX;
  for (uint32_t u = begin; u < end; u++) {
    uint32_t column = u / m1, row = u % m1;
    if (column != strip) { /* B's strip of 16 columns, k major */
      strip = column;
      for (uint32_t q = 0; q < k1; q++) {
        float f[256];
        rdn_widen(f, l0b + 512 * ((uint64_t)q * n1 + column), i->type_src, 256);
        for (unsigned x = 0; x < 16; x++)
          for (unsigned y = 0; y < 16; y++) b[(q * 16 + y) * 16 + x] = f[16 * x + y];
      }
    }
    uint8_t *c = local(m, i->mad.dst) + (uint64_t)u * 256 * type_size(i->type_dst);
    float acc[256];
    if (i->mad.init)
      memset(acc, 0, sizeof acc);
    else if (i->type_dst == RD_NPU_F16)
      rdn_widen(acc, c, RD_NPU_F16, 256);
    else
      memcpy(acc, c, sizeof acc);
    for (unsigned x = 0; x < 16; x += 4)
      mad_rows(acc + 16 * x, a + (uint64_t)(row * 16 + x) * ld, ld, b, i->mad.k);
    rdn_convert(m, c, (const uint8_t *)acc, i->type_dst, RD_NPU_F32, 256);
    poison_padding(i, c, u);
  }
  return true;
}

static uint64_t cost(const insn *i) {
  return 32 + (uint64_t)rdn_mad_fractals(i) * blocks(i->mad.k);
}

const rdn_class rdn_class_MAD = {.operands = operands,
                                 .units = rdn_mad_fractals,
                                 .limits = limits,
                                 .execute = execute,
                                 .cost = cost};
