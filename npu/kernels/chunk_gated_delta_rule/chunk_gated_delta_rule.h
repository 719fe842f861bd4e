/*
 * chunk_gated_delta_rule.h - the chunked gated delta rule on the coupled 310P core: arguments.
 *
 * Per sequence b and value head h, with key head h/(Hv/Hk), forget before error:
 *   S <- e^g_t S;  u = beta_t (v_t - k_t S);  S <- S + k_t^T u;  out_t = scale * q_t S     (S is
 * [K,V])
 */
#ifndef REDELTA_NPU_CHUNK_GATED_DELTA_RULE_H
#define REDELTA_NPU_CHUNK_GATED_DELTA_RULE_H

#include <redelta/npu.h>

/* Tensors of the launch in this order; G is last because it may be absent. */
enum {
  RD_CG_QUERY,       /* [B,Hk,T,K] f16 */
  RD_CG_KEY,         /* [B,Hk,T,K] f16 */
  RD_CG_VALUE,       /* [B,Hv,T,V] f16 */
  RD_CG_BETA,        /* [B,Hv,T] f16 */
  RD_CG_STATE,       /* [B,Hv,K,V] f16 or f32 */
  RD_CG_LENGTHS,     /* [B] s32, each in [0,T]: checked by the caller, the kernel relies on it */
  RD_CG_OUT,         /* [B,Hv,T,V] f16 */
  RD_CG_FINAL_STATE, /* as the state */
  RD_CG_G,           /* [B,Hv,T] f32 log decay */
  RD_CG_TENSORS
};

/* This core's copies move whole 32-byte blocks, and a head's beta and g end anywhere: fewer than so many
 * bytes behind these two tensors are read, and not used. */
#define RD_CG_SLACK 32

/* K and V: multiples of 16, 16..128.  Hv a multiple of Hk.  Launch: min(cores, B*Hv) blocks. */
typedef struct rdn_cg_args {
  uint32_t B, Hk, Hv, T, K, V;
  bool has_g;
  bool state_f32;
  float scale;
} rdn_cg_args;

void rdn_chunk_gated_delta_rule(rd_npu_core *c, const void *args);

#endif
