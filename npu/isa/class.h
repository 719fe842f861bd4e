/* A class of instructions: what npu/isa asks its files for.  Internal to npu/isa. */
#ifndef REDELTA_NPU_ISA_CLASS_H
#define REDELTA_NPU_ISA_CLASS_H

#include "npu/isa/instruction.h"

typedef struct rdn_class {
  /* What it touches, sources before the destination.  NULL: no memory. */
  unsigned (*operands)(const insn *i, operand o[MAX_OPERANDS]);
  /* How many pieces it is cut into.  NULL: one. */
  uint32_t (*units)(const insn *i);
  /* A count or mask that leaves nothing to do; what that means is the architecture's.  NULL: never. */
  bool (*empty)(const insn *i);
  /* Limits of the fields, asked before anything is computed from them.  NULL: none. */
  bool (*limits)(const insn *i, char *why, size_t size);
  /* Limits of the operands against each other, each being inside its buffer.  NULL: none. */
  bool (*relations)(const insn *i, const operand *o, unsigned count, char *why, size_t size);
  /* Units [begin, end), begin < end.  NULL: nothing (control). */
  bool (*execute)(memory *m, const insn *i, uint32_t begin, uint32_t end);
  /* Cycles under the cost model.  NULL: one. */
  uint64_t (*cost)(const insn *i);
  /* Of a move.  NULL: byte for byte, padding behind. */
  int64_t (*source_byte)(const insn *i, uint64_t b);
  bool copies; /* moves bytes between buffers; into a buffer, their initialisation with them */
} rdn_class;

#define X(name) extern const rdn_class rdn_class_##name;
RDN_CLASSES(X)
#undef X
const rdn_class *rdn_class_of(const insn *i);

/* Writes why and returns false. */
__attribute__((format(printf, 3, 4))) bool rdn_fail(char *why, size_t size, const char *format,
                                                    ...);
/* The relations of vector operands; `masked` must have an active lane (NULL: no mask). */
bool rdn_vector_relations(const insn *i, const operand *o, unsigned count, const operand *masked,
                          char *why, size_t size);
bool rdn_vector_limits(const insn *i, char *why, size_t size);
uint32_t rdn_vector_units(const insn *i);
bool rdn_vector_empty(const insn *i); /* no active lane */
bool rdn_burst_empty(const insn *i);

/* ---- for execution */

static inline uint8_t *local(const memory *m, uint64_t addr) {
  return m->buffer[addr_buffer(addr)] + addr_offset(addr);
}
/* Byte of a lane in one repeat of an operand with elements of `size`. */
static inline uint64_t lane_at(uint32_t lane, uint32_t size, uint32_t blk) {
  uint32_t per = GRANULE / size;
  return 32ull * (lane / per) * blk + (uint64_t)(lane % per) * size;
}
/* `count` mask bits from `lane` on. */
static inline uint64_t mask_bits(const insn *i, uint32_t lane, uint32_t count) {
  uint64_t word = lane < 64 ? i->v.lo >> lane : i->v.hi >> (lane - 64);
  return word & ((1ull << count) - 1);
}
/* The operand's bits in the instruction's type: immediates convert, registers hold the type asked. */
uint32_t rdn_scalar_bits(const memory *m, rd_npu_scalar s, uint8_t type);
/* n elements from f32 (or unchanged) to a type; from a 16-bit type to f32. */
void rdn_convert(const memory *m, uint8_t *dst, const uint8_t *src, uint8_t to, uint8_t from,
                 size_t n);
void rdn_widen(float *dst, const uint8_t *src, uint8_t type, size_t n);

#endif
