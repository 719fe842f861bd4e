/*
 * redelta/npu.h - an executable, checking model of the Ascend (Da Vinci) AI Core.
 *
 * A kernel is an ordinary C function.  It runs once per core of the launch; every intrinsic it
 * calls *issues* one instruction to one of the core's pipes.  The model computes which accesses are
 * ordered by events (happens-before, independent of any schedule and of the values), executes the
 * instructions under a schedule of your choice, and reports what hardware would punish: races,
 * reused flags, hangs, leftovers, bad addresses, uninitialised reads.
 *
 *   #include <redelta/npu_intrinsics.h>              // short names for kernel sources
 *
 *   static void add(rd_npu_core *c, const void *args) {
 *     uint32_t n = *(const uint32_t *)args;           // floats, a multiple of 64, at most 8192
 *     uint64_t a = UB(0), b = UB(4 * n);
 *     copy_gm_to_ubuf(a, GM(0), 1, n / 8, 0, 0);
 *     copy_gm_to_ubuf(b, GM(1), 1, n / 8, 0, 0);
 *     set_flag(PIPE_MTE2, PIPE_V, 0);
 *     wait_flag(PIPE_MTE2, PIPE_V, 0);
 *     set_vector_mask(~0ull, ~0ull);
 *     vadd(F32, a, a, b, n / 64, 1, 1, 1, 8, 8, 8);
 *     set_flag(PIPE_V, PIPE_MTE3, 0);
 *     wait_flag(PIPE_V, PIPE_MTE3, 0);
 *     copy_ubuf_to_gm(GM(2), a, 1, n / 8, 0, 0);
 *     pipe_barrier(PIPE_ALL);
 *   }
 *
 *   rd_npu_tensor t[3] = {{"a", pa, 4 * n, 4, RD_NPU_IN}, {"b", pb, 4 * n, 4, RD_NPU_IN},
 *                         {"sum", ps, 4 * n, 4, RD_NPU_OUT}};
 *   rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 8, 1, add, &n, t, 3};
 *   rd_npu_report *r = NULL;
 *   rd_npu_status s = rd_npu_run(&l, NULL, &r);       // RD_NPU_OK: no finding
 *
 * The model needs libc, libm and pthreads; it never prints, exits, reads the environment or keeps
 * mutable globals, and is no cancellation point: a thread that is cancelled in it ends the launch
 * first.  docs/NPU-MODEL.md is the reading guide, docs/SOUNDNESS.md lists every
 * assumption.
 */
#ifndef REDELTA_NPU_H
#define REDELTA_NPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RD_NPU_API __attribute__((visibility("default")))
#else
#define RD_NPU_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ architectures, pipes, buffers
 */

typedef enum rd_npu_arch { RD_NPU_310P = 0, RD_NPU_910B = 1, RD_NPU_950 = 2 } rd_npu_arch;
#define RD_NPU_ARCHS 3

/* What one program of the launch runs on.  310P has COUPLED cores only; 910B and 950 split CUBE
 * (AIC) and VECTOR (AIV) cores: a VECTOR launch of block_num AI cores runs 2*block_num programs. */
typedef enum rd_npu_core_kind {
  RD_NPU_COUPLED = 0,
  RD_NPU_CUBE = 1,
  RD_NPU_VECTOR = 2
} rd_npu_core_kind;

typedef enum rd_npu_pipe {
  RD_NPU_PIPE_S = 0,
  RD_NPU_PIPE_V = 1,
  RD_NPU_PIPE_M = 2,
  RD_NPU_PIPE_MTE1 = 3,
  RD_NPU_PIPE_MTE2 = 4,
  RD_NPU_PIPE_MTE3 = 5,
  RD_NPU_PIPE_FIX = 6,
  RD_NPU_PIPE_ALL = 7 /* pipe_barrier only */
} rd_npu_pipe;
#define RD_NPU_PIPES 7

typedef enum rd_npu_buffer {
  RD_NPU_GM = 0,
  RD_NPU_L1 = 1,
  RD_NPU_L0A = 2,
  RD_NPU_L0B = 3,
  RD_NPU_L0C = 4,
  RD_NPU_UB = 5
} rd_npu_buffer;
#define RD_NPU_BUFFERS 6

typedef enum rd_npu_type {
  RD_NPU_F16 = 0,
  RD_NPU_BF16 = 1,
  RD_NPU_F32 = 2,
  RD_NPU_S32 = 3,
  RD_NPU_S16 = 4,
  RD_NPU_S64 = 5
} rd_npu_type;

/* What is known of an architecture; constant data. */
typedef struct rd_npu_arch_info {
  const char *name;                  /* "310P", "910B", "950" */
  bool coupled;                      /* one program drives cube and vector */
  uint32_t cores;                    /* AI cores of the modelled device by default: 8, 24, 32 */
  uint32_t vectors_per_core;         /* 1 coupled, 2 split */
  uint32_t capacity[RD_NPU_BUFFERS]; /* bytes; GM 0 */
  bool vector_in_order; /* overlapping accesses of two V instructions are ordered for free */
  bool bf16;
  bool emulated_vectors; /* memory-to-memory vector set stands in for register code */
  bool empty_is_noop; /* a burst of length 0 and a mask without lanes do nothing; else an error */
  bool saturates;     /* f16 results: infinity becomes +-65504 and NaN +0; else IEEE */
} rd_npu_arch_info;
/* NULL for an unknown architecture; the names of unknown pipes and buffers are "?". */
RD_NPU_API const rd_npu_arch_info *rd_npu_arch_get(rd_npu_arch arch);
RD_NPU_API const char *rd_npu_pipe_name(rd_npu_pipe pipe);
RD_NPU_API const char *rd_npu_buffer_name(rd_npu_buffer buffer);

/* ------------------------------------------------------------------ addresses
 * One 64-bit integer: buffer in bits 60..63, GM tensor number in bits 44..59, byte offset below.
 * Adding bytes to an address is plain integer addition. */
#define RD_NPU_ADDR(buffer, offset)    (((uint64_t)(buffer) << 60) + (uint64_t)(offset))
#define RD_NPU_GM_ADDR(tensor, offset) (((uint64_t)(tensor) << 44) + (uint64_t)(offset))

/* ------------------------------------------------------------------ launches */

typedef struct rd_npu_core rd_npu_core;
typedef void rd_npu_kernel(rd_npu_core *c, const void *args);

typedef enum rd_npu_access_mode {
  RD_NPU_IN = 1,   /* initialised; a write is an error */
  RD_NPU_OUT = 2,  /* starts uninitialised (the caller's bytes stay where nothing is written) */
  RD_NPU_INOUT = 3 /* initialised and written */
} rd_npu_access_mode;

/* A GM tensor.  The model works on `data` in place.  bytes is the exact size; options.gm_slack
 * lets the kernel copy from (not to) so many bytes behind it: those read as poison, uninitialised. */
typedef struct rd_npu_tensor {
  const char *name;
  void *data;
  uint64_t bytes;
  uint32_t elem_bytes; /* alignment that GM addresses must keep; also used to number elements */
  rd_npu_access_mode mode;
} rd_npu_tensor;

typedef struct rd_npu_launch {
  size_t size; /* sizeof(rd_npu_launch) */
  rd_npu_arch arch;
  rd_npu_core_kind kind;
  uint32_t cores;     /* AI cores of the modelled device; 0 = the architecture's default */
  uint32_t block_num; /* launch size in AI cores, 1..cores */
  rd_npu_kernel *kernel;
  const void *args; /* shared by all cores, must not change during the launch */
  const rd_npu_tensor *tensors;
  uint32_t tensor_count;
} rd_npu_launch;

typedef enum rd_npu_mode {
  RD_NPU_CHECKED = 0, /* values and every check */
  RD_NPU_VALUES = 1,  /* values; only what keeps the model itself safe (bounds, hang) */
  RD_NPU_ORDER = 2    /* every check, no arithmetic: outputs keep their bytes */
} rd_npu_mode;

/* EAGER: every pipe runs as soon as it can (= program order).  LAZY: a pipe runs only when
 * something waits for it.  RANDOM: by seed.  EXHAUSTIVE: all schedules with at most `deviations`
 * deviations from eager, at most max_schedules per core; results of all are compared with eager. */
typedef enum rd_npu_schedule {
  RD_NPU_EAGER = 0,
  RD_NPU_LAZY = 1,
  RD_NPU_RANDOM = 2,
  RD_NPU_EXHAUSTIVE = 3
} rd_npu_schedule;

/* A flag counts: a set adds one, a wait takes one.  With binary flags a set of a flag that may still
 * be set is an error, and is lost under the schedules that have it so; counting, it is a note. */
typedef enum rd_npu_flags { RD_NPU_FLAGS_COUNT = 0, RD_NPU_FLAGS_BINARY = 1 } rd_npu_flags;

/* Synchronisation that the compiler inserts for direct dependences on UB: SCALAR between S and each of
 * V, MTE2 and MTE3, ALL between vector instructions, too (910B and 950 have that order anyway).  It
 * orders the two accesses and nothing else. */
typedef enum rd_npu_auto_sync {
  RD_NPU_AUTO_SYNC_NONE = 0,
  RD_NPU_AUTO_SYNC_SCALAR = 1,
  RD_NPU_AUTO_SYNC_ALL = 2
} rd_npu_auto_sync;

typedef void rd_npu_progress(void *user, const char *stage, uint64_t done, uint64_t total);

typedef struct rd_npu_options {
  size_t size; /* sizeof(rd_npu_options) */
  rd_npu_mode mode;
  rd_npu_schedule schedule;
  uint64_t seed;          /* RANDOM */
  uint32_t deviations;    /* EXHAUSTIVE; 0 = 2, UINT32_MAX = the full space */
  uint64_t max_schedules; /* EXHAUSTIVE; 0 = 20000 */
  uint32_t threads;       /* host threads; 0 = 1.  Results and reports do not depend on it. */
  const char *without;    /* channels dropped by the model: "M_V", "M_V,V_M"; NULL = none */
  /* "M_V", "pipe_barrier(V),V_MTE2": where a finding misses one of these, the model puts it between the two
   * accesses (a set after the first, a wait before the second, on an id no kernel has) and judges again:
   * what the report then holds, the remedy does not cure.  NULL = none; not for mutation and trace. */
  const char *with;
  bool witnesses;    /* for each race also run the order it allows and show the differing value */
  uint32_t gm_slack; /* bytes behind each GM tensor that copies may read, 0..4096; 0 = exact */
  rd_npu_progress *progress; /* called from one thread at a time; may be NULL */
  void *user;
  rd_npu_flags flags;
  rd_npu_auto_sync auto_sync;
} rd_npu_options;

typedef enum rd_npu_status {
  RD_NPU_OK = 0,        /* ran, no finding */
  RD_NPU_FINDING = 1,   /* ran, the report holds at least one finding */
  RD_NPU_BAD_INPUT = 2, /* the launch or options are invalid; nothing ran */
  RD_NPU_NO_MEMORY = 3  /* memory or threads; outputs are unspecified */
} rd_npu_status;

typedef struct rd_npu_report rd_npu_report;

/* Run a launch.  options NULL = checked, eager, one thread, no witnesses.  *report is always set
 * (NULL only when memory for it was missing) and must be freed with rd_npu_report_free.
 * Outputs (OUT and INOUT tensors) are written in place; after RD_NPU_BAD_INPUT they are untouched.
 * Thread-safe: no shared state between calls. */
RD_NPU_API rd_npu_status rd_npu_run(const rd_npu_launch *launch, const rd_npu_options *options,
                                    rd_npu_report **report);

/* ------------------------------------------------------------------ findings */

typedef enum rd_npu_finding_kind {
  RD_NPU_RACE_RAW = 0,
  RD_NPU_RACE_WAR,
  RD_NPU_RACE_WAW,
  RD_NPU_RACE_CORES, /* two cores of the launch touch the same GM byte, one writes */
  RD_NPU_FLAG_REUSE, /* set while it may be set: an error of binary flags, else a note */
  RD_NPU_DEADLOCK,
  RD_NPU_LEFTOVER_FLAG,
  RD_NPU_LEFTOVER_OP,
  RD_NPU_ID_RANGE,
  RD_NPU_BOUNDS, /* capacity, alignment, repeat and stride limits, operand overlap */
  RD_NPU_UNINITIALISED,
  RD_NPU_ACCUMULATE, /* products into one L0C block without pipe_barrier(M) */
  RD_NPU_MISSING_INSTRUCTION,
  RD_NPU_STALE_LINE,     /* S uses a line of its data cache from before another pipe's write */
  RD_NPU_SCHEDULE_VALUE, /* an explored schedule gave other values than eager */
  RD_NPU_LOST_LINE,      /* what S stored into its data cache is not cleaned */
  RD_NPU_DOUBLE_SET,     /* two sets of a flag and no wait issued between */
  RD_NPU_DEEP_QUEUE,     /* a note: gets through only with queues deeper than 32 */
  RD_NPU_GM_BY_FLAG,     /* a note, 910B: only events order MTE2 after MTE3's write to GM */
  RD_NPU_MASK_LEFT       /* a note: the vector mask is not full when the kernel ends */
} rd_npu_finding_kind;
#define RD_NPU_FINDING_KINDS 20

typedef struct rd_npu_access {
  rd_npu_pipe pipe;
  const char *instruction;
  const char *site;    /* "file.c:12" or "file.c:12, called from file.c:80" */
  const char *buffer;  /* "UB", "L0C", or the GM tensor's name; NULL when not a memory access */
  uint64_t begin, end; /* bytes [begin, end) */
} rd_npu_access;

typedef enum rd_npu_witness_state {
  RD_NPU_WITNESS_NONE = 0, /* not asked for, or not a race within one core */
  RD_NPU_WITNESS_SAME,     /* the allowed orders gave the same values: no effect on this input */
  RD_NPU_WITNESS_DIFFERS,
  RD_NPU_WITNESS_HANGS
} rd_npu_witness_state;

typedef struct rd_npu_finding {
  rd_npu_finding_kind kind;
  uint32_t core;               /* lowest program number that has it */
  uint64_t count;              /* pairs of instructions with these sites and kind, over all cores */
  rd_npu_access first, second; /* program order; second.instruction NULL when there is one access */
  const char *missing; /* the event that would order them: "M_V", "pipe_barrier(V)"; may be NULL */
  const char *trap;    /* name of the hardware trap, or NULL */
  const char *message; /* one sentence */
  rd_npu_witness_state witness;
  const char *witness_tensor;
  uint64_t witness_index; /* first differing element */
  double expected, got;
  const char *witness_site; /* the value read that would give got instead of expected; the tensor is
                               NULL then, and this is NULL when an output differs */
  bool continuation; /* behind a value read in doubt: of one possible continuation of the kernel */
} rd_npu_finding;

/* With options.without: each place of a dropped channel (the set and the wait it paired with), how
 * often it came by, and how often other edges order the two all the same. */
typedef struct rd_npu_dropped {
  const char *place;
  uint64_t total, implied;
  const char *implied_by; /* "V_MTE3 MTE3_MTE1 MTE1_M"; NULL when never implied */
} rd_npu_dropped;

/* Entries are numbered from 0; past the last one, and of a NULL report, get returns NULL and count 0.
 * What they point to lives as long as the report. */
RD_NPU_API size_t rd_npu_report_dropped_count(const rd_npu_report *report);
RD_NPU_API const rd_npu_dropped *rd_npu_report_dropped_get(const rd_npu_report *report,
                                                           size_t index);
RD_NPU_API size_t rd_npu_report_count(const rd_npu_report *report);
RD_NPU_API const rd_npu_finding *rd_npu_report_get(const rd_npu_report *report, size_t index);
/* Notes: worth knowing and no fault; they leave the status RD_NPU_OK. */
RD_NPU_API size_t rd_npu_report_note_count(const rd_npu_report *report);
RD_NPU_API const rd_npu_finding *rd_npu_report_note_get(const rd_npu_report *report, size_t index);
RD_NPU_API const char *
rd_npu_finding_name(rd_npu_finding_kind kind); /* "race RAW", "flag reuse", … */
/* One sentence about the run: bad input, or instructions and schedules run. */
RD_NPU_API const char *rd_npu_report_summary(const rd_npu_report *report);
RD_NPU_API uint64_t rd_npu_report_instructions(const rd_npu_report *report);
/* EXHAUSTIVE: schedules explored, and whether the cap stopped it. */
RD_NPU_API uint64_t rd_npu_report_schedules(const rd_npu_report *report, bool *capped);
/* The whole report, readable or as one JSON object; malloc'ed, NULL when memory is missing. */
RD_NPU_API char *rd_npu_report_text(const rd_npu_report *report);
RD_NPU_API char *rd_npu_report_json(const rd_npu_report *report);
RD_NPU_API void rd_npu_report_free(rd_npu_report *report);

/* ------------------------------------------------------------------ mutation */

typedef struct rd_npu_mutant {
  const char *what;   /* "drop edge", "drop set", "drop wait", "wait later", "set earlier", "drop
                         barrier", "ALL to V" … */
  const char *unit;   /* "M_V 0" and the site */
  bool needed;        /* some recorded run shows a finding without it */
  bool undetected;    /* redundant by happens-before, yet a schedule changed values or hung */
  const char *reason; /* the first finding, or "redundant on these paths" */
} rd_npu_mutant;

typedef struct rd_npu_mutation rd_npu_mutation;

/* Mutate the synchronisation of a kernel on several launches (same kernel, different shapes) and
 * say which part of it is needed.  Launches run in order mode; redundant mutants run with values
 * under lazy and 32 random schedules on private copies of the outputs, which keep their bytes.
 * RD_NPU_FINDING when a mutant is undetected or the unmutated kernel has a finding;
 * RD_NPU_BAD_INPUT for a NULL result, no launch, or an invalid launch or options (nothing ran);
 * RD_NPU_NO_MEMORY for memory or threads. *result is set in every case, to NULL only when memory for
 * it was missing, and must be freed with rd_npu_mutation_free. Unless all launches are valid and
 * without findings and memory sufficed it holds no mutants; its text then starts with the reason, if
 * there is one. get returns NULL past the last mutant, count 0 for a NULL result. */
RD_NPU_API rd_npu_status rd_npu_mutate(const rd_npu_launch *launches, uint32_t launch_count,
                                       const rd_npu_options *options, rd_npu_mutation **result);
RD_NPU_API size_t rd_npu_mutation_count(const rd_npu_mutation *m);
RD_NPU_API const rd_npu_mutant *rd_npu_mutation_get(const rd_npu_mutation *m, size_t index);
RD_NPU_API void rd_npu_mutation_totals(const rd_npu_mutation *m, uint64_t *needed,
                                       uint64_t *redundant, uint64_t *undetected);
/* Readable; the last line is exactly "mutation: N needed, N redundant, 0 undetected". NULL of NULL,
 * as all of these are empty then. */
RD_NPU_API char *rd_npu_mutation_text(const rd_npu_mutation *m);
RD_NPU_API char *rd_npu_mutation_json(const rd_npu_mutation *m);
RD_NPU_API void rd_npu_mutation_free(rd_npu_mutation *m);

/* ------------------------------------------------------------------ trace */

typedef struct rd_npu_pipe_use {
  uint64_t busy;    /* modelled cycles with an operation in flight */
  uint64_t waiting; /* modelled cycles blocked on a flag or barrier */
  uint64_t operations;
  uint64_t bytes; /* moved by copies and loads */
} rd_npu_pipe_use;

typedef struct rd_npu_trace_result {
  uint64_t cycles; /* of the longest core */
  uint32_t cores;
  rd_npu_pipe_use pipe[RD_NPU_PIPES]; /* summed over cores */
} rd_npu_trace_result;

typedef bool rd_npu_write(void *user, const char *bytes, size_t count); /* false = stop */

/* The launch's timeline under the cost model of docs/NPU-MODEL.md (a model, not silicon).
 * json (may be NULL) receives Chrome/Perfetto trace events, log (may be NULL) one line per
 * instruction; when one returns false the trace ends there, which is no error.  Values are not
 * computed and outputs keep their bytes.  *result is always written and may not be NULL: zeros after
 * RD_NPU_BAD_INPUT, what was counted so far after RD_NPU_NO_MEMORY.  RD_NPU_FINDING when an
 * instruction was refused (missing, out of bounds, an event id) or a wait has no set: the result and
 * the output then end with the first core that has one. */
RD_NPU_API rd_npu_status rd_npu_trace(const rd_npu_launch *launch, const rd_npu_options *options,
                                      rd_npu_write *json, void *json_user, rd_npu_write *log,
                                      void *log_user, rd_npu_trace_result *result);

/* ------------------------------------------------------------------ sites
 * A site is where an instruction was issued: file, line, and the site that called the helper. */
typedef uint32_t rd_npu_site;
RD_NPU_API rd_npu_site rd_npu_site_at(rd_npu_core *c, const char *file, int line,
                                      rd_npu_site caller);

/* ------------------------------------------------------------------ scalar values
 * A scalar operand is an immediate or a register of the scalar unit.  What load_ub reads is a
 * register: it may feed scalar arithmetic, scalar stores and the scalar operand of vector
 * instructions.  What get_value reads is a C number.  An immediate is converted to the instruction's
 * type (f16: nearest even). */
typedef struct rd_npu_scalar {
  uint8_t kind; /* 0 = f32 immediate, 1 = s32 immediate, 2 = register */
  uint32_t bits;
} rd_npu_scalar;
RD_NPU_API rd_npu_scalar rd_npu_f32(float value);
RD_NPU_API rd_npu_scalar rd_npu_s32(int32_t value);

/* ------------------------------------------------------------------ intrinsics: control
 * Every intrinsic returns at once; the instruction runs when its pipe's turn comes.  After a
 * finding that makes an instruction meaningless (bounds, missing) the instruction is dropped, the
 * rest runs.
 */
RD_NPU_API uint32_t rd_npu_get_block_idx(rd_npu_core *c); /* 0 .. programs-1 */
RD_NPU_API uint32_t rd_npu_get_block_num(rd_npu_core *c); /* programs of the launch */
RD_NPU_API rd_npu_arch rd_npu_get_arch(rd_npu_core *c);
/* Queued on src: when all earlier src operations have finished, sets flag (src,dst,id), id 0..7. */
RD_NPU_API void rd_npu_set_flag(rd_npu_core *c, rd_npu_site s, rd_npu_pipe src, rd_npu_pipe dst,
                                uint32_t id);
/* Queued on dst: holds dst until the flag is 1, then clears it.  dst S blocks issue itself. */
RD_NPU_API void rd_npu_wait_flag(rd_npu_core *c, rd_npu_site s, rd_npu_pipe src, rd_npu_pipe dst,
                                 uint32_t id);
/* Orders within one pipe; RD_NPU_PIPE_ALL joins every pipe and S. */
RD_NPU_API void rd_npu_pipe_barrier(rd_npu_core *c, rd_npu_site s, rd_npu_pipe pipe);
/* Lane mask of the vector instructions issued from now on: bit l of lo = lane l, of hi = lane 64+l
 * (16-bit types).  All ones at kernel start.  A vector instruction with no active lane is an error.
 */
RD_NPU_API void rd_npu_set_vector_mask(rd_npu_core *c, rd_npu_site s, uint64_t hi, uint64_t lo);

/* ------------------------------------------------------------------ intrinsics: copies
 * Bursts: burst i of n_burst (0..4095; 0 = no-op) moves len_burst (1..65535) blocks of 32 B from
 * src + i*(len+src_gap)*32 to dst + i*(len+dst_gap)*32.  UB and L1 addresses 32 B aligned, GM
 * element aligned. Pipes: gm_to_ubuf, gm_to_cbuf MTE2; ubuf_to_gm, ubuf_to_cbuf (310P, 950) MTE3;
 * ubuf_to_ubuf V. */
#define RD_NPU_BURST                                                                               \
  rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t src, uint32_t n_burst, uint32_t len_burst, \
      uint32_t src_gap, uint32_t dst_gap
RD_NPU_API void rd_npu_copy_gm_to_ubuf(RD_NPU_BURST);
RD_NPU_API void rd_npu_copy_ubuf_to_gm(RD_NPU_BURST);
RD_NPU_API void rd_npu_copy_gm_to_cbuf(RD_NPU_BURST);
RD_NPU_API void rd_npu_copy_ubuf_to_cbuf(RD_NPU_BURST);
RD_NPU_API void rd_npu_copy_ubuf_to_ubuf(RD_NPU_BURST);
/* 910B, 950: len_bytes (1..2 MiB) and gm_gap in BYTES, ub_gap in blocks of 32 B.  In UB each burst
 * takes ceil(len/32) blocks: burst i at ub + i*(ceil(len/32)+ub_gap)*32, in GM at gm +
 * i*(len+gm_gap).  Loading pads the last block with poison (uninitialised); storing writes exactly
 * len bytes. */
RD_NPU_API void rd_npu_copy_gm_to_ubuf_align(rd_npu_core *c, rd_npu_site s, uint64_t dst_ub,
                                             uint64_t src_gm, uint32_t n_burst, uint32_t len_bytes,
                                             uint32_t gm_gap, uint32_t ub_gap);
RD_NPU_API void rd_npu_copy_ubuf_to_gm_align(rd_npu_core *c, rd_npu_site s, uint64_t dst_gm,
                                             uint64_t src_ub, uint32_t n_burst, uint32_t len_bytes,
                                             uint32_t ub_gap, uint32_t gm_gap);

/* ------------------------------------------------------------------ intrinsics: matrix
 * 16-bit operands.  Fractal = 16x16 elements, 512 B for 16-bit types.  R1, M1, K1, N1 = counts of 16.
 *   NZ of X[R,C] (L1, UB)   element (r,c) at ((c/16)*16*R1 + r)*16 + c%16
 *   L0A ZZ of A[M,K]        ((m/16)*K1 + k/16)*256 + (m%16)*16 + k%16        310P, 910B
 *   L0A NZ of A[M,K]        ((k/16)*M1 + m/16)*256 + (m%16)*16 + k%16        950
 *   L0B ZN of B[K,N]        ((k/16)*N1 + n/16)*256 + (n%16)*16 + k%16
 *   L0C NZ of C[M,N]        ((n/16)*M1 + m/16)*256 + (m%16)*16 + n%16        times the element size
 *
 * load (MTE1): fractal i of repeat (0..255; 0 = no-op) comes from src + (start + i*src_stride)*512 and
 * goes to dst + i*(1+dst_gap)*512; transpose = inside each 16x16.  L1 address 32 B, L0A and L0B address
 * 512 B aligned.
 *   A from NZ(A)     for m1: start m1, repeat K1, src_stride M1, dst + m1*K1*512
 *                    (950: one load, repeat M1*K1, src_stride 1)
 *   A from NZ(A^T)   one load, repeat M1*K1, src_stride 1, transpose (310P, 910B)
 *   B from NZ(B)     for k1: start k1, repeat N1, src_stride K1, dst + k1*N1*512, transpose
 *   B from NZ(B^T)   one load, repeat N1*K1, src_stride 1 */
#define RD_NPU_LOAD                                                                                \
  rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t src, uint32_t start, uint32_t repeat,      \
      uint32_t src_stride, uint32_t dst_gap, bool transpose
RD_NPU_API void rd_npu_load_cbuf_to_ca(RD_NPU_LOAD);
RD_NPU_API void rd_npu_load_cbuf_to_cb(RD_NPU_LOAD);
/* M: C[m,n] (+)= A[m,k] B[k,n] from L0A, L0B into L0C.  type_ab F16 (BF16 on 910B, 950), type_c F32
 * or F16 (F16 with F16 only: each k step still accumulates in f32 within the instruction, rounded
 * once at its end). m 2..4095, k and n 1..4095; what does
 * not fill a fractal leaves padding: of A and B unread, of C unknown.  init: start from 0, else from C.  k
 * ascending, acc + a*b in f32. L0C address aligned to a fractal (1024 B f32, 512 B f16). Two
 * products on overlapping L0C need pipe_barrier(M) between when min((m/16)*(n/16)) of the two < 10.
 */
RD_NPU_API void rd_npu_mad(rd_npu_core *c, rd_npu_site s, rd_npu_type type_c, rd_npu_type type_ab,
                           uint64_t dst_c, uint64_t a, uint64_t b, uint32_t m, uint32_t k,
                           uint32_t n, bool init);
/* L0C -> UB; pipe V on 310P, FIX on 950, missing on 910B.  Fractal f of burst i (n_burst 0..4095,
 * len 1..65535): source fractal i*(len+src_gap)+f; destination byte i*(len*F + 32*dst_gap) + f*F, F
 * = 256*sizeof(type_dst). (type_dst, type_src): F32<-F32, F16<-F32 (nearest even), F16<-F16.  UB 32
 * B aligned. */
RD_NPU_API void rd_npu_copy_matrix_cc_to_ubuf(rd_npu_core *c, rd_npu_site s, rd_npu_type type_dst,
                                              rd_npu_type type_src, uint64_t dst_ub,
                                              uint64_t src_l0c, uint32_t n_burst, uint32_t len,
                                              uint32_t src_gap, uint32_t dst_gap);
/* 910B, 950 (FIX): the m x n block of an L0C NZ matrix whose fractal column height is m (a multiple
 * of 16) to row-major GM: element (r,c) to dst + (r*dst_ld + c)*sizeof(type_dst), r < rows <= m, c
 * < n.  An f32->type_dst conversion rounds to nearest even. */
RD_NPU_API void rd_npu_copy_matrix_cc_to_gm(rd_npu_core *c, rd_npu_site s, rd_npu_type type_dst,
                                            uint64_t dst_gm, uint64_t src_l0c, uint32_t m,
                                            uint32_t n, uint32_t rows, uint32_t dst_ld);

/* ------------------------------------------------------------------ intrinsics: vector
 * Pipe V, UB only.  repeat 0..255 (0 = no-op).  Lane l of repeat r of an operand:
 *   byte = base + 32*(r*rep + (l/e)*blk) + (l%e)*size, e = 32/size of THAT operand.
 * 64 lanes for 32-bit types and 16<->32 conversions, else 128.  blk and rep are in units of 32 B,
 * 0..255.  With 64 lanes the high word of the mask is 0, unless all of it is set.
 * Inactive lanes are neither read nor written.  Addresses 32 B aligned.  Within a repeat src
 * and dst overlap exactly (same base and block stride) or not at all, and a repeat may not read what an
 * earlier repeat of the same instruction wrote - except vadd vsub vmul vmax vmin on F16, S32, F32 with
 * dst = src1 and a zero src1 or dst repeat stride, which run in order.
 * Types: vadd vsub vmul vmax vmin: F16 F32 S32; vdiv vmla vmadd: F16 F32. */
#define RD_NPU_VEC3                                                                                \
  rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t src0, uint64_t src1,     \
      uint32_t repeat, uint32_t dst_blk, uint32_t src0_blk, uint32_t src1_blk, uint32_t dst_rep,   \
      uint32_t src0_rep, uint32_t src1_rep
RD_NPU_API void rd_npu_vadd(RD_NPU_VEC3); /* src0 + src1 */
RD_NPU_API void rd_npu_vsub(RD_NPU_VEC3); /* src0 - src1 */
RD_NPU_API void rd_npu_vmul(RD_NPU_VEC3); /* src0 * src1 */
RD_NPU_API void rd_npu_vdiv(RD_NPU_VEC3); /* src0 / src1 */
RD_NPU_API void rd_npu_vmax(RD_NPU_VEC3); /* NaN if either is NaN */
RD_NPU_API void rd_npu_vmin(RD_NPU_VEC3);
RD_NPU_API void rd_npu_vmla(RD_NPU_VEC3);  /* dst + src0*src1, one rounding */
RD_NPU_API void rd_npu_vmadd(RD_NPU_VEC3); /* src0*dst + src1, one rounding */

#define RD_NPU_VEC2                                                                                \
  rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t src, uint32_t repeat,    \
      uint32_t dst_blk, uint32_t src_blk, uint32_t dst_rep, uint32_t src_rep
RD_NPU_API void rd_npu_vsqrt(RD_NPU_VEC2); /* F16 F32 */
RD_NPU_API void rd_npu_vexp(RD_NPU_VEC2);  /* F16 F32, correctly rounded; exp(-inf) = 0 */

#define RD_NPU_VECS                                                                                \
  rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t src,                     \
      rd_npu_scalar scalar, uint32_t repeat, uint32_t dst_blk, uint32_t src_blk, uint32_t dst_rep, \
      uint32_t src_rep
RD_NPU_API void rd_npu_vmuls(RD_NPU_VECS); /* src * scalar             F16 F32 S32 */
RD_NPU_API void rd_npu_vadds(RD_NPU_VECS); /* src + scalar             F16 F32 S32 */
RD_NPU_API void rd_npu_vmaxs(RD_NPU_VECS); /* max(src, scalar)         F16 F32 S32 */
RD_NPU_API void rd_npu_vmins(RD_NPU_VECS); /* min(src, scalar)         F16 F32 S32 */
RD_NPU_API void rd_npu_vaxpy(RD_NPU_VECS); /* dst + scalar*src, one rounding   F16 F32 */
RD_NPU_API void rd_npu_vector_dup(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst,
                                  rd_npu_scalar scalar, uint32_t repeat, uint32_t dst_blk,
                                  uint32_t dst_rep); /* F16 BF16 F32 S32 S16 */

#define RD_NPU_VCONV                                                                               \
  rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t src, uint32_t repeat, uint32_t dst_blk,    \
      uint32_t src_blk, uint32_t dst_rep, uint32_t src_rep
RD_NPU_API void rd_npu_vconv_f162f32(RD_NPU_VCONV);  /* exact; 64 lanes */
RD_NPU_API void rd_npu_vconv_f322f16(RD_NPU_VCONV);  /* nearest even; 64 lanes */
RD_NPU_API void rd_npu_vconv_bf162f32(RD_NPU_VCONV); /* 910B, 950 */
RD_NPU_API void rd_npu_vconv_f322bf16(RD_NPU_VCONV); /* 910B, 950 */

/* Reductions, F16 F32; inactive lanes count as +0.  vcadd: the lanes of repeat r, summed as a tree
 * of adjacent pairs, to dst + r*dst_rep*size (dst_rep in ELEMENTS).  vcgadd: one such sum per 32 B
 * block, 8 sums of repeat r to dst + r*dst_rep*8*size (dst_rep in groups of 8 elements).  dst of
 * vcadd is element aligned. */
#define RD_NPU_VRED                                                                                \
  rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst, uint64_t src, uint32_t repeat,    \
      uint32_t dst_rep, uint32_t src_blk, uint32_t src_rep
RD_NPU_API void rd_npu_vcadd(RD_NPU_VRED);
RD_NPU_API void rd_npu_vcgadd(RD_NPU_VRED);
/* 910B, 950: src[8r+j] fills the 32 B block r*dst_rep + j*dst_blk of dst, j = 0..7.  The mask is
 * not used. */
RD_NPU_API void rd_npu_vbrcb(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst,
                             uint64_t src, uint32_t repeat, uint32_t dst_blk, uint32_t dst_rep);
/* 310P and 910B.  vtranspose: one 16x16 block of 16-bit elements, 512 contiguous bytes, not in place.
 * v4dtrans: m x channels elements (16 or 32 bit): chw_to_hwc: [channels][m] -> [m][channels], else
 * the reverse; not in place; m*channels a multiple of one block, 1..4095 each. vgather: lane l of
 * repeat r: dst lane = the element at byte table + offsets_u32[r*lanes + l]; table_bytes is the
 * extent the checker takes as read (an offset outside is an error); offsets are contiguous, dst
 * block stride 1. The mask applies to vgather only. */
RD_NPU_API void rd_npu_vtranspose(rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t src);
RD_NPU_API void rd_npu_v4dtrans(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst,
                                uint64_t src, uint32_t m, uint32_t channels, bool chw_to_hwc);
RD_NPU_API void rd_npu_vgather(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst,
                               uint64_t offsets, uint64_t table, uint32_t table_bytes,
                               uint32_t repeat, uint32_t dst_rep);

/* ------------------------------------------------------------------ intrinsics: scalar unit
 * GM reads return plain C values; branches, trip counts and addresses may depend on them.  Types:
 * S32, S64, S16 / F32, F16, BF16.  Of a tensor that the launch may write (OUT, INOUT) the read is
 * rd_npu_get_value's. */
RD_NPU_API int64_t rd_npu_load_gm_int(rd_npu_core *c, rd_npu_site s, rd_npu_type type,
                                      uint64_t src_gm);
RD_NPU_API float rd_npu_load_gm_float(rd_npu_core *c, rd_npu_site s, rd_npu_type type,
                                      uint64_t src_gm);
/* UB accesses (F32 or S32, 4 B aligned) are ordered with other pipes only by V_S, MTE2_S, S_V,
 * S_MTE2, S_MTE3. */
RD_NPU_API rd_npu_scalar rd_npu_load_ub(rd_npu_core *c, rd_npu_site s, rd_npu_type type,
                                        uint64_t src_ub);
RD_NPU_API void rd_npu_store_ub(rd_npu_core *c, rd_npu_site s, rd_npu_type type, uint64_t dst_ub,
                                rd_npu_scalar value);
/* A C value from UB or GM: 1, 2, 4 or 8 bytes at an address aligned to them, zero-extended.  Branches, trip
 * counts and addresses may depend on it.  It is ordered like load_ub.  A kernel that reads values is
 * executed while it is recorded (on private copies where outputs keep their bytes), and a replay,
 * witness or mutant in which a read would give other bytes ends there.  _int sign-extends S16, S32,
 * S64; _float takes F16, BF16, F32. */
RD_NPU_API uint64_t rd_npu_get_value(rd_npu_core *c, rd_npu_site s, uint64_t src, uint32_t bytes);
RD_NPU_API int64_t rd_npu_get_value_int(rd_npu_core *c, rd_npu_site s, rd_npu_type type,
                                        uint64_t src);
RD_NPU_API float rd_npu_get_value_float(rd_npu_core *c, rd_npu_site s, rd_npu_type type,
                                        uint64_t src);
/* The low 1, 2, 4 or 8 bytes of a C value to UB or GM. */
RD_NPU_API void rd_npu_set_value(rd_npu_core *c, rd_npu_site s, uint64_t dst, uint64_t bits,
                                 uint32_t bytes);
/* S sees GM that the launch may write through a data cache of 64-byte lines per core.  A line is filled
 * when it is first touched and stays; a store makes it dirty.  This writes the dirty bytes of the line
 * that holds gm (or of every line) back and drops it.  What the other pipes and cores write reaches S
 * only in lines filled afterwards, what S stores reaches them only once its line is cleaned; MTE3_S and
 * S_MTE2 order the two sides. */
typedef enum rd_npu_cache_lines {
  RD_NPU_SINGLE_CACHE_LINE = 0,
  RD_NPU_ENTIRE_DATA_CACHE = 1 /* gm is ignored */
} rd_npu_cache_lines;
RD_NPU_API void rd_npu_data_cache_clean_and_invalid(rd_npu_core *c, rd_npu_site s, uint64_t gm,
                                                    rd_npu_cache_lines lines);
/* Scalar arithmetic in F32 or S32 (wrapping); scmp_lt gives 1 or 0 of that type. */
#define RD_NPU_SOP rd_npu_core *c, rd_npu_site s, rd_npu_type type, rd_npu_scalar a, rd_npu_scalar b
RD_NPU_API rd_npu_scalar rd_npu_sadd(RD_NPU_SOP);
RD_NPU_API rd_npu_scalar rd_npu_ssub(RD_NPU_SOP);
RD_NPU_API rd_npu_scalar rd_npu_smul(RD_NPU_SOP);
RD_NPU_API rd_npu_scalar rd_npu_scmp_lt(RD_NPU_SOP);

#ifdef __cplusplus
}
#endif
#endif
