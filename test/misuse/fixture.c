/* The fixture of the misuse tables. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>

#include "misuse.h"

static tb ints(int64_t n, int32_t first, int32_t step) {
  tb t = tb_make(RD_I32, 1, &n, NULL);
  int32_t *x = (void *)t.b->p;
  for (int64_t i = 0; i < n; i++) x[i] = first + step * (int32_t)i;
  return t;
}

void fix_plan(fix *f) {
  rd_plan_destroy(f->plan);
  f->plan = NULL;
  CK_OK(f->cx, rd_plan_create(f->cx, &f->p, &f->plan));
  f->a_plan = f->plan;
}

static void fix_states(fix *f) {
  f->pl = pool_make(&f->p, FSLOTS, 4);
  f->other = pool_make(&f->p, FSNAP, 0);
  for (int i = 0; i < FSLOTS; i++) pool_put(f->pl, i, f->d->s[0].S0);
  f->state = f->write = f->snap = no_slots;
  f->state.pool = f->write.pool = f->pl->t.t;
  f->state.slots = ints(FB, 1, 2).t; /* 1 3 5 */
  f->write.slots = ints(FB, 2, 2).t; /* 2 4 6 */
  f->snap.pool = f->other->t.t;
  int64_t n = f->p.layout == RD_PACKED ? f->c->T : FB * f->c->T;
  f->snap.slots = ints(n, 0, 1).t;
  if (f->p.layout == RD_PADDED) {
    rd_tensor *s = &f->snap.slots;
    s->rank = 2;
    s->shape[0] = FB;
    s->shape[1] = s->stride[0] = f->c->T;
    s->stride[1] = 1;
  }
}

fix *fix_make(int flavour) {
  fix *f = mem_heap(sizeof *f);
  f->cx = cx_get(0, 2, EX_POOL);
  f->p = pb_default();
  f->p.K = 24;
  f->p.V = 16;
  if (flavour & F_RAW) f->p.gate = RD_GATE_LOWER_BOUND;
  if (flavour & F_NONE) f->p.gate = RD_GATE_NONE;
  if (flavour & F_PACKED) f->p.layout = RD_PACKED;
  int64_t len[FB] = {FT, FT, FT};
  if (flavour & (F_PACKED | F_LENGTHS)) len[1] = 3;
  f->d = data_make(&f->p, FB, len);
  callopt o = {.lens_absent = !(flavour & F_LENGTHS), .extra_T = flavour & F_LENGTHS ? 1 : 0};
  f->c = call_all(f->d, &o);
  f->p = f->c->p;
  fix_plan(f);
  f->seq = f->c->seq;
  f->act = f->c->act;
  if (f->c->lens.b) mem_writable(f->c->lens.b);
  fix_states(f);
  f->rec = recs_make(&f->p, FB, FC);
  f->next = recs_make(&f->p, FB, FC);
  tb acc = ints(FB, 1, 1); /* 1 2 3 */
  f->accepted = acc.t;
  f->acc = acc.b;
  f->a_cx = f->cx;
  f->a_seq = &f->seq;
  f->a_act = &f->act;
  f->a_state = &f->state;
  f->a_write = &f->write;
  f->a_snap = &f->snap;
  f->a_rec = &f->rec->r;
  f->a_next = &f->next->r;
  f->a_acc = &f->accepted;
  return f;
}

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool names_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *p = text; (p = strstr(p, word)) != NULL; p++)
    if ((p == text || !word_char(p[-1])) && !word_char(p[n])) return true;
  return false;
}

bool names_one_of(const char *text, const char *words) {
  char one[64];
  while (*words) {
    size_t n = strcspn(words, "|");
    snprintf(one, sizeof one, "%.*s", (int)n, words);
    if (names_word(text, one)) return true;
    words += n + (words[n] == '|');
  }
  return false;
}

void refused(const char *what, rd_context *cx, rd_status got, rd_status want, const char *names) {
  pt_note("%s", what);
  if (!ck_status(what, cx, got, want) || !cx || !names) return;
  const char *text = rd_last_error(cx);
  if (!names_one_of(text, names))
    pt_fail("%s: the message names none of %s: \"%s\"", what, names, text);
}

void watch_add(watch *w, const blk *b) {
  if (!b || w->n == (int)PT_LEN(w->b)) return;
  w->b[w->n] = b;
  w->copy[w->n++] = blk_copy(b);
}

void watch_check(const watch *w, const char *what) {
  for (int i = 0; i < w->n; i++) ck_bytes(what, w->b[i]->p, w->copy[i], w->b[i]->bytes);
}

bool slip_turn(slips *s, const char *name, rd_status want, const char *names) {
  if (s->at++ != s->turn) return false;
  s->name = name;
  s->want = want;
  s->names = names;
  return true;
}

static bool run_one(void (*table)(fix *f, slips *s), int turn, int flavour, void (*prepare)(fix *f),
                    rd_status (*verb)(fix *f), const char *what) {
  size_t mark = mem_mark();
  fix *f = fix_make(flavour);
  if (prepare) prepare(f);
  slips s = {.turn = turn};
  if (table) table(f, &s);
  watch w = {.n = 0};
  watch_add(&w, f->c->out.b);
  watch_add(&w, f->pl->t.b);
  watch_add(&w, f->other->t.b);
  recs *r[2] = {f->rec, f->next};
  rd_records kept[2];
  for (int i = 0; i < 2; i++) {
    watch_add(&w, r[i]->u.b);
    watch_add(&w, r[i]->k.b);
    watch_add(&w, r[i]->decay.b);
    watch_add(&w, r[i]->lengths);
    kept[i] = r[i]->r;
  }
  char name[160];
  snprintf(name, sizeof name, "%s: %s", what, s.name ? s.name : "the valid call");
  pt_note("%s", name);
  rd_status st = verb(f);
  if (s.name) {
    refused(name, f->a_cx, st, s.want, s.names);
    watch_check(&w, name);
    for (int i = 0; i < 2; i++)
      if (memcmp(&kept[i].made, &r[i]->r.made, sizeof kept[i].made))
        pt_fail("%s: record header changed", name);
  } else {
    ck_status(name, f->cx, st, RD_OK);
  }
  rd_plan_destroy(f->plan);
  mem_release(mark);
  return s.name != NULL;
}

void misuse(void (*table)(fix *f, slips *s), int flavour, void (*prepare)(fix *f),
            rd_status (*verb)(fix *f), const char *what) {
  int turn = 0;
  run_one(NULL, 0, flavour, prepare, verb, what);
  while (run_one(table, turn, flavour, prepare, verb, what)) turn++;
  if (turn == 0) pt_fail("%s: an empty table", what);
}
