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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocation), cmocka_unit_test(no_memory),  cmocka_unit_test(reset_and_copy),
      cmocka_unit_test(conversion), cmocka_unit_test(saved_form),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
