/* The list of cases. */
#include "bench/world.h"

#include <stdio.h>

typedef struct list {
  bench_spec specs[BENCH_MAX_RESULTS];
  int machine[BENCH_MAX_RESULTS]; /* which floor and baseline */
  int count, lost;
} list;

static void add(list *l, int machine, bench_spec s) {
  if (l->count == BENCH_MAX_RESULTS) {
    l->lost++;
    return;
  }
  s.threads = 1;
  if (machine) s.isa_mask = RD_ISA_SCALAR | RD_ISA_SCALAR_FMA | RD_ISA_AVX2;
  l->machine[l->count] = machine;
  l->specs[l->count++] = s;
}

/* Levels and lengths of --quick are those of the goals. */
static void list_cases(list *l, int machine, int quick) {
  static const rd_gate_axis axes[] = {RD_PER_CHANNEL, RD_PER_HEAD};
  const bench_level last = machine && quick ? BENCH_L3 : BENCH_DRAM;
  for (int a = 0; a < 2; a++) {
    for (int f = 0; f < 2; f++) {
      const rd_numerics numerics = f ? RD_FAST : RD_EXACT;
      if (machine && f && quick) continue;
      for (int32_t T = quick ? 512 : 64; T <= 512; T *= 8)
        add(l, machine,
            (bench_spec){.verb = BENCH_PREFILL, .axis = axes[a], .numerics = numerics, .T = T});
      for (bench_level level = BENCH_HOT; level <= last; level++)
        for (int32_t T = quick ? 8 : 2; T <= 8; T *= 2)
          add(l, machine,
              (bench_spec){.verb = BENCH_VERIFY,
                           .axis = axes[a],
                           .numerics = numerics,
                           .level = level,
                           .T = T});
    }
    for (bench_level level = BENCH_HOT; level <= last; level++) {
      add(l, machine,
          (bench_spec){
              .verb = BENCH_DECODE, .axis = axes[a], .numerics = RD_EXACT, .level = level, .T = 1});
      for (int32_t m = quick ? 4 : 2; m <= (quick ? 4 : 8); m *= 2)
        add(l, machine,
            (bench_spec){.verb = BENCH_COMMIT,
                         .axis = axes[a],
                         .numerics = RD_EXACT,
                         .level = level,
                         .T = 8,
                         .accepted = m});
      if (machine || (quick && level == BENCH_L3)) continue;
      add(l, machine,
          (bench_spec){.verb = BENCH_ROUND,
                       .axis = axes[a],
                       .numerics = RD_EXACT,
                       .level = level,
                       .T = 8,
                       .accepted = 4});
      add(l, machine,
          (bench_spec){.verb = BENCH_FOLDED,
                       .axis = axes[a],
                       .numerics = RD_EXACT,
                       .level = level,
                       .T = 8,
                       .accepted = 4});
    }
  }
  if (!machine)
    add(l, machine,
        (bench_spec){.verb = BENCH_COMMIT,
                     .axis = RD_PER_CHANNEL,
                     .numerics = RD_EXACT,
                     .level = BENCH_L3,
                     .T = 8,
                     .accepted = 0});
}

static int machines(const bench_options *o, bench_report *r) {
  const double seconds = o->quick ? 1.5 : 6;
  if (!bench_machine_measure(&r->machine[0], 0, seconds, bench_dram_bytes())) return 0;
  r->machines = 1;
  if (o->machine) o->machine(&r->machine[0]);
  if (r->machine[0].probe->isa != RD_ISA_AVX512) return 1;
  if (!bench_machine_measure(&r->machine[1], RD_ISA_AVX2, seconds, bench_dram_bytes())) return 0;
  r->machines = 2;
  if (o->machine) o->machine(&r->machine[1]);
  return 1;
}

int bench_all(const bench_options *o, bench_report *r) {
  static list l;
  *r = (bench_report){0};
  l.count = l.lost = 0;
  if (o->progress) o->progress("machine", 0, 0);
  if (!machines(o, r)) return 0;
  for (int m = 0; m < r->machines; m++) list_cases(&l, m, o->quick);
  r->lost = l.lost;
  for (int i = 0; i < l.count; i++) {
    if (o->progress) o->progress(bench_verb_name(l.specs[i].verb), i, l.count);
    const double seconds = (o->quick ? 0.15 : 1.0) * (l.specs[i].level == BENCH_DRAM ? 2 : 1);
    if (!bench_run(&r->machine[l.machine[i]], &l.specs[i], seconds, &r->results[i])) return 0;
    r->count = i + 1;
    if (o->result) o->result(&r->results[i]);
  }
  if (o->progress) o->progress("pairs", l.count, l.count);
  if (!bench_pairs(o->quick ? 0.3 : 2, !o->one_thread, r->pairs, &r->pair_count, o->pair)) return 0;
  if (o->progress) o->progress("subnormal", l.count, l.count);
  if (!bench_subnormal_rows(o->quick ? 0.02 : 0.2, r->subnormal, &r->subnormal_count)) return 0;
  if (o->progress) o->progress("trees", l.count, l.count);
  if (!bench_trees(o->quick ? 0.5 : 2, r->trees, &r->tree_count)) return 0;
  if (o->progress) o->progress("threads", l.count, l.count);
  if (!bench_overhead(o->quick ? 0.1 : 1, &r->overhead_ns, &r->allocations)) return 0;
  if (!o->one_thread && !bench_two_threads(o->quick ? 1 : 5, &r->two_threads)) return 0;
  bench_judge(r);
  return r->lost == 0;
}
