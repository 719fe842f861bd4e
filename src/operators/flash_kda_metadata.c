/* flash_kda_metadata: a schedule made once and reused by every layer with the same lengths. */
#include "operators/flash_kda.h"

#include <string.h>

void rd_flash_kda_metadata_init_sized(rd_flash_kda_metadata_params *p, size_t struct_size) {
  static const rd_flash_kda_metadata_params defaults = {.layout_qkv = RD_BNSD};
  rdi_struct_init(p, struct_size, &defaults, sizeof defaults);
}

/* Shapes alone: a tensor without memory passes through the check as if it had some. */
static rd_status check_shape_of(rd_context *ctx, const char *name, const rd_tensor *t, int dtypes,
                                int rank, const int64_t *shape, int data) {
  _Alignas(8) char never_read = 0; /* aligned: the check looks at the address, too */
  rd_tensor view = *t;
  if (!data && view.data == NULL && view.dtype != RD_ABSENT) view.data = &never_read;
  return rdi_check_tensor(ctx, name, &view, dtypes, rank, shape, RDI_CONTIGUOUS);
}

rd_status rdo_flash_sizes(rd_context *ctx, rdo_flash *f, int32_t layout, const rd_tensor *q,
                          const rd_tensor *v, const rd_tensor *initial_state, int data) {
  if (layout != RD_BSND && layout != RD_BNSD && layout != RD_TND)
    return rdi_fail(ctx, RD_E_ENUM, "layout_qkv: expected BSND, BNSD or TND, got %d", (int)layout);
  const int rank = layout == RD_TND ? 3 : 4;
  f->layout = layout;
  f->b = layout == RD_TND ? -1 : 0;
  f->h = layout == RD_BSND ? 2 : 1;
  f->t = layout == RD_TND ? 0 : layout == RD_BSND ? 1 : 2;

  int64_t shape[4] = {-1, -1, rank == 3 ? RDO_DIM : -1, RDO_DIM};
  RDI_TRY(check_shape_of(ctx, "q", q, RDI_DT_BF16, rank, shape, data));
  f->S = q->shape[f->t];
  f->Hk = q->shape[f->h];
  for (int i = 0; i < rank; i++) shape[i] = i == f->h ? -1 : q->shape[i];
  RDI_TRY(check_shape_of(ctx, "v", v, RDI_DT_BF16, rank, shape, data));
  f->Hv = v->shape[f->h];
  RDI_TRY(rdi_check_heads(ctx, "q", f->Hk, "v", f->Hv));
  const int64_t state[4] = {f->b < 0 ? -1 : q->shape[0], f->Hv, RDO_DIM, RDO_DIM};
  RDI_TRY(check_shape_of(ctx, "initial_state", initial_state, RDI_DT_F32, 4, state, data));
  f->B = initial_state->shape[0];
  if (f->B > INT32_MAX - RDO_META_HEADER - 2 || f->S > INT32_MAX || f->Hv > INT32_MAX)
    return rdi_fail(ctx, RD_E_OVERFLOW,
                    "q: a schedule counts in 32 bits; B, tokens and heads must fit");
  return RD_OK;
}

/* Takes the caller's parameters into *p and checks them. */
static rd_status take_params(rd_context *ctx, const rd_flash_kda_metadata_params *params,
                             rd_flash_kda_metadata_params *p, rdo_flash *f) {
  RDI_TRY(rdi_check_struct(ctx, RDI_STRUCT_FLASH_KDA_METADATA, "params", params, p));
  RDI_TRY(rdo_flash_sizes(ctx, f, p->layout_qkv, &p->q, &p->v, &p->initial_state, 0));
  const rd_tensor *cu = &p->cu_seqlens;
  if (cu->dtype == RD_ABSENT) {
    RDI_TRY(rdi_check_blank(ctx, "cu_seqlens", cu));
    if (f->layout == RD_TND)
      return rdi_fail(ctx, RD_E_NULL, "cu_seqlens: required when layout_qkv is TND");
    return RD_OK;
  }
  RDI_TRY(rdi_check_tensor(ctx, "cu_seqlens", cu, RDI_DT_INDEX, 1, (int64_t[]){f->B + 1},
                           RDI_CONTIGUOUS));
  if (f->layout == RD_TND) return rdi_check_cu(ctx, "cu_seqlens", cu, f->B, f->S, RDI_CU_ALL);
  rd_status s = rdi_check_cu(ctx, "cu_seqlens", cu, f->B, INT64_MAX, 0);
  const rdi_seqs seq = {.B = f->B, .T = f->S, .cu = cu->data, .is64 = cu->dtype == RD_I64};
  for (int64_t b = 0; s == RD_OK && b < f->B; b++)
    if (rdi_seq_length(&seq, b) > f->S)
      s = rdi_fail(ctx, RD_E_LENGTH,
                   "cu_seqlens: sequence %lld has length %lld, more than S = %lld", (long long)b,
                   (long long)rdi_seq_length(&seq, b), (long long)f->S);
  return s;
}

static int64_t count_of(const rdo_flash *f, const rd_tensor *cu) {
  return f->layout == RD_TND ? f->B + 1 : cu->dtype == RD_ABSENT ? 0 : f->B;
}

/* FNV-1a over the words: enough to notice damage, not an authentication. */
static int32_t check_sum(const int32_t *words, int64_t n) {
  uint32_t h = 2166136261u;
  for (int64_t i = 0; i < n; i++)
    for (int byte = 0; byte < 4; byte++)
      h = (h ^ (((uint32_t)words[i] >> (8 * byte)) & 255u)) * 16777619u;
  int32_t out;
  memcpy(&out, &h, sizeof out);
  return out;
}

static void write_header(int32_t *w, const rdo_flash *f, int64_t count) {
  const int64_t header[RDO_META_HEADER] = {
      RDO_META_MAGIC, RDO_META_VERSION,           f->layout, f->B, f->S, f->Hk, f->Hv,
      count,          RDO_META_HEADER + count + 1};
  for (int i = 0; i < RDO_META_HEADER; i++) w[i] = (int32_t)header[i];
}

rd_status rd_flash_kda_metadata_size(rd_context *ctx, const rd_flash_kda_metadata_params *params,
                                     int64_t *n) {
  RDI_TRY(rdi_enter(ctx));
  rd_flash_kda_metadata_params p;
  rdo_flash f;
  rd_status s = take_params(ctx, params, &p, &f);
  if (s == RD_OK && !n) s = rdi_fail(ctx, RD_E_NULL, "n: required, got NULL");
  if (s == RD_OK) *n = RDO_META_HEADER + count_of(&f, &p.cu_seqlens) + 1;
  return rdi_leave(ctx, s);
}

static rd_status make(rd_context *ctx, const rd_flash_kda_metadata_params *params) {
  rd_flash_kda_metadata_params local;
  const rd_flash_kda_metadata_params *p = &local;
  rdo_flash f;
  RDI_TRY(take_params(ctx, params, &local, &f));
  const rd_tensor *cu = &p->cu_seqlens;
  const int64_t count = count_of(&f, cu), words = RDO_META_HEADER + count + 1;
  RDI_TRY(rdi_check_tensor(ctx, "metadata", &p->metadata, RDI_DT_I32, 1, (int64_t[]){words},
                           RDI_CONTIGUOUS | RDI_OUTPUT));
  const rdi_alias_entry all[] = {RDO_OUT("metadata", &p->metadata), RDO_IN("cu_seqlens", cu)};
  RDI_TRY(rdi_check_alias(ctx, all, 2));

  int32_t *w = p->metadata.data, *numbers = w + RDO_META_HEADER;
  const rdi_seqs seq = {.B = f.B, .T = f.S, .cu = cu->data, .is64 = cu->dtype == RD_I64};
  write_header(w, &f, count);
  for (int64_t b = 0; b < f.B && count > 0; b++)
    numbers[b] = (int32_t)(f.layout == RD_TND ? rdi_seq_start(&seq, b) : rdi_seq_length(&seq, b));
  if (f.layout == RD_TND) numbers[f.B] = (int32_t)f.S;
  w[words - 1] = check_sum(w, words - 1);
  return RD_OK;
}

rd_status rd_flash_kda_metadata(rd_context *ctx, const rd_flash_kda_metadata_params *p) {
  RDI_TRY(rdi_enter(ctx));
  return rdi_leave(ctx, make(ctx, p));
}

/* A sum can be forged, so the numbers are checked like any other argument before they become
 * addresses. */
static rd_status check_numbers(rd_context *ctx, const rdo_flash *f, const int32_t *n) {
  int32_t last = 0;
  for (int64_t b = 0; b < f->B; b++) {
    const int bad =
        f->layout == RD_TND ? n[b] < last || (b == 0 && n[0] != 0) : n[b] < 0 || n[b] > f->S;
    if (bad)
      return rdi_fail(ctx, RD_E_METADATA,
                      "metadata: entry %lld is %d, which no schedule of this call has",
                      (long long)b, (int)n[b]);
    last = n[b];
  }
  if (f->layout == RD_TND && (n[f->B] < last || n[f->B] != f->S))
    return rdi_fail(ctx, RD_E_METADATA, "metadata: schedule ends at %d, expected %lld tokens",
                    (int)n[f->B], (long long)f->S);
  return RD_OK;
}

rd_status rdo_flash_schedule(rd_context *ctx, const rdo_flash *f, const rd_tensor *metadata,
                             const int32_t **numbers) {
  *numbers = NULL;
  if (metadata->dtype == RD_ABSENT) {
    RDI_TRY(rdi_check_blank(ctx, "metadata", metadata));
    if (f->layout == RD_TND && f->B != 1)
      return rdi_fail(ctx, RD_E_NULL, "metadata: required in TND with %lld sequences",
                      (long long)f->B);
    return RD_OK;
  }
  rd_status s =
      rdi_check_tensor(ctx, "metadata", metadata, RDI_DT_I32, 1, (int64_t[]){-1}, RDI_CONTIGUOUS);
  if (s != RD_OK) return s;
  const int32_t *w = metadata->data;
  const int64_t words = metadata->shape[0];
  if (words <= RDO_META_HEADER || w[0] != RDO_META_MAGIC || w[RDO_META_WORDS] != words)
    return rdi_fail(ctx, RD_E_METADATA, "metadata: not a schedule made by flash_kda_metadata");
  if (w[1] != RDO_META_VERSION)
    return rdi_fail(ctx, RD_E_METADATA, "metadata: expected version %d, got %d", RDO_META_VERSION,
                    (int)w[1]);
  if (w[words - 1] != check_sum(w, words - 1))
    return rdi_fail(ctx, RD_E_METADATA,
                    "metadata: check sum does not match, the schedule is damaged");
  const int64_t count = w[RDO_META_COUNT], want = f->layout == RD_TND ? f->B + 1
                                                  : count == 0        ? 0
                                                                      : f->B;
  int32_t expected[RDO_META_HEADER];
  write_header(expected, f, want);
  static const char *const field[RDO_META_HEADER] = {"magic",       "version", "layout_qkv",
                                                     "B",           "tokens",  "key heads",
                                                     "value heads", "entries", "words"};
  for (int i = 2; i < RDO_META_HEADER; i++)
    if (w[i] != expected[i])
      return rdi_fail(ctx, RD_E_METADATA, "metadata: made for another call: %s is %d, expected %d",
                      field[i], (int)w[i], (int)expected[i]);
  if (count == 0) return RD_OK;
  *numbers = w + RDO_META_HEADER;
  return check_numbers(ctx, f, *numbers);
}
