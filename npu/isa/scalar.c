/* The scalar unit: reads of GM (S_GM), accesses to UB (S_UB), arithmetic on registers (S_OP). */
#include "npu/isa/class.h"
#include "npu/machine/float16.h"

#include <string.h>

uint32_t rdn_scalar_bits(const memory *m, rd_npu_scalar s, uint8_t type) {
  uint32_t bits = s.kind == 2 ? m->reg[s.bits] : s.bits;
  bool integer = type == RD_NPU_S32 || type == RD_NPU_S16;
  if (s.kind == 1 && !integer) bits = float_bits((float)(int32_t)bits);
  if (s.kind == 0 && integer) bits = (uint32_t)(int32_t)float_from(bits);
  if (type == RD_NPU_F16) return f16_from_float(float_from(bits));
  if (type == RD_NPU_BF16) return bf16_from_float(float_from(bits));
  return bits;
}

/* ---- GM: the value went to the kernel when the read was issued */

static unsigned gm_operands(const insn *i, operand *o) {
  o[0] = rdn_ranges(RD_NPU_GM, i->s.addr, READ | CONSUME | EXACT, 1, 0, i->s.bytes);
  if (i->type_src == RAW_BITS) o[0].align = (uint16_t)i->s.bytes;
  return 1;
}

const rdn_class rdn_class_S_GM = {.operands = gm_operands};

/* ---- UB */

static unsigned ub_operands(const insn *i, operand *o) {
  o[0] = rdn_ranges(RD_NPU_UB, i->s.addr, i->op == OP_load_ub ? READ | CONSUME : WRITE, 1, 0, 4);
  o[0].align = 4;
  return 1;
}

static bool access_ub(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  (void)begin, (void)end; /* one unit */
  if (i->op == OP_load_ub) {
    memcpy(&m->reg[i->s.reg], local(m, i->s.addr), 4);
    return true;
  }
  uint32_t bits = rdn_scalar_bits(m, i->s.a, i->type_dst);
  memcpy(local(m, i->s.addr), &bits, 4);
  return true;
}

static uint64_t ub_cost(const insn *i) {
  (void)i;
  return 4;
}

const rdn_class rdn_class_S_UB = {.operands = ub_operands, .execute = access_ub, .cost = ub_cost};

/* ---- registers */

static bool compute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  (void)begin, (void)end; /* one unit */
  uint32_t a = rdn_scalar_bits(m, i->s.a, i->type_dst);
  uint32_t b = rdn_scalar_bits(m, i->s.b, i->type_dst), r;
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
  return true;
}

const rdn_class rdn_class_S_OP = {.execute = compute};
