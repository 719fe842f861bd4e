/*
 * Value witnesses: for a race "a before b in program order, unordered", run what b needs, then b,
 * then everything else in program order - and once more with a half done when b starts.
 * Both orders are possible on the machine: b waits for nothing else, and a pipe may hold a back
 * while its other place in flight serves the operations after it.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

typedef struct order {
  const program *p;
  uint8_t *first; /* runs before b */
  uint8_t *needed_by_a;
} order;

/* Marks what must have finished before instruction `at` starts: its clock, its own queue's earlier
 * operations (except `but`) and whatever S did before issuing it. */
static bool predecessors(const program *p, const rd_npu_launch *l, uint32_t at, uint32_t but,
                         uint8_t *mark) {
  checker *k = rdn_checker_new(l);
  finding_list ignored = {0};
  if (!k) return false;
  for (uint32_t n = 0; n <= at; n++) rdn_checker_step(k, &p->list[n], n, &ignored);
  vclock c = *rdn_checker_clock(k);
  bool ok = !rdn_checker_failed(k);
  rdn_checker_free(k);
  rdn_finding_free(&ignored);
  const insn *b = &p->list[at];
  for (uint32_t n = 0; n < at; n++) {
    const insn *i = &p->list[n];
    if (n == but) continue;
    if (i->index <= c.at[i->pipe] || i->pipe == b->pipe || i->pipe == RD_NPU_PIPE_S) mark[n] = 1;
  }
  return ok;
}

/* What S did before issuing an instruction includes waiting: those clocks are in the clock already.
 */
static void run_order(const order *o, memory *m, uint32_t a, uint32_t b, bool half) {
  const program *p = o->p;
  uint32_t units = rdn_units(&p->list[a]), cut = (units + 1) / 2;
  for (uint32_t n = 0; n < b; n++)
    if (o->first[n] || (half && o->needed_by_a[n])) rdn_execute_all(m, &p->list[n]);
  if (half) rdn_execute(m, &p->list[a], 0, cut);
  rdn_execute_all(m, &p->list[b]);
  for (uint32_t n = 0; n < p->count; n++) {
    if (n == b || (n < b && (o->first[n] || (half && o->needed_by_a[n])))) continue;
    if (half && n == a)
      rdn_execute(m, &p->list[a], cut, units);
    else
      rdn_execute_all(m, &p->list[n]);
  }
}

static void note_difference(raw_finding *f, const gm_image *expected, const gm_image *got) {
  uint32_t tensor;
  uint64_t byte;
  if (!rdn_image_differs(expected, got, &tensor, &byte)) return;
  const rd_npu_tensor *t = &expected->launch->tensors[tensor];
  f->witness = RD_NPU_WITNESS_DIFFERS;
  f->witness_tensor = tensor;
  f->witness_index = t->elem_bytes ? byte / t->elem_bytes : byte;
  f->expected = rdn_element(t, expected->data[tensor], f->witness_index);
  f->got = rdn_element(t, got->data[tensor], f->witness_index);
}

bool rdn_witness(const program *p, const rd_npu_launch *l, const gm_image *before, raw_finding *f) {
  gm_image expected = {0}, got = {0};
  memory m;
  bool ok =
      rdn_memory_init(&m, l) && rdn_memory_regs(&m, p->regs) && rdn_image_copy(&expected, before);
  uint8_t *first = calloc(p->count + 1, 1), *needed = calloc(p->count + 1, 1);
  ok = ok && first && needed;
  if (ok) {
    rdn_image_bind(&expected, &m);
    rdn_replay_plain(p, &m);
    f->witness = RD_NPU_WITNESS_SAME;
  }
  for (uint32_t n = 0; ok && n < f->pairs && f->witness == RD_NPU_WITNESS_SAME; n++) {
    uint32_t a = f->a[n], b = f->b[n];
    memset(first, 0, p->count + 1);
    memset(needed, 0, p->count + 1);
    ok = predecessors(p, l, b, a, first) && predecessors(p, l, a, a, needed);
    order o = {p, first, needed};
    for (int half = 0; ok && half < 2 && f->witness == RD_NPU_WITNESS_SAME; half++) {
      ok = rdn_image_copy(&got, before);
      if (!ok) break;
      rdn_memory_poison(&m);
      rdn_image_bind(&got, &m);
      run_order(&o, &m, a, b, half);
      note_difference(f, &expected, &got);
    }
  }
  free(first);
  free(needed);
  rdn_image_free(&expected);
  rdn_image_free(&got);
  rdn_memory_free(&m);
  return ok;
}
