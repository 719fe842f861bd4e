#include "npu/report/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rd_npu_report *rdn_report_new(void) { return calloc(1, sizeof(rd_npu_report)); }

void rdn_report_summary(rd_npu_report *r, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(r->summary, sizeof r->summary, format, list);
  va_end(list);
}

const char *rd_npu_finding_name(rd_npu_finding_kind kind) {
  static const char *const names[RD_NPU_FINDING_KINDS] = {
      [RD_NPU_RACE_RAW] = "race RAW",
      [RD_NPU_RACE_WAR] = "race WAR",
      [RD_NPU_RACE_WAW] = "race WAW",
      [RD_NPU_RACE_CORES] = "race between cores",
      [RD_NPU_FLAG_REUSE] = "flag reuse",
      [RD_NPU_DEADLOCK] = "deadlock",
      [RD_NPU_LEFTOVER_FLAG] = "leftover flag",
      [RD_NPU_LEFTOVER_OP] = "leftover operation",
      [RD_NPU_ID_RANGE] = "event id",
      [RD_NPU_BOUNDS] = "bounds",
      [RD_NPU_UNINITIALISED] = "uninitialised read",
      [RD_NPU_ACCUMULATE] = "accumulate rule",
      [RD_NPU_MISSING_INSTRUCTION] = "missing instruction",
      [RD_NPU_STALE_LINE] = "stale line",
      [RD_NPU_LOST_LINE] = "lost line",
      [RD_NPU_SCHEDULE_VALUE] = "values depend on the schedule",
      [RD_NPU_DOUBLE_SET] = "double set",
      [RD_NPU_DEEP_QUEUE] = "deep queue",
      [RD_NPU_MASK_LEFT] = "mask left",
      [RD_NPU_GM_BY_FLAG] = "GM ordered by events"};
  return (unsigned)kind < RD_NPU_FINDING_KINDS ? names[kind] : "?";
}

size_t rd_npu_report_count(const rd_npu_report *r) { return r ? r->count : 0; }
const rd_npu_finding *rd_npu_report_get(const rd_npu_report *r, size_t i) {
  return r && i < r->count ? &r->list[i] : NULL;
}
size_t rd_npu_report_note_count(const rd_npu_report *r) { return r ? r->note_count : 0; }
const rd_npu_finding *rd_npu_report_note_get(const rd_npu_report *r, size_t i) {
  return r && i < r->note_count ? &r->notes[i] : NULL;
}
const char *rd_npu_report_summary(const rd_npu_report *r) {
  return r ? r->summary : "out of memory";
}
uint64_t rd_npu_report_instructions(const rd_npu_report *r) { return r ? r->instructions : 0; }
uint64_t rd_npu_report_schedules(const rd_npu_report *r, bool *capped) {
  if (capped) *capped = r && r->capped;
  return r ? r->schedules : 0;
}

/* Findings own their strings; the const in the public struct is for readers. */
static void drop(const char *s) { free((void *)(uintptr_t)s); }

static void drop_strings(const rd_npu_finding *f) {
  drop(f->first.site), drop(f->second.site), drop(f->first.buffer), drop(f->second.buffer);
  drop(f->missing), drop(f->message), drop(f->witness_tensor), drop(f->witness_site);
}

void rd_npu_report_free(rd_npu_report *r) {
  if (!r) return;
  for (size_t i = 0; i < r->count; i++) drop_strings(&r->list[i]);
  for (size_t i = 0; i < r->note_count; i++) drop_strings(&r->notes[i]);
  free(r->notes);
  for (size_t i = 0; i < r->dropped_count; i++)
    drop(r->dropped[i].place), drop(r->dropped[i].implied_by);
  free(r->dropped);
  free(r->list);
  free(r);
}

size_t rd_npu_report_dropped_count(const rd_npu_report *r) { return r ? r->dropped_count : 0; }
const rd_npu_dropped *rd_npu_report_dropped_get(const rd_npu_report *r, size_t i) {
  return r && i < r->dropped_count ? &r->dropped[i] : NULL;
}

bool rdn_report_dropped(rd_npu_report *r, const char *place, bool implied, const char *by) {
  rd_npu_dropped *d = NULL;
  for (size_t i = 0; place && i < r->dropped_count && !d; i++)
    if (strcmp(r->dropped[i].place, place) == 0) d = &r->dropped[i];
  if (place && !d) {
    if (r->dropped_count == r->dropped_capacity) {
      size_t capacity = r->dropped_capacity ? r->dropped_capacity * 2 : 32;
      rd_npu_dropped *list = realloc(r->dropped, capacity * sizeof *list);
      if (!list) return false;
      r->dropped = list;
      r->dropped_capacity = capacity;
    }
    d = &r->dropped[r->dropped_count];
    *d = (rd_npu_dropped){.place = strdup(place)};
    if (!d->place) return false;
    r->dropped_count++;
  }
  if (!d) return false;
  d->total++;
  d->implied += implied;
  if (implied && !d->implied_by) d->implied_by = strdup(by);
  return !implied || d->implied_by;
}

/* ---- from raw to public
 * --------------------------------------------------------------------------- */

static void trap_name(rd_npu_finding *f, uint8_t buffer) {
  bool cube = f->first.pipe == RD_NPU_PIPE_M || f->second.pipe == RD_NPU_PIPE_M;
  if (f->kind > RD_NPU_RACE_WAW || !cube || f->first.pipe == f->second.pipe) return;
  if (buffer == RD_NPU_L0C)
    f->trap = f->first.pipe == RD_NPU_PIPE_FIX || f->second.pipe == RD_NPU_PIPE_FIX
                  ? "fixp_l0c_rdwr_cflt"
              : f->kind == RD_NPU_RACE_RAW ? "vec_l0c_rdwr_cflt"
                                           : "cube_l0c_rdwr_cflt";
  if (buffer == RD_NPU_L0A) f->trap = "cube_l0a_rdwr_cflt";
  if (buffer == RD_NPU_L0B) f->trap = "cube_l0b_rdwr_cflt";
}

static bool is_race(uint8_t kind) { return kind <= RD_NPU_RACE_WAW || kind == RD_NPU_ACCUMULATE; }
static bool has_bytes(uint8_t kind) {
  return is_race(kind) || kind == RD_NPU_UNINITIALISED || kind == RD_NPU_RACE_CORES ||
         kind == RD_NPU_STALE_LINE || kind == RD_NPU_LOST_LINE || kind == RD_NPU_GM_BY_FLAG;
}

static bool fill_access(rd_npu_access *to, const raw_access *from, const rd_npu_core *c,
                        uint8_t kind) {
  if (from->op == OP_COUNT) return true;
  char site_text[400];
  rdn_site_text(&c->prog, from->site, site_text, sizeof site_text);
  to->pipe = from->pipe;
  to->instruction = rdn_ops[from->op].name;
  to->site = strdup(site_text);
  if (has_bytes(kind)) {
    const char *name = from->buffer == RD_NPU_GM ? c->launch->tensors[from->tensor].name
                                                 : rd_npu_buffer_name(from->buffer);
    to->buffer = strdup(name);
    to->begin = from->begin;
    to->end = from->end;
    if (!to->buffer) return false;
  }
  return to->site != NULL;
}

/* The compiler can be asked to insert this one. */
static const char *hint(const rd_npu_finding *f) {
  bool vectors = f->first.pipe == RD_NPU_PIPE_V && f->second.pipe == RD_NPU_PIPE_V;
  return vectors && f->first.buffer && strcmp(f->first.buffer, "UB") == 0
             ? " (a compiler that inserts V-V synchronisation does: --auto-sync all)"
             : "";
}

static char *pair_message(const rd_npu_finding *f) {
  char m[400];
  if (f->kind == RD_NPU_ACCUMULATE)
    snprintf(m, sizeof m,
             "two products use this L0C block with fewer than 10 fractals and no pipe_barrier(M) "
             "between");
  else if (f->kind == RD_NPU_UNINITIALISED)
    snprintf(m, sizeof m, "reads bytes that nothing has written in this launch");
  else if (f->kind == RD_NPU_RACE_CORES)
    snprintf(m, sizeof m, "two cores of the launch touch these bytes and one of them writes");
  else
    snprintf(m, sizeof m, "nothing orders the %s by %s after the %s by %s%s",
             f->kind == RD_NPU_RACE_RAW ? "read" : "write", rd_npu_pipe_name(f->second.pipe),
             f->kind == RD_NPU_RACE_WAR ? "read" : "write", rd_npu_pipe_name(f->first.pipe),
             hint(f));
  return strdup(m);
}

static char *missing_event(const rd_npu_finding *f) {
  char m[40];
  if (f->first.pipe == f->second.pipe)
    snprintf(m, sizeof m, "pipe_barrier(%s)", rd_npu_pipe_name(f->first.pipe));
  else
    snprintf(m, sizeof m, "%s_%s", rd_npu_pipe_name(f->first.pipe),
             rd_npu_pipe_name(f->second.pipe));
  return strdup(m);
}

static char *back_edge(const raw_finding *raw) {
  char m[40];
  /* first is the wait (or the earlier set), second the set that comes too early */
  if (raw->first.op != OP_wait_flag) return strdup("a wait between the two sets");
  snprintf(m, sizeof m, "%s_%s", rd_npu_pipe_name(raw->first.pipe),
           rd_npu_pipe_name(raw->second.pipe));
  return strdup(m);
}

static bool fill(rd_npu_finding *f, const raw_finding *raw, const rd_npu_core *c) {
  memset(f, 0, sizeof *f);
  f->kind = raw->kind;
  f->core = c->block;
  f->count = raw->count;
  bool ok = fill_access(&f->first, &raw->first, c, raw->kind) &&
            fill_access(&f->second, &raw->second, c, raw->kind);
  if (is_race(raw->kind)) f->missing = missing_event(f), ok = ok && f->missing;
  if (raw->kind == RD_NPU_DOUBLE_SET) f->missing = strdup("a wait between the two sets");
  if (raw->kind == RD_NPU_FLAG_REUSE) f->missing = back_edge(raw), ok = ok && f->missing;
  if (raw->kind == RD_NPU_DEADLOCK && c->stuck) {
    text t = {0};
    rdn_text_add(&t, "%s. Held: %s", raw->why, c->stuck);
    f->message = rdn_text_take(&t);
  } else
    f->message = raw->why[0] ? strdup(raw->why) : pair_message(f);
  trap_name(f, raw->first.buffer);
  f->witness = raw->witness;
  f->witness_index = raw->witness_index;
  f->expected = raw->expected;
  f->got = raw->got;
  f->continuation = raw->continuation;
  if (raw->witness == RD_NPU_WITNESS_DIFFERS && raw->witness_site) {
    char where[400];
    rdn_site_text(&c->prog, raw->witness_site, where, sizeof where);
    f->witness_site = strdup(where);
    ok = ok && f->witness_site;
  } else if (raw->witness == RD_NPU_WITNESS_DIFFERS) {
    f->witness_tensor = strdup(c->launch->tensors[raw->witness_tensor].name);
    ok = ok && f->witness_tensor;
  }
  return ok && f->message;
}

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_group(const rd_npu_finding *a, const rd_npu_finding *b) {
  return a->kind == b->kind && same_text(a->first.site, b->first.site) &&
         same_text(a->second.site, b->second.site) &&
         same_text(a->first.instruction, b->first.instruction) &&
         same_text(a->second.instruction, b->second.instruction) &&
         same_text(a->first.buffer, b->first.buffer);
}

static rd_npu_finding *append_to(rd_npu_finding **list, size_t *count, size_t *capacity) {
  if (*count == *capacity) {
    size_t more = *capacity ? *capacity * 2 : 16;
    rd_npu_finding *longer = realloc(*list, more * sizeof *longer);
    if (!longer) return NULL;
    *list = longer;
    *capacity = more;
  }
  return &(*list)[(*count)++];
}

static rd_npu_finding *append(rd_npu_report *r) {
  return append_to(&r->list, &r->count, &r->capacity);
}

/* The newest entry goes into an older one of its group, if there is one. */
static void merge(rd_npu_finding *list, size_t *count) {
  rd_npu_finding *f = &list[*count - 1];
  for (size_t i = 0; i + 1 < *count; i++)
    if (same_group(&list[i], f)) {
      list[i].count += f->count;
      drop_strings(f);
      --*count;
      return;
    }
}

static bool add(rd_npu_report *r, const raw_finding *raw, const rd_npu_core *c) {
  rd_npu_finding *f = append(r);
  if (!f || !fill(f, raw, c)) return false;
  merge(r->list, &r->count);
  return true;
}

static bool add_note(rd_npu_report *r, const raw_finding *raw, const rd_npu_core *c) {
  rd_npu_finding *f = append_to(&r->notes, &r->note_count, &r->note_capacity);
  if (!f || !fill(f, raw, c)) return false;
  merge(r->notes, &r->note_count);
  return true;
}

bool rdn_report_is_first(const rd_npu_core *cores, uint32_t core, uint32_t index) {
  const raw_finding *mine = &cores[core].findings.list[index];
  char a1[400], a2[400], b1[400], b2[400];
  rdn_site_text(&cores[core].prog, mine->first.site, a1, sizeof a1);
  rdn_site_text(&cores[core].prog, mine->second.site, a2, sizeof a2);
  for (uint32_t c = 0; c < core; c++)
    for (uint32_t k = 0; k < cores[c].findings.count; k++) {
      const raw_finding *f = &cores[c].findings.list[k];
      if (f->kind != mine->kind || f->first.op != mine->first.op ||
          f->second.op != mine->second.op || f->first.buffer != mine->first.buffer)
        continue;
      rdn_site_text(&cores[c].prog, f->first.site, b1, sizeof b1);
      rdn_site_text(&cores[c].prog, f->second.site, b2, sizeof b2);
      if (strcmp(a1, b1) == 0 && strcmp(a2, b2) == 0) return false;
    }
  return true;
}

/* ---- races between cores
 * ---------------------------------------------------------------------------- */

typedef struct core_range {
  range r;
  uint32_t core;
  range_kind kind;
} core_range;

static int by_start(const void *x, const void *y) {
  const core_range *a = x, *b = y;
  if (a->r.begin != b->r.begin) return a->r.begin < b->r.begin ? -1 : 1;
  if (a->core != b->core) return a->core < b->core ? -1 : 1;
  return (int)a->kind - (int)b->kind;
}

static bool cross_pair(rd_npu_report *r, const rd_npu_core *cores, const core_range *x,
                       const core_range *y, uint32_t tensor, bool lines) {
  uint64_t begin = x->r.begin > y->r.begin ? x->r.begin : y->r.begin,
           end = x->r.end < y->r.end ? x->r.end : y->r.end;
  const core_range *pair[2] = {x->core < y->core ? x : y, x->core < y->core ? y : x};
  rd_npu_finding *f = append(r);
  if (!f) return false;
  memset(f, 0, sizeof *f);
  f->kind = RD_NPU_RACE_CORES;
  f->core = pair[0]->core;
  f->count = 1;
  rd_npu_access *to[2] = {&f->first, &f->second};
  bool ok = true;
  for (int n = 0; n < 2; n++) {
    raw_access a = {.pipe = pair[n]->r.pipe,
                    .op = pair[n]->r.op,
                    .site = pair[n]->r.site,
                    .tensor = tensor,
                    .buffer = RD_NPU_GM,
                    .begin = begin,
                    .end = end};
    ok = ok && fill_access(to[n], &a, &cores[pair[n]->core], RD_NPU_RACE_CORES);
  }
  char m[160];
  snprintf(
      m, sizeof m,
      lines ? "cores %u and %u of the launch %s and %s one 64-byte line, which S writes as a whole"
            : "cores %u and %u of the launch touch these bytes (%s and %s); nothing orders cores",
      pair[0]->core, pair[1]->core, pair[0]->kind ? "write" : "read",
      pair[1]->kind ? "write" : "read");
  f->message = strdup(m);
  for (size_t i = 0; ok && i + 1 < r->count; i++)
    if (same_group(&r->list[i], f)) {
      r->list[i].count++;
      drop(f->first.site), drop(f->second.site), drop(f->first.buffer), drop(f->second.buffer),
          drop(f->message);
      r->count--;
      return true;
    }
  return ok && f->message;
}

/* Reads conflict with the bytes that another core writes, two writes by S with their lines. */
static bool conflict(const core_range *a, const core_range *b, bool lines) {
  if (a->core == b->core) return false;
  bool stored = a->kind == RANGES_STORED || b->kind == RANGES_STORED;
  if (lines) return stored;
  return (a->kind || b->kind) && !(stored && a->kind && b->kind);
}

/* lines: of the data cache, where S stores; else bytes. */
static bool cross_tensor(rd_npu_report *r, const rd_npu_core *cores, uint32_t count, uint32_t t,
                         bool lines) {
  size_t total = 0, n = 0, writes = 0;
  for (uint32_t c = 0; c < count; c++)
    for (unsigned k = RANGES_READ; k < RANGES; k++) {
      total += cores[c].ranges[k][t].count;
      if (lines ? k == RANGES_STORED : k) writes += cores[c].ranges[k][t].count;
    }
  if (!writes) return true;
  core_range *list = malloc(total * sizeof *list);
  if (!list) return false;
  for (uint32_t c = 0; c < count; c++)
    for (unsigned k = lines ? RANGES_WRITTEN : RANGES_READ; k < RANGES; k++)
      for (size_t x = 0; x < cores[c].ranges[k][t].count; x++) {
        range one = cores[c].ranges[k][t].list[x];
        if (lines && k == RANGES_STORED) {
          one.begin = one.begin / CACHE_LINE * CACHE_LINE;
          one.end = (one.end + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        }
        list[n++] = (core_range){one, c, (range_kind)k};
      }
  qsort(list, n, sizeof *list, by_start);
  bool ok = true;
  uint32_t found = 0;
  for (size_t a = 0; a < n && ok; a++)
    for (size_t b = a + 1; b < n && ok && found < 10000 && list[b].r.begin < list[a].r.end; b++)
      if (conflict(&list[a], &list[b], lines)) {
        ok = cross_pair(r, cores, &list[a], &list[b], t, lines);
        found++;
      }
  free(list);
  return ok;
}

bool rdn_report_collect(rd_npu_report *r, const rd_npu_launch *l, const rd_npu_core *cores,
                        uint32_t count) {
  bool ok = true;
  for (uint32_t c = 0; c < count && ok; c++) {
    r->instructions += cores[c].issued;
    for (uint32_t k = 0; k < cores[c].findings.count && ok; k++)
      ok = add(r, &cores[c].findings.list[k], &cores[c]);
    for (uint32_t k = 0; k < cores[c].notes.count && ok; k++)
      ok = add_note(r, &cores[c].notes.list[k], &cores[c]);
  }
  for (uint32_t t = 0; t < l->tensor_count && ok && count > 1; t++)
    if (cores[0].ranges[0])
      ok = cross_tensor(r, cores, count, t, false) && cross_tensor(r, cores, count, t, true);
  uint64_t remedies = 0;
  for (uint32_t c = 0; c < count; c++) remedies += cores[c].remedies;
  char with[64] = "";
  if (remedies)
    snprintf(with, sizeof with, ", with events added at %llu place%s", (unsigned long long)remedies,
             remedies == 1 ? "" : "s");
  rdn_report_summary(r, "%llu instructions on %u core%s, %zu finding%s%s",
                     (unsigned long long)r->instructions, count, count == 1 ? "" : "s", r->count,
                     r->count == 1 ? "" : "s", with);
  return ok;
}
