/* Seeded inputs: activations and logits 0.2 N(0,1), state 0.02 N(0,1), gate weights N(0,1), record
 * buffers pre-filled with -7 so that an untouched suffix shows. */
#include "replayssm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double STALE = -7.0;

typedef struct sizes {
  char layout[8];
  int64_t B, N, S, C, tokens, longest;
  int64_t lengths[256];
  int count;
} sizes;

static void fill(rdn_call *call, rdn_named *t, double factor) {
  for (int64_t i = 0, n = rdn_named_count(t); i < n; i++)
    rdn_named_store(t, i, factor * rdn_rand_normal(&call->seed));
}

static rdn_named *add(rdn_call *call, const char *name, rd_npu_type type, uint32_t rank,
                      const int64_t *shape, double factor) {
  rdn_named *t = rdn_call_add(call, name, type, rank, shape, NULL);
  if (t && factor != 0) fill(call, t, factor);
  return t;
}

static rdn_named *add_stale(rdn_call *call, const char *name, rd_npu_type type,
                            const int64_t *shape) {
  rdn_named *t = rdn_call_add(call, name, type, 4, shape, NULL);
  if (t)
    for (int64_t i = 0, n = rdn_named_count(t); i < n; i++) rdn_named_store(t, i, STALE);
  return t;
}

static rd_npu_status copy_settings(rdn_call *call, const char *shape) {
  static const char *const names[] = {"block_num", "rows", "slice"};
  for (int i = 0; i < 3; i++) {
    char text[32];
    if (rdn_shape_text(shape, names[i], text, sizeof text) && !rdn_call_set(call, names[i], text))
      return rdn_call_fail(call, "shape: bad %s", names[i]);
  }
  return RD_NPU_OK;
}

static rd_npu_status read_sizes(rdn_call *call, const char *shape, sizes *z) {
  memset(z, 0, sizeof *z);
  if (!rdn_shape_text(shape, "layout", z->layout, sizeof z->layout))
    snprintf(z->layout, sizeof z->layout, "BSND");
  z->count = rdn_shape_list(shape, "lengths", z->lengths, 256);
  if (z->count < 0 || !rdn_shape_int(shape, "B", z->count ? z->count : 1, &z->B) ||
      !rdn_shape_int(shape, "N", 1, &z->N) || !rdn_shape_int(shape, "S", 8, &z->S))
    return rdn_call_fail(call, "shape: expected layout=,B=,N=,S=,lengths=,C=,block_num=, got '%s'",
                         shape);
  if (strcmp(z->layout, "TND") == 0) {
    if (z->count == 0) z->lengths[z->count++] = z->S;
    z->B = z->count;
    for (int i = 0; i < z->count; i++) {
      if (z->lengths[i] < 1 || z->lengths[i] > REPLAY_WINDOW)
        return rdn_call_fail(call, "shape: lengths must be 1 to %d", REPLAY_WINDOW);
      z->tokens += z->lengths[i];
      if (z->lengths[i] > z->longest) z->longest = z->lengths[i];
    }
  } else {
    if (z->count) return rdn_call_fail(call, "shape: lengths need layout=TND");
    z->longest = z->S;
  }
  if (!rdn_shape_int(shape, "C", z->longest + 2, &z->C)) return rdn_call_fail(call, "shape: bad C");
  if (z->B < 1 || z->N < 1 || z->S < 1 || z->C < 1 || z->B > 65536 || z->N > REPLAY_HEADS ||
      z->S > 4096 || z->C > 4096)
    return rdn_call_fail(call, "shape: out of range in '%s'", shape);
  return RD_NPU_OK;
}

rd_npu_status rdn_replay_verify_generate(rdn_call *call, const char *shape) {
  sizes z;
  rd_npu_status s = copy_settings(call, shape);
  if (!s) s = read_sizes(call, shape, &z);
  if (s) return s;
  const bool tnd = strcmp(z.layout, "TND") == 0, bnsd = strcmp(z.layout, "BNSD") == 0;
  const int64_t g_tnd[3] = {z.tokens, z.N, REPLAY_DIM}, m_tnd[2] = {z.tokens, 3 * z.N * REPLAY_DIM};
  const int64_t g_pad[4] = {z.B, bnsd ? z.N : z.S, bnsd ? z.S : z.N, REPLAY_DIM};
  const int64_t m_bsnd[3] = {z.B, z.S, 3 * z.N * REPLAY_DIM},
                m_bnsd[4] = {z.B, 3 * z.N, z.S, REPLAY_DIM};
  const int64_t *g = tnd ? g_tnd : g_pad;
  const uint32_t rank = tnd ? 3 : 4;
  int64_t logits[4] = {g[0], g[1], tnd ? 1 : g[2], 1};
  const int64_t state[4] = {z.B, z.N, REPLAY_DIM, REPLAY_DIM},
                record[4] = {z.B, z.C, z.N, REPLAY_DIM};
  if (!rdn_call_set(call, "layout_qkv", z.layout))
    return rdn_call_fail(call, "shape: too many settings");
  bool ok = add(call, "mixedqkv", RD_NPU_BF16,
                tnd    ? 2
                : bnsd ? 4
                       : 3,
                tnd    ? m_tnd
                : bnsd ? m_bnsd
                       : m_bsnd,
                0.2) &&
            add(call, "recurrent_state", RD_NPU_F32, 4, state, 0.02) &&
            add(call, "beta", RD_NPU_BF16, rank, logits, 0.2) &&
            add(call, "g", RD_NPU_BF16, rank, g, 0.2) &&
            add(call, "A_log", RD_NPU_F32, 1, &z.N, 1.0) &&
            add(call, "dt_bias", RD_NPU_F32, 2, (int64_t[]){z.N, REPLAY_DIM}, 1.0) &&
            add_stale(call, "replay_u", RD_NPU_F16, record) &&
            add_stale(call, "replay_k", RD_NPU_F16, record) &&
            add_stale(call, "replay_decay", RD_NPU_F32, record);
  if (ok && tnd) {
    rdn_named *cu = rdn_call_add(call, "cu_seqlens", RD_NPU_S32, 1, (int64_t[]){z.B + 1}, NULL);
    int64_t at = 0;
    for (int64_t b = 0; cu && b < z.B; b++)
      rdn_named_store(cu, b + 1, (double)(at += z.lengths[b]));
    ok = cu != NULL;
  }
  return ok ? RD_NPU_OK : call->status;
}

/* Records as a verify would leave them: u of the size of v, unit keys, decays in (0,1). */
static bool add_records(rdn_call *call, const sizes *z) {
  const int64_t shape[4] = {z->B, z->C, z->N, REPLAY_DIM};
  rdn_named *u = add(call, "replay_u", RD_NPU_F16, 4, shape, 0.2);
  rdn_named *k = add(call, "replay_k", RD_NPU_F16, 4, shape, 1.0 / sqrt((double)REPLAY_DIM));
  rdn_named *decay = add(call, "replay_decay", RD_NPU_F32, 4, shape, 0);
  if (!u || !k || !decay) return false;
  for (int64_t i = 0, n = rdn_named_count(decay); i < n; i++)
    rdn_named_store(decay, i, rdn_rand_uniform(&call->seed));
  return true;
}

rd_npu_status rdn_replay_commit_generate(rdn_call *call, const char *shape) {
  sizes z = {0};
  int64_t accepted[256];
  const int count = rdn_shape_list(shape, "accepted", accepted, 256);
  rd_npu_status s = copy_settings(call, shape);
  if (s) return s;
  if (count < 0 || !rdn_shape_int(shape, "B", count ? count : 1, &z.B) ||
      !rdn_shape_int(shape, "N", 1, &z.N) || !rdn_shape_int(shape, "C", 8, &z.C))
    return rdn_call_fail(call, "shape: expected B=,N=,C=,accepted=,block_num=, got '%s'", shape);
  if (z.B < 1 || z.N < 1 || z.C < 0 || z.B > 65536 || z.N > REPLAY_HEADS || z.C > 4096)
    return rdn_call_fail(call, "shape: out of range in '%s'", shape);
  const int64_t state[4] = {z.B, z.N, REPLAY_DIM, REPLAY_DIM};
  if (!add(call, "recurrent_state", RD_NPU_F32, 4, state, 0.02) || !add_records(call, &z))
    return call->status;
  rdn_named *n = rdn_call_add(call, "num_accepted_tokens", RD_NPU_S32, 1, &z.B, NULL);
  if (!n) return call->status;
  for (int64_t b = 0; b < z.B; b++) {
    const int64_t mixed = (int64_t)(rdn_rand(&call->seed) % (uint64_t)(z.C + 1));
    rdn_named_store(n, b, (double)(count == 0 ? mixed : accepted[b % count]));
  }
  return RD_NPU_OK;
}
