/* State pools: what the helpers do, and their errors. SPDX-License-Identifier: Apache-2.0 */
#include "misuse.h"

static rd_context *cx;

typedef struct made {
  rd_tensor t;
  size_t bytes;
} made;

static made alloc(int64_t slots, int64_t Hv, int64_t V, int64_t K, rd_state_layout l, rd_dtype dt) {
  made m;
  memset(&m, 0, sizeof m);
  CK_OK(cx, rd_pool_alloc(cx, slots, Hv, V, K, l, dt, &m.t));
  m.bytes = Z(m.t.shape[0] * m.t.stride[0]) * rd_dtype_size(dt);
  return m;
}

static void fill(const rd_tensor *t) {
  for (int64_t s = 0; s < t->shape[0]; s++)
    for (int64_t h = 0; h < t->shape[1]; h++)
      for (int64_t i = 0; i < t->shape[2]; i++)
        for (int64_t j = 0; j < t->shape[3]; j++) tb_set(t, s, h, i, j, (float)rng_normal());
}

static void slot_floats(const rd_tensor *t, int64_t slot, float *dst) {
  int64_t n = 0;
  for (int64_t h = 0; h < t->shape[1]; h++)
    for (int64_t i = 0; i < t->shape[2]; i++)
      for (int64_t j = 0; j < t->shape[3]; j++) dst[n++] = tb_get(t, slot, h, i, j);
}

static void allocate(void) {
  cx = cx_get(0, 1, EX_POOL);
  for (int l = RD_STATE_VK; l <= RD_STATE_KV; l++)
    for (int dt = RD_F32; dt <= RD_BF16; dt++) {
      made m = alloc(5, 3, 7, 9, (rd_state_layout)l, (rd_dtype)dt);
      int64_t a = l == RD_STATE_VK ? 7 : 9, b = 16 - a;
      CK(m.t.dtype == dt && m.t.rank == 4 && m.t.shape[0] == 5 && m.t.shape[1] == 3 &&
             m.t.shape[2] == a && m.t.shape[3] == b,
         "shape of the pool");
      CK((uintptr_t)m.t.data % 64 == 0 && Z(m.t.stride[0]) * rd_dtype_size((rd_dtype)dt) % 64 == 0,
         "alignment");
      CK(m.t.stride[0] >= 3 * 63 && m.t.stride[1] == 63 && m.t.stride[2] == b && m.t.stride[3] == 1,
         "strides");
      float got[189], want[189] = {0};
      for (int s = 0; s < 5; s++) {
        slot_floats(&m.t, s, got);
        ck_bits("a fresh slot", got, want, 189);
      }
      CK_OK(cx, rd_pool_free(cx, &m.t));
    }
  made big = alloc(600, 4, 64, 64, RD_STATE_VK, RD_F32); /* large enough for huge pages */
  float *got = fl(4 * 64 * 64), *want = fl(4 * 64 * 64);
  CK((uintptr_t)big.t.data % (2u << 20) == 0, "a large pool is not aligned to 2 MiB");
  slot_floats(&big.t, 599, got);
  ck_bits("the last slot", got, want, 4 * 64 * 64);
  big.t.dtype = RD_ABSENT; /* memory whose type is forgotten is not freed and not lost */
  refused("free without a type", cx, rd_pool_free(cx, &big.t), RD_E_DTYPE, "pool");
  big.t.dtype = RD_F32;
  CK_OK(cx, rd_pool_free(cx, &big.t));
  CK(big.t.dtype == RD_ABSENT && !big.t.data, "a freed pool is not absent");
  CK_OK(cx, rd_pool_free(cx, &big.t));
}

static void reset_and_copy(void) {
  cx = cx_get(0, 1, EX_POOL);
  made m = alloc(4, 2, 5, 6, RD_STATE_VK, RD_F16);
  fill(&m.t);
  unsigned char *before = mem_heap(m.bytes), *now = m.t.data;
  size_t slot = Z(m.t.stride[0]) * 2, packed = 2 * 5 * 6 * 2;
  memcpy(before, now, m.bytes);
  CK_OK(cx, rd_pool_copy(cx, &m.t, 1, 3));
  memcpy(before + 3 * slot, before + slot, packed);
  ck_bytes("copy", now, before, m.bytes);
  CK_OK(cx, rd_pool_copy(cx, &m.t, 2, 2));
  ck_bytes("copy onto itself", now, before, m.bytes);
  CK_OK(cx, rd_pool_reset(cx, &m.t, 0));
  memset(before, 0, packed);
  ck_bytes("reset", now, before, m.bytes);
  refused("reset -1", cx, rd_pool_reset(cx, &m.t, -1), RD_E_SLOT_RANGE, "slot");
  refused("reset 4", cx, rd_pool_reset(cx, &m.t, 4), RD_E_SLOT_RANGE, "slot");
  refused("copy from 4", cx, rd_pool_copy(cx, &m.t, 4, 0), RD_E_SLOT_RANGE, "from");
  refused("copy to -1", cx, rd_pool_copy(cx, &m.t, 0, -1), RD_E_SLOT_RANGE, "to");
  refused("copy 9 onto itself", cx, rd_pool_copy(cx, &m.t, 9, 9), RD_E_SLOT_RANGE, "from|to");
  refused("reset of no pool", cx, rd_pool_reset(cx, NULL, 0), RD_E_NULL, "pool");
  refused("copy of no pool", cx, rd_pool_copy(cx, NULL, 0, 1), RD_E_NULL, "pool");
  CK(rd_pool_reset(NULL, &m.t, 0) == RD_E_NULL && rd_pool_copy(NULL, &m.t, 0, 1) == RD_E_NULL,
     "no context");
  rd_tensor bad = m.t;
  bad.rank = 3;
  refused("reset of rank 3", cx, rd_pool_reset(cx, &bad, 0), RD_E_RANK, "pool");
  bad = m.t;
  bad.dtype = RD_I32;
  refused("copy of integers", cx, rd_pool_copy(cx, &bad, 0, 1), RD_E_DTYPE, "pool");
  bad = rd_tensor_contiguous(m.t.data, RD_F16, 4, (int64_t[]){1, 1, 1, 513});
  refused("reset of 513 keys", cx, rd_pool_reset(cx, &bad, 0), RD_E_SHAPE, "pool");
  bad = m.t;
  bad.stride[0] = 3;
  refused("reset of overlapping slots", cx, rd_pool_reset(cx, &bad, 0), RD_E_STRIDE, "pool");
  ck_bytes("after the refusals", now, before, m.bytes);
  CK_OK(cx, rd_pool_free(cx, &m.t));
}

static void alloc_errors(void) {
  cx = cx_get(0, 1, EX_POOL);
  rd_tensor t, kept;
  memset(&t, 0x5a, sizeof t);
  kept = t;
#define NO(name, want, word, ...) refused(name, cx, rd_pool_alloc(cx, __VA_ARGS__), want, word)
  NO("no pool", RD_E_NULL, "pool", 1, 1, 1, 1, RD_STATE_VK, RD_F32, NULL);
  NO("slots -1", RD_E_SHAPE, "slots", -1, 1, 1, 1, RD_STATE_VK, RD_F32, &t);
  NO("Hv 0", RD_E_HEADS, "Hv", 1, 0, 1, 1, RD_STATE_VK, RD_F32, &t);
  NO("V 0", RD_E_SHAPE, "V", 1, 1, 0, 1, RD_STATE_VK, RD_F32, &t);
  NO("K 513", RD_E_SHAPE, "K", 1, 1, 1, 513, RD_STATE_VK, RD_F32, &t);
  NO("layout 3", RD_E_ENUM, "layout", 1, 1, 1, 1, (rd_state_layout)3, RD_F32, &t);
  NO("integers", RD_E_DTYPE, "dtype", 1, 1, 1, 1, RD_STATE_VK, RD_I32, &t);
  NO("2^60 slots", RD_E_OVERFLOW, NULL, INT64_C(1) << 60, 8, 64, 64, RD_STATE_VK, RD_F32, &t);
  CK(rd_pool_alloc(NULL, 1, 1, 1, 1, RD_STATE_VK, RD_F32, &t) == RD_E_NULL, "no context");
  ck_bytes("the tensor after the refusals", &t, &kept, sizeof t);
  refused("free of nothing", cx, rd_pool_free(cx, NULL), RD_E_NULL, "pool");
}

static void convert(void) {
  cx = cx_get(0, 2, EX_POOL);
  for (int from = RD_F32; from <= RD_BF16; from++)
    for (int to = RD_F32; to <= RD_BF16; to++)
      for (int ls = RD_STATE_VK; ls <= RD_STATE_KV; ls++)
        for (int ld = RD_STATE_VK; ld <= RD_STATE_KV; ld++) {
          pt_note("type %d to %d, layout %d to %d", from, to, ls, ld);
          made a = alloc(3, 2, 5, 7, (rd_state_layout)ls, (rd_dtype)from),
               b = alloc(3, 2, 5, 7, (rd_state_layout)ld, (rd_dtype)to);
          fill(&a.t);
          CK_OK(cx, rd_pool_convert(cx, &a.t, (rd_state_layout)ls, &b.t, (rd_state_layout)ld));
          float got[210], want[210];
          int n = 0;
          for (int s = 0; s < 3; s++)
            for (int h = 0; h < 2; h++)
              for (int v = 0; v < 5; v++)
                for (int k = 0; k < 7; k++, n++) {
                  want[n] = dt_round((rd_dtype)to, ls == RD_STATE_VK ? tb_get(&a.t, s, h, v, k)
                                                                     : tb_get(&a.t, s, h, k, v));
                  got[n] = ld == RD_STATE_VK ? tb_get(&b.t, s, h, v, k) : tb_get(&b.t, s, h, k, v);
                }
          ck_bits("converted", got, want, n);
          CK_OK(cx, rd_pool_free(cx, &a.t));
          CK_OK(cx, rd_pool_free(cx, &b.t));
        }
  made a = alloc(3, 2, 5, 7, RD_STATE_VK, RD_F32), b = alloc(3, 2, 5, 7, RD_STATE_VK, RD_F32),
       c = alloc(2, 2, 5, 7, RD_STATE_VK, RD_F32);
  fill(&b.t);
  unsigned char *before = mem_heap(b.bytes);
  memcpy(before, b.t.data, b.bytes);
#define CONV(name, want, word, ...) refused(name, cx, rd_pool_convert(cx, __VA_ARGS__), want, word)
  CONV("no src", RD_E_NULL, "src", NULL, RD_STATE_VK, &b.t, RD_STATE_VK);
  CONV("no dst", RD_E_NULL, "dst", &a.t, RD_STATE_VK, NULL, RD_STATE_VK);
  CONV("src layout 0", RD_E_ENUM, "src_layout", &a.t, (rd_state_layout)0, &b.t, RD_STATE_VK);
  CONV("dst layout 3", RD_E_ENUM, "dst_layout", &a.t, RD_STATE_VK, &b.t, (rd_state_layout)3);
  CONV("other slot count", RD_E_SHAPE, "src|dst", &c.t, RD_STATE_VK, &b.t, RD_STATE_VK);
  CONV("other shape", RD_E_SHAPE, "src|dst", &a.t, RD_STATE_KV, &b.t, RD_STATE_VK);
  CONV("onto itself", RD_E_ALIAS, "src|dst", &b.t, RD_STATE_VK, &b.t, RD_STATE_VK);
  rd_tensor bad = a.t;
  bad.dtype = RD_I64;
  CONV("of integers", RD_E_DTYPE, "src", &bad, RD_STATE_VK, &b.t, RD_STATE_VK);
  CK(rd_pool_convert(NULL, &a.t, RD_STATE_VK, &b.t, RD_STATE_VK) == RD_E_NULL, "no context");
  ck_bytes("dst after the refusals", b.t.data, before, b.bytes);
  CK_OK(cx, rd_pool_free(cx, &a.t));
  CK_OK(cx, rd_pool_free(cx, &b.t));
  CK_OK(cx, rd_pool_free(cx, &c.t));
}

static void save_and_load(void) {
  cx = cx_get(0, 1, EX_POOL);
  made m = alloc(3, 2, 5, 7, RD_STATE_VK, RD_F32), kv = alloc(3, 2, 7, 5, RD_STATE_KV, RD_F32),
       h = alloc(3, 2, 5, 7, RD_STATE_VK, RD_F16), w = alloc(3, 2, 5, 8, RD_STATE_VK, RD_F32);
  fill(&m.t);
  size_t n = 0;
  CK_OK(cx, rd_pool_save_size(cx, &m.t, &n));
  CK(n >= 2 * 5 * 7 * 4 && n < 2 * 5 * 7 * 4 + 512, "save size %zu", n);
  blk *b = mem_guarded(n);
  CK_OK(cx, rd_pool_save(cx, &m.t, RD_STATE_VK, 1, b->p, n));
  unsigned char *image = blk_copy(b), *before = mem_heap(m.bytes);
  memcpy(before, m.t.data, m.bytes);
  size_t slot = Z(m.t.stride[0]) * 4;
  mem_readonly(b);
  CK_OK(cx, rd_pool_load(cx, &m.t, RD_STATE_VK, 2, b->p, n));
  memcpy(before + 2 * slot, before + slot, 280);
  ck_bytes("loaded", m.t.data, before, m.bytes);
#define NOT(name, want, word, call) refused(name, cx, call, want, word)
  NOT("size of no pool", RD_E_NULL, "pool", rd_pool_save_size(cx, NULL, &n));
  NOT("size to nowhere", RD_E_NULL, "bytes", rd_pool_save_size(cx, &m.t, NULL));
  NOT("save slot 3", RD_E_SLOT_RANGE, "slot", rd_pool_save(cx, &m.t, RD_STATE_VK, 3, image, n));
  NOT("save into too little", RD_E_BUFFER, "buffer|bytes",
      rd_pool_save(cx, &m.t, RD_STATE_VK, 0, image, n - 1));
  NOT("save to nowhere", RD_E_NULL, "buffer", rd_pool_save(cx, &m.t, RD_STATE_VK, 0, NULL, n));
  NOT("save layout 0", RD_E_ENUM, "layout",
      rd_pool_save(cx, &m.t, (rd_state_layout)0, 0, image, n));
  NOT("save into the pool itself", RD_E_ALIAS, NULL,
      rd_pool_save(cx, &m.t, RD_STATE_VK, 0, (char *)m.t.data + slot, n));
  NOT("load slot -1", RD_E_SLOT_RANGE, "slot", rd_pool_load(cx, &m.t, RD_STATE_VK, -1, b->p, n));
  NOT("load from nowhere", RD_E_NULL, "buffer", rd_pool_load(cx, &m.t, RD_STATE_VK, 0, NULL, n));
  NOT("load a truncated image", RD_E_BUFFER, "buffer|bytes",
      rd_pool_load(cx, &m.t, RD_STATE_VK, 0, b->p + 0, n - 1));
  NOT("load nothing", RD_E_BUFFER, "buffer|bytes", rd_pool_load(cx, &m.t, RD_STATE_VK, 0, b->p, 0));
  NOT("load another shape", RD_E_BUFFER, NULL, rd_pool_load(cx, &w.t, RD_STATE_VK, 0, b->p, n));
  NOT("load another type", RD_E_BUFFER, NULL, rd_pool_load(cx, &h.t, RD_STATE_VK, 0, b->p, n));
  NOT("load another layout", RD_E_BUFFER, NULL, rd_pool_load(cx, &kv.t, RD_STATE_KV, 0, b->p, n));
  ck_bytes("image after refusals", image, b->p, n);
  for (size_t i = 0; i < n; i++) { /* every single byte is covered: header, checksum or state */
    unsigned char *x = mem_heap(n);
    memcpy(x, b->p, n);
    x[i] = (unsigned char)(x[i] ^ (1u << (i % 8)));
    CK(rd_pool_load(cx, &m.t, RD_STATE_VK, 0, x, n) == RD_E_BUFFER,
       "a flipped bit in byte %zu is not seen", i);
  }
  ck_bytes("pool after the refusals", m.t.data, before, m.bytes);
  made *all[] = {&m, &kv, &h, &w};
  for (int i = 0; i < 4; i++) CK_OK(cx, rd_pool_free(cx, &all[i]->t));
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"allocate", allocate, PT_QUICK},
      {"alloc_errors", alloc_errors, PT_QUICK},
      {"reset_and_copy", reset_and_copy, PT_QUICK},
      {"convert", convert, PT_QUICK},
      {"save_and_load", save_and_load, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_pools", cases, PT_LEN(cases));
}
