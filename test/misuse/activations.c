/* Mistakes in the sequences and activations that prefill, decode, verify and the folded verb share,
 * and in the pools they read and write. SPDX-License-Identifier: Apache-2.0 */
#include "misuse.h"

/* ------------------------------------------------------------------ the calls ---------------- */
static rd_status prefill(fix *f) {
  return rd_prefill(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_write);
}
static rd_status decode(fix *f) {
  return rd_decode(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, NULL, NULL);
}
static rd_status decode_write(fix *f) {
  return rd_decode(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_write, NULL);
}
static rd_status decode_snap(fix *f) {
  return rd_decode(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_write, f->a_snap);
}
static rd_status verify(fix *f) {
  return rd_verify(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_rec);
}

/* ------------------------------------------------------------------ mistakes ----------------- */
#define M(fn, body)                                                                                \
  static void fn(fix *f) { body; }

M(no_ctx, f->a_cx = NULL)
M(no_plan, f->a_plan = NULL)
M(no_seq, f->a_seq = NULL)
M(no_act, f->a_act = NULL)
M(seq_size, f->seq.struct_size = 0)
M(seq_size_big, f->seq.struct_size += 8)
M(act_size, f->act.struct_size = 3)
M(q_absent, memset(&f->act.q, 0, sizeof f->act.q))
M(k_absent, memset(&f->act.k, 0, sizeof f->act.k))
M(v_absent, memset(&f->act.v, 0, sizeof f->act.v))
M(g_absent, memset(&f->act.g, 0, sizeof f->act.g))
M(beta_absent, memset(&f->act.beta, 0, sizeof f->act.beta))
M(out_absent, memset(&f->act.out, 0, sizeof f->act.out))
M(q_null, f->act.q.data = NULL)
M(out_null, f->act.out.data = NULL)
M(q_dtype, f->act.q.dtype = RD_F16)
M(k_dtype, f->act.k.dtype = RD_I32)
M(v_dtype, f->act.v.dtype = RD_BF16)
M(g_dtype, f->act.g.dtype = RD_F16)
M(beta_dtype, f->act.beta.dtype = RD_F16)
M(out_dtype, f->act.out.dtype = RD_BF16)
M(dtype_unknown, f->act.q.dtype = (rd_dtype)77)
M(q_rank, f->act.q.rank = 2)
M(out_rank, f->act.out.rank = 2)
M(g_rank, f->act.g.rank = f->act.g.rank == 4 ? 3 : 2)
M(beta_rank, f->act.beta.rank = 1)
M(rank_negative, f->act.v.rank = -1)
M(rank_big, f->act.v.rank = 5)
static int dim(const fix *f, int from_end, const rd_tensor *t) {
  return (void)f, t->rank - from_end;
}
M(q_K, f->act.q.shape[dim(f, 1, &f->act.q)]--)
M(k_H, f->act.k.shape[dim(f, 2, &f->act.k)]--)
M(v_V, f->act.v.shape[dim(f, 1, &f->act.v)]--)
M(g_H, f->act.g.shape[dim(f, 2, &f->act.g)]--)
M(g_K, f->act.g.shape[dim(f, 1, &f->act.g)]--)
M(beta_H, f->act.beta.shape[dim(f, 1, &f->act.beta)]--)
M(k_T, f->act.k.shape[dim(f, 3, &f->act.k)]--)
M(v_T, f->act.v.shape[dim(f, 3, &f->act.v)]--)
M(beta_T, f->act.beta.shape[dim(f, 2, &f->act.beta)]--)
M(out_T, f->act.out.shape[dim(f, 3, &f->act.out)]--)
M(out_V, f->act.out.shape[dim(f, 1, &f->act.out)]--)
M(q_negative, f->act.q.shape[0] = -1)
M(q_stride, f->act.q.stride[0] = -f->act.q.stride[0])
M(q_inner, f->act.q.stride[f->act.q.rank - 1] = 2)
M(out_inner, f->act.out.stride[f->act.out.rank - 1] = 2)
M(q_misaligned, f->act.q.data = (char *)f->act.q.data + 1)
M(out_misaligned, f->act.out.data = (char *)f->act.out.data + 2)
M(pad_in_pool, {
  f->p.pad_slot = 2;
  fix_plan(f);
})
M(out_shared, f->act.out.stride[dim(f, 3, &f->act.out)] = 8)
M(out_zero_stride, f->act.out.stride[0] = 0)
M(out_is_v, f->act.out.data = f->act.v.data)
M(out_is_beta, f->act.out.data = f->act.beta.data)
M(out_is_pool, f->act.out.data = f->state.pool.data)
M(out_is_slots, f->act.out.data = f->state.slots.data)
M(batch_negative, f->seq.batch = -1)
M(batch_wrong, f->seq.batch = 2)
M(batch_over_plan, {
  f->p.max_batch = 2;
  fix_plan(f);
})
M(tokens_over_plan, {
  f->p.max_tokens = 4;
  fix_plan(f);
})

static const mistake common[] = {
    {"no context", no_ctx, RD_E_NULL, NULL},
    {"no plan", no_plan, RD_E_NULL, "plan"},
    {"no sequences", no_seq, RD_E_NULL, "seq"},
    {"no activations", no_act, RD_E_NULL, "act"},
    {"sequences of size 0", seq_size, RD_E_STRUCT_SIZE, "seq|struct_size"},
    {"sequences of a later size", seq_size_big, RD_E_STRUCT_SIZE, "seq|struct_size"},
    {"activations of size 3", act_size, RD_E_STRUCT_SIZE, "act|struct_size"},
    {"q absent", q_absent, RD_E_NULL, "q"},
    {"k absent", k_absent, RD_E_NULL, "k"},
    {"v absent", v_absent, RD_E_NULL, "v"},
    {"g absent", g_absent, RD_E_NULL, "g"},
    {"beta absent", beta_absent, RD_E_NULL, "beta"},
    {"out absent", out_absent, RD_E_NULL, "out"},
    {"q at null", q_null, RD_E_NULL, "q"},
    {"out at null", out_null, RD_E_NULL, "out"},
    {"q of another type", q_dtype, RD_E_DTYPE, "q"},
    {"k of integers", k_dtype, RD_E_DTYPE, "k"},
    {"v of another type", v_dtype, RD_E_DTYPE, "v"},
    {"g of another type", g_dtype, RD_E_DTYPE, "g"},
    {"beta of another type", beta_dtype, RD_E_DTYPE, "beta"},
    {"out of another type", out_dtype, RD_E_DTYPE, "out"},
    {"an unknown type", dtype_unknown, RD_E_DTYPE, "q"},
    {"q of rank 2", q_rank, RD_E_RANK, "q"},
    {"out of rank 2", out_rank, RD_E_RANK, "out"},
    {"g of a lower rank", g_rank, RD_E_RANK, "g"},
    {"beta of rank 1", beta_rank, RD_E_RANK, "beta"},
    {"v of rank -1", rank_negative, RD_E_RANK, "v"},
    {"v of rank 5", rank_big, RD_E_RANK, "v"},
    {"q with other K", q_K, RD_E_SHAPE, "q"},
    {"k with other heads", k_H, RD_E_SHAPE, "k"},
    {"v with other V", v_V, RD_E_SHAPE, "v"},
    {"g with other heads", g_H, RD_E_SHAPE, "g"},
    {"g with other K", g_K, RD_E_SHAPE, "g"},
    {"beta with other heads", beta_H, RD_E_SHAPE, "beta"},
    {"k with fewer tokens", k_T, RD_E_SHAPE, "k"},
    {"v with fewer tokens", v_T, RD_E_SHAPE, "v"},
    {"beta with fewer tokens", beta_T, RD_E_SHAPE, "beta"},
    {"out with fewer tokens", out_T, RD_E_SHAPE, "out"},
    {"out with other V", out_V, RD_E_SHAPE, "out"},
    {"a negative dimension", q_negative, RD_E_SHAPE, "q"},
    {"a negative stride", q_stride, RD_E_STRIDE, "q"},
    {"q with innermost stride 2", q_inner, RD_E_STRIDE, "q"},
    {"out with innermost stride 2", out_inner, RD_E_STRIDE, "out"},
    {"q misaligned", q_misaligned, RD_E_STRIDE, "q"},
    {"out misaligned", out_misaligned, RD_E_STRIDE, "out"},
    {"a pad slot inside the pool", pad_in_pool, RD_E_SLOT_RANGE, NULL},
    {"out with overlapping tokens", out_shared, RD_E_STRIDE, "out"},
    {"out on v", out_is_v, RD_E_ALIAS, "out"},
    {"out on beta", out_is_beta, RD_E_ALIAS, "out"},
    {"out on the pool", out_is_pool, RD_E_ALIAS, "out"},
    {"out on the slot indices", out_is_slots, RD_E_ALIAS, "out"},
    {"a negative batch", batch_negative, RD_E_SHAPE, "batch"},
    {"more sequences than planned", batch_over_plan, RD_E_PLAN, "batch|max_batch"},
    {"longer sequences than planned", tokens_over_plan, RD_E_PLAN, NULL},
};
static const mistake padded_only[] = {
    {"out broadcast", out_zero_stride, RD_E_STRIDE, "out"},
    {"another batch than the tensors'", batch_wrong, RD_E_SHAPE, NULL},
};

/* ------------------------------------------------------------------ lengths ------------------ */
static int32_t *lens(fix *f) { return (void *)f->c->lens.b->p; }
M(len_negative, lens(f)[1] = -1)
M(len_long, lens(f)[2] = 7)
M(lengths_dtype, f->seq.lengths.dtype = RD_F32)
M(lengths_rank, f->seq.lengths.rank = 2)
M(lengths_shape, f->seq.lengths.shape[0] = 2)
M(cu_too, f->seq.cu_seqlens = f->seq.lengths)
M(out_is_lengths, f->act.out.data = f->seq.lengths.data)
static const mistake lengths[] = {
    {"a negative length", len_negative, RD_E_LENGTH, "lengths"},
    {"a length over T", len_long, RD_E_LENGTH, "lengths"},
    {"lengths of floats", lengths_dtype, RD_E_DTYPE, "lengths"},
    {"lengths of rank 2", lengths_rank, RD_E_RANK, "lengths"},
    {"too few lengths", lengths_shape, RD_E_SHAPE, "lengths"},
    {"cu_seqlens in a padded call", cu_too, RD_E_PRESENCE, "cu_seqlens"},
    {"out on the lengths", out_is_lengths, RD_E_ALIAS, "out"},
};

M(cu_start, lens(f)[0] = 1)
M(cu_order, lens(f)[2] = 4)
M(cu_end, lens(f)[3] = 14)
M(cu_absent, memset(&f->seq.cu_seqlens, 0, sizeof(rd_tensor)))
M(cu_dtype, f->seq.cu_seqlens.dtype = RD_F32)
M(cu_shape, f->seq.cu_seqlens.shape[0] = 3)
M(lengths_too, f->seq.lengths = f->seq.cu_seqlens)
static const mistake prefix_sums[] = {
    {"cu_seqlens from 1", cu_start, RD_E_CU_START, "cu_seqlens"},
    {"cu_seqlens decreasing", cu_order, RD_E_CU_ORDER, "cu_seqlens"},
    {"cu_seqlens past the tokens", cu_end, RD_E_CU_END, "cu_seqlens"},
    {"cu_seqlens absent", cu_absent, RD_E_NULL, "cu_seqlens"},
    {"cu_seqlens of floats", cu_dtype, RD_E_DTYPE, "cu_seqlens"},
    {"cu_seqlens too short", cu_shape, RD_E_SHAPE, "cu_seqlens"},
    {"lengths in a packed call", lengths_too, RD_E_PRESENCE, "lengths"},
};

/* ------------------------------------------------------------------ gates -------------------- */
M(A_absent, memset(&f->act.A_log, 0, sizeof(rd_tensor)))
M(dt_absent, memset(&f->act.dt_bias, 0, sizeof(rd_tensor)))
M(A_dtype, f->act.A_log.dtype = RD_F16)
M(A_shape, f->act.A_log.shape[0] = 3)
M(dt_shape, f->act.dt_bias.shape[1] = 3)
M(dt_rank, f->act.dt_bias.rank = 1)
M(dt_dtype, f->act.dt_bias.dtype = RD_BF16)
static const mistake raw_gate[] = {
    {"A_log absent", A_absent, RD_E_NULL, "A_log"},
    {"dt_bias absent", dt_absent, RD_E_NULL, "dt_bias"},
    {"A_log of another type", A_dtype, RD_E_DTYPE, "A_log"},
    {"A_log too short", A_shape, RD_E_SHAPE, "A_log"},
    {"dt_bias too narrow", dt_shape, RD_E_SHAPE, "dt_bias"},
    {"dt_bias of rank 1", dt_rank, RD_E_RANK, "dt_bias"},
    {"dt_bias of another type", dt_dtype, RD_E_DTYPE, "dt_bias"},
};
M(A_present, f->act.A_log = rd_tensor_contiguous(f->d->A, RD_F32, 1, &f->p.Hv))
M(dt_present, f->act.dt_bias = rd_tensor_contiguous(f->d->dt, RD_F32, 1, &f->p.Hv))
static const mistake log_gate[] = {
    {"A_log given to a log gate", A_present, RD_E_PRESENCE, "A_log"},
    {"dt_bias given to a log gate", dt_present, RD_E_PRESENCE, "dt_bias"},
};
M(g_present, f->act.g = f->act.k)
static const mistake no_gate[] = {
    {"g given without a gate", g_present, RD_E_PRESENCE, "g"},
    {"A_log given without a gate", A_present, RD_E_PRESENCE, "A_log"},
};

/* ------------------------------------------------------------------ pools -------------------- */
static int32_t *slots(fix *f) { return f->state.slots.data; }
static int32_t *writes(fix *f) { return f->write.slots.data; }
M(pool_dtype, f->state.pool.dtype = RD_F16)
M(pool_rank, f->state.pool.rank = 3)
M(pool_V, f->state.pool.shape[2]--)
M(pool_H, f->state.pool.shape[1]--)
M(pool_null, f->state.pool.data = NULL)
M(slots_dtype, f->state.slots.dtype = RD_I64)
M(slots_rank, f->state.slots.rank = 2)
M(slots_short, f->state.slots.shape[0] = 2)
M(slots_null, f->state.slots.data = NULL)
M(slot_negative, slots(f)[1] = -2)
M(slot_past, slots(f)[1] = FSLOTS)
M(too_few_slots, {
  memset(&f->state.slots, 0, sizeof(rd_tensor));
  f->state.pool.shape[0] = 2;
})
M(pool_overlaps, f->state.pool.stride[0] = 8)
static const mistake pools[] = {
    {"a pool of another type", pool_dtype, RD_E_DTYPE, "pool"},
    {"a pool of rank 3", pool_rank, RD_E_RANK, "pool"},
    {"a pool with other V", pool_V, RD_E_SHAPE, "pool"},
    {"a pool with other heads", pool_H, RD_E_SHAPE, "pool"},
    {"a pool at null", pool_null, RD_E_NULL, "pool"},
    {"slots of i64", slots_dtype, RD_E_DTYPE, "slots"},
    {"slots of rank 2", slots_rank, RD_E_RANK, "slots"},
    {"too few slots", slots_short, RD_E_SHAPE, "slots"},
    {"slots at null", slots_null, RD_E_NULL, "slots"},
    {"slot -2", slot_negative, RD_E_SLOT_RANGE, "slots"},
    {"a slot past the pool", slot_past, RD_E_SLOT_RANGE, "slots"},
    {"fewer slots than sequences", too_few_slots, RD_E_SLOT_RANGE, NULL},
};
M(state_twice, slots(f)[2] = slots(f)[0])
static const mistake in_place[] = {
    {"one slot for two sequences", state_twice, RD_E_SLOT_DUPLICATE, "slots"},
    {"a pool whose slots overlap", pool_overlaps, RD_E_STRIDE, "pool"},
};
M(write_twice, writes(f)[2] = writes(f)[0])
M(write_read, writes(f)[2] = slots(f)[0])
M(write_past, writes(f)[0] = FSLOTS)
M(write_dtype, f->write.pool.dtype = RD_BF16)
M(write_partial, f->write.pool.data = (float *)f->write.pool.data + 16)
static const mistake two_pools[] = {
    {"a slot written twice", write_twice, RD_E_SLOT_DUPLICATE, "slots"},
    {"a slot written by one and read by another", write_read, RD_E_SLOT_DUPLICATE, "slots"},
    {"a write slot past the pool", write_past, RD_E_SLOT_RANGE, "slots"},
    {"a final pool of another type", write_dtype, RD_E_DTYPE, "pool"},
    {"pools that overlap in part", write_partial, RD_E_ALIAS, "pool"},
};
static int32_t *snaps(fix *f) { return f->snap.slots.data; }
M(no_state, f->a_state = NULL)
M(absent_state, memset(&f->state, 0, sizeof f->state))
M(snap_twice, snaps(f)[3] = snaps(f)[4])
M(snap_past, snaps(f)[3] = FSNAP)
M(snap_shape, f->snap.slots.shape[1]--)
M(snap_rank, {
  f->snap.slots.rank = 1;
  f->snap.slots.stride[0] = 1;
})
M(snap_in_pool, {
  f->snap.pool = f->state.pool;
  snaps(f)[0] = 3;
  for (int i = 1; i < FB * FT; i++) snaps(f)[i] = -1;
})
static const mistake snapshot[] = {
    {"a snapshot slot twice", snap_twice, RD_E_SLOT_DUPLICATE, NULL},
    {"a snapshot slot past the pool", snap_past, RD_E_SLOT_RANGE, NULL},
    {"too few snapshot slots", snap_shape, RD_E_SHAPE, NULL},
    {"snapshot slots of rank 1", snap_rank, RD_E_RANK, NULL},
    {"a snapshot over another sequence's state", snap_in_pool, RD_E_SLOT_DUPLICATE, NULL},
};
static const mistake no_states[] = {
    {"no state", no_state, RD_E_NULL, NULL},
    {"an absent pool", absent_state, RD_E_NULL, "pool"},
};

#define TABLE(t, flavour, verb) misuse(t, PT_LEN(t), flavour, NULL, verb, #verb " with " #t)

static void c_activations(void) {
  TABLE(common, F_LOG, prefill);
  TABLE(common, F_PACKED, prefill);
  TABLE(padded_only, F_LOG, prefill);
  TABLE(common, F_LOG, decode);
  TABLE(common, F_LOG, verify);
  TABLE(padded_only, F_LENGTHS, verify);
  TABLE(common, F_PACKED, decode);
  TABLE(common, F_PACKED, verify);
}

static void c_lengths(void) {
  TABLE(lengths, F_LENGTHS, prefill);
  TABLE(lengths, F_LENGTHS, decode);
  TABLE(lengths, F_LENGTHS, verify);
  TABLE(prefix_sums, F_PACKED, prefill);
  TABLE(prefix_sums, F_PACKED, decode);
  TABLE(prefix_sums, F_PACKED, verify);
}

static void c_gates(void) {
  TABLE(raw_gate, F_RAW, prefill);
  TABLE(log_gate, F_LOG, prefill);
  TABLE(no_gate, F_NONE, prefill);
  TABLE(raw_gate, F_RAW, verify);
  TABLE(no_gate, F_NONE, decode);
}

static void c_pools(void) {
  TABLE(pools, F_LOG, prefill);
  TABLE(pools, F_LOG, decode);
  TABLE(pools, F_LOG, verify);
  TABLE(in_place, F_LOG, decode);
  TABLE(two_pools, F_LOG, prefill);
  TABLE(two_pools, F_LOG, decode_write);
  TABLE(no_states, F_LOG, decode);
  TABLE(no_states, F_LOG, verify);
  TABLE(snapshot, F_LOG, decode_snap);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"activations", c_activations, PT_QUICK},
      {"lengths", c_lengths, PT_QUICK},
      {"gates", c_gates, PT_QUICK},
      {"pools", c_pools, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_activations", cases, PT_LEN(cases));
}
