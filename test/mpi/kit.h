/* test/mpi/kit.h - one problem whole, and its part of one rank. SPDX-License-Identifier: Apache-2.0
 *
 * Every rank makes the same whole problem from the seed, runs it alone with rd_prefill, and compares its
 * own part of the outcome. */
#ifndef TEST_MPI_KIT_H
#define TEST_MPI_KIT_H

#include "redelta/mpi.h"

enum { MOST_BATCH = 6, MOST_RANKS = 8, SLOTS = 9 };

typedef struct shape {
  rd_problem p; /* layout: of the ranks' parts */
  int64_t B, lengths[MOST_BATCH];
  int64_t counts[MOST_RANKS][MOST_BATCH];
  int32_t slots[MOST_BATCH]; /* pad_slot: a pad row */
  int pools;                 /* 0: none; 1: everywhere; 2: only where they are needed */
  int separate;              /* final is another pool than initial */
  int slow;                  /* gates near 1: the past matters */
} shape;

/* Tensors of a whole problem or of a part. */
typedef struct part {
  rd_sequences seq;
  rd_activations act;
  rd_slots initial, final;
  int64_t starts[MOST_BATCH + 1];
  int32_t lengths[MOST_BATCH], cu[MOST_BATCH + 1];
  void *blocks[16];
  int count;
} part;

uint64_t draw(void); /* the same on all ranks */
int64_t draw_below(int64_t n);
void draw_from(uint64_t seed);

/* Splits every sequence at random places that are multiples of `grain`; often leaves ranks empty. */
void split(shape *s, int ranks, int64_t grain);

void make_whole(const shape *s, part *whole);
void make_part(const shape *s, const part *whole, int rank, part *mine);
void free_part(part *p);

/* What differs between the part and the whole after both have run; NULL: nothing. */
const char *compare(const shape *s, const part *whole, const part *mine, int rank, int ranks);

/* A copy of every byte that a call may write, and whether it is still so. */
void *remember(const shape *s, const part *mine);
int untouched(const shape *s, const part *mine, void *memory); /* frees memory */

extern int failures, passes;
void verdict(MPI_Comm comm, int good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

rd_context *make_context(const rd_context_options *options);

#endif
