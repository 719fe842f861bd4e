/* The recorded instruction list of one core and the places its instructions were issued at. */
#ifndef REDELTA_NPU_RECORD_PROGRAM_H
#define REDELTA_NPU_RECORD_PROGRAM_H

#include "npu/machine/insn.h"

typedef struct site {
  const char *file;
  int line;
  uint32_t caller;
} site;

typedef struct program {
  insn *list;
  size_t count, capacity;
  site *sites; /* [0] unused */
  uint32_t site_count, site_capacity;
  uint32_t *site_hash;
  uint32_t site_hash_size;
  uint32_t regs;
  uint32_t depth; /* how many instructions a queue had to hold; 0: not known to matter */
} program;

void rdn_program_free(program *p);
/* "file.c:12, called from file.c:80"; the file's last path component. */
void rdn_site_text(const program *p, uint32_t site, char *out, size_t size);
uint32_t rdn_program_site(program *p, const char *file, int line, uint32_t caller);
bool rdn_program_add(program *p, const insn *i);

#endif
