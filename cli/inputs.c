/* Seeded inputs for every operator. SPDX-License-Identifier: Apache-2.0 */
#include "cli/inputs.h"

#include "io/convert.h"
#include "io/rng.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { D = 128 }; /* the only key and value size of the KDA operators */

static const struct {
  const char *key;
  size_t offset;
} letters[] = {{"B", offsetof(inputs_spec, B)},   {"Hk", offsetof(inputs_spec, Hk)},
               {"Hv", offsetof(inputs_spec, Hv)}, {"N", offsetof(inputs_spec, N)},
               {"T", offsetof(inputs_spec, T)},   {"K", offsetof(inputs_spec, K)},
               {"V", offsetof(inputs_spec, V)},   {"C", offsetof(inputs_spec, C)},
               {"R", offsetof(inputs_spec, R)},   {"S", offsetof(inputs_spec, T)},
               {"H", offsetof(inputs_spec, N)}};
enum { LETTERS = sizeof letters / sizeof letters[0], ALIASES = 2 };

static int64_t *field(inputs_spec *spec, size_t i) {
  return (int64_t *)(void *)((char *)spec + letters[i].offset);
}

/* An alias counts as the letter it stands for, the first of its field. */
static size_t canonical(size_t i) {
  size_t j = 0;
  while (letters[j].offset != letters[i].offset) j++;
  return j;
}

/* Does the operator's list of keys name the field of letter i? */
static int has_field(const op_desc *op, size_t i) {
  for (size_t j = 0; j < LETTERS - ALIASES; j++) {
    if (letters[j].offset != letters[i].offset) continue;
    for (const char *c = op->shape_keys; c != NULL && *c != '\0'; c = strchr(c, ',')) {
      if (*c == ',') c++;
      size_t n = strlen(letters[j].key);
      if (strncmp(c, letters[j].key, n) == 0 && c[n] == '=') return 1;
    }
  }
  return 0;
}

static io_status take_pair(inputs_spec *spec, const char *pair, size_t n, io_error *err) {
  const char *equals = memchr(pair, '=', n);
  if (equals == NULL) return io_fail(err, IO_BAD, "expected KEY=NUMBER, got '%.*s'", (int)n, pair);
  size_t key = (size_t)(equals - pair);
  for (size_t i = 0; i < LETTERS; i++) {
    if (strlen(letters[i].key) != key || memcmp(letters[i].key, pair, key) != 0) continue;
    if (!has_field(spec->op, i)) break;
    char *rest;
    errno = 0;
    long long value = equals[1] >= '0' && equals[1] <= '9' ? strtoll(equals + 1, &rest, 10) : -1;
    if (errno != 0 || value < 0 || rest != pair + n || value > INT32_MAX) {
      return io_fail(err, IO_BAD, "'%.*s': expected a whole number from 0 to %d", (int)n, pair,
                     INT32_MAX);
    }
    const unsigned bit = 1u << canonical(i);
    if ((spec->given & bit) != 0)
      return io_fail(err, IO_BAD, "'%.*s': %s is given twice", (int)n, pair,
                     letters[canonical(i)].key);
    *field(spec, i) = value;
    spec->given |= bit;
    return IO_OK;
  }
  return io_fail(err, IO_BAD, "'%.*s' is no dimension of %s; defaults are %s", (int)key, pair,
                 spec->op->name, spec->op->shape_keys);
}

io_status inputs_shape(inputs_spec *spec, const char *text, io_error *err) {
  for (const char *at = text;; at++) {
    size_t n = strcspn(at, ",");
    io_status status = take_pair(spec, at, n, err);
    if (status != IO_OK) return status;
    at += n;
    if (*at == '\0') return IO_OK;
  }
}

void inputs_init(inputs_spec *spec, const op_desc *op, uint64_t seed) {
  memset(spec, 0, sizeof *spec);
  spec->op = op;
  spec->seed = seed;
  inputs_shape(spec, op->shape_keys, NULL);
  spec->given = 0;
}

static int is_given(const inputs_spec *spec, const char *key) {
  for (size_t i = 0; i < LETTERS; i++) {
    if (strcmp(letters[i].key, key) == 0) return (spec->given >> i & 1u) != 0;
  }
  return 0;
}

/* ---------------------------------------------------------------- filling --------------------- */

typedef enum fill_kind { ZERO, NORMAL, UNIT_ROWS, SIGMOID, NEGATIVE, DECAY, CONSTANT } fill_kind;

typedef struct maker {
  const inputs_spec *spec;
  io_file *file;
  io_error *err;
  io_status status;
} maker;

static double number(fill_kind kind, double factor, rng r, uint64_t i) {
  switch (kind) {
  case NORMAL:
    return factor * rng_normal(r, i);
  case UNIT_ROWS:
    return rng_normal(r, i);
  case SIGMOID:
    return 1 / (1 + exp(-rng_normal(r, i)));
  case NEGATIVE:
    return -(rng_uniform(r, i) + factor);
  case DECAY:
    return exp(-5 / (1 + exp(-rng_normal(r, i))));
  case CONSTANT:
    return factor;
  case ZERO:
    break;
  }
  return 0;
}

static void make(maker *m, const char *name, rd_dtype dtype, int32_t rank, const int64_t *shape,
                 fill_kind kind, double factor) {
  io_tensor *t = NULL;
  if (m->status == IO_OK)
    m->status = io_file_add(m->file, name, io_dtype_of(dtype), rank, shape, &t, m->err);
  if (m->status != IO_OK || kind == ZERO || t->bytes == 0) return;
  rng r = rng_stream(m->spec->seed, name);
  int64_t n = io_tensor_elements(t), row = shape[rank - 1];
  for (int64_t start = 0; start < n; start += row) {
    double sum = 0;
    for (int64_t i = start; i < start + row && kind == UNIT_ROWS; i++) {
      double x = rng_normal(r, (uint64_t)i);
      sum += x * x;
    }
    double divide = kind == UNIT_ROWS && sum > 0 ? sqrt(sum) : 1;
    for (int64_t i = start; i < start + row; i++) {
      io_set(t->data, dtype, i, number(kind, factor, r, (uint64_t)i) / divide);
    }
  }
}

#define SHAPE(...)                                                                                 \
  (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static void make_lengths(maker *m, const char *name, int cumulative) {
  const inputs_spec *s = m->spec;
  io_tensor *t = NULL;
  if (m->status == IO_OK) {
    m->status = io_file_add(m->file, name, io_dtype_of(RD_I32), SHAPE(s->B + (cumulative != 0)), &t,
                            m->err);
  }
  if (m->status != IO_OK) return;
  int32_t *to = t->data, sum = 0;
  for (int64_t b = 0; b < s->B; b++) {
    int32_t length = (int32_t)(s->length_count > 0 ? s->lengths[b] : s->T);
    to[b] = cumulative ? sum : length;
    sum += length;
  }
  if (cumulative) to[s->B] = sum;
}

static void make_chunk(maker *m) {
  const inputs_spec *s = m->spec;
  rd_dtype t = s->dtype;
  make(m, "query", t, SHAPE(s->B, s->Hk, s->T, s->K), UNIT_ROWS, 0);
  make(m, "key", t, SHAPE(s->B, s->Hk, s->T, s->K), UNIT_ROWS, 0);
  make(m, "value", t, SHAPE(s->B, s->Hv, s->T, s->V), NORMAL, 1);
  make(m, "beta", t, SHAPE(s->B, s->Hv, s->T), SIGMOID, 0);
  make(m, "state", t, SHAPE(s->B, s->Hv, s->K, s->V), ZERO, 0);
  make_lengths(m, "actual_seq_lengths", 0);
  make(m, "g", RD_F32, SHAPE(s->B, s->Hv, s->T), NEGATIVE, 0.01);
}

/* An activation of the KDA operators: heads x width per token, in the layout; width 0: no such
 * axis. */
static void make_activation(maker *m, const char *name, int64_t heads, int64_t width,
                            int64_t tokens) {
  const inputs_spec *s = m->spec;
  int64_t shape[4];
  int32_t rank = 0;
  if (s->layout_qkv != RD_TND) shape[rank++] = s->B;
  if (s->layout_qkv == RD_BNSD) shape[rank++] = heads;
  shape[rank++] = tokens;
  if (s->layout_qkv != RD_BNSD) shape[rank++] = heads;
  if (width > 0) shape[rank++] = width;
  make(m, name, RD_BF16, rank, shape, NORMAL, 0.2);
}

static void make_flash(maker *m, int64_t tokens, int with_lengths) {
  const inputs_spec *s = m->spec;
  int whole = s->op->id == OP_FLASH_KDA;
  make_activation(m, "q", s->Hk, D, tokens);
  if (whole) make_activation(m, "k", s->Hk, D, tokens);
  make_activation(m, "v", s->Hv, D, tokens);
  if (whole) make_activation(m, "g", s->Hv, D, tokens);
  if (whole) make_activation(m, "beta", s->Hv, 0, tokens);
  make(m, "initial_state", RD_F32, SHAPE(s->B, s->Hv, D, D), NORMAL, 0.02);
  if (whole) make(m, "A_log", RD_F32, SHAPE(s->Hv), NORMAL, 1);
  if (whole) make(m, "dt_bias", RD_F32, SHAPE(s->Hv, D), NORMAL, 1);
  if (with_lengths) make_lengths(m, "cu_seqlens", 1);
}

/* mixedqkv: BSND and TND have one axis of 3N*128, BNSD an axis of 3N before the tokens. */
static void make_recurrent(maker *m, int64_t tokens, int with_lengths) {
  const inputs_spec *s = m->spec;
  if (s->layout_qkv == RD_BNSD) {
    make_activation(m, "mixedqkv", 3 * s->N, D, tokens);
  } else if (s->layout_qkv == RD_BSND) {
    make(m, "mixedqkv", RD_BF16, SHAPE(s->B, tokens, 3 * s->N * D), NORMAL, 0.2);
  } else {
    make(m, "mixedqkv", RD_BF16, SHAPE(tokens, 3 * s->N * D), NORMAL, 0.2);
  }
  make_activation(m, "beta", s->N, 1, tokens);
  make_activation(m, "g", s->N, D, tokens);
  make(m, "A_log", RD_F32, SHAPE(s->N), NORMAL, 1);
  make(m, "dt_bias", RD_F32, SHAPE(s->N, D), NORMAL, 1);
  if (with_lengths) make_lengths(m, "cu_seqlens", 1);
}

static void make_records(maker *m) {
  const inputs_spec *s = m->spec;
  int filled = s->op->id == OP_COMMIT_RECURRENT_KDA_REPLAYSSM;
  make(m, "replay_u", RD_F16, SHAPE(s->B, s->C, s->N, D), filled ? NORMAL : CONSTANT,
       filled ? 0.2 : -7);
  make(m, "replay_k", RD_F16, SHAPE(s->B, s->C, s->N, D), filled ? UNIT_ROWS : CONSTANT, -7);
  make(m, "replay_decay", RD_F32, SHAPE(s->B, s->C, s->N, D), filled ? DECAY : CONSTANT, -7);
  make(m, "recurrent_state", RD_F32, SHAPE(s->B, s->N, D, D), NORMAL, 0.02);
}

/* With more slots than tokens, a seeded choice of distinct slots in random order. */
static void make_slots(maker *m, int64_t tokens) {
  const inputs_spec *s = m->spec;
  make(m, "state", RD_F32, SHAPE(s->R, s->N, D, D), NORMAL, 0.02);
  if (s->R <= tokens || m->status != IO_OK) return;
  io_tensor *t = NULL;
  m->status =
      io_file_add(m->file, "ssm_state_indices", io_dtype_of(RD_I32), SHAPE(tokens), &t, m->err);
  int32_t *all = malloc((size_t)s->R * sizeof *all);
  if (m->status == IO_OK && all == NULL)
    m->status = io_fail(m->err, IO_SYSTEM, "no memory for the slots");
  rng r = rng_stream(s->seed, "ssm_state_indices");
  for (int32_t i = 0; m->status == IO_OK && i < s->R; i++) all[i] = i;
  for (int64_t i = 0; m->status == IO_OK && i < tokens; i++) {
    int64_t j = i + rng_below(r, (uint64_t)i, (uint32_t)(s->R - i));
    int32_t chosen = all[j];
    all[j] = all[i];
    all[i] = chosen;
    ((int32_t *)t->data)[i] = chosen;
  }
  free(all);
}

/* ---------------------------------------------------------------- the spec -------------------- */

static io_status complete(inputs_spec *s, int64_t *tokens, io_error *err) {
  op_id id = s->op->id;
  int kda = id != OP_CHUNK_GATED_DELTA_RULE;
  if (s->dtype == RD_ABSENT) s->dtype = kda ? RD_BF16 : RD_F16;
  if (kda && s->dtype != RD_BF16)
    return io_fail(err, IO_BAD, "%s takes bf16 activations only", s->op->name);
  if (s->layout_qkv != 0 && op_param_find(s->op, "layout_qkv") == NULL) {
    return io_fail(err, IO_BAD, "%s has no layout_qkv", s->op->name);
  }
  int flash = id == OP_FLASH_KDA || id == OP_FLASH_KDA_METADATA;
  if (s->layout_qkv == 0) s->layout_qkv = flash ? RD_BNSD : RD_BSND;

  if (s->length_count > 0 && !is_given(s, "B")) s->B = s->length_count;
  if (s->length_count > 0 && s->B != s->length_count) {
    return io_fail(err, IO_BAD, "%d lengths for B=%lld sequences", s->length_count,
                   (long long)s->B);
  }
  int64_t sum = s->B * s->T, longest = s->T;
  if (s->length_count > 0) {
    sum = longest = 0;
    for (int i = 0; i < s->length_count; i++) {
      sum += s->lengths[i];
      if (s->lengths[i] > longest) longest = s->lengths[i];
    }
  }
  /* The defaults of T and C are no promise: lengths that need more get it. */
  if (longest > s->T && !is_given(s, "T")) s->T = longest;
  if (id == OP_COMMIT_RECURRENT_KDA_REPLAYSSM && longest > s->C && !is_given(s, "C"))
    s->C = longest;
  if (sum > INT32_MAX) return io_fail(err, IO_BAD, "%lld tokens are too many", (long long)sum);
  int recurrent = id == OP_FUSED_RECURRENT_KDA_REPLAYSSM || id == OP_FUSED_RECURRENT_KDA;
  if (recurrent && s->layout_qkv != RD_TND && s->length_count > 0) {
    return io_fail(err, IO_BAD, "%s takes lengths in TND only", s->op->name);
  }
  /* tokens: the extent of the token axis */
  *tokens = s->layout_qkv == RD_TND && (flash || recurrent) ? sum : s->T;
  if (id == OP_FUSED_RECURRENT_KDA_REPLAYSSM && !is_given(s, "C")) s->C = longest + 2;
  if (id == OP_FUSED_RECURRENT_KDA && !is_given(s, "R")) s->R = sum;
  if (id == OP_COMMIT_RECURRENT_KDA_REPLAYSSM) s->T = s->C; /* accepted: all, unless lengths say */
  return inputs_check(s, err);
}

io_status inputs_make(inputs_spec *spec, io_file *file, io_error *err) {
  int64_t tokens = 0;
  io_status status = complete(spec, &tokens, err);
  if (status != IO_OK) return status;
  maker m = {spec, file, err, IO_OK};
  int packed = spec->layout_qkv == RD_TND;
  switch (spec->op->id) {
  case OP_CHUNK_GATED_DELTA_RULE:
    make_chunk(&m);
    break;
  case OP_FLASH_KDA:
  case OP_FLASH_KDA_METADATA:
    make_flash(&m, tokens, packed || spec->length_count > 0);
    break;
  case OP_FUSED_RECURRENT_KDA_REPLAYSSM:
    make_recurrent(&m, tokens, packed);
    make_records(&m);
    break;
  case OP_COMMIT_RECURRENT_KDA_REPLAYSSM:
    make_records(&m);
    make_lengths(&m, "num_accepted_tokens", 0);
    break;
  case OP_FUSED_RECURRENT_KDA:
    make_recurrent(&m, tokens, packed);
    make_slots(&m, packed ? tokens : spec->B * tokens);
    break;
  case OP_COUNT:
    break;
  }
  if (m.status != IO_OK) io_file_free(file);
  return m.status;
}
