#include "npu/launch/remedy.h"
#include "npu/launch/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rdn_parse_with(const char *text, uint8_t with[PIPES][PIPES]) {
  memset(with, 0, PIPES * PIPES);
  while (text && *text) {
    size_t used = 0;
    for (unsigned a = 0; a < PIPES && !used; a++)
      for (unsigned b = 0; b < PIPES && !used; b++) {
        char name[32];
        int n =
            a == b ? snprintf(name, sizeof name, "pipe_barrier(%s)", rd_npu_pipe_name(a))
                   : snprintf(name, sizeof name, "%s_%s", rd_npu_pipe_name(a), rd_npu_pipe_name(b));
        if (strncmp(text, name, (size_t)n) != 0 || (text[n] && text[n] != ',')) continue;
        if (a == b && a == RD_NPU_PIPE_S) continue;
        with[a][b] = 1;
        used = (size_t)n;
      }
    text += used;
    if (!used || (*text == ',' && !*++text)) return false;
  }
  return true;
}

typedef struct place { /* two accesses that a remedy goes between */
  raw_access first, second;
  size_t latest; /* position of the newest first access, plus 1 */
} place;

typedef struct insertion {
  size_t key; /* twice the position it goes in front of, minus 1 when behind the one before */
  insn i;
} insertion;

typedef struct remedies {
  place *places;
  size_t count;
  insertion *list;
  size_t inserted, capacity;
} remedies;

static bool misses(const raw_finding *f, const uint8_t with[PIPES][PIPES]) {
  bool edge = f->kind == RD_NPU_FLAG_REUSE && f->first.op == OP_wait_flag;
  bool race = f->kind <= RD_NPU_RACE_WAW || f->kind == RD_NPU_ACCUMULATE;
  return (edge || race) && with[f->first.pipe][f->second.pipe];
}

static bool same_access(const raw_access *a, const raw_access *b) {
  return a->site == b->site && a->op == b->op && a->pipe == b->pipe;
}

/* New places of these findings: 1, none: 0, no memory: -1. */
static int collect(remedies *r, const finding_list *f, const uint8_t with[PIPES][PIPES]) {
  int found = 0;
  for (uint32_t n = 0; n < f->count; n++) {
    const raw_finding *x = &f->list[n];
    bool known = !misses(x, with);
    for (size_t k = 0; k < r->count && !known; k++)
      known = same_access(&r->places[k].first, &x->first) &&
              same_access(&r->places[k].second, &x->second);
    if (known) continue;
    place *list = realloc(r->places, (r->count + 1) * sizeof *list);
    if (!list) return -1;
    r->places = list;
    r->places[r->count++] = (place){x->first, x->second, 0};
    found = 1;
  }
  return found;
}

static bool is_access(const insn *i, const raw_access *a) {
  return i->site == a->site && i->op == a->op && i->pipe == a->pipe;
}

static bool insert(remedies *r, size_t key, insn i) {
  if (r->inserted == r->capacity) {
    size_t capacity = r->capacity ? r->capacity * 2 : 64;
    insertion *list = realloc(r->list, capacity * sizeof *list);
    if (!list) return false;
    r->list = list, r->capacity = capacity;
  }
  r->list[r->inserted++] = (insertion){key, i};
  return true;
}

static insn control(op o, unsigned pipe, uint32_t where) {
  insn i;
  memset(&i, 0, sizeof i);
  i.op = (uint8_t)o, i.pipe = (uint8_t)pipe, i.site = where;
  return i;
}

/* One event or barrier in front of instruction n, behind the newest first access, `at`. */
static bool insert_event(remedies *r, const program *p, size_t at, size_t n) {
  unsigned a = p->list[at].pipe, b = p->list[n].pipe;
  if (a == b) {
    insn i = control(OP_pipe_barrier, a, p->list[n].site);
    i.barrier.pipe = (uint8_t)a;
    return insert(r, 2 * n, i);
  }
  insn set = control(OP_set_flag, a, p->list[at].site);
  insn wait = control(OP_wait_flag, b, p->list[n].site);
  set.flag.src = wait.flag.src = (uint8_t)a;
  set.flag.dst = wait.flag.dst = (uint8_t)b;
  set.flag.id = wait.flag.id = FLAG_IDS;
  return insert(r, 2 * at + 1, set) && insert(r, 2 * n, wait);
}

/* A set that is not newer than the one waited for last is ordered by it: sets and waits of a channel
 * stay in one order, and the k-th wait is for the k-th set. */
static bool plan(remedies *r, const program *p) {
  size_t last[PIPES][PIPES] = {{0}};
  r->inserted = 0;
  for (size_t k = 0; k < r->count; k++) r->places[k].latest = 0;
  for (size_t n = 0; n < p->count; n++) {
    const insn *i = &p->list[n];
    size_t newest[PIPES] = {0};
    for (size_t k = 0; k < r->count; k++) {
      const place *x = &r->places[k];
      if (is_access(i, &x->second) && x->latest > newest[x->first.pipe])
        newest[x->first.pipe] = x->latest;
    }
    for (unsigned a = 0; a < PIPES; a++)
      if (newest[a] > last[a][i->pipe]) {
        if (!insert_event(r, p, newest[a] - 1, n)) return false;
        last[a][i->pipe] = newest[a];
      }
    for (size_t k = 0; k < r->count; k++)
      if (is_access(i, &r->places[k].first)) r->places[k].latest = n + 1;
  }
  return true;
}

static int by_key(const void *x, const void *y) {
  const insertion *a = x, *b = y;
  return a->key < b->key ? -1 : a->key > b->key;
}

static bool add(program *p, insn i, uint32_t next[PIPES]) {
  i.index = ++next[i.pipe];
  return rdn_program_add(p, &i);
}

static bool build(remedies *r, const program *from, program *to) {
  uint32_t next[PIPES] = {0};
  to->count = 0;
  if (r->inserted) qsort(r->list, r->inserted, sizeof *r->list, by_key);
  size_t k = 0;
  for (size_t n = 0; n < from->count; n++) {
    for (; k < r->inserted && r->list[k].key <= 2 * n; k++)
      if (!add(to, r->list[k].i, next)) return false;
    if (!add(to, from->list[n], next)) return false;
  }
  for (; k < r->inserted; k++)
    if (!add(to, r->list[k].i, next)) return false;
  return true;
}

/* What issuing found stays; what the checker finds is found anew. */
static bool judge(rd_npu_core *c, const program *p) {
  finding_list old = c->findings;
  c->findings = (finding_list){0};
  bool ok = true;
  for (uint32_t n = 0; n < old.count && ok; n++) {
    const raw_finding *f = &old.list[n];
    bool issued = f->kind == RD_NPU_ID_RANGE || f->kind == RD_NPU_BOUNDS ||
                  f->kind == RD_NPU_MISSING_INSTRUCTION || f->kind == RD_NPU_SCHEDULE_VALUE;
    if (!issued) continue;
    raw_finding *kept = rdn_finding_add(&c->findings, f->kind, &f->first, NULL, f->why);
    ok = kept != NULL;
    if (ok) kept->count = f->count, kept->continuation = f->continuation;
  }
  rdn_finding_free(&old);
  rdn_checker_reset(c->chk);
  c->doubt = false, c->marked = c->findings.count;
  for (size_t n = 0; n < p->count; n++) {
    rdn_checker_step(c->chk, &p->list[n], (uint32_t)n, &c->findings);
    if (!(rdn_ops[p->list[n].op].traits & VALUE)) continue;
    rdn_mark_continuation(c); /* as when it was issued */
    c->doubt = c->doubt || c->findings.count;
  }
  rdn_checker_finish(c->chk, &c->findings);
  rdn_mark_continuation(c);
  return ok && !rdn_checker_failed(c->chk) && !c->findings.out_of_memory;
}

bool rdn_apply_remedies(rd_npu_core *c, const uint8_t with[PIPES][PIPES]) {
  remedies r = {0};
  program from = c->prog, to = {0};
  bool ok = true;
  for (int more; ok && (more = collect(&r, &c->findings, with)) != 0;) {
    ok = more > 0 && plan(&r, &from) && build(&r, &from, &to);
    if (to.list) c->prog.list = to.list, c->prog.count = to.count, c->prog.capacity = to.capacity;
    ok = ok && judge(c, &c->prog);
  }
  if (to.list) free(from.list);
  c->remedies = (uint32_t)r.count;
  free(r.places);
  free(r.list);
  return ok;
}
