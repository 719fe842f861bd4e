/* What the scalar unit's data cache does to the order of GM accesses. */
#ifndef REDELTA_NPU_CHECK_SCALAR_GM_H
#define REDELTA_NPU_CHECK_SCALAR_GM_H

#include "npu/check/clocks.h"
#include "npu/check/shadow.h"

typedef struct cached_line {
  uint32_t tensor;
  uint64_t number;
  vclock filled;    /* what S knew to have finished when the line was filled */
  uint64_t dirty;   /* a bit per byte */
  raw_access store; /* the newest */
  uint32_t stored;  /* its index */
} cached_line;

typedef struct line_list { /* by tensor and number */
  cached_line *list;
  size_t count, capacity;
} line_list;

typedef struct scalar_gm {
  line_list held;
  line_list cleaned; /* lines that were dirty; stored and store are the cleaning's */
} scalar_gm;
void rdn_scalar_gm_free(scalar_gm *g);

/* One instruction as the checker sees it. */
typedef struct gm_step {
  const insn *i;
  const vclock *now;
  shadow *shadow;
  finding_list *found;
  const void *user;
  raw_access (*earlier)(const void *user, unsigned pipe, uint32_t index);
} gm_step;

/* An operand in a GM tensor that can be written, before its access is recorded.  false: no memory. */
bool rdn_scalar_gm_access(scalar_gm *g, const gm_step *s, const operand *o);
/* Cleaning: `write` is called for each run of dirty bytes, which go to memory now. */
bool rdn_scalar_gm_clean(scalar_gm *g, const gm_step *s,
                         void (*write)(void *user, uint32_t tensor, uint64_t begin, uint64_t end),
                         void *user);
/* At the kernel's end: lines that were never cleaned. */
bool rdn_scalar_gm_finish(const scalar_gm *g, finding_list *found);

#endif
