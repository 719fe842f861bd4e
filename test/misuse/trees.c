/* Mistakes with draft trees. SPDX-License-Identifier: Apache-2.0 */
#include "kit/tree.h"
#include "misuse.h"

static rd_status prefill(fix *f) {
  return rd_prefill(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_write, NULL);
}
static rd_status decode(fix *f) {
  return rd_decode(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, NULL, NULL);
}
static rd_status verify(fix *f) {
  return rd_verify(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_rec);
}
static rd_status commit(fix *f) {
  return rd_commit(f->a_cx, f->a_plan, f->a_rec, f->a_acc, f->a_state);
}
static rd_status materialize(fix *f) {
  return rd_materialize(f->a_cx, f->a_plan, f->a_rec, f->a_acc, f->a_state, f->a_write);
}
/* Into next, so that its mistakes are made with other records than the committed ones. */
static rd_status commit_verify(fix *f) {
  return rd_commit_verify(f->a_cx, f->a_plan, f->a_rec, f->a_acc, f->a_seq, f->a_act, f->a_state,
                          f->a_next);
}

/* Every sequence: 0 is a root, 1 and 2 follow it, 3 and 4 follow 1. */
static void planted(fix *f) {
  const bool packed = f->p.layout == RD_PACKED;
  const int64_t shape[2] = {FB, f->c->T};
  tb t = tb_make(RD_I32, packed ? 1 : 2, packed ? shape + 1 : shape, NULL);
  int32_t *x = (void *)t.b->p;
  for (int64_t b = 0; b < FB; b++)
    for (int32_t i = 0; i < f->c->pc[b].len; i++)
      x[packed ? f->c->row0[b] + i : b * f->c->T + i] = i ? (i - 1) / 2 : -1;
  f->seq.parents = t.t;
  recs_trees(f->rec);
  recs_trees(f->next);
}

/* ... and verified: node 3, 4 and 1 are accepted. */
static void grown(fix *f) {
  planted(f);
  CK_OK(f->cx, rd_verify(f->cx, f->plan, &f->seq, &f->act, &f->state, &f->rec->r));
  call_dirty(f->c);
  memcpy(f->acc->p, (int32_t[FB]){4, 5, 2}, FB * sizeof(int32_t));
}

/* A chain is verified, with room for parents. */
static void chain(fix *f) {
  planted(f);
  ABSENT(f->seq.parents);
  CK_OK(f->cx, rd_verify(f->cx, f->plan, &f->seq, &f->act, &f->state, &f->rec->r));
  call_dirty(f->c);
}

static int32_t *parents(fix *f) { return f->seq.parents.data; }
static int32_t *recorded(fix *f) { return (void *)f->rec->parents.b->p; }

/* ------------------------------------------------------------------ trees to verify ---------- */
static void chains_only(fix *f, slips *s) {
  SLIP("parents", RD_E_PRESENCE, "seq.parents", f->seq.parents = f->state.slots);
}
static void trees(fix *f, slips *s) {
  SLIP("parents of i64", RD_E_DTYPE, "seq.parents", f->seq.parents.dtype = RD_I64);
  SLIP("parents of f32", RD_E_DTYPE, "seq.parents", f->seq.parents.dtype = RD_F32);
  SLIP("parents of another rank", RD_E_RANK, "seq.parents",
       f->seq.parents.rank = f->seq.parents.rank == 2 ? 1 : 2);
  SLIP("parents at null", RD_E_NULL, "seq.parents", f->seq.parents.data = NULL);
  SLIP("too few parents", RD_E_SHAPE, "seq.parents",
       f->seq.parents.shape[f->seq.parents.rank - 1]--);
  SLIP("parents with stride 2", RD_E_STRIDE, "seq.parents",
       f->seq.parents.stride[f->seq.parents.rank - 1] = 2);
  SLIP("parents misaligned", RD_E_STRIDE, "seq.parents",
       f->seq.parents.data = (char *)f->seq.parents.data + 2);
  SLIP("a first node that follows itself", RD_E_TREE, "seq.parents", parents(f)[0] = 0);
  SLIP("a node that follows itself", RD_E_TREE, "seq.parents", parents(f)[3] = 3);
  SLIP("a node that follows a later one", RD_E_TREE, "seq.parents", parents(f)[2] = 4);
  SLIP("a parent of -2", RD_E_TREE, "seq.parents", parents(f)[1] = -2);
  SLIP("the least parent", RD_E_TREE, "seq.parents", parents(f)[4] = INT32_MIN);
  SLIP("parents on out", RD_E_ALIAS, "seq.parents|out", f->seq.parents.data = f->act.out.data);
}
static void padded(fix *f, slips *s) {
  SLIP("records without room for parents", RD_E_PRESENCE, "records.parents",
       ABSENT(f->rec->r.parents));
  SLIP("recorded parents on those given", RD_E_ALIAS, "records.parents|seq.parents",
       f->rec->r.parents.data = f->seq.parents.data);
  SLIP("a node of the last sequence", RD_E_TREE, "sequence 2, node 4", parents(f)[2 * FT + 4] = 4);
}
static void room(fix *f, slips *s) {
  SLIP("recorded parents of i64", RD_E_DTYPE, "records.parents", f->rec->r.parents.dtype = RD_I64);
  SLIP("recorded parents of rank 1", RD_E_RANK, "records.parents", f->rec->r.parents.rank = 1);
  SLIP("recorded parents at null", RD_E_NULL, "records.parents", f->rec->r.parents.data = NULL);
  SLIP("recorded parents of another batch", RD_E_SHAPE, "records.parents",
       f->rec->r.parents.shape[0]--);
  SLIP("recorded parents of another capacity", RD_E_SHAPE, "records.parents",
       f->rec->r.parents.shape[1]--);
  SLIP("recorded parents that overlap", RD_E_STRIDE, "records.parents",
       f->rec->r.parents.stride[0] = 1);
  SLIP("recorded parents with stride 2", RD_E_STRIDE, "records.parents",
       f->rec->r.parents.stride[1] = 2);
  SLIP("recorded parents on u", RD_E_ALIAS, "records.parents|u",
       f->rec->r.parents.data = f->rec->r.u.data);
  SLIP("lengths on recorded parents", RD_E_ALIAS, "records.parents|lengths",
       f->rec->r.lengths = f->rec->r.parents.data);
}

/* ------------------------------------------------------------------ trees to commit ---------- */
static void paths(fix *f, slips *s) {
  SLIP("records of trees without parents", RD_E_RECORDS, "records.parents|previous.parents",
       ABSENT(f->rec->r.parents));
  SLIP("a recorded node that follows itself", RD_E_RECORDS, "parents", recorded(f)[3] = 3);
  SLIP("a recorded node that follows a later one", RD_E_RECORDS, "parents", recorded(f)[1] = 2);
  SLIP("a recorded parent of -2", RD_E_RECORDS, "parents", recorded(f)[0] = -2);
  SLIP("the least recorded parent", RD_E_RECORDS, "parents", recorded(f)[0] = INT32_MIN);
  SLIP("the largest recorded parent", RD_E_RECORDS, "parents", recorded(f)[3] = INT32_MAX);
  SLIP("a node past the tree accepted", RD_E_ACCEPTED, "accepted",
       ((int32_t *)(void *)f->acc->p)[1] = FT + 1);
  SLIP("recorded parents of i64", RD_E_DTYPE, "parents", f->rec->r.parents.dtype = RD_I64);
  SLIP("recorded parents of another batch", RD_E_SHAPE, "parents", f->rec->r.parents.shape[0]--);
  SLIP("recorded parents of another capacity", RD_E_SHAPE, "parents", f->rec->r.parents.shape[1]--);
}
static void folded(fix *f, slips *s) {
  SLIP("next without room for parents", RD_E_PRESENCE, "next.parents", ABSENT(f->next->r.parents));
  SLIP("next's parents on previous'", RD_E_ALIAS, "parents",
       f->next->r.parents.data = f->rec->r.parents.data);
}

/* A chain's records do not need theirs, whatever is in them. */
static void forgotten_chain(fix *f) {
  chain(f);
  ABSENT(f->rec->r.parents);
}
static void scribbled_chain(fix *f) {
  chain(f);
  memset(f->rec->parents.b->p, 0x55, f->rec->parents.b->bytes);
}
static void length(fix *f, slips *s) {
  SLIP("a node past the chain accepted", RD_E_ACCEPTED, "accepted",
       ((int32_t *)(void *)f->acc->p)[2] = FT + 1);
}

#define TABLE(t, flavour, prepare, verb) misuse(t, flavour, prepare, verb, #verb " with " #t)

static void c_verify(void) {
  TABLE(trees, F_LOG, planted, verify);
  TABLE(trees, F_PACKED, planted, verify);
  TABLE(trees, F_LENGTHS, planted, verify);
  TABLE(padded, F_LOG, planted, verify);
  TABLE(room, F_LOG, planted, verify);
  TABLE(room, F_LOG, chain, verify);
}
static void c_prefill_and_decode(void) {
  TABLE(chains_only, F_LOG, NULL, prefill);
  TABLE(chains_only, F_LOG, NULL, decode);
  TABLE(chains_only, F_PACKED, NULL, prefill);
  TABLE(chains_only, F_PACKED, NULL, decode);
}
static void c_commit(void) {
  TABLE(paths, F_LOG, grown, commit);
  TABLE(paths, F_LOG, grown, materialize);
  TABLE(paths, F_LOG, grown, commit_verify);
  misuse(length, F_LOG, forgotten_chain, commit, "a chain without parents");
  misuse(length, F_LOG, scribbled_chain, commit, "a chain with other parents");
}
static void c_commit_verify(void) {
  TABLE(trees, F_LOG, grown, commit_verify);
  TABLE(folded, F_LOG, grown, commit_verify);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"verify", c_verify, PT_QUICK},
      {"prefill_and_decode", c_prefill_and_decode, PT_QUICK},
      {"commit", c_commit, PT_QUICK},
      {"commit_verify", c_commit_verify, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_trees", cases, PT_LEN(cases));
}
