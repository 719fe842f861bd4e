/* P8, the misuse table: one wrong argument at a time on an otherwise valid call; the exact status,
 * a message that names the parameter, and every output byte as before. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef MISUSE_H
#define MISUSE_H

#include "kit/kit.h"

/* Everything a core verb can take, valid for B = 3 sequences of T = 5 tokens. */
typedef struct fix {
  rd_context *cx;
  rd_problem p; /* of the plan */
  rd_plan *plan;
  data *d;
  call *c;
  rd_sequences seq;
  rd_activations act;
  pool *pl, *other;
  rd_slots state, write, snap;
  recs *rec, *next;
  rd_tensor accepted;
  blk *acc;
  /* what the call is given; a mutation may null or replace them */
  rd_context *a_cx;
  const rd_plan *a_plan;
  const rd_sequences *a_seq;
  const rd_activations *a_act;
  rd_slots *a_state, *a_write, *a_snap;
  rd_records *a_rec, *a_next;
  rd_tensor *a_acc;
} fix;

enum { FB = 3, FT = 5, FC = 7, FSLOTS = 8, FSNAP = 20 };

typedef struct mistake {
  const char *name;
  void (*make)(fix *f);
  rd_status want;
  const char
      *names; /* words of the message, separated by '|': one of them must be there; NULL: any */
} mistake;

enum { F_LOG = 0, F_RAW = 1, F_NONE = 2, F_PACKED = 4, F_LENGTHS = 8 };
fix *fix_make(int flavour);
void fix_plan(fix *f); /* (again) from f->p */

/* Runs every mistake on a fresh fixture, after `prepare` (may be NULL); `verb` makes the call. */
void misuse(const mistake *m, size_t n, int flavour, void (*prepare)(fix *f),
            rd_status (*verb)(fix *f), const char *what);
/* The word stands in the text, not inside a longer word. */
bool names_word(const char *text, const char *word);
bool names_one_of(const char *text, const char *words);

/* For the other tables: blocks whose bytes must not change. */
typedef struct watch {
  const blk *b[16];
  void *copy[16];
  int n;
} watch;
void watch_add(watch *w, const blk *b);
void watch_check(const watch *w, const char *what);
void refused(const char *what, rd_context *cx, rd_status got, rd_status want, const char *names);

/* The tables of the operators. A fixture of theirs begins with this; op_fix_make makes it. */
typedef struct op_fix {
  rd_context *cx; /* what the call is given */
  bool no_params;
  watch w;
} op_fix;
void *op_fix_make(size_t bytes);

typedef struct op_slip { /* as mistake */
  const char *name;
  void (*make)(void *fixture);
  rd_status want;
  const char *names;
} op_slip;
void op_no_ctx(void *fixture);
void op_no_params(void *fixture);
/* The function of a slip on `v`. */
#define OP_SLIP(type, fn, ...)                                                                     \
  static void fn(void *fixture) {                                                                  \
    type *v = fixture;                                                                             \
    __VA_ARGS__;                                                                                   \
  }
#define ABSENT(t) memset(&(t), 0, sizeof(rd_tensor))

/* Runs every slip, and at last the valid call, on a fixture that `make` makes. */
void misuse_op(const char *what, const op_slip *s, size_t n, void *(*make)(void),
               rd_status (*call_it)(void *fixture));

#endif
