/*
 * Random kernels for the AI Core model: data, not code, so that a second checker can read them and a
 * failing one can be made smaller.  What each instruction touches and which rules order it is
 * written here from the documentation (redelta/npu.h, docs/NPU-MODEL.md); nothing is asked of npu/.
 */
#ifndef TEST_NPU_RANDOM_KERNEL_H
#define TEST_NPU_RANDOM_KERNEL_H

#include <redelta/npu.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
  MOST_STEPS = 62,  /* fixed frame included; two nodes each in a row of 128 bits */
  MOST_RANDOM = 24, /* drawn at random, synchronisation included */
};

/* What an instruction looks like: its prototype, and with it what it touches. */
typedef enum form {
  FLAG,
  BARRIER,
  BURST,
  ALIGN_LOAD,
  ALIGN_STORE,
  FRACTALS,
  PRODUCT,
  L0C_TO_UB,
  L0C_TO_GM,
  THREE,   /* dst, two sources */
  TWO,     /* dst, source */
  SCALED,  /* dst, source, scalar */
  FILL,    /* dst, scalar */
  CONVERT, /* dst, source of another width */
  SUMS,
  SPREAD,
  TRANSPOSE,
  TRANSPOSE_4D,
  GATHER,
  S_GM,
  S_LOAD,
  S_STORE,
  S_ARITHMETIC,
  S_GET, /* a C value: p[0] bytes, or of the type */
  S_PUT
} form;

#define ON(arch)   (1u << RD_NPU_##arch)
#define EVERYWHERE (ON(310P) | ON(910B) | ON(950))
#define OF(type)   (1u << RD_NPU_##type)
#define FLOATS     (OF(F16) | OF(F32))
#define NUMBERS    (OF(F16) | OF(F32) | OF(S32))
#define WORDS32    (OF(F32) | OF(S32))
#define ANYTHING   (OF(F16) | OF(BF16) | OF(F32) | OF(S32) | OF(S16))
enum { UPDATES = 1 }; /* the old destination is read */

/* name, form, pipe, architectures, types, buffer of the source, of the destination, traits.
 * Pipe of L0C -> UB: V on 310P, FIX on 950. */
/* clang-format off */
#define RANDOM_OPS(X)                                                        \
  X(set_flag,               FLAG,         S,    EVERYWHERE,          0, UB,  UB,  0) \
  X(wait_flag,              FLAG,         S,    EVERYWHERE,          0, UB,  UB,  0) \
  X(pipe_barrier,           BARRIER,      S,    EVERYWHERE,          0, UB,  UB,  0) \
  X(copy_gm_to_ubuf,        BURST,        MTE2, EVERYWHERE,          0, GM,  UB,  0) \
  X(copy_ubuf_to_gm,        BURST,        MTE3, EVERYWHERE,          0, UB,  GM,  0) \
  X(copy_gm_to_cbuf,        BURST,        MTE2, EVERYWHERE,          0, GM,  L1,  0) \
  X(copy_ubuf_to_cbuf,      BURST,        MTE3, ON(310P) | ON(950),  0, UB,  L1,  0) \
  X(copy_ubuf_to_ubuf,      BURST,        V,    EVERYWHERE,          0, UB,  UB,  0) \
  X(copy_gm_to_ubuf_align,  ALIGN_LOAD,   MTE2, ON(910B) | ON(950),  0, GM,  UB,  0) \
  X(copy_ubuf_to_gm_align,  ALIGN_STORE,  MTE3, ON(910B) | ON(950),  0, UB,  GM,  0) \
  X(load_cbuf_to_ca,        FRACTALS,     MTE1, EVERYWHERE,          0, L1,  L0A, 0) \
  X(load_cbuf_to_cb,        FRACTALS,     MTE1, EVERYWHERE,          0, L1,  L0B, 0) \
  X(mad,                    PRODUCT,      M,    EVERYWHERE,          0, L0A, L0C, 0) \
  X(copy_matrix_cc_to_ubuf, L0C_TO_UB,    V,    ON(310P) | ON(950),  0, L0C, UB,  0) \
  X(copy_matrix_cc_to_gm,   L0C_TO_GM,    FIX,  ON(910B) | ON(950),  0, L0C, GM,  0) \
  X(vadd,                   THREE,        V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vsub,                   THREE,        V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vmul,                   THREE,        V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vmax,                   THREE,        V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vmin,                   THREE,        V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vdiv,                   THREE,        V,    EVERYWHERE,     FLOATS, UB,  UB,  0) \
  X(vmla,                   THREE,        V,    EVERYWHERE,     FLOATS, UB,  UB,  UPDATES) \
  X(vmadd,                  THREE,        V,    EVERYWHERE,     FLOATS, UB,  UB,  UPDATES) \
  X(vsqrt,                  TWO,          V,    EVERYWHERE,     FLOATS, UB,  UB,  0) \
  X(vexp,                   TWO,          V,    EVERYWHERE,     FLOATS, UB,  UB,  0) \
  X(vmuls,                  SCALED,       V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vadds,                  SCALED,       V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vmaxs,                  SCALED,       V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vmins,                  SCALED,       V,    EVERYWHERE,    NUMBERS, UB,  UB,  0) \
  X(vaxpy,                  SCALED,       V,    EVERYWHERE,     FLOATS, UB,  UB,  UPDATES) \
  X(vector_dup,             FILL,         V,    EVERYWHERE,   ANYTHING, UB,  UB,  0) \
  X(vconv_f162f32,          CONVERT,      V,    EVERYWHERE,          0, UB,  UB,  0) \
  X(vconv_f322f16,          CONVERT,      V,    EVERYWHERE,          0, UB,  UB,  0) \
  X(vconv_bf162f32,         CONVERT,      V,    ON(910B) | ON(950),  0, UB,  UB,  0) \
  X(vconv_f322bf16,         CONVERT,      V,    ON(910B) | ON(950),  0, UB,  UB,  0) \
  X(vcadd,                  SUMS,         V,    EVERYWHERE,     FLOATS, UB,  UB,  0) \
  X(vcgadd,                 SUMS,         V,    EVERYWHERE,     FLOATS, UB,  UB,  0) \
  X(vbrcb,                  SPREAD,       V,    ON(910B) | ON(950), ANYTHING, UB, UB, 0) \
  X(vtranspose,             TRANSPOSE,    V,    ON(310P),            0, UB,  UB,  0) \
  X(v4dtrans,               TRANSPOSE_4D, V,    ON(310P),     ANYTHING, UB,  UB,  0) \
  X(vgather,                GATHER,       V,    ON(310P),     ANYTHING, UB,  UB,  0) \
  X(load_gm_int,            S_GM,         S,    EVERYWHERE,          0, GM,  UB,  0) \
  X(load_gm_float,          S_GM,         S,    EVERYWHERE,          0, GM,  UB,  0) \
  X(load_ub,                S_LOAD,       S,    EVERYWHERE,    WORDS32, UB,  UB,  0) \
  X(store_ub,               S_STORE,      S,    EVERYWHERE,    WORDS32, UB,  UB,  0) \
  X(sadd,                   S_ARITHMETIC, S,    EVERYWHERE,    WORDS32, UB,  UB,  0) \
  X(ssub,                   S_ARITHMETIC, S,    EVERYWHERE,    WORDS32, UB,  UB,  0) \
  X(smul,                   S_ARITHMETIC, S,    EVERYWHERE,    WORDS32, UB,  UB,  0) \
  X(scmp_lt,                S_ARITHMETIC, S,    EVERYWHERE,    WORDS32, UB,  UB,  0) \
  X(get_value,              S_GET,        S,    EVERYWHERE,          0, UB,  UB,  0) \
  X(set_value,              S_PUT,        S,    EVERYWHERE,          0, UB,  UB,  0)
/* clang-format on */

typedef enum random_op {
#define X(name, ...) R_##name,
  RANDOM_OPS(X)
#undef X
      R_COUNT
} random_op;

typedef struct random_op_info {
  const char *name;
  uint8_t form, pipe, archs, types, from, to, traits;
} random_op_info;
extern const random_op_info random_ops[R_COUNT];

typedef struct step {
  uint8_t op, pipe; /* the queue it goes to */
  uint8_t type, to; /* to: destination type where it has its own */
  uint8_t src, dst; /* pipes of a flag; dst: pipe of a barrier */
  uint8_t id;
  bool fixed;       /* of the frame: never drawn, moved or dropped */
  bool yes;         /* init, transpose, chw_to_hwc */
  int8_t reg, reg2; /* scalar operand: the step whose value it is, or -1 */
  rd_npu_scalar imm;
  uint64_t lo, hi;  /* mask */
  uint64_t d, a, b; /* addresses */
  uint32_t p[8];    /* the prototype's numbers, in its order */
} step;

typedef struct random_kernel {
  rd_npu_arch arch;
  rd_npu_core_kind kind;
  rd_npu_auto_sync auto_sync;
  bool binary;     /* flags are bits: what only counting saves is an error */
  bool cube, wide; /* has products; enough fractals for the ten of the accumulate rule */
  uint32_t count;
  step list[MOST_STEPS];
} random_kernel;

/* Where random addresses live, in bytes. */
enum {
  IN_BYTES = 8192,
  STATE_BYTES = 2048,
  DUMP_BYTES = 16384,
  UB_WINDOW = 2048, /* what random instructions use; behind it the frame lands L0C, offsets lie */
  UB_OFFSETS = 2048,
  UB_LANDING = 4096,
  UB_BYTES = 16384,
  L1_BYTES = 6144,
  L0A_BYTES = 2048,
  L0B_BYTES = 6144,
  L0C_BYTES = 12288
};
enum { GM_IN, GM_STATE, GM_DUMP, GM_TENSORS };

/* run.c */
void run_kernel(rd_npu_core *c, const void *kernel);
void print_kernel(FILE *to, const random_kernel *k);
/* generate.c: pipes of the kernel's kind of core, as a bit set. */
unsigned pipes_of(rd_npu_core_kind kind);
uint8_t pipe_of(const random_kernel *k, uint8_t op);
void generate(random_kernel *k, uint64_t seed);
bool insert_step(random_kernel *k, uint32_t at, step s);
void remove_step(random_kernel *k, uint32_t at);

#endif
