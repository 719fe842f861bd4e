/*
 * With a channel dropped (options.without): at which of its places do other edges imply the order
 * it would have given?  The control instructions of a core, dropped ones included, are walked once
 * more with clocks that remember how each entry arrived.
 */
#include "report.h"

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

static void acquire(path_clock *into, const path_clock *from, unsigned pipe, bool issue) {
  for (unsigned q = 0; q < PIPES; q++) {
    if (from->at[q] <= into->at[q] || (issue && q == RD_NPU_PIPE_S)) continue;
    into->at[q] = from->at[q];
    into->path[q] = extend(from->path[q], pipe);
  }
}

typedef struct held_set {
  path_clock released;
  uint32_t site;
} held_set;

typedef struct held_flag {
  held_set *list;
  uint32_t head, count, capacity;
} held_flag;

static bool hold(held_flag *f, const path_clock *released, uint32_t where) {
  if (f->count == f->capacity) {
    uint32_t capacity = f->capacity ? f->capacity * 2 : 4;
    held_set *list = malloc(capacity * sizeof *list);
    if (!list) return false;
    for (uint32_t n = 0; n < f->count; n++) list[n] = f->list[(f->head + n) % f->capacity];
    free(f->list);
    f->list = list, f->head = 0, f->capacity = capacity;
  }
  f->list[(f->head + f->count++) % f->capacity] = (held_set){*released, where};
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

/* One dropped wait: is what its set would have carried ordered anyway? */
static bool judge(rd_npu_report *r, const rd_npu_core *c, const insn *wait, const held_set *set,
                  const path_clock *now) {
  unsigned src = wait->flag.src;
  bool ordered = now->at[src] >= set->released.at[src];
  char a[400], b[400];
  rdn_site_text(&c->prog, set->site, a, sizeof a);
  rdn_site_text(&c->prog, wait->site, b, sizeof b);
  text t = {0}, how = {0};
  rdn_text_add(&t, "%s_%s set at %s, waited for at %s", rd_npu_pipe_name(src),
               rd_npu_pipe_name(wait->flag.dst), a, b);
  if (ordered) path_text(now->path[src], &how);
  bool ok = rdn_report_dropped(r, t.ok ? t.data : NULL, ordered,
                               how.ok && how.data ? how.data : "program order");
  free(t.data);
  free(how.data);
  return ok;
}

static bool walk(rd_npu_report *r, const rd_npu_core *c, path_clock *vc,
                 held_flag (*flags)[PIPES][FLAG_IDS]) {
  for (size_t n = 0; n < c->control.count; n++) {
    const insn *i = &c->control.list[n];
    unsigned p = i->pipe;
    if (p != RD_NPU_PIPE_S) acquire(&vc[p], &vc[RD_NPU_PIPE_S], p, true);
    if (i->op == OP_pipe_barrier) {
      if (i->barrier.pipe != RD_NPU_PIPE_ALL) {
        vc[p].at[p] = i->index;
        vc[p].path[p] = extend(0, p);
        continue;
      }
      path_clock all = vc[0];
      for (unsigned q = 0; q < PIPES; q++) acquire(&all, &vc[q], q, false);
      for (unsigned q = 0; q < PIPES; q++)
        if (i->barrier.ends[q] > all.at[q])
          all.at[q] = i->barrier.ends[q], all.path[q] = extend(0, q);
      for (unsigned q = 0; q < PIPES; q++) vc[q] = all;
      continue;
    }
    held_flag *f = &flags[i->flag.src][i->flag.dst][i->flag.id];
    if (i->op == OP_set_flag) {
      path_clock released = vc[p];
      released.at[p] = i->index;
      released.path[p] = extend(0, p);
      if (!hold(f, &released, i->site)) return false;
    } else if (f->count) {
      held_set *s = &f->list[f->head];
      if (c->without[i->flag.src][i->flag.dst]) {
        if (!judge(r, c, i, s, &vc[p])) return false;
      } else
        acquire(&vc[p], &s->released, p, false);
      f->head = (f->head + 1) % f->capacity;
      f->count--;
    }
  }
  return true;
}

bool rdn_report_implied(rd_npu_report *r, const rd_npu_core *cores, uint32_t count) {
  bool ok = true;
  held_flag(*flags)[PIPES][FLAG_IDS] = calloc(PIPES, sizeof *flags);
  if (!flags) return false;
  for (uint32_t c = 0; c < count && ok; c++) {
    path_clock vc[PIPES];
    memset(vc, 0, sizeof vc);
    held_flag *f = &flags[0][0][0];
    for (unsigned n = 0; n < PIPES * PIPES * FLAG_IDS; n++) f[n].head = f[n].count = 0;
    ok = walk(r, &cores[c], vc, flags);
  }
  held_flag *f = &flags[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_IDS; n++) free(f[n].list);
  free(flags);
  return ok;
}
