/*
 * Timelines under a simple cost model - a model to see waits and overlap in, not silicon.
 *
 * Cycles of an instruction are those of its class (npu/isa); docs/NPU-MODEL.md tabulates them.
 * A pipe runs one operation at a time; S stalls when 32 instructions wait in a queue.
 */
#include "npu/check/order.h"
#include "npu/isa/instruction.h"
#include "npu/launch/launch.h"
#include "npu/machine/arch.h"
#include "npu/record/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct set_times { /* of flags set and not yet waited for */
  uint64_t *at;
  uint32_t head, count, capacity;
} set_times;

typedef struct timeline {
  const rd_npu_core *core;
  uint64_t s, free[PIPES];
  uint64_t started[PIPES]
                  [QUEUE_DEPTH]; /* when the last QUEUE_DEPTH instructions left their queue */
  set_times flags[PIPES][PIPES][FLAG_IDS];
  rd_npu_write *json, *log;
  void *json_user, *log_user;
  bool *first_event, stopped, failed;
  rd_npu_trace_result *result;
} timeline;

static bool push_time(set_times *f, uint64_t at) {
  if (f->count == f->capacity) {
    uint32_t capacity = f->capacity ? f->capacity * 2 : 4;
    uint64_t *list = malloc(capacity * sizeof *list);
    if (!list) return false;
    for (uint32_t n = 0; n < f->count; n++) list[n] = f->at[(f->head + n) % f->capacity];
    free(f->at);
    f->at = list, f->head = 0, f->capacity = capacity;
  }
  f->at[(f->head + f->count++) % f->capacity] = at;
  return true;
}

static void send(timeline *t, bool json, text *line) {
  rd_npu_write *write = json ? t->json : t->log;
  if (!line->ok) t->failed = true;
  if (write && line->ok && !t->stopped &&
      !write(json ? t->json_user : t->log_user, line->data, line->used))
    t->stopped = true;
  free(line->data);
}

static void instruction_name(const insn *i, text *out) {
  if (i->op == OP_wait_flag || i->op == OP_set_flag)
    rdn_text_add(out, "%s %s_%s %u", i->op == OP_wait_flag ? "wait" : "set",
                 rd_npu_pipe_name(i->flag.src), rd_npu_pipe_name(i->flag.dst), i->flag.id);
  else if (i->op == OP_pipe_barrier)
    rdn_text_add(out, "pipe_barrier(%s)", rd_npu_pipe_name(i->barrier.pipe));
  else
    rdn_text_add(out, "%s", rdn_ops[i->op].name);
}

/* Every operand: how it is used, where, and how often the range recurs in pieces. */
static void operands_text(const timeline *t, const insn *i, text *line) {
  operand o[MAX_OPERANDS];
  unsigned count = rdn_operands(i, o);
  for (unsigned n = 0; n < count; n++) {
    bool r = o[n].access & READ, w = o[n].access & WRITE;
    const char *name = o[n].buffer == RD_NPU_GM ? t->core->launch->tensors[o[n].tensor].name
                                                : rd_npu_buffer_name(o[n].buffer);
    rdn_text_add(line, " | %s%s %s[0x%llx, 0x%llx)", r ? "r" : "", w ? "w" : "", name,
                 (unsigned long long)o[n].base, (unsigned long long)rdn_operand_end(&o[n]));
    if (o[n].units > 1 && o[n].stride != o[n].bytes)
      rdn_text_add(line, " %llu every %llu bytes", (unsigned long long)o[n].units,
                   (unsigned long long)o[n].stride);
  }
}

static void event(timeline *t, const insn *i, uint64_t start, uint64_t end, bool waiting) {
  if (!t->json && !t->log) return;
  char where[400];
  text name = {0};
  rdn_site_text(&t->core->prog, i->site, where, sizeof where);
  instruction_name(i, &name);
  if (!name.ok) {
    t->failed = true;
    free(name.data);
    return;
  }
  if (t->json && end > start) {
    text line = {0};
    rdn_text_add(
        &line,
        "%s{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %llu, \"dur\": %llu, "
        "\"pid\": %u, \"tid\": %u, \"args\": {\"site\": ",
        *t->first_event ? "" : ",\n", name.data, waiting ? "wait" : "run",
        (unsigned long long)start, (unsigned long long)(end - start), t->core->block, i->pipe);
    rdn_text_json(&line, where);
    rdn_text_add(&line, "}}");
    *t->first_event = false;
    send(t, true, &line);
  }
  if (t->log) {
    text line = {0};
    rdn_text_add(&line, "core %u %-4s %10llu %10llu  %-24s %s", t->core->block,
                 rd_npu_pipe_name(i->pipe), (unsigned long long)start, (unsigned long long)end,
                 name.data, where);
    operands_text(t, i, &line);
    rdn_text_add(&line, "\n");
    send(t, false, &line);
  }
  free(name.data);
}

/* When the set that a wait takes fired: in reference order it is there. */
static uint64_t take_time(timeline *t, const insn *i) {
  set_times *f = &t->flags[i->flag.src][i->flag.dst][i->flag.id];
  uint64_t at = f->at[f->head];
  f->head = (f->head + 1) % f->capacity;
  f->count--;
  return at;
}

static void step_s(timeline *t, const insn *i) {
  uint64_t start = t->s;
  rd_npu_pipe_use *use = &t->result->pipe[RD_NPU_PIPE_S];
  bool waits = true;
  if (i->op == OP_wait_flag) {
    uint64_t at = take_time(t, i);
    if (at > t->s) t->s = at;
  } else if (i->op == OP_pipe_barrier) {
    for (unsigned p = 1; p < PIPES && i->barrier.pipe == RD_NPU_PIPE_ALL; p++)
      if (t->free[p] > t->s) t->s = t->free[p];
  } else
    waits = false;
  use->waiting += t->s - start;
  if (!waits) {
    uint64_t c = rdn_cost(i);
    t->s += c;
    use->busy += c;
    use->operations++;
    if (i->op == OP_set_flag && !push_time(&t->flags[i->flag.src][i->flag.dst][i->flag.id], t->s))
      t->failed = true;
  }
  event(t, i, start, t->s, waits);
}

/* S puts an instruction into its pipe's queue: when? */
static uint64_t issue_time(timeline *t, const insn *i) {
  uint64_t slot = t->started[i->pipe][i->index % QUEUE_DEPTH];
  if (i->pipe == RD_NPU_PIPE_S) return t->s;
  if (slot > t->s) { /* the queue is full until that instruction has left it */
    t->result->pipe[RD_NPU_PIPE_S].waiting += slot - t->s;
    t->s = slot;
  }
  return ++t->s;
}

static void step_pipe(timeline *t, const insn *i, uint64_t issued) {
  unsigned p = i->pipe;
  rd_npu_pipe_use *use = &t->result->pipe[p];
  uint64_t start = t->free[p] > issued ? t->free[p] : issued, end = start;
  if (i->op == OP_wait_flag) {
    uint64_t at = take_time(t, i);
    if (at > end) end = at;
    use->waiting += end - start;
  } else if (i->op == OP_set_flag) {
    if (!push_time(&t->flags[i->flag.src][i->flag.dst][i->flag.id], start)) t->failed = true;
  } else if (i->op != OP_pipe_barrier) {
    uint64_t c = rdn_cost(i);
    end += c;
    use->busy += c;
    use->operations++;
    use->bytes += rdn_moved_bytes(i);
  }
  t->started[p][i->index % QUEUE_DEPTH] = start;
  t->free[p] = end;
  event(t, i, start, end, i->op == OP_wait_flag);
}

/* In reference order. */
static void go(void *user, const insn *i, uint32_t position, uint64_t issued) {
  timeline *t = user;
  (void)position;
  if (t->failed || t->stopped) return;
  if (i->pipe == RD_NPU_PIPE_S)
    step_s(t, i);
  else
    step_pipe(t, i, issued);
}

static void trace_core(timeline *t) {
  for (unsigned p = 0; p < PIPES && t->json; p++) {
    if (!rdn_pipe_exists(t->core->launch, p)) continue;
    text line = {0};
    rdn_text_add(&line,
                 "%s{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %u, \"tid\": %u, \"args\": "
                 "{\"name\": \"%s\"}}",
                 *t->first_event ? "" : ",\n", t->core->block, p, rd_npu_pipe_name(p));
    *t->first_event = false;
    send(t, true, &line);
  }
  rdn_order o;
  rdn_order_init(&o, go, t);
  for (size_t n = 0; n < t->core->prog.count && !t->failed && !t->stopped && !o.failed; n++) {
    const insn *i = &t->core->prog.list[n];
    rdn_order_issue(&o, i, (uint32_t)n, o.s_stuck ? t->s : issue_time(t, i));
  }
  t->failed |= o.failed;
  rdn_order_free(&o);
  uint64_t end = t->s;
  for (unsigned p = 1; p < PIPES; p++)
    if (t->free[p] > end) end = t->free[p];
  if (end > t->result->cycles) t->result->cycles = end;
  set_times *flags = &t->flags[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_IDS; n++) free(flags[n].at);
}

static bool write_text(rd_npu_write *write, void *user, const char *s) {
  return !write || write(user, s, strlen(s));
}

rd_npu_status rd_npu_trace(const rd_npu_launch *launch, const rd_npu_options *options,
                           rd_npu_write *json, void *json_user, rd_npu_write *log, void *log_user,
                           rd_npu_trace_result *result) {
  static const rd_npu_options defaults = {.size = sizeof(rd_npu_options)};
  const rd_npu_options *o = options ? options : &defaults;
  memset(result, 0, sizeof *result);
  if (rdn_launch_problem(launch, options)) return RD_NPU_BAD_INPUT;
  rd_npu_core *cores;
  uint32_t count;
  run_plan plan = {.execute = false, .check = false, .keep = true};
  rd_npu_status s = rdn_run_cores(launch, o, plan, &cores, &count);
  result->cores = count;
  bool first = true,
       stopped = !write_text(json, json_user, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n");
  for (uint32_t c = 0; c < count && s == RD_NPU_OK && !stopped; c++) {
    timeline *t = calloc(1, sizeof *t);
    if (!t) {
      s = RD_NPU_NO_MEMORY;
      break;
    }
    t->core = &cores[c];
    t->json = json, t->json_user = json_user, t->log = log, t->log_user = log_user;
    t->first_event = &first;
    t->result = result;
    trace_core(t);
    if (t->failed) s = RD_NPU_NO_MEMORY;
    stopped = t->stopped;
    if (cores[c].findings.count) s = s == RD_NPU_OK ? RD_NPU_FINDING : s;
    free(t);
  }
  if (!stopped) write_text(json, json_user, "\n]}\n");
  rdn_free_cores(cores, count);
  return s;
}
