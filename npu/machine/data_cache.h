/* The data cache through which the scalar unit sees GM that its launch writes. */
#ifndef REDELTA_NPU_MACHINE_DATA_CACHE_H
#define REDELTA_NPU_MACHINE_DATA_CACHE_H

#include "npu/machine/memory.h"

/* An access lies within one line (its address is aligned to its size) and within its tensor. */
void rdn_cache_read(memory *m, uint64_t addr, void *to, uint32_t bytes);
void rdn_cache_write(memory *m, uint64_t addr, const void *from, uint32_t bytes);
/* Writes back what is dirty and forgets: the line that holds addr, or all. */
void rdn_cache_clean(memory *m, uint64_t addr, bool whole);

#endif
