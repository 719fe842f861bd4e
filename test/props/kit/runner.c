/* The table runner, the random numbers and the comparisons. SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "kit.h"

int pt_level = PT_STD;
static struct {
  const char *family, *name;
  uint64_t seed;
  bool teeth, failed, skipped, capturing;
  int captured;
  int lines, most_lines;
  int64_t bites;
  char note[512];
  int passed, failures, skips;
} R;

static const char *const level_names[] = {"quick", "std", "full"};

static void repro(FILE *f) {
  fprintf(f, "    again: %s --filter %s --seed %llu --level %s%s\n", R.family, R.name,
          (unsigned long long)R.seed, level_names[pt_level], R.teeth ? " --teeth" : "");
}

void pt_note(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(R.note, sizeof R.note, fmt, ap);
  va_end(ap);
}

void pt_capture(void) {
  R.capturing = true;
  R.captured = 0;
}

int pt_captured(void) {
  R.capturing = false;
  return R.captured;
}

bool pt_teeth(void) { return R.teeth; }

void pt_fail(const char *fmt, ...) {
  if (R.capturing) {
    R.captured++;
    return;
  }
  R.failed = true;
  if (++R.lines > R.most_lines) return;
  printf("  FAIL %s: ", R.name);
  va_list ap;
  va_start(ap, fmt);
  vprintf(fmt, ap);
  va_end(ap);
  printf("%s%s\n", R.note[0] ? "\n    in: " : "", R.note);
  if (R.lines == 1) repro(stdout);
  fflush(stdout);
}

void pt_skip(const char *fmt, ...) {
  R.skipped = true;
  printf("  skip %s: ", R.name);
  va_list ap;
  va_start(ap, fmt);
  vprintf(fmt, ap);
  va_end(ap);
  printf("\n");
}

bool pt_broken(void) { return R.failed && R.lines >= R.most_lines; }

static void on_crash(int sig) {
  printf("  CRASH %s: signal %d\n    in: %s\n", R.name, sig, R.note);
  repro(stdout);
  printf("%d passed, %d failed, %d skipped\n", R.passed, R.failures + 1, R.skips);
  fflush(stdout);
  _exit(1);
}

/* ------------------------------------------------------------------ random numbers ----------- */
static uint64_t rs[4];

static uint64_t splitmix(uint64_t *x) {
  uint64_t z = (*x += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

uint64_t rng_u64(void) { /* xoshiro256** */
  uint64_t r = rotl(rs[1] * 5, 7) * 9, t = rs[1] << 17;
  rs[2] ^= rs[0];
  rs[3] ^= rs[1];
  rs[1] ^= rs[2];
  rs[0] ^= rs[3];
  rs[2] ^= t;
  rs[3] = rotl(rs[3], 45);
  return r;
}

static void rng_start(uint64_t seed, const char *name) {
  uint64_t x = seed;
  for (const char *c = name; *c; c++) x = x * 1099511628211u + (unsigned char)*c;
  for (int i = 0; i < 4; i++) rs[i] = splitmix(&x);
}

double rng_uniform(double lo, double hi) {
  return lo + (hi - lo) * ((double)(rng_u64() >> 11) * 0x1p-53);
}

double rng_normal(void) {
  double u = ((double)(rng_u64() >> 11) + 1) * 0x1p-53, w = (double)(rng_u64() >> 11) * 0x1p-53;
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
}

int64_t rng_int(int64_t lo, int64_t hi) {
  return lo + (int64_t)(rng_u64() % (uint64_t)(hi - lo + 1));
}

/* ------------------------------------------------------------------ checks ------------------- */
static bool same_bits(float a, float b) {
  uint32_t x, y;
  memcpy(&x, &a, 4);
  memcpy(&y, &b, 4);
  return x == y || (a != a && b != b);
}

static int64_t first_difference(const float *got, const float *want, int64_t n) {
  if (n > 0 && memcmp(got, want, Z(n) * sizeof(float)) == 0) return -1;
  for (int64_t i = 0; i < n; i++)
    if (!same_bits(got[i], want[i])) return i;
  return -1;
}

/* Teeth cost a copy per check, so after the first few only a sample of the checks bites. */
static bool bite_now(int64_t n) {
  if (!R.teeth || n <= 0) return false;
  R.bites++;
  return R.bites < 64 || R.bites % 17 == 0;
}

static void bitten(const char *what, bool noticed) {
  if (!noticed) pt_fail("toothless: %s accepts an expectation with one value flipped", what);
}

bool ck_bits(const char *what, const float *got, const float *want, int64_t n) {
  int64_t i = first_difference(got, want, n);
  if (i >= 0)
    pt_fail("%s: bits differ at %lld of %lld: got %.9g (%a), want %.9g (%a)", what, (long long)i,
            (long long)n, (double)got[i], (double)got[i], (double)want[i], (double)want[i]);
  if (i < 0 && bite_now(n)) {
    float *w = fl_copy(want, n);
    uint32_t x;
    int64_t j = rng_int(0, n - 1);
    memcpy(&x, &w[j], 4);
    x = w[j] != w[j] ? 0 : x ^ 1;
    memcpy(&w[j], &x, 4);
    bitten(what, first_difference(got, w, n) == j);
  }
  return i < 0;
}

bool ck_bytes(const char *what, const void *got, const void *want, size_t bytes) {
  bool ok = bytes == 0 || memcmp(got, want, bytes) == 0;
  if (!ok) {
    size_t i = 0;
    while (((const unsigned char *)got)[i] == ((const unsigned char *)want)[i]) i++;
    pt_fail("%s: byte %zu of %zu changed", what, i, bytes);
  } else if (bite_now((int64_t)bytes)) {
    unsigned char *w = mem_heap(bytes);
    memcpy(w, want, bytes);
    w[rng_u64() % bytes] ^= 1;
    bitten(what, memcmp(got, w, bytes) != 0);
  }
  return ok;
}

typedef struct worst {
  double rel;
  int64_t head, at;
} worst;

static worst measure(const float *got, const double *want, int64_t outer, int64_t H, int64_t inner,
                     double abs_each, rd_dtype t) {
  worst w = {0, -1, -1};
  for (int64_t h = 0; h < H; h++) {
    double e2 = 0, n2 = 0, top = -1;
    int64_t at = 0;
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < inner; i++) {
        int64_t x = (o * H + h) * inner + i;
        double e = fabs((double)got[x] - want[x]) - abs_each - dt_half_ulp(t, want[x]);
        if (!(e <= 0)) e2 += e * e;
        if (!(e <= top)) top = e, at = x;
        n2 += want[x] * want[x];
      }
    double rel = e2 == 0 ? 0 : sqrt(e2 / (n2 > 0 ? n2 : 1e-300));
    if (!(rel <= w.rel)) w = (worst){rel, h, at};
  }
  return w;
}

double rel_l2(const float *got, const double *want, int64_t outer, int64_t H, int64_t inner) {
  return measure(got, want, outer, H, inner, 0, RD_F32).rel;
}

bool ck_close(const char *what, const float *got, const double *want, int64_t outer, int64_t H,
              int64_t inner, double bound, double abs_each, rd_dtype t) {
  worst w = measure(got, want, outer, H, inner, abs_each, t);
  bool ok = w.rel <= bound;
  int64_t n = outer * H * inner;
  if (!ok)
    pt_fail("%s: relative L2 %.3g > %.3g in head %lld; worst at %lld: got %.9g, want %.9g", what,
            w.rel, bound, (long long)w.head, (long long)w.at, (double)got[w.at], want[w.at]);
  if (ok && bite_now(n)) {
    double *v = mem_heap(Z(n) * sizeof(double)), rms = 0;
    memcpy(v, want, Z(n) * sizeof(double));
    for (int64_t i = 0; i < n; i++) rms += v[i] * v[i];
    rms = sqrt(rms / (double)n);
    int64_t j = rng_int(0, n - 1);
    v[j] += fmax(rms, fabs(v[j])) + 2 * abs_each;
    bitten(what, !(measure(got, v, outer, H, inner, abs_each, t).rel <= bound));
  }
  return ok;
}

static int64_t first_far(const float *got, const double *want, int64_t n, double tol) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - want[i]) <= tol + tol * fabs(want[i]))) return i;
  return -1;
}

bool ck_near(const char *what, const float *got, const double *want, int64_t n, double tol) {
  int64_t i = first_far(got, want, n, tol);
  if (i >= 0)
    pt_fail("%s: at %lld: got %.9g, want %.9g (limit %g + %g|r|)", what, (long long)i,
            (double)got[i], want[i], tol, tol);
  if (i < 0 && bite_now(n)) {
    double *w = mem_heap(Z(n) * sizeof(double));
    memcpy(w, want, Z(n) * sizeof(double));
    int64_t j = rng_int(0, n - 1);
    w[j] += 3 * tol * (1 + fabs(w[j]));
    bitten(what, first_far(got, w, n, tol) == j);
  }
  return i < 0;
}

bool ck_status(const char *what, rd_context *ctx, rd_status got, rd_status want) {
  if (got != want)
    pt_fail("%s: got %s, want %s (%s)", what, rd_status_name(got), rd_status_name(want),
            ctx ? rd_last_error(ctx) : "");
  return got == want;
}

/* ------------------------------------------------------------------ main --------------------- */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_case(const pt_case *c) {
  R.name = c->name;
  R.failed = R.skipped = false;
  R.lines = 0;
  R.bites = 0;
  R.note[0] = 0;
  rng_start(R.seed, c->name);
  size_t mark = mem_mark();
  double t = now();
  c->fn();
  mem_release(mark);
  if (R.teeth && !R.failed && !R.skipped && R.bites == 0) pt_fail("no comparison to test");
  if (R.failed)
    R.failures++;
  else if (R.skipped)
    R.skips++;
  else
    R.passed++;
  if (!R.skipped)
    printf("%s %-40s %6.2f s%s", R.failed ? "FAIL" : "ok  ", c->name, now() - t,
           R.teeth ? "" : "\n");
  if (R.teeth && !R.skipped) printf("  %lld bites\n", (long long)R.bites);
  fflush(stdout);
}

static int usage(const char *prog) {
  fprintf(stderr,
          "usage: %s [--seed N] [--filter SUBSTRING] [--level quick|std|full] [--teeth] [--lines "
          "N] [--list]\n",
          prog);
  return 2;
}

int pt_main(int argc, char **argv, const char *family, const pt_case *cases, size_t n) {
  const char *filter = "";
  bool list = false;
  R.family = family;
  R.seed = 20260101;
  R.most_lines = 6;
  for (int i = 1; i < argc; i++) {
    const char *val = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--teeth")) {
      R.teeth = true;
    } else if (!strcmp(argv[i], "--list")) {
      list = true;
    } else if (!strcmp(argv[i], "--seed") && val) {
      R.seed = strtoull(val, NULL, 0), i++;
    } else if (!strcmp(argv[i], "--filter") && val) {
      filter = val, i++;
    } else if (!strcmp(argv[i], "--lines") && val) {
      R.most_lines = atoi(val), i++;
    } else if (!strcmp(argv[i], "--level") && val) {
      int l = 2;
      while (l >= 0 && strcmp(val, level_names[l])) l--;
      if (l < 0) return usage(argv[0]);
      pt_level = l, i++;
    } else {
      return usage(argv[0]);
    }
  }
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  for (size_t i = 0; i < PT_LEN(signals); i++) signal(signals[i], on_crash);
  printf("%s: seed %llu, level %s%s\n", family, (unsigned long long)R.seed, level_names[pt_level],
         R.teeth ? ", teeth" : "");
  for (size_t i = 0; i < n; i++) {
    if (!strstr(cases[i].name, filter)) continue;
    if (list)
      printf("%s (%s)\n", cases[i].name, level_names[cases[i].level]);
    else if (cases[i].level <= pt_level)
      run_case(&cases[i]);
  }
  cx_drop_cache();
  printf("%d passed, %d failed, %d skipped\n", R.passed, R.failures, R.skips);
  return R.failures ? 1 : 0;
}
