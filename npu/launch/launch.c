/* A launch: one program per core, run on host threads, findings kept per core until all are done.
 */
#include "npu/launch/launch.h"
#include "npu/check/implied.h"
#include "npu/launch/parallel.h"
#include "npu/launch/remedy.h"
#include "npu/launch/values.h"
#include "npu/machine/arch.h"
#include "npu/report/report.h"
#include "npu/schedule/explore.h"
#include "npu/schedule/scheduler.h"
#include "npu/schedule/witness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- validation
 * ------------------------------------------------------------------------------------ */

static bool tensors_overlap(const rd_npu_tensor *a, const rd_npu_tensor *b) {
  uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  return a->bytes && b->bytes && x < y + b->bytes && y < x + a->bytes;
}

static const char *tensor_problem(const rd_npu_launch *l) {
  if (l->tensor_count > 4096) return "at most 4096 GM tensors";
  if (l->tensor_count && !l->tensors) return "tensors is NULL";
  for (uint32_t t = 0; t < l->tensor_count; t++) {
    const rd_npu_tensor *x = &l->tensors[t];
    if (!x->name) return "a GM tensor has no name";
    if (!x->data && x->bytes) return "a GM tensor has no data";
    if (x->bytes >> 43) return "a GM tensor is larger than 8 TiB";
    if (x->mode != RD_NPU_IN && x->mode != RD_NPU_OUT && x->mode != RD_NPU_INOUT)
      return "a GM tensor's mode is none of IN, OUT, INOUT";
    if (x->elem_bytes == 0 || x->elem_bytes > 8 || (x->elem_bytes & (x->elem_bytes - 1)))
      return "a GM tensor's elem_bytes is not 1, 2, 4 or 8";
    for (uint32_t u = 0; u < t; u++)
      if ((x->mode | l->tensors[u].mode) & RD_NPU_OUT && tensors_overlap(x, &l->tensors[u]))
        return "two GM tensors share memory and one is written";
  }
  return NULL;
}

const char *rdn_launch_problem(const rd_npu_launch *l, const rd_npu_options *o) {
  if (!l || l->size != sizeof *l) return "launch is NULL or its size field is wrong";
  const rd_npu_arch_info *a = rd_npu_arch_get(l->arch);
  if (!a) return "unknown architecture";
  if (l->kind != RD_NPU_COUPLED && l->kind != RD_NPU_CUBE && l->kind != RD_NPU_VECTOR)
    return "unknown kind of core";
  if (a->coupled != (l->kind == RD_NPU_COUPLED))
    return a->coupled ? "this architecture has coupled cores only"
                      : "this architecture splits cube and vector cores";
  uint32_t cores = l->cores ? l->cores : a->cores;
  if (cores > 65535) return "cores above 65535";
  if (l->block_num == 0 || l->block_num > cores) return "block_num must be 1..cores of the device";
  if (!l->kernel) return "kernel is NULL";
  if (o) {
    if (o->size != sizeof *o) return "the options' size field is wrong";
    if ((unsigned)o->mode > RD_NPU_ORDER) return "unknown mode";
    if ((unsigned)o->schedule > RD_NPU_EXHAUSTIVE) return "unknown schedule";
    if ((unsigned)o->flags > RD_NPU_FLAGS_BINARY) return "flags: neither counting nor binary";
    if ((unsigned)o->auto_sync > RD_NPU_AUTO_SYNC_ALL) return "auto_sync: none, scalar or all";
    if (o->threads > 1024) return "threads above 1024";
    if (o->gm_slack > RDN_GM_SLACK) return "gm_slack above 4096";
    uint8_t without[PIPES][PIPES];
    if (!rdn_parse_without(o->without, without))
      return "without: expected channels such as M_V,V_M";
    if (!rdn_parse_with(o->with, without))
      return "with: expected events such as M_V,pipe_barrier(V)";
    if (o->with && o->mode == RD_NPU_VALUES) return "with: needs the checker";
  }
  return tensor_problem(l);
}

/* ---- running the cores
 * -------------------------------------------------------------------------------- */

typedef struct cores_job {
  const rd_npu_launch *l;
  const rd_npu_options *o;
  run_plan plan;
  uint8_t without[PIPES][PIPES], with[PIPES][PIPES];
  rd_npu_core *cores;
  uint32_t count, done;
  pthread_mutex_t lock;
} cores_job;

typedef struct worker {
  memory mem;
  checker *chk;
} worker;

static void end_worker(void *user, void *state) {
  (void)user;
  worker *w = state;
  rdn_memory_free(&w->mem);
  rdn_checker_free(w->chk);
  free(w);
}

static void *begin_worker(void *user) {
  cores_job *j = user;
  worker *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  bool ok = true;
  if (j->plan.execute) ok = rdn_memory_init(&w->mem, j->l);
  if (ok && j->plan.check) ok = (w->chk = rdn_checker_new(j->l, rdn_rules_of(j->l, j->o))) != NULL;
  if (ok) return w;
  end_worker(j, w);
  return NULL;
}

static bool take_ranges(rd_npu_core *c) {
  uint32_t n = c->launch->tensor_count;
  for (unsigned r = 0; r < RANGES; r++)
    if (!(c->ranges[r] = calloc(n + 1, sizeof *c->ranges[r]))) return false;
  for (uint32_t t = 0; t < n; t++)
    for (unsigned r = 0; r < RANGES; r++) {
      const range_set *from = rdn_checker_ranges(c->chk, t, (range_kind)r);
      range_set *to = &c->ranges[r][t];
      to->list = malloc((from->count + 1) * sizeof *to->list);
      if (!to->list) return false;
      if (from->count) memcpy(to->list, from->list, from->count * sizeof *to->list);
      to->count = to->capacity = from->count;
      rdn_ranges_merge(to);
    }
  return true;
}

/* The register outlives the kernel, and the next one may rely on a full mask. */
static void note_mask(rd_npu_core *c) {
  if (!~c->mask_lo && !~c->mask_hi) return;
  char where[120], why[200];
  rdn_site_text(&c->prog, c->mask_site, where, sizeof where);
  snprintf(why, sizeof why, "the vector mask is not full when the kernel ends; set at %s", where);
  raw_access a = {.op = OP_COUNT, .site = c->mask_site};
  if (!rdn_finding_add(&c->notes, RD_NPU_MASK_LEFT, &a, NULL, why)) c->out_of_memory = true;
}

/* After the kernel: exit conditions, a hang's description, and the schedule that was asked for. */
static bool finish_core(cores_job *j, rd_npu_core *c) {
  if (!rdn_core_finish(c)) return false;
  if (c->check) {
    rdn_checker_finish(c->chk, &c->findings);
    rdn_mark_continuation(c);
    if (j->o->with && !rdn_apply_remedies(c, j->with)) return false;
    c->notes = rdn_checker_take_notes(c->chk);
    note_mask(c);
    if (rdn_checker_failed(c->chk) || !take_ranges(c)) return false;
  }
  rd_npu_schedule kind = j->o->schedule;
  bool scheduled = j->plan.execute && (kind == RD_NPU_LAZY || kind == RD_NPU_RANDOM);
  if (c->record && (c->halted || scheduled)) {
    schedule s = {.kind = c->halted ? RD_NPU_EAGER : kind,
                  .rules = rdn_rules_of(j->l, j->o),
                  .seed = j->o->seed * 0x9E3779B97F4A7C15u + c->block};
    char held[1500];
    replay_end end = rdn_replay(&c->prog, c->halted ? NULL : c->mem, &s, held, sizeof held);
    if (end == REPLAY_NO_MEMORY) return false;
    if (end == REPLAY_STUCK) c->stuck = strdup(held);
    if (end == REPLAY_DIFFERS) { /* the outputs end there, whatever else was found */
      raw_access a = {.op = OP_get_value, .site = c->mem->differs.site};
      rdn_differs_text(&c->mem->differs, &c->prog, held, sizeof held);
      rdn_finding_add(&c->findings, RD_NPU_SCHEDULE_VALUE, &a, NULL, held);
    } else if (!c->halted && end != REPLAY_DONE && c->findings.count == 0) {
      raw_access a = rdn_access_at(&c->prog, s.held);
      rdn_finding_add(&c->findings, RD_NPU_DEADLOCK, &a, NULL,
                      end == REPLAY_STUCK ? "the schedule hangs"
                                          : "the schedule sets a flag that is set");
    }
  }
  if (!j->plan.keep) {
    free(c->prog.list);
    c->prog.list = NULL;
  }
  return !c->out_of_memory && !c->findings.out_of_memory;
}

static bool run_core(void *user, void *state, uint32_t n) {
  cores_job *j = user;
  worker *w = state;
  rd_npu_core *c = &j->cores[n];
  rd_npu_schedule kind = j->o->schedule;
  c->launch = j->l;
  c->arch = rd_npu_arch_get(j->l->arch);
  c->block = n;
  c->programs = j->count;
  c->mask_lo = c->mask_hi = ~0ull;
  c->slack = j->o->gm_slack;
  c->check = j->plan.check;
  c->execute = j->plan.execute && (kind == RD_NPU_EAGER || kind == RD_NPU_EXHAUSTIVE);
  c->record = j->plan.keep || j->plan.check || (j->plan.execute && !c->execute);
  memcpy(c->without, j->without, sizeof c->without);
  c->dropping = j->o->without && *j->o->without;
  c->mem = j->plan.execute ? &w->mem : NULL;
  c->begin_values = rdn_values_begin;
  c->outputs = j->plan.before ? j->plan.before->data : NULL;
  c->chk = w->chk;
  if (c->mem && n >= 1) rdn_memory_poison(c->mem);
  if (c->chk) rdn_checker_reset(c->chk);
  rdn_core_begin(c);
  rdn_core_run(c);
  if (c->values) { /* the schedule that was asked for runs on the outputs themselves */
    rdn_values_end(c);
    c->mem = j->plan.execute ? &w->mem : NULL;
  }
  bool ok = !c->out_of_memory && finish_core(j, c);
  c->mem = NULL;
  c->chk = NULL;
  if (j->o->progress) {
    pthread_mutex_lock(&j->lock);
    j->o->progress(j->o->user, "cores", ++j->done, j->count);
    pthread_mutex_unlock(&j->lock);
  }
  return ok;
}

rd_npu_status rdn_run_cores(const rd_npu_launch *l, const rd_npu_options *o, run_plan plan,
                            rd_npu_core **cores, uint32_t *count) {
  cores_job j = {.l = l, .o = o, .plan = plan, .count = rdn_launch_programs(l)};
  rdn_parse_without(o->without, j.without);
  rdn_parse_with(o->with, j.with);
  j.cores = calloc(j.count, sizeof *j.cores);
  *cores = j.cores;
  *count = j.count;
  if (!j.cores) return RD_NPU_NO_MEMORY;
  for (uint32_t n = 0; n < j.count; n++) j.cores[n].launch = l;
  if (pthread_mutex_init(&j.lock, NULL) != 0) return RD_NPU_NO_MEMORY;
  bool ok =
      rdn_parallel(o->threads ? o->threads : 1, j.count, &j, begin_worker, run_core, end_worker);
  pthread_mutex_destroy(&j.lock);
  return ok ? RD_NPU_OK : RD_NPU_NO_MEMORY;
}

void rdn_free_cores(rd_npu_core *cores, uint32_t count) {
  for (uint32_t n = 0; cores && n < count; n++) {
    rd_npu_core *c = &cores[n];
    rdn_program_free(&c->prog);
    rdn_program_free(&c->control);
    rdn_finding_free(&c->findings);
    rdn_finding_free(&c->notes);
    rdn_order_free(&c->order);
    for (unsigned r = 0; r < RANGES; r++) {
      for (uint32_t t = 0; c->ranges[r] && t < c->launch->tensor_count; t++)
        free(c->ranges[r][t].list);
      free(c->ranges[r]);
    }
    free(c->stuck);
  }
  free(cores);
}

/* ---- the public call
 * ------------------------------------------------------------------------------------ */

typedef struct witness_job {
  const rd_npu_options *o;
  rd_npu_core *cores;
  const gm_image *before;
  struct {
    uint32_t core;
    raw_finding *finding;
  } * list;
} witness_job;

static bool witness_task(void *user, void *state, uint32_t i) {
  (void)state;
  witness_job *j = user;
  rd_npu_core *c = &j->cores[j->list[i].core];
  return rdn_witness(&c->prog, c->launch, rdn_rules_of(c->launch, j->o), j->before,
                     j->list[i].finding);
}

/* One witness per group of the merged report: the lowest core that has it. */
static bool run_witnesses(const rd_npu_options *o, rd_npu_core *cores, uint32_t count,
                          const gm_image *before) {
  uint32_t total = 0, n = 0;
  for (uint32_t c = 0; c < count; c++) total += cores[c].findings.count;
  witness_job j = {o, cores, before, calloc(total + 1, sizeof *j.list)};
  if (!j.list) return false;
  for (uint32_t c = 0; c < count; c++)
    for (uint32_t k = 0; k < cores[c].findings.count; k++) {
      raw_finding *f = &cores[c].findings.list[k];
      if ((f->kind > RD_NPU_RACE_WAW && f->kind != RD_NPU_ACCUMULATE) || !f->pairs) continue;
      if (rdn_report_is_first(cores, c, k)) j.list[n].core = c, j.list[n++].finding = f;
    }
  bool ok = rdn_parallel(o->threads ? o->threads : 1, n, &j, NULL, witness_task, NULL);
  free(j.list);
  return ok;
}

static bool dropped_place(void *user, const char *place, bool implied, const char *by) {
  return rdn_report_dropped(user, place, implied, by);
}

static bool report_implied(rd_npu_report *r, const rd_npu_core *cores, uint32_t count) {
  for (uint32_t c = 0; c < count; c++)
    if (!rdn_implied(&cores[c].control, &cores[c].prog, dropped_place, r)) return false;
  return true;
}

static bool any_halted(const rd_npu_core *cores, uint32_t count) {
  for (uint32_t c = 0; c < count; c++)
    if (cores[c].halted) return true;
  return false;
}

rd_npu_status rd_npu_run(const rd_npu_launch *launch, const rd_npu_options *options,
                         rd_npu_report **report) {
  static const rd_npu_options defaults = {.size = sizeof(rd_npu_options)};
  rd_npu_report *r = rdn_report_new();
  if (report) *report = r;
  if (!report || !r) {
    rd_npu_report_free(r);
    return RD_NPU_NO_MEMORY;
  }
  const char *problem = rdn_launch_problem(launch, options);
  if (problem) {
    rdn_report_summary(r, "invalid launch: %s", problem);
    return RD_NPU_BAD_INPUT;
  }
  const rd_npu_options *o = options ? options : &defaults;
  bool exhaustive = o->schedule == RD_NPU_EXHAUSTIVE && o->mode != RD_NPU_ORDER;
  run_plan plan = {.execute = o->mode != RD_NPU_ORDER,
                   .check = o->mode != RD_NPU_VALUES,
                   .keep = o->witnesses || exhaustive};
  bool replayed = o->schedule == RD_NPU_LAZY || o->schedule == RD_NPU_RANDOM;
  gm_image before = {0};
  explored seen = {0};
  rd_npu_core *cores = NULL;
  uint32_t count = 0;
  rd_npu_status s = RD_NPU_OK;
  if ((plan.keep || (plan.execute && replayed)) && !rdn_image_take(&before, launch))
    s = RD_NPU_NO_MEMORY;
  if (before.data) plan.before = &before;
  if (s == RD_NPU_OK) s = rdn_run_cores(launch, o, plan, &cores, &count);
  if (s == RD_NPU_OK && o->witnesses && !any_halted(cores, count) &&
      !run_witnesses(o, cores, count, &before))
    s = RD_NPU_NO_MEMORY;
  if (s == RD_NPU_OK && exhaustive && !any_halted(cores, count) &&
      !rdn_explore(o, cores, count, &before, &seen))
    s = RD_NPU_NO_MEMORY;
  r->schedules = seen.schedules;
  r->capped = seen.capped;
  if (s == RD_NPU_OK && plan.check && o->without && *o->without && !report_implied(r, cores, count))
    s = RD_NPU_NO_MEMORY;
  if (s == RD_NPU_OK && !rdn_report_collect(r, launch, cores, count)) s = RD_NPU_NO_MEMORY;
  if (s == RD_NPU_NO_MEMORY) rdn_report_summary(r, "out of memory or threads");
  if (s == RD_NPU_OK && rd_npu_report_count(r)) s = RD_NPU_FINDING;
  rdn_free_cores(cores, count);
  rdn_image_free(&before);
  return s;
}
