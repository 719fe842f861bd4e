/*
 * 256 lines of 64 bytes, one place for each line of GM.  A line is filled as a whole when it is first
 * touched and written back, the dirty bytes of it, when it is cleaned or when another line takes its
 * place; a line that is never cleaned is lost.  Kernels without findings give the same values with any
 * number of lines: whatever a line could hide is a finding of the checker (check/scalar_gm.c).
 */
#include "npu/machine/data_cache.h"

#include <string.h>

static void write_back(memory *m, data_line *l) {
  uint8_t *to = m->gm[l->tensor] + l->number * CACHE_LINE;
  for (uint32_t b = 0; b < CACHE_LINE && l->dirty >> b; b++)
    if (l->dirty >> b & 1) to[b] = l->bytes[b];
  l->dirty = 0;
}

static data_line *place(memory *m, uint32_t tensor, uint64_t number) {
  return &m->cache[(number + tensor * 37ull) % CACHE_LINES];
}

static data_line *line_of(memory *m, uint64_t addr) {
  uint32_t tensor = addr_tensor(addr);
  uint64_t number = addr_offset(addr) / CACHE_LINE, begin = number * CACHE_LINE;
  data_line *l = place(m, tensor, number);
  if (l->held && l->tensor == tensor && l->number == number) return l;
  if (l->held) write_back(m, l);
  l->held = true;
  l->tensor = tensor;
  l->number = number;
  uint64_t left = m->tensors[tensor].bytes - begin;
  memcpy(l->bytes, m->gm[tensor] + begin, left < CACHE_LINE ? left : CACHE_LINE);
  return l;
}

void rdn_cache_read(memory *m, uint64_t addr, void *to, uint32_t bytes) {
  memcpy(to, line_of(m, addr)->bytes + addr_offset(addr) % CACHE_LINE, bytes);
}

void rdn_cache_write(memory *m, uint64_t addr, const void *from, uint32_t bytes) {
  data_line *l = line_of(m, addr);
  uint32_t at = addr_offset(addr) % CACHE_LINE;
  memcpy(l->bytes + at, from, bytes);
  l->dirty |= ((1ull << bytes) - 1) << at;
}

void rdn_cache_clean(memory *m, uint64_t addr, bool whole) {
  for (uint32_t n = 0; n < CACHE_LINES; n++) {
    data_line *l = &m->cache[n];
    bool chosen = l->tensor == addr_tensor(addr) && l->number == addr_offset(addr) / CACHE_LINE;
    if (!l->held || !(whole || chosen)) continue;
    write_back(m, l);
    l->held = false;
  }
}
