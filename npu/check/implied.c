/*
 * With a channel dropped (options.without): at which of its places do other edges imply the order
 * it would have given?  The control instructions of a core, dropped ones included, are walked once
 * more with clocks that remember how each entry arrived.
 */
#include "npu/check/implied.h"
#include "npu/check/order.h"
#include "npu/record/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct path_clock {
  uint32_t at[PIPES];
  uint64_t path[PIPES]; /* pipes the order came through, oldest in the lowest 4 bits, each plus 1 */
} path_clock;

static uint64_t extend(uint64_t path, unsigned pipe) {
  uint64_t p = path;
  unsigned shift = 0;
  while (p) p >>= 4, shift += 4;
  return shift < 64 ? path | (uint64_t)(pipe + 1) << shift : path;
}

static void acquire(path_clock *into, const path_clock *from, unsigned pipe) {
  for (unsigned q = 0; q < PIPES; q++) {
    if (from->at[q] <= into->at[q]) continue;
    into->at[q] = from->at[q];
    into->path[q] = extend(from->path[q], pipe);
  }
}

typedef struct held_flag { /* sets that ran and were not waited for */
  path_clock *list;
  uint32_t head, count, capacity;
} held_flag;

static bool hold(held_flag *f, const path_clock *released) {
  if (f->count == f->capacity) {
    uint32_t capacity = f->capacity ? f->capacity * 2 : 4;
    path_clock *list = malloc(capacity * sizeof *list);
    if (!list) return false;
    for (uint32_t n = 0; n < f->count; n++) list[n] = f->list[(f->head + n) % f->capacity];
    free(f->list);
    f->list = list, f->head = 0, f->capacity = capacity;
  }
  f->list[(f->head + f->count++) % f->capacity] = *released;
  return true;
}

static void path_text(uint64_t path, text *out) {
  const char *between = "";
  unsigned from = 0;
  for (; path; path >>= 4) {
    unsigned pipe = (unsigned)(path & 15) - 1;
    if (from)
      rdn_text_add(out, "%s%s_%s", between, rd_npu_pipe_name(from - 1), rd_npu_pipe_name(pipe)),
          between = " ";
    from = pipe + 1;
  }
}

typedef struct walker {
  const program *control, *sites;
  path_clock vc[PIPES];
  held_flag flags[PIPES][PIPES][FLAG_IDS];
  path_clock *issue; /* what S had acquired when each instruction was issued */
  path_clock *at;    /* what each dropped wait ran under */
  bool failed;
} walker;

static bool dropped(const insn *i) { return i->op != OP_pipe_barrier && i->flag.dropped; }

static void barrier(path_clock vc[PIPES], const insn *i) {
  unsigned p = i->barrier.pipe;
  if (p != RD_NPU_PIPE_ALL) {
    vc[p].at[p] = i->index;
    vc[p].path[p] = extend(0, p);
    return;
  }
  path_clock all = vc[0];
  for (unsigned q = 0; q < PIPES; q++) acquire(&all, &vc[q], q);
  for (unsigned q = 0; q < PIPES; q++)
    if (i->barrier.ends[q] > all.at[q]) all.at[q] = i->barrier.ends[q], all.path[q] = extend(0, q);
  for (unsigned q = 0; q < PIPES; q++) vc[q] = all;
}

/* Called in reference order.  Dropped events hold nothing and carry nothing, so they were issued
 * as if they were neither sets nor waits. */
static void go(void *user, const insn *issued, uint32_t position, uint64_t tag) {
  walker *w = user;
  const insn *i = &w->control->list[position];
  path_clock *vc = w->vc;
  unsigned p = i->pipe;
  (void)issued, (void)tag;
  if (p != RD_NPU_PIPE_S) acquire(&vc[p], &w->issue[position], p);
  w->at[position] = vc[p];
  if (i->op == OP_pipe_barrier) {
    barrier(vc, i);
    return;
  }
  if (dropped(i)) return;
  held_flag *f = &w->flags[i->flag.src][i->flag.dst][i->flag.id];
  if (i->op == OP_set_flag) {
    path_clock released = vc[p];
    released.at[p] = i->index;
    released.path[p] = extend(0, p);
    if (!hold(f, &released)) w->failed = true;
    return;
  }
  acquire(&vc[p], &f->list[f->head], p);
  f->head = (f->head + 1) % f->capacity;
  f->count--;
}

static bool walk(walker *w) {
  rdn_order o;
  rdn_order_init(&o, go, w);
  for (size_t n = 0; n < w->control->count && !w->failed && !o.failed; n++) {
    insn i = w->control->list[n];
    if (dropped(&i)) i.op = OP_sadd;
    w->issue[n] = w->vc[RD_NPU_PIPE_S];
    rdn_order_issue(&o, &i, (uint32_t)n, 0);
  }
  bool ok = !w->failed && !o.failed;
  rdn_order_free(&o);
  return ok;
}

/* One dropped pair: is what its set would have carried ordered anyway? */
static bool judge(const walker *w, const insn *set, size_t wait_at, rdn_dropped_place *report,
                  void *user) {
  const insn *wait = &w->control->list[wait_at];
  const path_clock *now = &w->at[wait_at];
  unsigned src = wait->flag.src;
  bool ordered = now->at[src] >= set->index;
  char a[400], b[400];
  rdn_site_text(w->sites, set->site, a, sizeof a);
  rdn_site_text(w->sites, wait->site, b, sizeof b);
  text t = {0}, how = {0};
  rdn_text_add(&t, "%s_%s set at %s, waited for at %s", rd_npu_pipe_name(src),
               rd_npu_pipe_name(wait->flag.dst), a, b);
  if (ordered) path_text(now->path[src], &how);
  const uint64_t path = ordered ? now->path[src] : 0;
  bool whole = path >> 4 == 0 || (how.data && how.ok); /* a barrier alone is no chain of events */
  const char *by = path >> 4 ? how.data : path ? "a barrier" : "program order";
  bool ok = whole && report(user, t.ok ? t.data : NULL, ordered, by);
  free(t.data);
  free(how.data);
  return ok;
}

/* The k-th dropped set belongs to the k-th dropped wait. */
static bool judge_all(const walker *w, rdn_dropped_place *report, void *user) {
  size_t at[PIPES][PIPES][FLAG_IDS] = {{{0}}}; /* where the next set is looked for */
  const program *c = w->control;
  for (size_t n = 0; n < c->count; n++) {
    const insn *wait = &c->list[n];
    if (wait->op != OP_wait_flag || !dropped(wait)) continue;
    size_t *s = &at[wait->flag.src][wait->flag.dst][wait->flag.id];
    for (; *s < c->count; ++*s) {
      const insn *i = &c->list[*s];
      if (i->op == OP_set_flag && dropped(i) && i->flag.src == wait->flag.src &&
          i->flag.dst == wait->flag.dst && i->flag.id == wait->flag.id)
        break;
    }
    if (*s == c->count) continue;
    if (!judge(w, &c->list[(*s)++], n, report, user)) return false;
  }
  return true;
}

bool rdn_implied(const program *control, const program *sites, rdn_dropped_place *report,
                 void *user) {
  walker *w = calloc(1, sizeof *w);
  if (!w) return false;
  w->control = control, w->sites = sites;
  w->issue = calloc(control->count + 1, sizeof *w->issue);
  w->at = calloc(control->count + 1, sizeof *w->at);
  bool ok = w->issue && w->at && walk(w) && judge_all(w, report, user);
  for (unsigned a = 0; a < PIPES; a++)
    for (unsigned b = 0; b < PIPES; b++)
      for (unsigned id = 0; id < FLAG_IDS; id++) free(w->flags[a][b][id].list);
  free(w->issue);
  free(w->at);
  free(w);
  return ok;
}
