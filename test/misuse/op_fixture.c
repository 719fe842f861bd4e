/* The misuse tables of the named operators. SPDX-License-Identifier: Apache-2.0 */
#include "op_fixture.h"

#include <stdio.h>

void *op_fix_make(size_t bytes) {
  op_fix *f = mem_heap(bytes);
  f->cx = cx_get(0, 2, EX_POOL);
  return f;
}

tb op_zeros(rd_dtype t, int rank, const int64_t *shape) {
  tb r = tb_make(t, rank, shape, NULL);
  memset(r.b->p, 0, r.b->bytes);
  return r;
}

rd_tensor op_input(rd_dtype t, int rank, const int64_t *shape) {
  return op_zeros(t, rank, shape).t;
}

rd_tensor op_watched(op_fix *f, rd_dtype t, int rank, const int64_t *shape) {
  tb r = tb_make(t, rank, shape, NULL);
  watch_add(&f->w, r.b);
  return r.t;
}

rd_tensor op_ints(op_fix *f, int64_t n, const int32_t *x) {
  tb t = tb_i32(n, x);
  mem_writable(t.b);
  f->ints = t.t.data;
  return t.t;
}

void misuse_op(const char *what, void (*table)(void *fixture, slips *s), void *(*make)(void),
               rd_status (*call_it)(void *fixture)) {
  bool valid = false;
  for (int turn = 0; !valid; turn++) {
    size_t mark = mem_mark();
    op_fix *f = make();
    slips s = {.turn = turn};
    table(f, &s);
    valid = s.name == NULL;
    if (turn == 0 && valid) pt_fail("%s: an empty table", what);
    char name[160];
    snprintf(name, sizeof name, "%s: %s", what, valid ? "the valid call" : s.name);
    for (int j = 0; j < f->w.n; j++) memcpy(f->w.copy[j], f->w.b[j]->p, f->w.b[j]->bytes);
    pt_note("%s", name);
    rd_status st = call_it(f);
    if (valid) {
      ck_status(name, f->cx, st, RD_OK);
    } else {
      refused(name, f->cx, st, s.want, s.names);
      watch_check(&f->w, name);
    }
    mem_release(mark);
  }
}
