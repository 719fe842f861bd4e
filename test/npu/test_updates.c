/* Instructions that read and write the same bytes, after an older read of those bytes on the same
 * pipe: nothing but the older read conflicts with what they write, so nothing else can report it. */
#include "planted.h"

enum { MULS, ONE_LANE, SRC0, SRC1, MLA, MADD, AXPY, HALF, REPEATS, DIVIDE, EXP };

/* y = f(x), then x = g(x): the older read is of x alone, x is written by the load and by g only. */
static void update(rd_npu_core *c, const void *args) {
  uint64_t x = UB(0), y = UB(512), z = UB(1024);
  LOAD(0, 0, 8);
  LOAD(1024, 256, 8);
  EDGE(MTE2, V, 0);
  vmuls(F32, y, x, 3.0f, 1, 1, 1, 8, 8);
  if (!BAD) pipe_barrier(PIPE_V);
  switch (WHICH) {
  case MULS:
    vmuls(F32, x, x, 0.0f, 1, 1, 1, 8, 8);
    break;
  case ONE_LANE:
    set_vector_mask(0, 1ull << 40); /* one lane */
    vmuls(F32, x, x, 0.0f, 1, 1, 1, 8, 8);
    break;
  case SRC0:
    vadd(F32, x, x, z, 1, 1, 1, 1, 8, 8, 8);
    break;
  case SRC1:
    vadd(F32, x, z, x, 1, 1, 1, 1, 8, 8, 8);
    break;
  case MLA:
    vmla(F32, x, z, z, 1, 1, 1, 1, 8, 8, 8);
    break;
  case MADD:
    vmadd(F32, x, z, z, 1, 1, 1, 1, 8, 8, 8);
    break;
  case AXPY:
    vaxpy(F32, x, z, 2.0f, 1, 1, 1, 8, 8);
    break;
  case HALF:
    vmaxs(F16, x, x, 0.0f, 1, 1, 1, 8, 8);
    break;
  case REPEATS:
    vadd(F32, x, z, x, 2, 1, 1, 1, 0, 0, 0);
    break; /* accumulates over repeats */
  case DIVIDE:
    vdiv(F32, x, z, x, 1, 1, 1, 1, 8, 8, 8);
    break;
  default:
    vexp(F16, x, x, 1, 1, 1, 8, 8);
    break;
  }
  pipe_barrier(PIPE_V);
  vadd(F32, y, y, x, 1, 1, 1, 1, 8, 8, 8);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}

/* The matrix unit updates L0C; the older read of L0C is an accumulation itself, and thus a write. */
static void accumulate(rd_npu_core *c, const void *args) {
  FILL_L0();
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 16, 16, 16, true);
  pipe_barrier(PIPE_M);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 16, 16, 16, false);
  if (!BAD) pipe_barrier(PIPE_M);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 16, 16, 16, false);
  EDGE(M, V, 0);
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, 1, 0, 0);
  EDGE(V, MTE3, 0);
  STORE(0, 0, 32);
  pipe_barrier(PIPE_ALL);
}

/* Every older read, not the newest alone. */
static void two_readers(rd_npu_core *c, const void *args) {
  LOAD(0, 0, 8);
  EDGE(MTE2, V, 0);
  vmuls(F32, UB(512), UB(0), 3.0f, 1, 1, 1, 8, 8);
  vmuls(F32, UB(1024), UB(0), 4.0f, 1, 1, 1, 8, 8);
  if (!BAD) pipe_barrier(PIPE_V);
  vmuls(F32, UB(0), UB(0), 0.0f, 1, 1, 1, 8, 8);
  pipe_barrier(PIPE_V);
  vadd(F32, UB(512), UB(512), UB(1024), 1, 1, 1, 1, 8, 8, 8);
  EDGE(V, MTE3, 0);
  STORE(0, 512, 8);
  pipe_barrier(PIPE_ALL);
}

/* The other pipes have no instruction that reads and writes one buffer: two of their reads. */
static void two_loads_of_l1(rd_npu_core *c, const void *args) {
  FILL_L0();
  load_cbuf_to_ca(L0A(16384), L1(0), 0, 16, 1, 0, false);
  if (!BAD) EDGE(MTE1, MTE2, 0);
  copy_gm_to_cbuf(L1(0), GM(0), 1, 512, 0, 0);
  pipe_barrier(PIPE_ALL);
}

#define UPDATE(name, which)                                                                        \
  { name, update, COUPLED, RD_NPU_RACE_WAR, "pipe_barrier(V)", which }
static const planted cases[] = {
    UPDATE("x *= s", MULS),
    UPDATE("one lane", ONE_LANE),
    UPDATE("x += z", SRC0),
    UPDATE("x = z + x", SRC1),
    UPDATE("vmla", MLA),
    UPDATE("vmadd", MADD),
    UPDATE("vaxpy", AXPY),
    UPDATE("half of it, f16", HALF),
    UPDATE("sum over repeats", REPEATS),
    UPDATE("x = z / x", DIVIDE),
    UPDATE("x = exp x, f16", EXP),
    {"accumulate twice", accumulate, COUPLED, RD_NPU_ACCUMULATE, "pipe_barrier(M)", 0},
    {"two readers", two_readers, COUPLED, RD_NPU_RACE_WAR, "pipe_barrier(V)", 0},
    {"L1 read twice", two_loads_of_l1, COUPLED, RD_NPU_RACE_WAR, "MTE1_MTE2", 0},
};

static void defects_and_twins(void **state) {
  (void)state;
  judge_planted(cases, sizeof cases / sizeof cases[0], "test_updates.c:");
}

/* Where the vector unit has an order of its own, nothing is missing. */
static void in_order(void **state) {
  (void)state;
  for (rd_npu_arch arch = RD_NPU_910B; arch <= RD_NPU_950; arch++)
    for (int which = 0; which <= EXP; which++) {
      variant bad = {true, which};
      rd_npu_report *r = run(update, arch, RD_NPU_VECTOR, 1, &bad, RD_NPU_ORDER, 1, false);
      for (size_t i = 0; i < rd_npu_report_count(r); i++) /* two programs store to one place */
        assert_int_equal(rd_npu_report_get(r, i)->kind, RD_NPU_RACE_CORES);
      rd_npu_report_free(r);
    }
}

/* The report is right: an allowed order changes the result. */
static void witnessed(void **state) {
  (void)state;
  variant bad = {true, MULS};
  rd_npu_report *r = run(update, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
  assert_int_equal(rd_npu_report_count(r), 1);
  const rd_npu_finding *f = rd_npu_report_get(r, 0);
  assert_int_equal(f->witness, RD_NPU_WITNESS_DIFFERS);
  rd_npu_report_free(r);
  r = run(two_readers, COUPLED, &bad, RD_NPU_CHECKED, 1, true);
  assert_int_equal(rd_npu_report_count(r), 2);
  rd_npu_report_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(defects_and_twins),
                                     cmocka_unit_test(in_order), cmocka_unit_test(witnessed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
