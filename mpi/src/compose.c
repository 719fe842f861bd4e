/* The scan's operator. */
#include "mpi/src/compose.h"

#include <math.h>
#include <string.h>

size_t rdm_map_bytes(int64_t K, int64_t V) {
  return sizeof(rdm_map) + (size_t)(K * K + V * K) * sizeof(float);
}
float *rdm_map_A(rdm_map *map) { return (float *)(void *)(map + 1); }
float *rdm_map_B(rdm_map *map) { return rdm_map_A(map) + (size_t)map->K * (size_t)map->K; }

/* Below this a number is taken as zero, so that no product is subnormal, which would be slow. */
static const float least = 1e-18f;
static float or_zero(float x) { return fabsf(x) < least ? 0 : x; }

/* One row times M [K,K], plus `plus`; all but M may be one row. */
static void row_times(const float *row, const float *M, const float *plus, int64_t K, float *to) {
  float sum[512];
  for (int64_t c = 0; c < K; c++) sum[c] = 0;
  for (int64_t j = 0; j < K; j++) {
    const float x = or_zero(row[j]);
    for (int64_t c = 0; c < K; c++) sum[c] += x * M[j * K + c];
  }
  for (int64_t c = 0; c < K; c++) to[c] = plus ? sum[c] + plus[c] : or_zero(sum[c]);
}

void rdm_clear_small(float *A, int64_t n) {
  for (int64_t i = 0; i < n; i++) A[i] = or_zero(A[i]);
}

static void compose(rdm_map *first, rdm_map *then) {
  const int64_t K = then->K, V = then->V;
  if (first->identity) return;
  if (then->identity) {
    memcpy(then, first, rdm_map_bytes(K, V));
    return;
  }
  /* B first, then A row by row into the place of the earlier one: A2 is needed to the end. */
  float *A = rdm_map_A(first), *B = rdm_map_B(first), *A2 = rdm_map_A(then), *B2 = rdm_map_B(then);
  for (int64_t r = 0; r < V; r++) row_times(B + r * K, A2, B2 + r * K, K, B2 + r * K);
  for (int64_t r = 0; r < K; r++) row_times(A + r * K, A2, NULL, K, A + r * K);
  memcpy(A2, A, (size_t)(K * K) * sizeof *A);
}

void rdm_compose(void *earlier, void *later, int *count, MPI_Datatype *type) {
  (void)type; /* the elements say their own size */
  char *a = earlier, *b = later;
  for (int i = 0; i < *count; i++) {
    rdm_map *then = (rdm_map *)(void *)b;
    const size_t bytes = rdm_map_bytes(then->K, then->V);
    compose((rdm_map *)(void *)a, then);
    a += bytes;
    b += bytes;
  }
}
