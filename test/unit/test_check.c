/* Checks of tensors, index vectors, aliases and numbers: each refusal has its code and names its
 * parameter; edges that are legal pass. */
#include "unit.h"

#include <math.h>

#include "core/check.h"
#include "core/job.h"
#include "core/context.h"
#include "util/tensor.h"

static int setup(void **state) { return rd_context_create(NULL, (rd_context **)state) != RD_OK; }
static int teardown(void **state) {
  rd_context_destroy(*state);
  return 0;
}

/* One check inside a call of its own. */
#define check(ctx, expected, call)                                                                 \
  do {                                                                                             \
    assert_int_equal(rdi_enter(ctx), RD_OK);                                                       \
    const rd_status got_here_ = rdi_leave(ctx, call);                                              \
    assert_status(ctx, expected, got_here_);                                                       \
    if ((expected) != RD_OK) assert_non_null(strstr(rd_last_error(ctx), "x"));                     \
  } while (0)

#define CHECK(expected, flags)                                                                     \
  check(ctx, expected, rdi_check_tensor(ctx, "x", &t, RDI_DT_F32 | RDI_DT_F16, 3, want, flags))

static void absent_tensors(void **state) {
  rd_context *ctx = *state;
  float data[64] = {0};
  const int64_t want[] = {2, 3, 4};
  const rd_tensor good = rd_tensor_contiguous(data, RD_F32, 3, want);
  rd_tensor t = {0};
  CHECK(RD_E_NULL, 0);
  CHECK(RD_OK, RDI_OPTIONAL);
  check(ctx, RD_E_NULL, rdi_check_tensor(ctx, "x", NULL, RDI_DT_F32, 3, want, 0));
  /* An absent tensor is all zero; any field that is set without the type is a mistake. */
  for (size_t i = 0; i < sizeof t; i += 4) {
    if (i == offsetof(rd_tensor, dtype)) continue;
    memset(&t, 0, sizeof t);
    ((char *)&t)[i] = 1;
    CHECK(RD_E_DTYPE, RDI_OPTIONAL);
    CHECK(RD_E_DTYPE, 0);
    check(ctx, RD_E_DTYPE, rdi_check_absent(ctx, "x", &t, "here"));
  }
  memset(&t, 0, sizeof t);
  check(ctx, RD_OK, rdi_check_absent(ctx, "x", &t, "here"));
  t = good;
  check(ctx, RD_E_PRESENCE, rdi_check_absent(ctx, "x", &t, "here"));
  CHECK(RD_OK, RDI_CONTIGUOUS | RDI_OUTPUT);
}

static void tensors(void **state) {
  rd_context *ctx = *state;
  float data[64] = {0};
  const int64_t want[] = {2, 3, 4}, any[] = {-1, -1, -1};
  const rd_tensor good = rd_tensor_contiguous(data, RD_F32, 3, want);
  rd_tensor t = good;
  t.dtype = RD_BF16;
  CHECK(RD_E_DTYPE, 0);
  assert_string_equal(rd_last_error(ctx), "x: expected f32 or f16, got bf16");
  t = good, t.dtype = (rd_dtype)77;
  CHECK(RD_E_DTYPE, 0);
  t = good, t.dtype = (rd_dtype)-1;
  CHECK(RD_E_DTYPE, 0);
  t = good, t.rank = 2;
  CHECK(RD_E_RANK, 0);
  t = good, t.rank = INT32_MIN;
  CHECK(RD_E_RANK, 0);
  t = good, t.shape[1] = 5;
  CHECK(RD_E_SHAPE, 0);
  assert_string_equal(rd_last_error(ctx), "x: expected shape [2, 3, 4], got [2, 5, 4]");
  t = good, t.shape[0] = -2;
  CHECK(RD_E_SHAPE, 0);
  check(ctx, RD_E_SHAPE, rdi_check_tensor(ctx, "x", &t, RDI_DT_F32, 3, any, 0));
  t = good, t.stride[0] = -12;
  CHECK(RD_E_STRIDE, 0);
  t = good, t.stride[2] = 2;
  CHECK(RD_E_STRIDE, 0);
  t = good, t.stride[0] = 0;
  CHECK(RD_OK, 0); /* broadcast input */
  t = good, t.stride[0] = 0;
  CHECK(RD_E_STRIDE, RDI_OUTPUT);
  t = good, t.stride[1] = 3;
  CHECK(RD_E_STRIDE, RDI_OUTPUT); /* rows overlap by one */
  t = good, t.stride[0] = 13;
  CHECK(RD_OK, RDI_OUTPUT); /* a gap */
  t = good, t.stride[0] = 13;
  CHECK(RD_E_STRIDE, RDI_CONTIGUOUS);
  t = good, t.stride[0] = 4, t.stride[1] = 8;
  CHECK(RD_OK, RDI_OUTPUT); /* transposed, still apart */
  t = good, t.stride[0] = INT64_MAX;
  CHECK(RD_E_OVERFLOW, 0);
  t = good, t.stride[0] = INT64_MAX / 4;
  CHECK(RD_E_OVERFLOW, 0);
  t = good, t.data = NULL;
  CHECK(RD_E_NULL, 0);
  t = good, t.data = (char *)data + 2;
  CHECK(RD_E_STRIDE, 0);
}
#undef CHECK

static void odd_extents(void **state) {
  rd_context *ctx = *state;
  float data[64] = {0};
  const int64_t none[] = {2, 0, 4}, one[] = {1, 1, 1};
  rd_tensor t =
      rd_tensor_contiguous(NULL, RD_F32, 3, none); /* no elements: no address, no strides */
  t.stride[0] = 0;
  check(ctx, RD_OK, rdi_check_tensor(ctx, "x", &t, RDI_DT_F32, 3, none, RDI_OUTPUT));
  t = rd_tensor_contiguous(data, RD_F32, 3, one); /* extents of one: strides do not matter */
  t.stride[0] = t.stride[1] = t.stride[2] = -7;
  check(ctx, RD_OK,
        rdi_check_tensor(ctx, "x", &t, RDI_DT_F32, 3, one, RDI_OUTPUT | RDI_CONTIGUOUS));
  const int64_t huge[] = {INT64_MAX, 3, 4};
  t = rd_tensor_contiguous(data, RD_F32, 3, huge);
  check(ctx, RD_E_OVERFLOW, rdi_check_tensor(ctx, "x", &t, RDI_DT_F32, 3, huge, 0));
  assert_int_equal(rd_tensor_contiguous(data, RD_F32, 0, one).dtype, RD_ABSENT);
  assert_int_equal(rd_tensor_contiguous(data, RD_F32, 5, one).dtype, RD_ABSENT);
}

static void cumulative_lengths(void **state) {
  rd_context *ctx = *state;
  const struct {
    int64_t cu[4], total;
    int strict, exact;
    rd_status expected;
  } cases[] = {
      {{0, 2, 2, 5}, 5, 0, 1, RD_OK},
      {{0, 2, 2, 5}, 6, 0, 0, RD_OK},
      {{0, 2, 2, 5}, 6, 0, 1, RD_E_CU_END},
      {{0, 2, 2, 5}, 4, 0, 0, RD_E_CU_END},
      {{0, 2, 2, 5}, 5, 1, 1, RD_E_CU_ORDER},
      {{0, 2, 1, 5}, 5, 0, 0, RD_E_CU_ORDER},
      {{1, 2, 3, 5}, 5, 0, 0, RD_E_CU_START},
      {{-1, 2, 3, 5}, 5, 0, 0, RD_E_CU_START},
      {{0, INT32_MAX, INT32_MAX, INT32_MAX}, INT32_MAX, 0, 1, RD_OK},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int32_t narrow[4];
    int64_t wide[4];
    for (int j = 0; j < 4; j++) wide[j] = cases[i].cu[j], narrow[j] = (int32_t)wide[j];
    const int64_t shape[] = {4};
    const int flags = (cases[i].strict ? RDI_CU_RISES : 0) | (cases[i].exact ? RDI_CU_ALL : 0);
    const rd_tensor a = rd_tensor_contiguous(narrow, RD_I32, 1, shape);
    const rd_tensor b = rd_tensor_contiguous(wide, RD_I64, 1, shape);
    check(ctx, cases[i].expected, rdi_check_cu(ctx, "x", &a, 3, cases[i].total, flags));
    check(ctx, cases[i].expected, rdi_check_cu(ctx, "x", &b, 3, cases[i].total, flags));
  }
  int64_t over[] = {0, INT64_MAX};
  const rd_tensor t = rd_tensor_contiguous(over, RD_I64, 1, (int64_t[]){2});
  check(ctx, RD_E_CU_END, rdi_check_cu(ctx, "x", &t, 1, 10, 0));
  check(ctx, RD_E_LENGTH, rdi_check_range(ctx, "x", &t, 0, 10, RD_E_LENGTH));
  check(ctx, RD_OK, rdi_check_range(ctx, "x", &t, 0, INT64_MAX, RD_E_LENGTH));
  const rdi_seqs packed = rdi_seqs_of(1, 9, &t, NULL), padded = rdi_seqs_of(2, 9, NULL, NULL);
  assert_int_equal(rdi_seq_length(&packed, 0), INT64_MAX);
  assert_int_equal(rdi_seq_length(&padded, 1), 9);
  assert_int_equal(rdi_seq_start(&padded, 1), 0);
}

static void aliases(void **state) {
  rd_context *ctx = *state;
  float data[32];
  const int64_t shape[] = {8};
  const rd_tensor a = rd_tensor_contiguous(data, RD_F32, 1, shape);
  const rd_tensor next = rd_tensor_contiguous(data + 8, RD_F32, 1, shape);
  const rd_tensor over = rd_tensor_contiguous(data + 7, RD_F32, 1, shape);
  const rd_tensor same = a;
  const rd_tensor empty = rd_tensor_contiguous(data + 2, RD_F32, 1, (int64_t[]){0});
  const rd_tensor absent = {0};
#define PAIR(expected, first, out1, second, out2, equal)                                           \
  do {                                                                                             \
    const rdi_alias_entry e[] = {{.name = "x", .t = first, .is_output = out1},                     \
                                 {.name = "xx", .t = second, .is_output = out2, .same = equal}};   \
    check(ctx, expected, rdi_check_alias(ctx, e, 2));                                              \
  } while (0)
  PAIR(RD_OK, &a, 1, &next, 1, NULL);
  PAIR(RD_E_ALIAS, &a, 1, &over, 0, NULL);
  PAIR(RD_E_ALIAS, &a, 0, &over, 1, NULL);
  PAIR(RD_E_ALIAS, &a, 1, &over, 1, NULL);
  PAIR(RD_OK, &a, 0, &over, 0, NULL); /* inputs may overlap */
  PAIR(RD_E_ALIAS, &a, 0, &same, 1, NULL);
  PAIR(RD_OK, &a, 0, &same, 1, &a);
  PAIR(RD_E_ALIAS, &a, 0, &over, 1, &a); /* allowed only when identical */
  PAIR(RD_OK, &a, 1, &empty, 0, NULL);
  PAIR(RD_OK, &empty, 1, &a, 1, NULL);
  PAIR(RD_OK, &a, 1, &absent, 0, NULL);
#undef PAIR
  for (rd_dtype t = RD_ABSENT; t <= RD_I64; t++) assert_int_equal(rdi_size(t), rd_dtype_size(t));
  rd_tensor other = a;
  other.dtype = RD_I32;
  assert_false(rdi_tensor_same(&a, &other));
  assert_true(rdi_tensor_same(&a, &same));
}

static void numbers(void **state) {
  rd_context *ctx = *state;
  float x;
  check(ctx, RD_OK, rdi_check_scale(ctx, "x", 1, NAN, 128, &x));
  assert_true(x == (float)(1.0 / sqrt(128.0)));
  check(ctx, RD_OK, rdi_check_scale(ctx, "x", 0, -0.5, 128, &x));
  assert_true(x == -0.5f);
  check(ctx, RD_E_SCALE, rdi_check_scale(ctx, "x", 0, NAN, 128, &x));
  check(ctx, RD_E_SCALE, rdi_check_scale(ctx, "x", 0, INFINITY, 128, &x));
  check(ctx, RD_E_SCALE, rdi_check_scale(ctx, "x", 0, 1e39, 128, &x)); /* finite in double only */
  check(ctx, RD_OK, rdi_check_lower_bound(ctx, "x", -5.0, &x));
  check(ctx, RD_OK, rdi_check_lower_bound(ctx, "x", 0.0, &x));
  check(ctx, RD_E_LOWER_BOUND, rdi_check_lower_bound(ctx, "x", -5.0000001, &x));
  check(ctx, RD_E_LOWER_BOUND, rdi_check_lower_bound(ctx, "x", 1e-9, &x));
  check(ctx, RD_E_LOWER_BOUND, rdi_check_lower_bound(ctx, "x", NAN, &x));
  check(ctx, RD_OK, rdi_check_heads(ctx, "x", 2, "x2", 6));
  check(ctx, RD_E_HEADS, rdi_check_heads(ctx, "x", 0, "x2", 6));
  check(ctx, RD_E_HEADS, rdi_check_heads(ctx, "x", 4, "x2", 6));
  check(ctx, RD_E_HEADS, rdi_check_heads(ctx, "x", 4, "x2", 2));
  check(ctx, RD_E_HEADS, rdi_check_heads(ctx, "x", 4, "x2", -4));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(absent_tensors), cmocka_unit_test(tensors),
      cmocka_unit_test(odd_extents),    cmocka_unit_test(cumulative_lengths),
      cmocka_unit_test(aliases),        cmocka_unit_test(numbers),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
