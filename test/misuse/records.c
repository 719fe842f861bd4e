/* Mistakes with records: verify's, commit's, materialize's and the folded verb's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "misuse.h"

static rd_status verify(fix *f) {
  return rd_verify(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_rec);
}

/* The later verbs get genuine records first, made before the mistake, by `genuine`. */
static void genuine(fix *f) {
  CK_OK(f->cx, rd_verify(f->cx, f->plan, &f->seq, &f->act, &f->state, &f->rec->r));
  call_dirty(f->c);
}

static rd_status commit(fix *f) {
  return rd_commit(f->a_cx, f->a_plan, f->a_rec, f->a_acc, f->a_state);
}
static rd_status materialize(fix *f) {
  return rd_materialize(f->a_cx, f->a_plan, f->a_rec, f->a_acc, f->a_state, f->a_write);
}
static rd_status commit_verify(fix *f) {
  return rd_commit_verify(f->a_cx, f->a_plan, f->a_rec, f->a_acc, f->a_seq, f->a_act, f->a_state,
                          f->a_next);
}

#define M(fn, body)                                                                                \
  static void fn(fix *f) { body; }

/* ------------------------------------------------------------------ verify ------------------- */
M(no_rec, f->a_rec = NULL)
M(rec_size, f->rec->r.struct_size = 8)
M(rec_lengths, f->rec->r.lengths = NULL)
M(u_absent, memset(&f->rec->r.u, 0, sizeof(rd_tensor)))
M(k_absent, memset(&f->rec->r.k, 0, sizeof(rd_tensor)))
M(decay_absent, memset(&f->rec->r.decay, 0, sizeof(rd_tensor)))
M(u_null, f->rec->r.u.data = NULL)
M(u_dtype, f->rec->r.u.dtype = RD_F16)
M(k_dtype, f->rec->r.k.dtype = RD_BF16)
M(decay_dtype, f->rec->r.decay.dtype = RD_F16)
M(u_rank, f->rec->r.u.rank = 3)
M(decay_rank, f->rec->r.decay.rank = 3)
M(u_B, f->rec->r.u.shape[0] = 2)
M(k_C, f->rec->r.k.shape[1] = 6)
M(u_V, f->rec->r.u.shape[3]--)
M(k_H, f->rec->r.k.shape[2]--)
M(decay_K, f->rec->r.decay.shape[3]--)
M(capacity, f->rec->r.u.shape[1] = f->rec->r.k.shape[1] = f->rec->r.decay.shape[1] = 4)
M(u_stride, f->rec->r.u.stride[1] = 16)
M(u_misaligned, f->rec->r.u.data = (char *)f->rec->r.u.data + 2)
M(u_inner, f->rec->r.u.stride[3] = 2)
M(k_negative, f->rec->r.k.stride[0] = -f->rec->r.k.stride[0])
M(u_is_decay, f->rec->r.u.data = f->rec->r.decay.data)
M(k_is_q, f->rec->r.k.data = f->act.q.data)
M(u_is_out, f->rec->r.u.data = f->act.out.data)
M(decay_is_pool, f->rec->r.decay.data = f->state.pool.data)
M(lengths_are_u, f->rec->r.lengths = f->rec->r.u.data)
M(lengths_are_slots, f->rec->r.lengths = f->state.slots.data)
static const mistake records[] = {
    {"no records", no_rec, RD_E_NULL, "records|previous"},
    {"records of size 8", rec_size, RD_E_STRUCT_SIZE, "records|previous|struct_size"},
    {"no lengths", rec_lengths, RD_E_NULL, "lengths"},
    {"u absent", u_absent, RD_E_NULL, "u"},
    {"k absent", k_absent, RD_E_NULL, "k"},
    {"decay absent", decay_absent, RD_E_NULL, "decay"},
    {"u at null", u_null, RD_E_NULL, "u"},
    {"u of another type", u_dtype, RD_E_DTYPE, "u"},
    {"k of another type", k_dtype, RD_E_DTYPE, "k"},
    {"decay of another type", decay_dtype, RD_E_DTYPE, "decay"},
    {"u of rank 3", u_rank, RD_E_RANK, "u"},
    {"decay of rank 3", decay_rank, RD_E_RANK, "decay"},
    {"u of another batch", u_B, RD_E_SHAPE, "u"},
    {"k of another capacity", k_C, RD_E_SHAPE, "k"},
    {"u with other V", u_V, RD_E_SHAPE, "u"},
    {"k with other heads", k_H, RD_E_SHAPE, "k"},
    {"decay with other K", decay_K, RD_E_SHAPE, "decay"},
    {"more tokens than capacity", capacity, RD_E_CAPACITY, NULL},
    {"u with overlapping tokens", u_stride, RD_E_STRIDE, "u"},
    {"u misaligned", u_misaligned, RD_E_STRIDE, "u"},
    {"u with innermost stride 2", u_inner, RD_E_STRIDE, "u"},
    {"k with a negative stride", k_negative, RD_E_STRIDE, "k"},
    {"u on decay", u_is_decay, RD_E_ALIAS, "u|decay"},
    {"k on q", k_is_q, RD_E_ALIAS, "k"},
    {"u on out", u_is_out, RD_E_ALIAS, "u|out"},
    {"decay on the pool", decay_is_pool, RD_E_ALIAS, "decay"},
    {"lengths on u", lengths_are_u, RD_E_ALIAS, "lengths|u"},
    {"lengths on the slot indices", lengths_are_slots, RD_E_ALIAS, "lengths|slots"},
};
M(decay_present, f->rec->r.decay = f->next->r.k)
static const mistake gateless[] = {
    {"decay given without a gate", decay_present, RD_E_PRESENCE, "decay"}};

/* ------------------------------------------------------------------ commit ------------------- */
static int32_t *acc(fix *f) { return (void *)f->acc->p; }
M(g_no_ctx, f->a_cx = NULL)
M(g_no_plan, f->a_plan = NULL)
M(g_no_rec, f->a_rec = NULL)
M(g_no_acc, f->a_acc = NULL)
M(g_no_state, f->a_state = NULL)
M(g_acc_absent, memset(&f->accepted, 0, sizeof f->accepted))
M(g_rec_size, f->rec->r.struct_size = 0)
M(acc_negative, acc(f)[1] = -1)
M(acc_large, acc(f)[1] = FT + 1)
M(acc_dtype, f->accepted.dtype = RD_I64)
M(acc_rank, f->accepted.rank = 2)
M(acc_shape, f->accepted.shape[0] = 2)
M(acc_null, f->accepted.data = NULL)
M(foreign, memset(&f->rec->r.made, 0, sizeof f->rec->r.made))
M(magic, f->rec->r.made.magic ^= 1)
M(made_kind, f->rec->r.made.gate_kind = 2)
M(made_map, f->rec->r.made.head_map = RD_HEADS_TILED)
M(made_batch, f->rec->r.made.batch = 2)
M(made_C, f->rec->r.made.C = 6)
M(made_K, f->rec->r.made.K = 23)
M(made_length, f->rec->r.lengths[0] = FC + 1)
M(made_length_negative, f->rec->r.lengths[0] = -1)
M(other_gate, {
  f->p.gate_axis = RD_PER_HEAD;
  fix_plan(f);
})
M(other_map, {
  f->p.head_map = RD_HEADS_TILED;
  fix_plan(f);
})
M(other_V, {
  f->p.V = 8;
  fix_plan(f);
})
M(g_u_absent, memset(&f->rec->r.u, 0, sizeof(rd_tensor)))
M(g_u_dtype, f->rec->r.u.dtype = RD_F16)
M(g_decay_absent, memset(&f->rec->r.decay, 0, sizeof(rd_tensor)))
M(g_pool_dtype, f->state.pool.dtype = RD_F16)
M(g_pool_shape, f->state.pool.shape[3]--)
M(g_slot_past, ((int32_t *)f->state.slots.data)[2] = FSLOTS)
M(g_slots_short, f->state.slots.shape[0] = 2)
M(g_pool_is_u, f->state.pool.data = f->rec->r.u.data)
M(g_pool_is_acc, f->accepted.data = memcpy(f->state.pool.data, f->acc->p, f->acc->bytes))
static const mistake replay[] = {
    {"no context", g_no_ctx, RD_E_NULL, NULL},
    {"no plan", g_no_plan, RD_E_NULL, "plan"},
    {"no records", g_no_rec, RD_E_NULL, "records|previous"},
    {"no accepted counts", g_no_acc, RD_E_NULL, "accepted"},
    {"no state", g_no_state, RD_E_NULL, NULL},
    {"accepted absent", g_acc_absent, RD_E_NULL, "accepted"},
    {"records of size 0", g_rec_size, RD_E_STRUCT_SIZE, "records|previous|struct_size"},
    {"accepted -1", acc_negative, RD_E_ACCEPTED, "accepted"},
    {"accepted over the length", acc_large, RD_E_ACCEPTED, "accepted"},
    {"accepted of i64", acc_dtype, RD_E_DTYPE, "accepted"},
    {"accepted of rank 2", acc_rank, RD_E_RANK, "accepted"},
    {"too few accepted", acc_shape, RD_E_SHAPE, "accepted"},
    {"accepted at null", acc_null, RD_E_NULL, "accepted"},
    {"records that no verify made", foreign, RD_E_RECORDS, "records|previous"},
    {"records with a wrong mark", magic, RD_E_RECORDS, "records|previous"},
    {"records of another gate kind", made_kind, RD_E_RECORDS, "records|previous"},
    {"records of another head map", made_map, RD_E_RECORDS, "records|previous"},
    {"records of another batch", made_batch, RD_E_RECORDS, NULL},
    {"records of another capacity", made_C, RD_E_RECORDS, NULL},
    {"records of another K", made_K, RD_E_RECORDS, NULL},
    {"a recorded length over C", made_length, RD_E_RECORDS, NULL},
    {"a negative recorded length", made_length_negative, RD_E_RECORDS, NULL},
    {"u absent", g_u_absent, RD_E_NULL, "u"},
    {"u of another type", g_u_dtype, RD_E_RECORDS, "u"},
    {"decay absent", g_decay_absent, RD_E_NULL, "decay"},
    {"a pool of another type", g_pool_dtype, RD_E_DTYPE, "pool"},
    {"a pool of another shape", g_pool_shape, RD_E_SHAPE, "pool"},
    {"a slot past the pool", g_slot_past, RD_E_SLOT_RANGE, "slots"},
    {"too few slots", g_slots_short, RD_E_SHAPE, "slots"},
};
static const mistake other_plans[] = {
    {"a plan of another gate axis", other_gate, RD_E_RECORDS, NULL},
    {"a plan of another head map", other_map, RD_E_RECORDS, NULL},
    {"a plan of another V", other_V, RD_E_RECORDS, NULL},
};
M(consumed, f->rec->r.made.consumed = 1)
M(g_slot_twice, ((int32_t *)f->state.slots.data)[2] = 1)
static const mistake in_place[] = {
    {"consumed records", consumed, RD_E_CONSUMED, "records|previous"},
    {"one slot for two sequences", g_slot_twice, RD_E_SLOT_DUPLICATE, "slots"},
    {"the pool on u", g_pool_is_u, RD_E_ALIAS, NULL},
    {"accepted on the pool", g_pool_is_acc, RD_E_ALIAS, NULL},
};
M(g_no_to, f->a_write = NULL)
M(to_absent, memset(&f->write, 0, sizeof f->write))
M(to_twice, ((int32_t *)f->write.slots.data)[2] = 2)
M(to_own, ((int32_t *)f->write.slots.data)[1] = ((int32_t *)f->state.slots.data)[1])
M(to_read, ((int32_t *)f->write.slots.data)[2] = 1)
M(to_past, ((int32_t *)f->write.slots.data)[2] = FSLOTS)
M(to_dtype, f->write.pool.dtype = RD_F16)
M(to_partial, f->write.pool.data = (float *)f->write.pool.data + 8)
M(to_is_u, f->write.pool.data = f->rec->r.u.data)
static const mistake elsewhere[] = {
    {"no target", g_no_to, RD_E_NULL, NULL},
    {"an absent target", to_absent, RD_E_NULL, NULL},
    {"a target slot twice", to_twice, RD_E_SLOT_DUPLICATE, "slots"},
    {"a target slot that is its own source", to_own, RD_E_SLOT_DUPLICATE, "slots"},
    {"a target slot that another sequence reads", to_read, RD_E_SLOT_DUPLICATE, "slots"},
    {"a target slot past the pool", to_past, RD_E_SLOT_RANGE, "slots"},
    {"a target of another type", to_dtype, RD_E_DTYPE, "pool"},
    {"a target that overlaps in part", to_partial, RD_E_ALIAS, NULL},
    {"a target on u", to_is_u, RD_E_ALIAS, NULL},
};
M(g_no_next, f->a_next = NULL)
M(next_is_previous, f->a_next = f->a_rec)
M(next_shares_u, f->next->r.u = f->rec->r.u)
M(next_shares_decay, f->next->r.decay.data = f->rec->r.k.data)
M(next_shares_lengths, f->next->r.lengths = f->rec->r.lengths)
M(next_capacity, f->next->r.u.shape[1] = f->next->r.k.shape[1] = f->next->r.decay.shape[1] = 4)
M(g_q_dtype, f->act.q.dtype = RD_F16)
M(g_no_act, f->a_act = NULL)
M(g_seq_size, f->seq.struct_size = 1)
static const mistake folded[] = {
    {"no next records", g_no_next, RD_E_NULL, "next"},
    {"next = previous", next_is_previous, RD_E_ALIAS, NULL},
    {"next shares u", next_shares_u, RD_E_ALIAS, NULL},
    {"next's decay on previous' k", next_shares_decay, RD_E_ALIAS, NULL},
    {"next shares the lengths", next_shares_lengths, RD_E_ALIAS, NULL},
    {"more tokens than next's capacity", next_capacity, RD_E_CAPACITY, NULL},
    {"q of another type", g_q_dtype, RD_E_DTYPE, "q"},
    {"no activations", g_no_act, RD_E_NULL, "act"},
    {"sequences of size 1", g_seq_size, RD_E_STRUCT_SIZE, NULL},
};

#define TABLE(t, flavour, prepare, verb)                                                           \
  misuse(t, PT_LEN(t), flavour, prepare, verb, #verb " with " #t)

static void c_verify(void) {
  TABLE(records, F_LOG, NULL, verify);
  TABLE(records, F_PACKED, NULL, verify);
  TABLE(gateless, F_NONE, NULL, verify);
}
static void c_commit(void) {
  TABLE(replay, F_LOG, genuine, commit);
  TABLE(other_plans, F_LOG, genuine, commit);
  TABLE(in_place, F_LOG, genuine, commit);
}
static void c_materialize(void) {
  TABLE(replay, F_LOG, genuine, materialize);
  TABLE(other_plans, F_LOG, genuine, materialize);
  TABLE(elsewhere, F_LOG, genuine, materialize);
}
static void c_commit_verify(void) {
  TABLE(replay, F_LOG, genuine, commit_verify);
  TABLE(in_place, F_LOG, genuine, commit_verify);
  TABLE(folded, F_LOG, genuine, commit_verify);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"verify", c_verify, PT_QUICK},
      {"commit", c_commit, PT_QUICK},
      {"materialize", c_materialize, PT_QUICK},
      {"commit_verify", c_commit_verify, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_records", cases, PT_LEN(cases));
}
