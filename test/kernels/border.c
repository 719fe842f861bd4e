/* The rule of C2 at its border: the software operations (util/c2.h) and those of every instruction
 * set under the library's FP environment, against integers (model.h), for operands around 2^-126,
 * both signs, and at random near there.   border [seed [random cases]]
 *
 * An AArch64 processor flushes before rounding. There the requirement is the one that the NEON kernels
 * rely on: whatever differs from the rule is announced by the underflow flag. */
#include <stdlib.h>
#include <string.h>
#include "cpu/fpenv.h"
#include "harness.h"
#include "model.h"
#include "ops.h"
#include "util/c2.h"

static report tally;
static long wrong, announced;

static const struct {
  const char *name;
  uint32_t isa;
  ops_fn run;
} sets[] = {
    {"scalar", RD_ISA_SCALAR, ops_scalar},
#if defined(__x86_64__)
    {"scalar_fma", RD_ISA_SCALAR_FMA, ops_scalar_fma},
    {"avx2", RD_ISA_AVX2, ops_avx2},
    {"avx512", RD_ISA_AVX512, ops_avx512},
#elif defined(__aarch64__)
    {"neon", RD_ISA_NEON, ops_neon},
#endif
};
static const char *const op_names[OPS] = {"add", "mul", "fma", "nfma", "div", "sqrt", "scale"};

static uint32_t model(op which, uint32_t a, uint32_t b, uint32_t c) {
  switch (which) {
  case OP_ADD:
    return m_add(a, b);
  case OP_MUL:
    return m_mul(a, b);
  case OP_FMA:
    return m_fma(a, b, c);
  case OP_NFMA:
    return m_fma(a ^ 0x80000000u, b, c);
  case OP_DIV:
    return m_div(a, b);
  case OP_SQRT:
    return m_sqrt(a);
  case OP_SCALE:
    return m_scale(a, (int)rdi_f32_from_bits(b));
  case OPS:
    break;
  }
  return 0;
}

static void software(op which, const float *a, const float *b, const float *c, float *out) {
  for (int i = 0; i < 16; i++) {
    const float x = a[i], y = b[i], z = c[i];
    out[i] = which == OP_ADD    ? rdi_c2_add(x, y)
             : which == OP_MUL  ? rdi_c2_mul(x, y)
             : which == OP_FMA  ? rdi_c2_fma(x, y, z)
             : which == OP_NFMA ? rdi_c2_fma(-x, y, z)
             : which == OP_DIV  ? rdi_c2_div(x, y)
             : which == OP_SQRT ? rdi_c2_sqrt(x)
                                : rdi_c2_scale(x, (int)y);
  }
}

static int same(uint32_t a, uint32_t b) {
  return a == b || ((a & 0x7fffffffu) > 0x7f800000u && (b & 0x7fffffffu) > 0x7f800000u);
}

/* ---- one block of 16 operand triples through one set ---- */

typedef struct block {
  uint32_t a[16], b[16], c[16];
  int n;
} block;

static int underflow(int clear) {
#if defined(__aarch64__)
  uint64_t fpsr;
  __asm__ volatile("mrs %0, fpsr" : "=r"(fpsr)::"memory");
  if (clear) __asm__ volatile("msr fpsr, %0" ::"r"(fpsr & ~UINT64_C(8)) : "memory");
  return (fpsr & 8) != 0;
#else
  (void)clear;
  return 0;
#endif
}

static void try_block(const char *name, ops_fn run, op which, const block *x) {
  float a[16], b[16], c[16];
  volatile float out[16];
  memcpy(a, x->a, sizeof a), memcpy(b, x->b, sizeof b), memcpy(c, x->c, sizeof c);
  float got[16];
  (void)underflow(1);
  run(which, a, b, c, got);
  const int flagged = underflow(0);
  for (int i = 0; i < 16; i++) out[i] = got[i];
  for (int i = 0; i < x->n; i++) {
    const uint32_t want = model(which, x->a[i], x->b[i], x->c[i]), have = rdi_f32_bits(out[i]);
    if (same(have, want)) continue;
    if (flagged && run != software) {
      announced++;
      continue;
    }
    if (wrong++ < 5)
      printf("%s %s(%08x, %08x, %08x) is %08x, expected %08x\n", name, op_names[which], x->a[i],
             x->b[i], x->c[i], have, want);
  }
}

/* All sets: software in the caller's environment and in the library's, hardware in the library's. */
static void everywhere(op which, const block *x) {
  try_block("software", software, which, x);
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  try_block("software, flushing", software, which, x);
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
    if (sets[i].isa & isa_usable()) try_block(sets[i].name, sets[i].run, which, x);
  rdi_fpenv_leave(&env);
}

static void add_case(op which, block *x, uint32_t a, uint32_t b, uint32_t c) {
  x->a[x->n] = a, x->b[x->n] = b, x->c[x->n] = c;
  if (++x->n < 16) return;
  everywhere(which, x);
  x->n = 0;
}

/* Full blocks only: the last one repeats its last case. */
static void flush_block(op which, block *x) {
  while (x->n) add_case(which, x, x->a[x->n - 1], x->b[x->n - 1], x->c[x->n - 1]);
}

/* ---- operands ---- */

static uint32_t values[400];
static int count;

static void around(float x, int reach) {
  for (int j = -reach; j <= reach; j++)
    for (uint32_t sign = 0; sign <= 0x80000000u && sign + 1; sign += 0x80000000u) {
      values[count++] = (rdi_f32_bits(x) + (uint32_t)j) | sign;
      if (sign) break;
    }
}

static void table(int rich) {
  count = 0;
  static const uint32_t odd[] = {0,          0x80000000u, 1,          0x80000001u,
                                 0x00400000, 0x7f800000,  0xff800000, 0x7fc00000};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) values[count++] = odd[i];
  around(0x1p-126f, rich ? 5 : 2);
  around(0x1p-63f, rich ? 6 : 3);
  around(1.0f, rich ? 6 : 3);
  if (rich) around(0x1p-125f, 3), around(0x1p-64f, 4), around(0.5f, 4), around(0x1p-102f, 2);
  if (rich) around(3.0f, 1), around(0x1p-62f, 2), around(0x1p60f, 1), around(0x1p126f, 2);
  if (!rich) around(0x1p-103f, 0), around(0x1p-24f, 1), around(0x1p64f, 0);
}

static void tables(op which) {
  block x = {.n = 0};
  table(which != OP_FMA && which != OP_NFMA);
  for (int i = 0; i < count; i++) {
    if (which == OP_SQRT) {
      add_case(which, &x, values[i], 0, 0);
    } else if (which == OP_SCALE) { /* the exponential's range: p near 1 */
      for (int n = -151; n <= 128; n++)
        for (int j = -3; j <= 3; j++)
          add_case(which, &x, rdi_f32_bits(i & 1 ? 1.0f : 0.75f) + (uint32_t)(j * (i + 1)),
                   rdi_f32_bits((float)n), 0);
    } else {
      for (int j = 0; j < count; j++) {
        if (which == OP_ADD || which == OP_MUL || which == OP_DIV)
          add_case(which, &x, values[i], values[j], 0);
        else
          for (int k = 0; k < count; k++) add_case(which, &x, values[i], values[j], values[k]);
      }
    }
  }
  flush_block(which, &x);
}

/* Operands whose result lies within a few places of 2^-126. */
static void random_case(op which, block *x, rng *g) {
  const uint32_t sign = (uint32_t)(rng_u64(g) & 1) << 31;
  uint32_t a = (uint32_t)rng_u64(g), b = (uint32_t)rng_u64(g), c = (uint32_t)rng_u64(g);
  const uint32_t e = 2 + (uint32_t)rng_below(g, 125);
  const float near = rdi_f32_from_bits((0x00800000u + (uint32_t)rng_below(g, 9) - 4u) | sign);
  const int64_t dice = rng_below(g, 4);
  if (which == OP_SCALE) {
    add_case(which, x, 0x3f3504f3u + a % 0x800000u, rdi_f32_bits((float)(rng_below(g, 280) - 151)),
             0);
    return;
  }
  if (dice) { /* else any bits */
    a = (a & 0x807fffffu) | e << 23;
    const double fa = (double)rdi_f32_from_bits(a), t = (double)near;
    if (which == OP_MUL) b = rdi_f32_bits((float)(t / fa)) + (uint32_t)rng_below(g, 3) - 1u;
    if (which == OP_DIV) {
      b = a;
      a = rdi_f32_bits((float)(t * (double)rdi_f32_from_bits(b)));
    }
    if (which == OP_ADD) b = (b & 0x7fffffu) | (a & 0x80000000u) | 1u << 23, a ^= 0x80000000u;
    if (which == OP_FMA || which == OP_NFMA) {
      b = (b & 0x807fffffu) | (uint32_t)(128 - (int)e + (int)rng_below(g, 30)) << 23;
      const double p = fa * (double)rdi_f32_from_bits(b) * (which == OP_NFMA ? -1 : 1);
      c = rdi_f32_bits((float)(dice == 1 ? -p : t - p));
    }
  }
  add_case(which, x, a, b, c);
}

/* ---- double to f32 ---- */

static void narrowing(rng *g, long cases) {
  const uint64_t centre = UINT64_C(0x381) << 52; /* 2^-126 */
  for (long i = 0; i < cases; i++) {
    const int64_t at = i < 4000 ? (i - 2000) : rng_below(g, INT64_C(1) << 40) - (INT64_C(1) << 39);
    uint64_t u = i % 3 == 2 && i >= 4000 ? rng_u64(g)
                 : i % 3 == 1            ? centre - (UINT64_C(1) << 27) + (uint64_t)at
                                         : centre + (uint64_t)at; /* the border, and 2^-126 */
    u ^= (uint64_t)(i & 1) << 63;
    volatile double d;
    double x;
    memcpy(&x, &u, sizeof x);
    d = x;
    const uint32_t want = m_narrow(u);
    const uint32_t soft = rdi_f32_bits(rdi_c2_narrow(d));
    rdi_fpenv env;
    rdi_fpenv_enter(&env);
    const uint32_t soft2 = rdi_f32_bits(rdi_c2_narrow(d));
    volatile float hard = (float)d;
    rdi_fpenv_leave(&env);
#if !defined(__x86_64__)
    hard = rdi_f32_from_bits(want);
#endif
    const int ok = same(soft, want) && same(soft2, want) && same(rdi_f32_bits(hard), want);
    if (!ok && wrong++ < 5)
      printf("narrow(%a): software %08x and %08x, hardware %08x, expected %08x\n", x, soft, soft2,
             rdi_f32_bits(hard), want);
  }
}

/* A table that cannot fail proves nothing: gradual arithmetic and flushing before rounding are caught. */
static void teeth(void) {
  const uint32_t a = rdi_f32_bits(0x1p-63f) - 4u, b = rdi_f32_bits(0x1p-63f) + 2u;
  volatile float x = rdi_f32_from_bits(a), y = rdi_f32_from_bits(b);
  CHECK(&tally, m_mul(a, b) == 0x00800000u, "a product that rounds up to 2^-126: %08x",
        m_mul(a, b));
  CHECK(&tally, (double)x * (double)y < 0x1p-126, "and lies below it");
  volatile float half = 0x1p-63f, less = 0x1p-64f, product = half * less;
  CHECK(&tally, product != 0 && m_mul(rdi_f32_bits(half), rdi_f32_bits(less)) == 0,
        "gradual underflow is another rule");
  CHECK(&tally,
        m_add(0x00000001u, 0x80000000u) == 0 && m_add(0x80000001u, 0x80000000u) == 0x80000000u,
        "inputs keep their sign");
  CHECK(&tally, m_mul(0x7f800000u, 1u) == M_QUIET && m_div(0x3f800000u, 1u) == 0x7f800000u,
        "a subnormal is a zero to infinities and divisions");
}

int main(int argc, char **argv) {
  rng g = {.s = argc > 1 ? strtoull(argv[1], NULL, 10) : 1};
  const long cases = argc > 2 ? atol(argv[2]) : 100000;
  printf("seed %llu\n", (unsigned long long)g.s);
  teeth();
  for (int which = 0; which < OPS; which++) {
    wrong = announced = 0;
    tables((op)which);
    block x = {.n = 0};
    for (long i = 0; i < cases; i++) random_case((op)which, &x, &g);
    flush_block((op)which, &x);
    printf("%-5s %ld announced by the underflow flag\n", op_names[which], announced);
    CHECK(&tally, wrong == 0, "%s: %ld differ from the rule", op_names[which], wrong);
  }
  wrong = 0;
  narrowing(&g, cases);
  CHECK(&tally, wrong == 0, "double to f32: %ld differ from the rule", wrong);
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
    if (!(sets[i].isa & isa_usable())) {
      printf("%s: not run (this machine lacks it)\n", sets[i].name);
      tally.skipped++;
    }
  return report_end(&tally);
}
