/* W1: one output of a projection of bf16 by bf16 (docs/NUMERICS.md). K in blocks of 32, padded with +0; in
 * a block one chain over even k and one over odd k. */
#include "ref/ref.h"
#include "util/c2.h"

static float at(const uint16_t *x, int64_t i, int64_t K) {
  return i < K ? rdr_f32_of(x[i], RD_BF16) : 0;
}

float rdr_w1(const uint16_t *x, const uint16_t *w, int64_t K) {
  float sum = 0;
  for (int64_t block = 0; block < K; block += 32) {
    float chain[2] = {0, 0};
    for (int64_t i = block; i < block + 32; i++)
      chain[i % 2] = rdi_c2_fma(at(x, i, K), at(w, i, K), chain[i % 2]);
    sum = rdi_c2_add(sum, rdi_c2_add(chain[0], chain[1]));
  }
  return sum;
}
