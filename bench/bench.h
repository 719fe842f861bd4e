/* bench/bench.h - measuring the machine and the verbs on it. SPDX-License-Identifier: Apache-2.0
 *
 * Times are only meaningful as ratios taken in one run: every case is measured in turns with the
 * machine's FMA peak and the straightforward loop, and the smallest of many turns counts.
 */
#ifndef RD_BENCH_BENCH_H
#define RD_BENCH_BENCH_H

#include "redelta/redelta.h"

enum { BENCH_DIM = 128 }; /* K = V of every case */

/* ---- probes: the same source compiled for each instruction set ---------------------------------- */

typedef struct bench_probe {
  const char *name;
  uint32_t isa; /* rd_isa bit */
  int lanes;
  int64_t (*fma)(int64_t rounds); /* returns how many vector fmas ran */
  float (*read)(const float *p, int64_t n);
  void (*update)(float *p, int64_t n); /* reads and writes every element */
  /* The straightforward loop, as the field writes it: four passes over S per token (decay, S k,
   * rank-1 update, S q); replay: the first and third. K a multiple of 4 vectors. */
  void (*token)(float *S, int64_t V, int64_t K, const float *k, const float *a, const float *q,
                float beta, const float *v, float *work, float *o);
  void (*replay)(float *S, int64_t V, int64_t K, const float *k, const float *a, const float *u);
} bench_probe;

const bench_probe *bench_probe_best(uint32_t isa_mask); /* usable on this machine; never NULL */

/* ---- the machine -------------------------------------------------------------------------------- */

typedef enum bench_level { BENCH_HOT = 0, BENCH_L3, BENCH_DRAM, BENCH_LEVELS } bench_level;
extern const char *const bench_level_name[BENCH_LEVELS]; /* "hot", "L3", "DRAM" */

typedef struct bench_machine {
  const bench_probe *probe;
  double fma_ns;               /* of one vector fma at full throughput */
  double read[BENCH_LEVELS];   /* bytes per ns, one thread; HOT is the second-level cache */
  double update[BENCH_LEVELS]; /* bytes read plus bytes written per ns */
} bench_machine;

double bench_now(void); /* ns */

/* dram_bytes: size of the buffer that stands for memory. 0 when it cannot be allocated. */
int bench_machine_measure(bench_machine *m, uint32_t isa_mask, double seconds, size_t dram_bytes);

/* ---- cases -------------------------------------------------------------------------------------- */

typedef enum bench_verb {
  BENCH_PREFILL = 1,
  BENCH_DECODE,
  BENCH_VERIFY,
  BENCH_COMMIT,
  BENCH_FOLDED, /* commit(accepted) and verify(T) in one pass */
  BENCH_ROUND   /* the same as two calls, verify first */
} bench_verb;
const char *bench_verb_name(bench_verb verb);

/* Shapes of draft trees. */
enum { BENCH_CHAIN = 0, BENCH_FOUR, BENCH_BINARY };

typedef struct bench_spec {
  bench_verb verb;
  rd_gate_axis
      axis; /* PER_CHANNEL: KDA (bf16, raw gate, logits, l2norm); PER_HEAD: GDN (f16, log gate) */
  rd_numerics numerics;
  bench_level level;
  int32_t T, accepted;
  uint32_t isa_mask; /* of the context; 0: everything */
  int32_t threads;
  int32_t tree;     /* what the tokens of a verify are */
  int32_t log_gate; /* KDA too has the gate LOG, whose numbers are the log decays themselves */
  int32_t
      heads;  /* value heads (GDN: twice the key heads, or as many with 1); 0: those of the level */
  int32_t kv; /* states are [K, V] */
  int32_t state; /* rd_dtype of states; 0: f32 */
  int32_t bf16;  /* GDN too takes bf16 and the l2 norm, as models do */
} bench_spec;

typedef struct bench_result {
  bench_spec spec;
  const char *isa; /* of the probe: what floor and baseline were measured with */
  char kernel[48];
  int32_t turns;
  double ns, ns_median; /* per head (prefill: per head and token) */
  double floor_ns;      /* the larger of arithmetic and memory */
  double arithmetic_ns, memory_ns;
  double baseline_ns; /* the straightforward loop, 0: not measured */
  double error;       /* relative L2 against double, f32 outputs (commit: states) */
  double bandwidth;   /* of S, bytes per ns; read, plus written where the verb writes */
} bench_result;

/* Runs one case for about `seconds`. 1; 0: out of memory or a verb failed. */
int bench_run(const bench_machine *m, const bench_spec *spec, double seconds, bench_result *result);

/* Calls per second matter for one head: ns of a warm rd_decode whose kernel has next to nothing to
 * do (K = 16, V = 1), and how often it allocated. */
int bench_overhead(double seconds, double *ns, int64_t *allocations);

/* Speedup of two threads on a KDA prefill in cache. */
int bench_two_threads(double seconds, double *speedup);

/* One verb where numbers leave f32's ordinary range: the worst of several gates, states and inputs,
 * over the same call on ordinary ones. */
typedef struct bench_subnormal {
  bench_verb verb;
  rd_gate_axis axis;
  rd_numerics numerics;
  double ratio;
  const char *worst; /* where that was */
} bench_subnormal;

/* Two ways to the same work, in turns within one row: what a call of `of` costs over one of `to`. */
typedef struct bench_pair {
  char text[64];
  bench_spec of, to;
  double ns, to_ns; /* per head (prefill: per head and token), minimum */
  double error;     /* of `of` against double; -1: not measured */
  double limit;     /* goal: ns / to_ns at most; 0: none */
  int32_t turns;
  int run; /* 0: this machine or this build cannot */
} bench_pair;
enum { BENCH_PAIRS = 32 };
/* Fills in the rows, each for about `seconds`; `row` (may be NULL) sees each as soon as it is measured. */
int bench_pairs(double seconds, int two_threads, bench_pair *rows, int *count,
                void (*row)(const bench_pair *));

/* Fills in BENCH_SUBNORMAL rows of about `seconds` each. */
enum { BENCH_SUBNORMAL = 14 };
int bench_subnormal_rows(double seconds, bench_subnormal *rows, int *count);

/* One verify of a tree of 13 nodes, a root and four chains of 3, against four verifies of 4 tokens from
 * one checkpoint, EXACT, in turns; beside it a binary tree of 15. Times per head. */
typedef struct bench_tree {
  rd_gate_axis axis;
  bench_level level; /* hot, DRAM */
  double chains_ns, tree_ns, binary_ns;
  double error;                        /* of the 13 nodes, against double */
  double record_bytes, snapshot_bytes; /* of the 13 nodes, all heads */
} bench_tree;
enum { BENCH_TREES = 4 };
int bench_trees(double seconds, bench_tree *rows, int *count);

/* Bytes of the states of a snapshot per draft token over those of its records. */
double bench_record_ratio(rd_gate_axis axis, rd_dtype record_dtype);

/* ---- the whole bench ---------------------------------------------------------------------------- */

typedef struct bench_goal {
  char text[96], limit[48], figure[64];
  int met; /* 1, 0; -1: not measured on this machine */
} bench_goal;

enum { BENCH_MAX_RESULTS = 160, BENCH_MAX_GOALS = 128, BENCH_MACHINES = 2 };

typedef struct bench_options {
  int quick;
  int one_thread; /* no measurement with two */
  void (*progress)(const char *label, int done, int total);
  /* Each as soon as it is measured; may be NULL. */
  void (*machine)(const bench_machine *machine);
  void (*result)(const bench_result *result);
  void (*pair)(const bench_pair *pair);
} bench_options;

typedef struct bench_report {
  bench_machine
      machine[BENCH_MACHINES]; /* the best instruction set, and AVX2 when another is best */
  int machines;
  bench_result results[BENCH_MAX_RESULTS];
  int count;
  bench_goal goals[BENCH_MAX_GOALS];
  int goal_count;
  bench_subnormal subnormal[BENCH_SUBNORMAL];
  int subnormal_count;
  bench_tree trees[BENCH_TREES];
  int tree_count;
  bench_pair pairs[BENCH_PAIRS];
  int pair_count;
  int lost;                        /* rows or goals that found no room */
  double overhead_ns, two_threads; /* two_threads 0: not measured */
  int64_t allocations;
} bench_report;

/* 1; 0 when memory ran out, a verb failed or a table is too small (then `report` holds what was measured so far). */
int bench_all(const bench_options *options, bench_report *report);

/* Fills in the goals from the results. */
void bench_judge(bench_report *report);

#endif
