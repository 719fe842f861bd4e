/* State pools: memory for them, and what an engine does with a slot between two calls. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* madvise */
#endif
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "core/check.h"
#include "core/context.h"
#include "core/cut.h"
#include "core/states.h"
#include "util/allocate.h"
#include "util/checked.h"
#include "util/tensor.h"

/* From here on a pool starts on a huge page and asks for more of them: with 4 KiB pages the walk
 * over page tables costs up to half of the bandwidth. */
enum { HUGE_PAGE = 2 << 20, HUGE_POOL = 4 << 20 };

static size_t pool_alignment(size_t bytes) { return bytes >= HUGE_POOL ? HUGE_PAGE : 64; }

/* ---------------------------------------------------------------- checks ---------------------- */

static rd_status check_layout(rd_context *ctx, const char *name, rd_state_layout layout) {
  if (layout == RD_STATE_VK || layout == RD_STATE_KV) return RD_OK;
  return rdi_fail(ctx, RD_E_ENUM, "%s: expected VK (1) or KV (2), got %d", name, (int)layout);
}

static rd_status check_dim(rd_context *ctx, const char *name, int64_t x) {
  if (x >= 1 && x <= RDI_MAX_DIM) return RD_OK;
  return rdi_fail(ctx, RD_E_SHAPE, "%s: expected 1 to %d, got %" PRId64, name, RDI_MAX_DIM, x);
}

static rd_status check_pool(rd_context *ctx, const char *name, const rd_tensor *pool, int flags) {
  static const int64_t any[] = {-1, -1, -1, -1};
  RDI_TRY(rdi_check_tensor(ctx, name, pool, RDI_DT_FLOAT, 4, any, flags));
  RDI_TRY(check_dim(ctx, name, pool->shape[2]));
  return check_dim(ctx, name, pool->shape[3]);
}

static rd_status check_slot(rd_context *ctx, const char *name, const rd_tensor *pool,
                            int64_t slot) {
  if (slot >= 0 && slot < pool->shape[0]) return RD_OK;
  return rdi_fail(ctx, RD_E_SLOT_RANGE, "%s: expected 0 to %" PRId64 ", got %" PRId64, name,
                  pool->shape[0] - 1, slot);
}

static rdi_states states_of(const rd_tensor *pool, rd_state_layout layout) {
  return (rdi_states){.base = pool->data,
                      .dtype = pool->dtype,
                      .layout = layout,
                      .ss = pool->stride[0],
                      .sh = pool->stride[1],
                      .sr = pool->stride[2],
                      .slots = pool->shape[0]};
}

/* Row r of head h of a slot as it lies in memory, whatever the layout. */
static char *row_at(const rd_tensor *pool, int64_t slot, int64_t h, int64_t r) {
  return rdi_at(pool->data, slot * pool->stride[0] + h * pool->stride[1] + r * pool->stride[2],
                pool->dtype);
}

static size_t row_bytes(const rd_tensor *pool) {
  return (size_t)pool->shape[3] * rd_dtype_size(pool->dtype);
}

/* ---------------------------------------------------------------- memory ---------------------- */

static rd_status pool_alloc(rd_context *ctx, int64_t slots, int64_t Hv, int64_t V, int64_t K,
                            rd_state_layout layout, rd_dtype dtype, rd_tensor *pool) {
  RDI_TRY(check_layout(ctx, "layout", layout));
  if (dtype != RD_F32 && dtype != RD_F16 && dtype != RD_BF16)
    return rdi_fail(ctx, RD_E_DTYPE, "dtype: expected f32, f16 or bf16, got %s",
                    rdi_dtype_name(dtype));
  if (slots < 1)
    return rdi_fail(ctx, RD_E_SHAPE, "slots: expected at least 1, got %" PRId64, slots);
  if (Hv < 1) return rdi_fail(ctx, RD_E_HEADS, "Hv: expected at least 1, got %" PRId64, Hv);
  RDI_TRY(check_dim(ctx, "V", V));
  RDI_TRY(check_dim(ctx, "K", K));
  const int64_t size = (int64_t)rd_dtype_size(dtype);
  int64_t stride, bytes;
  if (!rdi_mul64(Hv, V * K * size, &stride) || !rdi_add64(stride, 63, &stride))
    return rdi_fail(ctx, RD_E_OVERFLOW, "Hv: the bytes of a slot do not fit 64 bits");
  stride = stride / 64 * 64;
  if (!rdi_mul64(slots, stride, &bytes))
    return rdi_fail(ctx, RD_E_OVERFLOW, "slots: the bytes of the pool do not fit 64 bits");
  const rd_allocator *allocator = rdi_context_allocator(ctx);
  void *data = rdi_allocate(allocator, (size_t)bytes, pool_alignment((size_t)bytes));
  if (!data)
    return rdi_fail(ctx, RD_E_NOMEM, "pool: the allocator has no %" PRId64 " aligned bytes", bytes);
#ifdef MADV_HUGEPAGE
  /* Advice only: a system without huge pages gives the same bytes. */
  if (bytes >= HUGE_POOL) (void)madvise(data, (size_t)bytes & ~(size_t)4095, MADV_HUGEPAGE);
#endif
  memset(data, 0, (size_t)bytes);
  const int vk = layout == RD_STATE_VK;
  *pool = rd_tensor_contiguous(data, dtype, 4, (int64_t[]){slots, Hv, vk ? V : K, vk ? K : V});
  pool->stride[0] = stride / size;
  return RD_OK;
}

rd_status rd_pool_alloc(rd_context *ctx, int64_t slots, int64_t Hv, int64_t V, int64_t K,
                        rd_state_layout layout, rd_dtype dtype, rd_tensor *pool) {
  RDI_TRY(rdi_enter(ctx));
  if (!pool) return rdi_leave(ctx, rdi_fail(ctx, RD_E_NULL, "pool: required, got NULL"));
  return rdi_leave(ctx, pool_alloc(ctx, slots, Hv, V, K, layout, dtype, pool));
}

rd_status rd_pool_free(rd_context *ctx, rd_tensor *pool) {
  RDI_TRY(rdi_enter(ctx));
  if (!pool) return rdi_leave(ctx, rdi_fail(ctx, RD_E_NULL, "pool: required, got NULL"));
  if (pool->dtype == RD_ABSENT) return rdi_leave(ctx, rdi_check_blank(ctx, "pool", pool));
  if (pool->data) {
    const rd_allocator *allocator = rdi_context_allocator(ctx);
    allocator->release(allocator->self, pool->data,
                       (size_t)(pool->shape[0] * pool->stride[0]) * rd_dtype_size(pool->dtype));
  }
  *pool = (rd_tensor){0};
  return rdi_leave(ctx, RD_OK);
}

/* ---------------------------------------------------------------- slots ----------------------- */

static rd_status pool_reset(rd_context *ctx, const rd_tensor *pool, int64_t slot) {
  RDI_TRY(check_pool(ctx, "pool", pool, RDI_OUTPUT));
  RDI_TRY(check_slot(ctx, "slot", pool, slot));
  for (int64_t h = 0; h < pool->shape[1]; h++)
    for (int64_t r = 0; r < pool->shape[2]; r++)
      memset(row_at(pool, slot, h, r), 0, row_bytes(pool));
  return RD_OK;
}

rd_status rd_pool_reset(rd_context *ctx, const rd_tensor *pool, int64_t slot) {
  const rd_status status = rdi_enter(ctx);
  return status != RD_OK ? status : rdi_leave(ctx, pool_reset(ctx, pool, slot));
}

static rd_status pool_copy(rd_context *ctx, const rd_tensor *pool, int64_t from, int64_t to) {
  RDI_TRY(check_pool(ctx, "pool", pool, RDI_OUTPUT));
  RDI_TRY(check_slot(ctx, "from", pool, from));
  RDI_TRY(check_slot(ctx, "to", pool, to));
  for (int64_t h = 0; from != to && h < pool->shape[1]; h++)
    for (int64_t r = 0; r < pool->shape[2]; r++)
      memcpy(row_at(pool, to, h, r), row_at(pool, from, h, r), row_bytes(pool));
  return RD_OK;
}

rd_status rd_pool_copy(rd_context *ctx, const rd_tensor *pool, int64_t from, int64_t to) {
  const rd_status status = rdi_enter(ctx);
  return status != RD_OK ? status : rdi_leave(ctx, pool_copy(ctx, pool, from, to));
}

/* ---------------------------------------------------------------- conversion ------------------ */

typedef struct conversion {
  const rdi_kernels *k;
  rdi_states src, dst;
  int64_t Hv, V, K, Kp, heads, slices;
  float *stage; /* [slices][SUB_ROWS][Kp] */
} conversion;

static void convert_slice(void *arg, int64_t slice) {
  const conversion *c = arg;
  float *stage = c->stage + slice * RDI_SUB_ROWS * c->Kp;
  const int64_t each = c->heads / c->slices, more = c->heads % c->slices;
  const int64_t first = slice * each + rdi_min64(slice, more), n = each + (slice < more);
  for (int64_t i = first; i < first + n; i++)
    rdi_copy_rows(c->k, rdi_state_at(&c->dst, i / c->Hv, i % c->Hv, 0, 0),
                  rdi_state_at(&c->src, i / c->Hv, i % c->Hv, 0, 0), stage, c->V, c->K, c->Kp);
}

static rd_status pool_convert(rd_context *ctx, const rd_tensor *src, rd_state_layout src_layout,
                              const rd_tensor *dst, rd_state_layout dst_layout) {
  RDI_TRY(check_layout(ctx, "src_layout", src_layout));
  RDI_TRY(check_layout(ctx, "dst_layout", dst_layout));
  RDI_TRY(check_pool(ctx, "src", src, 0));
  RDI_TRY(check_pool(ctx, "dst", dst, RDI_OUTPUT));
  const int same = src_layout == dst_layout;
  const int64_t want[] = {src->shape[0], src->shape[1], src->shape[same ? 2 : 3],
                          src->shape[same ? 3 : 2]};
  RDI_TRY(rdi_check_tensor(ctx, "dst", dst, RDI_DT_FLOAT, 4, want, RDI_OUTPUT));
  const rdi_alias_entry entries[] = {{.name = "dst", .t = dst, .is_output = 1},
                                     {.name = "src", .t = src}};
  RDI_TRY(rdi_check_alias(ctx, entries, 2));
  if (rdi_tensor_empty(src)) return RD_OK;
  const int vk = src_layout == RD_STATE_VK;
  conversion c = {.k = rdi_context_kernels(ctx),
                  .src = states_of(src, src_layout),
                  .dst = states_of(dst, dst_layout),
                  .Hv = src->shape[1],
                  .V = src->shape[vk ? 2 : 3],
                  .K = src->shape[vk ? 3 : 2],
                  .heads = src->shape[0] * src->shape[1]};
  c.Kp = (c.K + 15) / 16 * 16;
  c.slices = rdi_min64(c.heads, RDI_SLICES_PER_THREAD * (int64_t)rd_context_threads(ctx));
  c.stage = rdi_scratch_take(ctx, (size_t)(c.slices * RDI_SUB_ROWS * c.Kp) * sizeof(float));
  if (!c.stage) return RD_E_NOMEM;
  return rdi_execute(ctx, convert_slice, &c, c.slices);
}

rd_status rd_pool_convert(rd_context *ctx, const rd_tensor *src, rd_state_layout src_layout,
                          const rd_tensor *dst, rd_state_layout dst_layout) {
  const rd_status status = rdi_enter(ctx);
  return status != RD_OK ? status
                         : rdi_leave(ctx, pool_convert(ctx, src, src_layout, dst, dst_layout));
}

/* ---------------------------------------------------------------- files of one slot ----------- */

/* Little-endian: 8 bytes of name, version, header bytes, dtype, layout (u32 each), Hv, rows,
 * columns (i64), payload bytes, checksum (u64); then the rows of all heads, packed. The checksum
 * covers all but itself. */
enum { HEADER = 64, VERSION = 1, CHECKSUM_AT = 56 };
static const char name_of_format[8] = {'r', 'd', 's', 't', 'a', 't', 'e', 0};

static void put(unsigned char *at, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(x >> 8 * i);
}

static uint64_t get(const unsigned char *at, int bytes) {
  uint64_t x = 0;
  for (int i = 0; i < bytes; i++) x |= (uint64_t)at[i] << 8 * i;
  return x;
}

/* Every step is a bijection of the running value, so that a change in any one word always shows. */
static uint64_t checksum(uint64_t h, const unsigned char *p, size_t n) {
  for (; n > 0; p += n < 8 ? n : 8, n -= n < 8 ? n : 8) {
    h = (h ^ get(p, n < 8 ? (int)n : 8)) * 0x9e3779b97f4a7c15u;
    h = h << 29 | h >> 35;
  }
  return h;
}

/* n elements to or from little-endian bytes. */
static void copy_le(void *dst, const void *src, size_t bytes, size_t size) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  for (size_t i = 0; i < bytes; i++)
    ((char *)dst)[i / size * size + size - 1 - i % size] = ((const char *)src)[i];
#else
  (void)size;
  memcpy(dst, src, bytes);
#endif
}

static rd_status slot_bytes(rd_context *ctx, const rd_tensor *pool, size_t *bytes) {
  int64_t n;
  if (!rdi_mul64(pool->shape[1], pool->shape[2] * (int64_t)row_bytes(pool), &n) ||
      !rdi_addsz((size_t)n, HEADER, bytes))
    return rdi_fail(ctx, RD_E_OVERFLOW, "pool: the bytes of a slot do not fit 64 bits");
  return RD_OK;
}

static void make_header(unsigned char *h, const rd_tensor *pool, rd_state_layout layout,
                        size_t bytes) {
  memcpy(h, name_of_format, sizeof name_of_format);
  put(h + 8, VERSION, 4);
  put(h + 12, HEADER, 4);
  put(h + 16, (uint64_t)pool->dtype, 4);
  put(h + 20, (uint64_t)layout, 4);
  for (int i = 0; i < 3; i++) put(h + 24 + 8 * i, (uint64_t)pool->shape[i + 1], 8);
  put(h + 48, bytes - HEADER, 8);
}

static rd_status check_file(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout,
                            int64_t slot, const void *buffer, size_t bytes, int flags,
                            size_t *need) {
  RDI_TRY(check_layout(ctx, "layout", layout));
  RDI_TRY(check_pool(ctx, "pool", pool, flags));
  RDI_TRY(check_slot(ctx, "slot", pool, slot));
  if (!buffer) return rdi_fail(ctx, RD_E_NULL, "buffer: required, got NULL");
  RDI_TRY(slot_bytes(ctx, pool, need));
  if (bytes < *need)
    return rdi_fail(ctx, RD_E_BUFFER, "bytes: expected at least %zu, got %zu", *need, bytes);
  int64_t extent;
  const uintptr_t b = (uintptr_t)buffer, p = (uintptr_t)pool->data;
  if (rdi_tensor_extent(pool, &extent) && b < p + (uintptr_t)extent && p < b + *need)
    return rdi_fail(ctx, RD_E_ALIAS, "buffer: shares bytes with pool");
  return RD_OK;
}

static rd_status pool_save(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout,
                           int64_t slot, void *buffer, size_t bytes) {
  size_t need;
  RDI_TRY(check_file(ctx, pool, layout, slot, buffer, bytes, 0, &need));
  unsigned char *at = buffer, *payload = at + HEADER, *to = payload;
  make_header(at, pool, layout, need);
  for (int64_t h = 0; h < pool->shape[1]; h++)
    for (int64_t r = 0; r < pool->shape[2]; r++, to += row_bytes(pool))
      copy_le(to, row_at(pool, slot, h, r), row_bytes(pool), rd_dtype_size(pool->dtype));
  put(at + CHECKSUM_AT, checksum(checksum(0, at, CHECKSUM_AT), payload, need - HEADER), 8);
  return RD_OK;
}

static rd_status pool_load(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout,
                           int64_t slot, const void *buffer, size_t bytes) {
  size_t need;
  RDI_TRY(check_file(ctx, pool, layout, slot, buffer, bytes, RDI_OUTPUT, &need));
  const unsigned char *at = buffer, *from = at + HEADER;
  unsigned char want[HEADER];
  make_header(want, pool, layout, need);
  static const struct {
    const char *what;
    int at, bytes;
  } fields[] = {{"version", 8, 4},  {"header size", 12, 4},  {"dtype", 16, 4},
                {"layout", 20, 4},  {"heads", 24, 8},        {"rows", 32, 8},
                {"columns", 40, 8}, {"payload bytes", 48, 8}};
  if (memcmp(at, want, sizeof name_of_format) != 0)
    return rdi_fail(ctx, RD_E_BUFFER, "buffer: not a saved slot");
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    const uint64_t expected = get(want + fields[i].at, fields[i].bytes);
    const uint64_t got = get(at + fields[i].at, fields[i].bytes);
    if (expected != got)
      return rdi_fail(ctx, RD_E_BUFFER, "buffer: expected %s %" PRIu64 ", got %" PRIu64,
                      fields[i].what, expected, got);
  }
  if (get(at + CHECKSUM_AT, 8) != checksum(checksum(0, at, CHECKSUM_AT), from, need - HEADER))
    return rdi_fail(ctx, RD_E_BUFFER, "buffer: the checksum does not match, the bytes are damaged");
  for (int64_t h = 0; h < pool->shape[1]; h++)
    for (int64_t r = 0; r < pool->shape[2]; r++, from += row_bytes(pool))
      copy_le(row_at(pool, slot, h, r), from, row_bytes(pool), rd_dtype_size(pool->dtype));
  return RD_OK;
}

rd_status rd_pool_save_size(rd_context *ctx, const rd_tensor *pool, size_t *bytes) {
  RDI_TRY(rdi_enter(ctx));
  if (!bytes) return rdi_leave(ctx, rdi_fail(ctx, RD_E_NULL, "bytes: required, got NULL"));
  const rd_status status = check_pool(ctx, "pool", pool, 0);
  return rdi_leave(ctx, status != RD_OK ? status : slot_bytes(ctx, pool, bytes));
}

rd_status rd_pool_save(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout, int64_t slot,
                       void *buffer, size_t bytes) {
  RDI_TRY(rdi_enter(ctx));
  return rdi_leave(ctx, pool_save(ctx, pool, layout, slot, buffer, bytes));
}

rd_status rd_pool_load(rd_context *ctx, const rd_tensor *pool, rd_state_layout layout, int64_t slot,
                       const void *buffer, size_t bytes) {
  RDI_TRY(rdi_enter(ctx));
  return rdi_leave(ctx, pool_load(ctx, pool, layout, slot, buffer, bytes));
}
