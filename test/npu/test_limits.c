/* What a single instruction may not do: leave its buffer, break a limit, read bytes that nothing wrote,
 * exist on another architecture only. */
#include "planted.h"

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
    copy_gm_to_ubuf(UB(4096), GM(0), 1, 1024 + bad, 0, 0);
    break; /* one block past the tensor */
  case 4:
    copy_ubuf_to_gm(GM(1) + 32768 - 32, UB(0), 1, 1 + bad, 0, 0);
    break; /* ... and of a store */
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
  case 16:
    vector_dup(F32, UB(4096), 0.0f, 1, 1, 255 + bad);
    break; /* repeat stride of a destination */
  case 17:
    set_vector_mask(0, 1);
    vector_dup(F32, UB(4096), 0.0f, 1, 255 + bad, 8);
    break; /* block stride */
  case 18:
    vadd(F32, UB(512), UB(0), UB(256), 1, 1, 1, 1, 8, 255 + bad, 8);
    break; /* repeat stride of a source */
  case 19:
    vcadd(F32, UB(4096), UB(0), 1, 255 + bad, 1, 8);
    break; /* reductions */
  case 20:
    set_vector_mask(bad, ~0ull);
    ADD(512, 0, 256);
    break; /* lanes that 32-bit types do not have */
  case 21:
    set_vector_mask(bad, 1);
    vconv_f322f16(UB(512), UB(0), 1, 1, 1, 4, 8);
    break; /* ... nor conversions from them */
  case 22:
    copy_gm_to_ubuf(UB(4096), GM(0) + 32768 - 32, 1, 1 - bad, 0, 0);
    break; /* an empty burst */
  default:
    break;
  }
  pipe_barrier(PIPE_ALL);
}

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
  case 2: /* what was never loaded travels through moves and is caught where it is used */
    LOAD(0, 0, BAD ? 7 : 8);
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
    FILL_L0();
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

/* A tensor that ends within a block, read and written: what follows its last byte is nothing. */
static void last_block(rd_npu_core *c, const void *args) {
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  EDGE(V, MTE2, 0);
  copy_gm_to_ubuf(UB(0), GM(0), 1, BAD ? 4 : 3, 0, 0);
  EDGE(MTE2, V, 0);
  ADD(256, 0, 0);
  pipe_barrier(PIPE_ALL);
}
static void odd_tensors(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    static uint8_t odd[128];
    variant v = {bad != 0, 0};
    rd_npu_tensor gm = {"odd", odd, 100, 2, RD_NPU_INOUT};
    rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, last_block, &v, &gm, 1};
    rd_npu_options o = {.size = sizeof o, .mode = RD_NPU_CHECKED, .gm_slack = 32};
    rd_npu_report *r;
    assert_int_equal(rd_npu_run(&l, &o, &r), bad ? RD_NPU_FINDING : RD_NPU_OK);
    assert_int_equal(find(r, RD_NPU_UNINITIALISED, NULL) != NULL, bad);
    rd_npu_report_free(r);
  }
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

static void barrier_on_s(rd_npu_core *c, const void *args) {
  if (BAD) pipe_barrier(PIPE_S);
  pipe_barrier(PIPE_ALL);
}

/* What leaves nothing to do is a no-op on 910B and an error elsewhere. */
static void nothing_to_do(rd_npu_core *c, const void *args) {
  set_vector_mask(0, ~0ull);
  vector_dup(F32, UB(0), 1.0f, 2, 1, 8);
  if (WHICH == 0) set_vector_mask(~0ull, ~0ull), copy_gm_to_ubuf(UB(0), GM(0), 3, 0, 0, 0);
  if (WHICH) set_vector_mask(0, 0);
  if (WHICH == 1) ADD(256, 4096, 4096);
  if (WHICH == 2) vcadd(F32, UB(256), UB(4096), 1, 1, 1, 8);
  EDGE(V, MTE3, 0);
  EDGE(MTE2, MTE3, 0);
  STORE(0, 0, 16);
  pipe_barrier(PIPE_ALL);
}

static void empty_instructions(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++)
    for (int arch = 0; arch < 3; arch++) {
      variant v = {false, which};
      rd_npu_report *r = run(nothing_to_do, (rd_npu_arch)arch,
                             arch ? RD_NPU_VECTOR : RD_NPU_COUPLED, 1, &v, RD_NPU_ORDER, 1, false);
      bool refused = find(r, RD_NPU_BOUNDS, NULL);
      assert_int_equal(refused, arch != RD_NPU_910B);
      assert_null(find(r, RD_NPU_UNINITIALISED, NULL));
      rd_npu_report_free(r);
      if (refused) continue;
      r = run(nothing_to_do, (rd_npu_arch)arch, RD_NPU_VECTOR, 1, &v, RD_NPU_VALUES, 1, false);
      float x[128];
      memcpy(x, gm1, sizeof x);
      for (int i = 0; i < 128; i++) assert_true(x[i] == 1.0f);
      rd_npu_report_free(r);
    }
}

static void leaves_a_mask(rd_npu_core *c, const void *args) {
  set_vector_mask(0, 1);
  vector_dup(F32, UB(0), 1.0f, 1, 1, 8);
  if (!BAD) set_vector_mask(~0ull, ~0ull);
  pipe_barrier(PIPE_ALL);
}

/* The register outlives the kernel: a note, which leaves the status alone. */
static void mask_at_the_end(void **state) {
  (void)state;
  for (int bad = 0; bad < 2; bad++) {
    variant v = {bad, 0};
    rd_npu_report *r = run(leaves_a_mask, COUPLED, &v, RD_NPU_CHECKED, 1, false);
    assert_int_equal(rd_npu_report_count(r), 0);
    const rd_npu_finding *f = find_note(r, RD_NPU_MASK_LEFT, NULL);
    assert_int_equal(f != NULL, bad);
    if (f) assert_non_null(strstr(f->message, "set at test_limits.c:"));
    rd_npu_report_free(r);
  }
}

/* Reads the 32 bytes behind the tensor that `slack` allows, and as many more as `which` says. */
static void past_the_end(rd_npu_core *c, const void *args) {
  copy_gm_to_ubuf(UB(0), GM(0) + 32768, 1, 1 + (uint32_t)WHICH, 0, 0);
  EDGE(MTE2, V, 0);
  set_vector_mask(0, 1);
  if (BAD) ADD(64, 0, 0); /* nobody knows those bytes */
  pipe_barrier(PIPE_ALL);
}

static void slack_is_an_option(void **state) {
  (void)state;
  static const struct {
    uint32_t slack;
    int more;
    bool refused;
  } cases[] = {{0, 0, true}, {31, 0, true}, {32, 0, false}, {32, 1, true}, {4096, 127, false}};
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    variant v = {false, cases[n].more};
    rd_npu_tensor gm = {"in", gm0, sizeof gm0, 2, RD_NPU_IN};
    rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, past_the_end, &v, &gm, 1};
    rd_npu_options o = {.size = sizeof o, .gm_slack = cases[n].slack};
    rd_npu_report *r;
    rd_npu_status s = rd_npu_run(&l, &o, &r);
    assert_int_equal(s, cases[n].refused ? RD_NPU_FINDING : RD_NPU_OK);
    if (cases[n].refused) assert_non_null(find(r, RD_NPU_BOUNDS, NULL));
    rd_npu_report_free(r);
    v.bad = true;
    assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_FINDING);
    assert_non_null(find(r, cases[n].refused ? RD_NPU_BOUNDS : RD_NPU_UNINITIALISED, NULL));
    rd_npu_report_free(r);
    o.gm_slack = 4097;
    assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_BAD_INPUT);
    rd_npu_report_free(r);
  }
}

static const planted cases[] = {
    {"no barrier on S", barrier_on_s, COUPLED, RD_NPU_MISSING_INSTRUCTION, NULL, 0},
    {"uninitialised load", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 0},
    {"uninitialised lane", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 1},
    {"uninitialised move", uninitialised, COUPLED, RD_NPU_UNINITIALISED, NULL, 2},
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
};

static void defects_and_twins(void **state) {
  (void)state;
  judge_planted(cases, sizeof cases / sizeof cases[0], "test_limits.c:");
}

/* Bounds cases whose clean twin cannot avoid another finding are judged by the bounds finding only.
 */
static void bounds_cases(void **state) {
  (void)state;
  for (int which = 0; which < 23; which++) {
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defects_and_twins),  cmocka_unit_test(bounds_cases),
      cmocka_unit_test(slack_is_an_option), cmocka_unit_test(empty_instructions),
      cmocka_unit_test(mask_at_the_end),    cmocka_unit_test(odd_tensors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
