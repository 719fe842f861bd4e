/* Mistakes in the sequences and activations that prefill, decode, verify and the folded verb share,
 * and in the pools they read and write. SPDX-License-Identifier: Apache-2.0 */
#include "misuse.h"

/* ------------------------------------------------------------------ the calls ---------------- */
static rd_status prefill(fix *f) {
  return rd_prefill(f->a_cx, f->a_plan, f->a_seq, f->a_act, f->a_state, f->a_write, NULL);
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
static int dim(const fix *f, int from_end, const rd_tensor *t) {
  return (void)f, t->rank - from_end;
}

static void pointers(fix *f, slips *s) {
  SLIP("no context", RD_E_NULL, NULL, f->a_cx = NULL);
  SLIP("no plan", RD_E_NULL, "plan", f->a_plan = NULL);
  SLIP("no sequences", RD_E_NULL, "seq", f->a_seq = NULL);
  SLIP("no activations", RD_E_NULL, "act", f->a_act = NULL);
  SLIP("sequences of size 0", RD_E_STRUCT_SIZE, "seq|struct_size", f->seq.struct_size = 0);
  SLIP("sequences of a later size", RD_E_STRUCT_SIZE, "seq|struct_size", f->seq.struct_size += 8);
  SLIP("sequences of the size before 0.2", RD_E_STRUCT_SIZE, "seq|struct_size",
       f->seq.struct_size -= sizeof(rd_tensor));
  SLIP("parents without a type", RD_E_DTYPE, "seq.parents", {
    f->seq.parents = f->act.q;
    UNTYPED(f->seq.parents);
  });
  SLIP("g without a type", RD_E_DTYPE, "g", UNTYPED(f->act.g));
  SLIP("out without a type", RD_E_DTYPE, "out", UNTYPED(f->act.out));
  SLIP("activations of size 3", RD_E_STRUCT_SIZE, "act|struct_size", f->act.struct_size = 3);
  SLIP("q absent", RD_E_NULL, "q", ABSENT(f->act.q));
  SLIP("k absent", RD_E_NULL, "k", ABSENT(f->act.k));
  SLIP("v absent", RD_E_NULL, "v", ABSENT(f->act.v));
  SLIP("g absent", RD_E_NULL, "g", ABSENT(f->act.g));
  SLIP("beta absent", RD_E_NULL, "beta", ABSENT(f->act.beta));
  SLIP("out absent", RD_E_NULL, "out", ABSENT(f->act.out));
  SLIP("q at null", RD_E_NULL, "q", f->act.q.data = NULL);
  SLIP("out at null", RD_E_NULL, "out", f->act.out.data = NULL);
}

static void types_and_shapes(fix *f, slips *s) {
  SLIP("q of another type", RD_E_DTYPE, "q", f->act.q.dtype = RD_F16);
  SLIP("k of integers", RD_E_DTYPE, "k", f->act.k.dtype = RD_I32);
  SLIP("v of another type", RD_E_DTYPE, "v", f->act.v.dtype = RD_BF16);
  SLIP("g of another type", RD_E_DTYPE, "g", f->act.g.dtype = RD_F16);
  SLIP("beta of another type", RD_E_DTYPE, "beta", f->act.beta.dtype = RD_F16);
  SLIP("out of another type", RD_E_DTYPE, "out", f->act.out.dtype = RD_BF16);
  SLIP("an unknown type", RD_E_DTYPE, "q", f->act.q.dtype = (rd_dtype)77);
  SLIP("q of rank 2", RD_E_RANK, "q", f->act.q.rank = 2);
  SLIP("out of rank 2", RD_E_RANK, "out", f->act.out.rank = 2);
  SLIP("g of a lower rank", RD_E_RANK, "g", f->act.g.rank = f->act.g.rank == 4 ? 3 : 2);
  SLIP("beta of rank 1", RD_E_RANK, "beta", f->act.beta.rank = 1);
  SLIP("v of rank -1", RD_E_RANK, "v", f->act.v.rank = -1);
  SLIP("v of rank 5", RD_E_RANK, "v", f->act.v.rank = 5);
  SLIP("q with other K", RD_E_SHAPE, "q", f->act.q.shape[dim(f, 1, &f->act.q)]--);
  SLIP("k with other heads", RD_E_SHAPE, "k", f->act.k.shape[dim(f, 2, &f->act.k)]--);
  SLIP("v with other V", RD_E_SHAPE, "v", f->act.v.shape[dim(f, 1, &f->act.v)]--);
  SLIP("g with other heads", RD_E_SHAPE, "g", f->act.g.shape[dim(f, 2, &f->act.g)]--);
  SLIP("g with other K", RD_E_SHAPE, "g", f->act.g.shape[dim(f, 1, &f->act.g)]--);
  SLIP("beta with other heads", RD_E_SHAPE, "beta", f->act.beta.shape[dim(f, 1, &f->act.beta)]--);
  SLIP("k with fewer tokens", RD_E_SHAPE, "k", f->act.k.shape[dim(f, 3, &f->act.k)]--);
  SLIP("v with fewer tokens", RD_E_SHAPE, "v", f->act.v.shape[dim(f, 3, &f->act.v)]--);
  SLIP("beta with fewer tokens", RD_E_SHAPE, "beta", f->act.beta.shape[dim(f, 2, &f->act.beta)]--);
  SLIP("out with fewer tokens", RD_E_SHAPE, "out", f->act.out.shape[dim(f, 3, &f->act.out)]--);
  SLIP("out with other V", RD_E_SHAPE, "out", f->act.out.shape[dim(f, 1, &f->act.out)]--);
  SLIP("a negative dimension", RD_E_SHAPE, "q", f->act.q.shape[0] = -1);
  SLIP("a negative stride", RD_E_STRIDE, "q", f->act.q.stride[0] = -f->act.q.stride[0]);
  SLIP("q with a negative innermost stride", RD_E_STRIDE, "q",
       f->act.q.stride[f->act.q.rank - 1] = -1);
  SLIP("beta with a negative innermost stride", RD_E_STRIDE, "beta",
       f->act.beta.stride[f->act.beta.rank - 1] = -2);
  SLIP("out with innermost stride 2", RD_E_STRIDE, "out",
       f->act.out.stride[f->act.out.rank - 1] = 2);
  SLIP("q misaligned", RD_E_STRIDE, "q", f->act.q.data = (char *)f->act.q.data + 1);
  SLIP("out misaligned", RD_E_STRIDE, "out", f->act.out.data = (char *)f->act.out.data + 2);
}

static void together(fix *f, slips *s) {
  SLIP("a pad slot inside the pool", RD_E_SLOT_RANGE, NULL, {
    f->p.pad_slot = 2;
    fix_plan(f);
  });
  SLIP("out with overlapping tokens", RD_E_STRIDE, "out",
       f->act.out.stride[dim(f, 3, &f->act.out)] = 8);
  SLIP("out on v", RD_E_ALIAS, "out", f->act.out.data = f->act.v.data);
  SLIP("out on beta", RD_E_ALIAS, "out", f->act.out.data = f->act.beta.data);
  SLIP("out on the pool", RD_E_ALIAS, "out", f->act.out.data = f->state.pool.data);
  SLIP("out on the slot indices", RD_E_ALIAS, "out", f->act.out.data = f->state.slots.data);
  SLIP("a negative batch", RD_E_SHAPE, "batch", f->seq.batch = -1);
  SLIP("more sequences than planned", RD_E_PLAN, "batch|max_batch", {
    f->p.max_batch = 2;
    fix_plan(f);
  });
  SLIP("longer sequences than planned", RD_E_PLAN, NULL, {
    f->p.max_tokens = 4;
    fix_plan(f);
  });
}

/* What every verb with activations refuses. */
static void common(fix *f, slips *s) {
  pointers(f, s);
  types_and_shapes(f, s);
  together(f, s);
}
static void padded_only(fix *f, slips *s) {
  SLIP("out broadcast", RD_E_STRIDE, "out", f->act.out.stride[0] = 0);
  SLIP("another batch than the tensors'", RD_E_SHAPE, NULL, f->seq.batch = 2);
}

/* ------------------------------------------------------------------ lengths ------------------ */
static int32_t *lens(fix *f) { return (void *)f->c->lens.b->p; }
static void lengths(fix *f, slips *s) {
  SLIP("a negative length", RD_E_LENGTH, "lengths", lens(f)[1] = -1);
  SLIP("a later sequence longer than planned", RD_E_PLAN, "sequence 2", {
    lens(f)[0] = lens(f)[1] = 2;
    f->p.max_tokens = 4;
    fix_plan(f);
  });
  SLIP("a length over T", RD_E_LENGTH, "lengths", lens(f)[2] = 7);
  SLIP("lengths of floats", RD_E_DTYPE, "lengths", f->seq.lengths.dtype = RD_F32);
  SLIP("lengths of rank 2", RD_E_RANK, "lengths", f->seq.lengths.rank = 2);
  SLIP("too few lengths", RD_E_SHAPE, "lengths", f->seq.lengths.shape[0] = 2);
  SLIP("lengths without a type", RD_E_DTYPE, "seq.lengths", UNTYPED(f->seq.lengths));
  SLIP("cu_seqlens of a rank alone", RD_E_DTYPE, "seq.cu_seqlens", f->seq.cu_seqlens.rank = 1);
  SLIP("cu_seqlens in a padded call", RD_E_PRESENCE, "cu_seqlens",
       f->seq.cu_seqlens = f->seq.lengths);
  SLIP("out on the lengths", RD_E_ALIAS, "out", f->act.out.data = f->seq.lengths.data);
}

static void prefix_sums(fix *f, slips *s) {
  SLIP("cu_seqlens from 1", RD_E_CU_START, "cu_seqlens", lens(f)[0] = 1);
  SLIP("cu_seqlens decreasing", RD_E_CU_ORDER, "cu_seqlens", lens(f)[2] = 4);
  SLIP("cu_seqlens past the tokens", RD_E_CU_END, "cu_seqlens", lens(f)[3] = 14);
  SLIP("a later sequence longer than planned", RD_E_PLAN, "sequence 2", {
    lens(f)[1] = 2, lens(f)[2] = 4, lens(f)[3] = 9;
    f->p.max_tokens = 4;
    fix_plan(f);
  });
  SLIP("cu_seqlens absent", RD_E_NULL, "cu_seqlens", ABSENT(f->seq.cu_seqlens));
  SLIP("cu_seqlens of floats", RD_E_DTYPE, "cu_seqlens", f->seq.cu_seqlens.dtype = RD_F32);
  SLIP("cu_seqlens without a type", RD_E_DTYPE, "seq.cu_seqlens", UNTYPED(f->seq.cu_seqlens));
  SLIP("lengths of an address alone", RD_E_DTYPE, "seq.lengths", f->seq.lengths.data = lens(f));
  SLIP("cu_seqlens too short", RD_E_SHAPE, "cu_seqlens", f->seq.cu_seqlens.shape[0] = 3);
  SLIP("lengths in a packed call", RD_E_PRESENCE, "lengths", f->seq.lengths = f->seq.cu_seqlens);
}

/* ------------------------------------------------------------------ gates -------------------- */
static void raw_gate(fix *f, slips *s) {
  SLIP("A_log absent", RD_E_NULL, "A_log", ABSENT(f->act.A_log));
  SLIP("dt_bias absent", RD_E_NULL, "dt_bias", ABSENT(f->act.dt_bias));
  SLIP("A_log of another type", RD_E_DTYPE, "A_log", f->act.A_log.dtype = RD_F16);
  SLIP("A_log too short", RD_E_SHAPE, "A_log", f->act.A_log.shape[0] = 3);
  SLIP("dt_bias too narrow", RD_E_SHAPE, "dt_bias", f->act.dt_bias.shape[1] = 3);
  SLIP("dt_bias of rank 1", RD_E_RANK, "dt_bias", f->act.dt_bias.rank = 1);
  SLIP("dt_bias of another type", RD_E_DTYPE, "dt_bias", f->act.dt_bias.dtype = RD_BF16);
}
static void log_gate(fix *f, slips *s) {
  SLIP("A_log given to a log gate", RD_E_PRESENCE, "A_log",
       f->act.A_log = rd_tensor_contiguous(f->d->A, RD_F32, 1, &f->p.Hv));
  SLIP("A_log of an extent alone", RD_E_DTYPE, "A_log", f->act.A_log.shape[0] = f->p.Hv);
  SLIP("dt_bias of an address alone", RD_E_DTYPE, "dt_bias", f->act.dt_bias.data = f->d->dt);
  SLIP("dt_bias given to a log gate", RD_E_PRESENCE, "dt_bias",
       f->act.dt_bias = rd_tensor_contiguous(f->d->dt, RD_F32, 1, &f->p.Hv));
}
static void no_gate(fix *f, slips *s) {
  SLIP("g given without a gate", RD_E_PRESENCE, "g", f->act.g = f->act.k);
  SLIP("g of a stride alone", RD_E_DTYPE, "g", f->act.g.stride[3] = 1);
  SLIP("A_log given without a gate", RD_E_PRESENCE, "A_log",
       f->act.A_log = rd_tensor_contiguous(f->d->A, RD_F32, 1, &f->p.Hv));
}

/* ------------------------------------------------------------------ pools -------------------- */
static int32_t *slots(fix *f) { return f->state.slots.data; }
static int32_t *writes(fix *f) { return f->write.slots.data; }
static void pools(fix *f, slips *s) {
  SLIP("a pool of another type", RD_E_DTYPE, "pool", f->state.pool.dtype = RD_F16);
  SLIP("a pool of rank 3", RD_E_RANK, "pool", f->state.pool.rank = 3);
  SLIP("a pool with other V", RD_E_SHAPE, "pool", f->state.pool.shape[2]--);
  SLIP("a pool with other heads", RD_E_SHAPE, "pool", f->state.pool.shape[1]--);
  SLIP("a pool at null", RD_E_NULL, "pool", f->state.pool.data = NULL);
  SLIP("a pool without a type", RD_E_DTYPE, "pool", UNTYPED(f->state.pool));
  SLIP("slots without a type", RD_E_DTYPE, "slots", UNTYPED(f->state.slots));
  SLIP("slots of i64", RD_E_DTYPE, "slots", f->state.slots.dtype = RD_I64);
  SLIP("slots of rank 2", RD_E_RANK, "slots", f->state.slots.rank = 2);
  SLIP("too few slots", RD_E_SHAPE, "slots", f->state.slots.shape[0] = 2);
  SLIP("slots at null", RD_E_NULL, "slots", f->state.slots.data = NULL);
  SLIP("slot -2", RD_E_SLOT_RANGE, "slots", slots(f)[1] = -2);
  SLIP("a slot past the pool", RD_E_SLOT_RANGE, "slots", slots(f)[1] = FSLOTS);
  SLIP("fewer slots than sequences", RD_E_SLOT_RANGE, NULL, {
    ABSENT(f->state.slots);
    f->state.pool.shape[0] = 2;
  });
}
static void in_place(fix *f, slips *s) {
  SLIP("one slot for two sequences", RD_E_SLOT_DUPLICATE, "slots", slots(f)[2] = slots(f)[0]);
  SLIP("a pool whose slots overlap", RD_E_STRIDE, "pool", f->state.pool.stride[0] = 8);
}
static void two_pools(fix *f, slips *s) {
  SLIP("a slot written twice", RD_E_SLOT_DUPLICATE, "slots", writes(f)[2] = writes(f)[0]);
  SLIP("a slot written by one and read by another", RD_E_SLOT_DUPLICATE, "slots",
       writes(f)[2] = slots(f)[0]);
  SLIP("a write slot past the pool", RD_E_SLOT_RANGE, "slots", writes(f)[0] = FSLOTS);
  SLIP("a written pool without a type", RD_E_DTYPE, "final.pool|write.pool",
       UNTYPED(f->write.pool));
  SLIP("written slots without a type", RD_E_DTYPE, "final.slots|write.slots",
       UNTYPED(f->write.slots));
  SLIP("a final pool of another type", RD_E_DTYPE, "pool", f->write.pool.dtype = RD_BF16);
  SLIP("pools that overlap in part", RD_E_ALIAS, "pool",
       f->write.pool.data = (float *)f->write.pool.data + 16);
}
static int32_t *snaps(fix *f) { return f->snap.slots.data; }
static void snapshot(fix *f, slips *s) {
  SLIP("a snapshot slot twice", RD_E_SLOT_DUPLICATE, NULL, snaps(f)[3] = snaps(f)[4]);
  SLIP("a snapshot slot past the pool", RD_E_SLOT_RANGE, NULL, snaps(f)[3] = FSNAP);
  SLIP("too few snapshot slots", RD_E_SHAPE, NULL, f->snap.slots.shape[1]--);
  SLIP("snapshot slots of rank 1", RD_E_RANK, NULL, {
    f->snap.slots.rank = 1;
    f->snap.slots.stride[0] = 1;
  });
  SLIP("a snapshot over another sequence's state", RD_E_SLOT_DUPLICATE, NULL, {
    f->snap.pool = f->state.pool;
    snaps(f)[0] = 3;
    for (int i = 1; i < FB * FT; i++) snaps(f)[i] = -1;
  });
}
static void no_states(fix *f, slips *s) {
  SLIP("no state", RD_E_NULL, NULL, f->a_state = NULL);
  SLIP("an absent pool", RD_E_NULL, "pool", f->state = no_slots);
  SLIP("slots of size 0", RD_E_STRUCT_SIZE, "struct_size", f->state.struct_size = 0);
  SLIP("slots of a later size", RD_E_STRUCT_SIZE, "struct_size", f->state.struct_size += 8);
  SLIP("slots of the size before 0.2", RD_E_STRUCT_SIZE, "struct_size",
       f->state.struct_size = 2 * sizeof(rd_tensor));
}

#define TABLE(t, flavour, verb) misuse(t, flavour, NULL, verb, #verb " with " #t)

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
