/* What an instruction touches, may do, does and costs: asked by issue, the checker, the scheduler and
 * the trace.  The answers are those of the instruction's class. */
#ifndef REDELTA_NPU_ISA_INSTRUCTION_H
#define REDELTA_NPU_ISA_INSTRUCTION_H

#include "npu/isa/operand.h"
#include "npu/machine/memory.h"

/* Sources before the destination; their number. */
unsigned rdn_operands(const insn *i, operand out[MAX_OPERANDS]);
/* false, and why the instruction is not allowed (buffers, capacity, alignment, limits, overlap).
 * slack: bytes behind a GM tensor that copies may read. */
bool rdn_validate(const rd_npu_launch *l, uint64_t slack, const insn *i, char *why, size_t size);
/* Nothing to do, by a burst length of 0 or a mask without lanes. */
bool rdn_empty(const insn *i);
/* The steps of an instruction are halves of these. */
uint32_t rdn_units(const insn *i);
/* Carries initialisation from its source to its destination instead of consuming it. */
bool rdn_moves(const insn *i);
/* Byte of a unit of a move's source that lands in byte b of its destination; -1: padding. */
int64_t rdn_source_byte(const insn *i, const operand *src, uint64_t b);
/* Units [begin, end) of an instruction; false when a value-dependent address is out of bounds. */
bool rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end);
static inline bool rdn_execute_all(memory *m, const insn *i) {
  return rdn_execute(m, i, 0, rdn_units(i));
}
/* What a value read gives now, its bytes zero-extended. */
uint64_t rdn_value(memory *m, const insn *i);
/* Of the cost model: cycles, and bytes that a copy or load moves. */
uint64_t rdn_cost(const insn *i);
uint64_t rdn_moved_bytes(const insn *i);

#endif
