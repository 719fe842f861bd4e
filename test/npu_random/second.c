/*
 * Order.  Instruction n has a start (node 2n) and an end (2n + 1).  An edge says "not before"; a pair is
 * ordered when a path leads from the end of one to the start of the other.
 *
 *   start -> own end; starts of one queue in order
 *   end of a wait, or of pipe_barrier(p), -> every later start of its queue
 *   ends of the earlier work of its queue -> end of a set, or of pipe_barrier(p)
 *   k-th set of a flag -> k-th wait of it
 *   end of a wait by S, or of pipe_barrier(ALL), -> everything issued later
 *   ends of everything issued earlier -> pipe_barrier(ALL)
 *   S's accesses: in order among themselves, and before the end of what S sets later; not before what
 *   S merely issues later (SOUNDNESS O6)
 */
#include "second.h"

#include <string.h>

enum { NODES = 2 * MOST_STEPS + 2, END = NODES - 1 }; /* END: what S has waited for at the end */
typedef struct row {
  uint64_t half[2];
} row;
typedef struct graph {
  row from[NODES]; /* closed: everything behind a node */
  const random_kernel *k;
  const touched *t;
  defect planted;
  bool executed; /* with what holds in every run and is no rule: see by_rule */
} graph;

static void edge(graph *g, unsigned a, unsigned b) { g->from[a].half[b / 64] |= 1ull << b % 64; }
static bool path(const graph *g, unsigned a, unsigned b) {
  return g->from[a].half[b / 64] >> b % 64 & 1;
}
static unsigned start(unsigned n) { return 2 * n; }
static unsigned end(unsigned n) { return 2 * n + 1; }

static void close_graph(graph *g) {
  for (unsigned via = 0; via < NODES; via++)
    for (unsigned a = 0; a < NODES; a++)
      if (path(g, a, via)) {
        g->from[a].half[0] |= g->from[via].half[0];
        g->from[a].half[1] |= g->from[via].half[1];
      }
}

static bool is(const step *s, random_op op) { return s->op == op; }
static bool joins_all(const step *s) { return is(s, R_pipe_barrier) && s->dst == RD_NPU_PIPE_ALL; }
static bool same_flag(const step *a, const step *b) {
  return a->src == b->src && a->dst == b->dst && a->id == b->id;
}

/* How many of this kind and flag come before n. */
static unsigned rank_of(const random_kernel *k, unsigned n) {
  unsigned rank = 0;
  for (unsigned i = 0; i < n; i++)
    rank += k->list[i].op == k->list[n].op && same_flag(&k->list[i], &k->list[n]);
  return rank;
}
/* The set that wait n takes; -1 when there is none. */
static int set_of(const graph *g, unsigned n) {
  const random_kernel *k = g->k;
  unsigned rank = rank_of(k, n);
  int newest = -1;
  for (unsigned i = 0; i < k->count; i++) {
    if (!is(&k->list[i], R_set_flag) || !same_flag(&k->list[i], &k->list[n])) continue;
    if (g->planted == PAIRED_WRONGLY) {
      if (i < n || newest < 0) newest = (int)i;
    } else if (rank_of(k, i) == rank) {
      return (int)i;
    }
  }
  return newest;
}

/* Edges between earlier instruction i and later instruction n. */
static void edges_between(graph *g, unsigned i, unsigned n) {
  const step *a = &g->k->list[i], *b = &g->k->list[n];
  bool s_waited = a->pipe == RD_NPU_PIPE_S && (is(a, R_wait_flag) || joins_all(a));
  if (s_waited || ((g->planted == ISSUE_ORDERS || g->executed) && a->pipe == RD_NPU_PIPE_S))
    edge(g, end(i), start(n));
  if (joins_all(b)) edge(g, end(i), end(n));
  if (a->pipe != b->pipe || joins_all(a) || joins_all(b)) return;
  if (a->pipe == RD_NPU_PIPE_S) {
    if (!is(b, R_wait_flag)) edge(g, end(i), is(b, R_set_flag) ? end(n) : start(n));
    return;
  }
  edge(g, start(i), start(n));
  bool barrier = is(a, R_pipe_barrier) && g->planted != BARRIER_MISSED;
  if (is(a, R_wait_flag) || barrier) edge(g, end(i), start(n));
  if (is(b, R_set_flag)) edge(g, g->planted == SET_BEFORE_WORK ? start(i) : end(i), end(n));
  if (is(b, R_pipe_barrier) && g->planted != BARRIER_MISSED) edge(g, end(i), end(n));
}

static bool meet(const bytes *a, const bytes *b) {
  uint32_t low = a->low > b->low ? a->low : b->low, high = a->high < b->high ? a->high : b->high;
  for (uint32_t w = low; w < high; w++)
    if (a->word[w] & b->word[w]) return true;
  return false;
}

static bool conflict(const touched *a, const touched *b) {
  return meet(&a->write, &b->read) || meet(&a->read, &b->write) || meet(&a->write, &b->write);
}

static uint32_t results(const step *s) { return s->p[0] / 16 * (s->p[2] / 16); }
/* The matrix unit orders two products into the same bytes when both have ten results or more. */
static bool large(const step *a, const step *b) {
  return is(a, R_mad) && is(b, R_mad) && results(a) >= 10 && results(b) >= 10;
}

/* Does the compiler's synchronisation, or the vector unit, order these two where they meet in UB? It
 * orders nothing else, so it is no edge. */
static bool ordered_by_itself(const graph *g, const step *a, const step *b);

static void build(graph *g, verdict *v) {
  const random_kernel *k = g->k;
  memset(g->from, 0, sizeof g->from);
  for (unsigned n = 0; n < k->count; n++) {
    const step *s = &k->list[n];
    edge(g, start(n), end(n));
    for (unsigned i = 0; i < n; i++) {
      edges_between(g, i, n);
      bool itself = ordered_by_itself(g, &k->list[i], s) || large(&k->list[i], s);
      bool queue = s->pipe == RD_NPU_PIPE_V && k->list[i].pipe == RD_NPU_PIPE_V &&
                   rd_npu_arch_get(k->arch)->vector_in_order;
      if (queue && g->executed) edge(g, end(i), start(n));
      if (itself && (g->planted == INSERTED_IS_EDGE || g->executed) && conflict(&g->t[i], &g->t[n]))
        edge(g, end(i), start(n));
    }
    if ((s->pipe == RD_NPU_PIPE_S && is(s, R_wait_flag)) || joins_all(s)) edge(g, end(n), END);
    if (!is(s, R_wait_flag)) continue;
    int set = set_of(g, n);
    if (set < 0)
      v->deadlock = true;
    else
      edge(g, end((unsigned)set), end(n));
  }
  close_graph(g);
  for (unsigned n = 0; n < NODES; n++) v->deadlock |= path(g, n, n);
}

/* ------------------------------------------------------------------ pairs */

static void add_pair(verdict *v, unsigned a, unsigned b, rd_npu_finding_kind kind) {
  if (v->count < MOST_PAIRS)
    v->pairs[v->count++] = (pair){(uint8_t)a, (uint8_t)b, kind, false, false};
}

static bool ordered_by_itself(const graph *g, const step *a, const step *b) {
  bool in_order = rd_npu_arch_get(g->k->arch)->vector_in_order || g->planted == VECTOR_IN_ORDER;
  unsigned p = a->pipe < b->pipe ? a->pipe : b->pipe, q = a->pipe < b->pipe ? b->pipe : a->pipe;
  if (p == RD_NPU_PIPE_V && q == RD_NPU_PIPE_V)
    return in_order || g->k->auto_sync == RD_NPU_AUTO_SYNC_ALL;
  return p == RD_NPU_PIPE_S && g->k->auto_sync != RD_NPU_AUTO_SYNC_NONE &&
         (q == RD_NPU_PIPE_V || q == RD_NPU_PIPE_MTE2 || q == RD_NPU_PIPE_MTE3);
}

static void compare(const graph *g, unsigned i, unsigned n, const touched *t, verdict *v) {
  const step *a = &g->k->list[i], *b = &g->k->list[n];
  bool raw = meet(&t[i].write, &t[n].read), war = meet(&t[i].read, &t[n].write);
  bool waw = meet(&t[i].write, &t[n].write);
  if (!raw && !war && !waw) return;
  if (path(g, end(i), start(n)) || path(g, end(n), start(i))) return;
  if (ordered_by_itself(g, a, b)) return;
  if (is(a, R_mad) && is(b, R_mad)) {
    uint32_t least = results(a) < results(b) ? results(a) : results(b);
    if (least < (g->planted == TEN_FRACTALS ? 9u : 10u)) add_pair(v, i, n, RD_NPU_ACCUMULATE);
    return;
  }
  if (raw) add_pair(v, i, n, RD_NPU_RACE_RAW);
  if (war && g->planted != READS_DO_NOT_RACE) add_pair(v, i, n, RD_NPU_RACE_WAR);
  if (waw) add_pair(v, i, n, RD_NPU_RACE_WAW);
}

/* The defect of a shadow that keeps one reader per pipe: reader i is forgotten when n, of the same
 * pipe, reads the same bytes, n's own write included. */
static bool covered(const random_kernel *k, const touched *t, unsigned i, unsigned n) {
  return k->list[i].pipe == k->list[n].pipe && meet(&t[i].read, &t[n].read) &&
         meet(&t[n].read, &t[n].write);
}

/* ------------------------------------------------------------------ what stands for what */

/* The order in which instructions go when every queue is served at once: S first, then the oldest. */
static unsigned reference_order(const graph *g, uint8_t place[MOST_STEPS]) {
  const random_kernel *k = g->k;
  bool done[MOST_STEPS] = {false};
  unsigned count = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s_only = 1; s_only >= 0 && !moved; s_only--)
      for (unsigned n = 0; n < k->count && !moved; n++) {
        bool ready = !done[n] && (!s_only || k->list[n].pipe == RD_NPU_PIPE_S);
        for (unsigned i = 0; i < k->count && ready; i++) {
          bool before = (i < n && k->list[i].pipe == k->list[n].pipe) || path(g, end(i), end(n));
          ready = i == n || done[i] || !before;
        }
        if (!ready) continue;
        place[n] = (uint8_t)count++;
        moved = done[n] = true;
      }
  }
  return count;
}

static bool any_pair(const verdict *v, unsigned a, unsigned b) {
  unsigned low = a < b ? a : b, high = a < b ? b : a;
  return has_pair(v, low, high, RD_NPU_RACE_RAW) || has_pair(v, low, high, RD_NPU_RACE_WAR) ||
         has_pair(v, low, high, RD_NPU_RACE_WAW) || has_pair(v, low, high, RD_NPU_ACCUMULATE);
}

static void take_away(uint64_t *left, const bytes *b) {
  for (uint32_t w = b->low; w < b->high; w++) left[w] &= ~b->word[w];
}

static bool stood_for(const random_kernel *k, const touched *t, const verdict *v, const pair *p,
                      const uint8_t *place) {
  unsigned a = p->first, b = p->second;
  bool reads = p->kind == RD_NPU_RACE_WAR;
  if (place[a] > place[b]) { /* queued earlier, but goes later */
    a = p->second, b = p->first;
    reads = p->kind == RD_NPU_RACE_RAW;
  }
  const bytes *x = reads ? &t[a].read : &t[a].write;
  const bytes *y = (a == p->first) == (p->kind == RD_NPU_RACE_RAW) && p->kind != RD_NPU_RACE_WAW &&
                           p->kind != RD_NPU_ACCUMULATE && !reads
                       ? &t[b].read
                       : &t[b].write;
  uint64_t left[BYTES / 64] = {0};
  for (uint32_t w = x->low; w < x->high; w++) left[w] = x->word[w] & y->word[w];
  if (reads && any_pair(v, a, b)) take_away(left, &t[a].write);
  for (unsigned c = 0; c < k->count; c++) {
    if (place[c] <= place[a] || place[c] >= place[b]) continue;
    if (any_pair(v, a, c) || any_pair(v, c, b)) take_away(left, &t[c].write);
    if (reads && k->list[c].pipe == k->list[a].pipe && any_pair(v, c, b))
      take_away(left, &t[c].read);
  }
  for (uint32_t w = x->low; w < x->high; w++)
    if (left[w]) return false;
  return true;
}

/* Is the wait for the set before set n ordered before n? */
static bool after_previous_wait(const graph *g, unsigned n) {
  const random_kernel *k = g->k;
  for (unsigned w = 0; w < k->count; w++)
    if (is(&k->list[w], R_wait_flag) && same_flag(&k->list[w], &k->list[n]) &&
        rank_of(k, w) + 1 == rank_of(k, n))
      return path(g, end(w), end(n));
  return false;
}

static void flags(const random_kernel *k, const graph *g, verdict *v) {
  int64_t ahead[RD_NPU_PIPES][RD_NPU_PIPES][8] = {{{0}}};
  for (unsigned n = 0; n < k->count; n++) {
    const step *s = &k->list[n];
    if (is(s, R_wait_flag)) ahead[s->src][s->dst][s->id]--;
    if (is(s, R_set_flag) && ++ahead[s->src][s->dst][s->id] > 1) v->double_sets |= 1ull << n;
    if (s->pipe != RD_NPU_PIPE_S && !path(g, end(n), END) && g->planted != LEFTOVERS_FORGIVEN)
      v->leftover_ops |= 1ull << n;
    if (is(s, R_set_flag) && rank_of(k, n) > 0) v->notes += !after_previous_wait(g, n);
  }
  for (unsigned a = 0; a < RD_NPU_PIPES; a++)
    for (unsigned b = 0; b < RD_NPU_PIPES; b++)
      for (unsigned id = 0; id < 8; id++) v->leftover_flags += ahead[a][b][id] > 0;
}

/* Pairs that no run shows all the same. */
static void mark_by_rule(const random_kernel *k, const touched *t, verdict *v) {
  static graph runs;
  static verdict ignored;
  runs = (graph){.k = k, .t = t, .executed = true};
  ignored.deadlock = false;
  build(&runs, &ignored);
  v->stalls = ignored.deadlock && !v->deadlock;
  for (uint32_t n = 0; n < v->count; n++) {
    pair *p = &v->pairs[n];
    p->by_rule = path(&runs, end(p->first), start(p->second)) ||
                 path(&runs, end(p->second), start(p->first));
  }
}

void judge(const random_kernel *k, defect planted, verdict *v) {
  static touched t[MOST_STEPS];
  static graph g;
  memset(v, 0, sizeof *v);
  for (unsigned n = 0; n < k->count; n++) {
    step s = k->list[n];
    if (planted == MASK_IGNORED) s.lo = s.hi = ~0ull;
    if (planted == OLD_VALUE_FORGOTTEN && random_ops[s.op].traits & UPDATES)
      s.op = random_ops[s.op].form == THREE ? R_vadd : R_vadds;
    touch(&s, &t[n]);
  }
  g = (graph){.k = k, .t = t, .planted = planted};
  build(&g, v);
  for (unsigned n = 0; n < k->count; n++)
    for (unsigned i = 0; i < n; i++)
      if (planted != OWN_READ_COVERS || !covered(k, t, i, n)) compare(&g, i, n, t, v);
  flags(k, &g, v);
  if (v->count || k->auto_sync) mark_by_rule(k, t, v);
  /* The two orders in which a checker may come across the accesses; either excuses it. */
  uint8_t served[MOST_STEPS], issued[MOST_STEPS];
  for (unsigned n = 0; n < k->count; n++) issued[n] = (uint8_t)n;
  v->deadlock |= reference_order(&g, served) < k->count;
  for (uint32_t n = 0; n < v->count && !v->deadlock; n++) {
    pair *p = &v->pairs[n];
    if (p->kind != RD_NPU_ACCUMULATE)
      p->implied = stood_for(k, t, v, p, served) || stood_for(k, t, v, p, issued);
  }
}

bool clean(const verdict *v) {
  return !v->count && !v->deadlock && !v->double_sets && !v->leftover_ops && !v->leftover_flags;
}

bool has_pair(const verdict *v, unsigned first, unsigned second, rd_npu_finding_kind kind) {
  for (uint32_t n = 0; n < v->count; n++)
    if (v->pairs[n].first == first && v->pairs[n].second == second && v->pairs[n].kind == kind)
      return true;
  return false;
}
