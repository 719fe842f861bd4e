/*
 * The checker: happens-before, flag discipline and initialisation, one instruction at a time in
 * program order.  It needs no values and no schedule.
 *
 * Clocks.  VC_p[q] = i says: the next instruction of pipe p starts after instructions 1..i of pipe
 * q have finished.  That holds for q = p too: a pipe's own entry advances only by a barrier or by
 * acquiring a clock that carries it.  S issues, so what S has waited for reaches every later
 * instruction; S's own UB accesses (its entry [S]) travel by S_x events and barrier ALL only.
 *
 * Shadow.  Per 32-byte granule access records {pipe, index, byte mask, write} and a byte mask
 * of what is initialised.  A new write covers older records (whatever is ordered after it is
 * ordered after them, or their race has been reported); a new read covers older reads of its own
 * pipe.
 */
#include "shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct op_note { /* what a later report needs to know of an earlier instruction */
  uint32_t site, position;
  uint32_t fractals; /* of a mad */
  uint8_t op;
} op_note;

typedef struct pending_set {
  vclock released;
  uint32_t site;
} pending_set;

typedef struct flag_state {
  pending_set *queue; /* sets not yet waited for, oldest at head */
  uint32_t head, count, capacity;
  uint32_t last_wait; /* index in dst's queue of the newest wait, 0 = none */
  uint32_t last_wait_site;
} flag_state;

typedef struct lost_wait {
  uint8_t src, dst, id;
  uint32_t site, position;
  uint32_t later_set; /* site of a set issued afterwards */
} lost_wait;
#define LOST_WAITS 8

struct checker {
  const rd_npu_launch *launch;
  const rd_npu_arch_info *arch;
  shadow shadow;
  vclock vc[PIPES], now;
  uint32_t last[PIPES];  /* newest instruction of each pipe */
  op_note *notes[PIPES]; /* by index */
  uint32_t note_capacity[PIPES];
  flag_state flags[PIPES][PIPES][FLAG_IDS];
  lost_wait lost[LOST_WAITS];
  uint32_t lost_count;
  range_set *written, *read; /* per GM tensor that can be written */
  bool failed;
};

static void join(vclock *into, const vclock *from) {
  for (unsigned p = 0; p < PIPES; p++)
    if (from->at[p] > into->at[p]) into->at[p] = from->at[p];
}

checker *rdn_checker_new(const rd_npu_launch *l) {
  checker *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->launch = l;
  k->arch = rd_npu_arch_get(l->arch);
  k->written = calloc(l->tensor_count + 1, sizeof *k->written);
  k->read = calloc(l->tensor_count + 1, sizeof *k->read);
  if (!k->written || !k->read || !rdn_shadow_init(&k->shadow, l)) {
    rdn_checker_free(k);
    return NULL;
  }
  return k;
}

static void free_ranges(checker *k) {
  for (uint32_t t = 0; t < k->launch->tensor_count; t++) {
    if (k->written) free(k->written[t].list), k->written[t] = (range_set){0};
    if (k->read) free(k->read[t].list), k->read[t] = (range_set){0};
  }
}

void rdn_checker_reset(checker *k) {
  rdn_shadow_reset(&k->shadow);
  free_ranges(k);
  memset(k->vc, 0, sizeof k->vc);
  memset(&k->now, 0, sizeof k->now);
  memset(k->last, 0, sizeof k->last);
  for (unsigned a = 0; a < PIPES; a++)
    for (unsigned b = 0; b < PIPES; b++)
      for (unsigned id = 0; id < FLAG_IDS; id++) {
        flag_state *s = &k->flags[a][b][id];
        s->head = s->count = s->last_wait = 0;
      }
  k->lost_count = 0;
  k->failed = false;
}

void rdn_checker_free(checker *k) {
  if (!k) return;
  free_ranges(k);
  free(k->written);
  free(k->read);
  rdn_shadow_free(&k->shadow);
  for (unsigned a = 0; a < PIPES; a++) {
    free(k->notes[a]);
    for (unsigned b = 0; b < PIPES; b++)
      for (unsigned id = 0; id < FLAG_IDS; id++) free(k->flags[a][b][id].queue);
  }
  free(k);
}

const vclock *rdn_checker_clock(const checker *k) { return &k->now; }
bool rdn_checker_failed(const checker *k) { return k->failed; }

const range_set *rdn_checker_ranges(const checker *k, uint32_t tensor, bool writes) {
  return writes ? &k->written[tensor] : &k->read[tensor];
}

static void note(checker *k, const insn *i, uint32_t position) {
  if (i->index >= k->note_capacity[i->pipe]) {
    uint32_t capacity = i->index * 2 + 256;
    op_note *n = realloc(k->notes[i->pipe], capacity * sizeof *n);
    if (!n) {
      k->failed = true;
      return;
    }
    k->notes[i->pipe] = n;
    k->note_capacity[i->pipe] = capacity;
  }
  uint32_t fractals = i->op == OP_mad ? (i->mad.m / 16) * (i->mad.n / 16) : 0;
  k->notes[i->pipe][i->index] = (op_note){i->site, position, fractals, i->op};
}

/* ---- reports of pairs
 * ----------------------------------------------------------------------------- */

typedef struct visit { /* one operand of the current instruction */
  checker *k;
  const insn *i;
  const operand *o;
  uint32_t position;
  finding_list *f;
  bool uninitialised;
} visit;

static raw_access access_of(const checker *k, unsigned pipe, uint32_t index) {
  const op_note *n = &k->notes[pipe][index];
  return (raw_access){.pipe = (uint8_t)pipe, .op = n->op, .site = n->site};
}

static void remember_pair(raw_finding *r, uint32_t a, uint32_t b) {
  if (!r || r->pairs == RAW_PAIRS) return;
  r->a[r->pairs] = a;
  r->b[r->pairs++] = b;
}

static void report_pair(visit *v, const shadow_entry *e, bool write, uint64_t begin, uint64_t end) {
  checker *k = v->k;
  raw_access a = access_of(k, e->pipe, e->index);
  raw_access b = {.pipe = v->i->pipe, .op = v->i->op, .site = v->i->site};
  a.buffer = b.buffer = v->o->buffer;
  a.tensor = b.tensor = v->o->tensor;
  a.begin = b.begin = begin;
  a.end = b.end = end;
  rd_npu_finding_kind kind = !e->write ? RD_NPU_RACE_WAR
                             : write   ? RD_NPU_RACE_WAW
                                       : RD_NPU_RACE_RAW;
  if (e->pipe == RD_NPU_PIPE_M && v->i->pipe == RD_NPU_PIPE_M && v->o->buffer == RD_NPU_L0C)
    kind = RD_NPU_ACCUMULATE;
  raw_finding *r = rdn_finding_add(v->f, kind, &a, &b, NULL);
  if (!r) {
    k->failed = true;
    return;
  }
  uint32_t at = k->notes[e->pipe][e->index].position;
  if (r->pairs && r->a[0] == at && r->b[0] == v->position && end > r->first.end)
    r->first.end = r->second.end = end; /* neighbouring granules of the first pair */
  if (r->pairs && r->last_a == at && r->last_b == v->position) {
    r->count--; /* the same pair again, another granule */
    return;
  }
  r->last_a = at;
  r->last_b = v->position;
  remember_pair(r, at, v->position);
}

static bool ordered(const visit *v, const shadow_entry *e) {
  const checker *k = v->k;
  unsigned pipe = v->i->pipe;
  if (k->now.at[e->pipe] >= e->index) return true;
  if (e->pipe != pipe) return false;
  if (pipe == RD_NPU_PIPE_S) return true;
  if (e->index == v->i->index) return true; /* the instruction's own read and write */
  if (pipe == RD_NPU_PIPE_V && k->arch->vector_in_order) return true;
  if (pipe == RD_NPU_PIPE_M && v->o->buffer == RD_NPU_L0C) {
    uint32_t mine = (v->i->mad.m / 16) * (v->i->mad.n / 16),
             theirs = k->notes[pipe][e->index].fractals;
    return (mine < theirs ? mine : theirs) >= 10;
  }
  return false;
}

/* ---- shadow of one operand
 * -------------------------------------------------------------------------- */

static void touch(visit *v, granule *g, uint32_t mask, uint64_t at, bool write) {
  for (granule *part = g; part; part = part->more)
    for (unsigned n = 0; n < part->count;) {
      shadow_entry *e = &part->entry[n];
      uint32_t common = e->mask & mask;
      if (common && (write || e->write) && !ordered(v, e)) {
        unsigned low = (unsigned)__builtin_ctz(common),
                 high = 32u - (unsigned)__builtin_clz(common);
        report_pair(v, e, write, at + low, at + high);
      }
      if (write || (!e->write && e->pipe == v->i->pipe)) e->mask &= ~mask;
      if (e->mask)
        n++;
      else
        *e = part->entry[--part->count];
    }
  shadow_entry *now = rdn_shadow_entry(&v->k->shadow, g);
  if (now)
    *now = (shadow_entry){.index = v->i->index, .mask = mask, .pipe = v->i->pipe, .write = write};
  else
    v->k->failed = true;
}

static void touch_granule(visit *v, uint64_t at, uint32_t mask) {
  granule *g = rdn_shadow_at(&v->k->shadow, v->o->buffer, v->o->tensor, at / GRANULE);
  if (!g) {
    v->k->failed = true;
    return;
  }
  if (v->o->access & READ) {
    if (v->o->access & CONSUME && (g->init & mask) != mask && !v->uninitialised) {
      uint32_t missing = mask & ~g->init;
      uint64_t first = at / GRANULE * GRANULE + (unsigned)__builtin_ctz(missing);
      raw_access a = {.pipe = v->i->pipe,
                      .op = v->i->op,
                      .site = v->i->site,
                      .buffer = v->o->buffer,
                      .tensor = v->o->tensor,
                      .begin = first,
                      .end = first + 1};
      rdn_finding_add(v->f, RD_NPU_UNINITIALISED, &a, NULL, NULL);
      v->uninitialised = true;
    }
    touch(v, g, mask, at / GRANULE * GRANULE, false);
  }
  if (v->o->access & WRITE) {
    touch(v, g, mask, at / GRANULE * GRANULE, true);
    g->init |= mask; /* moves correct this afterwards */
  }
}

static void touch_range(visit *v, uint64_t begin, uint64_t end) {
  while (begin < end) {
    uint64_t stop = (begin / GRANULE + 1) * GRANULE;
    if (stop > end) stop = end;
    uint32_t low = (uint32_t)(begin % GRANULE), n = (uint32_t)(stop - begin);
    uint32_t mask = n == 32 ? UINT32_MAX : ((1u << n) - 1) << low;
    touch_granule(v, begin, mask);
    begin = stop;
  }
}

static void touch_operand(visit *v) {
  const operand *o = v->o;
  if (o->buffer == RD_NPU_GM) {
    const rd_npu_tensor *t = &v->k->launch->tensors[o->tensor];
    if (!(t->mode & RD_NPU_OUT)) return; /* nothing can conflict or be missing */
    range_set *set = o->access & WRITE ? &v->k->written[o->tensor] : &v->k->read[o->tensor];
    for (uint64_t u = 0; u < o->units; u++) {
      range r = {o->base + u * o->stride, o->base + u * o->stride + o->bytes, v->i->site, v->i->op,
                 v->i->pipe};
      if (!rdn_ranges_add(set, r)) v->k->failed = true;
    }
  }
  if (!o->lanes) {
    if (!o->bytes) return;
    if (o->units && o->stride == o->bytes && (o->access & READ)) {
      touch_range(v, o->base, o->base + o->units * o->bytes); /* one run */
      return;
    }
    for (uint64_t u = 0; u < o->units; u++)
      touch_range(v, o->base + u * o->stride, o->base + u * o->stride + o->bytes);
    return;
  }
  unsigned blocks = o->lanes * o->elem / GRANULE;
  uint32_t mask[16];
  for (unsigned b = 0; b < blocks; b++) mask[b] = rdn_block_mask(o, b);
  for (uint64_t u = 0; u < o->units; u++) {
    if (u && o->stride == 0 && !(o->access & WRITE)) break; /* the same lanes again */
    for (unsigned b = 0; b < blocks; b++)
      if (mask[b]) touch_granule(v, o->base + u * o->stride + 32ull * b * o->blk, mask[b]);
  }
}

/* ---- control instructions
 * ----------------------------------------------------------------------------- */

static void step_set(checker *k, const insn *i, finding_list *f) {
  flag_state *s = &k->flags[i->flag.src][i->flag.dst][i->flag.id];
  unsigned dst = i->flag.dst;
  vclock released = k->now;
  released.at[i->pipe] = i->index;
  /* the k-th wait must happen-before the (k+1)-th set; a wait by S precedes all that S issues later
   */
  bool ordered_after = s->last_wait == 0 || dst == RD_NPU_PIPE_S || k->now.at[dst] >= s->last_wait;
  if (s->count || !ordered_after) {
    raw_access b = {.pipe = i->pipe, .op = OP_set_flag, .site = i->site, .begin = i->flag.id};
    raw_access a = {
        .pipe = (uint8_t)dst, .op = OP_wait_flag, .site = s->last_wait_site, .begin = i->flag.id};
    if (s->count) {
      a.pipe = i->flag.src, a.op = OP_set_flag;
      a.site = s->queue[(s->head + s->count - 1) % s->capacity].site;
    }
    char why[160];
    snprintf(
        why, sizeof why,
        "flag %s_%s %u may still be set when it is set again: missing edge %s_%s from the wait",
        rd_npu_pipe_name(i->flag.src), rd_npu_pipe_name(dst), i->flag.id, rd_npu_pipe_name(dst),
        rd_npu_pipe_name(i->flag.src));
    rdn_finding_add(f, RD_NPU_FLAG_REUSE, &a, &b, why);
  }
  for (uint32_t n = 0; n < k->lost_count; n++) {
    lost_wait *w = &k->lost[n];
    if (!w->later_set && w->src == i->flag.src && w->dst == dst && w->id == i->flag.id)
      w->later_set = i->site;
  }
  if (s->count == s->capacity) {
    uint32_t capacity = s->capacity ? s->capacity * 2 : 4;
    pending_set *q = calloc(capacity, sizeof *q);
    if (!q) {
      k->failed = true;
      return;
    }
    for (uint32_t n = 0; n < s->count; n++) q[n] = s->queue[(s->head + n) % s->capacity];
    free(s->queue);
    s->queue = q, s->head = 0, s->capacity = capacity;
  }
  s->queue[(s->head + s->count++) % s->capacity] = (pending_set){released, i->site};
}

static void step_wait(checker *k, const insn *i, uint32_t position) {
  flag_state *s = &k->flags[i->flag.src][i->flag.dst][i->flag.id];
  if (!s->count) {
    if (k->lost_count < LOST_WAITS)
      k->lost[k->lost_count++] =
          (lost_wait){i->flag.src, i->flag.dst, i->flag.id, i->site, position, 0};
    return;
  }
  join(&k->vc[i->pipe], &s->queue[s->head].released);
  s->head = (s->head + 1) % s->capacity;
  s->count--;
  s->last_wait = i->index;
  s->last_wait_site = i->site;
}

static void step_barrier(checker *k, const insn *i) {
  unsigned p = i->barrier.pipe;
  if (p != RD_NPU_PIPE_ALL) {
    k->vc[p].at[p] = i->index;
    return;
  }
  vclock all = k->vc[0];
  for (unsigned q = 0; q < PIPES; q++) {
    join(&all, &k->vc[q]);
    if (k->last[q] > all.at[q]) all.at[q] = k->last[q];
  }
  for (unsigned q = 0; q < PIPES; q++) k->vc[q] = all;
}

/* ---- the step
 * -------------------------------------------------------------------------------------------- */

void rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f) {
  if (k->failed) return;
  unsigned p = i->pipe;
  uint32_t own = k->vc[p].at[RD_NPU_PIPE_S];
  if (p != RD_NPU_PIPE_S) { /* issue inherits what S acquired, not S's own accesses */
    join(&k->vc[p], &k->vc[RD_NPU_PIPE_S]);
    k->vc[p].at[RD_NPU_PIPE_S] = own;
  }
  k->last[p] = i->index;
  k->now = k->vc[p];
  note(k, i, position);
  if (k->failed) return;
  if (i->op == OP_set_flag) {
    step_set(k, i, f);
    return;
  }
  if (i->op == OP_wait_flag) {
    step_wait(k, i, position);
    return;
  }
  if (i->op == OP_pipe_barrier) {
    step_barrier(k, i);
    return;
  }
  operand o[MAX_OPERANDS];
  unsigned count = rdn_operands(i, o);
  visit v = {.k = k, .i = i, .position = position, .f = f};
  for (unsigned pass = 0; pass < 2; pass++) /* all reads come before all writes */
    for (unsigned n = 0; n < count; n++) {
      operand part = o[n];
      part.access &= (uint8_t)(pass ? WRITE : READ | CONSUME);
      if (!part.access) continue;
      v.o = &part;
      v.uninitialised = false;
      touch_operand(&v);
    }
  if (rdn_moves(i) && !rdn_shadow_move(&k->shadow, i, &o[0], &o[1])) k->failed = true;
}

static void report_lost(checker *k, finding_list *f) {
  for (uint32_t n = 0; n < k->lost_count; n++) {
    const lost_wait *w = &k->lost[n];
    raw_access a = {.pipe = w->dst, .op = OP_wait_flag, .site = w->site, .begin = w->id};
    raw_access b = {.pipe = w->src, .op = OP_set_flag, .site = w->later_set, .begin = w->id};
    char why[160];
    snprintf(why, sizeof why, "%s waits for flag %s_%s %u, the set that would satisfy it: %s",
             rd_npu_pipe_name(w->dst), rd_npu_pipe_name(w->src), rd_npu_pipe_name(w->dst), w->id,
             w->later_set ? "issued only after the wait" : "none issued");
    raw_finding *r = rdn_finding_add(f, RD_NPU_DEADLOCK, &a, w->later_set ? &b : NULL, why);
    remember_pair(r, w->position, w->position);
  }
}

void rdn_checker_finish(checker *k, finding_list *f) {
  if (k->failed) return;
  report_lost(k, f);
  for (unsigned a = 0; a < PIPES; a++)
    for (unsigned b = 0; b < PIPES; b++)
      for (unsigned id = 0; id < FLAG_IDS; id++) {
        flag_state *s = &k->flags[a][b][id];
        for (uint32_t n = 0; n < s->count; n++) {
          raw_access set = {.pipe = (uint8_t)a,
                            .op = OP_set_flag,
                            .site = s->queue[(s->head + n) % s->capacity].site,
                            .begin = id};
          char why[120];
          snprintf(why, sizeof why, "flag %s_%s %u is still set when the kernel ends",
                   rd_npu_pipe_name(a), rd_npu_pipe_name(b), id);
          rdn_finding_add(f, RD_NPU_LEFTOVER_FLAG, &set, NULL, why);
        }
      }
  const vclock *s = &k->vc[RD_NPU_PIPE_S];
  for (unsigned p = 1; p < PIPES; p++) {
    if (k->last[p] <= s->at[p]) continue;
    raw_access a = access_of(k, p, k->last[p]);
    char why[120];
    snprintf(why, sizeof why,
             "%s may still be running when the kernel ends: pipe_barrier(ALL) is missing",
             rd_npu_pipe_name(p));
    rdn_finding_add(f, RD_NPU_LEFTOVER_OP, &a, NULL, why);
  }
}
