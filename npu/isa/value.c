/*
 * Scalars as C values: a read gives the kernel a number that may steer it, a write stores one.
 *
 * The recording keeps the bytes that a read gave.  A replay that reads others would run another
 * program from there on, so it notes the difference and its owner stops.
 */
#include "npu/isa/class.h"
#include "npu/machine/data_cache.h"

#include <string.h>

static unsigned value_operands(const insn *i, operand *o) {
  unsigned access = rdn_ops[i->op].traits & VALUE ? READ | CONSUME : WRITE;
  o[0] = rdn_ranges(rdn_ops[i->op].from, i->s.addr, access | EXACT, 1, 0, i->s.bytes);
  o[0].align = (uint16_t)i->s.bytes;
  return 1;
}

static bool in_gm(const insn *i) { return rdn_ops[i->op].from == RD_NPU_GM; }

static bool value_limits(const insn *i, char *why, size_t size) {
  uint32_t n = i->s.bytes;
  if (n == 1 || n == 2 || n == 4 || n == 8) return true;
  return rdn_fail(why, size, "a scalar value of %u bytes, must be 1, 2, 4 or 8", n);
}

uint64_t rdn_value(memory *m, const insn *i) {
  uint64_t value = 0;
  if (in_gm(i))
    rdn_cache_read(m, i->s.addr, &value, i->s.bytes);
  else
    memcpy(&value, local(m, i->s.addr), i->s.bytes);
  return value;
}

static bool access_value(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  (void)begin, (void)end; /* one unit */
  if (!(rdn_ops[i->op].traits & VALUE)) {
    if (in_gm(i))
      rdn_cache_write(m, i->s.addr, &i->s.value, i->s.bytes);
    else
      memcpy(local(m, i->s.addr), &i->s.value, i->s.bytes);
    return true;
  }
  uint64_t got = rdn_value(m, i);
  if (got != i->s.value && !m->differs.found)
    m->differs = (divergence){.found = true,
                              .type = i->type_src,
                              .bytes = (uint8_t)i->s.bytes,
                              .site = i->site,
                              .expected = i->s.value,
                              .got = got};
  return true;
}

static uint64_t value_cost(const insn *i) {
  (void)i;
  return 4;
}

const rdn_class rdn_class_S_VALUE = {.operands = value_operands,
                                     .limits = value_limits,
                                     .execute = access_value,
                                     .cost = value_cost};

/* ---- the data cache; s.bytes: 0 for the whole of it */

static unsigned cache_operands(const insn *i, operand *o) {
  if (!i->s.bytes) return 0;
  o[0] =
      rdn_ranges(RD_NPU_GM, i->s.addr, EXACT, 1, 0, 1); /* an address; the checker knows the line */
  o[0].align = 1;
  return 1;
}

static bool clean(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  (void)begin, (void)end; /* one unit */
  rdn_cache_clean(m, i->s.addr, !i->s.bytes);
  return true;
}

const rdn_class rdn_class_S_CACHE = {
    .operands = cache_operands, .execute = clean, .cost = value_cost};
