/*
 * The checker: races, flag discipline and initialisation.  It is given the instructions of a program
 * in program order and judges their accesses in reference order (order.h) under their clocks
 * (clocks.h); it needs no values and no schedule.
 *
 * Shadow.  Per 32-byte granule access records {pipe, index, byte mask, write} and a byte mask
 * of what is initialised.  An access is first compared with what is recorded, by all operands of
 * its instruction, and only then recorded: the instruction's own read must not hide an older read
 * from its own write.  A record is dropped when its pipe, or a clock, puts it before an access that
 * stands for it: a write for any, a read for a read of its own pipe.  So every unordered pair of a
 * byte is found, up to LIVE_RECORDS of a granule; beyond that a pipe's newest stands for its older
 * ones, which is in order with whatever comes after the newest is: a pair may go unnamed then, no
 * kernel without order goes unreported.
 *
 * What the compiler inserts (rules.h) orders two accesses and nothing else: it is asked about a pair
 * of overlapping accesses and moves no clock.
 */
#include "npu/check/checker.h"
#include "npu/check/flags.h"
#include "npu/check/scalar_gm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct op_note { /* what a later report needs to know of an earlier instruction */
  uint32_t site, position;
  uint32_t fractals; /* of a mad */
  uint8_t op;
} op_note;

struct checker {
  const rd_npu_launch *launch;
  const rd_npu_arch_info *arch;
  shadow shadow;
  rdn_rules rules;
  rdn_clocks clocks;
  rdn_flags flags;
  vclock now;
  finding_list *found; /* the caller's, during a step */
  finding_list notes;
  op_note *ran[PIPES]; /* by index */
  uint32_t note_capacity[PIPES];
  range_set *ranges[RANGES]; /* per GM tensor that can be written */
  scalar_gm lines;
  bool failed;
};

static void go(void *user, const insn *i, uint32_t position, const vclock *now);

checker *rdn_checker_new(const rd_npu_launch *l, rdn_rules rules) {
  checker *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->launch = l;
  k->arch = rd_npu_arch_get(l->arch);
  k->rules = rules;
  rdn_clocks_init(&k->clocks, go, k);
  bool ok = true;
  for (unsigned r = 0; r < RANGES; r++) {
    k->ranges[r] = calloc(l->tensor_count + 1, sizeof *k->ranges[r]);
    ok = ok && k->ranges[r];
  }
  if (!ok || !rdn_shadow_init(&k->shadow, l)) {
    rdn_checker_free(k);
    return NULL;
  }
  return k;
}

static void free_ranges(checker *k) {
  for (unsigned r = 0; r < RANGES; r++)
    for (uint32_t t = 0; k->ranges[r] && t < k->launch->tensor_count; t++)
      free(k->ranges[r][t].list), k->ranges[r][t] = (range_set){0};
}

void rdn_checker_reset(checker *k) {
  rdn_shadow_reset(&k->shadow);
  free_ranges(k);
  rdn_clocks_reset(&k->clocks);
  rdn_flags_reset(&k->flags);
  rdn_finding_free(&k->notes);
  k->lines.held.count = k->lines.cleaned.count = 0;
  k->failed = false;
}

void rdn_checker_free(checker *k) {
  if (!k) return;
  free_ranges(k);
  for (unsigned r = 0; r < RANGES; r++) free(k->ranges[r]);
  rdn_scalar_gm_free(&k->lines);
  rdn_shadow_free(&k->shadow);
  rdn_clocks_free(&k->clocks);
  rdn_flags_free(&k->flags);
  rdn_finding_free(&k->notes);
  for (unsigned p = 0; p < PIPES; p++) free(k->ran[p]);
  free(k);
}

bool rdn_checker_failed(const checker *k) {
  return k->failed || rdn_clocks_failed(&k->clocks) || k->notes.out_of_memory;
}
const rdn_order *rdn_checker_order(const checker *k) { return &k->clocks.order; }

finding_list rdn_checker_take_notes(checker *k) {
  finding_list notes = k->notes;
  k->notes = (finding_list){0};
  return notes;
}

const range_set *rdn_checker_ranges(const checker *k, uint32_t tensor, range_kind kind) {
  return &k->ranges[kind][tensor];
}

static void note(checker *k, const insn *i, uint32_t position) {
  if (i->index >= k->note_capacity[i->pipe]) {
    uint32_t capacity = i->index * 2 + 256;
    op_note *n = realloc(k->ran[i->pipe], capacity * sizeof *n);
    if (!n) {
      k->failed = true;
      return;
    }
    k->ran[i->pipe] = n;
    k->note_capacity[i->pipe] = capacity;
  }
  uint32_t fractals = i->op == OP_mad ? rdn_mad_fractals(i) : 0;
  k->ran[i->pipe][i->index] = (op_note){i->site, position, fractals, i->op};
}

/* ---- reports of pairs
 * ----------------------------------------------------------------------------- */

enum { COMPARE = 1, RECORD = 2 };

typedef struct visit { /* one operand of the current instruction */
  checker *k;
  const insn *i;
  const operand *o;
  uint32_t position;
  finding_list *f;
  bool uninitialised;
  uint8_t phase;
} visit;

static raw_access access_of(const checker *k, unsigned pipe, uint32_t index) {
  const op_note *n = &k->ran[pipe][index];
  return (raw_access){.pipe = (uint8_t)pipe, .op = n->op, .site = n->site};
}

static void remember_pair(raw_finding *r, uint32_t a, uint32_t b) {
  if (!r || r->pairs == RAW_PAIRS) return;
  r->a[r->pairs] = a;
  r->b[r->pairs++] = b;
}

static rd_npu_finding_kind kind_of(bool first_writes, bool second_writes) {
  return !first_writes ? RD_NPU_RACE_WAR : second_writes ? RD_NPU_RACE_WAW : RD_NPU_RACE_RAW;
}

/* The two are named in the order they were issued, whichever ran first. */
static void report_pair(visit *v, const shadow_entry *e, bool write, uint64_t begin, uint64_t end) {
  checker *k = v->k;
  uint32_t theirs = k->ran[e->pipe][e->index].position, mine = v->position;
  bool held = theirs > mine; /* the recorded one was issued later and ran earlier */
  raw_access a = access_of(k, e->pipe, e->index);
  raw_access b = {.pipe = v->i->pipe, .op = v->i->op, .site = v->i->site};
  a.buffer = b.buffer = v->o->buffer;
  a.tensor = b.tensor = v->o->tensor;
  a.begin = b.begin = begin;
  a.end = b.end = end;
  rd_npu_finding_kind kind = held ? kind_of(write, e->write) : kind_of(e->write, write);
  if (e->pipe == RD_NPU_PIPE_M && v->i->pipe == RD_NPU_PIPE_M && v->o->buffer == RD_NPU_L0C)
    kind = RD_NPU_ACCUMULATE;
  raw_finding *r = rdn_finding_add(v->f, kind, held ? &b : &a, held ? &a : &b, NULL);
  if (!r) {
    k->failed = true;
    return;
  }
  uint32_t first = held ? mine : theirs, second = held ? theirs : mine;
  if (r->pairs && r->a[0] == first && r->b[0] == second && end > r->first.end)
    r->first.end = r->second.end = end; /* neighbouring granules of the first pair */
  if (r->pairs && r->last_a == first && r->last_b == second) {
    r->count--; /* the same pair again, another granule */
    return;
  }
  r->last_a = first;
  r->last_b = second;
  remember_pair(r, first, second);
}

/* By a clock or by a pipe that finishes in order: holds for whatever comes later on this pipe, too. */
static bool passed(const visit *v, const shadow_entry *e) {
  const checker *k = v->k;
  unsigned pipe = v->i->pipe;
  if (k->now.at[e->pipe] >= e->index) return true;
  if (e->pipe != pipe) return false;
  return pipe == RD_NPU_PIPE_S || (pipe == RD_NPU_PIPE_V && k->arch->vector_in_order);
}

static bool ordered(const visit *v, const shadow_entry *e) {
  const checker *k = v->k;
  unsigned pipe = v->i->pipe;
  if (passed(v, e)) return true;
  if (k->rules.scalar_sync && v->o->buffer == RD_NPU_UB && rdn_scalar_pair(e->pipe, pipe) &&
      k->ran[e->pipe][e->index].position < v->position)
    return true;
  if (e->pipe != pipe) return false;
  if (pipe == RD_NPU_PIPE_V && k->rules.vector_in_order && v->o->buffer == RD_NPU_UB) return true;
  if (e->index == v->i->index) return true; /* the instruction's own read and write */
  if (pipe == RD_NPU_PIPE_M && v->o->buffer == RD_NPU_L0C) {
    uint32_t mine = rdn_mad_fractals(v->i), theirs = k->ran[pipe][e->index].fractals;
    return (mine < theirs ? mine : theirs) >= 10;
  }
  return false;
}

/* ---- shadow of one operand
 * -------------------------------------------------------------------------- */

/* GM that MTE3 wrote and MTE2 of this core reads, ordered by events alone: S has not waited for the
 * write. */
static void note_gm_by_flag(visit *v, const shadow_entry *e, uint64_t begin, uint64_t end) {
  checker *k = v->k;
  if (v->o->buffer != RD_NPU_GM || k->launch->arch != RD_NPU_910B || !e->write ||
      e->pipe != RD_NPU_PIPE_MTE3 || v->i->pipe != RD_NPU_PIPE_MTE2)
    return;
  if (k->clocks.vc[RD_NPU_PIPE_S].at[RD_NPU_PIPE_MTE3] >= e->index) return;
  raw_access a = access_of(k, e->pipe, e->index);
  raw_access b = {.pipe = v->i->pipe, .op = v->i->op, .site = v->i->site};
  a.buffer = b.buffer = v->o->buffer;
  a.tensor = b.tensor = v->o->tensor;
  a.begin = b.begin = begin;
  a.end = b.end = end;
  if (!rdn_finding_add(
          &k->notes, RD_NPU_GM_BY_FLAG, &a, &b,
          "only events order MTE2 after MTE3's write to GM: public reports disagree on "
          "whether that is enough on 910B"))
    k->failed = true;
}

static void compare(visit *v, const granule *g, uint32_t mask, uint64_t at, bool write) {
  for (const granule *part = g; part; part = part->more)
    for (unsigned n = 0; n < part->count; n++) {
      const shadow_entry *e = &part->entry[n];
      uint32_t common = e->mask & mask;
      if (!common || !(write || e->write)) continue;
      unsigned low = (unsigned)__builtin_ctz(common), high = 32u - (unsigned)__builtin_clz(common);
      if (ordered(v, e))
        note_gm_by_flag(v, e, at + low, at + high);
      else
        report_pair(v, e, write, at + low, at + high);
    }
}

static void record(visit *v, granule *g, uint32_t mask, bool write) {
  unsigned live = 0;
  for (granule *part = g; part; part = part->more) live += part->count;
  bool full = live >= LIVE_RECORDS;
  shadow_entry *mine = NULL;
  for (granule *part = g; part; part = part->more)
    for (unsigned n = 0; n < part->count;) {
      shadow_entry *e = &part->entry[n];
      bool own = e->pipe == v->i->pipe;
      if (own && e->index == v->i->index) {
        if (e->write == write) mine = e;
      } else if ((write || (!e->write && own)) && (passed(v, e) || (full && own)))
        e->mask &= ~mask;
      if (e->mask)
        n++;
      else
        *e = part->entry[--part->count];
    }
  if (mine) {
    mine->mask |= mask; /* a repeat comes by again */
    return;
  }
  shadow_entry *now = rdn_shadow_entry(&v->k->shadow, g);
  if (now)
    *now = (shadow_entry){.index = v->i->index, .mask = mask, .pipe = v->i->pipe, .write = write};
  else
    v->k->failed = true;
}

static void uninitialised(visit *v, const granule *g, uint64_t at, uint32_t mask) {
  if (v->uninitialised) return;
  uint64_t first = at / GRANULE * GRANULE + (unsigned)__builtin_ctz(mask & ~g->init);
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

static void touch_granule(visit *v, uint64_t at, uint32_t mask) {
  granule *g = rdn_shadow_at(&v->k->shadow, v->o->buffer, v->o->tensor, at / GRANULE);
  if (!g) {
    v->k->failed = true;
    return;
  }
  uint64_t block = at / GRANULE * GRANULE;
  uint32_t padding =
      v->o->padding ? v->o->padding(v->i, v->k->launch->arch, block - v->o->base) : 0;
  bool write = v->o->access & WRITE;
  if (v->phase & COMPARE) {
    uint32_t consumed = v->o->access & CONSUME ? mask & ~padding : 0;
    if (consumed & ~g->init) uninitialised(v, g, at, consumed);
    compare(v, g, mask, block, write);
  }
  if (!(v->phase & RECORD)) return;
  record(v, g, mask, write);
  if (write) g->init = (g->init | mask) & ~(mask & padding); /* moves correct this afterwards */
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
    bool stored = v->i->pipe == RD_NPU_PIPE_S;
    range_set *set = &v->k->ranges[!(o->access & WRITE) ? RANGES_READ
                                   : stored             ? RANGES_STORED
                                                        : RANGES_WRITTEN][o->tensor];
    for (uint64_t u = 0; u < o->units && v->phase & RECORD; u++) {
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

/* ---- the step
 * -------------------------------------------------------------------------------------------- */

/* Can a record that this instruction leaves hide another from one of its own operands? */
static bool updates(const checker *k, const insn *i, const operand *o, unsigned count) {
  if (i->pipe == RD_NPU_PIPE_S || (i->pipe == RD_NPU_PIPE_V && k->arch->vector_in_order))
    return false;
  unsigned read = 0, written = 0;
  for (unsigned n = 0; n < count; n++) {
    if (o[n].access & READ) read |= 1u << o[n].buffer;
    if (o[n].access & WRITE) written |= 1u << o[n].buffer;
  }
  return read & written;
}

static raw_access earlier(const void *k, unsigned pipe, uint32_t index) {
  return access_of(k, pipe, index);
}

/* Dirty bytes of the data cache go to memory. */
static void write_back(void *user, uint32_t tensor, uint64_t begin, uint64_t end) {
  visit *v = user;
  operand o = {.buffer = RD_NPU_GM,
               .access = WRITE,
               .tensor = tensor,
               .base = begin,
               .units = 1,
               .bytes = end - begin};
  v->o = &o;
  touch_operand(v);
}

/* The data cache of S between it and the GM that other pipes see. */
static void check_scalar_gm(visit *v, const operand *o, unsigned count) {
  checker *k = v->k;
  gm_step s = {v->i, &k->now, &k->shadow, v->f, k, earlier};
  bool ok = true;
  if (rdn_ops[v->i->op].cls == CLASS_S_CACHE) {
    v->phase = COMPARE | RECORD;
    ok = rdn_scalar_gm_clean(&k->lines, &s, write_back, v);
  }
  for (unsigned n = 0; n < count && ok; n++)
    if (o[n].buffer == RD_NPU_GM && o[n].access & (READ | WRITE) &&
        k->launch->tensors[o[n].tensor].mode & RD_NPU_OUT)
      ok = rdn_scalar_gm_access(&k->lines, &s, &o[n]);
  if (!ok) k->failed = true;
}

static void check_accesses(checker *k, const insn *i, uint32_t position, finding_list *f) {
  operand o[MAX_OPERANDS];
  unsigned count = rdn_operands(i, o);
  bool twice = updates(k, i, o, count);
  visit v = {.k = k, .i = i, .position = position, .f = f};
  check_scalar_gm(&v, o, count);
  for (unsigned phase = 0; phase < 1u + twice; phase++)
    for (unsigned pass = 0; pass < 2; pass++) /* all reads come before all writes */
      for (unsigned n = 0; n < count; n++) {
        operand part = o[n];
        part.access &= (uint8_t)(pass ? WRITE : READ | CONSUME);
        if (!part.access) continue;
        v.o = &part;
        v.uninitialised = false;
        v.phase = !twice ? COMPARE | RECORD : phase ? RECORD : COMPARE;
        touch_operand(&v);
      }
  if (rdn_moves(i) && !rdn_shadow_move(&k->shadow, i, &o[0], &o[1])) k->failed = true;
}

/* An instruction runs. */
static void go(void *user, const insn *i, uint32_t position, const vclock *now) {
  checker *k = user;
  if (k->failed) return;
  k->now = *now;
  note(k, i, position);
  if (k->failed || i->op == OP_pipe_barrier) return;
  if (i->op != OP_set_flag && i->op != OP_wait_flag) {
    check_accesses(k, i, position, k->found);
    return;
  }
  finding_list *reuse = k->rules.binary_flags ? k->found : &k->notes;
  if (!rdn_flags_run(&k->flags, i, now, reuse)) k->failed = true;
}

void rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f) {
  if (k->failed) return;
  k->found = f;
  if ((i->op == OP_set_flag || i->op == OP_wait_flag) && !rdn_flags_issue(&k->flags, i, f))
    k->failed = true;
  rdn_clocks_issue(&k->clocks, i, position);
}

static void left_running(checker *k, finding_list *f) {
  const vclock *s = &k->clocks.vc[RD_NPU_PIPE_S];
  for (unsigned p = 1; p < PIPES; p++) {
    uint32_t last = k->clocks.last[p];
    if (last <= s->at[p]) continue;
    raw_access a = access_of(k, p, last);
    char why[120];
    snprintf(why, sizeof why,
             "%s may still be running when the kernel ends: pipe_barrier(ALL) is missing",
             rd_npu_pipe_name(p));
    rdn_finding_add(f, RD_NPU_LEFTOVER_OP, &a, NULL, why);
  }
}

static void deep_queue(checker *k) {
  const rdn_order *o = &k->clocks.order;
  if (o->deepest <= QUEUE_DEPTH) return;
  const insn *i = &o->deepest_by;
  raw_access a = {.pipe = i->pipe, .op = i->op, .site = i->site};
  char why[160];
  snprintf(why, sizeof why,
           "%u instructions wait in the queue of %s: with queues of %u the kernel hangs",
           o->deepest, rd_npu_pipe_name(i->pipe), QUEUE_DEPTH);
  rdn_finding_add(&k->notes, RD_NPU_DEEP_QUEUE, &a, NULL, why);
}

void rdn_checker_finish(checker *k, finding_list *f) {
  if (rdn_checker_failed(k)) return;
  bool hangs = rdn_order_hangs(&k->clocks.order);
  if (!rdn_order_report(&k->clocks.order, f) || !rdn_flags_finish(&k->flags, f)) k->failed = true;
  if (!rdn_scalar_gm_finish(&k->lines, f)) k->failed = true;
  if (hangs) return; /* what never ran is left over, too */
  left_running(k, f);
  deep_queue(k);
}
