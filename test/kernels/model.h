/* The rule of C2 in integers, without one floating-point operation: exact value, rounding to 24 bits
 * with an unbounded exponent, tiny to zero, too large to infinity. What the operations of util/c2.h
 * and of the processors are compared with. */
#ifndef RDT_MODEL_H
#define RDT_MODEL_H

#include <stdint.h>

typedef unsigned __int128 wide;

enum { M_QUIET = 0x7fc00000 };

typedef struct number { /* (-1)^sign m 2^e; kind 0: finite (m may be 0), 1: infinite, 2: NaN */
  int kind, sign, e;
  wide m;
} number;

static inline number m_read(uint32_t u) {
  const int field = (int)(u >> 23 & 255);
  const uint32_t f = u & 0x7fffff;
  number x = {.sign = (int)(u >> 31), .e = field - 150, .m = f | 0x800000};
  if (field == 255) x.kind = f ? 2 : 1;
  if (field == 0) x.m = 0; /* a subnormal reads as zero */
  return x;
}

static inline int m_length(wide m) {
  int n = 0;
  for (; m; m >>= 1) n++;
  return n;
}

/* Rounds to nearest even; the lowest bit of m may be sticky when m has more than 26 bits. */
static inline uint32_t m_write(number x) {
  const uint32_t sign = (uint32_t)x.sign << 31;
  if (x.kind == 2) return M_QUIET;
  if (x.kind == 1) return sign | 0x7f800000;
  if (x.m == 0) return sign;
  const int drop = m_length(x.m) - 24;
  if (drop > 0) {
    const wide half = (wide)1 << (drop - 1), rest = x.m & (((wide)1 << drop) - 1);
    x.m >>= drop, x.e += drop;
    if (rest > half || (rest == half && (x.m & 1))) x.m++;
    if (x.m >> 24) x.m >>= 1, x.e++;
  } else {
    x.m <<= -drop, x.e += drop;
  }
  const int field = x.e + 150;
  if (field < 1) return sign;
  if (field > 254) return sign | 0x7f800000;
  return sign | (uint32_t)field << 23 | ((uint32_t)x.m & 0x7fffff);
}

static inline number m_product(number a, number b) {
  number x = {.sign = a.sign ^ b.sign, .e = a.e + b.e, .m = a.m * b.m};
  const int zero = (a.kind == 0 && a.m == 0) || (b.kind == 0 && b.m == 0);
  if (a.kind == 2 || b.kind == 2 || ((a.kind == 1 || b.kind == 1) && zero))
    x.kind = 2;
  else if (a.kind == 1 || b.kind == 1)
    x.kind = 1;
  return x;
}

static inline number m_sum(number a, number b) {
  if (a.kind == 2 || b.kind == 2 || (a.kind == 1 && b.kind == 1 && a.sign != b.sign))
    return (number){.kind = 2};
  if (a.kind == 1) return a;
  if (b.kind == 1) return b;
  if (a.m == 0 && b.m == 0) return (number){.sign = a.sign & b.sign};
  if (a.m == 0) return b;
  if (b.m == 0) return a;
  /* The leading bits at 120, the smaller one shifted down from there with a sticky last bit. */
  const int la = 121 - m_length(a.m), lb = 121 - m_length(b.m);
  a.m <<= la, a.e -= la, b.m <<= lb, b.e -= lb;
  if (a.e < b.e || (a.e == b.e && a.m < b.m)) {
    const number t = a;
    a = b, b = t;
  }
  const int d = a.e - b.e;
  const wide down = d > 126 ? 0 : b.m >> d;
  b.m = down | (d > 126 || down << d != b.m);
  number x = {.sign = a.sign, .e = a.e, .m = a.sign == b.sign ? a.m + b.m : a.m - b.m};
  if (x.m == 0) x.sign = 0;
  return x;
}

static inline uint32_t m_mul(uint32_t a, uint32_t b) {
  return m_write(m_product(m_read(a), m_read(b)));
}
static inline uint32_t m_add(uint32_t a, uint32_t b) {
  return m_write(m_sum(m_read(a), m_read(b)));
}
static inline uint32_t m_fma(uint32_t a, uint32_t b, uint32_t c) {
  return m_write(m_sum(m_product(m_read(a), m_read(b)), m_read(c)));
}

static inline uint32_t m_div(uint32_t x, uint32_t y) {
  const number a = m_read(x), b = m_read(y);
  number r = {.sign = a.sign ^ b.sign, .e = a.e - b.e - 60};
  const int a0 = a.kind == 0 && a.m == 0, b0 = b.kind == 0 && b.m == 0;
  if (a.kind == 2 || b.kind == 2 || (a.kind == 1 && b.kind == 1) || (a0 && b0))
    r.kind = 2;
  else if (a.kind == 1 || b0)
    r.kind = 1;
  else if (b.kind == 0)
    r.m = (a.m << 60) / b.m | ((a.m << 60) % b.m != 0);
  return m_write(r);
}

static inline uint32_t m_sqrt(uint32_t x) {
  number a = m_read(x);
  if (a.kind == 2 || (a.sign && (a.kind == 1 || a.m != 0))) return M_QUIET;
  if (a.kind == 1 || a.m == 0) return m_write(a);
  const int shift = 76 + (a.e & 1);
  a.m <<= shift, a.e -= shift;
  wide root = 0;
  for (wide bit = (wide)1 << 60; bit; bit >>= 1)
    if ((root | bit) * (root | bit) <= a.m) root |= bit;
  return m_write((number){.e = a.e / 2 - 1, .m = root << 1 | (root * root != a.m), .sign = 0});
}

/* p 2^n */
static inline uint32_t m_scale(uint32_t p, int n) {
  number a = m_read(p);
  a.e += n;
  return m_write(a);
}

/* A double, its subnormals read as zeros, to f32. */
static inline uint32_t m_narrow(uint64_t u) {
  const int field = (int)(u >> 52 & 2047);
  const uint64_t f = u & 0xfffffffffffffu;
  number x = {.sign = (int)(u >> 63), .e = field - 1075, .m = f | 0x10000000000000u};
  if (field == 2047) x.kind = f ? 2 : 1;
  if (field == 0) x.m = 0;
  return m_write(x);
}

#endif
