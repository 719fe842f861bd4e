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

/* A table is a function that names every slip once and makes the one whose turn it is:
 *   SLIP("q absent", RD_E_NULL, "q", ABSENT(f->act.q));
 * with the status, the words one of which the message must have (NULL: any), and the slip. */
typedef struct slips {
  int turn, at;
  const char *name; /* of the slip made; NULL: the turns are over */
  rd_status want;
  const char *names;
} slips;
bool slip_turn(slips *s, const char *name, rd_status want, const char *names);
#define SLIP(name, want, names, ...)                                                               \
  do {                                                                                             \
    if (slip_turn(s, name, want, names)) {                                                         \
      __VA_ARGS__;                                                                                 \
    }                                                                                              \
  } while (0)

enum { F_LOG = 0, F_RAW = 1, F_NONE = 2, F_PACKED = 4, F_LENGTHS = 8 };
fix *fix_make(int flavour);
void fix_plan(fix *f); /* (again) from f->p */

/* Makes every slip of the table on a fresh fixture, after `prepare` (may be NULL), and the valid call
 * before and after them; `verb` makes the call. */
void misuse(void (*table)(fix *f, slips *s), int flavour, void (*prepare)(fix *f),
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

#define UNTYPED(t) ((t).dtype = RD_ABSENT) /* a forgotten type is not an absent tensor */
#define ABSENT(t)  memset(&(t), 0, sizeof(rd_tensor))

#endif
