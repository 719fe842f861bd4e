/* Guarded memory, element types and tensors. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit.h"

typedef struct taken {
  blk *b; /* or */
  void *heap;
} taken;
static taken *list;
static size_t count, capacity;

static void remember(blk *b, void *heap) {
  if (count == capacity) {
    capacity = capacity ? 2 * capacity : 256;
    list = realloc(list, capacity * sizeof *list);
    if (!list) abort();
  }
  list[count++] = (taken){b, heap};
}

enum { CANARY = 64 };

blk *mem_guarded(size_t bytes) {
  size_t page = Z(sysconf(_SC_PAGESIZE));
  size_t body = (bytes + CANARY + page - 1) / page * page;
  blk *b = malloc(sizeof *b);
  if (!b) abort();
  b->map_bytes = body + 2 * page;
  b->data_pages_bytes = body;
  b->map = mmap(NULL, b->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (b->map == MAP_FAILED) {
    perror("mmap");
    abort();
  }
  unsigned char *first = (unsigned char *)b->map + page;
  if (mprotect(first, body, PROT_READ | PROT_WRITE)) abort();
  b->bytes = bytes;
  b->p = first + body - bytes;
  memset(b->p - CANARY, 0xc5, CANARY);
  memset(b->p, 0xff, bytes);
  remember(b, NULL);
  return b;
}

bool mem_canary_ok(const blk *b) {
  for (int i = 1; i <= CANARY; i++)
    if (b->p[-i] != 0xc5) return false;
  return true;
}

static void protect(const blk *b, int prot) {
  if (mprotect((unsigned char *)b->map + sysconf(_SC_PAGESIZE), b->data_pages_bytes, prot)) abort();
}

void mem_readonly(const blk *b) { protect(b, PROT_READ); }
void mem_writable(const blk *b) { protect(b, PROT_READ | PROT_WRITE); }

void *mem_heap(size_t bytes) {
  void *p = calloc(1, bytes ? bytes : 1);
  if (!p) abort();
  remember(NULL, p);
  return p;
}

size_t mem_mark(void) { return count; }

void mem_release(size_t mark) {
  while (count > mark) {
    taken *t = &list[--count];
    if (t->b) {
      if (!mem_canary_ok(t->b)) pt_fail("bytes before a tensor were written");
      munmap(t->b->map, t->b->map_bytes);
      free(t->b);
    }
    free(t->heap);
  }
}

void *blk_copy(const blk *b) {
  void *p = mem_heap(b->bytes);
  memcpy(p, b->p, b->bytes);
  return p;
}

float *fl(int64_t n) { return mem_heap(Z(n) * sizeof(float)); }
double *db(int64_t n) { return mem_heap(Z(n) * sizeof(double)); }

float *fl_copy(const float *x, int64_t n) {
  float *y = fl(n);
  if (n > 0) memcpy(y, x, Z(n) * sizeof(float));
  return y;
}

double *db_from(const float *x, int64_t n) {
  double *y = db(n);
  for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
  return y;
}

void round_all(rd_dtype t, float *x, int64_t n) {
  for (int64_t i = 0; t != RD_F32 && i < n; i++) x[i] = dt_round(t, x[i]);
}

/* ------------------------------------------------------------------ element types ------------ */
static uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}

static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* Through exact double arithmetic, so that it shares no trick with an integer conversion. */
static uint16_t to_f16(float x) {
  uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000);
  double v = fabs((double)x);
  if (v != v) return (uint16_t)(sign | 0x7e00);
  if (v >= 65520) return (uint16_t)(sign | 0x7c00);
  if (v < 0x1p-14) return (uint16_t)(sign | (uint16_t)nearbyint(v * 0x1p24));
  int e = ilogb(v);
  int m = (int)nearbyint(ldexp(v, 10 - e));
  return (uint16_t)(sign | (uint16_t)(((e + 15) << 10) + (m - 1024)));
}

static float from_f16(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
  return (float)(h & 0x8000 ? -v : v);
}

static uint16_t to_bf16(float x) {
  uint32_t u = bits_of(x);
  if (x != x) return (uint16_t)(u >> 16 | 0x40);
  uint32_t up = u >> 16, rest = u & 0xffff;
  if (rest > 0x8000 || (rest == 0x8000 && (up & 1))) up++;
  return (uint16_t)up;
}

float dt_load(rd_dtype t, const void *p) {
  float x;
  uint16_t h;
  if (t == RD_F32) {
    memcpy(&x, p, 4);
    return x;
  }
  memcpy(&h, p, 2);
  return t == RD_F16 ? from_f16(h) : float_of((uint32_t)h << 16);
}

void dt_store(rd_dtype t, void *p, float x) {
  if (t == RD_F32) {
    memcpy(p, &x, 4);
    return;
  }
  uint16_t h = t == RD_F16 ? to_f16(x) : to_bf16(x);
  memcpy(p, &h, 2);
}

float dt_round(rd_dtype t, float x) {
  unsigned char b[4];
  dt_store(t, b, x);
  return dt_load(t, b);
}

double dt_half_ulp(rd_dtype t, double x) {
  if (t == RD_F32 || x == 0 || !isfinite(x)) return t == RD_F16 ? 0x1p-25 : 0;
  int e = ilogb(x), p = t == RD_F16 ? 11 : 8, lo = t == RD_F16 ? -14 : -126;
  /* A value just below a power of two may round up into it; its own ulp covers that. */
  return ldexp(1, (e < lo ? lo : e) - p);
}

/* ------------------------------------------------------------------ tensors ------------------ */
tb tb_make(rd_dtype dtype, int rank, const int64_t *shape, const int64_t *stride) {
  tb r;
  r.t = rd_tensor_contiguous(NULL, dtype, rank, shape);
  int64_t last = 0, n = 1;
  for (int i = 0; i < rank; i++) {
    if (stride) r.t.stride[i] = stride[i];
    last += (shape[i] - 1) * r.t.stride[i];
    n *= shape[i];
  }
  r.b = mem_guarded(n ? Z(last + 1) * rd_dtype_size(dtype) : 0);
  r.t.data = r.b->p;
  return r;
}

tb tb_i32(int64_t n, const int32_t *values) {
  tb r = tb_make(RD_I32, 1, &n, NULL);
  if (n) memcpy(r.b->p, values, Z(n) * 4);
  mem_readonly(r.b);
  return r;
}

tb tb_i64(int64_t n, const int64_t *values) {
  tb r = tb_make(RD_I64, 1, &n, NULL);
  if (n) memcpy(r.b->p, values, Z(n) * 8);
  mem_readonly(r.b);
  return r;
}

void *tb_at(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l) {
  int64_t at[4] = {i, j, k, l}, off = 0;
  for (int x = 0; x < t->rank; x++) off += at[x] * t->stride[x];
  return (unsigned char *)t->data + off * (int64_t)rd_dtype_size(t->dtype);
}

float tb_get(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l) {
  return dt_load(t->dtype, tb_at(t, i, j, k, l));
}

void tb_set(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t l, float x) {
  dt_store(t->dtype, tb_at(t, i, j, k, l), x);
}

static int64_t inner_step(const rd_tensor *t) {
  return t->stride[t->rank - 1] * (int64_t)rd_dtype_size(t->dtype);
}

void tb_get_row(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t n, float *dst) {
  int64_t at[4] = {i, j, k, 0};
  at[t->rank - 1] = 0;
  const unsigned char *p = tb_at(t, at[0], at[1], at[2], at[3]);
  for (int64_t x = 0; x < n; x++) dst[x] = dt_load(t->dtype, p + x * inner_step(t));
}

void tb_set_row(const rd_tensor *t, int64_t i, int64_t j, int64_t k, int64_t n, const float *src) {
  int64_t at[4] = {i, j, k, 0};
  at[t->rank - 1] = 0;
  unsigned char *p = tb_at(t, at[0], at[1], at[2], at[3]);
  for (int64_t x = 0; x < n; x++) dt_store(t->dtype, p + x * inner_step(t), src[x]);
}
