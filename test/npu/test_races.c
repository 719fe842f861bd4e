/* Races within a core: every pair of pipes that share a buffer, what orders them, and the report. */
#include "planted.h"

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

static void l0c_read(rd_npu_core *c, const void *args) {
  FILL_L0();
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 16, 64, true);
  if (!BAD) EDGE(M, V, 0);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, 4, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 0, 128);
  pipe_barrier(PIPE_ALL);
}
static void l0c_overwrite(rd_npu_core *c, const void *args) {
  FILL_L0();
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
  FILL_L0();
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
  FILL_L0();
  if (!BAD) EDGE(MTE1, MTE2, 0);
  copy_gm_to_cbuf(L1(0), GM(0) + 1024, 1, 32, 0, 0);
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
  LOAD(256, 0, 1);
  if (!BAD || WHICH != 3) EDGE(S, MTE2, 0);
  copy_gm_to_ubuf(UB(64), GM(0), 1, 1, 0, 0);
  pipe_barrier(PIPE_ALL);
}
/* An access by S that came back to S by way of V is before what S issues then (0: its read, 1: its
 * store); not before what S issues while it has not waited. */
static void scalar_round_trip(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 1);
  EDGE(MTE2, S, 0);
  rd_npu_scalar x = load_ub(F32, UB(0));
  if (WHICH == 1) store_ub(F32, UB(0), rd_npu_f32(1.0f));
  EDGE(S, V, 0);
  set_flag(PIPE_V, PIPE_S, 0);
  if (!BAD) wait_flag(PIPE_V, PIPE_S, 0);
  if (WHICH == 0) LOAD(0, 256, 1);
  if (WHICH == 1) STORE(0, 0, 1);
  if (BAD) wait_flag(PIPE_V, PIPE_S, 0);
  pipe_barrier(PIPE_ALL);
  (void)x;
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

/* FIX drains L0C to GM: against M on L0C, against MTE2 and itself on GM.  WHICH: the edge left out. */
enum { NO_M_FIX, NO_FIX_M, NO_FIX_MTE2, NO_MTE2_FIX, NO_FIX_FIX };
static void fix_orders(rd_npu_core *c, const void *args) {
  FILL_L0();
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 16, 16, 16, true);
  if (!BAD || WHICH != NO_M_FIX) EDGE(M, FIX, 0);
  copy_matrix_cc_to_gm(F32, GM(2), L0C(0), 16, 16, 16, 16);
  if (WHICH != NO_FIX_FIX) { /* a round trip by M would order FIX with itself */
    if (!BAD || WHICH != NO_FIX_M) EDGE(FIX, M, 0);
    mad(F32, F16, L0C(0), L0A(0), L0B(0), 16, 16, 16, true);
    EDGE(M, FIX, 1);
  }
  if (WHICH == NO_FIX_MTE2 || WHICH == NO_MTE2_FIX) {
    if (!BAD || WHICH != NO_FIX_MTE2) EDGE(FIX, MTE2, 0);
    copy_gm_to_cbuf(L1(65536), GM(2), 1, 32, 0, 0);
    if (!BAD || WHICH != NO_MTE2_FIX) EDGE(MTE2, FIX, 0);
  }
  if (!BAD || WHICH != NO_FIX_FIX) pipe_barrier(PIPE_FIX);
  copy_matrix_cc_to_gm(F32, GM(2), L0C(0), 16, 16, 16, 16);
  pipe_barrier(PIPE_ALL);
}

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
    {"MTE2_S", scalar_orders, COUPLED, RD_NPU_RACE_RAW, "MTE2_S", 0},
    {"S_V", scalar_orders, COUPLED, RD_NPU_RACE_RAW, "S_V", 1},
    {"V_S", scalar_orders, COUPLED, RD_NPU_RACE_WAR, "V_S", 2},
    {"S_MTE2", scalar_orders, COUPLED, RD_NPU_RACE_WAW, "S_MTE2", 3},
    {"S read, round trip", scalar_round_trip, COUPLED, RD_NPU_RACE_WAR, "S_MTE2", 0},
    {"S store, round trip", scalar_round_trip, COUPLED, RD_NPU_RACE_RAW, "S_MTE3", 1},
    {"many records, write", many_records, COUPLED, RD_NPU_RACE_RAW, "S_V", 0},
    {"many records, read", many_records, COUPLED, RD_NPU_RACE_WAR, "V_S", 1},
    {"M_FIX 910B", fix_orders, RD_NPU_910B, RD_NPU_CUBE, 1, RD_NPU_RACE_RAW, "M_FIX", NO_M_FIX},
    {"FIX_M 910B", fix_orders, RD_NPU_910B, RD_NPU_CUBE, 1, RD_NPU_RACE_WAR, "FIX_M", NO_FIX_M},
    {"FIX_MTE2 910B", fix_orders, RD_NPU_910B, RD_NPU_CUBE, 1, RD_NPU_RACE_RAW, "FIX_MTE2",
     NO_FIX_MTE2},
    {"MTE2_FIX 910B", fix_orders, RD_NPU_910B, RD_NPU_CUBE, 1, RD_NPU_RACE_WAR, "MTE2_FIX",
     NO_MTE2_FIX},
    {"pipe_barrier(FIX) 910B", fix_orders, RD_NPU_910B, RD_NPU_CUBE, 1, RD_NPU_RACE_WAW,
     "pipe_barrier(FIX)", NO_FIX_FIX},
    {"M_FIX 950", fix_orders, RD_NPU_950, RD_NPU_CUBE, 1, RD_NPU_RACE_RAW, "M_FIX", NO_M_FIX},
    {"FIX_M 950", fix_orders, RD_NPU_950, RD_NPU_CUBE, 1, RD_NPU_RACE_WAR, "FIX_M", NO_FIX_M},
    {"FIX_MTE2 950", fix_orders, RD_NPU_950, RD_NPU_CUBE, 1, RD_NPU_RACE_RAW, "FIX_MTE2",
     NO_FIX_MTE2},
    {"MTE2_FIX 950", fix_orders, RD_NPU_950, RD_NPU_CUBE, 1, RD_NPU_RACE_WAR, "MTE2_FIX",
     NO_MTE2_FIX},
    {"pipe_barrier(FIX) 950", fix_orders, RD_NPU_950, RD_NPU_CUBE, 1, RD_NPU_RACE_WAW,
     "pipe_barrier(FIX)", NO_FIX_FIX},
};

static void defects_and_twins(void **state) {
  (void)state;
  judge_planted(cases, sizeof cases / sizeof cases[0], "test_races.c:");
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
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(defects_and_twins),
                                     cmocka_unit_test(traps_and_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
