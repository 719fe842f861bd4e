/*
 * Mutation: which parts of a kernel's synchronisation are needed?
 *
 * A mutant is needed when some recorded core of some launch shows a finding without it.  The others
 * are redundant on these paths; they run with values under lazy and 32 random schedules, and a
 * mutant that changes a value or hangs there is undetected: a mistake of the checker.
 */
#include "npu/mutate/mutate.h"
#include "npu/check/implied.h"
#include "npu/launch/launch.h"
#include "npu/launch/parallel.h"
#include "npu/report/report.h"
#include "npu/schedule/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>

#define RANDOM_SCHEDULES 32u

typedef struct mutate_job {
  rd_npu_mutation *m;
  recorded *r;
  uint32_t launches;
  const rd_npu_options *o;
  pthread_mutex_t lock;
  uint32_t done;
} mutate_job;

typedef struct mutate_worker {
  checker **chk; /* one per launch */
  memory *mem;
  gm_image *image;
  uint32_t launches;
} mutate_worker;

static void end_worker(void *user, void *state) {
  (void)user;
  mutate_worker *w = state;
  for (uint32_t n = 0; n < w->launches; n++) {
    if (w->chk) rdn_checker_free(w->chk[n]);
    if (w->mem) rdn_memory_free(&w->mem[n]);
    if (w->image) rdn_image_free(&w->image[n]);
  }
  free(w->chk);
  free(w->mem);
  free(w->image);
  free(w);
}

static void *begin_worker(void *user) {
  mutate_job *j = user;
  mutate_worker *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->launches = j->launches;
  w->chk = calloc(j->launches, sizeof *w->chk);
  w->mem = calloc(j->launches, sizeof *w->mem);
  w->image = calloc(j->launches, sizeof *w->image);
  bool ok = w->chk && w->mem && w->image;
  for (uint32_t n = 0; n < j->launches && ok; n++) {
    w->chk[n] = rdn_checker_new(j->r[n].launch, rdn_rules_of(j->r[n].launch, j->o));
    ok = w->chk[n] != NULL;
  }
  if (ok) return w;
  end_worker(j, w);
  return NULL;
}

static char *describe(const raw_finding *f, const program *p, uint32_t launch) {
  char a[400], b[400] = "";
  rdn_site_text(p, f->first.site, a, sizeof a);
  bool two = f->second.op != OP_COUNT;
  if (two) rdn_site_text(p, f->second.site, b, sizeof b);
  text t = {0};
  rdn_text_add(&t, "%s: %s at %s", rd_npu_finding_name((rd_npu_finding_kind)f->kind),
               rdn_ops[f->first.op].name, a);
  if (two) rdn_text_add(&t, ", %s at %s", rdn_ops[f->second.op].name, b);
  rdn_text_add(&t, " (launch %u)", launch);
  return rdn_text_take(&t);
}

/* The first finding of a core under the mutant, as text; NULL when there is none. */
static bool judge_core(mutate_worker *w, uint32_t launch, const program *p, mutant *x) {
  checker *k = w->chk[launch];
  finding_list f = {0};
  rdn_checker_reset(k);
  for (size_t n = 0; n < p->count && f.count == 0; n++)
    rdn_checker_step(k, &p->list[n], (uint32_t)n, &f);
  if (f.count == 0) rdn_checker_finish(k, &f);
  uint32_t depth = rdn_checker_order(k)->deepest;
  if (depth > x->depth) x->depth = depth;
  bool ok = !rdn_checker_failed(k) && !f.out_of_memory;
  if (ok && f.count) {
    x->reason = describe(&f.list[0], p, launch);
    ok = x->reason != NULL;
  }
  rdn_finding_free(&f);
  return ok;
}

/* One schedule of a redundant mutant on one launch: the values must be those of the unmutated
 * kernel. */
static bool run_schedule(mutate_job *j, mutate_worker *w, const mutant *x, uint32_t number,
                         char **reason) {
  uint32_t n = number % j->launches;
  const recorded *r = &j->r[n];
  if (!w->mem[n].gm && !rdn_memory_init(&w->mem[n], r->launch)) return false;
  if (!rdn_image_copy(&w->image[n], &r->before)) return false;
  rdn_image_bind(&w->image[n], &w->mem[n]);
  for (uint32_t c = 0; c < r->count; c++) {
    program p;
    if (!rdn_mutation_apply(j->m, x, r, c, &p)) {
      free(p.list);
      return false;
    }
    rdn_memory_poison(&w->mem[n]);
    p.depth = x->depth;
    schedule s = {.kind = number ? RD_NPU_RANDOM : RD_NPU_LAZY,
                  .rules = rdn_rules_of(r->launch, j->o),
                  .seed = number * 0x9E3779B97F4A7C15u + c};
    replay_end end = rdn_replay(&p, &w->mem[n], &s, NULL, 0);
    if (end == REPLAY_DIFFERS) {
      char why[200];
      rdn_differs_text(&w->mem[n].differs, &p, why, sizeof why);
      *reason = strdup(why);
    }
    free(p.list);
    if (end == REPLAY_NO_MEMORY) return false;
    if (end == REPLAY_DIFFERS) return *reason != NULL;
    if (end != REPLAY_DONE) {
      *reason =
          strdup(end == REPLAY_STUCK ? "hangs under a schedule" : "loses a set under a schedule");
      return *reason != NULL;
    }
  }
  uint32_t tensor;
  uint64_t byte;
  if (rdn_image_differs(&r->expected, &w->image[n], &tensor, &byte))
    *reason = strdup("changes values under a schedule");
  return true;
}

typedef struct implication {
  bool all;
  char by[160];
} implication;

static bool note_implied(void *user, const char *place, bool implied, const char *by) {
  implication *x = user;
  if (!place) return false;
  x->all = x->all && implied;
  if (implied && !x->by[0]) snprintf(x->by, sizeof x->by, "%s", by);
  return true;
}

/* Why an edge is redundant: other events give its order, or nothing that conflicts needs it. */
static char *redundant_reason(const mutate_job *j, const mutant *x) {
  static const char plain[] = "redundant on these paths";
  implication why = {true, ""};
  bool ok = true;
  for (uint32_t n = 0; n < j->launches && ok && x->op == DROP_EDGE; n++)
    for (uint32_t c = 0; c < j->r[n].count && ok; c++) {
      program control;
      ok = rdn_mutation_control(j->m, x, &j->r[n], c, &control) &&
           rdn_implied(&control, &j->r[n].cores[c].prog, note_implied, &why);
      free(control.list);
    }
  if (!ok) return NULL;
  text t = {0};
  if (x->op != DROP_EDGE)
    rdn_text_add(&t, "%s", plain);
  else if (why.all && why.by[0])
    rdn_text_add(&t, "%s: implied by %s", plain, why.by);
  else
    rdn_text_add(&t, "%s: no conflicting accesses need it", plain);
  return rdn_text_take(&t);
}

static bool judge(void *user, void *state, uint32_t number) {
  mutate_job *j = user;
  mutate_worker *w = state;
  mutant *x = &j->m->mutants[number];
  for (uint32_t n = 0; n < j->launches && !x->reason; n++)
    for (uint32_t c = 0; c < j->r[n].count && !x->reason; c++) {
      program p;
      bool ok = rdn_mutation_apply(j->m, x, &j->r[n], c, &p) && judge_core(w, n, &p, x);
      free(p.list);
      if (!ok) return false;
    }
  x->needed = x->reason != NULL;
  for (uint32_t s = 0; s <= RANDOM_SCHEDULES && !x->reason; s++)
    if (!run_schedule(j, w, x, s, &x->reason)) return false;
  x->undetected = !x->needed && x->reason;
  if (!x->reason && !(x->reason = redundant_reason(j, x))) return false;
  if (j->o->progress) {
    pthread_mutex_lock(&j->lock);
    j->o->progress(j->o->user, "mutants", ++j->done, j->m->mutant_count);
    pthread_mutex_unlock(&j->lock);
  }
  return true;
}

static bool record_launch(recorded *r, const rd_npu_launch *l, const rd_npu_options *o,
                          rd_npu_mutation *m, rd_npu_status *s) {
  run_plan plan = {.execute = false, .check = true, .keep = true};
  r->launch = l;
  *s = rdn_run_cores(l, o, plan, &r->cores, &r->count);
  if (*s != RD_NPU_OK) return false;
  rd_npu_report *report = rdn_report_new();
  bool ok = report && rdn_report_collect(report, l, r->cores, r->count);
  if (ok && report->count) {
    char *t = rd_npu_report_text(report);
    snprintf(m->problem, sizeof m->problem, "the unmutated kernel has findings: %s", t ? t : "");
    free(t);
    *s = RD_NPU_FINDING;
  }
  rd_npu_report_free(report);
  if (!ok) *s = RD_NPU_NO_MEMORY;
  if (*s != RD_NPU_OK) return false;
  memory mem = {0};
  ok = rdn_image_take(&r->before, l) && rdn_image_copy(&r->expected, &r->before) &&
       rdn_memory_init(&mem, l);
  for (uint32_t c = 0; ok && c < r->count; c++) {
    rdn_memory_poison(&mem);
    rdn_image_bind(&r->expected, &mem);
    ok = rdn_memory_regs(&mem, r->cores[c].prog.regs) && rdn_replay_plain(&r->cores[c].prog, &mem);
  }
  rdn_memory_free(&mem);
  ok = ok && rdn_mutation_units(m, r);
  if (!ok) *s = RD_NPU_NO_MEMORY;
  return ok;
}

static void free_recorded(recorded *r) {
  for (uint32_t c = 0; r->unit_of && c < r->count; c++) free(r->unit_of[c]);
  free(r->unit_of);
  rdn_free_cores(r->cores, r->count);
  rdn_image_free(&r->before);
  rdn_image_free(&r->expected);
}

/* ---- results
 * ---------------------------------------------------------------------------------------- */

static const char *op_name(mutation_op what, uint8_t pipe) {
  static const char *const to[] = {"ALL to S",    "ALL to V",    "ALL to M",  "ALL to MTE1",
                                   "ALL to MTE2", "ALL to MTE3", "ALL to FIX"};
  static const char *const names[] = {"drop edge",  "drop set",    "drop wait",
                                      "wait later", "set earlier", "drop barrier"};
  return what == ALL_TO_PIPE ? to[pipe] : names[what];
}

static bool build_view(rd_npu_mutation *m) {
  m->view = calloc(m->mutant_count + 1, sizeof *m->view);
  m->view_text = calloc(m->mutant_count + 1, sizeof *m->view_text);
  if (!m->view || !m->view_text) return false;
  for (uint32_t n = 0; n < m->mutant_count; n++) {
    const mutant *x = &m->mutants[n];
    const unit *u = &m->units[x->unit];
    text t = {0};
    if (u->op == OP_pipe_barrier)
      rdn_text_add(&t, "pipe_barrier(%s) at %s", rd_npu_pipe_name(u->src), u->where);
    else {
      rdn_text_add(&t, "%s_%s ids", rd_npu_pipe_name(u->src), rd_npu_pipe_name(u->dst));
      for (unsigned id = 0; id < FLAG_IDS; id++)
        if (u->ids >> id & 1) rdn_text_add(&t, " %u", id);
      rdn_text_add(&t, " at %s", u->where);
      for (uint32_t k = 0; x->op == DROP_EDGE && k < m->unit_count; k++)
        if (k != x->unit && m->units[k].op != OP_pipe_barrier && m->units[k].edge == x->unit)
          rdn_text_add(&t, " + %s", m->units[k].where);
    }
    m->view_text[n] = rdn_text_take(&t);
    if (!m->view_text[n]) return false;
    m->view[n] = (rd_npu_mutant){op_name(x->op, x->pipe), m->view_text[n], x->needed, x->undetected,
                                 x->reason};
    m->needed += x->needed;
    m->undetected += x->undetected;
    m->redundant += !x->needed && !x->undetected;
  }
  return true;
}

rd_npu_status rd_npu_mutate(const rd_npu_launch *launches, uint32_t launch_count,
                            const rd_npu_options *options, rd_npu_mutation **result) {
  static const rd_npu_options defaults = {.size = sizeof(rd_npu_options)};
  const rd_npu_options *o = options ? options : &defaults;
  rd_npu_mutation *m = calloc(1, sizeof *m);
  if (result) *result = m;
  if (!m || !result) {
    free(m);
    return result ? RD_NPU_NO_MEMORY : RD_NPU_BAD_INPUT;
  }
  rd_npu_status s = launch_count ? RD_NPU_OK : RD_NPU_BAD_INPUT;
  for (uint32_t n = 0; n < launch_count && s == RD_NPU_OK; n++) {
    const char *problem = rdn_launch_problem(&launches[n], options);
    if (!problem) continue;
    snprintf(m->problem, sizeof m->problem, "invalid launch %u: %s", n, problem);
    s = RD_NPU_BAD_INPUT;
  }
  if (s != RD_NPU_OK) return s;
  mutate_job j = {.m = m, .launches = launch_count, .o = o, .r = calloc(launch_count, sizeof *j.r)};
  if (!j.r) return RD_NPU_NO_MEMORY;
  for (uint32_t n = 0; n < launch_count && s == RD_NPU_OK; n++)
    record_launch(&j.r[n], &launches[n], o, m, &s);
  bool locked = s == RD_NPU_OK && pthread_mutex_init(&j.lock, NULL) == 0;
  if (s == RD_NPU_OK && !(locked && rdn_mutation_mutants(m, &launches[0]) &&
                          rdn_parallel(o->threads ? o->threads : 1, m->mutant_count, &j,
                                       begin_worker, judge, end_worker) &&
                          build_view(m)))
    s = RD_NPU_NO_MEMORY;
  if (locked) pthread_mutex_destroy(&j.lock);
  for (uint32_t n = 0; n < launch_count; n++) free_recorded(&j.r[n]);
  free(j.r);
  return s == RD_NPU_OK && m->undetected ? RD_NPU_FINDING : s;
}

size_t rd_npu_mutation_count(const rd_npu_mutation *m) {
  return m && m->view ? m->mutant_count : 0;
}
const rd_npu_mutant *rd_npu_mutation_get(const rd_npu_mutation *m, size_t i) {
  return i < rd_npu_mutation_count(m) ? &m->view[i] : NULL;
}
void rd_npu_mutation_totals(const rd_npu_mutation *m, uint64_t *needed, uint64_t *redundant,
                            uint64_t *undetected) {
  *needed = m ? m->needed : 0;
  *redundant = m ? m->redundant : 0;
  *undetected = m ? m->undetected : 0;
}

char *rd_npu_mutation_text(const rd_npu_mutation *m) {
  text t = {0};
  if (!m) return NULL;
  if (m->problem[0]) rdn_text_add(&t, "%s\n", m->problem);
  for (size_t n = 0; n < rd_npu_mutation_count(m); n++) {
    const rd_npu_mutant *x = &m->view[n];
    rdn_text_add(&t, "%-10s %-12s %s: %s\n",
                 x->needed       ? "needed"
                 : x->undetected ? "UNDETECTED"
                                 : "redundant",
                 x->what, x->unit, x->reason);
  }
  rdn_text_add(&t, "mutation: %llu needed, %llu redundant, %llu undetected\n",
               (unsigned long long)m->needed, (unsigned long long)m->redundant,
               (unsigned long long)m->undetected);
  return rdn_text_take(&t);
}

char *rd_npu_mutation_json(const rd_npu_mutation *m) {
  text t = {0};
  if (!m) return NULL;
  rdn_text_add(&t, "{\"problem\": ");
  rdn_text_json(&t, m->problem[0] ? m->problem : NULL);
  rdn_text_add(&t, ", \"mutants\": [");
  for (size_t n = 0; n < rd_npu_mutation_count(m); n++) {
    const rd_npu_mutant *x = &m->view[n];
    rdn_text_add(&t, "%s{\"what\": \"%s\", \"unit\": ", n ? ", " : "", x->what);
    rdn_text_json(&t, x->unit);
    rdn_text_add(&t, ", \"verdict\": \"%s\", \"reason\": ",
                 x->needed       ? "needed"
                 : x->undetected ? "undetected"
                                 : "redundant");
    rdn_text_json(&t, x->reason);
    rdn_text_add(&t, "}");
  }
  rdn_text_add(&t, "], \"needed\": %llu, \"redundant\": %llu, \"undetected\": %llu}",
               (unsigned long long)m->needed, (unsigned long long)m->redundant,
               (unsigned long long)m->undetected);
  return rdn_text_take(&t);
}

void rd_npu_mutation_free(rd_npu_mutation *m) {
  if (!m) return;
  for (uint32_t u = 0; u < m->unit_count; u++) free(m->units[u].where);
  for (uint32_t n = 0; n < m->mutant_count; n++) {
    free(m->mutants[n].reason);
    if (m->view_text) free(m->view_text[n]);
  }
  free(m->units);
  free(m->mutants);
  free(m->view);
  free(m->view_text);
  free(m);
}
