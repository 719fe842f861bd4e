/*
 * The second checker: which pairs of instructions touch the same bytes with nothing to order them, and
 * which flags are misused.  Slow and obvious: a bitmap of bytes per instruction, a graph of starts and
 * ends, its transitive closure.  It shares no code with npu/ and was written from the documentation.
 */
#ifndef TEST_NPU_RANDOM_SECOND_H
#define TEST_NPU_RANDOM_SECOND_H

#include "kernel.h"

/* Bytes of all buffers in one row. */
enum {
  AT_IN = 0,
  AT_STATE = AT_IN + IN_BYTES,
  AT_DUMP = AT_STATE + STATE_BYTES,
  AT_L1 = AT_DUMP + DUMP_BYTES,
  AT_L0A = AT_L1 + L1_BYTES,
  AT_L0B = AT_L0A + L0A_BYTES,
  AT_L0C = AT_L0B + L0B_BYTES,
  AT_UB = AT_L0C + L0C_BYTES,
  BYTES = AT_UB + UB_BYTES
};
/* The bytes an instruction reads or writes; words [low, high) may be set. */
typedef struct bytes {
  uint64_t word[BYTES / 64];
  uint32_t low, high;
  bool outside; /* an address outside of the windows: the generator's mistake */
} bytes;
typedef struct touched {
  bytes read, write;
} touched;
void touch(const step *s, touched *t);

/* Mistakes that can be planted in this checker, to see the comparison notice. */
typedef enum defect {
  NO_DEFECT,
  OWN_READ_COVERS, /* the last reader of a pipe stands for all, even when it is the writer itself */
  PAIRED_WRONGLY,  /* a wait takes the newest set issued before it, not the k-th */
  BARRIER_MISSED,  /* pipe_barrier of one pipe orders nothing */
  ISSUE_ORDERS,    /* what S did before it issued something counts as done */
  VECTOR_IN_ORDER, /* on every architecture */
  TEN_FRACTALS,    /* the accumulate rule ends at nine results */
  SET_BEFORE_WORK, /* a set fires when the work before it has started */
  READS_DO_NOT_RACE,   /* WAR is overlooked */
  MASK_IGNORED,        /* vector instructions touch all lanes */
  OLD_VALUE_FORGOTTEN, /* instructions that update do not read their destination */
  LEFTOVERS_FORGIVEN,
  INSERTED_IS_EDGE, /* what the compiler inserts orders third parties too */
  DEFECTS
} defect;

typedef struct pair {
  uint8_t first, second; /* in program order */
  rd_npu_finding_kind kind;
  /* No run shows it: S makes its accesses, and stalls for what the compiler inserted, before it issues
   * what comes later. The rules do not count on that. */
  bool by_rule;
  /* On each of its bytes a later access stands for the first: it wrote there, or it reads there too,
   * in the same queue. A checker that keeps the last write and the readers since may leave it out. */
  bool implied;
} pair;

enum { MOST_PAIRS = 3 * MOST_STEPS * MOST_STEPS / 2 };
typedef struct verdict {
  pair pairs[MOST_PAIRS];
  uint32_t count;
  bool deadlock;
  bool stalls;          /* what the compiler inserts would wait for what is issued behind it */
  uint64_t double_sets; /* bit = step */
  uint64_t leftover_ops;
  uint32_t leftover_flags; /* channels */
  uint32_t notes;          /* k-th waits not ordered before the (k+1)-th set */
} verdict;

bool clean(const verdict *v);
void judge(const random_kernel *k, defect planted, verdict *v);
/* Is there a finding of this pair of instructions and kind? */
bool has_pair(const verdict *v, unsigned first, unsigned second, rd_npu_finding_kind kind);

#endif
