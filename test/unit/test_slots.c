/* Slot checks against the definition, both forms of the set of written slots (bitmap, sorted list).
 */
#include "unit.h"

#include "core/slots.h"
#include "core/context.h"

static int setup(void **state) { return rd_context_create(NULL, (rd_context **)state) != RD_OK; }
static int teardown(void **state) {
  rd_context_destroy(*state);
  return 0;
}

enum { PAD = -1, MOST = 40 };

static char memory[1]; /* an address; nothing is read there */

static int bad(int64_t slot, int64_t slots) { return slot != PAD && (slot < 0 || slot >= slots); }

/* What operators.md says, in the plainest form. */
static rd_status definition(const int32_t *read, const int32_t *write, int64_t B, int64_t slots) {
  for (int64_t b = 0; b < B; b++)
    if ((read && bad(read[b], slots)) || (write && bad(write[b], slots))) return RD_E_SLOT_RANGE;
  for (int64_t b = 0; write && b < B; b++)
    for (int64_t c = 0; c < B; c++) {
      if (b == c || write[b] == PAD) continue;
      if (write[b] == write[c] || (read && write[b] == read[c])) return RD_E_SLOT_DUPLICATE;
    }
  return RD_OK;
}

static rd_status checked(rd_context *ctx, const int32_t *read, const int32_t *write, int64_t B,
                         int64_t slots) {
  const rdi_states r = {.base = memory, .slots = slots, .index = read};
  const rdi_states w = {.base = memory, .slots = slots, .index = write};
  assert_int_equal(rdi_enter(ctx), RD_OK);
  return rdi_leave(ctx, rdi_check_slots(ctx, "x", read ? &r : NULL, write ? &w : NULL, B, PAD));
}

static void random_slots_agree_with_the_definition(void **state) {
  rd_context *ctx = *state;
  uint64_t seed = 11;
  int seen[3] = {0};
  for (int i = 0; i < 40000; i++) {
    int32_t read[MOST], write[MOST];
    const int64_t B = (int64_t)(next_random(&seed) % MOST);
    /* Small pools use the bitmap, the large ones the list; both must see collisions. */
    const int64_t slots = i % 2 ? 1 + (int64_t)(next_random(&seed) % 300) : INT32_MAX - 7;
    for (int64_t b = 0; b < B; b++) {
      const int32_t spread = (int32_t)(next_random(&seed) % 200);
      write[b] = (int32_t)b * 3 + (spread == 0) * 3;
      read[b] = spread < 150 ? write[b] : (int32_t)(next_random(&seed) % 400);
      if (spread == 3) write[b] = PAD;
      if (spread == 4) read[b] = PAD;
      if (spread == 5 && b % 8 == 0) write[b] = (int32_t)slots;
      if (slots > 1000 && write[b] != PAD && spread != 5) write[b] += 1 << 30;
      if (slots > 1000 && read[b] != PAD) read[b] += 1 << 30;
    }
    const int which = i % 3;
    const int32_t *r = which == 1 ? NULL : read, *w = which == 2 ? NULL : write;
    const rd_status expected = definition(r, w, B, slots), got = checked(ctx, r, w, B, slots);
    if (got != expected)
      fail_msg("seed 11, case %d: expected %s, got %s (%s)", i, rd_status_name(expected),
               rd_status_name(got), rd_last_error(ctx));
    seen[got == RD_OK ? 0 : got == RD_E_SLOT_RANGE ? 1 : 2]++;
  }
  for (int i = 0; i < 3; i++) assert_true(seen[i] > 1000);
}

static void absent_indices_mean_the_sequence(void **state) {
  rd_context *ctx = *state;
  int32_t swap[] = {1, 0}, own[] = {0, 1}, far[] = {5, 1}, pads[] = {PAD, 1};
  const rdi_states all = {.base = memory, .slots = 8}, few = {.base = memory, .slots = 1};
  const struct {
    int32_t *read;
    rd_status expected;
  } cases[] = {{swap, RD_E_SLOT_DUPLICATE}, {own, RD_OK}, {far, RD_OK}, {pads, RD_OK}};
  for (size_t i = 0; i < 4; i++) {
    const rdi_states read = {.base = memory, .slots = 8, .index = cases[i].read};
    assert_int_equal(rdi_enter(ctx), RD_OK);
    const rd_status got = rdi_leave(ctx, rdi_check_slots(ctx, "x", &read, &all, 2, PAD));
    assert_status(ctx, cases[i].expected, got);
  }
  assert_int_equal(rdi_enter(ctx), RD_OK);
  assert_status(ctx, RD_E_SLOT_RANGE, rdi_check_slots(ctx, "x", NULL, &few, 2, PAD));
  assert_status(ctx, RD_OK, rdi_check_slots(ctx, "x", NULL, &few, 1, PAD));
  assert_status(ctx, RD_OK, rdi_check_slots(ctx, "x", NULL, NULL, 2, PAD));
  rdi_leave(ctx, RD_OK);
}

static void snapshots(void **state) {
  rd_context *ctx = *state;
  const int32_t lengths[] = {2, 3};
  const rdi_seqs seqs = {.B = 2, .T = 3, .lengths = lengths};
  const struct {
    int32_t read[2], write[2], tokens[6];
    int pad_is_error;
    rd_status expected;
  } cases[] = {
      {{0, 3}, {PAD, PAD}, {0, 1, 99, 3, 4, 5}, 0, RD_OK}, /* own read slots; unused entry 99 */
      {{0, 3}, {PAD, PAD}, {0, 1, 99, 3, 4, 1}, 0, RD_E_SLOT_DUPLICATE},
      {{0, 3}, {PAD, PAD}, {3, 1, 99, 0, 4, 5}, 0, RD_E_SLOT_DUPLICATE}, /* crossed reads */
      {{0, 3}, {PAD, PAD}, {0, 99, 1, 3, 4, 5}, 0, RD_E_SLOT_RANGE},
      {{0, 3}, {PAD, PAD}, {0, PAD, 1, 3, 4, 5}, 0, RD_OK},
      {{0, 3}, {PAD, PAD}, {0, PAD, 1, 3, 4, 5}, 1, RD_E_SLOT_RANGE},
      {{0, 3}, {6, 7}, {0, 1, 99, 3, 4, 5}, 0, RD_OK},
      {{0, 3}, {6, 1}, {0, 1, 99, 3, 4, 5}, 0, RD_E_SLOT_DUPLICATE},
      {{7, 7}, {PAD, PAD}, {0, 1, 99, 3, 4, 5}, 0, RD_OK}, /* two readers of an unwritten slot */
      {{5, 7}, {PAD, PAD}, {0, 1, 99, 3, 4, 5}, 0, RD_E_SLOT_DUPLICATE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int far = 0; far < 2; far++) { /* far: so many slots that the list is used */
      const int64_t slots = far ? INT32_MAX : 8;
      int32_t tokens[6];
      memcpy(tokens, cases[i].tokens, sizeof tokens);
      for (int t = 0; t < 6; t++)
        if (far && tokens[t] == 99) tokens[t] = INT32_MAX;
      const rdi_states read = {.base = memory, .slots = slots, .index = cases[i].read};
      const rdi_states write = {.base = memory, .slots = slots, .index = cases[i].write};
      const rdi_states shots = {.base = memory, .slots = slots, .index = tokens};
      const int strict = cases[i].pad_is_error;
      assert_int_equal(rdi_enter(ctx), RD_OK);
      const rd_status got =
          rdi_leave(ctx, rdi_check_snapshots(ctx, "x", &seqs, &read, strict ? NULL : &write, &shots,
                                             strict ? RDI_NO_PAD : PAD));
      if (got != cases[i].expected)
        fail_msg("case %zu: expected %s, got %s (%s)", i, rd_status_name(cases[i].expected),
                 rd_status_name(got), rd_last_error(ctx));
    }
}

static void scratch_is_bounded(void **state) {
  rd_context *ctx = *state;
  enum { B = 100000 };
  int32_t *write = malloc(B * sizeof *write);
  for (int32_t b = 0; b < B; b++) write[b] = B - b;
  for (int far = 0; far < 2; far++) {
    const rdi_states w = {.base = memory, .slots = far ? INT32_MAX : B + 1, .index = write};
    assert_status(ctx, RD_OK, rd_context_reserve(ctx, rdi_slot_scratch(B)));
    const size_t before = rd_context_reserved(ctx);
    assert_int_equal(rdi_enter(ctx), RD_OK);
    assert_int_equal(rdi_leave(ctx, rdi_check_slots(ctx, "x", NULL, &w, B, PAD)), RD_OK);
    assert_int_equal(rd_context_reserved(ctx), before);
  }
  free(write);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_slots_agree_with_the_definition),
      cmocka_unit_test(absent_indices_mean_the_sequence),
      cmocka_unit_test(snapshots),
      cmocka_unit_test(scratch_is_bounded),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
