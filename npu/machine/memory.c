/* The on-chip buffers and scalar registers of one core, and its view of GM. */
#include "npu/machine/memory.h"

#include <stdlib.h>
#include <string.h>

/* Every float of this pattern is a NaN, every integer −1: stale values never look plausible. */
#define POISON 0xFF

bool rdn_memory_init(memory *m, const rd_npu_launch *l) {
  memset(m, 0, sizeof *m);
  m->arch = l->arch;
  m->tensors = l->tensors;
  m->tensor_count = l->tensor_count;
  const rd_npu_arch_info *a = rd_npu_arch_get(l->arch);
  m->saturates = a->saturates;
  m->gm = calloc(l->tensor_count + 1, sizeof *m->gm);
  /* mad: A and one 16-column strip of B in f32; both come from buffers of 64 KiB */
  m->scratch = aligned_alloc(64, (size_t)(32768 + 4096 * 16 + 64) * sizeof(float));
  m->cache = calloc(CACHE_LINES, sizeof *m->cache);
  bool ok = m->gm && m->scratch && m->cache;
  for (unsigned b = 1; b < RD_NPU_BUFFERS; b++) {
    m->capacity[b] = a->capacity[b];
    m->buffer[b] = aligned_alloc(64, a->capacity[b]);
    ok = ok && m->buffer[b];
  }
  for (uint32_t t = 0; ok && t < l->tensor_count; t++) m->gm[t] = l->tensors[t].data;
  if (ok) rdn_memory_poison(m);
  return ok;
}

void rdn_memory_poison(memory *m) {
  m->differs.found = false;
  memset(m->cache, 0, CACHE_LINES * sizeof *m->cache);
  for (unsigned b = 1; b < RD_NPU_BUFFERS; b++) memset(m->buffer[b], POISON, m->capacity[b]);
}

bool rdn_memory_regs(memory *m, uint32_t count) {
  if (count <= m->reg_capacity) return true;
  uint32_t capacity = count + count / 2 + 64;
  uint32_t *reg = realloc(m->reg, capacity * sizeof *reg);
  if (!reg) return false;
  memset(reg + m->reg_capacity, POISON, (capacity - m->reg_capacity) * sizeof *reg);
  m->reg = reg;
  m->reg_capacity = capacity;
  return true;
}

void rdn_memory_free(memory *m) {
  for (unsigned b = 0; b < RD_NPU_BUFFERS; b++) free(m->buffer[b]);
  free(m->gm);
  free(m->reg);
  free(m->scratch);
  free(m->cache);
  memset(m, 0, sizeof *m);
}
