/* Finding the places of synchronisation in the recordings, and making the programs of mutants. */
#include "npu/mutate/mutate.h"
#include "npu/machine/arch.h"

#include <stdlib.h>
#include <string.h>

static bool is_control(const insn *i) {
  return i->op == OP_set_flag || i->op == OP_wait_flag || i->op == OP_pipe_barrier;
}
static bool is_all(const insn *i) {
  return i->op == OP_pipe_barrier && i->barrier.pipe == RD_NPU_PIPE_ALL;
}

static uint32_t root(rd_npu_mutation *m, uint32_t u) {
  while (m->units[u].edge != u) u = m->units[u].edge = m->units[m->units[u].edge].edge;
  return u;
}

static uint32_t unit_index(rd_npu_mutation *m, const program *p, const insn *i) {
  char where[400];
  rdn_site_text(p, i->site, where, sizeof where);
  bool flag = i->op != OP_pipe_barrier;
  uint8_t src = flag ? i->flag.src : i->barrier.pipe, dst = flag ? i->flag.dst : 0;
  for (uint32_t u = 0; u < m->unit_count; u++) {
    const unit *x = &m->units[u];
    if (x->op == i->op && x->src == src && x->dst == dst && strcmp(x->where, where) == 0) return u;
  }
  if (m->unit_count == m->unit_capacity) {
    uint32_t capacity = m->unit_capacity ? m->unit_capacity * 2 : 64;
    unit *units = realloc(m->units, capacity * sizeof *units);
    if (!units) return UINT32_MAX;
    m->units = units;
    m->unit_capacity = capacity;
  }
  unit *x = &m->units[m->unit_count];
  *x = (unit){.where = strdup(where), .op = i->op, .src = src, .dst = dst, .edge = m->unit_count};
  return x->where ? m->unit_count++ : UINT32_MAX;
}

/* The operation a wait would slip behind, or a set in front of; SIZE_MAX when nothing is there to
 * cross before a barrier ALL or the end. */
static size_t crossing(const program *p, size_t at, bool later) {
  uint8_t pipe = p->list[at].pipe;
  for (size_t n = at;;) {
    if (later ? ++n == p->count : n-- == 0) return SIZE_MAX;
    const insn *i = &p->list[n];
    if (is_all(i)) return SIZE_MAX;
    if (is_control(i)) continue;
    if (i->pipe == pipe || pipe == RD_NPU_PIPE_S) return n;
  }
}

/* Places of a flag whose partner has not come by: the k-th set belongs to the k-th wait, whichever
 * is issued first, so that only sets or only waits are open at a time. */
typedef struct open_places {
  uint32_t *unit;
  uint32_t head, count, capacity;
  bool waits;
} open_places;

static bool open_place(open_places *f, uint32_t place, bool wait) {
  if (f->count == f->capacity) {
    uint32_t capacity = f->capacity ? f->capacity * 2 : 4;
    uint32_t *list = malloc(capacity * sizeof *list);
    if (!list) return false;
    for (uint32_t n = 0; n < f->count; n++) list[n] = f->unit[(f->head + n) % f->capacity];
    free(f->unit);
    f->unit = list, f->head = 0, f->capacity = capacity;
  }
  f->waits = wait;
  f->unit[(f->head + f->count++) % f->capacity] = place;
  return true;
}

static bool pair_place(rd_npu_mutation *m, open_places *f, uint32_t u, bool wait) {
  if (!f->count || f->waits == wait) return open_place(f, u, wait);
  uint32_t partner = f->unit[f->head];
  f->head = (f->head + 1) % f->capacity;
  f->count--;
  uint32_t a = root(m, partner), b = root(m, u);
  m->units[a > b ? a : b].edge = a < b ? a : b;
  return true;
}

static bool core_units(rd_npu_mutation *m, const program *p, uint32_t *unit_of) {
  open_places pending[PIPES][PIPES][FLAG_IDS];
  memset(pending, 0, sizeof pending);
  uint32_t *by_site = malloc((p->site_count + 1) * PIPES * PIPES * 4 * sizeof *by_site);
  bool ok = by_site != NULL;
  if (ok) memset(by_site, 0xFF, (p->site_count + 1) * PIPES * PIPES * 4 * sizeof *by_site);
  for (size_t n = 0; ok && n < p->count; n++) {
    const insn *i = &p->list[n];
    unit_of[n] = UINT32_MAX;
    if (!is_control(i)) continue;
    uint32_t kind = i->op == OP_set_flag ? 0 : i->op == OP_wait_flag ? 1 : 2;
    uint32_t channel = kind == 2 ? i->barrier.pipe : (uint32_t)i->flag.src * PIPES + i->flag.dst;
    uint32_t *known = &by_site[((size_t)i->site * 4 + kind) * PIPES * PIPES + channel];
    if (*known == UINT32_MAX) *known = unit_index(m, p, i);
    uint32_t u = *known;
    ok = u != UINT32_MAX;
    if (!ok) break;
    unit_of[n] = u;
    if (i->op == OP_pipe_barrier) continue;
    m->units[u].ids |= (uint8_t)(1u << i->flag.id);
    bool wait = i->op == OP_wait_flag;
    if (wait)
      m->units[u].moves_later |= crossing(p, n, true) != SIZE_MAX;
    else
      m->units[u].moves_earlier |= crossing(p, n, false) != SIZE_MAX;
    ok = pair_place(m, &pending[i->flag.src][i->flag.dst][i->flag.id], u, wait);
  }
  open_places *all = &pending[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_IDS; n++) free(all[n].unit);
  free(by_site);
  return ok;
}

bool rdn_mutation_units(rd_npu_mutation *m, recorded *r) {
  r->unit_of = calloc(r->count + 1, sizeof *r->unit_of);
  if (!r->unit_of) return false;
  for (uint32_t c = 0; c < r->count; c++) {
    r->unit_of[c] = malloc((r->cores[c].prog.count + 1) * sizeof **r->unit_of);
    if (!r->unit_of[c] || !core_units(m, &r->cores[c].prog, r->unit_of[c])) return false;
  }
  return true;
}

static bool add_mutant(rd_npu_mutation *m, mutation_op what, uint32_t place, uint8_t pipe) {
  if (m->mutant_count == m->mutant_capacity) {
    uint32_t capacity = m->mutant_capacity ? m->mutant_capacity * 2 : 128;
    mutant *list = realloc(m->mutants, capacity * sizeof *list);
    if (!list) return false;
    m->mutants = list;
    m->mutant_capacity = capacity;
  }
  m->mutants[m->mutant_count++] = (mutant){.op = what, .unit = place, .pipe = pipe};
  return true;
}

bool rdn_mutation_mutants(rd_npu_mutation *m, const rd_npu_launch *l) {
  bool ok = true;
  for (uint32_t u = 0; u < m->unit_count && ok; u++) {
    const unit *x = &m->units[u];
    if (x->op == OP_pipe_barrier) {
      ok = add_mutant(m, DROP_BARRIER, u, 0);
      for (uint8_t p = 1; p < PIPES && ok && x->src == RD_NPU_PIPE_ALL; p++)
        if (rdn_pipe_exists(l, p)) ok = add_mutant(m, ALL_TO_PIPE, u, p);
      continue;
    }
    if (root(m, u) == u) ok = add_mutant(m, DROP_EDGE, u, 0);
    bool set = x->op == OP_set_flag;
    if (ok) ok = add_mutant(m, set ? DROP_SET : DROP_WAIT, u, 0);
    if (ok && (set ? x->moves_earlier : x->moves_later))
      ok = add_mutant(m, set ? SET_EARLIER : WAIT_LATER, u, 0);
  }
  for (uint32_t u = 0; u < m->unit_count; u++)
    m->units[u].edge = root(m, u); /* flat: shared by threads */
  return ok;
}

/* ---- the mutant's program
 * ------------------------------------------------------------------------- */

static bool hit(const rd_npu_mutation *m, const mutant *x, uint32_t u) {
  if (u == UINT32_MAX) return false;
  if (x->op == DROP_EDGE) return m->units[u].op != OP_pipe_barrier && m->units[u].edge == x->unit;
  return u == x->unit;
}

static void renumber(program *p) {
  uint32_t next[PIPES] = {0};
  for (size_t n = 0; n < p->count; n++) p->list[n].index = ++next[p->list[n].pipe];
}

/* Moves: the instance is re-inserted right behind (or in front of) the operation it crosses. */
static bool apply_move(const rd_npu_mutation *m, const mutant *x, const program *from,
                       const uint32_t *unit_of, program *out) {
  bool later = x->op == WAIT_LATER, ok = true;
  uint32_t *next =
      malloc((from->count + 1) * sizeof *next); /* chains of instances to insert at an operation */
  uint32_t *head = malloc((from->count + 1) * sizeof *head);
  uint8_t *moved = calloc(from->count + 1, 1);
  ok = next && head && moved;
  if (ok) memset(head, 0xFF, (from->count + 1) * sizeof *head);
  for (size_t k = 0; ok && k < from->count; k++) {
    size_t n = from->count - 1 - k; /* backwards, so that chains keep program order */
    if (!hit(m, x, unit_of[n])) continue;
    size_t at = crossing(from, n, later);
    if (at == SIZE_MAX) continue;
    next[n] = head[at];
    head[at] = (uint32_t)n;
    moved[n] = 1;
  }
  for (size_t n = 0; ok && n < from->count; n++) {
    if (later && !moved[n]) ok = rdn_program_add(out, &from->list[n]);
    for (uint32_t c = head[n]; ok && c != UINT32_MAX; c = next[c])
      ok = rdn_program_add(out, &from->list[c]);
    if (!later && !moved[n] && ok) ok = rdn_program_add(out, &from->list[n]);
  }
  free(next);
  free(head);
  free(moved);
  return ok;
}

bool rdn_mutation_apply(const rd_npu_mutation *m, const mutant *x, const recorded *r, uint32_t core,
                        program *out) {
  const program *from = &r->cores[core].prog;
  const uint32_t *unit_of = r->unit_of[core];
  *out = (program){.sites = from->sites, .site_count = from->site_count, .regs = from->regs};
  bool ok = true;
  if (x->op == WAIT_LATER || x->op == SET_EARLIER) {
    ok = apply_move(m, x, from, unit_of, out);
  } else {
    for (size_t n = 0; n < from->count && ok; n++) {
      insn i = from->list[n];
      if (hit(m, x, unit_of[n])) {
        if (x->op != ALL_TO_PIPE) continue;
        i.pipe = i.barrier.pipe = x->pipe;
      }
      ok = rdn_program_add(out, &i);
    }
  }
  renumber(out);
  return ok;
}

bool rdn_mutation_control(const rd_npu_mutation *m, const mutant *x, const recorded *r,
                          uint32_t core, program *out) {
  const program *from = &r->cores[core].prog;
  uint32_t next[PIPES] = {0};
  *out = (program){0};
  for (size_t n = 0; n < from->count; n++) {
    insn i = from->list[n];
    bool drop = i.op != OP_pipe_barrier && hit(m, x, r->unit_of[core][n]);
    i.index = next[i.pipe] + !drop;
    if (i.op == OP_pipe_barrier)
      memcpy(i.barrier.ends, next, sizeof i.barrier.ends);
    else if (is_control(&i))
      i.flag.dropped = drop;
    if (!drop) next[i.pipe]++;
    if (is_control(&i) && !rdn_program_add(out, &i)) return false;
  }
  return true;
}
