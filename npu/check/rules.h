/* What of the rules a caller may choose. */
#ifndef REDELTA_NPU_CHECK_RULES_H
#define REDELTA_NPU_CHECK_RULES_H

#include "npu/isa/instruction.h"
#include "npu/machine/arch.h"

typedef struct rdn_rules {
  bool binary_flags;    /* a set of a set flag is lost */
  bool scalar_sync;     /* the compiler orders S with V, MTE2 and MTE3 on the same UB bytes */
  bool vector_in_order; /* V after V on the same bytes is ordered */
  bool
      vector_inserted; /* ... by what a compiler inserts, not by the hardware: on other bytes it is not */
} rdn_rules;

static inline rdn_rules rdn_rules_of(const rd_npu_launch *l, const rd_npu_options *o) {
  rd_npu_auto_sync sync = o ? o->auto_sync : RD_NPU_AUTO_SYNC_NONE;
  bool hardware = rd_npu_arch_get(l->arch)->vector_in_order;
  return (rdn_rules){.binary_flags = o && o->flags == RD_NPU_FLAGS_BINARY,
                     .scalar_sync = sync != RD_NPU_AUTO_SYNC_NONE,
                     .vector_in_order = hardware || sync == RD_NPU_AUTO_SYNC_ALL,
                     .vector_inserted = !hardware && sync == RD_NPU_AUTO_SYNC_ALL};
}

/* Does scalar_sync order accesses of these two pipes? */
static inline bool rdn_scalar_pair(unsigned a, unsigned b) {
  unsigned other = a == RD_NPU_PIPE_S ? b : a;
  return (a == RD_NPU_PIPE_S || b == RD_NPU_PIPE_S) &&
         (other == RD_NPU_PIPE_V || other == RD_NPU_PIPE_MTE2 || other == RD_NPU_PIPE_MTE3);
}

/* Do two instructions touch the same byte of UB, one of them writing?  That is what scalar_sync looks at. */
bool rdn_meet_in_ub(const insn *a, const insn *b);

#endif
