/* Every finding of the checker: a kernel with the defect planted must be reported with the right
 * kind, sites and missing event; its clean twin must not be reported at all. */
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

typedef struct variant {
  bool bad;
  int which;
} variant;

typedef struct planted {
  const char *name;
  rd_npu_kernel *kernel;
  rd_npu_arch arch;
  rd_npu_core_kind kind;
  uint32_t block_num;
  rd_npu_finding_kind finding;
  const char *missing; /* NULL: any */
  int which;
} planted;

#define BAD   (((const variant *)args)->bad)
#define WHICH (((const variant *)args)->which)
#define EDGE(a, b, id)                                                                             \
  do {                                                                                             \
    set_flag(PIPE_##a, PIPE_##b, id);                                                              \
    wait_flag(PIPE_##a, PIPE_##b, id);                                                             \
  } while (0)
#define LOAD(ub, gm, blocks)  copy_gm_to_ubuf(UB(ub), RD_NPU_GM_ADDR(0, gm), 1, blocks, 0, 0)
#define STORE(gm, ub, blocks) copy_ubuf_to_gm(RD_NPU_GM_ADDR(1, gm), UB(ub), 1, blocks, 0, 0)
#define ADD(d, a, b)          vadd(F32, UB(d), UB(a), UB(b), 1, 1, 1, 1, 8, 8, 8)

static void raw_load(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  if (!BAD) EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 256, 8);
  pipe_barrier(PIPE_ALL);
}
static void raw_store(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  if (!BAD) EDGE(V, MTE3, 0);
  STORE(0, 256, 8);
  pipe_barrier(PIPE_ALL);
}
static void war_reload(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  if (!BAD) EDGE(V, MTE2, 0);
  LOAD(0, 256, 8);
  EDGE(MTE2, V, 0);
  if (BAD) EDGE(V, MTE3, 1); /* an edge of another channel does not help */
  pipe_barrier(PIPE_V);
  ADD(512, 0, 256);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}
static void waw_loads(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  if (!BAD) pipe_barrier(PIPE_MTE2);
  LOAD(32, 256, 8);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 9);
  pipe_barrier(PIPE_ALL);
}
static void vector_chain(rd_npu_core *c,
                         const void *args) { /* V after V on 310P needs the barrier */
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  if (!BAD) pipe_barrier(PIPE_V);
  ADD(512, 256, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}
static void vector_chain_950(rd_npu_core *c, const void *args) { /* ... and is free on 950 */
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  ADD(512, 256, 0);
  if (!BAD) EDGE(V, MTE3, 0);
  if (get_block_idx() == 0) STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}
static void round_trip_orders(rd_npu_core *c,
                              const void *args) { /* a flag round trip replaces a barrier */
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  EDGE(V, MTE3, 0);
  if (!BAD) EDGE(MTE3, V, 0);
  ADD(512, 256, 0);
  EDGE(V, MTE3, 1);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}

static void fill_l0(rd_npu_core *c) {
  copy_gm_to_cbuf(L1(0), GM(0), 1, 512, 0, 0);
  EDGE(MTE2, MTE1, 0);
  load_cbuf_to_ca(L0A(0), L1(0), 0, 16, 1, 0, false);
  load_cbuf_to_cb(L0B(0), L1(0), 0, 16, 1, 0, false);
  EDGE(MTE1, M, 0);
}
static void l0c_read(rd_npu_core *c, const void *args) {
  fill_l0(c);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 16, 64, true);
  if (!BAD) EDGE(M, V, 0);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, 4, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 0, 128);
  pipe_barrier(PIPE_ALL);
}
static void l0c_overwrite(rd_npu_core *c, const void *args) {
  fill_l0(c);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 16, 64, true);
  EDGE(M, V, 0);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, 4, 0, 0);
  if (!BAD) EDGE(V, M, 0);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 32, 64, true);
  EDGE(M, V, 0);
  pipe_barrier(PIPE_V);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, 4, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 0, 128);
  pipe_barrier(PIPE_ALL);
}
static void accumulate(rd_npu_core *c, const void *args) {
  uint32_t n = (uint32_t)WHICH; /* 32: 4 fractals; 64 and m 64: 16, which needs no barrier */
  fill_l0(c);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), n, 16, n, true);
  if (!BAD && n < 64) pipe_barrier(PIPE_M);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), n, 16, n, false);
  if (BAD && n >= 64)
    mad(F32, F16, L0C(1024), L0A(0), L0B(0), 16, 16, 16, false); /* the smaller decides */
  EDGE(M, V, 0);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, 4, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 0, 128);
  pipe_barrier(PIPE_ALL);
}
static void l1_refill(rd_npu_core *c, const void *args) { /* MTE2 refills what MTE1 still reads */
  fill_l0(c);
  if (!BAD) EDGE(MTE1, MTE2, 0);
  copy_gm_to_cbuf(L1(0), GM(0) + 1024, 1, 32, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void flag_reuse(rd_npu_core *c, const void *args) {
  for (uint32_t i = 0; i < 3; i++) {
    if (i && !BAD) wait_flag(PIPE_V, PIPE_MTE2, 0);
    LOAD(256 * i, 256 * i, 8); /* own buffers: only the flag itself is at stake */
    set_flag(PIPE_MTE2, PIPE_V, 0);
    wait_flag(PIPE_MTE2, PIPE_V, 0);
    ADD(1024 + 256 * i, 256 * i, 256 * i);
    if (i < 2 && !BAD) set_flag(PIPE_V, PIPE_MTE2, 0);
  }
  EDGE(V, MTE3, 0);
  STORE(0, 1024, 24);
  pipe_barrier(PIPE_ALL);
}
static void double_set(rd_npu_core *c, const void *args) {
  set_flag(PIPE_MTE2, PIPE_V, 0);
  if (BAD) set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  if (BAD) wait_flag(PIPE_MTE2, PIPE_V, 0);
  pipe_barrier(PIPE_ALL);
}
static void deadlock(rd_npu_core *c, const void *args) {
  if (BAD && WHICH == 0) wait_flag(PIPE_MTE3, PIPE_MTE2, 5); /* never set */
  if (BAD && WHICH == 1) wait_flag(PIPE_M, PIPE_V, 2);       /* set too late in program order */
  set_flag(PIPE_M, PIPE_V, 2);
  if (!BAD || WHICH == 0) wait_flag(PIPE_M, PIPE_V, 2);
  LOAD(0, 0, 8);
  pipe_barrier(PIPE_ALL);
}
static void leftover_flag(rd_npu_core *c, const void *args) {
  set_flag(PIPE_M, PIPE_V, 1);
  if (!BAD) wait_flag(PIPE_M, PIPE_V, 1);
  pipe_barrier(PIPE_ALL);
}
static void leftover_op(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 8);
  if (!BAD) pipe_barrier(PIPE_ALL);
}
static void leftover_but_waited(rd_npu_core *c,
                                const void *args) { /* S waiting for the last store is enough ... */
  LOAD(0, 0, 8);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 8);
  EDGE(MTE3, S, 0);
  if (BAD) LOAD(256, 0, 8); /* ... unless something follows */
}
static void id_range(rd_npu_core *c, const void *args) {
  uint32_t id = BAD ? 8 : 7;
  EDGE(MTE2, V, id);
  pipe_barrier(PIPE_ALL);
}

static void bounds(rd_npu_core *c, const void *args) {
  uint32_t bad = BAD ? 1 : 0;
  set_vector_mask(0, ~0ull);
  vector_dup(F32, UB(0), 1.0f, 16, 1, 8);
  pipe_barrier(PIPE_V);
  switch (WHICH) {
  case 0:
    vector_dup(F32, UB(262144 - 256 + 32 * bad), 0.0f, 1, 1, 8);
    break; /* capacity */
  case 1:
    ADD(512 + 4 * bad, 0, 256);
    break; /* alignment */
  case 2:
    vector_dup(F32, UB(4096), 0.0f, 255 + bad, 1, 8);
    break; /* repeat */
  case 3:
    copy_gm_to_ubuf(UB(4096), GM(0), 1, 1025 + bad, 0, 0);
    break; /* slack of 32 bytes ends */
  case 4:
    copy_ubuf_to_gm(GM(1) + 32768 - 32, UB(0), 1, 1 + bad, 0, 0);
    break; /* slack may not be written */
  case 5:
    copy_gm_to_ubuf(UB(4096), GM(0) + bad, 1, 8, 0, 0);
    break; /* element alignment */
  case 6:
    vadd(F32, UB(512), UB(512 - 32 * bad), UB(1024), 1, 1, 1, 1, 8, 8, 8);
    break; /* half overlap */
  case 7:
    vadd(F32, UB(bad ? 256 : 2048), UB(0), UB(1024), 4, 1, 1, 1, 8, 8, 8);
    break; /* reads an earlier repeat's result */
  case 8:
    vmla(F32, UB(0), UB(1024), UB(2048), 2, 1, 1, 1, bad ? 0 : 8, 8, 8);
    break; /* only + - * max min accumulate */
  case 9:
    set_vector_mask(0, bad ? 0 : 1);
    ADD(512, 0, 256);
    break; /* empty mask */
  case 10:
    copy_gm_to_ubuf(bad ? L1(0) : UB(0), GM(0), 1, 1, 0, 0);
    break; /* wrong buffer */
  case 11:
    vector_dup(F32, UB(4096), 0.0f, 1, bad ? 0 : 1, 8);
    break; /* one block written twice */
  case 12:
    load_cbuf_to_ca(L0A(512 + 256 * bad), L1(0), 0, 1, 1, 0, false);
    break; /* L0A alignment */
  case 13:
    copy_ubuf_to_gm(bad ? GM(0) : GM(1), UB(0), 1, 1, 0, 0);
    break; /* writes an input */
  case 14:
    mad(F32, F16, L0C(1024 - 512 * bad), L0A(0), L0B(0), 16, 16, 16, true);
    break;
  case 15:
    copy_gm_to_ubuf(UB(0), GM(0), 4095 + bad, 1, 0, 0);
    break; /* bursts (the source is short, too) */
  default:
    break;
  }
  pipe_barrier(PIPE_ALL);
}
/* Bounds cases whose clean twin cannot avoid another finding are judged by the bounds finding only.
 */

static void uninitialised(rd_npu_core *c, const void *args) {
  switch (WHICH) {
  case 0: /* nothing loaded */
    if (!BAD) LOAD(0, 0, 8);
    EDGE(MTE2, V, 0);
    ADD(256, 0, 0);
    break;
  case 1: /* lanes past the mask stay uninitialised */
    set_vector_mask(0, BAD ? 0x7FFFFFFFFFFFFFFFull : ~0ull);
    vector_dup(F32, UB(0), 0.0f, 1, 1, 8);
    set_vector_mask(0, ~0ull);
    pipe_barrier(PIPE_V);
    ADD(256, 0, 0);
    break;
  case 2: /* slack travels through moves and is caught where it is used */
    copy_gm_to_ubuf(UB(0), GM(0) + 32768 - 32 * 8 + (BAD ? 32 : 0), 1, 8, 0, 0);
    EDGE(MTE2, MTE3, 0);
    copy_ubuf_to_cbuf(L1(0), UB(0), 1, 8, 0, 0);
    EDGE(MTE3, V, 1);
    ADD(256, 0, 0);
    break;
  case 3: /* UB to GM consumes */
    vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
    EDGE(V, MTE3, 0);
    STORE(0, 0, BAD ? 9 : 8);
    break;
  case 4: /* a tail of L1 never written reaches the matrix unit */
    copy_gm_to_cbuf(L1(0), GM(0), 1, BAD ? 255 : 256, 0, 0);
    EDGE(MTE2, MTE1, 0);
    load_cbuf_to_ca(L0A(0), L1(0), 0, 16, 1, 0, true);
    load_cbuf_to_cb(L0B(0), L1(0), 0, 1, 1, 0, false);
    EDGE(MTE1, M, 0);
    mad(F32, F16, L0C(0), L0A(0), L0B(0), 256, 16, 16, true);
    break;
  case 5: /* an output tensor is uninitialised until written */
    vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
    EDGE(V, MTE3, 0);
    if (!BAD) STORE(0, 0, 8);
    EDGE(MTE3, MTE2, 0);
    copy_gm_to_ubuf(UB(512), GM(1), 1, 8, 0, 0);
    EDGE(MTE2, V, 0);
    ADD(1024, 512, 512);
    break;
  case 6: /* accumulating onto nothing */
    fill_l0(c);
    mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 16, 64, !BAD);
    break;
  case 7: /* S reads */
    if (!BAD) LOAD(0, 0, 1);
    EDGE(MTE2, S, 0);
    store_ub(F32, UB(512), load_ub(F32, UB(0)));
    break;
  default:
    break;
  }
  pipe_barrier(PIPE_ALL);
}

static void missing_vbrcb(rd_npu_core *c, const void *args) {
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  pipe_barrier(PIPE_V);
  if (BAD) vbrcb(F32, UB(512), UB(0), 1, 1, 8);
  pipe_barrier(PIPE_ALL);
}
static void missing_on_950(rd_npu_core *c, const void *args) {
  vector_dup(F16, UB(0), 1.0f, 2, 1, 8);
  if (BAD && WHICH == 0) vtranspose(UB(512), UB(0));
  if (BAD && WHICH == 1)
    mad(F32, F16, L0C(0), L0A(0), L0B(0), 16, 16, 16, true); /* no matrix unit here */
  if (BAD && WHICH == 2) set_flag(PIPE_M, PIPE_V, 0);
  pipe_barrier(PIPE_ALL);
}
static void missing_bf16(rd_npu_core *c, const void *args) {
  if (BAD)
    vector_dup(BF16, UB(0), 1.0f, 1, 1, 8);
  else
    vector_dup(F16, UB(0), 1.0f, 1, 1, 8);
  pipe_barrier(PIPE_ALL);
}

static void scalar_orders(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 1);
  if (!BAD || WHICH != 0) EDGE(MTE2, S, 0);
  rd_npu_scalar x = load_ub(F32, UB(0));
  store_ub(F32, UB(64), x);
  if (!BAD || WHICH != 1) EDGE(S, V, 0);
  set_vector_mask(0, 1);
  ADD(128, 64, 64);
  if (!BAD || WHICH != 2) EDGE(V, S, 0);
  store_ub(F32, UB(64), rd_npu_f32(1.0f));
  if (BAD && WHICH == 2) EDGE(V, S, 0);
  if (!BAD || WHICH != 3) EDGE(S, MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(64), 0, 1, 0, 0); /* no-op: repeat 0 touches nothing */
  LOAD(256, 0, 1);
  if (!BAD || WHICH != 3) EDGE(S, MTE2, 0);
  copy_gm_to_ubuf(UB(64), GM(0), 1, 1, 0, 0);
  pipe_barrier(PIPE_ALL);
}
static void many_records(rd_npu_core *c, const void *args) { /* ten live records in one granule */
  for (uint32_t w = 0; w < 8; w++) store_ub(F32, UB(4 * w), rd_npu_f32((float)w));
  EDGE(S, MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(0), 1, 1, 0, 0);
  set_vector_mask(0, 1);
  if (!BAD || WHICH == 1) EDGE(S, V, 0);
  ADD(64, 0, 0);
  if (!BAD || WHICH == 0) EDGE(V, S, 1);
  EDGE(MTE3, S, 1);
  store_ub(F32, UB(BAD && WHICH == 1 ? 0 : 4), rd_npu_f32(9.0f)); /* V read word 0 only */
  pipe_barrier(PIPE_ALL);
}
static void scalar_gm(rd_npu_core *c, const void *args) {
  float x = load_gm_float(F32, BAD ? GM(2) : GM(0));
  vector_dup(F32, UB(0), x, 1, 1, 8);
  pipe_barrier(PIPE_ALL);
}

static void cores_write(rd_npu_core *c, const void *args) {
  uint64_t at = BAD ? 0 : 256 * (uint64_t)get_block_idx();
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  EDGE(V, MTE3, 0);
  copy_ubuf_to_gm(GM(1) + at, UB(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}
static void cores_read(rd_npu_core *c, const void *args) { /* reads the last row of the neighbour */
  uint64_t at = 256 * (uint64_t)get_block_idx();
  copy_gm_to_ubuf(UB(256), GM(2) + at, 1, BAD ? 9 : 8, 0, 0);
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  EDGE(MTE2, MTE3, 1);
  EDGE(V, MTE3, 0);
  copy_ubuf_to_gm(GM(2) + at, UB(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

#define COUPLED RD_NPU_310P, RD_NPU_COUPLED, 1
static const planted cases[] = {
    {"load then add", raw_load, COUPLED, RD_NPU_RACE_RAW, "MTE2_V", 0},
    {"add then store", raw_store, COUPLED, RD_NPU_RACE_RAW, "V_MTE3", 0},
    {"reload while read", war_reload, COUPLED, RD_NPU_RACE_WAR, "V_MTE2", 0},
    {"two loads", waw_loads, COUPLED, RD_NPU_RACE_WAW, "pipe_barrier(MTE2)", 0},
    {"vector chain", vector_chain, COUPLED, RD_NPU_RACE_RAW, "pipe_barrier(V)", 0},
    {"vector chain 950", vector_chain_950, RD_NPU_950, RD_NPU_VECTOR, 1, RD_NPU_RACE_RAW, "V_MTE3",
     0},
    {"vector chain A2", vector_chain_950, RD_NPU_910B, RD_NPU_VECTOR, 1, RD_NPU_RACE_RAW, "V_MTE3",
     0},
    {"round trip", round_trip_orders, COUPLED, RD_NPU_RACE_RAW, "pipe_barrier(V)", 0},
    {"L0C read", l0c_read, COUPLED, RD_NPU_RACE_RAW, "M_V", 0},
    {"L0C overwritten", l0c_overwrite, COUPLED, RD_NPU_RACE_WAR, "V_M", 0},
    {"accumulate small", accumulate, COUPLED, RD_NPU_ACCUMULATE, "pipe_barrier(M)", 32},
    {"accumulate large", accumulate, COUPLED, RD_NPU_ACCUMULATE, "pipe_barrier(M)", 64},
    {"L1 refilled", l1_refill, COUPLED, RD_NPU_RACE_WAR, "MTE1_MTE2", 0},
    {"flag reuse", flag_reuse, COUPLED, RD_NPU_FLAG_REUSE, "V_MTE2", 0},
    {"double set", double_set, COUPLED, RD_NPU_FLAG_REUSE, NULL, 0},
    {"wait never set", deadlock, COUPLED, RD_NPU_DEADLOCK, NULL, 0},
    {"wait before set", deadlock, COUPLED, RD_NPU_DEADLOCK, NULL, 1},
    {"leftover flag", leftover_flag, COUPLED, RD_NPU_LEFTOVER_FLAG, NULL, 0},
    {"leftover op", leftover_op, COUPLED, RD_NPU_LEFTOVER_OP, NULL, 0},
    {"leftover after wait", leftover_but_waited, COUPLED, RD_NPU_LEFTOVER_OP, NULL, 0},
    {"id range", id_range, COUPLED, RD_NPU_ID_RANGE, NULL, 0},
    {"uninitialised load", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 0},
    {"uninitialised lane", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 1},
    {"uninitialised slack", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 2},
    {"uninitialised store", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 3},
    {"uninitialised fractal", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 4},
    {"uninitialised GM", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 5},
    {"uninitialised L0C", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 6},
    {"uninitialised scalar", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 7},
    {"no vbrcb on 310P", missing_vbrcb, COUPLED, RD_NPU_MISSING_INSTRUCTION, NULL, 0},
    {"no vtranspose on 950", missing_on_950, RD_NPU_950, RD_NPU_VECTOR, 1,
     RD_NPU_MISSING_INSTRUCTION, NULL, 0},
    {"no mad on a vector core", missing_on_950, RD_NPU_950, RD_NPU_VECTOR, 1,
     RD_NPU_MISSING_INSTRUCTION, NULL, 1},
    {"no pipe M on a vector core", missing_on_950, RD_NPU_950, RD_NPU_VECTOR, 1,
     RD_NPU_MISSING_INSTRUCTION, NULL, 2},
    {"no bf16 on 310P", missing_bf16, COUPLED, RD_NPU_MISSING_INSTRUCTION, NULL, 0},
    {"MTE2_S", scalar_orders, COUPLED, RD_NPU_RACE_RAW, "MTE2_S", 0},
    {"S_V", scalar_orders, COUPLED, RD_NPU_RACE_RAW, "S_V", 1},
    {"V_S", scalar_orders, COUPLED, RD_NPU_RACE_WAR, "V_S", 2},
    {"S_MTE2", scalar_orders, COUPLED, RD_NPU_RACE_WAW, "S_MTE2", 3},
    {"many records, write", many_records, COUPLED, RD_NPU_RACE_RAW, "S_V", 0},
    {"many records, read", many_records, COUPLED, RD_NPU_RACE_WAR, "V_S", 1},
    {"scalar GM", scalar_gm, COUPLED, RD_NPU_SCALAR_GM, NULL, 0},
    {"cores write", cores_write, RD_NPU_310P, RD_NPU_COUPLED, 3, RD_NPU_RACE_CORES, NULL, 0},
    {"cores read", cores_read, RD_NPU_310P, RD_NPU_COUPLED, 3, RD_NPU_RACE_CORES, NULL, 0},
};

static uint8_t gm0[32768], gm1[32768], gm2[4096];

static rd_npu_report *run(rd_npu_kernel *k, rd_npu_arch arch, rd_npu_core_kind kind,
                          uint32_t blocks, const variant *v, rd_npu_mode mode, uint32_t threads,
                          bool witnesses) {
  for (size_t i = 0; i < sizeof gm0; i += 2) gm0[i] = (uint8_t)(i / 2), gm0[i + 1] = 0x30;
  memset(gm1, 0, sizeof gm1);
  memset(gm2, 0, sizeof gm2);
  rd_npu_tensor gm[3] = {{"in", gm0, sizeof gm0, 2, RD_NPU_IN},
                         {"out", gm1, sizeof gm1, 2, RD_NPU_OUT},
                         {"state", gm2, sizeof gm2, 2, RD_NPU_INOUT}};
  rd_npu_launch l = {sizeof l, arch, kind, 0, blocks, k, v, gm, 3};
  rd_npu_options o = {.size = sizeof o, .mode = mode, .threads = threads, .witnesses = witnesses};
  rd_npu_report *r;
  rd_npu_status s = rd_npu_run(&l, &o, &r);
  assert_int_equal(s, rd_npu_report_count(r) ? RD_NPU_FINDING : RD_NPU_OK);
  return r;
}

static void dump(const char *name, const rd_npu_report *r) {
  char *t = rd_npu_report_text(r);
  print_error("%s:\n%s", name, t);
  free(t);
}

static const rd_npu_finding *find(const rd_npu_report *r, rd_npu_finding_kind kind,
                                  const char *missing) {
  for (size_t i = 0; i < rd_npu_report_count(r); i++) {
    const rd_npu_finding *f = rd_npu_report_get(r, i);
    if (f->kind == kind && (!missing || (f->missing && strcmp(f->missing, missing) == 0))) return f;
  }
  return NULL;
}

static void defects_and_twins(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const planted *p = &cases[i];
    for (int mode = 0; mode < 3; mode += 2) { /* checked, order only */
      variant clean = {false, p->which}, bad = {true, p->which};
      rd_npu_report *r =
          run(p->kernel, p->arch, p->kind, p->block_num, &clean, (rd_npu_mode)mode, 1, false);
      if (rd_npu_report_count(r)) dump(p->name, r);
      assert_int_equal(rd_npu_report_count(r), 0);
      rd_npu_report_free(r);
      r = run(p->kernel, p->arch, p->kind, p->block_num, &bad, (rd_npu_mode)mode, 1, false);
      const rd_npu_finding *f = find(r, p->finding, p->missing);
      if (!f) dump(p->name, r);
      assert_non_null(f);
      assert_non_null(strstr(f->first.site, "test_checker.c:"));
      assert_true(strlen(f->message) > 0);
      rd_npu_report_free(r);
    }
  }
}

static void bounds_cases(void **state) {
  (void)state;
  for (int which = 0; which < 16; which++) {
    if (which == 15) continue; /* judged below: its clean twin is long for the tensor too */
    variant clean = {false, which}, bad = {true, which};
    rd_npu_report *r = run(bounds, COUPLED, &clean, RD_NPU_CHECKED, 1, false);
    if (find(r, RD_NPU_BOUNDS, NULL)) dump("bounds, clean", r);
    assert_null(find(r, RD_NPU_BOUNDS, NULL));
    rd_npu_report_free(r);
    for (int mode = 0; mode < 3; mode++) { /* bounds hold in every mode */
      r = run(bounds, COUPLED, &bad, (rd_npu_mode)mode, 1, false);
      if (!find(r, RD_NPU_BOUNDS, NULL)) print_error("bounds case %d not found\n", which);
      assert_non_null(find(r, RD_NPU_BOUNDS, NULL));
      rd_npu_report_free(r);
    }
  }
  variant bad = {true, 15};
  rd_npu_report *r = run(bounds, COUPLED, &bad, RD_NPU_CHECKED, 1, false);
  assert_non_null(strstr(find(r, RD_NPU_BOUNDS, NULL)->message, "4095"));
  rd_npu_report_free(r);
}

static void traps_and_texts(void **state) {
  (void)state;
  variant bad = {true, 0};
  rd_npu_report *r = run(l0c_read, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
  const rd_npu_finding *f = find(r, RD_NPU_RACE_RAW, "M_V");
  assert_string_equal(f->trap, "vec_l0c_rdwr_cflt");
  assert_string_equal(f->first.buffer, "L0C");
  assert_string_equal(f->first.instruction, "mad");
  assert_int_equal(f->first.begin, 0);
  assert_int_equal(f->first.end, 4096);
  assert_int_equal(f->witness, RD_NPU_WITNESS_DIFFERS);
  char *text = rd_npu_report_text(r), *json = rd_npu_report_json(r);
  assert_non_null(strstr(text, "missing: M_V"));
  assert_non_null(strstr(text, "hardware trap: vec_l0c_rdwr_cflt"));
  assert_non_null(strstr(text, "witness: an allowed order gives out["));
  assert_non_null(strstr(json, "\"missing\": \"M_V\""));
  free(text);
  free(json);
  rd_npu_report_free(r);
  r = run(l0c_overwrite, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
  f = find(r, RD_NPU_RACE_WAR, "V_M");
  assert_string_equal(f->trap, "cube_l0c_rdwr_cflt");
  rd_npu_report_free(r);
  r = run(deadlock, COUPLED, &bad, RD_NPU_CHECKED, 1, false);
  f = find(r, RD_NPU_DEADLOCK, NULL);
  assert_non_null(strstr(f->message, "none issued"));
  assert_non_null(strstr(f->message, "MTE2 at wait_flag for flag MTE3_MTE2 5"));
  assert_non_null(strstr(f->message, "S at pipe_barrier(ALL)"));
  rd_npu_report_free(r);
  bad.which = 1;
  r = run(deadlock, COUPLED, &bad, RD_NPU_VALUES, 1,
          false); /* hangs are found without the checker too */
  assert_non_null(find(r, RD_NPU_DEADLOCK, NULL));
  rd_npu_report_free(r);
}

/* The same report for every number of host threads, and helpers' call sites told apart. */
static void helper_at(rd_npu_core *c, rd_npu_site site, uint64_t ub) {
  rd_npu_vadd(c, RD_VIA(site), RD_NPU_F32, ub + 256, ub, ub, 1, 1, 1, 1, 8, 8, 8);
}
static void two_call_sites(rd_npu_core *c, const void *args) {
  (void)args;
  LOAD(0, 0, 16);
  helper_at(c, RD_SITE, UB(0));
  helper_at(c, RD_SITE, UB(1024));
  pipe_barrier(PIPE_ALL);
}

static void thread_counts(void **state) {
  (void)state;
  variant v = {true, 0};
  rd_npu_kernel *kernels[] = {cores_write, cores_read, two_call_sites, war_reload};
  for (size_t k = 0; k < 4; k++) {
    char *first = NULL;
    for (uint32_t threads = 1; threads <= 7; threads += 2) {
      /* cores that race on GM would race on the host's memory, too: order only */
      rd_npu_report *r = run(kernels[k], RD_NPU_310P, RD_NPU_COUPLED, 8, &v,
                             k == 2 ? RD_NPU_CHECKED : RD_NPU_ORDER, threads, k == 2);
      char *text = rd_npu_report_json(r);
      if (first)
        assert_string_equal(text, first);
      else
        first = strdup(text);
      free(text);
      rd_npu_report_free(r);
    }
    if (k == 2) {
      assert_non_null(strstr(first, "called from test_checker.c"));
      const char *one = strstr(first, "uninitialised read");
      assert_non_null(one);
    }
    free(first);
  }
}

static void bad_launches(void **state) {
  (void)state;
  variant v = {false, 0};
  rd_npu_tensor gm[2] = {{"in", gm0, sizeof gm0, 2, RD_NPU_IN},
                         {"out", gm0 + 32, 64, 2, RD_NPU_OUT}};
  rd_npu_launch good = {sizeof good, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, raw_load, &v, gm, 1};
  rd_npu_report *r;
  struct {
    rd_npu_launch l;
    rd_npu_options o;
  } bad[8];
  for (int i = 0; i < 8; i++)
    bad[i].l = good, bad[i].o = (rd_npu_options){.size = sizeof(rd_npu_options)};
  bad[0].l.size = 1;
  bad[1].l.arch = (rd_npu_arch)9;
  bad[2].l.kind = RD_NPU_VECTOR;
  bad[3].l.block_num = 9;
  bad[4].l.block_num = 0;
  bad[5].l.tensor_count = 2; /* overlapping memory, one written */
  bad[6].o.without = "M-V";
  bad[7].l.kernel = NULL;
  for (int i = 0; i < 8; i++) {
    assert_int_equal(rd_npu_run(&bad[i].l, &bad[i].o, &r), RD_NPU_BAD_INPUT);
    assert_non_null(strstr(rd_npu_report_summary(r), "invalid launch"));
    rd_npu_report_free(r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defects_and_twins), cmocka_unit_test(bounds_cases),
      cmocka_unit_test(traps_and_texts), cmocka_unit_test(thread_counts),
      cmocka_unit_test(bad_launches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
