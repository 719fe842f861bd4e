/* Values that differ from the recording's: of a value read, in words and as numbers; of an output, who
 * wrote it. */
#include "npu/isa/instruction.h"
#include "npu/machine/float16.h"
#include "npu/schedule/scheduler.h"

#include <stdio.h>

double rdn_differs_number(const divergence *d, uint64_t bits) {
  switch (d->type) {
  case RD_NPU_F16:
    return (double)f16_to_float((uint16_t)bits);
  case RD_NPU_BF16:
    return (double)bf16_to_float((uint16_t)bits);
  case RD_NPU_F32:
    return (double)float_from((uint32_t)bits);
  case RD_NPU_S16:
    return (int16_t)bits;
  case RD_NPU_S32:
    return (int32_t)bits;
  case RD_NPU_S64:
    return (double)(int64_t)bits;
  default:
    return (double)bits;
  }
}

void rdn_differs_text(const divergence *d, const program *p, char *out, size_t size) {
  char where[120];
  rdn_site_text(p, d->site, where, sizeof where);
  snprintf(out, size, "S would read %.9g instead of %.9g at %s", rdn_differs_number(d, d->got),
           rdn_differs_number(d, d->expected), where);
}

static bool writes(const insn *i, uint32_t tensor, uint64_t byte) {
  operand o[MAX_OPERANDS];
  unsigned count = rdn_operands(i, o);
  for (unsigned n = 0; n < count; n++) {
    if (!(o[n].access & WRITE) || o[n].buffer != RD_NPU_GM || o[n].tensor != tensor) continue;
    for (uint64_t u = 0; u < o[n].units; u++) {
      uint64_t begin = o[n].base + u * o[n].stride;
      if (byte >= begin && byte < begin + o[n].bytes) return true;
    }
  }
  return false;
}

size_t rdn_last_writer(const program *p, uint32_t tensor, uint64_t byte) {
  for (size_t n = p->count; n-- > 0;)
    if (writes(&p->list[n], tensor, byte)) return n;
  return p->count;
}

raw_access rdn_access_at(const program *p, size_t at) {
  if (at >= p->count) return (raw_access){.op = OP_pipe_barrier};
  const insn *i = &p->list[at];
  return (raw_access){.pipe = i->pipe, .op = i->op, .site = i->site};
}
