/* Units of mutation and the mutants made of them. */
#ifndef REDELTA_NPU_MUTATE_H
#define REDELTA_NPU_MUTATE_H

#include "npu/core/core.h"
#include "npu/schedule/image.h"

typedef enum mutation_op {
  DROP_EDGE, /* a class of sets and the waits they pair with, priming and draining included */
  DROP_SET,
  DROP_WAIT,
  WAIT_LATER,  /* after the next operation of the waiting pipe */
  SET_EARLIER, /* before the previous operation of the setting pipe */
  DROP_BARRIER,
  ALL_TO_PIPE /* pipe_barrier(ALL) orders one pipe only */
} mutation_op;

/* A static place of synchronisation, the same for every core and launch. */
typedef struct unit {
  char *where; /* site text */
  uint8_t op, src, dst;
  uint32_t edge;                   /* class of paired set and wait places (union-find) */
  uint8_t ids;                     /* bit set of event ids seen */
  bool moves_later, moves_earlier; /* some instance can move */
} unit;

typedef struct mutant {
  mutation_op op;
  uint32_t unit;  /* index of the unit, or of the class representative for DROP_EDGE */
  uint8_t pipe;   /* ALL_TO_PIPE */
  uint32_t depth; /* of the queues it gets through with */
  bool needed, undetected;
  char *reason;
} mutant;

typedef struct recorded {
  const rd_npu_launch *launch;
  rd_npu_core *cores;
  uint32_t count;
  uint32_t **unit_of; /* per core: unit index of each control instruction, UINT32_MAX elsewhere */
  gm_image before, expected;
} recorded;

struct rd_npu_mutation {
  unit *units;
  uint32_t unit_count, unit_capacity;
  mutant *mutants;
  uint32_t mutant_count, mutant_capacity;
  rd_npu_mutant *view; /* what callers read */
  char **view_text;
  uint64_t needed, redundant, undetected;
  char problem[512]; /* the unmutated kernel's first finding */
};

bool rdn_mutation_units(rd_npu_mutation *m, recorded *r);
bool rdn_mutation_mutants(rd_npu_mutation *m, const rd_npu_launch *l);
/* The program of one core as the mutant has it: `out` owns its list and borrows the sites. */
bool rdn_mutation_apply(const rd_npu_mutation *m, const mutant *x, const recorded *r, uint32_t core,
                        program *out);

/* Its events and barriers for rdn_implied, those that a dropped edge consists of included. */
bool rdn_mutation_control(const rd_npu_mutation *m, const mutant *x, const recorded *r,
                          uint32_t core, program *out);

#endif
