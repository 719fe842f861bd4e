/* The on-chip buffers and scalar registers of one core, and its view of GM. */
#ifndef REDELTA_NPU_MACHINE_MEMORY_H
#define REDELTA_NPU_MACHINE_MEMORY_H

#include "npu/machine/machine.h"

/* A value read that did not give again what the recorded kernel was steered by. */
typedef struct divergence {
  bool found;
  uint8_t type, bytes;
  uint32_t site;
  uint64_t expected, got;
} divergence;

#define CACHE_LINES 256u
typedef struct data_line {
  bool held;
  uint32_t tensor;
  uint64_t number, dirty; /* a bit per byte */
  uint8_t bytes[CACHE_LINE];
} data_line;

typedef struct memory {
  uint8_t *buffer[RD_NPU_BUFFERS]; /* [RD_NPU_GM] unused */
  uint64_t capacity[RD_NPU_BUFFERS];
  const rd_npu_tensor *tensors;
  uint8_t **gm; /* data of each tensor: the caller's, or a private copy */
  uint32_t tensor_count;
  data_line *cache; /* of the scalar unit */
  uint32_t *reg;    /* scalar registers */
  uint32_t reg_capacity;
  float *scratch; /* operands of mad in f32 */
  rd_npu_arch arch;
  divergence differs; /* the first; execution behind it would be another program's */
  bool saturates;     /* of the architecture */
} memory;

bool rdn_memory_init(memory *m, const rd_npu_launch *l);
void rdn_memory_poison(memory *m);
bool rdn_memory_regs(memory *m, uint32_t count);
void rdn_memory_free(memory *m);

#endif
