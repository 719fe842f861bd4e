/* The cut: every item in exactly one slice, slices of about equal weight, heads cut only when few.
 */
#include "unit.h"

#include "core/cut.h"

static void shapes(void **state) {
  (void)state;
  rdi_cut cut;
  const int64_t much = INT64_MAX;
  assert_true(
      rdi_cut_make(&cut, 1, 1, 0, much, 3, 4, 128)); /* one thread: one slice, whole heads */
  assert_int_equal(cut.slices, 1);
  assert_int_equal(cut.row_block, 128);
  assert_true(rdi_cut_make(&cut, 2, 2, 0, much, 1, 4, 128)); /* enough heads */
  assert_int_equal(cut.row_block, 128);
  assert_int_equal(cut.items, 4);
  assert_true(rdi_cut_make(&cut, 4, 4, 0, much, 1, 4, 128)); /* 4 heads, 4 threads: halves */
  assert_int_equal(cut.row_block, 64);
  assert_int_equal(cut.items, 8);
  assert_true(rdi_cut_make(&cut, 4, 4, 1, much, 1, 4, 128)); /* one each, when they are even */
  assert_int_equal(cut.row_block, 128);
  assert_true(rdi_cut_make(&cut, 2, 2, 1, much, 1, 1, 128));
  assert_int_equal(cut.row_block, 64);
  assert_true(rdi_cut_make(&cut, 4, 4, 1, much, 1, 6, 128));
  assert_int_equal(cut.row_block, 64);
  assert_true(rdi_cut_make(&cut, 16, 16, 0, much, 1, 1, 512));
  assert_int_equal(cut.row_block, 32);
  assert_int_equal(cut.items, 16);
  assert_true(rdi_cut_make(&cut, 4, 4, 0, much, 1, 1, 20)); /* nothing to cut */
  assert_int_equal(cut.row_block, 20);
  assert_true(
      rdi_cut_make(&cut, 4, 4, 0, 128 * 128, 1, 1, 128)); /* too little to wake a thread for */
  assert_int_equal(cut.slices, 1);
  assert_int_equal(cut.row_block, 128);
  assert_true(rdi_cut_make(&cut, 2, 48, 0, much, 1, 6, 128)); /* block_num 24 on two threads */
  assert_int_equal(cut.row_block, 32);
  assert_true(cut.slices <= 8);
  assert_true(rdi_cut_make(&cut, 4, 4, 0, much, 0, 6, 128));
  assert_int_equal(cut.items, 0);
  assert_false(rdi_cut_make(&cut, 4, 4, 0, much, INT64_MAX / 2, 6, 128));
}

static void slices_cover_all_items(void **state) {
  (void)state;
  uint64_t seed = 77;
  for (int i = 0; i < 3000; i++) {
    enum { MOST_B = 50 };
    int32_t lengths[MOST_B];
    const int64_t B = 1 + (int64_t)(next_random(&seed) % MOST_B);
    for (int64_t b = 0; b < B; b++)
      lengths[b] = (int32_t)(next_random(&seed) % (next_random(&seed) % 4 ? 3 : 2000));
    int32_t accepted[MOST_B];
    for (int64_t b = 0; b < B; b++) accepted[b] = (int32_t)(next_random(&seed) % 2000);
    const int replays = i % 2;
    rdi_job job = {.verb = replays ? RDI_COMMIT_VERIFY : RDI_PREFILL,
                   .accepted = replays ? accepted : NULL,
                   .m = {.Hv = 1 + (int64_t)(next_random(&seed) % 9), .V = 128}};
    job.seq = (rdi_seqs){.B = B, .T = 2000, .lengths = lengths};
    rdi_cut cut;
    int64_t start[4 * 16 + 1];
    const int64_t threads = 2 + (int64_t)(next_random(&seed) % 15);
    assert_true(rdi_cut_make(&cut, threads, threads, 0, INT64_MAX, B, job.m.Hv, job.m.V));
    assert_in_range(cut.slices, 1, 4 * threads);
    rdi_cut_slices(&cut, &job, start);
    assert_int_equal(start[0], 0);
    assert_int_equal(start[cut.slices], cut.items);
    double total = 0, heaviest = 0;
    for (int64_t s = 0; s < cut.slices; s++) {
      double weight = 0;
      assert_true(start[s] <= start[s + 1]);
      for (int64_t j = start[s]; j < start[s + 1]; j++)
        weight += lengths[j / (job.m.Hv * cut.blocks)] + 1 +
                  (replays ? accepted[j / (job.m.Hv * cut.blocks)] : 0);
      total += weight;
      if (weight > heaviest) heaviest = weight;
    }
    /* No slice exceeds its share by more than about one item of the longest sequence. */
    assert_true(heaviest <= total / (double)cut.slices + (replays ? 4001.0 : 2001.0));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),
      cmocka_unit_test(slices_cover_all_items),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
