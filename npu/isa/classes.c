/* The table of classes, and the questions about an instruction that it answers. */
#include "npu/isa/class.h"

static const rdn_class *const classes[CLASS_COUNT] = {
#define X(name) [CLASS_##name] = &rdn_class_##name,
    RDN_CLASSES(X)
#undef X
};

const rdn_class *rdn_class_of(const insn *i) { return classes[rdn_ops[i->op].cls]; }

unsigned rdn_operands(const insn *i, operand o[MAX_OPERANDS]) {
  const rdn_class *k = rdn_class_of(i);
  return k->operands ? k->operands(i, o) : 0;
}

uint32_t rdn_units(const insn *i) {
  const rdn_class *k = rdn_class_of(i);
  return k->units ? k->units(i) : 1;
}

bool rdn_empty(const insn *i) {
  const rdn_class *k = rdn_class_of(i);
  return k->empty && k->empty(i);
}

bool rdn_moves(const insn *i) { return rdn_class_of(i)->copies && rdn_ops[i->op].to != RD_NPU_GM; }

int64_t rdn_source_byte(const insn *i, const operand *src, uint64_t b) {
  const rdn_class *k = rdn_class_of(i);
  if (k->source_byte) return k->source_byte(i, b);
  return b < src->bytes ? (int64_t)b : -1;
}

bool rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  const rdn_class *k = rdn_class_of(i);
  return begin >= end || !k->execute || k->execute(m, i, begin, end);
}

uint64_t rdn_cost(const insn *i) {
  const rdn_class *k = rdn_class_of(i);
  return k->cost ? k->cost(i) : 1;
}

uint64_t rdn_moved_bytes(const insn *i) {
  operand o[MAX_OPERANDS];
  if (!rdn_class_of(i)->copies) return 0;
  rdn_operands(i, o);
  uint64_t src = o[0].units * o[0].bytes, dst = o[1].units * o[1].bytes;
  return src < dst ? src : dst;
}

/* Flags and barriers touch no memory; what they do is the business of issue, checker and scheduler. */
const rdn_class rdn_class_FLAG = {0};
const rdn_class rdn_class_BARRIER = {0};
