/*
 * The scheduler: runs a recorded program under an order the rules allow.
 *
 * S moves instructions into per-pipe queues, which hold 32 (or what the program is known to need).  A
 * pipe keeps at most two operations in flight and each has two steps (halves of its units); waits
 * and barriers act as soon as they reach the head of their queue and their condition holds, sets as
 * soon as what was before them has finished, holding up nothing behind them.  That loses no order:
 * delaying them delays only what follows.  What is left to decide is which step comes next, or
 * whether S goes on.
 *
 * Eager (and every exhaustive schedule without deviations) steps the oldest instruction first,
 * which gives the values of the reference order.
 */
#include "npu/schedule/scheduler.h"
#include "npu/check/order.h"
#include "npu/isa/instruction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 2u

typedef struct flight {
  uint32_t position;
  uint8_t step;
} flight;

/* A set at the head of its queue while operations before it are in flight: it fires when those have
 * finished and holds up nothing, so what is queued behind it may start meanwhile. */
typedef struct late_set {
  uint32_t position;
  uint32_t awaits[IN_FLIGHT], count; /* positions */
} late_set;

typedef struct pipe_state {
  uint32_t *queue;      /* positions of all its instructions, in order */
  uint32_t head, count; /* issued and not started */
  flight fly[IN_FLIGHT];
  uint32_t flying;
  late_set *late; /* in order, room for depth; they keep their places in the queue's depth */
  uint32_t late_count;
} pipe_state;

typedef struct engine {
  const program *p;
  memory *mem;
  size_t next; /* what S issues next */
  pipe_state pipe[PIPES];
  uint32_t depth; /* of the queues; S blocks on a full one */
  uint32_t flag[PIPES][PIPES][FLAG_SLOTS];
  rdn_rules rules;
  bool lost_set;
  uint32_t lost; /* position of that set */
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
  const insn *other = &e->p->list[q->fly[0].position];
  if (i->pipe == RD_NPU_PIPE_V && e->rules.vector_inserted) return !rdn_meet_in_ub(other, i);
  if (i->pipe == RD_NPU_PIPE_V) return !e->rules.vector_in_order;
  if (i->op != OP_mad) return true;
  if (other->op != OP_mad || !l0c_overlap(other, i)) return true;
  uint32_t mine = rdn_units(i), theirs = rdn_units(other);
  return (mine < theirs ? mine : theirs) < 10;
}

static void fire(engine *e, const insn *i) {
  uint32_t *f = &e->flag[i->flag.src][i->flag.dst][i->flag.id];
  if (e->rules.binary_flags && *f && i->flag.id < FLAG_IDS) {
    if (!e->lost_set) e->lost_set = true, e->lost = (uint32_t)(i - e->p->list);
  } else
    ++*f;
}

/* What a later set awaits includes what an earlier one still does, so they fire in order. */
static void finished(engine *e, pipe_state *q, uint32_t position) {
  uint32_t left = 0;
  for (uint32_t n = 0; n < q->late_count; n++) {
    late_set s = q->late[n];
    for (uint32_t k = 0; k < s.count; k++)
      if (s.awaits[k] == position) s.awaits[k--] = s.awaits[--s.count];
    if (s.count)
      q->late[left++] = s;
    else
      fire(e, &e->p->list[s.position]);
  }
  q->late_count = left;
}

static void set_late(pipe_state *q, uint32_t position) {
  late_set s = {position, {0}, 0};
  for (uint32_t n = 0; n < q->flying; n++) s.awaits[s.count++] = q->fly[n].position;
  q->late[q->late_count++] = s;
}

static bool take_flag(engine *e, const insn *i) {
  uint32_t *f = &e->flag[i->flag.src][i->flag.dst][i->flag.id];
  if (!*f) return false;
  --*f;
  return true;
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
          if (q->flying)
            set_late(q, q->queue[q->head]);
          else
            fire(e, i);
        } else if (i->op == OP_wait_flag) {
          if (!take_flag(e, i)) break;
        } else if (i->op == OP_pipe_barrier) {
          if (q->flying) break;
        } else {
          if (!may_start(e, q, i)) break;
          q->fly[q->flying++] = (flight){q->queue[q->head], 0};
        }
        q->head++;
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

/* With synchronisation by the compiler S waits for what it depends on directly. */
static bool stalled(const engine *e, const insn *i) {
  for (unsigned p = 1; p < PIPES; p++) {
    const pipe_state *q = &e->pipe[p];
    if (!rdn_scalar_pair(RD_NPU_PIPE_S, p)) continue;
    for (uint32_t n = 0; n < q->flying; n++)
      if (rdn_meet_in_ub(&e->p->list[q->fly[n].position], i)) return true;
    for (uint32_t n = 0; n < q->count; n++)
      if (rdn_meet_in_ub(&e->p->list[q->queue[q->head + n]], i)) return true;
  }
  return false;
}

static bool s_can_advance(const engine *e) {
  if (e->next == e->p->count) return false;
  const insn *i = &e->p->list[e->next];
  if (i->op == OP_wait_flag && i->pipe == RD_NPU_PIPE_S)
    return e->flag[i->flag.src][i->flag.dst][i->flag.id] > 0;
  if (i->op == OP_pipe_barrier && i->barrier.pipe == RD_NPU_PIPE_ALL) return idle(e);
  if (i->pipe == RD_NPU_PIPE_S)
    return !e->rules.scalar_sync || !(rdn_ops[i->op].traits & S_MEMORY) || !stalled(e, i);
  return e->pipe[i->pipe].count + e->pipe[i->pipe].late_count < e->depth;
}

static void s_advance(engine *e) {
  const insn *i = &e->p->list[e->next];
  if (i->pipe != RD_NPU_PIPE_S) {
    e->pipe[i->pipe].count++;
  } else if (i->op == OP_set_flag) {
    fire(e, i);
  } else if (i->op == OP_wait_flag) {
    take_flag(e, i);
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
static bool s_decides(const engine *e) { return rdn_ops[e->p->list[e->next].op].traits & S_MEMORY; }

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
  uint32_t position = f->position;
  forget_deferred(e, position);
  q->fly[slot] = q->fly[--q->flying];
  finished(e, q, position);
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

/* Each pipe's late sets and instructions, all in one block that the caller frees; NULL: no memory. */
static void *make_queues(engine *e) {
  size_t late = PIPES * (size_t)e->depth * sizeof(late_set);
  char *block = malloc(late + (e->p->count + 1) * sizeof(uint32_t));
  uint32_t total[PIPES] = {0}, at = 0;
  if (!block) return NULL;
  for (size_t n = 0; n < e->p->count; n++) total[e->p->list[n].pipe]++;
  for (unsigned p = 0; p < PIPES; p++) {
    e->pipe[p].late = (late_set *)(void *)block + (size_t)p * e->depth;
    e->pipe[p].queue = (uint32_t *)(void *)(block + late) + at, at += total[p];
  }
  memset(total, 0, sizeof total);
  for (size_t n = 0; n < e->p->count; n++) {
    unsigned p = e->p->list[n].pipe;
    e->pipe[p].queue[total[p]++] = (uint32_t)n;
  }
  return block;
}

/* A wait that is held, or whatever else is. */
static uint32_t held_position(const engine *e) {
  uint32_t held = (uint32_t)e->next;
  for (unsigned p = 1; p < PIPES; p++) {
    const pipe_state *q = &e->pipe[p];
    if (!q->count) continue;
    held = q->queue[q->head];
    if (e->p->list[held].op == OP_wait_flag) break;
  }
  return held;
}

static void run_engine(engine *e, schedule *s) {
  for (;;) {
    settle(e);
    while (s->kind == RD_NPU_EXHAUSTIVE && s_can_advance(e) && !s_decides(e)) {
      s_advance(e);
      settle(e);
    }
    choice c[MAX_CHOICES];
    unsigned n = choices(e, c);
    if (!n) return;
    unsigned k = n == 1 && s->kind != RD_NPU_EXHAUSTIVE ? 0 : choose(e, s, c, n);
    if (c[k].pipe == RD_NPU_PIPE_S)
      s_advance(e);
    else
      step(e, c[k].pipe, c[k].slot);
    if (e->mem && e->mem->differs.found) return;
  }
}

replay_end rdn_replay(const program *p, memory *mem, schedule *s, char *text, size_t size) {
  engine e;
  memset(&e, 0, sizeof e);
  e.p = p, e.mem = mem, e.random = s->seed, e.rules = s->rules;
  e.depth = p->depth > QUEUE_DEPTH ? p->depth : QUEUE_DEPTH;
  if (mem && !rdn_memory_regs(mem, p->regs)) return REPLAY_NO_MEMORY;
  void *queues = make_queues(&e);
  if (!queues) return REPLAY_NO_MEMORY;
  s->decisions = 0;
  run_engine(&e, s);
  replay_end end = e.lost_set ? REPLAY_LOST_SET : REPLAY_DONE;
  s->held = e.lost;
  if (mem && mem->differs.found)
    end = REPLAY_DIFFERS;
  else if (e.next < p->count || !idle(&e)) {
    if (text) stuck_text(&e, text, size);
    s->held = held_position(&e);
    end = REPLAY_STUCK;
  }
  free(queues);
  return end;
}

static void execute(void *user, const insn *i, uint32_t position, uint64_t tag) {
  memory *m = user;
  (void)position, (void)tag;
  if (!m->differs.found) rdn_execute_all(m, i);
}

bool rdn_replay_plain(const program *p, memory *mem) { return rdn_order_program(p, execute, mem); }
