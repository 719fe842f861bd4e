/*
 * Flags are counters, one per (src, dst, id): a set adds one when everything before it in its queue
 * has run, a wait holds its queue until there is one to take.  Each counter has one producer and one
 * consumer, and the queues are in order, so what runs and what hangs does not depend on the order
 * chosen here: the oldest instruction that can go, goes.  Where no wait is ahead of its set, that is
 * program order.
 */
#include "npu/check/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rdn_order_init(rdn_order *o, rdn_order_go *go, void *user) {
  memset(o, 0, sizeof *o);
  o->go = go;
  o->user = user;
}

void rdn_order_reset(rdn_order *o) {
  rdn_order fresh;
  rdn_order_init(&fresh, o->go, o->user);
  for (unsigned p = 0; p < PIPES; p++) {
    fresh.pipe[p].list = o->pipe[p].list;
    fresh.pipe[p].capacity = o->pipe[p].capacity;
  }
  *o = fresh;
}

void rdn_order_free(rdn_order *o) {
  for (unsigned p = 0; p < PIPES; p++) free(o->pipe[p].list);
  memset(o, 0, sizeof *o);
}

static const held_insn *head_of(const held_queue *q) { return &q->list[q->head]; }

static bool push(held_queue *q, const held_insn *h) {
  if (q->count == q->capacity) {
    uint32_t capacity = q->capacity ? q->capacity * 2 : 16;
    held_insn *list = realloc(q->list, capacity * sizeof *list);
    if (!list) return false;
    if (q->head) memcpy(list + q->capacity, list, q->head * sizeof *list); /* what had wrapped */
    /* No leak: the analyzer takes two pipes' queues for one. */
    q->list = list, q->capacity = capacity; /* NOLINT(clang-analyzer-unix.Malloc) */
  }
  q->list[(q->head + q->count++) % q->capacity] = *h;
  return true;
}

static bool can_go(const rdn_order *o, const insn *i) {
  if (i->op == OP_wait_flag) return o->flag[i->flag.src][i->flag.dst][i->flag.id] > 0;
  if (i->op == OP_pipe_barrier && i->barrier.pipe == RD_NPU_PIPE_ALL) return o->held == 0;
  return true;
}

static void run(rdn_order *o, const held_insn *h) {
  const insn *i = &h->i;
  if (i->op == OP_wait_flag) o->flag[i->flag.src][i->flag.dst][i->flag.id]--;
  if (i->op == OP_set_flag) o->flag[i->flag.src][i->flag.dst][i->flag.id]++;
  o->go(o->user, i, h->position, h->tag);
}

/* A set has run: whatever was held for it, and so on, oldest first. */
static void release(rdn_order *o) {
  for (;;) {
    held_queue *oldest = NULL;
    for (unsigned p = 1; p < PIPES; p++) {
      held_queue *q = &o->pipe[p];
      if (!q->count || !can_go(o, &head_of(q)->i)) continue;
      if (!oldest || head_of(q)->position < head_of(oldest)->position) oldest = q;
    }
    if (!oldest) return;
    held_insn h = *head_of(oldest);
    oldest->head = (oldest->head + 1) % oldest->capacity;
    oldest->count--;
    o->held--;
    run(o, &h);
  }
}

void rdn_order_issue(rdn_order *o, const insn *i, uint32_t position, uint64_t tag) {
  if (o->s_stuck) {
    if (i->op == OP_set_flag) {
      uint32_t *where = &o->never_set[i->flag.src][i->flag.dst][i->flag.id];
      if (!*where) *where = i->site;
    }
    return;
  }
  held_insn h = {*i, position, tag};
  held_queue *q = &o->pipe[i->pipe];
  if (!q->count && can_go(o, i)) {
    run(o, &h);
    if (o->held && i->op == OP_set_flag) release(o);
    return;
  }
  if (i->pipe == RD_NPU_PIPE_S) {
    o->s_stuck = true;
    o->s = h;
    return;
  }
  if (!push(q, &h)) {
    o->failed = true;
    return;
  }
  o->held++;
  if (q->count > o->deepest) {
    o->deepest = q->count;
    if (o->deepest == QUEUE_DEPTH + 1) o->deepest_by = *i;
  }
}

bool rdn_order_hangs(const rdn_order *o) { return o->s_stuck || o->held; }

/* The set that a held wait needs: in a queue behind another wait, or never reached by S. */
static bool hanging_set(const rdn_order *o, const insn *wait, raw_access *set, const char **why) {
  const held_queue *q = &o->pipe[wait->flag.src];
  *set = (raw_access){.pipe = wait->flag.src, .op = OP_set_flag, .begin = wait->flag.id};
  for (uint32_t n = 0; n < q->count; n++) {
    const insn *i = &q->list[(q->head + n) % q->capacity].i;
    if (i->op != OP_set_flag || i->flag.dst != wait->flag.dst || i->flag.id != wait->flag.id)
      continue;
    set->site = i->site;
    *why = "held behind another wait";
    return true;
  }
  set->site = o->never_set[wait->flag.src][wait->flag.dst][wait->flag.id];
  *why = set->site ? "issued only after S hangs" : "none issued";
  return set->site != 0;
}

static bool report_wait(const rdn_order *o, const insn *i, finding_list *f) {
  raw_access a = {.pipe = i->pipe, .op = OP_wait_flag, .site = i->site, .begin = i->flag.id}, b;
  const char *set;
  bool found = hanging_set(o, i, &b, &set);
  char why[160];
  snprintf(why, sizeof why, "%s waits for flag %s_%s %u, the set that would satisfy it: %s",
           rd_npu_pipe_name(i->pipe), rd_npu_pipe_name(i->flag.src), rd_npu_pipe_name(i->flag.dst),
           i->flag.id, set);
  return rdn_finding_add(f, RD_NPU_DEADLOCK, &a, found ? &b : NULL, why) != NULL;
}

bool rdn_order_report(const rdn_order *o, finding_list *f) {
  bool ok = true;
  if (o->s_stuck && o->s.i.op == OP_wait_flag) ok = report_wait(o, &o->s.i, f);
  for (unsigned p = 1; p < PIPES && ok; p++)
    if (o->pipe[p].count) ok = report_wait(o, &head_of(&o->pipe[p])->i, f);
  return ok;
}

bool rdn_order_program(const program *p, rdn_order_go *go, void *user) {
  rdn_order o;
  rdn_order_init(&o, go, user);
  for (size_t n = 0; n < p->count && !o.failed; n++)
    rdn_order_issue(&o, &p->list[n], (uint32_t)n, 0);
  bool ok = !o.failed;
  rdn_order_free(&o);
  return ok;
}
