/*
 * All schedules with at most d deviations from eager, fewest deviations first.
 *
 * A schedule is a script of (decision number, choice); running one tells how many choices every
 * later decision had, and each alternative there is a schedule with one deviation more.  What a
 * deviation passes over is deferred until nothing else can move, so one deviation is enough to make
 * any single operation late.
 */
#include "npu/schedule/explore.h"
#include "npu/schedule/scheduler.h"

#include <stdlib.h>
#include <string.h>

typedef struct node {
  uint32_t parent, depth;
  deviation d;
} node;

typedef struct explorer {
  const rd_npu_core *core;
  const gm_image *before;
  gm_image expected, got;
  memory mem;
  node *nodes; /* breadth first */
  uint32_t count, capacity;
  uint64_t limit;
  deviation *script;
  uint8_t *options;
  uint32_t options_capacity;
  uint64_t explored;
  bool capped, differs;
  rdn_rules rules;
  replay_end end; /* of the schedule that differs */
  uint32_t held;
} explorer;

static bool push(explorer *e, uint32_t parent, uint32_t depth, deviation d) {
  if (e->count >= e->limit) {
    e->capped = true;
    return true;
  }
  if (e->count == e->capacity) {
    uint32_t capacity = e->capacity ? e->capacity * 2 : 256;
    node *nodes = realloc(e->nodes, capacity * sizeof *nodes);
    if (!nodes) return false;
    e->nodes = nodes;
    e->capacity = capacity;
  }
  e->nodes[e->count++] = (node){parent, depth, d};
  return true;
}

static uint32_t build_script(explorer *e, uint32_t index) {
  uint32_t depth = e->nodes[index].depth;
  for (uint32_t n = depth; n > 0; n--) {
    e->script[n - 1] = e->nodes[index].d;
    index = e->nodes[index].parent;
  }
  return depth;
}

static bool run_node(explorer *e, uint32_t index, uint32_t deviations) {
  uint32_t depth = build_script(e, index);
  schedule s = {.kind = RD_NPU_EXHAUSTIVE,
                .rules = e->rules,
                .script = e->script,
                .script_count = depth,
                .options = e->options,
                .options_capacity = e->options_capacity};
  if (!rdn_image_copy(&e->got, e->before)) return false;
  rdn_memory_poison(&e->mem);
  rdn_image_bind(&e->got, &e->mem);
  replay_end end = rdn_replay(&e->core->prog, &e->mem, &s, NULL, 0);
  if (end == REPLAY_NO_MEMORY) return false;
  e->explored++;
  uint32_t tensor;
  uint64_t byte;
  if (end != REPLAY_DONE || rdn_image_differs(&e->expected, &e->got, &tensor, &byte))
    e->differs = true, e->end = end, e->held = s.held;
  if (depth >= deviations) return true;
  uint32_t seen = s.decisions < e->options_capacity ? s.decisions : e->options_capacity;
  if (s.decisions > e->options_capacity) e->capped = true;
  for (uint32_t d = depth ? e->script[depth - 1].at + 1 : 0; d < seen; d++)
    for (uint32_t c = 1; c < e->options[d]; c++)
      if (!push(e, index, depth + 1, (deviation){d, c})) return false;
  return true;
}

static bool explore_core(explorer *e, uint32_t deviations, const rd_npu_options *o) {
  const rd_npu_core *c = e->core;
  e->count = 0;
  e->options_capacity = (uint32_t)c->prog.count * 4 + 64;
  free(e->options);
  free(e->script);
  e->options = malloc(e->options_capacity);
  e->script = malloc((e->options_capacity + 1) * sizeof *e->script);
  if (!e->options || !e->script || !rdn_image_copy(&e->expected, e->before)) return false;
  rdn_memory_poison(&e->mem);
  rdn_image_bind(&e->expected, &e->mem);
  if (!rdn_memory_regs(&e->mem, c->prog.regs) || !rdn_replay_plain(&c->prog, &e->mem)) return false;
  if (!push(e, 0, 0, (deviation){0, 0})) return false;
  for (uint32_t n = 0; n < e->count && !e->differs; n++) {
    if (!run_node(e, n, deviations)) return false;
    if (o->progress && n % 256 == 0) o->progress(o->user, "schedules", n, e->count);
  }
  return true;
}

static void note_value(const explorer *e, rd_npu_core *c) {
  const divergence *d = &e->mem.differs;
  char why[200];
  raw_access a = {.op = OP_get_value, .site = d->site};
  rdn_differs_text(d, &c->prog, why, sizeof why);
  raw_finding *f = rdn_finding_add(&c->findings, RD_NPU_SCHEDULE_VALUE, &a, NULL, why);
  if (!f) return;
  f->witness = RD_NPU_WITNESS_DIFFERS;
  f->witness_site = d->site;
  f->expected = rdn_differs_number(d, d->expected);
  f->got = rdn_differs_number(d, d->got);
}

static void note_difference(explorer *e, rd_npu_core *c) {
  uint32_t tensor;
  uint64_t byte;
  if (e->mem.differs.found) {
    note_value(e, c);
    return;
  }
  bool hangs = e->end == REPLAY_STUCK, lost = e->end == REPLAY_LOST_SET;
  bool value = rdn_image_differs(&e->expected, &e->got, &tensor, &byte);
  size_t at = hangs || lost ? e->held : value ? rdn_last_writer(&c->prog, tensor, byte) : 0;
  raw_access a = rdn_access_at(&c->prog, at);
  raw_finding *f = rdn_finding_add(
      &c->findings, RD_NPU_SCHEDULE_VALUE, &a, NULL,
      hangs  ? "an explored schedule hangs, held here"
      : lost ? "an explored schedule sets a flag that is set"
             : "an explored schedule gives other values than the reference order, stored here");
  if (!f || !value || hangs) return;
  const rd_npu_tensor *t = &c->launch->tensors[tensor];
  f->witness = RD_NPU_WITNESS_DIFFERS;
  f->witness_tensor = tensor;
  f->witness_index = byte / t->elem_bytes;
  f->expected = rdn_element(t, e->expected.data[tensor], f->witness_index);
  f->got = rdn_element(t, e->got.data[tensor], f->witness_index);
}

bool rdn_explore(const rd_npu_options *o, rd_npu_core *cores, uint32_t count,
                 const gm_image *before, explored *out) {
  explorer e = {.before = before, .limit = o->max_schedules ? o->max_schedules : 20000};
  bool ok = count == 0 || rdn_memory_init(&e.mem, cores[0].launch);
  for (uint32_t c = 0; c < count && ok; c++) {
    e.core = &cores[c];
    e.rules = rdn_rules_of(cores[c].launch, o);
    e.differs = false;
    ok = explore_core(&e, o->deviations ? o->deviations : 2, o);
    if (ok && e.differs) note_difference(&e, &cores[c]);
  }
  *out = (explored){e.explored, e.capped};
  free(e.nodes);
  free(e.script);
  free(e.options);
  rdn_image_free(&e.expected);
  rdn_image_free(&e.got);
  rdn_memory_free(&e.mem);
  return ok;
}
