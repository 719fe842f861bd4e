/* The matrix path against its definition: row-major GM to NZ, loads in every orientation, mad, and
 * the way back, with the layouts written out as formulas. */
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 1;

typedef struct product {
  rd_npu_arch arch;
  uint32_t m, k, n;
  bool a_transposed, b_transposed; /* GM holds A^T, B^T */
  rd_npu_type ab, c, out;
  bool twice; /* a second product accumulates */
  int scale;  /* of the inputs, a power of two: 9 overflows f16 */
} product;

/* Row-major [rows, ld] of 16-bit elements to NZ in L1, one burst copy per block of 16 columns. */
static void rows_to_nz(rd_npu_core *c, uint64_t l1, uint64_t gm, uint32_t rows, uint32_t columns) {
  for (uint32_t j = 0; j < columns / 16; j++)
    copy_gm_to_cbuf(l1 + j * 16 * (rows / 16) * 32, gm + 32 * j, rows, 1, columns / 16 - 1, 0);
}

static void load_a(rd_npu_core *c, const product *p, uint64_t l1) {
  uint32_t m1 = p->m / 16, k1 = p->k / 16;
  if (p->arch == RD_NPU_950) /* L0A is NZ there */
    for (uint32_t q = 0; q < k1; q++) {
      if (p->a_transposed)
        load_cbuf_to_ca(L0A(q * m1 * 512), l1, q, m1, k1, 0, true);
      else
        load_cbuf_to_ca(L0A(q * m1 * 512), l1, q * m1, m1, 1, 0, false);
    }
  else if (p->a_transposed)
    load_cbuf_to_ca(L0A(0), l1, 0, m1 * k1, 1, 0, true);
  else
    for (uint32_t r = 0; r < m1; r++) load_cbuf_to_ca(L0A(r * k1 * 512), l1, r, k1, m1, 0, false);
}

static void load_b(rd_npu_core *c, const product *p, uint64_t l1) {
  uint32_t n1 = p->n / 16, k1 = p->k / 16;
  if (p->b_transposed)
    load_cbuf_to_cb(L0B(0), l1, 0, n1 * k1, 1, 0, false);
  else
    for (uint32_t q = 0; q < k1; q++) load_cbuf_to_cb(L0B(q * n1 * 512), l1, q, n1, k1, 0, true);
}

static void kernel(rd_npu_core *c, const void *args) {
  const product *p = args;
  uint64_t a = L1(0), b = L1(65536);
  rows_to_nz(c, a, GM(0), p->a_transposed ? p->k : p->m, p->a_transposed ? p->m : p->k);
  rows_to_nz(c, b, GM(1), p->b_transposed ? p->n : p->k, p->b_transposed ? p->k : p->n);
  set_flag(PIPE_MTE2, PIPE_MTE1, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE1, 0);
  load_a(c, p, a);
  load_b(c, p, b);
  set_flag(PIPE_MTE1, PIPE_M, 0);
  wait_flag(PIPE_MTE1, PIPE_M, 0);
  mad(p->c, p->ab, L0C(0), L0A(0), L0B(0), p->m, p->k, p->n, true);
  if (p->twice) {
    pipe_barrier(PIPE_M);
    mad(p->c, p->ab, L0C(0), L0A(0), L0B(0), p->m, p->k, p->n, false);
  }
  rd_npu_pipe reader = p->arch == RD_NPU_310P ? PIPE_V : PIPE_FIX;
  set_flag(PIPE_M, reader, 0);
  wait_flag(PIPE_M, reader, 0);
  if (p->arch == RD_NPU_910B) {
    copy_matrix_cc_to_gm(p->out, GM(2), L0C(0), p->m, p->n, p->m - 3, p->n);
  } else {
    copy_matrix_cc_to_ubuf(p->out, p->c, UB(0), L0C(0), p->n / 16, p->m / 16, 0, 2);
    set_flag(reader, PIPE_MTE3, 0);
    wait_flag(reader, PIPE_MTE3, 0);
    uint32_t size = p->out == F32 ? 4 : 2, per = p->m * 16 * size / 32;
    copy_ubuf_to_gm(GM(2), UB(0), p->n / 16, per, 2, 0);
  }
  pipe_barrier(PIPE_ALL);
}

static double input(const uint8_t *x, uint32_t row, uint32_t column, uint32_t rows,
                    uint32_t columns, bool t, rd_npu_type type) {
  return plain_get(x + 2 * (t ? column * rows + row : row * columns + column), type);
}

static void put(const product *p, uint8_t *to, rd_npu_type type, double x) {
  plain_put(to, type, x);
  if (type == F16 && p->arch == RD_NPU_310P) plain_saturate(to);
}

static void one(const product *p, uint64_t s) {
  uint32_t m = p->m, k = p->k, n = p->n, size = p->out == F32 ? 4 : 2;
  uint8_t *a = malloc(2 * m * k), *b = malloc(2 * k * n), *out = malloc(4 * m * n);
  for (uint32_t i = 0; i < m * k; i++)
    plain_put(a + 2 * i, p->ab, ldexp((double)(int64_t)rng_next(&s), p->scale - 63));
  for (uint32_t i = 0; i < k * n; i++)
    plain_put(b + 2 * i, p->ab, ldexp((double)(int64_t)rng_next(&s), p->scale - 63));
  memset(out, 0x3C, 4 * m * n);
  rd_npu_tensor gm[3] = {{"a", a, 2 * m * k, 2, RD_NPU_IN},
                         {"b", b, 2 * k * n, 2, RD_NPU_IN},
                         {"out", out, 4 * m * n, 2, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, p->arch, p->arch == RD_NPU_310P ? RD_NPU_COUPLED : RD_NPU_CUBE,
                     0,        1,       kernel,
                     p,        gm,      3};
  rd_npu_options o = {.size = sizeof o, .schedule = (rd_npu_schedule)(s % 3), .seed = s};
  rd_npu_report *r;
  rd_npu_status st = rd_npu_run(&l, &o, &r);
  char *text = rd_npu_report_text(r);
  if (st != RD_NPU_OK) print_error("%s\n", text);
  assert_int_equal(st, RD_NPU_OK);
  free(text);
  rd_npu_report_free(r);
  for (uint32_t i = 0; i < m; i++)
    for (uint32_t j = 0; j < n; j++) {
      float acc = 0;
      uint8_t want[4];
      for (int pass = 0; pass < (p->twice ? 2 : 1); pass++) {
        for (uint32_t q = 0; q < k; q++)
          acc += (float)(input(a, i, q, m, k, p->a_transposed, p->ab) *
                         input(b, q, j, k, n, p->b_transposed, p->ab));
        if (p->c == F16) put(p, want, F16, (double)acc), acc = (float)plain_get(want, F16);
      }
      put(p, want, p->out, (double)acc);
      uint32_t nz = (j / 16 * (m / 16) + i / 16) * 256 + i % 16 * 16 + j % 16;
      uint32_t at = p->arch == RD_NPU_910B ? i * n + j : nz;
      bool written = p->arch != RD_NPU_910B || i < m - 3;
      if (!written) memset(want, 0x3C, 4);
      if (memcmp(out + at * size, want, size) != 0)
        print_error("arch %d m %u k %u n %u t %d%d (%u,%u): %g, expected %g\n", p->arch, m, k, n,
                    p->a_transposed, p->b_transposed, i, j, plain_get(out + at * size, p->out),
                    plain_get(want, p->out));
      assert_memory_equal(out + at * size, want, size);
    }
  free(a);
  free(b);
  free(out);
}

/* m, k and n that do not fill their fractals.  GM holds rows padded to 16 columns with NaN; the rows
 * that fill a fractal up are never loaded, the columns of the result that do so are never stored. */
typedef struct padded {
  rd_npu_arch arch;
  uint32_t m, k, n, loaded; /* rows of A */
  uint32_t stored;          /* columns */
  bool twice;
} padded;

static uint32_t up(uint32_t n) { return (n + 15) / 16 * 16; }

static void padded_kernel(rd_npu_core *c, const void *args) {
  const padded *p = args;
  uint32_t m1 = up(p->m) / 16, k1 = up(p->k) / 16, n1 = up(p->n) / 16;
  for (uint32_t j = 0; j < k1; j++)
    copy_gm_to_cbuf(L1(j * m1 * 512), GM(0) + 32 * j, p->loaded, 1, k1 - 1, 0);
  for (uint32_t j = 0; j < n1; j++)
    copy_gm_to_cbuf(L1(65536 + j * k1 * 512), GM(1) + 32 * j, p->k, 1, n1 - 1, 0);
  set_flag(PIPE_MTE2, PIPE_MTE1, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE1, 0);
  for (uint32_t q = 0; q < k1 && p->arch == RD_NPU_950; q++)
    load_cbuf_to_ca(L0A(q * m1 * 512), L1(0), q * m1, m1, 1, 0, false);
  for (uint32_t r = 0; r < m1 && p->arch != RD_NPU_950; r++)
    load_cbuf_to_ca(L0A(r * k1 * 512), L1(0), r, k1, m1, 0, false);
  for (uint32_t q = 0; q < k1; q++)
    load_cbuf_to_cb(L0B(q * n1 * 512), L1(65536), q, n1, k1, 0, true);
  set_flag(PIPE_MTE1, PIPE_M, 0);
  wait_flag(PIPE_MTE1, PIPE_M, 0);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), p->m, p->k, p->n, true);
  pipe_barrier(PIPE_M);
  if (p->twice) mad(F32, F16, L0C(0), L0A(0), L0B(0), p->m, p->k, p->n, false);
  rd_npu_pipe reader = p->arch == RD_NPU_310P ? PIPE_V : PIPE_FIX;
  set_flag(PIPE_M, reader, 0);
  wait_flag(PIPE_M, reader, 0);
  if (p->arch == RD_NPU_910B) {
    copy_matrix_cc_to_gm(F32, GM(2), L0C(0), 16 * m1, p->stored, p->m, p->n);
  } else {
    copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(0), 1, m1 * n1, 0, 0);
    set_flag(reader, PIPE_MTE3, 0);
    wait_flag(reader, PIPE_MTE3, 0);
    for (uint32_t i = 0; i < p->m; i++)
      for (uint32_t j = 0; j < p->stored; j += 8)
        copy_ubuf_to_gm(GM(2) + 4 * (i * p->n + j), UB((j / 16 * m1 * 16 + i) * 64 + j % 16 * 4), 1,
                        1, 0, 0);
  }
  pipe_barrier(PIPE_ALL);
}

static rd_npu_report *run_padded(const padded *p, uint16_t *a, uint16_t *b, float *out) {
  rd_npu_tensor gm[3] = {{"a", a, 2ull * p->m * up(p->k), 2, RD_NPU_IN},
                         {"b", b, 2ull * p->k * up(p->n), 2, RD_NPU_IN},
                         {"out", out, 4ull * (p->m * p->n + 8), 4, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, p->arch, p->arch == RD_NPU_310P ? RD_NPU_COUPLED : RD_NPU_CUBE,
                     0,        1,       padded_kernel,
                     p,        gm,      3};
  rd_npu_report *r;
  rd_npu_run(&l, NULL, &r);
  return r;
}

static void fill_padded(uint16_t *x, uint32_t rows, uint32_t columns, uint64_t *s) {
  for (uint32_t i = 0; i < rows * up(columns); i++)
    x[i] =
        i % up(columns) < columns ? plain_to_f16(ldexp((double)(int64_t)rng_next(s), -63)) : 0x7E00;
}

static void padded_products(void **state) {
  (void)state;
  static const uint32_t shapes[][3] = {{20, 40, 24}, {2, 1, 8}, {33, 17, 8}, {16, 31, 40}};
  static uint16_t a[64 * 64], b[64 * 64];
  static float out[64 * 64];
  uint64_t s = seed;
  for (int n = 0; n < 24; n++) {
    const uint32_t *shape = shapes[n % 4];
    padded p = {(rd_npu_arch)(n / 4 % 3), shape[0], shape[1], shape[2], shape[0], shape[2], n > 11};
    fill_padded(a, p.m, p.k, &s);
    fill_padded(b, p.k, p.n, &s);
    rd_npu_report *r = run_padded(&p, a, b, out);
    if (rd_npu_report_count(r)) print_error("%s\n", rd_npu_report_get(r, 0)->message);
    assert_int_equal(rd_npu_report_count(r), 0);
    rd_npu_report_free(r);
    for (uint32_t i = 0; i < p.m; i++)
      for (uint32_t j = 0; j < p.n; j++) {
        float acc = 0;
        for (uint32_t q = 0; q < p.k * (p.twice ? 2 : 1); q++)
          acc += (float)(plain_f16(a[i * up(p.k) + q % p.k]) * plain_f16(b[q % p.k * up(p.n) + j]));
        assert_true(out[i * p.n + j] == acc);
      }
    if (shape[0] % 16 != 4) continue;
    padded few = p,
           wide = p; /* a row that was not loaded; columns that the product does not have */
    few.loaded--, wide.stored += 8;
    for (int bad = 0; bad < 2; bad++) {
      r = run_padded(bad ? &wide : &few, a, b, out);
      bool found = false;
      for (size_t f = 0; f < rd_npu_report_count(r); f++)
        found |= rd_npu_report_get(r, f)->kind == RD_NPU_UNINITIALISED;
      assert_true(found);
      rd_npu_report_free(r);
    }
  }
}

static void products(void **state) {
  (void)state;
  static const uint32_t shapes[][3] = {
      {16, 16, 16}, {32, 48, 64}, {64, 128, 64}, {80, 16, 48}, {48, 112, 16}};
  static const rd_npu_type types[][4] = {
      /* arch, ab, c, out */
      {0, RD_NPU_F16, RD_NPU_F32, RD_NPU_F32},  {0, RD_NPU_F16, RD_NPU_F32, RD_NPU_F16},
      {0, RD_NPU_F16, RD_NPU_F16, RD_NPU_F16},  {1, RD_NPU_BF16, RD_NPU_F32, RD_NPU_F32},
      {1, RD_NPU_F16, RD_NPU_F32, RD_NPU_BF16}, {2, RD_NPU_F16, RD_NPU_F32, RD_NPU_F16},
      {2, RD_NPU_BF16, RD_NPU_F32, RD_NPU_F32}};
  uint64_t s = seed;
  for (size_t i = 0; i < 5; i++)
    for (size_t t = 0; t < 7; t++)
      for (int flip = 0; flip < 8; flip++) {
        product p = {(rd_npu_arch)types[t][0],
                     shapes[i][0],
                     shapes[i][1],
                     shapes[i][2],
                     flip & 1,
                     flip >> 1 & 1,
                     types[t][1],
                     types[t][2],
                     types[t][3],
                     flip >> 2 & 1,
                     flip == 5 ? 9 : 0};
        one(&p, rng_next(&s));
      }
}

/* UB -> L1 row-major to NZ, and L0C f16 result byte-identical to L1 NZ. */
static void chain_kernel(rd_npu_core *c, const void *args) {
  (void)args;
  uint32_t rows = 32, ld = 64; /* f16 row-major 32 x 64, identity 64 x 64 */
  copy_gm_to_ubuf(UB(0), GM(0), 1, rows * ld / 16, 0, 0);
  rows_to_nz(c, L1(131072), GM(1), 64, 64);
  set_flag(PIPE_MTE2, PIPE_MTE3, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE3, 0);
  for (uint32_t j = 0; j < ld / 16; j++)
    copy_ubuf_to_cbuf(L1(j * 16 * (rows / 16) * 32), UB(32 * j), rows, 1, ld / 16 - 1, 0);
  set_flag(PIPE_MTE3, PIPE_MTE1, 0);
  wait_flag(PIPE_MTE3, PIPE_MTE1, 0);
  set_flag(PIPE_MTE2, PIPE_MTE1, 1);
  wait_flag(PIPE_MTE2, PIPE_MTE1, 1);
  for (uint32_t r = 0; r < 2; r++) load_cbuf_to_ca(L0A(r * 4 * 512), L1(0), r, 4, 2, 0, false);
  load_cbuf_to_cb(L0B(0), L1(131072), 0, 16, 1, 0, false);
  set_flag(PIPE_MTE1, PIPE_M, 0);
  wait_flag(PIPE_MTE1, PIPE_M, 0);
  mad(F32, F16, L0C(0), L0A(0), L0B(0), 32, 64, 64, true);
  set_flag(PIPE_M, PIPE_V, 0);
  wait_flag(PIPE_M, PIPE_V, 0);
  copy_matrix_cc_to_ubuf(F16, F32, UB(8192), L0C(0), 1, 8, 0, 0);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(2), UB(8192), 1, 128, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void chain(void **state) {
  (void)state;
  uint16_t x[32 * 64], one_matrix[64 * 64] = {0}, out[32 * 64];
  uint64_t s = seed;
  for (int i = 0; i < 32 * 64; i++) x[i] = plain_to_f16((double)(int64_t)rng_next(&s) * 0x1p-60);
  for (int i = 0; i < 64; i++) one_matrix[65 * i] = 0x3C00;
  rd_npu_tensor gm[3] = {{"x", x, sizeof x, 2, RD_NPU_IN},
                         {"one", one_matrix, sizeof one_matrix, 2, RD_NPU_IN},
                         {"out", out, sizeof out, 2, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, chain_kernel, NULL, gm, 3};
  rd_npu_report *r;
  assert_int_equal(rd_npu_run(&l, NULL, &r), RD_NPU_OK);
  rd_npu_report_free(r);
  for (uint32_t i = 0; i < 32; i++)
    for (uint32_t j = 0; j < 64; j++)
      assert_int_equal(out[(j / 16 * 32 + i) * 16 + j % 16], x[i * 64 + j]);
}

/* Unaligned copies: bytes, gaps in bytes on the GM side and in blocks on the UB side. */
static void align_kernel(rd_npu_core *c, const void *args) {
  (void)args;
  set_vector_mask(~0ull, ~0ull);
  copy_gm_to_ubuf_align(UB(0), GM(0) + 6, 5, 70, 10, 1);
  set_flag(PIPE_MTE2, PIPE_MTE3, 0);
  wait_flag(PIPE_MTE2, PIPE_MTE3, 0);
  copy_ubuf_to_gm_align(GM(1) + 2, UB(0), 5, 70, 1, 4);
  pipe_barrier(PIPE_ALL);
}

static void unaligned_copies(void **state) {
  (void)state;
  uint8_t in[512], out[512];
  for (int i = 0; i < 512; i++) in[i] = (uint8_t)(i * 7), out[i] = 0xEE;
  rd_npu_tensor gm[2] = {{"in", in, 420, 2, RD_NPU_IN}, {"out", out, 400, 2, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_950, RD_NPU_VECTOR, 0, 1, align_kernel, NULL, gm, 2};
  rd_npu_options o = {.size = sizeof o, .mode = RD_NPU_VALUES};
  rd_npu_report *r;
  assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_OK);
  rd_npu_report_free(r);
  uint8_t want[512];
  memset(want, 0xEE, 512);
  for (int b = 0; b < 5; b++) memcpy(want + 2 + 74 * b, in + 6 + 80 * b, 70);
  assert_memory_equal(out, want, 512);
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(padded_products),
                                     cmocka_unit_test(chain), cmocka_unit_test(unaligned_copies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
