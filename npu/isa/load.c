/* L1 -> L0A, L0B: fractals of 512 bytes, transposed on the way if asked. */
#include "npu/isa/class.h"

#include <string.h>

static unsigned operands(const insn *i, operand *o) {
  uint64_t n = i->load.repeat;
  o[0] = rdn_ranges(rdn_ops[i->op].from, i->load.src + 512 * (uint64_t)i->load.start, READ, n,
                    512 * (uint64_t)i->load.stride, 512);
  o[1] =
      rdn_ranges(rdn_ops[i->op].to, i->load.dst, WRITE, n, 512 * (1 + (uint64_t)i->load.gap), 512);
  return 2;
}

static uint32_t fractals(const insn *i) { return i->load.repeat; }

static bool limits(const insn *i, char *why, size_t size) {
  if (i->load.repeat > 255 || i->load.stride > 65535 || i->load.gap > 65535)
    return rdn_fail(why, size, "repeat above 255 or stride above 65535");
  return true;
}

static bool execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
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
  return true;
}

static uint64_t cost(const insn *i) { return 32 + 2 * (uint64_t)fractals(i); }

static int64_t source_byte(const insn *i, uint64_t b) {
  uint64_t e = b / 2;
  return (int64_t)(i->load.transpose ? (e % 16 * 16 + e / 16) * 2 + b % 2 : b);
}

const rdn_class rdn_class_LOAD = {.operands = operands,
                                  .units = fractals,
                                  .limits = limits,
                                  .execute = execute,
                                  .cost = cost,
                                  .source_byte = source_byte,
                                  .copies = true};
