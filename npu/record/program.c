/* The recorded instruction list of one core and its sites. */
#include "npu/record/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rdn_program_free(program *p) {
  free(p->list);
  free(p->sites);
  free(p->site_hash);
  memset(p, 0, sizeof *p);
}

bool rdn_program_add(program *p, const insn *i) {
  if (p->count == p->capacity) {
    size_t capacity = p->capacity ? p->capacity * 2 : 1024;
    insn *list = realloc(p->list, capacity * sizeof *list);
    if (!list) return false;
    p->list = list;
    p->capacity = capacity;
  }
  p->list[p->count++] = *i;
  return true;
}

static uint32_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7FB5D329728EA185u;
  x ^= x >> 27;
  return (uint32_t)(x ^ x >> 32);
}

static uint32_t site_slot(const program *p, const char *file, int line, uint32_t caller) {
  uint32_t at = mix((uint64_t)(uintptr_t)file * 31 + (uint32_t)line * 0x9E3779B97F4A7C15u + caller);
  for (;; at++) {
    uint32_t slot = at & (p->site_hash_size - 1), id = p->site_hash[slot];
    if (!id) return slot;
    const site *s = &p->sites[id];
    if (s->line == line && s->caller == caller && (s->file == file || strcmp(s->file, file) == 0))
      return slot;
  }
}

static bool site_grow(program *p) {
  uint32_t capacity = p->site_capacity ? p->site_capacity * 2 : 256;
  site *sites = realloc(p->sites, capacity * sizeof *sites);
  if (sites) p->sites = sites;
  uint32_t *hash = calloc((size_t)capacity * 2, sizeof *hash);
  if (!sites || !hash) {
    free(hash);
    return false;
  }
  free(p->site_hash);
  p->site_hash = hash;
  p->site_hash_size = capacity * 2;
  p->site_capacity = capacity;
  if (!p->site_count) p->sites[p->site_count++] = (site){"?", 0, 0};
  for (uint32_t id = 1; id < p->site_count; id++)
    hash[site_slot(p, p->sites[id].file, p->sites[id].line, p->sites[id].caller)] = id;
  return true;
}

uint32_t rdn_program_site(program *p, const char *file, int line, uint32_t caller) {
  if (p->site_count + 1 >= p->site_capacity && !site_grow(p)) return 0;
  uint32_t slot = site_slot(p, file, line, caller);
  if (!p->site_hash[slot]) {
    p->sites[p->site_count] = (site){file, line, caller};
    p->site_hash[slot] = p->site_count++;
  }
  return p->site_hash[slot];
}

void rdn_site_text(const program *p, uint32_t id, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (int depth = 0; depth < 8 && id < p->site_count; depth++) {
    const site *s = &p->sites[id];
    const char *slash = strrchr(s->file, '/');
    int n = snprintf(out + used, size - used, "%s%s:%d", depth ? ", called from " : "",
                     slash ? slash + 1 : s->file, s->line);
    if (n < 0 || (size_t)n >= size - used) return;
    used += (size_t)n;
    id = s->caller;
    if (!id) return;
  }
}
