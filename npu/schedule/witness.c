/*
 * Value witnesses: for a race of a and b, a before b in reference order, run what b needs, then b,
 * then everything else in reference order - and once more with a half done when b starts.
 * Both orders are possible on the machine: b waits for nothing else, and a pipe may hold a back
 * while its other place in flight serves the operations after it.  Where the compiler makes S wait for a
 * before it issues b, no run reverses the two, though no event says so: such a pair has no witness.
 */
#include "npu/schedule/witness.h"
#include "npu/check/clocks.h"
#include "npu/isa/instruction.h"
#include "npu/schedule/scheduler.h"

#include <stdlib.h>
#include <string.h>

typedef struct order {
  const program *p;
  uint32_t *ran, count; /* positions in reference order */
  uint32_t a, b;        /* b runs early */
  vclock *clock;        /* by position */
  bool compiler;        /* S waits for what it depends on directly */
  uint8_t *first;       /* by position: runs before b */
  uint8_t *needed_by_a;
} order;

/* One pass over the program tells its order and the clocks. */
static void collect(void *user, const insn *i, uint32_t position, const vclock *now) {
  order *o = user;
  (void)i;
  o->ran[o->count++] = position;
  o->clock[position] = *now;
}

static uint32_t rank_of(const order *o, uint32_t position) {
  uint32_t n = 0;
  while (n < o->count && o->ran[n] != position) n++;
  return n;
}

static bool build(order *o, uint32_t a, uint32_t b) {
  rdn_clocks k;
  o->a = a, o->b = b, o->count = 0;
  memset(o->clock, 0, o->p->count * sizeof *o->clock); /* what never runs has none */
  rdn_clocks_init(&k, collect, o);
  for (uint32_t n = 0; n < o->p->count; n++) rdn_clocks_issue(&k, &o->p->list[n], n);
  bool ok = !rdn_clocks_failed(&k);
  rdn_clocks_free(&k);
  if (rank_of(o, a) > rank_of(o, b)) { /* b was issued later and runs earlier: hold it back */
    o->a = b, o->b = a;
  }
  return ok;
}

static bool requires(const order *o, uint32_t at, uint32_t n) {
  const insn *b = &o->p->list[at], *i = &o->p->list[n];
  bool earlier = n < at && (i->pipe == b->pipe || i->pipe == RD_NPU_PIPE_S);
  return n != at && (i->index <= o->clock[at].at[i->pipe] || earlier);
}

/* Marks what must have finished before instruction `at` starts: its clock, its own queue's earlier
 * operations (except `but`) and whatever S did before issuing it; what S waited for then is in the
 * clock. */
static void predecessors(const order *o, uint32_t at, uint32_t but, uint8_t *mark) {
  for (uint32_t n = 0; n < o->p->count; n++)
    if (n != but && requires(o, at, n)) mark[n] = 1;
}

/* What x, for which S waits, needs.  false: `but` itself, which must not come first. */
static bool await(const order *o, uint32_t x, uint32_t but, uint8_t *mark) {
  if (x == but || o->p->list[but].index <= o->clock[x].at[o->p->list[but].pipe]) return false;
  mark[x] = 1;
  predecessors(o, x, but, mark);
  return true;
}

/* Adds what S has to wait for in the marked accesses of its own, and in `at`.  false: for `but`. */
static bool compiler_waits(const order *o, uint32_t at, uint32_t but, uint8_t *mark) {
  for (bool grown = o->compiler; grown;) {
    grown = false;
    for (uint32_t s = 0; s < o->p->count; s++) {
      const insn *i = &o->p->list[s];
      if (!mark[s] && s != at) continue;
      if (i->pipe != RD_NPU_PIPE_S || !(rdn_ops[i->op].traits & S_MEMORY)) continue;
      for (uint32_t x = 0; x < s; x++) {
        if (mark[x] || !rdn_scalar_pair(RD_NPU_PIPE_S, o->p->list[x].pipe)) continue;
        if (o->p->list[x].pipe == RD_NPU_PIPE_S || !rdn_meet_in_ub(&o->p->list[x], i)) continue;
        if (!await(o, x, but, mark)) return false;
        grown = true;
      }
    }
  }
  return true;
}

/* false: what must come before `at` includes `but`, in every run. */
static bool all_before(const order *o, uint32_t at, uint32_t but, uint8_t *mark) {
  memset(mark, 0, o->p->count + 1);
  predecessors(o, at, but, mark);
  return compiler_waits(o, at, but, mark);
}

/* Ends with a value read that differs: behind it the program would be another. */
static void run_order(const order *o, memory *m, bool half) {
  const insn *list = o->p->list, *a = &list[o->a];
  uint32_t units = rdn_units(a), cut = (units + 1) / 2;
  for (uint32_t k = 0; k < o->count && !m->differs.found; k++) {
    uint32_t n = o->ran[k];
    if (o->first[n] || (half && o->needed_by_a[n])) rdn_execute_all(m, &list[n]);
  }
  if (half) rdn_execute(m, a, 0, cut);
  rdn_execute_all(m, &list[o->b]);
  for (uint32_t k = 0; k < o->count && !m->differs.found; k++) {
    uint32_t n = o->ran[k];
    if (n == o->b || o->first[n] || (half && o->needed_by_a[n])) continue;
    if (half && n == o->a)
      rdn_execute(m, a, cut, units);
    else
      rdn_execute_all(m, &list[n]);
  }
}

static void note_difference(raw_finding *f, const gm_image *expected, const gm_image *got,
                            const divergence *d) {
  uint32_t tensor;
  uint64_t byte;
  if (d->found) {
    f->witness = RD_NPU_WITNESS_DIFFERS;
    f->witness_site = d->site;
    f->expected = rdn_differs_number(d, d->expected);
    f->got = rdn_differs_number(d, d->got);
    return;
  }
  if (!rdn_image_differs(expected, got, &tensor, &byte)) return;
  const rd_npu_tensor *t = &expected->launch->tensors[tensor];
  f->witness = RD_NPU_WITNESS_DIFFERS;
  f->witness_tensor = tensor;
  f->witness_index = t->elem_bytes ? byte / t->elem_bytes : byte;
  f->expected = rdn_element(t, expected->data[tensor], f->witness_index);
  f->got = rdn_element(t, got->data[tensor], f->witness_index);
}

static bool try_pair(order *o, const gm_image *before, const gm_image *expected, gm_image *got,
                     memory *m, raw_finding *f, uint32_t pair) {
  if (!build(o, f->a[pair], f->b[pair])) return false;
  if (!all_before(o, o->b, o->a, o->first)) return true;
  bool overlap = all_before(o, o->a, o->b, o->needed_by_a);
  for (int half = 0; half < 1 + overlap && f->witness == RD_NPU_WITNESS_SAME; half++) {
    if (!rdn_image_copy(got, before)) return false;
    rdn_memory_poison(m);
    rdn_image_bind(got, m);
    run_order(o, m, half);
    note_difference(f, expected, got, &m->differs);
  }
  return true;
}

bool rdn_witness(const program *p, const rd_npu_launch *l, rdn_rules rules, const gm_image *before,
                 raw_finding *f) {
  gm_image expected = {0}, got = {0};
  memory m;
  order o = {.p = p,
             .compiler = rules.scalar_sync,
             .clock = calloc(p->count + 1, sizeof *o.clock),
             .ran = calloc(p->count + 1, sizeof *o.ran),
             .first = calloc(p->count + 1, 1),
             .needed_by_a = calloc(p->count + 1, 1)};
  bool ok = rdn_memory_init(&m, l) && rdn_memory_regs(&m, p->regs) &&
            rdn_image_copy(&expected, before) && o.ran && o.clock && o.first && o.needed_by_a;
  if (ok) {
    rdn_image_bind(&expected, &m);
    ok = rdn_replay_plain(p, &m);
    f->witness = RD_NPU_WITNESS_SAME;
  }
  for (uint32_t n = 0; ok && n < f->pairs && f->witness == RD_NPU_WITNESS_SAME; n++)
    ok = try_pair(&o, before, &expected, &got, &m, f, n);
  free(o.ran);
  free(o.clock);
  free(o.first);
  free(o.needed_by_a);
  rdn_image_free(&expected);
  rdn_image_free(&got);
  rdn_memory_free(&m);
  return ok;
}
