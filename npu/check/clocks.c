/*
 * VC_p[q] = i says: the next instruction of pipe p starts after instructions 1..i of pipe q have
 * finished.  That holds for q = p too.  A set releases its pipe's clock at its completion, the k-th
 * wait of a flag acquires the k-th set's.
 *
 * S issues, so what S had waited for when it issued an instruction reaches that instruction - not
 * what S waited for since, should the instruction have been held.  S's own memory accesses (its
 * entry [S]) are part of that once they came back to S: S_x, then x_S, or barrier ALL.
 */
#include "npu/check/clocks.h"

#include <stdlib.h>
#include <string.h>

static void join(vclock *into, const vclock *from) {
  for (unsigned p = 0; p < PIPES; p++)
    if (from->at[p] > into->at[p]) into->at[p] = from->at[p];
  if (from->waited > into->waited) into->waited = from->waited;
}

static bool push(clock_queue *q, const vclock *v) {
  if (q->count == q->capacity) {
    uint32_t capacity = q->capacity ? q->capacity * 2 : 4;
    vclock *list = malloc(capacity * sizeof *list);
    if (!list) return false;
    for (uint32_t n = 0; n < q->count; n++) list[n] = q->list[(q->head + n) % q->capacity];
    free(q->list);
    q->list = list, q->head = 0, q->capacity = capacity;
  }
  q->list[(q->head + q->count++) % q->capacity] = *v;
  return true;
}

/* S has acquired something: instructions issued from now on inherit it. */
static void inherit(rdn_clocks *c) {
  if (!c->order.held) c->issues = 0; /* nobody needs the older ones */
  if (c->issues == c->issue_capacity) {
    size_t capacity = c->issue_capacity ? c->issue_capacity * 2 : 16;
    vclock *list = realloc(c->issue, capacity * sizeof *list);
    if (!list) {
      c->failed = true;
      return;
    }
    c->issue = list;
    c->issue_capacity = capacity;
  }
  c->issue[c->issues++] = c->vc[RD_NPU_PIPE_S];
}

static void barrier(rdn_clocks *c, const insn *i) {
  unsigned p = i->barrier.pipe;
  if (p != RD_NPU_PIPE_ALL) {
    c->vc[p].at[p] = i->index;
    return;
  }
  vclock all = c->vc[0];
  for (unsigned q = 0; q < PIPES; q++) {
    join(&all, &c->vc[q]);
    if (c->last[q] > all.at[q]) all.at[q] = c->last[q];
  }
  for (unsigned q = 0; q < PIPES; q++) c->vc[q] = all;
}

static void go(void *user, const insn *i, uint32_t position, uint64_t tag) {
  rdn_clocks *c = user;
  unsigned p = i->pipe;
  if (c->failed) return;
  if (p != RD_NPU_PIPE_S && tag) join(&c->vc[p], &c->issue[tag - 1]);
  c->last[p] = i->index;
  vclock now = c->vc[p];
  c->go(c->user, i, position, &now);
  if (i->op == OP_set_flag) {
    now.at[p] = i->index;
    if (!push(&c->flags[i->flag.src][i->flag.dst][i->flag.id], &now)) c->failed = true;
  } else if (i->op == OP_wait_flag) {
    clock_queue *q = &c->flags[i->flag.src][i->flag.dst][i->flag.id];
    join(&c->vc[p], &q->list[q->head]);
    q->head = (q->head + 1) % q->capacity;
    q->count--;
  } else if (i->op == OP_pipe_barrier)
    barrier(c, i);
  else
    return;
  if (p != RD_NPU_PIPE_S || i->op == OP_set_flag) return;
  c->vc[RD_NPU_PIPE_S].waited = i->index;
  inherit(c);
}

void rdn_clocks_init(rdn_clocks *c, rdn_clocks_go *callback, void *user) {
  memset(c, 0, sizeof *c);
  c->go = callback;
  c->user = user;
  rdn_order_init(&c->order, go, c);
}

void rdn_clocks_reset(rdn_clocks *c) {
  rdn_order_reset(&c->order);
  memset(c->vc, 0, sizeof c->vc);
  memset(c->last, 0, sizeof c->last);
  clock_queue *q = &c->flags[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_SLOTS; n++) q[n].head = q[n].count = 0;
  c->issues = 0;
  c->failed = false;
}

void rdn_clocks_free(rdn_clocks *c) {
  rdn_order_free(&c->order);
  clock_queue *q = &c->flags[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_SLOTS; n++) free(q[n].list);
  free(c->issue);
  memset(c, 0, sizeof *c);
}

void rdn_clocks_issue(rdn_clocks *c, const insn *i, uint32_t position) {
  rdn_order_issue(&c->order, i, position, c->issues); /* 0: S has acquired nothing yet */
}

bool rdn_clocks_failed(const rdn_clocks *c) { return c->failed || c->order.failed; }
