/* Products of tiles, the emulated ones and, where the machine has them, the real ones, against the order W1
 * written out with the operations of C2: tiles.c [SEED [CASES]] */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "cpu/fpenv.h"
#include "ops_tile.h"
#include "util/c2.h"
#include "util/half.h"

enum { MOST = 3 };

typedef void (*products_fn)(const uint16_t *, const uint16_t *, float *, int, int);

static report tally;

static float wide(uint16_t x) { return rdi_f32_from_bits((uint32_t)x << 16); }

/* The definition, on numbers: no tile, no vector, no processor mode. */
static void definition(const uint16_t *a, const uint16_t *b, float *c, int rows, int n) {
  for (int i = 0; i < n; i++, a += 512, b += 512)
    for (int m = 0; m < rows; m++)
      for (int v = 0; v < 16; v++) {
        float e = 0, o = 0;
        for (int k = 0; k < 16; k++) {
          e = rdi_c2_fma(wide(a[m * 32 + 2 * k]), wide(b[(k * 16 + v) * 2]), e);
          o = rdi_c2_fma(wide(a[m * 32 + 2 * k + 1]), wide(b[(k * 16 + v) * 2 + 1]), o);
        }
        c[m * 16 + v] = rdi_c2_add(c[m * 16 + v], rdi_c2_add(e, o));
      }
}

/* Ordinary numbers, a wide range, the border of the subnormals, any bits. */
static uint16_t draw(rng *g, int kind) {
  const uint32_t x = (uint32_t)rng_u64(g);
  const uint16_t sign_mantissa = (uint16_t)(x & 0x807f);
  if (kind == 0) return (uint16_t)(sign_mantissa | (120 + x / 256 % 12) << 7);
  if (kind == 1) return (uint16_t)(sign_mantissa | (70 + x / 256 % 110) << 7);
  if (kind == 2) return (uint16_t)(sign_mantissa | (x / 256 % 8 == 0 ? 0 : 60 + x / 256 % 8) << 7);
  return (uint16_t)x;
}

static int same(const float *x, const float *y) {
  for (int i = 0; i < 256; i++)
    if (rdi_f32_bits(x[i]) != rdi_f32_bits(y[i]) && !(x[i] != x[i] && y[i] != y[i])) return 0;
  return 1;
}

static void swap(uint16_t *x, uint16_t *y) {
  const uint16_t z = *x;
  *x = *y, *y = z;
}

/* Cases that differ from the definition; `wrong`: from the definition with k in another order, which must
 * show. */
static long differing(products_fn run, uint64_t seed, long cases, int wrong) {
  rng g = {.s = seed};
  long bad = 0;
  for (long i = 0; i < cases; i++) {
    static uint16_t a[MOST * 512], b[MOST * 512];
    _Alignas(64) float want[256], got[256];
    const int kind = (int)(i % 4), rows = 1 + (int)(rng_u64(&g) % 16), n = 1 + (int)(i % MOST);
    for (int j = 0; j < MOST * 512; j++) a[j] = draw(&g, kind), b[j] = draw(&g, kind);
    for (int j = 0; j < 256; j++) want[j] = wide(draw(&g, kind));
    memcpy(got, want, sizeof got);
    run(a, b, got, rows, n);
    for (int j = 0; wrong && j < 2; j++) { /* k = j and k = j + 2: both in the same chain */
      swap(&a[j], &a[j + 2]);
      for (int v = 0; v < 16; v++) swap(&b[2 * v + j], &b[32 + 2 * v + j]);
    }
    definition(a, b, want, rows, n);
    bad += !same(want, got);
  }
  return bad;
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const long cases = argc > 2 ? atol(argv[2]) : 400;
  printf("seed %llu\n", (unsigned long long)seed);
  rdi_fpenv saved;
  rdi_fpenv_enter(&saved); /* as every slice of work does */
  if (isa_usable() & RD_ISA_AVX512) {
    CHECK(&tally, differing(tile_products_emulated, seed, cases, 0) == 0,
          "emulated tiles differ from W1");
    CHECK(&tally, differing(tile_products_emulated, seed, 40, 1) > 0,
          "another order of k went unnoticed");
  } else {
    printf("emulated tiles: not run (this machine lacks avx512)\n"), tally.skipped++;
  }
  rdi_fpenv_leave(&saved); /* the real ones look at no mode */
  if (isa_usable() & RD_ISA_AMX) {
    CHECK(&tally, differing(tile_products_real, seed, cases, 0) == 0, "real tiles differ from W1");
  } else {
    printf("real tiles: not run (this machine lacks amx, or the system refuses it)\n"),
        tally.skipped++;
  }
  return report_end(&tally);
}
