/* The model runs a kernel; what it reports and what its schedules do is held against the second
 * checker. */
#include "properties.h"
#include "npu/isa/instruction.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ running */

static uint8_t in[IN_BYTES], state[STATE_BYTES], dump[DUMP_BYTES];
typedef struct outputs {
  uint8_t state[STATE_BYTES], dump[DUMP_BYTES];
} outputs;

static void fill_inputs(void) {
  for (uint32_t n = 0; n < IN_BYTES; n += 2) { /* f16 and f32 between 2^-7 and 2, all different */
    uint32_t x = n * 2654435761u >> 7;
    in[n] = (uint8_t)x, in[n + 1] = (uint8_t)(0x3C | (x >> 8 & 3));
  }
  for (uint32_t n = 0; n < 128; n++) { /* offsets of the gathers */
    uint32_t x = n * 37 % 32 * 4;
    memcpy(&in[IN_BYTES - 512 + 4 * n], &x, 4);
  }
  for (uint32_t n = 0; n < STATE_BYTES; n++) state[n] = (uint8_t)(in[n] ^ (n & 1 ? 0 : 0x55));
  memset(dump, 0, sizeof dump);
}

static rd_npu_tensor gm[GM_TENSORS] = {{"in", in, IN_BYTES, 2, RD_NPU_IN},
                                       {"state", state, STATE_BYTES, 2, RD_NPU_INOUT},
                                       {"dump", dump, DUMP_BYTES, 2, RD_NPU_OUT}};
static rd_npu_launch launch_of(const random_kernel *k) {
  return (rd_npu_launch){.size = sizeof(rd_npu_launch),
                         .arch = k->arch,
                         .kind = k->kind,
                         .block_num = 1,
                         .kernel = run_kernel,
                         .args = k,
                         .tensors = gm,
                         .tensor_count = GM_TENSORS};
}

static rd_npu_options options_of(const random_kernel *k, rd_npu_mode mode, rd_npu_schedule schedule,
                                 uint64_t seed) {
  rd_npu_options o = {.size = sizeof o, .mode = mode, .schedule = schedule, .seed = seed};
  o.auto_sync = k->auto_sync;
  o.flags = k->binary ? RD_NPU_FLAGS_BINARY : RD_NPU_FLAGS_COUNT;
  return o;
}

static rd_npu_status run(const random_kernel *k, const rd_npu_options *o, rd_npu_report **r,
                         outputs *out) {
  rd_npu_launch l = launch_of(k);
  fill_inputs();
  rd_npu_status s = rd_npu_run(&l, o, r);
  if (out) {
    memcpy(out->state, state, sizeof state);
    memcpy(out->dump, dump, sizeof dump);
  }
  return s;
}

/* ------------------------------------------------------------------ what schedules do */

bool __real_rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end);
bool __wrap_rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end);
bool __real_rdn_image_differs(const void *a, const void *b, uint32_t *tensor, uint64_t *byte);
bool __wrap_rdn_image_differs(const void *a, const void *b, uint32_t *tensor, uint64_t *byte);

/* Pairs still to be seen overlapping or reversed. A run starts when an instruction starts again. */
static struct {
  bool on;
  bool begun[MOST_STEPS], ended[MOST_STEPS];
  pair pairs[MOST_PAIRS];
  uint32_t count;
} watch;

bool __wrap_rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end) {
  uint32_t n = i->site - 1; /* sites are made in the order of the list */
  if (watch.on && n < MOST_STEPS && begin < end) {
    if (begin == 0 && watch.begun[n]) {
      memset(watch.begun, 0, sizeof watch.begun);
      memset(watch.ended, 0, sizeof watch.ended);
    }
    if (begin == 0)
      for (uint32_t p = 0; p < watch.count; p++)
        if (watch.pairs[p].second == n && !watch.ended[watch.pairs[p].first])
          watch.pairs[p--] = watch.pairs[--watch.count];
    watch.begun[n] = true;
    watch.ended[n] = end >= rdn_units(i);
  }
  return __real_rdn_execute(m, i, begin, end);
}
/* Exploration ends at the first difference; while pairs are sought it must go on. */
bool __wrap_rdn_image_differs(const void *a, const void *b, uint32_t *tensor, uint64_t *byte) {
  return !watch.on && __real_rdn_image_differs(a, b, tensor, byte);
}

static bool pairs_happen(const random_kernel *k, const verdict *v, tally *t, char *why,
                         size_t size) {
  memset(&watch, 0, sizeof watch);
  /* A value read that differs ends its run: what comes behind is not seen. */
  for (uint32_t n = 0; n < k->count; n++)
    if (k->list[n].op == R_get_value) return true;
  for (uint32_t n = 0; n < v->count; n++)
    if (!v->pairs[n].by_rule) watch.pairs[watch.count++] = v->pairs[n];
  t->pairs += v->count;
  t->by_rule += v->count - watch.count;
  for (uint32_t round = 0; round < 80 && watch.count; round++) {
    rd_npu_options o = options_of(k, RD_NPU_VALUES, RD_NPU_RANDOM, round);
    if (round == 0) o.schedule = RD_NPU_LAZY;
    if (round == 8) o.schedule = RD_NPU_EXHAUSTIVE, o.max_schedules = 2000;
    rd_npu_report *r;
    memset(watch.begun, 0, sizeof watch.begun);
    watch.on = true;
    run(k, &o, &r, NULL);
    watch.on = false;
    rd_npu_report_free(r);
    t->schedules++;
  }
  if (watch.count)
    snprintf(why, size, "no schedule overlaps or reverses %u and %u (%s)", watch.pairs[0].first + 1,
             watch.pairs[0].second + 1, rd_npu_finding_name(watch.pairs[0].kind));
  return watch.count == 0;
}

/* ------------------------------------------------------------------ reports */

static unsigned step_of(const char *site) {
  const char *colon = site ? strchr(site, ':') : NULL;
  return colon ? (unsigned)strtoul(colon + 1, NULL, 10) - 1 : MOST_STEPS;
}

static bool is_pair(const rd_npu_finding *f) {
  return f->kind <= RD_NPU_RACE_WAW || f->kind == RD_NPU_ACCUMULATE;
}

static property compare_pairs(const rd_npu_report *r, const verdict *v, char *why, size_t size) {
  uint32_t reported = 0;
  static verdict model;
  model.count = 0;
  for (size_t n = 0; n < rd_npu_report_count(r); n++) {
    const rd_npu_finding *f = rd_npu_report_get(r, n);
    if (!is_pair(f)) continue;
    unsigned a = step_of(f->first.site), b = step_of(f->second.site);
    reported++;
    model.pairs[model.count++] = (pair){(uint8_t)a, (uint8_t)b, f->kind, false, false};
    if (!has_pair(v, a, b, f->kind) || f->count != 1) {
      snprintf(why, size, "the model alone reports %s of %u and %u (%llu times)",
               rd_npu_finding_name(f->kind), a + 1, b + 1, (unsigned long long)f->count);
      return SAME_PAIRS;
    }
  }
  for (uint32_t n = 0; n < v->count && reported < v->count; n++)
    if (!v->pairs[n].implied &&
        !has_pair(&model, v->pairs[n].first, v->pairs[n].second, v->pairs[n].kind)) {
      snprintf(why, size, "the model does not report %s of %u and %u",
               rd_npu_finding_name(v->pairs[n].kind), v->pairs[n].first + 1,
               v->pairs[n].second + 1);
      return SAME_PAIRS;
    }
  return HOLDS;
}

/* What a report says about flags and about what is left. */
typedef struct discipline {
  bool deadlock, left; /* operations; which of them is not said for each */
  uint32_t leftover_flags, notes;
  uint64_t double_sets;
} discipline;

static property read_discipline(const rd_npu_report *r, bool binary, discipline *d, char *why,
                                size_t size) {
  memset(d, 0, sizeof *d);
  for (size_t n = 0; n < rd_npu_report_count(r); n++) {
    const rd_npu_finding *f = rd_npu_report_get(r, n);
    if (is_pair(f)) continue;
    d->deadlock |= f->kind == RD_NPU_DEADLOCK;
    d->left |= f->kind == RD_NPU_LEFTOVER_OP;
    d->leftover_flags += f->kind == RD_NPU_LEFTOVER_FLAG;
    if (f->kind == RD_NPU_DOUBLE_SET) d->double_sets |= 1ull << step_of(f->second.site);
    d->notes += binary && f->kind == RD_NPU_FLAG_REUSE;
    if (binary && f->kind == RD_NPU_FLAG_REUSE) continue;
    if (f->kind == RD_NPU_DEADLOCK || f->kind == RD_NPU_LEFTOVER_OP ||
        f->kind == RD_NPU_LEFTOVER_FLAG || f->kind == RD_NPU_DOUBLE_SET)
      continue;
    snprintf(why, size, "%s at %u: %s", rd_npu_finding_name(f->kind), step_of(f->first.site) + 1,
             f->message);
    return GENERATOR;
  }
  size_t notes = rd_npu_report_note_count(r);
  for (size_t n = 0; n < notes; n++)
    d->notes += rd_npu_report_note_get(r, n)->kind == RD_NPU_FLAG_REUSE;
  return HOLDS;
}

static property compare_flags(const rd_npu_report *r, bool binary, const verdict *v, char *why,
                              size_t size) {
  discipline d;
  property p = read_discipline(r, binary, &d, why, size);
  if (p != HOLDS) return p;
  if (d.deadlock != v->deadlock)
    snprintf(why, size, "deadlock: model %d, second checker %d", d.deadlock, v->deadlock);
  if (d.deadlock || v->deadlock) return d.deadlock == v->deadlock ? HOLDS : SAME_FLAGS;
  if (d.left == (v->leftover_ops != 0) && d.leftover_flags == v->leftover_flags &&
      d.double_sets == v->double_sets && d.notes == v->notes)
    return HOLDS;
  snprintf(why, size,
           "model: operations left %d, flags left %u, double sets %llx, notes %u; "
           "second checker: %d, %u, %llx, %u",
           d.left, d.leftover_flags, (unsigned long long)d.double_sets, d.notes,
           v->leftover_ops != 0, v->leftover_flags, (unsigned long long)v->double_sets, v->notes);
  return SAME_FLAGS;
}

/* ------------------------------------------------------------------ executions, mutants */

static property equal_bits(const random_kernel *k, const depth *d, const outputs *expected,
                           tally *t, char *why, size_t size) {
  static outputs got;
  rd_npu_report *r;
  for (uint32_t n = 0; n <= d->random; n++) {
    rd_npu_options o = options_of(k, RD_NPU_VALUES, n ? RD_NPU_RANDOM : RD_NPU_LAZY, n);
    rd_npu_status s = run(k, &o, &r, &got);
    rd_npu_report_free(r);
    t->schedules++;
    if (s == RD_NPU_OK && memcmp(&got, expected, sizeof got) == 0) continue;
    snprintf(why, size, "no finding, yet schedule %s %u gives other bits (status %d)",
             n ? "random" : "lazy", n, s);
    return EQUAL_BITS;
  }
  if (!d->explored) return HOLDS;
  rd_npu_options o = options_of(k, RD_NPU_VALUES, RD_NPU_EXHAUSTIVE, 0);
  o.max_schedules = d->explored;
  rd_npu_status s = run(k, &o, &r, NULL);
  bool capped;
  t->schedules += rd_npu_report_schedules(r, &capped);
  rd_npu_report_free(r);
  if (s != RD_NPU_OK) snprintf(why, size, "no finding, yet an explored schedule gives other bits");
  return s == RD_NPU_OK ? HOLDS : EQUAL_BITS;
}

static property mutants(const random_kernel *k, tally *t, char *why, size_t size) {
  rd_npu_launch l = launch_of(k);
  rd_npu_mutation *m;
  uint64_t needed, redundant, undetected;
  fill_inputs();
  rd_npu_options o = options_of(k, RD_NPU_CHECKED, RD_NPU_EAGER, 0);
  rd_npu_status s = rd_npu_mutate(&l, 1, &o, &m);
  rd_npu_mutation_totals(m, &needed, &redundant, &undetected);
  t->mutants += needed + redundant;
  if (s != RD_NPU_OK) {
    char *text = rd_npu_mutation_text(m);
    snprintf(why, size, "mutation: status %d, %llu undetected\n%s", (int)s,
             (unsigned long long)undetected, text ? text : "");
    free(text);
  }
  rd_npu_mutation_free(m);
  return s == RD_NPU_OK ? HOLDS : MUTANTS_DETECTED;
}

property examine(const random_kernel *k, const depth *d, tally *t, char *why, size_t size) {
  static verdict v;
  static outputs expected;
  rd_npu_report *r;
  judge(k, d->planted, &v);
  rd_npu_options o = options_of(k, RD_NPU_CHECKED, RD_NPU_EAGER, 0);
  rd_npu_status s = run(k, &o, &r, &expected);
  property p = compare_flags(r, k->binary, &v, why, size);
  if (p == HOLDS && !v.deadlock && !v.stalls) p = compare_pairs(r, &v, why, size);
  rd_npu_report_free(r);
  t->kernels++;
  for (uint32_t n = 0; n < k->count; n++) t->seen[k->list[n].op] += !k->list[n].fixed;
  if (p != HOLDS || d->reports_only) return p;
  if (v.deadlock || v.stalls) {
    t->deadlocked++;
  } else if (v.count) {
    t->racy++;
    bool loses = k->binary && v.notes; /* runs may end at a set that is lost */
    if (!loses && !pairs_happen(k, &v, t, why, size)) return PAIRS_HAPPEN;
  } else if (s == RD_NPU_OK) {
    t->clean++;
    p = equal_bits(k, d, &expected, t, why, size);
    if (p == HOLDS && d->mutate) p = mutants(k, t, why, size);
  } else {
    t->other++;
  }
  return p;
}
