/* Raw findings, before sites become text and cores are merged. */
#ifndef REDELTA_NPU_CHECK_FINDINGS_H
#define REDELTA_NPU_CHECK_FINDINGS_H

#include "npu/machine/isa.h"

typedef struct raw_access {
  uint8_t pipe, op, buffer;
  uint32_t site, tensor;
  uint64_t begin, end;
} raw_access;

#define RAW_PAIRS 4
typedef struct raw_finding {
  uint8_t kind;
  uint64_t count;
  raw_access first, second;            /* second.op = OP_COUNT: none */
  char why[200];                       /* empty: made from the accesses */
  uint32_t pairs;                      /* representative pairs for the witnesses */
  uint32_t a[RAW_PAIRS], b[RAW_PAIRS]; /* positions in the program */
  uint32_t last_a, last_b;
  bool continuation; /* found behind a value read in doubt */
  uint8_t witness;   /* rd_npu_witness_state */
  uint32_t witness_tensor;
  uint64_t witness_index;
  uint32_t witness_site; /* of the value read that differs; 0: an output does */
  double expected, got;
} raw_finding;

typedef struct finding_list {
  raw_finding *list;
  uint32_t count, capacity;
  uint32_t *hash;
  uint32_t hash_size;
  bool out_of_memory;
} finding_list;

/* The finding with the same kind and sites (created when new); NULL without memory. */
raw_finding *rdn_finding_add(finding_list *f, rd_npu_finding_kind kind, const raw_access *first,
                             const raw_access *second, const char *why);
void rdn_finding_free(finding_list *f);

#endif
