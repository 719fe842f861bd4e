/* Two ways to the same work in turns: many heads and one, [K, V] states and [V, K], 16-bit states and f32,
 * AMX and AVX-512. */
#include "bench/world.h"

#include <stdarg.h>
#include <stdio.h>

enum { TURNS = 20 };

typedef struct side {
  bench_world *w;
  double unit, best;
  int calls;
} side;

static int side_open(side *s, const bench_spec *spec) {
  *s = (side){.w = bench_world_open(spec, 0), .best = 1e300};
  if (!s->w || bench_world_run(s->w) != RD_OK) return 0;
  s->unit = (double)(s->w->B * s->w->Hv) * (spec->verb == BENCH_PREFILL ? spec->T : 1);
  double t = bench_now();
  if (bench_world_run(s->w) != RD_OK) return 0;
  t = bench_now() - t;
  s->calls = t > 1e5 ? 1 : 1 + (int)(1e5 / t);
  return 1;
}

static int side_turn(side *s) {
  int ok = 1;
  double t = bench_now();
  for (int i = 0; i < s->calls; i++) ok &= bench_world_run(s->w) == RD_OK;
  t = (bench_now() - t) / (s->calls * s->unit);
  if (t < s->best) s->best = t;
  return ok;
}

static double error_of(const bench_spec *spec) {
  bench_spec small = *spec;
  small.threads = 1;
  bench_world *w = bench_world_open(&small, 1);
  const double error = w ? bench_world_error(w) : -1;
  bench_world_close(w);
  return error;
}

static int measure(bench_pair *x, double seconds) {
  side a = {0}, b = {0};
  int ok = side_open(&a, &x->of) && side_open(&b, &x->to);
  const double end = bench_now() + seconds * 1e9;
  for (; ok && (x->turns < TURNS || bench_now() < end); x->turns++)
    ok = side_turn(&a) && side_turn(&b);
  x->ns = a.best * x->of.threads, x->to_ns = b.best * x->to.threads;
  bench_world_close(a.w);
  bench_world_close(b.w);
  return ok;
}

/* ---------------------------------------------------------------- the rows --------------------- */

typedef struct table {
  bench_pair *rows;
  int count;
} table;

static bench_pair *row(table *t, double limit, bench_spec of, bench_spec to, const char *text, ...)
    __attribute__((format(printf, 5, 6)));

static bench_pair *row(table *t, double limit, bench_spec of, bench_spec to, const char *text,
                       ...) {
  if (t->count == BENCH_PAIRS) return NULL;
  bench_pair *x = &t->rows[t->count++];
  *x = (bench_pair){.of = of, .to = to, .limit = limit, .error = -1, .run = 1};
  va_list args;
  va_start(args, text);
  vsnprintf(x->text, sizeof x->text, text, args);
  va_end(args);
  return x;
}

static const rd_gate_axis axes[] = {RD_PER_HEAD, RD_PER_CHANNEL};
static const char *const families[] = {"GDN", "KDA"};

static bench_spec prefill_spec(int family, rd_numerics numerics, int32_t heads) {
  return (bench_spec){.verb = BENCH_PREFILL,
                      .axis = axes[family],
                      .numerics = numerics,
                      .T = 512,
                      .threads = 1,
                      .heads = heads};
}

static void many_heads(table *t, int threads) {
  for (int f = 0; f < 2; f++)
    for (int n = 0; n < 2; n++) {
      const rd_numerics numerics = n ? RD_FAST : RD_EXACT;
      const bench_spec hot = prefill_spec(f, numerics, 1);
      for (int i = 1; i <= threads; i++) {
        bench_spec many = prefill_spec(f, numerics, 32);
        many.threads = i;
        row(t, n ? 1.30 : 1.15, many, hot, "%s prefill %s, %s heads, %d thread%s, over one head",
            families[f], n ? "FAST" : "EXACT", f ? "32/32" : "16/32", i, i > 1 ? "s" : "");
      }
    }
}

static void layouts(table *t) {
  static const bench_verb verbs[] = {BENCH_PREFILL, BENCH_DECODE, BENCH_VERIFY, BENCH_COMMIT,
                                     BENCH_FOLDED};
  for (int v = 0; v < 5; v++)
    for (int n = 0; n < (verbs[v] == BENCH_PREFILL || verbs[v] == BENCH_VERIFY ? 2 : 1); n++) {
      bench_spec vk = {.verb = verbs[v],
                       .axis = RD_PER_HEAD,
                       .numerics = n ? RD_FAST : RD_EXACT,
                       .T = v == 0   ? 512
                            : v == 1 ? 1
                                     : 8,
                       .accepted = v > 2 ? 4 : 0,
                       .threads = 1};
      bench_spec kv = vk;
      kv.kv = 1;
      row(t, 1.15, kv, vk, "%s GDN %s, states [K, V] over [V, K]", bench_verb_name(verbs[v]),
          n ? "FAST" : "EXACT");
    }
}

static void narrow_states(table *t) {
  for (int level = 0; level < 2; level++)
    for (int i = 0; i < 2; i++) {
      const bench_spec wide = {.verb = BENCH_DECODE,
                               .axis = RD_PER_HEAD,
                               .numerics = RD_EXACT,
                               .level = level ? BENCH_DRAM : BENCH_HOT,
                               .T = 1,
                               .threads = 1};
      bench_spec narrow = wide;
      narrow.state = i ? RD_F16 : RD_BF16;
      row(t, level && !i ? 0.80 : 0, narrow, wide, "decode GDN, %s states over f32, %s",
          i ? "f16" : "bf16", bench_level_name[wide.level]);
    }
}

static void matrix_unit(table *t) {
  const uint32_t have = rd_isa_usable() & rd_isa_built() & ~rd_isa_emulated();
  for (int many = 0; many < 2; many++) {
    bench_spec amx = prefill_spec(0, RD_FAST, many ? 32 : 1), vector;
    amx.bf16 = 1;
    vector = amx;
    amx.isa_mask = RD_ISA_AMX | RD_ISA_AVX512 | RD_ISA_SCALAR_FMA;
    vector.isa_mask = RD_ISA_AVX512 | RD_ISA_SCALAR_FMA;
    bench_pair *x =
        row(t, many ? 0 : 0.50, amx, vector, "GDN prefill FAST, bf16, AMX over AVX-512, %s",
            many ? "16/32 heads" : "one head");
    if (x) x->run = (have & RD_ISA_AMX) != 0;
  }
}

int bench_pairs(double seconds, int two_threads, bench_pair *rows, int *count,
                void (*seen)(const bench_pair *)) {
  table t = {.rows = rows};
  many_heads(&t, two_threads ? 2 : 1);
  layouts(&t);
  narrow_states(&t);
  matrix_unit(&t);
  *count = t.count;
  for (int i = 0; i < t.count; i++) {
    bench_pair *x = &rows[i];
    if (x->run && !measure(x, seconds)) return 0;
    if (x->run && x->of.isa_mask & RD_ISA_AMX) x->error = error_of(&x->of);
    if (seen) seen(x);
  }
  return t.count < BENCH_PAIRS;
}
