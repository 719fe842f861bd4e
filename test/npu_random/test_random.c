/* Random kernels hold the checker of the AI Core model to its word.
 * usage: test-npu-random [--seed N] [--count N] [--deep | --teeth] [--print] */
#include "npu/machine/isa.h"
#include "properties.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

const char *const property_names[] = {
    "holds",
    "the generator makes kernels that the model accepts",
    "the model and the second checker name the same pairs",
    "the model and the second checker agree about flags and leftovers",
    "a kernel without findings gives the same bits under every schedule",
    "every pair of a report overlaps or is reversed under some schedule",
    "mutation detects every mutant"};

/* Drops steps as long as the same property fails. */
static void shrink(random_kernel *k, const depth *d, property fails) {
  char why[400];
  tally ignored = {0};
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (uint32_t n = k->count; n-- > 0;) {
      random_kernel less = *k;
      remove_step(&less, n);
      if (examine(&less, d, &ignored, why, sizeof why) != fails) continue;
      *k = less;
      smaller = true;
    }
  }
}

static bool holds(uint64_t seed, const depth *d, tally *t, bool print) {
  static random_kernel k;
  char why[4000] = "";
  generate(&k, seed);
  if (print) print_kernel(stdout, &k);
  property p = examine(&k, d, t, why, sizeof why);
  if (p == HOLDS) return true;
  printf("--seed %llu --count 1: not so: %s: %s\n", (unsigned long long)seed, property_names[p],
         why);
  shrink(&k, d, p);
  tally ignored = {0};
  examine(&k, d, &ignored, why, sizeof why);
  printf("smallest: %s\n", why);
  print_kernel(stdout, &k);
  return false;
}

static const char *const defects[DEFECTS] = {
    [OWN_READ_COVERS] = "an update's own read covers older reads of its pipe",
    [PAIRED_WRONGLY] = "a wait pairs with the newest set, not the k-th",
    [BARRIER_MISSED] = "pipe_barrier of one pipe is missed",
    [ISSUE_ORDERS] = "what S did before it issued something counts as done",
    [VECTOR_IN_ORDER] = "the vector unit is in order everywhere",
    [TEN_FRACTALS] = "the accumulate rule ends at nine results",
    [SET_BEFORE_WORK] = "a set does not await the work before it",
    [READS_DO_NOT_RACE] = "a write after a read is no race",
    [MASK_IGNORED] = "vector instructions touch inactive lanes",
    [OLD_VALUE_FORGOTTEN] = "an instruction that updates does not read its destination",
    [LEFTOVERS_FORGIVEN] = "nothing is left over",
    [INSERTED_IS_EDGE] = "synchronisation by the compiler orders third parties"};

/* Each mistake planted in the second checker must show as a disagreement, on a kernel about which the
 * two agree without it. */
static bool notices(const random_kernel *k, defect planted) {
  char why[400];
  tally ignored = {0};
  depth d = {.reports_only = true, .planted = planted};
  property p = examine(k, &d, &ignored, why, sizeof why);
  if (p != SAME_PAIRS && p != SAME_FLAGS) return false;
  d.planted = NO_DEFECT;
  return examine(k, &d, &ignored, why, sizeof why) == HOLDS;
}

static int teeth(uint64_t seed, uint64_t count) {
  static random_kernel k;
  int failures = 0;
  for (int n = NO_DEFECT + 1; n < DEFECTS; n++) {
    uint64_t tried = 0, kernels = 0;
    for (; tried < count; tried++) {
      generate(&k, seed + tried);
      kernels += notices(&k, (defect)n);
    }
    printf("%llu of %llu kernels notice: %s\n", (unsigned long long)kernels,
           (unsigned long long)tried, defects[n]);
    failures += !kernels;
  }
  return failures != 0;
}

/* Instructions of the model that no random kernel has, but for those that are of no use here: S's view
 * of GM has a cache of its own, which test/npu/test_scalar_gm.c is about. */
static int missing(const tally *t) {
  static const char *const elsewhere[] = {"get_value_gm", "set_value_gm",
                                          "data_cache_clean_and_invalid"};
  int count = 0;
  for (unsigned n = 0; n < OP_COUNT; n++) {
    const char *name = rdn_ops[n].name;
    uint64_t seen = 0;
    for (unsigned r = 0; r < R_COUNT; r++)
      if (strncmp(random_ops[r].name, name, strlen(name)) == 0) seen += t->seen[r];
    for (unsigned e = 0; e < sizeof elsewhere / sizeof *elsewhere; e++)
      seen += strcmp(elsewhere[e], name) == 0;
    if (seen) continue;
    printf("no random kernel has %s: give it a line in test/npu_random/kernel.h\n", name);
    count++;
  }
  return count;
}

int main(int argc, char **argv) {
  uint64_t seed = 1, count = 2000, failures = 0;
  bool deep = false, print = false, bite = false;
  for (int n = 1; n < argc; n++) {
    if (strcmp(argv[n], "--teeth") == 0)
      bite = true;
    else if (strcmp(argv[n], "--deep") == 0)
      deep = true;
    else if (strcmp(argv[n], "--print") == 0)
      print = true;
    else if (strcmp(argv[n], "--seed") == 0 && n + 1 < argc)
      seed = strtoull(argv[++n], NULL, 0);
    else if (strcmp(argv[n], "--count") == 0 && n + 1 < argc)
      count = strtoull(argv[++n], NULL, 0);
    else
      return fprintf(stderr, "usage: %s [--seed N] [--count N] [--deep | --teeth] [--print]\n",
                     argv[0]),
             2;
  }
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 64 << 20); /* the model's buffers, over and over */
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
  printf("seed %llu, %llu kernels\n", (unsigned long long)seed, (unsigned long long)count);
  if (bite) return teeth(seed, count);
  tally t = {0};
  for (uint64_t n = seed; n < seed + count && failures < 5; n++) {
    depth d = {
        .random = 32, .explored = deep || n % 4 == 0 ? 2000 : 0, .mutate = deep || n % 4 == 1};
    failures += !holds(n, &d, &t, print);
  }
  printf("%llu kernels: %llu clean, %llu with %llu pairs (%llu by rule), %llu deadlocked, %llu "
         "other; %llu schedules, %llu mutants\n",
         (unsigned long long)t.kernels, (unsigned long long)t.clean, (unsigned long long)t.racy,
         (unsigned long long)t.pairs, (unsigned long long)t.by_rule,
         (unsigned long long)t.deadlocked, (unsigned long long)t.other,
         (unsigned long long)t.schedules, (unsigned long long)t.mutants);
  if (count >= 2000) failures += missing(&t) != 0;
  return failures != 0;
}
