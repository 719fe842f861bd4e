/*
 * The scheduler: runs a recorded program under an order the rules allow.
 *
 * S moves instructions into per-pipe queues.  A pipe keeps at most two operations in flight and
 * each has two steps (halves of its units); events, waits and barriers act as soon as they reach
 * the head of their queue and their condition holds, which loses no order: delaying them delays
 * only what follows.  What is left to decide is which step comes next, or whether S goes on.
 *
 * Eager (and every exhaustive schedule without deviations) steps the oldest instruction first,
 * which gives the values of program order.
 */
#include "model.h"

#include <stdio.h>
#include <string.h>

#define QUEUE_DEPTH 32u /* instructions waiting per pipe; S blocks on a full queue */
#define IN_FLIGHT   2u

typedef struct flight {
  uint32_t position;
  uint8_t step;
} flight;

typedef struct pipe_state {
  uint32_t queue[QUEUE_DEPTH];
  uint32_t head, count;
  flight fly[IN_FLIGHT];
  uint32_t flying;
} pipe_state;

typedef struct engine {
  const program *p;
  const rd_npu_launch *l;
  memory *mem;
  size_t next; /* what S issues next */
  pipe_state pipe[PIPES];
  bool flag[PIPES][PIPES][FLAG_IDS];
  bool lost_set;
  uint64_t random;
  uint32_t deferred[PIPES * IN_FLIGHT]; /* operations a deviation passed over: they go last */
  uint32_t deferred_count;
} engine;

typedef struct choice {
  uint8_t pipe, slot; /* pipe S: advance S */
  uint32_t position;
} choice;
#define MAX_CHOICES (PIPES * IN_FLIGHT + 1)

static bool l0c_overlap(const insn *a, const insn *b) {
  uint64_t ae = a->mad.dst + (uint64_t)a->mad.m * a->mad.n * type_size(a->type_dst);
  uint64_t be = b->mad.dst + (uint64_t)b->mad.m * b->mad.n * type_size(b->type_dst);
  return a->mad.dst < be && b->mad.dst < ae;
}

/* Hardware's own ordering within a pipe: the vector unit of A2 and 950, large products on M. */
static bool may_start(const engine *e, const pipe_state *q, const insn *i) {
  if (q->flying == IN_FLIGHT) return false;
  if (!q->flying) return true;
  if (i->pipe == RD_NPU_PIPE_V) return !rd_npu_arch_get(e->l->arch)->vector_in_order;
  if (i->op != OP_mad) return true;
  const insn *other = &e->p->list[q->fly[0].position];
  if (other->op != OP_mad || !l0c_overlap(other, i)) return true;
  uint32_t mine = rdn_units(i), theirs = rdn_units(other);
  return (mine < theirs ? mine : theirs) < 10;
}

/* Lets every queue head act that can. */
static void settle(engine *e) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (unsigned p = 1; p < PIPES; p++) {
      pipe_state *q = &e->pipe[p];
      while (q->count) {
        const insn *i = &e->p->list[q->queue[q->head]];
        if (i->op == OP_set_flag) {
          if (q->flying) break;
          bool *f = &e->flag[i->flag.src][i->flag.dst][i->flag.id];
          if (*f) e->lost_set = true;
          *f = true;
        } else if (i->op == OP_wait_flag) {
          bool *f = &e->flag[i->flag.src][i->flag.dst][i->flag.id];
          if (!*f) break;
          *f = false;
        } else if (i->op == OP_pipe_barrier) {
          if (q->flying) break;
        } else {
          if (!may_start(e, q, i)) break;
          q->fly[q->flying++] = (flight){q->queue[q->head], 0};
        }
        q->head = (q->head + 1) % QUEUE_DEPTH;
        q->count--;
        moved = true;
      }
    }
  }
}

static bool idle(const engine *e) {
  for (unsigned p = 1; p < PIPES; p++)
    if (e->pipe[p].count || e->pipe[p].flying) return false;
  return true;
}

static bool s_can_advance(const engine *e) {
  if (e->next == e->p->count) return false;
  const insn *i = &e->p->list[e->next];
  if (i->op == OP_wait_flag && i->pipe == RD_NPU_PIPE_S)
    return e->flag[i->flag.src][i->flag.dst][i->flag.id];
  if (i->op == OP_pipe_barrier && i->barrier.pipe == RD_NPU_PIPE_ALL) return idle(e);
  return i->pipe == RD_NPU_PIPE_S || e->pipe[i->pipe].count < QUEUE_DEPTH;
}

static void s_advance(engine *e) {
  const insn *i = &e->p->list[e->next];
  if (i->pipe != RD_NPU_PIPE_S) {
    pipe_state *q = &e->pipe[i->pipe];
    q->queue[(q->head + q->count++) % QUEUE_DEPTH] = (uint32_t)e->next;
  } else if (i->op == OP_set_flag) {
    bool *f = &e->flag[i->flag.src][i->flag.dst][i->flag.id];
    if (*f) e->lost_set = true;
    *f = true;
  } else if (i->op == OP_wait_flag) {
    e->flag[i->flag.src][i->flag.dst][i->flag.id] = false;
  } else if (i->op != OP_pipe_barrier && e->mem) {
    rdn_execute_all(e->mem, i);
  }
  e->next++;
}

static bool is_deferred(const engine *e, uint32_t position) {
  for (uint32_t n = 0; n < e->deferred_count; n++)
    if (e->deferred[n] == position) return true;
  return false;
}

static unsigned steps(const engine *e, choice *out, bool deferred) {
  unsigned n = 0;
  for (unsigned p = 1; p < PIPES; p++)
    for (unsigned s = 0; s < e->pipe[p].flying; s++) {
      choice c = {(uint8_t)p, (uint8_t)s, e->pipe[p].fly[s].position};
      if (is_deferred(e, c.position) != deferred) continue;
      unsigned at = n++;
      for (; at && out[at - 1].position > c.position; at--) out[at] = out[at - 1];
      out[at] = c;
    }
  return n;
}

/* Does S's next instruction touch memory?  Anything else it does early loses no order: what it
 * issues need not run, so an exhaustive search lets S run ahead without deciding about it. */
static bool s_decides(const engine *e) {
  return rdn_ops[e->p->list[e->next].op].class == CLASS_S_UB;
}

/* Oldest instruction first, then S, then what a deviation deferred: choice 0 is eager. */
static unsigned choices(const engine *e, choice out[MAX_CHOICES]) {
  unsigned n = steps(e, out, false);
  if (s_can_advance(e)) out[n++] = (choice){RD_NPU_PIPE_S, 0, (uint32_t)e->next};
  return n + (e->deferred_count ? steps(e, out + n, true) : 0);
}

/* A deviation: the operations passed over wait until nothing else can move. */
static void defer(engine *e, const choice *c, unsigned chosen) {
  for (unsigned n = 0; n < chosen; n++)
    if (c[n].pipe != RD_NPU_PIPE_S && !is_deferred(e, c[n].position) &&
        e->deferred_count < PIPES * IN_FLIGHT)
      e->deferred[e->deferred_count++] = c[n].position;
}

static void forget_deferred(engine *e, uint32_t position) {
  for (uint32_t n = 0; n < e->deferred_count; n++)
    if (e->deferred[n] == position) e->deferred[n--] = e->deferred[--e->deferred_count];
}

static void step(engine *e, unsigned p, unsigned slot) {
  pipe_state *q = &e->pipe[p];
  flight *f = &q->fly[slot];
  const insn *i = &e->p->list[f->position];
  uint32_t units = rdn_units(i), half = (units + 1) / 2;
  if (e->mem) rdn_execute(e->mem, i, f->step ? half : 0, f->step ? units : half);
  if (f->step++ == 0 && half < units) return;
  forget_deferred(e, f->position);
  q->fly[slot] = q->fly[--q->flying];
}

/* The pipe whose progress the held instruction of pipe p needs; PIPES when it is stuck. */
static unsigned needed_pipe(const engine *e, unsigned p) {
  for (unsigned depth = 0; depth < PIPES; depth++) {
    const pipe_state *q = &e->pipe[p];
    if (q->flying) return p;
    if (!q->count) return PIPES;
    const insn *i = &e->p->list[q->queue[q->head]];
    if (i->op != OP_wait_flag || i->flag.src == RD_NPU_PIPE_S) return PIPES;
    p = i->flag.src;
  }
  return PIPES;
}

/* A pipe runs only when something waits for it, and its youngest operation first. */
static unsigned lazy_choice(const engine *e, const choice *c, unsigned n) {
  if (c[n - 1].pipe == RD_NPU_PIPE_S) return n - 1;
  unsigned want = PIPES;
  if (e->next < e->p->count) {
    const insn *i = &e->p->list[e->next];
    if (i->op == OP_wait_flag && i->pipe == RD_NPU_PIPE_S && i->flag.src != RD_NPU_PIPE_S)
      want = needed_pipe(e, i->flag.src);
    else if (i->pipe != RD_NPU_PIPE_S)
      want = needed_pipe(e, i->pipe);
  }
  for (unsigned p = PIPES - 1; want == PIPES && p > 0; p--)
    if (e->pipe[p].flying) want = p;
  for (unsigned k = n; k-- > 0;)
    if (c[k].pipe == want) return k;
  return 0;
}

static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static unsigned choose(engine *e, schedule *s, const choice *c, unsigned n) {
  switch (s->kind) {
  case RD_NPU_LAZY:
    return lazy_choice(e, c, n);
  case RD_NPU_RANDOM:
    return (unsigned)(next_random(&e->random) % n);
  case RD_NPU_EXHAUSTIVE: {
    uint32_t d = s->decisions++;
    if (d < s->options_capacity) s->options[d] = (uint8_t)n;
    for (uint32_t k = 0; k < s->script_count; k++)
      if (s->script[k].at == d && s->script[k].choice < n) {
        defer(e, c, s->script[k].choice);
        return s->script[k].choice;
      }
    return 0;
  }
  default:
    return 0;
  }
}

static void stuck_text(const engine *e, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (unsigned p = 0; p < PIPES; p++) {
    const pipe_state *q = &e->pipe[p];
    size_t position = p ? (q->count ? q->queue[q->head] : SIZE_MAX) : e->next;
    if (position >= e->p->count) continue;
    const insn *i = &e->p->list[position];
    char where[200], flag[64] = "";
    rdn_site_text(e->p, i->site, where, sizeof where);
    if (i->op == OP_wait_flag)
      snprintf(flag, sizeof flag, " for flag %s_%s %u", rd_npu_pipe_name(i->flag.src),
               rd_npu_pipe_name(i->flag.dst), i->flag.id);
    else if (i->op == OP_pipe_barrier)
      snprintf(flag, sizeof flag, "(%s)", rd_npu_pipe_name(i->barrier.pipe));
    int n = snprintf(text + used, size - used, "%s%s at %s%s (%s)", used ? "; " : "",
                     rd_npu_pipe_name(p), rdn_ops[i->op].name, flag, where);
    if (n < 0 || (size_t)n >= size - used) return;
    used += (size_t)n;
  }
}

replay_end rdn_replay(const program *p, const rd_npu_launch *l, memory *mem, schedule *s,
                      char *text, size_t size) {
  engine e;
  memset(&e, 0, sizeof e);
  e.p = p, e.l = l, e.mem = mem, e.random = s->seed;
  if (mem && !rdn_memory_regs(mem, p->regs)) return REPLAY_NO_MEMORY;
  s->decisions = 0;
  for (;;) {
    settle(&e);
    while (s->kind == RD_NPU_EXHAUSTIVE && s_can_advance(&e) && !s_decides(&e)) {
      s_advance(&e);
      settle(&e);
    }
    choice c[MAX_CHOICES];
    unsigned n = choices(&e, c);
    if (!n) break;
    unsigned k = n == 1 && s->kind != RD_NPU_EXHAUSTIVE ? 0 : choose(&e, s, c, n);
    if (c[k].pipe == RD_NPU_PIPE_S)
      s_advance(&e);
    else
      step(&e, c[k].pipe, c[k].slot);
  }
  if (e.next < p->count || !idle(&e)) {
    if (text) stuck_text(&e, text, size);
    return REPLAY_STUCK;
  }
  return e.lost_set ? REPLAY_LOST_SET : REPLAY_DONE;
}

void rdn_replay_plain(const program *p, memory *mem) {
  for (size_t n = 0; n < p->count; n++) rdn_execute_all(mem, &p->list[n]);
}
