/* State pools: allocation, reset, copy, conversion, and the saved form. */
#include "unit.h"

static int setup(void **state) { return rd_context_create(NULL, (rd_context **)state) != RD_OK; }
static int teardown(void **state) {
  rd_context_destroy(*state);
  return 0;
}

enum { SLOTS = 3, HV = 2, V = 5, K = 7 };

static float *slot_at(const rd_tensor *pool, int64_t slot) {
  return (float *)pool->data + slot * pool->stride[0];
}

static rd_tensor filled(rd_context *ctx, rd_state_layout layout, uint64_t seed) {
  rd_tensor pool;
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, SLOTS, HV, V, K, layout, RD_F32, &pool));
  for (int64_t s = 0; s < SLOTS; s++)
    fill_random(slot_at(&pool, s), HV * V * K, seed + (uint64_t)s);
  return pool;
}

static void allocation(void **state) {
  rd_context *ctx = *state;
  rd_tensor pool;
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, SLOTS, HV, V, K, RD_STATE_KV, RD_F16, &pool));
  assert_int_equal(pool.shape[2], K);
  assert_int_equal(pool.shape[3], V);
  assert_int_equal((uintptr_t)pool.data % 64, 0);
  assert_int_equal(pool.stride[0] * 2 % 64, 0);
  for (int64_t i = 0; i < SLOTS * pool.stride[0]; i++)
    assert_int_equal(((uint16_t *)pool.data)[i], 0);
  assert_status(ctx, RD_OK, rd_pool_free(ctx, &pool));
  assert_int_equal(pool.dtype, RD_ABSENT);
  assert_status(ctx, RD_OK, rd_pool_free(ctx, &pool));
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, 100, 1, 128, 128, RD_STATE_VK, RD_F32, &pool));
  assert_int_equal((uintptr_t)pool.data % (2 << 20), 0);
  assert_status(ctx, RD_OK, rd_pool_free(ctx, &pool));

  assert_status(ctx, RD_E_NULL, rd_pool_alloc(ctx, 1, 1, 1, 1, RD_STATE_VK, RD_F32, NULL));
  assert_status(ctx, RD_E_SHAPE, rd_pool_alloc(ctx, 0, 1, 1, 1, RD_STATE_VK, RD_F32, &pool));
  assert_status(ctx, RD_E_HEADS, rd_pool_alloc(ctx, 1, 0, 1, 1, RD_STATE_VK, RD_F32, &pool));
  assert_status(ctx, RD_E_SHAPE, rd_pool_alloc(ctx, 1, 1, 513, 1, RD_STATE_VK, RD_F32, &pool));
  assert_status(ctx, RD_E_SHAPE, rd_pool_alloc(ctx, 1, 1, 1, 0, RD_STATE_VK, RD_F32, &pool));
  assert_status(ctx, RD_E_DTYPE, rd_pool_alloc(ctx, 1, 1, 1, 1, RD_STATE_VK, RD_I32, &pool));
  assert_status(ctx, RD_E_ENUM, rd_pool_alloc(ctx, 1, 1, 1, 1, (rd_state_layout)0, RD_F32, &pool));
  assert_status(ctx, RD_E_OVERFLOW,
                rd_pool_alloc(ctx, INT64_MAX / 2, 9, 512, 512, RD_STATE_VK, RD_F32, &pool));
}

static void *no_pools(void *self, size_t size, size_t align) {
  (void)self;
  return size > 1 << 20 ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
}

static void release(void *self, void *p, size_t size) {
  (void)self;
  (void)size;
  free(p);
}

static void no_memory(void **state) {
  (void)state;
  rd_context *ctx;
  rd_context_options o;
  rd_context_options_init(&o);
  o.allocator = (rd_allocator){no_pools, release, NULL};
  assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
  rd_tensor pool = {0};
  assert_status(ctx, RD_E_NOMEM, rd_pool_alloc(ctx, 2, 1, 512, 512, RD_STATE_VK, RD_F32, &pool));
  assert_int_equal(pool.dtype, RD_ABSENT);
  rd_context_destroy(ctx);
}

static void reset_and_copy(void **state) {
  rd_context *ctx = *state;
  rd_tensor pool = filled(ctx, RD_STATE_VK, 1), before = filled(ctx, RD_STATE_VK, 1);
  assert_status(ctx, RD_OK, rd_pool_copy(ctx, &pool, 0, 2));
  assert_memory_equal(slot_at(&pool, 2), slot_at(&before, 0), HV * V * K * 4);
  assert_memory_equal(slot_at(&pool, 1), slot_at(&before, 1), HV * V * K * 4);
  assert_status(ctx, RD_OK, rd_pool_copy(ctx, &pool, 1, 1));
  assert_status(ctx, RD_OK, rd_pool_reset(ctx, &pool, 0));
  for (int i = 0; i < HV * V * K; i++) assert_true(slot_at(&pool, 0)[i] == 0.0f);
  assert_memory_equal(slot_at(&pool, 1), slot_at(&before, 1), HV * V * K * 4);
  assert_status(ctx, RD_E_SLOT_RANGE, rd_pool_reset(ctx, &pool, SLOTS));
  assert_status(ctx, RD_E_SLOT_RANGE, rd_pool_reset(ctx, &pool, -1));
  assert_status(ctx, RD_E_SLOT_RANGE, rd_pool_copy(ctx, &pool, 0, SLOTS));
  assert_status(ctx, RD_E_SLOT_RANGE, rd_pool_copy(ctx, &pool, -1, 0));
  assert_status(ctx, RD_E_NULL, rd_pool_reset(ctx, NULL, 0));
  assert_int_equal(rd_pool_reset(NULL, &pool, 0), RD_E_NULL);
  rd_pool_free(ctx, &pool);
  rd_pool_free(ctx, &before);
}

static void conversion(void **state) {
  rd_context *ctx = *state;
  rd_tensor vk = filled(ctx, RD_STATE_VK, 4), kv, half, back;
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, SLOTS, HV, V, K, RD_STATE_KV, RD_F32, &kv));
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, SLOTS, HV, V, K, RD_STATE_KV, RD_BF16, &half));
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, SLOTS, HV, V, K, RD_STATE_VK, RD_F32, &back));
  assert_status(ctx, RD_OK, rd_pool_convert(ctx, &vk, RD_STATE_VK, &kv, RD_STATE_KV));
  for (int s = 0; s < SLOTS; s++)
    for (int h = 0; h < HV; h++)
      for (int v = 0; v < V; v++)
        for (int k = 0; k < K; k++)
          assert_true(slot_at(&vk, s)[(h * V + v) * K + k] == slot_at(&kv, s)[(h * K + k) * V + v]);
  assert_status(ctx, RD_OK, rd_pool_convert(ctx, &kv, RD_STATE_KV, &back, RD_STATE_VK));
  for (int s = 0; s < SLOTS; s++)
    assert_memory_equal(slot_at(&vk, s), slot_at(&back, s), HV * V * K * 4);
  assert_status(ctx, RD_OK, rd_pool_convert(ctx, &vk, RD_STATE_VK, &half, RD_STATE_KV));
  assert_status(ctx, RD_OK, rd_pool_convert(ctx, &half, RD_STATE_KV, &back, RD_STATE_VK));
  for (int s = 0; s < SLOTS; s++)
    for (int i = 0; i < HV * V * K; i++) {
      const float x = slot_at(&vk, s)[i], y = slot_at(&back, s)[i], e = x > y ? x - y : y - x;
      assert_true(e <= (x > 0 ? x : -x) * 0x1p-8f);
    }
  assert_status(ctx, RD_E_ALIAS, rd_pool_convert(ctx, &vk, RD_STATE_VK, &vk, RD_STATE_VK));
  assert_status(ctx, RD_E_SHAPE, rd_pool_convert(ctx, &vk, RD_STATE_VK, &kv, RD_STATE_VK));
  assert_status(ctx, RD_E_ENUM, rd_pool_convert(ctx, &vk, (rd_state_layout)3, &kv, RD_STATE_KV));
  rd_pool_free(ctx, &vk);
  rd_pool_free(ctx, &kv);
  rd_pool_free(ctx, &half);
  rd_pool_free(ctx, &back);
}

static int backwards(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  ++*(int *)self;
  for (int64_t i = n - 1; i >= 0; i--) fn(arg, i);
  return 0;
}

/* More heads than slices, so that slices are of two sizes; rows and columns past a block of each. */
enum { MANY = 13, MANY_HV = 3, MANY_V = 41, MANY_K = 70, MANY_STATE = MANY_HV * MANY_V * MANY_K };

static void parallel_conversion(void **state) {
  (void)state;
  int rounds = 0;
  for (int threads = 1; threads <= 8; threads++) {
    rd_context *ctx;
    rd_context_options o;
    rd_context_options_init(&o);
    o.threads = threads;
    if (threads == 8) o.executor = (rd_executor){backwards, &rounds, 5, 0};
    assert_int_equal(rd_context_create(&o, &ctx), RD_OK);
    rd_tensor vk, kv;
    assert_status(ctx, RD_OK,
                  rd_pool_alloc(ctx, MANY, MANY_HV, MANY_V, MANY_K, RD_STATE_VK, RD_F32, &vk));
    assert_status(ctx, RD_OK,
                  rd_pool_alloc(ctx, MANY, MANY_HV, MANY_V, MANY_K, RD_STATE_KV, RD_BF16, &kv));
    for (int s = 0; s < MANY; s++)
      for (int i = 0; i < MANY_STATE; i++)
        slot_at(&vk, s)[i] = (float)((s * 37 + i * 5) % 251 - 125);
    for (int round = 0; round < 20; round++) {
      memset(kv.data, 0xff, (size_t)(MANY * kv.stride[0]) * 2);
      assert_status(ctx, RD_OK, rd_pool_convert(ctx, &vk, RD_STATE_VK, &kv, RD_STATE_KV));
      for (int s = 0; s < MANY; s++)
        for (int h = 0; h < MANY_HV; h++)
          for (int v = 0; v < MANY_V; v++)
            for (int k = 0; k < MANY_K; k++) {
              const float x = slot_at(&vk, s)[(h * MANY_V + v) * MANY_K + k];
              const uint16_t *to = (const uint16_t *)kv.data + s * kv.stride[0];
              uint32_t bits = (uint32_t)to[(h * MANY_K + k) * MANY_V + v] << 16;
              float y;
              memcpy(&y, &bits, sizeof y);
              if (x != y)
                fail_msg("%d threads: %d %d %d %d: %g, not %g", threads, s, h, v, k, (double)y,
                         (double)x);
            }
    }
    rd_pool_free(ctx, &vk);
    rd_pool_free(ctx, &kv);
    rd_context_destroy(ctx);
  }
  assert_int_equal(rounds, 20);
}

static void saved_form(void **state) {
  rd_context *ctx = *state;
  rd_tensor pool = filled(ctx, RD_STATE_KV, 8), other = filled(ctx, RD_STATE_KV, 20), half;
  size_t n;
  assert_status(ctx, RD_OK, rd_pool_save_size(ctx, &pool, &n));
  assert_int_equal(n, 64 + HV * V * K * 4);
  unsigned char *file = malloc(n);
  assert_status(ctx, RD_E_BUFFER, rd_pool_save(ctx, &pool, RD_STATE_KV, 1, file, n - 1));
  assert_status(ctx, RD_OK, rd_pool_save(ctx, &pool, RD_STATE_KV, 1, file, n));
  assert_memory_equal(file, "rdstate", 8);
  rd_tensor before = filled(ctx, RD_STATE_KV, 20);
  /* Any changed byte is noticed and nothing is written. */
  for (size_t i = 0; i < n; i++) {
    file[i] ^= (unsigned char)(1u << i % 8);
    assert_status(ctx, RD_E_BUFFER, rd_pool_load(ctx, &other, RD_STATE_KV, 0, file, n));
    file[i] ^= (unsigned char)(1u << i % 8);
  }
  assert_status(ctx, RD_E_BUFFER, rd_pool_load(ctx, &other, RD_STATE_KV, 0, file, n - 1));
  assert_status(ctx, RD_E_BUFFER, rd_pool_load(ctx, &other, RD_STATE_VK, 0, file, n));
  assert_status(ctx, RD_E_NULL, rd_pool_load(ctx, &other, RD_STATE_KV, 0, NULL, n));
  assert_status(ctx, RD_E_SLOT_RANGE, rd_pool_load(ctx, &other, RD_STATE_KV, SLOTS, file, n));
  assert_status(ctx, RD_E_ALIAS, rd_pool_save(ctx, &pool, RD_STATE_KV, 1, slot_at(&pool, 0), n));
  assert_status(ctx, RD_OK, rd_pool_alloc(ctx, SLOTS, HV, V, 2 * K, RD_STATE_KV, RD_F16, &half));
  assert_status(ctx, RD_E_BUFFER, rd_pool_load(ctx, &half, RD_STATE_KV, 0, file, n));
  for (int s = 0; s < SLOTS; s++)
    assert_memory_equal(slot_at(&before, s), slot_at(&other, s), HV * V * K * 4);
  assert_status(ctx, RD_OK, rd_pool_load(ctx, &other, RD_STATE_KV, 2, file, n));
  assert_memory_equal(slot_at(&other, 2), slot_at(&pool, 1), HV * V * K * 4);
  assert_memory_equal(slot_at(&other, 1), slot_at(&before, 1), HV * V * K * 4);
  free(file);
  rd_pool_free(ctx, &pool);
  rd_pool_free(ctx, &other);
  rd_pool_free(ctx, &before);
  rd_pool_free(ctx, &half);
}

/* The checksum of the saved form, as the library has it: over the bytes before it and those after. */
static void seal(unsigned char *file, size_t n) {
  uint64_t h = 0;
  for (size_t at = 0; at < n; at += at == 48 ? 16 : 8) { /* 56 to 63 is its own place */
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < n; i++) word |= (uint64_t)file[at + i] << 8 * i;
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h = h << 29 | h >> 35;
  }
  for (int i = 0; i < 8; i++) file[56 + i] = (unsigned char)(h >> 8 * i);
}

/* A header that is another in one field is refused by that field's name although its checksum is right:
 * a file of a later version is whole, and still not for us. */
static void other_headers(void **state) {
  static const struct {
    size_t at;
    const char *names;
  } fields[] = {{8, "version"}, {12, "header size"}, {16, "dtype"},   {20, "layout"},
                {24, "heads"},  {32, "rows"},        {40, "columns"}, {48, "payload bytes"}};
  rd_context *ctx = *state;
  rd_tensor pool = filled(ctx, RD_STATE_KV, 8), other = filled(ctx, RD_STATE_KV, 20);
  rd_tensor before = filled(ctx, RD_STATE_KV, 20);
  size_t n;
  assert_status(ctx, RD_OK, rd_pool_save_size(ctx, &pool, &n));
  unsigned char *file = malloc(n), *sealed = malloc(n);
  assert_status(ctx, RD_OK, rd_pool_save(ctx, &pool, RD_STATE_KV, 1, file, n));
  memcpy(sealed, file, n);
  seal(sealed, n);
  assert_memory_equal(sealed, file, n); /* seal is right */
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    memcpy(sealed, file, n);
    sealed[fields[i].at]++;
    seal(sealed, n);
    assert_status(ctx, RD_E_BUFFER, rd_pool_load(ctx, &other, RD_STATE_KV, 0, sealed, n));
    assert_non_null(strstr(rd_last_error(ctx), fields[i].names));
    assert_memory_equal(slot_at(&before, 0), slot_at(&other, 0), HV * V * K * 4);
  }
  free(file);
  free(sealed);
  rd_pool_free(ctx, &pool);
  rd_pool_free(ctx, &other);
  rd_pool_free(ctx, &before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocation),          cmocka_unit_test(no_memory),
      cmocka_unit_test(reset_and_copy),      cmocka_unit_test(conversion),
      cmocka_unit_test(parallel_conversion), cmocka_unit_test(saved_form),
      cmocka_unit_test(other_headers),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
