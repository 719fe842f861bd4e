/* The walk of a draft tree: a machine that keeps only which node each block stands for walks it, and
 * finds each node's parent where it looks for it. A walk with a planted defect does not pass. */
#include "unit.h"

#include "core/walk.h"

enum { MOST = 300 };

static int32_t parents[MOST];
static _Alignas(64) char memory[64 * 1024];

static rdi_walk walk_of(int64_t n, int64_t first, int64_t base, int64_t longest) {
  rdi_walk w;
  assert_true(rdi_walk_layout(&w, NULL, n) <= sizeof memory);
  memset(memory, 0x5a, sizeof memory);
  (void)rdi_walk_layout(&w, memory, n);
  rdi_walk_make(&w, parents, n, first, base, longest);
  return w;
}

/* What is wrong with the walk; NULL: nothing. */
static const char *fault(const rdi_walk *w, int64_t n, int64_t first, int64_t base,
                         int64_t longest) {
  int64_t kept[32], at = 0, belong = 0;
  int seen[MOST] = {0}, within[MOST] = {0};
  for (int i = 0; i < 32; i++) kept[i] = -2;
  for (int64_t i = first; i < n; i++) {
    within[i] = parents[i] == base || (parents[i] >= first && within[parents[i]]);
    belong += within[i];
  }
  for (const rdi_segment *s = w->segments; s < w->segments + w->count; s++) {
    if (s->first != at || s->n < 1 || s->n > longest) return "segments do not follow each other";
    if (s->from >= rdi_walk_levels(n) || s->to >= rdi_walk_levels(n)) return "a block too many";
    int64_t state = s->from < 0 ? base : kept[s->from], last = state;
    for (int64_t i = at; i < at + s->n; i++) {
      const int32_t node = w->order[i];
      if (node < first || node >= n || !within[node]) return "a node that does not belong";
      if (seen[node]++) return "a node twice";
      if (parents[node] != last) return "a node from another state than its parent's";
      last = node;
    }
    at += s->n;
    if (s->to >= 0) kept[s->to] = last;
  }
  return at == belong && w->nodes == belong ? NULL : "a node is missing";
}

static void draw(uint64_t *seed, int64_t n) {
  const uint64_t how = next_random(seed) % 5;
  for (int64_t i = 0; i < n; i++) {
    const int64_t any = (int64_t)(next_random(seed) % (uint64_t)(i + 1)) - 1;
    parents[i] = (int32_t)(how == 0                            ? i - 1
                           : how == 1                          ? (i - 1) / 2 - (i == 0)
                           : how == 2 && next_random(seed) % 4 ? i - 1
                                                               : any);
  }
}

static void every_node_from_its_parent(void **state) {
  (void)state;
  uint64_t seed = 4711;
  for (int round = 0; round < 4000; round++) {
    const int64_t n = 1 + (int64_t)(next_random(&seed) % (round % 50 ? 40 : MOST));
    draw(&seed, n);
    rdi_walk w = walk_of(n, 0, -1, 16);
    const char *bad = fault(&w, n, 0, -1, 16);
    if (bad) fail_msg("round %d, %d nodes: %s", round, (int)n, bad);
    const int64_t first = (int64_t)(next_random(&seed) % (uint64_t)(n + 1));
    for (int64_t base = -1; base < first; base++) {
      w = walk_of(n, first, base, 3);
      bad = fault(&w, n, first, base, 3);
      if (bad) fail_msg("round %d, %d nodes from %d on: %s", round, (int)n, (int)first, bad);
    }
  }
}

static void planted_defects_show(void **state) {
  (void)state;
  uint64_t seed = 99;
  int planted[4] = {0};
  for (int round = 0; round < 3000; round++) {
    const int64_t n = 3 + (int64_t)(next_random(&seed) % 30);
    draw(&seed, n);
    for (int defect = 0; defect < 4; defect++) {
      rdi_walk w = walk_of(n, 0, -1, 16);
      int done = 0;
      for (int64_t i = 0; i < w.count && !done; i++) {
        rdi_segment *s = &w.segments[i];
        if (defect == 0 && s->n > 1) { /* a child before its parent */
          const int32_t node = w.order[s->first];
          w.order[s->first] = w.order[s->first + 1];
          w.order[s->first + 1] = node;
          done = 1;
        }
        if (defect == 1 && s->to == s->from + 1 && s->from >= 0) { /* a kept block used too early */
          s->to = s->from;
          done = 1;
        }
        if (defect == 2 && s->from >= 0 && i + 1 == w.count) { /* a wrong parent's state */
          s->from = -1;
          done = 1;
        }
        if (defect == 3 && s->to >= 0 && s->to > s->from) { /* a state not kept */
          s->to = -1;
          done = 1;
        }
      }
      planted[defect] += done;
      if (done) assert_non_null(fault(&w, n, 0, -1, 16));
    }
  }
  for (int i = 0; i < 4; i++) assert_true(planted[i] > 100);
}

static void few_blocks(void **state) {
  (void)state;
  assert_int_equal(rdi_walk_levels(0), 0);
  assert_int_equal(rdi_walk_levels(1), 1);
  assert_int_equal(rdi_walk_levels(64), 7);
  for (int64_t i = 0; i < MOST; i++) parents[i] = (int32_t)i - 1;
  rdi_walk w = walk_of(MOST, 0, -1, 16); /* a chain: one block, in order */
  assert_int_equal(w.count, (MOST + 15) / 16);
  for (int64_t i = 0; i < w.count; i++) assert_true(w.segments[i].to <= 0);
  for (int64_t i = 0; i < MOST; i++) assert_int_equal(w.order[i], i);
}

static void chains_and_paths(void **state) {
  (void)state;
  const int32_t tree[] = {-1, 0, 1, 0, 3, 2, -1};
  int32_t path[4];
  assert_int_equal(rdi_chain_length(tree, 7), 3);
  assert_int_equal(rdi_chain_length(tree, 2), 2);
  assert_int_equal(rdi_chain_length(tree + 1, 3), 0);
  assert_int_equal(rdi_path_length(tree, -1), 0);
  assert_int_equal(rdi_path_length(tree, 6), 1);
  assert_int_equal(rdi_path_length(tree, 5), 4);
  rdi_path_make(path, tree, 5, 4);
  assert_memory_equal(path, ((int32_t[]){0, 1, 2, 5}), sizeof path);
  const int32_t wrong[] = {-1, 1, 3, 2, -2, INT32_MIN, INT32_MAX};
  for (int64_t i = 1; i < 7; i++) assert_int_equal(rdi_path_length(wrong, i), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_node_from_its_parent),
      cmocka_unit_test(planted_defects_show),
      cmocka_unit_test(few_blocks),
      cmocka_unit_test(chains_and_paths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
