/* The scan's operator by itself: MPI may compose ranks in any grouping, and a rank without tokens is the
 * identity wherever it stands. */
#include "mpi/src/compose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 5, V = 3, MAPS = 4 };

static int passed, failed;
static void check(int good, const char *what, int pattern) {
  good ? passed++ : failed++;
  if (!good) printf("FAILED %s, identities %d\n", what, pattern);
}

static rdm_map *make(int identity, int seed) {
  rdm_map *map = calloc(1, rdm_map_bytes(K, V));
  if (!map) abort();
  *map = (rdm_map){.K = K, .V = V, .identity = identity};
  float *numbers = rdm_map_A(map);
  for (int i = 0; i < K * K + V * K && !identity; i++)
    numbers[i] = (float)((i * 7 + seed * 13) % 11 - 5) / 8;
  return map;
}
static void join(rdm_map *earlier, rdm_map *later) {
  int one = 1;
  rdm_compose(earlier, later, &one, NULL);
}
static int alike(rdm_map *a, rdm_map *b) {
  if (a->identity != b->identity) return 0;
  const float *x = rdm_map_A(a), *y = rdm_map_A(b);
  for (int i = 0; i < K * K + V * K && !a->identity; i++)
    if (fabsf(x[i] - y[i]) > 1e-5f) return 0;
  return 1;
}

/* All of `maps` as one, from the left or from the right. */
static rdm_map *all(int pattern, int from_left) {
  rdm_map *maps[MAPS];
  for (int i = 0; i < MAPS; i++) maps[i] = make(pattern >> i & 1, i);
  if (from_left)
    for (int i = 1; i < MAPS; i++) join(maps[i - 1], maps[i]);
  else
    for (int i = MAPS - 2; i >= 0; i--) join(maps[i], maps[MAPS - 1]);
  for (int i = 0; i < MAPS - 1; i++) free(maps[i]);
  return maps[MAPS - 1];
}

int main(void) {
  for (int pattern = 0; pattern < 1 << MAPS; pattern++) {
    rdm_map *left = all(pattern, 1), *right = all(pattern, 0);
    check(alike(left, right), "associativity", pattern);
    check(left->identity == (pattern == (1 << MAPS) - 1), "identity of the whole", pattern);
    free(left);
    free(right);
  }
  for (int side = 0; side < 2; side++) { /* a neighbour without tokens changes no bit */
    rdm_map *want = make(0, 9), *earlier = make(!side, 9), *later = make(side, 9);
    join(earlier, later);
    check(memcmp(want, later, rdm_map_bytes(K, V)) == 0, "bits beside an identity", side);
    free(want);
    free(earlier);
    free(later);
  }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
