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

/* ------------------------------------------------------------------ verify ------------------- */
static void records(fix *f, slips *s) {
  SLIP("no records", RD_E_NULL, "records|previous", f->a_rec = NULL);
  SLIP("records of size 8", RD_E_STRUCT_SIZE, "records|previous|struct_size",
       f->rec->r.struct_size = 8);
  SLIP("records of the size before 0.2", RD_E_STRUCT_SIZE, "struct_size",
       f->rec->r.struct_size -= sizeof(rd_tensor) + sizeof(int64_t *) + 64);
  SLIP("parents of a rank alone", RD_E_DTYPE, "parents", f->rec->r.parents.rank = 2);
  SLIP("u without a type", RD_E_DTYPE, "u", UNTYPED(f->rec->r.u));
  SLIP("decay without a type", RD_E_DTYPE, "decay", UNTYPED(f->rec->r.decay));
  SLIP("generation on u", RD_E_ALIAS, "generation|u", f->rec->r.generation = f->rec->r.u.data);
  SLIP("generation misaligned", RD_E_STRIDE, "generation",
       f->rec->r.generation = (int64_t *)(void *)((char *)f->rec->r.u.data + 4));
  SLIP("no lengths", RD_E_NULL, "lengths", f->rec->r.lengths = NULL);
  SLIP("u absent", RD_E_NULL, "u", ABSENT(f->rec->r.u));
  SLIP("k absent", RD_E_NULL, "k", ABSENT(f->rec->r.k));
  SLIP("decay absent", RD_E_NULL, "decay", ABSENT(f->rec->r.decay));
  SLIP("u at null", RD_E_NULL, "u", f->rec->r.u.data = NULL);
  SLIP("u of another type", RD_E_DTYPE, "u", f->rec->r.u.dtype = RD_F16);
  SLIP("k of another type", RD_E_DTYPE, "k", f->rec->r.k.dtype = RD_BF16);
  SLIP("decay of another type", RD_E_DTYPE, "decay", f->rec->r.decay.dtype = RD_F16);
  SLIP("u of rank 3", RD_E_RANK, "u", f->rec->r.u.rank = 3);
  SLIP("decay of rank 3", RD_E_RANK, "decay", f->rec->r.decay.rank = 3);
  SLIP("u of another batch", RD_E_SHAPE, "u", f->rec->r.u.shape[0] = 2);
  SLIP("k of another capacity", RD_E_SHAPE, "k", f->rec->r.k.shape[1] = 6);
  SLIP("u with other V", RD_E_SHAPE, "u", f->rec->r.u.shape[3]--);
  SLIP("k with other heads", RD_E_SHAPE, "k", f->rec->r.k.shape[2]--);
  SLIP("decay with other K", RD_E_SHAPE, "decay", f->rec->r.decay.shape[3]--);
  SLIP("more tokens than capacity", RD_E_CAPACITY, NULL,
       f->rec->r.u.shape[1] = f->rec->r.k.shape[1] = f->rec->r.decay.shape[1] = 4);
  SLIP("u with overlapping tokens", RD_E_STRIDE, "u", f->rec->r.u.stride[1] = 16);
  SLIP("u misaligned", RD_E_STRIDE, "u", f->rec->r.u.data = (char *)f->rec->r.u.data + 2);
  SLIP("u with innermost stride 2", RD_E_STRIDE, "u", f->rec->r.u.stride[3] = 2);
  SLIP("k with a negative stride", RD_E_STRIDE, "k",
       f->rec->r.k.stride[0] = -f->rec->r.k.stride[0]);
  SLIP("u on decay", RD_E_ALIAS, "u|decay", f->rec->r.u.data = f->rec->r.decay.data);
  SLIP("k on q", RD_E_ALIAS, "k", f->rec->r.k.data = f->act.q.data);
  SLIP("u on out", RD_E_ALIAS, "u|out", f->rec->r.u.data = f->act.out.data);
  SLIP("decay on the pool", RD_E_ALIAS, "decay", f->rec->r.decay.data = f->state.pool.data);
  SLIP("lengths on u", RD_E_ALIAS, "lengths|u", f->rec->r.lengths = f->rec->r.u.data);
  SLIP("lengths on the slot indices", RD_E_ALIAS, "lengths|slots",
       f->rec->r.lengths = f->state.slots.data);
}
static void gateless(fix *f, slips *s) {
  SLIP("decay of an address alone", RD_E_DTYPE, "decay", f->rec->r.decay.data = f->act.out.data);
  SLIP("decay given without a gate", RD_E_PRESENCE, "decay", f->rec->r.decay = f->next->r.k);
}

/* ------------------------------------------------------------------ commit ------------------- */
static int32_t *acc(fix *f) { return (void *)f->acc->p; }
static void replay(fix *f, slips *s) {
  SLIP("no context", RD_E_NULL, NULL, f->a_cx = NULL);
  SLIP("no plan", RD_E_NULL, "plan", f->a_plan = NULL);
  SLIP("no records", RD_E_NULL, "records|previous", f->a_rec = NULL);
  SLIP("no accepted counts", RD_E_NULL, "accepted", f->a_acc = NULL);
  SLIP("no state", RD_E_NULL, NULL, f->a_state = NULL);
  SLIP("accepted absent", RD_E_NULL, "accepted", memset(&f->accepted, 0, sizeof f->accepted));
  SLIP("records of size 0", RD_E_STRUCT_SIZE, "records|previous|struct_size",
       f->rec->r.struct_size = 0);
  SLIP("accepted -1", RD_E_ACCEPTED, "accepted", acc(f)[1] = -1);
  SLIP("accepted over the length", RD_E_ACCEPTED, "accepted", acc(f)[1] = FT + 1);
  SLIP("accepted of i64", RD_E_DTYPE, "accepted", f->accepted.dtype = RD_I64);
  SLIP("accepted of rank 2", RD_E_RANK, "accepted", f->accepted.rank = 2);
  SLIP("too few accepted", RD_E_SHAPE, "accepted", f->accepted.shape[0] = 2);
  SLIP("accepted without a type", RD_E_DTYPE, "accepted", UNTYPED(f->accepted));
  SLIP("k without a type", RD_E_DTYPE, "k", UNTYPED(f->rec->r.k));
  SLIP("accepted at null", RD_E_NULL, "accepted", f->accepted.data = NULL);
  SLIP("records that no verify made", RD_E_RECORDS, "records|previous",
       memset(&f->rec->r.made, 0, sizeof f->rec->r.made));
  SLIP("records with a wrong mark", RD_E_RECORDS, "records|previous", f->rec->r.made.magic ^= 1);
  SLIP("records of another gate kind", RD_E_RECORDS, "records|previous",
       f->rec->r.made.gate_kind = 2);
  SLIP("records of another head map", RD_E_RECORDS, "records|previous",
       f->rec->r.made.head_map = RD_HEADS_TILED);
  SLIP("records of another batch", RD_E_RECORDS, NULL, f->rec->r.made.batch = 2);
  SLIP("records of another capacity", RD_E_RECORDS, NULL, f->rec->r.made.C = 6);
  SLIP("records of another K", RD_E_RECORDS, NULL, f->rec->r.made.K = 23);
  SLIP("a recorded length over C", RD_E_RECORDS, NULL, f->rec->r.lengths[0] = FC + 1);
  SLIP("a negative recorded length", RD_E_RECORDS, NULL, f->rec->r.lengths[0] = -1);
  SLIP("u absent", RD_E_NULL, "u", ABSENT(f->rec->r.u));
  SLIP("u of another type", RD_E_RECORDS, "u", f->rec->r.u.dtype = RD_F16);
  SLIP("decay absent", RD_E_NULL, "decay", ABSENT(f->rec->r.decay));
  SLIP("a pool of another type", RD_E_DTYPE, "pool", f->state.pool.dtype = RD_F16);
  SLIP("a pool of another shape", RD_E_SHAPE, "pool", f->state.pool.shape[3]--);
  SLIP("a slot past the pool", RD_E_SLOT_RANGE, "slots",
       ((int32_t *)f->state.slots.data)[2] = FSLOTS);
  SLIP("too few slots", RD_E_SHAPE, "slots", f->state.slots.shape[0] = 2);
}
static void other_plans(fix *f, slips *s) {
  SLIP("a plan of another gate axis", RD_E_RECORDS, NULL, {
    f->p.gate_axis = RD_PER_HEAD;
    fix_plan(f);
  });
  SLIP("a plan of another head map", RD_E_RECORDS, NULL, {
    f->p.head_map = RD_HEADS_TILED;
    fix_plan(f);
  });
  SLIP("a plan of another V", RD_E_RECORDS, NULL, {
    f->p.V = 8;
    fix_plan(f);
  });
}
static void in_place(fix *f, slips *s) {
  SLIP("consumed records", RD_E_CONSUMED, "records|previous", f->rec->r.made.consumed = 1);
  SLIP("one slot for two sequences", RD_E_SLOT_DUPLICATE, "slots",
       ((int32_t *)f->state.slots.data)[2] = 1);
  SLIP("the pool on u", RD_E_ALIAS, NULL, f->state.pool.data = f->rec->r.u.data);
  SLIP("accepted on the pool", RD_E_ALIAS, NULL,
       f->accepted.data = memcpy(f->state.pool.data, f->acc->p, f->acc->bytes));
}
static void elsewhere(fix *f, slips *s) {
  SLIP("no target", RD_E_NULL, NULL, f->a_write = NULL);
  SLIP("an absent target", RD_E_NULL, NULL, f->write = no_slots);
  SLIP("a target slot twice", RD_E_SLOT_DUPLICATE, "slots",
       ((int32_t *)f->write.slots.data)[2] = 2);
  SLIP("a target slot that is its own source", RD_E_SLOT_DUPLICATE, "slots",
       ((int32_t *)f->write.slots.data)[1] = ((int32_t *)f->state.slots.data)[1]);
  SLIP("a target slot that another sequence reads", RD_E_SLOT_DUPLICATE, "slots",
       ((int32_t *)f->write.slots.data)[2] = 1);
  SLIP("a target slot past the pool", RD_E_SLOT_RANGE, "slots",
       ((int32_t *)f->write.slots.data)[2] = FSLOTS);
  SLIP("a target of another type", RD_E_DTYPE, "pool", f->write.pool.dtype = RD_F16);
  SLIP("a target that overlaps in part", RD_E_ALIAS, NULL,
       f->write.pool.data = (float *)f->write.pool.data + 8);
  SLIP("a target on u", RD_E_ALIAS, NULL, f->write.pool.data = f->rec->r.u.data);
}
static void folded(fix *f, slips *s) {
  SLIP("no next records", RD_E_NULL, "next", f->a_next = NULL);
  SLIP("next = previous", RD_E_ALIAS, NULL, f->a_next = f->a_rec);
  SLIP("next shares u", RD_E_ALIAS, NULL, f->next->r.u = f->rec->r.u);
  SLIP("next's decay on previous' k", RD_E_ALIAS, NULL, f->next->r.decay.data = f->rec->r.k.data);
  SLIP("next shares the lengths", RD_E_ALIAS, NULL, f->next->r.lengths = f->rec->r.lengths);
  SLIP("more tokens than next's capacity", RD_E_CAPACITY, NULL,
       f->next->r.u.shape[1] = f->next->r.k.shape[1] = f->next->r.decay.shape[1] = 4);
  SLIP("q of another type", RD_E_DTYPE, "q", f->act.q.dtype = RD_F16);
  SLIP("no activations", RD_E_NULL, "act", f->a_act = NULL);
  SLIP("sequences of size 1", RD_E_STRUCT_SIZE, NULL, f->seq.struct_size = 1);
}

#define TABLE(t, flavour, prepare, verb) misuse(t, flavour, prepare, verb, #verb " with " #t)

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
