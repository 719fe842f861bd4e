/* What the operators take, for gen. SPDX-License-Identifier: Apache-2.0
 *
 * The bounds are those of include/redelta/operators.h, which the library checks when a file is run;
 * test/cli/cases/gen_limits.sh has both sides agree at every edge.
 */
#include "cli/inputs.h"

enum { MAX_KEY = 512, MAX_HEADS = 96 };

static io_status within(const inputs_spec *s, const char *key, int64_t value, int64_t low,
                        int64_t high, io_error *err) {
  if (value >= low && value <= high) return IO_OK;
  return io_fail(err, IO_BAD, "%s=%lld: %s takes %lld to %lld", key, (long long)value, s->op->name,
                 (long long)low, (long long)high);
}

static io_status check_heads(const inputs_spec *s, io_error *err) {
  io_status status = within(s, "Hk", s->Hk, 1, INT32_MAX, err);
  if (status == IO_OK) status = within(s, "Hv", s->Hv, 1, INT32_MAX, err);
  if (status == IO_OK && s->Hv % s->Hk != 0)
    return io_fail(err, IO_BAD, "Hv=%lld: %s takes a multiple of Hk=%lld", (long long)s->Hv,
                   s->op->name, (long long)s->Hk);
  return status;
}

/* Every length in [low, high]; without lengths all sequences have T. */
static io_status check_lengths(const inputs_spec *s, int64_t low, int64_t high, const char *limit,
                               io_error *err) {
  for (int i = 0; i == 0 || i < s->length_count; i++) {
    int64_t length = s->length_count > 0 ? s->lengths[i] : s->T;
    if (length < low)
      return io_fail(err, IO_BAD, "a length of %lld: %s takes at least %lld", (long long)length,
                     s->op->name, (long long)low);
    if (length > high)
      return io_fail(err, IO_BAD, "a length of %lld is more than %s=%lld", (long long)length, limit,
                     (long long)high);
  }
  return IO_OK;
}

static io_status check_recurrent(const inputs_spec *s, io_error *err) {
  io_status status = within(s, "N", s->N, 1, MAX_HEADS, err);
  if (status == IO_OK) status = within(s, "B", s->B, 1, INT32_MAX, err);
  if (status != IO_OK) return status;
  switch (s->op->id) {
  case OP_COMMIT_RECURRENT_KDA_REPLAYSSM:
    return check_lengths(s, 0, s->C, "C", err);
  case OP_FUSED_RECURRENT_KDA_REPLAYSSM:
    return check_lengths(s, 1, s->C, "C", err);
  default:
    break;
  }
  status = check_lengths(s, 1, INT32_MAX, "", err);
  if (status != IO_OK) return status;
  int64_t tokens = s->length_count > 0 ? 0 : s->B * s->T;
  for (int i = 0; i < s->length_count; i++) tokens += s->lengths[i];
  if (s->R < tokens)
    return io_fail(err, IO_BAD, "R=%lld: %s takes a slot per token, at least %lld", (long long)s->R,
                   s->op->name, (long long)tokens);
  return IO_OK;
}

io_status inputs_check(const inputs_spec *s, io_error *err) {
  io_status status;
  switch (s->op->id) {
  case OP_CHUNK_GATED_DELTA_RULE:
    status = check_heads(s, err);
    if (status == IO_OK) status = within(s, "K", s->K, 1, MAX_KEY, err);
    if (status == IO_OK) status = within(s, "V", s->V, 1, MAX_KEY, err);
    return status == IO_OK ? check_lengths(s, 0, s->T, "T", err) : status;
  case OP_FLASH_KDA:
  case OP_FLASH_KDA_METADATA:
    status = check_heads(s, err);
    if (status != IO_OK || s->layout_qkv == RD_TND) return status;
    return check_lengths(s, 0, s->T, "T", err);
  default:
    return check_recurrent(s, err);
  }
}
