/*
 * Internal structures of the AI Core model.
 *
 *   kernel ──intrinsics.c──> insn ──issue (core.c)──┬─ operands.c  what it reads and writes
 *                                                   ├─ check.c     ordered? initialised?
 *                                                   ├─ execute.c   values, in program order
 *                                                   └─ recorded    replay.c, witness.c, mutate.c,
 * trace.c
 *
 * The instruction list of a core does not depend on the schedule or on the values (control flow may
 * use launch arguments and unwritten GM inputs only, and what S reads from UB stays a register), so
 * every later question is asked of the recording; the kernel function runs once.
 */
#ifndef REDELTA_NPU_MODEL_H
#define REDELTA_NPU_MODEL_H

#include <redelta/npu.h>

#define PIPES    RD_NPU_PIPES
#define FLAG_IDS 8
#define GRANULE  32u
#define GM_SLACK 32u

/* ---- instructions -------------------------------------------------------------------------- */

/* name, class, pipe, architectures (bit 0 = 310P, 1 = 910B, 2 = 950), types (bit = rd_npu_type).
 * The class decides operands, checks and execution; see operands.c and execute.c. */
#define T(x)      (1u << RD_NPU_##x)
#define ALL_ARCHS 7u
#define ONLY_310P 1u
#define NOT_310P  6u
#define T_FLOAT   (T(F16) | T(F32))
#define T_ARITH   (T(F16) | T(F32) | T(S32))
#define T_DUP     (T(F16) | T(BF16) | T(F32) | T(S32) | T(S16))
#define T_WORD    (T(F32) | T(S32))
/* clang-format off */
#define RD_NPU_OPS(X)                                                                             \
  X(set_flag, FLAG, S, ALL_ARCHS, 0)                                                              \
  X(wait_flag, FLAG, S, ALL_ARCHS, 0)                                                             \
  X(pipe_barrier, BARRIER, S, ALL_ARCHS, 0)                                                       \
  X(copy_gm_to_ubuf, BURST, MTE2, ALL_ARCHS, 0)                                                   \
  X(copy_ubuf_to_gm, BURST, MTE3, ALL_ARCHS, 0)                                                   \
  X(copy_gm_to_cbuf, BURST, MTE2, ALL_ARCHS, 0)                                                   \
  X(copy_ubuf_to_cbuf, BURST, MTE3, 5u, 0)                                                        \
  X(copy_ubuf_to_ubuf, BURST, V, ALL_ARCHS, 0)                                                    \
  X(copy_gm_to_ubuf_align, ALIGN, MTE2, NOT_310P, 0)                                              \
  X(copy_ubuf_to_gm_align, ALIGN, MTE3, NOT_310P, 0)                                              \
  X(load_cbuf_to_ca, LOAD, MTE1, ALL_ARCHS, 0)                                                    \
  X(load_cbuf_to_cb, LOAD, MTE1, ALL_ARCHS, 0)                                                    \
  X(mad, MAD, M, ALL_ARCHS, 0)                                                                    \
  X(copy_matrix_cc_to_ubuf, CC_UB, V, 5u, 0)                                                      \
  X(copy_matrix_cc_to_gm, CC_GM, FIX, NOT_310P, 0)                                                \
  X(vadd, VEC3, V, ALL_ARCHS, T_ARITH)                                                            \
  X(vsub, VEC3, V, ALL_ARCHS, T_ARITH)                                                            \
  X(vmul, VEC3, V, ALL_ARCHS, T_ARITH)                                                            \
  X(vmax, VEC3, V, ALL_ARCHS, T_ARITH)                                                            \
  X(vmin, VEC3, V, ALL_ARCHS, T_ARITH)                                                            \
  X(vdiv, VEC3, V, ALL_ARCHS, T_FLOAT)                                                            \
  X(vmla, VEC3, V, ALL_ARCHS, T_FLOAT)                                                            \
  X(vmadd, VEC3, V, ALL_ARCHS, T_FLOAT)                                                           \
  X(vsqrt, VEC2, V, ALL_ARCHS, T_FLOAT)                                                           \
  X(vexp, VEC2, V, ALL_ARCHS, T_FLOAT)                                                            \
  X(vmuls, VEC2, V, ALL_ARCHS, T_ARITH)                                                           \
  X(vadds, VEC2, V, ALL_ARCHS, T_ARITH)                                                           \
  X(vmaxs, VEC2, V, ALL_ARCHS, T_ARITH)                                                           \
  X(vmins, VEC2, V, ALL_ARCHS, T_ARITH)                                                           \
  X(vaxpy, VEC2, V, ALL_ARCHS, T_FLOAT)                                                           \
  X(vector_dup, VEC1, V, ALL_ARCHS, T_DUP)                                                        \
  X(vconv_f162f32, VEC2, V, ALL_ARCHS, 0)                                                         \
  X(vconv_f322f16, VEC2, V, ALL_ARCHS, 0)                                                         \
  X(vconv_bf162f32, VEC2, V, NOT_310P, 0)                                                         \
  X(vconv_f322bf16, VEC2, V, NOT_310P, 0)                                                         \
  X(vcadd, VRED, V, ALL_ARCHS, T_FLOAT)                                                           \
  X(vcgadd, VRED, V, ALL_ARCHS, T_FLOAT)                                                          \
  X(vbrcb, VBRCB, V, NOT_310P, T_DUP)                                                             \
  X(vtranspose, VTRANS, V, ONLY_310P, 0)                                                          \
  X(v4dtrans, VTRANS, V, ONLY_310P, T_DUP)                                                        \
  X(vgather, VGATHER, V, ONLY_310P, T_DUP)                                                        \
  X(load_gm, S_GM, S, ALL_ARCHS, 0)                                                               \
  X(load_ub, S_UB, S, ALL_ARCHS, T_WORD)                                                          \
  X(store_ub, S_UB, S, ALL_ARCHS, T_WORD)                                                         \
  X(sadd, S_OP, S, ALL_ARCHS, T_WORD)                                                             \
  X(ssub, S_OP, S, ALL_ARCHS, T_WORD)                                                             \
  X(smul, S_OP, S, ALL_ARCHS, T_WORD)                                                             \
  X(scmp_lt, S_OP, S, ALL_ARCHS, T_WORD)
/* clang-format on */

typedef enum op {
#define X(name, class, pipe, archs, types) OP_##name,
  RD_NPU_OPS(X)
#undef X
      OP_COUNT
} op;

typedef enum op_class {
  CLASS_FLAG,
  CLASS_BARRIER,
  CLASS_BURST,
  CLASS_ALIGN,
  CLASS_LOAD,
  CLASS_MAD,
  CLASS_CC_UB,
  CLASS_CC_GM,
  CLASS_VEC3,
  CLASS_VEC2,
  CLASS_VEC1,
  CLASS_VRED,
  CLASS_VBRCB,
  CLASS_VTRANS,
  CLASS_VGATHER,
  CLASS_S_GM,
  CLASS_S_UB,
  CLASS_S_OP
} op_class;

typedef struct op_info {
  const char *name;
  uint8_t class, pipe, archs, types;
} op_info;
extern const op_info rdn_ops[OP_COUNT];

typedef struct insn {
  uint8_t op, pipe;
  uint8_t type_dst, type_src;
  uint32_t site;
  uint32_t index; /* 1-based position in its pipe's queue */
  union {
    struct {
      uint64_t dst, src0, src1, lo, hi;
      rd_npu_scalar scalar;
      uint16_t dst_blk, src0_blk, src1_blk, dst_rep, src0_rep, src1_rep;
      uint32_t repeat;
      uint32_t extra; /* vgather: table bytes; v4dtrans: m << 16 | channels, scalar.bits = to hwc */
    } v;
    struct {
      uint64_t dst, src;
      uint32_t n, len, src_gap, dst_gap;
    } copy; /* BURST, ALIGN, CC_UB (fractals); CC_GM: n = rows, len = m, src_gap = n, dst_gap = ld
             */
    struct {
      uint64_t dst, src;
      uint32_t start, repeat, stride, gap;
      bool transpose;
    } load;
    struct {
      uint64_t dst, a, b;
      uint32_t m, k, n;
      bool init;
    } mad;
    struct {
      uint8_t src, dst, id;
    } flag;
    struct {
      uint32_t ends[RD_NPU_PIPES]; /* control list only: newest instruction of each pipe */
      uint8_t pipe;
    } barrier;
    struct {
      uint64_t addr;
      rd_npu_scalar a, b;
      uint32_t reg;
    } s;
  };
} insn;

/* ---- operands ------------------------------------------------------------------------------ */

enum { READ = 1, WRITE = 2, CONSUME = 4 /* a read whose bytes must be initialised */ };

/* What an instruction touches in one buffer: `units` ranges of `bytes` at base + i*stride, or, when
 * lanes > 0, the vector pattern of repeats, 32-byte blocks and a lane mask. */
typedef struct operand {
  uint8_t buffer, access, elem;
  uint16_t lanes; /* 0: plain ranges */
  uint32_t tensor;
  uint64_t base;
  uint64_t units, stride, bytes;
  uint32_t blk, rep;
  uint64_t lo, hi;
} operand;
#define MAX_OPERANDS 4

unsigned rdn_operands(const insn *i, operand out[MAX_OPERANDS]);
/* Byte mask (bit = byte) of block b of a vector operand. */
uint32_t rdn_block_mask(const operand *o, unsigned block);
/* Exclusive end of the operand's furthest byte; 0 when it touches nothing. */
uint64_t rdn_operand_end(const operand *o);
/* NULL, or why the instruction is not allowed (bounds, alignment, limits). */
bool rdn_validate(const rd_npu_launch *l, const insn *i, char *why, size_t size);
/* The steps of an instruction are halves of these. */
uint32_t rdn_units(const insn *i);
bool rdn_moves(const insn *i); /* propagates initialisation instead of consuming */

/* ---- memory and execution ------------------------------------------------------------------ */

typedef struct memory {
  uint8_t *buffer[RD_NPU_BUFFERS]; /* [RD_NPU_GM] unused */
  uint64_t capacity[RD_NPU_BUFFERS];
  const rd_npu_tensor *tensors;
  uint8_t **gm; /* data of each tensor: the caller's, or a private copy */
  uint32_t tensor_count;
  uint32_t *reg; /* scalar registers */
  uint32_t reg_capacity;
  float *scratch; /* operands of mad in f32 */
  rd_npu_arch arch;
} memory;

bool rdn_memory_init(memory *m, const rd_npu_launch *l);
void rdn_memory_poison(memory *m);
bool rdn_memory_regs(memory *m, uint32_t count);
void rdn_memory_free(memory *m);
/* Units [begin, end) of an instruction; false when a value-dependent address is out of bounds. */
bool rdn_execute(memory *m, const insn *i, uint32_t begin, uint32_t end);
static inline bool rdn_execute_all(memory *m, const insn *i) {
  return rdn_execute(m, i, 0, rdn_units(i));
}

typedef void vector_fn(void *dst, const void *a, const void *b, uint32_t scalar, size_t n);
vector_fn *rdn_vector_fn(op o, rd_npu_type type);
float rdn_exp(float x);

/* ---- the recorded program of one core ------------------------------------------------------- */

typedef struct site {
  const char *file;
  int line;
  uint32_t caller;
} site;

typedef struct program {
  insn *list;
  size_t count, capacity;
  site *sites; /* [0] unused */
  uint32_t site_count, site_capacity;
  uint32_t *site_hash;
  uint32_t site_hash_size;
  uint32_t regs;
} program;

void rdn_program_free(program *p);
/* "file.c:12, called from file.c:80"; the file's last path component. */
void rdn_site_text(const program *p, uint32_t site, char *out, size_t size);
uint32_t rdn_program_site(program *p, const char *file, int line, uint32_t caller);
bool rdn_program_add(program *p, const insn *i);

/* ---- raw findings, before sites become text and cores are merged ---------------------------- */

typedef struct raw_access {
  uint8_t pipe, op, buffer;
  uint32_t site, tensor;
  uint64_t begin, end;
} raw_access;

#define RAW_PAIRS 4
typedef struct raw_finding {
  uint8_t kind;
  uint64_t count;
  raw_access first, second;            /* second.op = OP_COUNT: none */
  char why[200];                       /* empty: made from the accesses */
  uint32_t pairs;                      /* representative pairs for the witnesses */
  uint32_t a[RAW_PAIRS], b[RAW_PAIRS]; /* positions in the program */
  uint32_t last_a, last_b;
  uint8_t witness; /* rd_npu_witness_state */
  uint32_t witness_tensor;
  uint64_t witness_index;
  double expected, got;
} raw_finding;

typedef struct finding_list {
  raw_finding *list;
  uint32_t count, capacity;
  uint32_t *hash;
  uint32_t hash_size;
  bool out_of_memory;
} finding_list;

/* The finding with the same kind and sites (created when new); NULL without memory. */
raw_finding *rdn_finding_add(finding_list *f, rd_npu_finding_kind kind, const raw_access *first,
                             const raw_access *second, const char *why);
void rdn_finding_free(finding_list *f);

/* ---- checker --------------------------------------------------------------------------------- */

typedef struct vclock {
  uint32_t at[PIPES];
} vclock;

typedef struct checker checker;
checker *rdn_checker_new(const rd_npu_launch *l);
void rdn_checker_reset(checker *k); /* for the next program */
void rdn_checker_free(checker *k);
/* One instruction in program order; position = its index in the program.  findings and sites are
 * the caller's.  stop_at_first: return false as soon as there is a finding (mutation). */
void rdn_checker_step(checker *k, const insn *i, uint32_t position, finding_list *f);
void rdn_checker_finish(checker *k, finding_list *f);
/* The clock that the last stepped instruction ran under. */
const vclock *rdn_checker_clock(const checker *k);
bool rdn_checker_failed(const checker *k); /* out of memory */

/* Byte ranges one core touched in one GM tensor. */
typedef struct range {
  uint64_t begin, end;
  uint32_t site;
  uint8_t op, pipe;
} range;
typedef struct range_set {
  range *list;
  size_t count, capacity;
} range_set;
const range_set *rdn_checker_ranges(const checker *k, uint32_t tensor, bool writes);
bool rdn_ranges_add(range_set *s, range r);
void rdn_ranges_merge(range_set *s);

/* ---- one core of a launch ---------------------------------------------------------------------
 */

struct rd_npu_core {
  const rd_npu_launch *launch;
  const rd_npu_arch_info *arch;
  uint32_t block, programs;
  uint64_t mask_lo, mask_hi;
  bool record, check, execute;
  bool dropping; /* some channel is dropped */
  bool halted;   /* a wait nobody satisfied: later values would be invented */
  uint8_t without[PIPES][PIPES];
  uint32_t next_index[PIPES];
  uint16_t pending[PIPES][PIPES][FLAG_IDS]; /* sets not yet waited for, in program order */
  uint64_t issued;
  program prog;
  program control; /* with dropped channels: events and barriers, the dropped ones included */
  memory *mem;
  checker *chk;
  finding_list findings;
  range_set *written, *read; /* per tensor, moved from the checker at the end */
  char *stuck;               /* what each pipe is held by, when halted */
  bool out_of_memory;
};

bool rdn_pipe_exists(const rd_npu_launch *l, unsigned pipe);
void rdn_issue(rd_npu_core *c, insn *i); /* core.c: validate, check, execute, record */
uint32_t rdn_launch_programs(const rd_npu_launch *l);
/* "M_V,V_M" into the matrix; false with a message when malformed. */
bool rdn_parse_without(const char *text, uint8_t without[PIPES][PIPES]);
uint64_t rdn_tensor_padded(const rd_npu_tensor *t);

/* ---- replaying a recording under a schedule
 * ------------------------------------------------------ */

typedef enum replay_end {
  REPLAY_DONE,
  REPLAY_STUCK,    /* nothing can move */
  REPLAY_LOST_SET, /* a flag was set while set: the event is lost */
  REPLAY_NO_MEMORY
} replay_end;

typedef struct deviation {
  uint32_t at, choice;
} deviation;

typedef struct schedule {
  rd_npu_schedule kind;
  uint64_t seed;
  const deviation *script; /* EXHAUSTIVE: departures from eager, ascending */
  uint32_t script_count;
  uint8_t *options; /* EXHAUSTIVE: how many choices each decision had, as far as there is room */
  uint32_t options_capacity, decisions;
} schedule;

/* mem NULL: no values, only whether it gets through.  On STUCK, text (may be NULL) says what each
 * pipe is held by. */
replay_end rdn_replay(const program *p, const rd_npu_launch *l, memory *mem, schedule *s,
                      char *text, size_t size);
/* Executes the whole list in program order. */
void rdn_replay_plain(const program *p, memory *mem);

/* GM of a launch as it was before it, and working copies of it. */
typedef struct gm_image {
  const rd_npu_launch *launch;
  uint8_t **data; /* per tensor; NULL where the launch cannot write: the caller's data is used */
} gm_image;
bool rdn_image_take(gm_image *g, const rd_npu_launch *l);
bool rdn_image_copy(gm_image *to, const gm_image *from); /* allocates on first use */
void rdn_image_free(gm_image *g);
void rdn_image_bind(const gm_image *g, memory *m);
bool rdn_image_differs(const gm_image *a, const gm_image *b, uint32_t *tensor, uint64_t *byte);
double rdn_element(const rd_npu_tensor *t, const uint8_t *data, uint64_t index);

/* Runs the orders each race of one core allows and fills in what they show. */
bool rdn_witness(const program *p, const rd_npu_launch *l, const gm_image *before, raw_finding *f);

/* ---- a whole launch
 * ------------------------------------------------------------------------------- */

typedef struct run_plan {
  bool execute, check, keep; /* keep: leave the recordings in the cores */
} run_plan;
rd_npu_status rdn_run_cores(const rd_npu_launch *l, const rd_npu_options *o, run_plan plan,
                            rd_npu_core **cores, uint32_t *count);
void rdn_free_cores(rd_npu_core *cores, uint32_t count);
const char *rdn_launch_problem(const rd_npu_launch *l, const rd_npu_options *o);
/* Runs fn(user, i) for i < count on up to `threads` host threads, each with its own state. */
typedef bool rdn_task(void *user, void *state, uint32_t i);
typedef void *rdn_task_begin(void *user);
typedef void rdn_task_end(void *user, void *state);
bool rdn_parallel(uint32_t threads, uint32_t count, void *user, rdn_task_begin *begin,
                  rdn_task *task, rdn_task_end *end);

static inline unsigned addr_buffer(uint64_t a) { return (unsigned)(a >> 60); }
static inline uint32_t addr_tensor(uint64_t a) { return (uint32_t)(a >> 44 & 0xFFFF); }
static inline uint64_t addr_offset(uint64_t a) {
  return a >> 60 ? a & 0x0FFFFFFFFFFFFFFFu : a & 0xFFFFFFFFFFFu;
}
static inline uint32_t type_size(uint8_t t) {
  return t == RD_NPU_F32 || t == RD_NPU_S32 ? 4 : t == RD_NPU_S64 ? 8 : 2;
}

#endif
