#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cpu/amx.h"
#include "cpu/fpenv.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

enum { CANARY = 0x7fe5c3e1, WINDOW = 256, SHOWN = 10 };

/* ---- options ---- */

#if defined(__x86_64__)
/* AMX-TILE and AMX-BF16, and the system's permission: it gives none where it saves no tiles. */
static int tiles_usable(void) {
  unsigned a, b, c, d = 0;
  if (rd_isa_emulated() & RD_ISA_AMX) return 1;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  return (d >> 22 & 1u) && (d >> 24 & 1u) && rdi_amx_permit();
}
#endif

uint32_t isa_usable(void) {
  uint32_t set = RD_ISA_SCALAR | RD_ISA_SOFT;
#if defined(__x86_64__)
  unsigned a, b, c = 0, d; /* not every compiler's builtin knows f16c */
  const int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
  __builtin_cpu_init();
  const int fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fma) set |= RD_ISA_SCALAR_FMA;
  if (fma && f16c) set |= RD_ISA_AVX2;
  if (fma && f16c && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    set |= RD_ISA_AVX512;
  if ((set & RD_ISA_AVX512) && tiles_usable()) set |= RD_ISA_AMX;
#elif defined(__aarch64__)
  set |= RD_ISA_NEON;
#endif
  return set;
}

const char *isa_name(uint32_t isa) {
  static const char *const names[] = {"scalar", "scalar_fma", "avx2", "avx512", "neon", "amx"};
  for (uint32_t i = 0; i < 6; i++)
    if (isa == 1u << i) return names[i];
  if (isa == RD_ISA_SOFT) return "soft";
  return "?";
}

int harness_wants(const harness *h, const rdi_kernel_entry *e) {
  if ((e->isa & h->isa) == 0) return 0;
  return h->function == NULL || strcmp(h->function, rdi_slot_name(e->slot)) == 0 ||
         strcmp(h->function, e->name) == 0;
}

void harness_pass(harness *h) { h->tally.passed++; }

void harness_fail(harness *h, const rdi_kernel_entry *e, int64_t index, const char *format, ...) {
  h->tally.failed++;
  if (h->quiet || h->tally.failed > SHOWN) return;
  va_list list;
  va_start(list, format);
  printf("FAILED %s: ", e->name);
  vprintf(format, list);
  va_end(list);
  printf("\n  repeat: %s --function %s --isa %s --seed %llu --repeat %d%s --case %lld\n", h->self,
         e->name, isa_name(e->isa), (unsigned long long)h->seed, h->repeat, h->all ? " --all" : "",
         (long long)index);
}

/* ---- guarded memory ---- */

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void buffer_make(buffer *b, size_t capacity) {
  const size_t page = page_size();
  memset(b, 0, sizeof *b);
  b->capacity = (capacity + page - 1) / page * page;
  char *map = mmap(NULL, b->capacity + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  b->want_window = malloc(b->capacity);
  if (map == MAP_FAILED || b->want_window == NULL ||
      mprotect(map + page, b->capacity, PROT_READ | PROT_WRITE) != 0) {
    perror("harness");
    exit(3);
  }
  b->region = map + page;
}

void buffer_free(buffer *b) {
  munmap(b->region - page_size(), b->capacity + 2 * page_size());
  free(b->want_window);
}

void buffer_place(buffer *b, size_t bytes, size_t align, rng *g) {
  if (bytes > b->capacity) abort();
  const size_t room = b->capacity - bytes;
  const size_t at = rng_below(g, 2) ? room / align * align : 0;
  b->bytes = bytes;
  b->got = b->region + at;
  b->before = at < WINDOW ? at : WINDOW;
  b->after = room - at < WINDOW ? room - at : WINDOW;
  b->want = b->want_window + b->before;
  const uint32_t canary = CANARY;
  for (size_t i = 0; i < b->before + bytes + b->after;
       i++) /* the pattern is anchored at the data */
    b->want_window[i] = ((const char *)&canary)[(i + WINDOW - b->before) % 4];
}

void buffer_sync(buffer *b) {
  memcpy(b->got - b->before, b->want_window, b->before + b->bytes + b->after);
}

static uint32_t element(const char *p, rd_dtype dtype) {
  uint32_t w = 0;
  memcpy(&w, p, dtype == RD_F32 ? 4 : 2);
  return w;
}

static int is_nan(uint32_t w, rd_dtype dtype) {
  if (dtype == RD_F32) return (w & 0x7fffffff) > 0x7f800000;
  return (w & 0x7fff) > (dtype == RD_F16 ? 0x7c00u : 0x7f80u);
}

int64_t buffer_differs(const buffer *b, rd_dtype dtype) {
  const size_t window = b->before + b->bytes + b->after, size = dtype == RD_F32 ? 4 : 2;
  if (memcmp(b->got - b->before, b->want_window, window) == 0) return INT64_MIN;
  for (size_t i = 0; i < b->before; i++)
    if (b->got[(ptrdiff_t)i - (ptrdiff_t)b->before] != b->want_window[i])
      return -1 - (int64_t)((b->before - 1 - i) / size);
  for (size_t i = 0; i + size <= b->bytes; i += size) {
    const uint32_t x = element(b->got + i, dtype), y = element(b->want + i, dtype);
    const int canary = dtype == RD_F32 && (y == CANARY || x == CANARY);
    if (x != y && (canary || !is_nan(x, dtype) || !is_nan(y, dtype))) return (int64_t)(i / size);
  }
  for (size_t i = b->bytes; i < b->bytes + b->after; i++)
    if (b->got[i] != b->want[i]) return (int64_t)(i / size);
  return INT64_MIN;
}

/* ---- calls ---- */

static sigjmp_buf escape;
static volatile sig_atomic_t armed;

static void on_signal(int number) {
  if (armed) siglongjmp(escape, number);
  signal(number, SIG_DFL);
  raise(number);
}

static uint64_t fp_control(void) {
#if defined(__x86_64__)
  uint16_t x87;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (_mm_getcsr() & ~0x3fu) | (uint64_t)x87 << 32;
#elif defined(__aarch64__)
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#else
  return 0;
#endif
}

static void fp_restore(uint64_t control) {
#if defined(__x86_64__)
  const uint16_t x87 = (uint16_t)(control >> 32);
  __asm__ volatile("fldcw %0" : : "m"(x87));
  _mm_setcsr((uint32_t)control);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
#else
  (void)control;
#endif
}

const char *guarded_call(void (*fn)(void *), void *arg) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
  static int installed;
  if (!installed) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
      sigaction(signals[i], &action, NULL);
    installed = 1;
  }
  rdi_fpenv env;
  rdi_fpenv_enter(&env);
  const uint64_t control = fp_control();
  const int number = sigsetjmp(escape, 1);
  if (number == 0) {
    armed = 1;
    fn(arg);
  }
  armed = 0;
  const int changed = fp_control() != control;
  fp_restore(control);
  rdi_fpenv_leave(&env);
  if (number == SIGSEGV || number == SIGBUS) return "touches memory outside of its buffers";
  if (number == SIGILL) return "illegal instruction";
  if (number != 0) return "stopped by a signal";
  return changed ? "changes the floating point environment" : NULL;
}

/* ---- inputs ---- */

float input(rng *g, input_class c) {
  const double x = rng_normal(g);
  const int64_t dice = rng_below(g, 16);
  switch (c) {
  case IN_SPREAD:
    return (float)ldexp(x, (int)rng_below(g, 61) - 30);
  case IN_DENORMAL:
    return (float)(dice == 0 ? x : x * 1e-40);
  case IN_BORDER: { /* (1+j)(1-j) 2^-126 rounds up to 2^-126; 2^-126 itself, its neighbours, ordinary */
    static const float near[] = {0x1p-63f,  0x1p-63f,  0x1p-63f, 0x1p-126f,
                                 0x1p-125f, 0x1p-103f, 1.0f};
    const float at = near[rng_below(g, (int64_t)(sizeof near / sizeof near[0]))];
    const float j = (float)(rng_below(g, 7) - 3) * 0x1p-23f;
    return (x < 0 ? -at : at) * (dice < 12 ? 1.0f + j : (float)(1 + 0.5 * fabs(x)));
  }
  case IN_HUGE:
    return (float)(dice < 8 ? x : x * 1e30);
  case IN_ZEROS:
    return dice < 7 ? 0.0f : dice < 14 ? -0.0f : (float)x;
  case IN_SPECIAL:
    if (rng_below(g, 64) != 0) return (float)x;
    return dice < 6 ? NAN : dice < 11 ? INFINITY : -INFINITY;
  case IN_BITS: {
    const uint32_t u = (uint32_t)rng_u64(g);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
  }
  case IN_NORMAL:
  case IN_CLASSES:
    break;
  }
  return (float)x;
}

void inputs(float *dst, int64_t n, rng *g, input_class c) {
  for (int64_t i = 0; i < n; i++) dst[i] = input(g, c);
}

/* Every K around the 16-key columns and the row widths of all vectors, then the usual big ones. */
const int16_t shape_K[] = {1,  2,  3,  4,  5,  6,  7,   8,   9,   10,  11,  12,  13,  14, 15,
                           16, 17, 18, 19, 20, 21, 22,  23,  24,  25,  26,  27,  28,  29, 30,
                           31, 32, 33, 34, 35, 36, 37,  38,  39,  40,  41,  42,  43,  44, 45,
                           46, 47, 48, 49, 50, 51, 52,  53,  54,  55,  56,  57,  58,  59, 60,
                           61, 62, 63, 64, 65, 66, 67,  68,  69,  70,  71,  72,  73,  74, 75,
                           76, 77, 78, 79, 80, 96, 100, 128, 160, 200, 256, 511, 512, 0};
const int16_t shape_R[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,  13, 14, 15,
                           16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,  28, 29, 30,
                           31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 64, 128, 0};
