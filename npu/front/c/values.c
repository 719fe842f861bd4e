/* Scalars as C values, in UB and GM. */
#include "npu/core/core.h"
#include "npu/machine/float16.h"

#include <string.h>

/* GM that nothing in the launch writes gives every schedule the same bytes at once. */
static uint64_t get_input(rd_npu_core *c, insn *i) {
  uint64_t value = 0;
  rdn_issue(c, i);
  if (!i->index) return 0; /* refused */
  const rd_npu_tensor *t = &c->launch->tensors[addr_tensor(i->s.addr)];
  memcpy(&value, (const uint8_t *)t->data + addr_offset(i->s.addr), i->s.bytes);
  return value;
}

static uint64_t get_value(rd_npu_core *c, rd_npu_site s, uint8_t type, uint64_t src, uint32_t bytes,
                          bool from_gm) {
  uint32_t tensor = addr_tensor(src);
  bool written = addr_buffer(src) == RD_NPU_GM && tensor < c->launch->tensor_count &&
                 c->launch->tensors[tensor].mode != RD_NPU_IN;
  insn i = rdn_insn(c, !from_gm ? OP_get_value : written ? OP_get_value_gm : OP_load_gm, s);
  i.type_dst = i.type_src = type;
  i.s.addr = src, i.s.bytes = bytes;
  if (i.op == OP_load_gm) return get_input(c, &i);
  rdn_issue(c, &i);
  return i.s.value; /* 0 when it was refused */
}

static int64_t signed_value(uint64_t bits, uint32_t bytes) {
  return bytes == 8 ? (int64_t)bits : bytes == 4 ? (int32_t)bits : (int16_t)bits;
}

static float float_value(uint64_t bits, rd_npu_type type) {
  return type == RD_NPU_F32    ? float_from((uint32_t)bits)
         : type == RD_NPU_BF16 ? bf16_to_float((uint16_t)bits)
                               : f16_to_float((uint16_t)bits);
}

static bool in_gm(uint64_t addr) { return addr_buffer(addr) == RD_NPU_GM; }

uint64_t rd_npu_get_value(rd_npu_core *c, rd_npu_site s, uint64_t src, uint32_t bytes) {
  return get_value(c, s, RAW_BITS, src, bytes, in_gm(src));
}

int64_t rd_npu_get_value_int(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t src) {
  uint32_t bytes = type_size((uint8_t)type);
  return signed_value(get_value(c, s, (uint8_t)type, src, bytes, in_gm(src)), bytes);
}

float rd_npu_get_value_float(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t src) {
  uint32_t bytes = type_size((uint8_t)type);
  return float_value(get_value(c, s, (uint8_t)type, src, bytes, in_gm(src)), type);
}

int64_t rd_npu_load_gm_int(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t src_gm) {
  uint32_t bytes = type_size((uint8_t)type);
  return signed_value(get_value(c, s, (uint8_t)type, src_gm, bytes, true), bytes);
}

float rd_npu_load_gm_float(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t src_gm) {
  uint32_t bytes = type_size((uint8_t)type);
  return float_value(get_value(c, s, (uint8_t)type, src_gm, bytes, true), type);
}

void rd_npu_set_value(rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t bits, uint32_t bytes) {
  insn i = rdn_insn(c, in_gm(dst) ? OP_set_value_gm : OP_set_value, s);
  i.type_dst = i.type_src = RAW_BITS;
  i.s.addr = dst, i.s.bytes = bytes, i.s.value = bits;
  rdn_issue(c, &i);
}

void rd_npu_data_cache_clean_and_invalid(rd_npu_core *c, rd_npu_site s, uint64_t gm,
                                         rd_npu_cache_lines lines) {
  insn i = rdn_insn(c, OP_data_cache_clean_and_invalid, s);
  i.s.addr = gm, i.s.bytes = lines == RD_NPU_ENTIRE_DATA_CACHE ? 0 : 1;
  rdn_issue(c, &i);
}
