/*
 * The instruction set: one line per instruction.
 *
 * A line says what distinguishes an instruction from others of its class; the class (a file of
 * npu/isa) says what all of them touch, may do, do and cost.  Nothing else lists instructions, but the
 * arithmetic of the vector unit (vector.c) and the fronts.  docs/ADDING-AN-INSTRUCTION.md.
 */
#ifndef REDELTA_NPU_MACHINE_ISA_H
#define REDELTA_NPU_MACHINE_ISA_H

#include "npu/machine/machine.h"

/* Architectures: bit 0 = 310P, 1 = 910B, 2 = 950. */
#define ALL_ARCHS 7u
#define NOT_310P  6u
#define NOT_910B  5u
#define NOT_950   3u
/* Types: bit = rd_npu_type; 0: the class decides. */
#define T(x)    (1u << RD_NPU_##x)
#define T_FLOAT (T(F16) | T(F32))
#define T_ARITH (T(F16) | T(F32) | T(S32))
#define T_DUP   (T(F16) | T(BF16) | T(F32) | T(S32) | T(S16))
#define T_WORD  (T(F32) | T(S32))

/* Traits. */
enum {
  READS_DST = 1,       /* the old destination is an operand */
  ACCUMULATES = 2,     /* dst = src1 with a zero repeat stride runs in order */
  SLOW = 4,            /* four cycles a repeat under the cost model */
  ON_FIX_IF_SPLIT = 8, /* pipe FIX where cube and vector cores are split */
  ANY_BITS = 16,       /* reads bits: no unit needs to know the type */
  S_MEMORY = 32,       /* S's access to a buffer that pipes use too */
  VALUE = 64           /* gives the kernel a C value, which every replay must give again */
};
#define RAW_BITS 0xFF /* type_src of a value that is bits only */

/* name, class, pipe, architectures, types, buffer of the (first) source, of the destination, traits */
/* clang-format off */
#define RDN_OPS(X)                                                                                \
  X(set_flag, FLAG, S, ALL_ARCHS, 0, UB, UB, 0)                                                   \
  X(wait_flag, FLAG, S, ALL_ARCHS, 0, UB, UB, 0)                                                  \
  X(pipe_barrier, BARRIER, S, ALL_ARCHS, 0, UB, UB, 0)                                            \
  X(copy_gm_to_ubuf, BURST, MTE2, ALL_ARCHS, 0, GM, UB, 0)                                        \
  X(copy_ubuf_to_gm, BURST, MTE3, ALL_ARCHS, 0, UB, GM, 0)                                        \
  X(copy_gm_to_cbuf, BURST, MTE2, ALL_ARCHS, 0, GM, L1, 0)                                        \
  X(copy_ubuf_to_cbuf, BURST, MTE3, NOT_910B, 0, UB, L1, 0)                                       \
  X(copy_ubuf_to_ubuf, BURST, V, ALL_ARCHS, 0, UB, UB, 0)                                         \
  X(copy_gm_to_ubuf_align, ALIGN, MTE2, NOT_310P, 0, GM, UB, 0)                                   \
  X(copy_ubuf_to_gm_align, ALIGN, MTE3, NOT_310P, 0, UB, GM, 0)                                   \
  X(load_cbuf_to_ca, LOAD, MTE1, ALL_ARCHS, 0, L1, L0A, 0)                                        \
  X(load_cbuf_to_cb, LOAD, MTE1, ALL_ARCHS, 0, L1, L0B, 0)                                        \
  X(mad, MAD, M, ALL_ARCHS, 0, L0A, L0C, 0)                                                       \
  X(copy_matrix_cc_to_ubuf, CC_UB, V, NOT_910B, 0, L0C, UB, ON_FIX_IF_SPLIT)                      \
  X(copy_matrix_cc_to_gm, CC_GM, FIX, NOT_310P, 0, L0C, GM, 0)                                    \
  X(vadd, VEC3, V, ALL_ARCHS, T_ARITH, UB, UB, ACCUMULATES)                                       \
  X(vsub, VEC3, V, ALL_ARCHS, T_ARITH, UB, UB, ACCUMULATES)                                       \
  X(vmul, VEC3, V, ALL_ARCHS, T_ARITH, UB, UB, ACCUMULATES)                                       \
  X(vmax, VEC3, V, ALL_ARCHS, T_ARITH, UB, UB, ACCUMULATES)                                       \
  X(vmin, VEC3, V, ALL_ARCHS, T_ARITH, UB, UB, ACCUMULATES)                                       \
  X(vdiv, VEC3, V, ALL_ARCHS, T_FLOAT, UB, UB, SLOW)                                              \
  X(vmla, VEC3, V, ALL_ARCHS, T_FLOAT, UB, UB, READS_DST)                                         \
  X(vmadd, VEC3, V, ALL_ARCHS, T_FLOAT, UB, UB, READS_DST)                                        \
  X(vsqrt, VEC2, V, ALL_ARCHS, T_FLOAT, UB, UB, SLOW)                                             \
  X(vexp, VEC2, V, ALL_ARCHS, T_FLOAT, UB, UB, SLOW)                                              \
  X(vmuls, VEC2, V, ALL_ARCHS, T_ARITH, UB, UB, 0)                                                \
  X(vadds, VEC2, V, ALL_ARCHS, T_ARITH, UB, UB, 0)                                                \
  X(vmaxs, VEC2, V, ALL_ARCHS, T_ARITH, UB, UB, 0)                                                \
  X(vmins, VEC2, V, ALL_ARCHS, T_ARITH, UB, UB, 0)                                                \
  X(vaxpy, VEC2, V, ALL_ARCHS, T_FLOAT, UB, UB, READS_DST)                                        \
  X(vector_dup, VEC1, V, ALL_ARCHS, T_DUP, UB, UB, 0)                                             \
  X(vconv_f162f32, VEC2, V, ALL_ARCHS, 0, UB, UB, 0)                                              \
  X(vconv_f322f16, VEC2, V, ALL_ARCHS, 0, UB, UB, 0)                                              \
  X(vconv_bf162f32, VEC2, V, NOT_310P, 0, UB, UB, 0)                                              \
  X(vconv_f322bf16, VEC2, V, NOT_310P, 0, UB, UB, 0)                                              \
  X(vcadd, VRED, V, ALL_ARCHS, T_FLOAT, UB, UB, 0)                                                \
  X(vcgadd, VRED, V, ALL_ARCHS, T_FLOAT, UB, UB, 0)                                               \
  X(vbrcb, VBRCB, V, NOT_310P, T_DUP, UB, UB, 0)                                                  \
  X(vtranspose, VTRANS, V, NOT_950, 0, UB, UB, 0)                                               \
  X(v4dtrans, VTRANS, V, NOT_950, T_DUP, UB, UB, 0)                                             \
  X(vgather, VGATHER, V, NOT_950, T_DUP, UB, UB, 0)                                             \
  X(load_gm, S_GM, S, ALL_ARCHS, 0, GM, GM, ANY_BITS)                                             \
  X(load_ub, S_UB, S, ALL_ARCHS, T_WORD, UB, UB, S_MEMORY)                                        \
  X(store_ub, S_UB, S, ALL_ARCHS, T_WORD, UB, UB, S_MEMORY)                                       \
  X(get_value, S_VALUE, S, ALL_ARCHS, 0, UB, UB, S_MEMORY | VALUE | ANY_BITS)                     \
  X(set_value, S_VALUE, S, ALL_ARCHS, 0, UB, UB, S_MEMORY | ANY_BITS)                             \
  X(get_value_gm, S_VALUE, S, ALL_ARCHS, 0, GM, GM, S_MEMORY | VALUE | ANY_BITS)                  \
  X(set_value_gm, S_VALUE, S, ALL_ARCHS, 0, GM, GM, S_MEMORY | ANY_BITS)                          \
  X(data_cache_clean_and_invalid, S_CACHE, S, ALL_ARCHS, 0, GM, GM, S_MEMORY)                     \
  X(sadd, S_OP, S, ALL_ARCHS, T_WORD, UB, UB, 0)                                                  \
  X(ssub, S_OP, S, ALL_ARCHS, T_WORD, UB, UB, 0)                                                  \
  X(smul, S_OP, S, ALL_ARCHS, T_WORD, UB, UB, 0)                                                  \
  X(scmp_lt, S_OP, S, ALL_ARCHS, T_WORD, UB, UB, 0)
/* clang-format on */

typedef enum op {
#define X(name, ...) OP_##name,
  RDN_OPS(X)
#undef X
      OP_COUNT
} op;

/* The classes, each defined in a file of npu/isa as rdn_class_NAME. */
#define RDN_CLASSES(X)                                                                             \
  X(FLAG)                                                                                          \
  X(BARRIER)                                                                                       \
  X(BURST)                                                                                         \
  X(ALIGN)                                                                                         \
  X(LOAD)                                                                                          \
  X(MAD)                                                                                           \
  X(CC_UB)                                                                                         \
  X(CC_GM)                                                                                         \
  X(VEC3)                                                                                          \
  X(VEC2)                                                                                          \
  X(VEC1)                                                                                          \
  X(VRED)                                                                                          \
  X(VBRCB)                                                                                         \
  X(VTRANS)                                                                                        \
  X(VGATHER)                                                                                       \
  X(S_GM)                                                                                          \
  X(S_UB)                                                                                          \
  X(S_VALUE)                                                                                       \
  X(S_CACHE)                                                                                       \
  X(S_OP)

typedef enum op_class {
#define X(name) CLASS_##name,
  RDN_CLASSES(X)
#undef X
      CLASS_COUNT
} op_class;

typedef struct op_info {
  const char *name;
  uint8_t cls, pipe, archs, types, from, to, traits;
} op_info;
extern const op_info rdn_ops[OP_COUNT];

#endif
