/*
 * Every pair of pipes that can touch the same bytes, one of them writing, on every architecture and kind
 * of core: without the event (or barrier) the race is found and the event is named; with it, nothing is.
 * What a pipe can touch is read off the instruction table, so that an instruction which gives a pipe a
 * new way to a buffer asks for a line in `samples`.
 */
#include "npu/machine/isa.h"
#include "planted.h"

enum { READS = 1, WRITES = 2 };

/* One instruction of a pipe that touches the common bytes of a buffer (from offset 0) as said, and
 * otherwise bytes of its own, which `role` (0, 1) tells apart. */
typedef struct sample {
  uint8_t pipe, buffer, access, archs;
  void (*issue)(rd_npu_core *c, uint32_t role);
} sample;

#define OWN_UB(role) UB(32768 + 8192 * (role))
#define OWN_GM(role) RD_NPU_GM_ADDR(1, 8192 * (role))
#define COMMON_GM    RD_NPU_GM_ADDR(2, 0)

static void mte2_ub(rd_npu_core *c, uint32_t role) {
  copy_gm_to_ubuf(UB(0), GM(0) + 512 * role, 1, 2, 0, 0);
}
static void mte2_l1(rd_npu_core *c, uint32_t role) {
  copy_gm_to_cbuf(L1(0), GM(0) + 512 * role, 1, 16, 0, 0);
}
static void mte2_from_gm(rd_npu_core *c, uint32_t role) {
  copy_gm_to_cbuf(L1(32768 + 8192 * role), COMMON_GM, 1, 2, 0, 0);
}
static void mte2_from_gm_ub(rd_npu_core *c, uint32_t role) {
  copy_gm_to_ubuf(OWN_UB(role), COMMON_GM, 1, 2, 0, 0);
}
static void mte3_from_ub(rd_npu_core *c, uint32_t role) {
  copy_ubuf_to_gm(OWN_GM(role), UB(0), 1, 2, 0, 0);
}
static void mte3_gm(rd_npu_core *c, uint32_t role) {
  copy_ubuf_to_gm(COMMON_GM, OWN_UB(role), 1, 2, 0, 0);
}
static void mte3_l1(rd_npu_core *c, uint32_t role) {
  copy_ubuf_to_cbuf(L1(0), OWN_UB(role), 1, 2, 0, 0);
}
static void v_from_ub(rd_npu_core *c, uint32_t role) {
  copy_ubuf_to_ubuf(OWN_UB(role), UB(0), 1, 2, 0, 0);
}
static void v_ub(rd_npu_core *c, uint32_t role) {
  copy_ubuf_to_ubuf(UB(0), OWN_UB(role), 1, 2, 0, 0);
}
static void from_l0c(rd_npu_core *c, uint32_t role) { /* V or FIX, by architecture */
  copy_matrix_cc_to_ubuf(F32, F32, OWN_UB(role), L0C(0), 1, 1, 0, 0);
}
static void fix_ub(rd_npu_core *c, uint32_t role) {
  copy_matrix_cc_to_ubuf(F32, F32, UB(0), L0C(1024 * (1 + role)), 1, 1, 0, 0);
}
static void fix_from_l0c(rd_npu_core *c, uint32_t role) {
  copy_matrix_cc_to_gm(F32, OWN_GM(role), L0C(0), 16, 16, 16, 16);
}
static void fix_gm(rd_npu_core *c, uint32_t role) {
  copy_matrix_cc_to_gm(F32, COMMON_GM, L0C(1024 * (1 + role)), 16, 16, 16, 16);
}
static void mte1_from_l1(rd_npu_core *c, uint32_t role) {
  load_cbuf_to_ca(L0A(1024 * (1 + role)), L1(0), 0, 1, 1, 0, false);
}
static void mte1_l0a(rd_npu_core *c, uint32_t role) {
  load_cbuf_to_ca(L0A(0), L1(1024 * (1 + role)), 0, 1, 1, 0, false);
}
static void mte1_l0b(rd_npu_core *c, uint32_t role) {
  load_cbuf_to_cb(L0B(0), L1(1024 * (1 + role)), 0, 1, 1, 0, false);
}
static void m_from_l0a(rd_npu_core *c, uint32_t role) {
  mad(F32, F16, L0C(4096 + 4096 * role), L0A(0), L0B(1024), 16, 16, 16, true);
}
static void m_from_l0b(rd_npu_core *c, uint32_t role) {
  mad(F32, F16, L0C(4096 + 4096 * role), L0A(1024), L0B(0), 16, 16, 16, true);
}
static void m_l0c(rd_npu_core *c, uint32_t role) {
  mad(F32, F16, L0C(0), L0A(2048 + 512 * role), L0B(2048), 16, 16, 16, true);
}
static void m_updates_l0c(rd_npu_core *c, uint32_t role) {
  mad(F32, F16, L0C(0), L0A(2048 + 512 * role), L0B(2048), 16, 16, 16, false);
}
static void s_from_ub(rd_npu_core *c, uint32_t role) { (void)role, (void)get_value(UB(0), 4); }
static void s_ub(rd_npu_core *c, uint32_t role) { set_value(UB(0), role, 4); }
/* S sees this GM through a cache: what it reads is fetched anew, what it stores is cleaned. */
#define CLEAN() data_cache_clean_and_invalid(COMMON_GM, RD_NPU_SINGLE_CACHE_LINE)
static void s_from_gm(rd_npu_core *c, uint32_t role) {
  (void)role;
  CLEAN();
  (void)get_value(COMMON_GM, 4);
}
static void s_gm(rd_npu_core *c, uint32_t role) {
  CLEAN();
  set_value(COMMON_GM, role, 4);
  CLEAN();
}

#define ANY (ALL_ARCHS)
static const sample samples[] = {
    {RD_NPU_PIPE_MTE2, RD_NPU_UB, WRITES, ANY, mte2_ub},
    {RD_NPU_PIPE_MTE2, RD_NPU_L1, WRITES, ANY, mte2_l1},
    {RD_NPU_PIPE_MTE2, RD_NPU_GM, READS, ANY, mte2_from_gm},
    {RD_NPU_PIPE_MTE2, RD_NPU_GM, READS, ANY, mte2_from_gm_ub},
    {RD_NPU_PIPE_MTE3, RD_NPU_UB, READS, ANY, mte3_from_ub},
    {RD_NPU_PIPE_MTE3, RD_NPU_GM, WRITES, ANY, mte3_gm},
    {RD_NPU_PIPE_MTE3, RD_NPU_L1, WRITES, NOT_910B, mte3_l1},
    {RD_NPU_PIPE_V, RD_NPU_UB, READS, ANY, v_from_ub},
    {RD_NPU_PIPE_V, RD_NPU_UB, WRITES, ANY, v_ub},
    {RD_NPU_PIPE_V, RD_NPU_L0C, READS, 1u << RD_NPU_310P, from_l0c},
    {RD_NPU_PIPE_FIX, RD_NPU_L0C, READS, 1u << RD_NPU_950, from_l0c},
    {RD_NPU_PIPE_FIX, RD_NPU_UB, WRITES, 1u << RD_NPU_950, fix_ub},
    {RD_NPU_PIPE_FIX, RD_NPU_L0C, READS, NOT_310P, fix_from_l0c},
    {RD_NPU_PIPE_FIX, RD_NPU_GM, WRITES, NOT_310P, fix_gm},
    {RD_NPU_PIPE_MTE1, RD_NPU_L1, READS, ANY, mte1_from_l1},
    {RD_NPU_PIPE_MTE1, RD_NPU_L0A, WRITES, ANY, mte1_l0a},
    {RD_NPU_PIPE_MTE1, RD_NPU_L0B, WRITES, ANY, mte1_l0b},
    {RD_NPU_PIPE_M, RD_NPU_L0A, READS, ANY, m_from_l0a},
    {RD_NPU_PIPE_M, RD_NPU_L0B, READS, ANY, m_from_l0b},
    {RD_NPU_PIPE_M, RD_NPU_L0C, WRITES, ANY, m_l0c},
    {RD_NPU_PIPE_M, RD_NPU_L0C, READS | WRITES, ANY, m_updates_l0c},
    {RD_NPU_PIPE_S, RD_NPU_UB, READS, ANY, s_from_ub},
    {RD_NPU_PIPE_S, RD_NPU_UB, WRITES, ANY, s_ub},
    {RD_NPU_PIPE_S, RD_NPU_GM, READS, ANY, s_from_gm},
    {RD_NPU_PIPE_S, RD_NPU_GM, WRITES, ANY, s_gm},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* The kinds of core there are, and what they have. */
static const struct core_kind {
  const char *name;
  rd_npu_arch arch;
  rd_npu_core_kind kind;
  unsigned pipes; /* bit set */
  bool ub, cube;
} kinds[] = {
#define BIT(p) (1u << RD_NPU_PIPE_##p)
#define BOTH   (BIT(S) | BIT(MTE2) | BIT(MTE3))
    {"310P", RD_NPU_310P, RD_NPU_COUPLED, BOTH | BIT(V) | BIT(M) | BIT(MTE1), true, true},
    {"910B cube", RD_NPU_910B, RD_NPU_CUBE, BOTH | BIT(M) | BIT(MTE1) | BIT(FIX), false, true},
    {"910B vector", RD_NPU_910B, RD_NPU_VECTOR, BOTH | BIT(V), true, false},
    {"950 cube", RD_NPU_950, RD_NPU_CUBE, BOTH | BIT(M) | BIT(MTE1) | BIT(FIX), true, true},
    {"950 vector", RD_NPU_950, RD_NPU_VECTOR, BOTH | BIT(V), true, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static bool judged_pipes[KINDS][RD_NPU_PIPES][RD_NPU_PIPES];

static bool has(const struct core_kind *k, const sample *s) {
  bool buffer = s->buffer == RD_NPU_GM || (s->buffer == RD_NPU_UB ? k->ub : k->cube);
  bool own = k->ub || (s->issue != mte2_from_gm_ub && s->issue != mte3_gm); /* its other side */
  if (s->issue == mte2_from_gm && !k->cube) own = false;
  return (s->archs >> k->arch & 1) && (k->pipes >> s->pipe & 1) && buffer && own;
}

/* ------------------------------------------------------------------ the kernel */

static const struct core_kind *kind_now;
static const sample *first_now, *second_now;

static void fill(rd_npu_core *c) {
  if (kind_now->ub) copy_gm_to_ubuf(UB(0), GM(0), 1, 1024, 0, 0);
  if (kind_now->ub) copy_gm_to_ubuf(UB(32768), GM(0), 1, 1024, 0, 0);
  if (kind_now->cube) {
    copy_gm_to_cbuf(L1(0), GM(0), 1, 1024, 0, 0);
    pipe_barrier(PIPE_ALL);
    load_cbuf_to_ca(L0A(0), L1(0), 0, 8, 1, 0, false);
    load_cbuf_to_cb(L0B(0), L1(0), 0, 8, 1, 0, false);
    pipe_barrier(PIPE_ALL);
    mad(F32, F16, L0C(0), L0A(0), L0B(0), 64, 16, 64, true);
  }
  pipe_barrier(PIPE_ALL);
}

static void one_pair(rd_npu_core *c, const void *args) {
  rd_npu_pipe p = (rd_npu_pipe)first_now->pipe, q = (rd_npu_pipe)second_now->pipe;
  if (get_block_idx()) return; /* cores of a pair would meet in GM */
  fill(c);
  first_now->issue(c, 0);
  if (!BAD && p != q) {
    set_flag(p, q, 3);
    wait_flag(p, q, 3);
  } else if (!BAD && p != RD_NPU_PIPE_S) {
    pipe_barrier(p);
  }
  second_now->issue(c, 1);
  pipe_barrier(PIPE_ALL);
}

/* Does hardware (or S itself) order the two without an event? */
static bool in_order(const struct core_kind *k) {
  if (first_now->pipe != second_now->pipe) return false;
  return first_now->pipe == RD_NPU_PIPE_S ||
         (first_now->pipe == RD_NPU_PIPE_V && rd_npu_arch_get(k->arch)->vector_in_order);
}

static bool compiler_orders(void) {
  unsigned p = first_now->pipe, q = second_now->pipe, other = p == RD_NPU_PIPE_S ? q : p;
  return first_now->buffer == RD_NPU_UB && p != q && (p == RD_NPU_PIPE_S || q == RD_NPU_PIPE_S) &&
         (other == RD_NPU_PIPE_V || other == RD_NPU_PIPE_MTE2 || other == RD_NPU_PIPE_MTE3);
}

static rd_npu_finding_kind expected_kind(void) {
  if (first_now->pipe == RD_NPU_PIPE_M && second_now->pipe == RD_NPU_PIPE_M)
    return RD_NPU_ACCUMULATE;
  if (!(first_now->access & WRITES)) return RD_NPU_RACE_WAR;
  return second_now->access & READS ? RD_NPU_RACE_RAW : RD_NPU_RACE_WAW;
}

static void expect(bool found, const char *what, const char *missing, const rd_npu_report *r) {
  const rd_npu_finding *f = find(r, expected_kind(), missing);
  if (found ? f != NULL : rd_npu_report_count(r) == 0) return;
  print_error("%s, %s of %s, %s: %s\n", kind_now->name, missing,
              rd_npu_buffer_name((rd_npu_buffer)first_now->buffer), what,
              found ? "not found" : "reported");
  dump(what, r);
  fail();
}

static void judge_pair(void) {
  char missing[32];
  const char *p = rd_npu_pipe_name((rd_npu_pipe)first_now->pipe),
             *q = rd_npu_pipe_name((rd_npu_pipe)second_now->pipe);
  bool same = first_now->pipe == second_now->pipe, races = !in_order(kind_now);
  snprintf(missing, sizeof missing, same ? "pipe_barrier(%s)" : "%s_%s", p, q);
  for (int sync = 0; sync < 2; sync++)
    for (int bad = 0; bad < 2; bad++) {
      variant v = {bad, 0};
      rd_npu_options o = {.size = sizeof o, .mode = RD_NPU_ORDER};
      o.auto_sync = sync ? RD_NPU_AUTO_SYNC_SCALAR : RD_NPU_AUTO_SYNC_NONE;
      rd_npu_report *r = run_with(one_pair, kind_now->arch, kind_now->kind, 1, &v, &o);
      bool found = bad && races && !(sync && compiler_orders());
      expect(found, sync ? "compiler synchronises S" : bad ? "no event" : "event", missing, r);
      planted as = {"pair", one_pair, kind_now->arch, kind_now->kind, 1, RD_NPU_RACE_RAW, NULL, 0};
      if (found && !sync) cures(&as, &v, r);
      rd_npu_report_free(r);
    }
}

static void every_pair(void **state) {
  (void)state;
  unsigned judged = 0, least[KINDS] = {0};
  for (unsigned k = 0; k < KINDS; k++)
    for (unsigned a = 0; a < SAMPLES; a++)
      for (unsigned b = 0; b < SAMPLES; b++) {
        kind_now = &kinds[k], first_now = &samples[a], second_now = &samples[b];
        if (first_now->buffer != second_now->buffer || !has(kind_now, first_now) ||
            !has(kind_now, second_now) || !((first_now->access | second_now->access) & WRITES))
          continue;
        judge_pair();
        judged++, least[k]++;
        judged_pipes[k][first_now->pipe][second_now->pipe] = true;
      }
  print_message("%u pairs of instructions: 310P %u, 910B %u and %u, 950 %u and %u\n", judged,
                least[0], least[1], least[2], least[3], least[4]);
  assert_true(judged > 100);
}

/* ------------------------------------------------------------------ nothing is forgotten */

static bool sampled(const struct core_kind *k, unsigned pipe, unsigned buffer, unsigned access) {
  for (unsigned n = 0; n < SAMPLES; n++)
    if (has(k, &samples[n]) && samples[n].pipe == pipe && samples[n].buffer == buffer &&
        samples[n].access & access)
      return true;
  return false;
}

static unsigned unsampled(const struct core_kind *k, const op_info *o, unsigned pipe,
                          unsigned buffer, unsigned access) {
  bool there = buffer == RD_NPU_GM || (buffer == RD_NPU_UB ? k->ub : k->cube);
  if (!there || sampled(k, pipe, buffer, access)) return 0;
  print_error("%s: %s on %s %s %s, for which test_pairs.c has no sample\n", k->name, o->name,
              rd_npu_pipe_name((rd_npu_pipe)pipe), access == READS ? "reads" : "writes",
              rd_npu_buffer_name((rd_npu_buffer)buffer));
  return 1;
}

/* What an instruction cannot meet: GM that nothing writes, and flags, barriers and registers. */
static bool touches_nothing(const op_info *o) {
  return o->cls == CLASS_FLAG || o->cls == CLASS_BARRIER || o->cls == CLASS_S_OP ||
         o->cls == CLASS_S_GM;
}

static void samples_cover_the_table(void **state) {
  (void)state;
  unsigned missing = 0;
  for (unsigned k = 0; k < KINDS; k++)
    for (unsigned n = 0; n < OP_COUNT; n++) {
      const op_info *o = &rdn_ops[n];
      bool fix = o->traits & ON_FIX_IF_SPLIT && kinds[k].arch != RD_NPU_310P;
      unsigned pipe = fix ? RD_NPU_PIPE_FIX : o->pipe;
      bool other_side = kinds[k].ub || (o->from != RD_NPU_UB && o->to != RD_NPU_UB);
      other_side &= kinds[k].cube || (o->to != RD_NPU_L1 && o->from != RD_NPU_L1);
      if (touches_nothing(o) || !(o->archs >> kinds[k].arch & 1) || !(kinds[k].pipes >> pipe & 1) ||
          !other_side)
        continue;
      missing += unsampled(&kinds[k], o, pipe, o->from, READS);
      missing += unsampled(&kinds[k], o, pipe, o->to, WRITES);
      if (n == OP_mad) missing += unsampled(&kinds[k], o, pipe, RD_NPU_L0B, READS);
      if (n == OP_mad) missing += unsampled(&kinds[k], o, pipe, RD_NPU_L0C, READS);
    }
  assert_int_equal(missing, 0);
}

/* ------------------------------------------------------------------ the other pairs of pipes */

typedef struct reach { /* buffers, as bit sets */
  unsigned reads, writes;
} reach;

static void reach_of(const struct core_kind *k, reach r[RD_NPU_PIPES]) {
  for (unsigned n = 0; n < OP_COUNT; n++) {
    const op_info *o = &rdn_ops[n];
    bool fix = o->traits & ON_FIX_IF_SPLIT && k->arch != RD_NPU_310P;
    unsigned pipe = fix ? RD_NPU_PIPE_FIX : o->pipe;
    bool there = k->ub || (o->from != RD_NPU_UB && o->to != RD_NPU_UB);
    there &= k->cube || (o->to != RD_NPU_L1 && o->from != RD_NPU_L1);
    if (touches_nothing(o) || !there || !(o->archs >> k->arch & 1) || !(k->pipes >> pipe & 1))
      continue;
    r[pipe].reads |= 1u << o->from, r[pipe].writes |= 1u << o->to;
    if (n == OP_mad) r[pipe].reads |= 1u << RD_NPU_L0B | 1u << RD_NPU_L0C;
  }
}

/* A pair of pipes is judged, or has a reason why the two can never conflict: nothing in common, or what
 * they have in common neither writes. */
static void others_cannot_meet(void **state) {
  (void)state;
  for (unsigned k = 0; k < KINDS; k++) {
    reach r[RD_NPU_PIPES] = {{0, 0}};
    reach_of(&kinds[k], r);
    for (unsigned p = 0; p < RD_NPU_PIPES; p++)
      for (unsigned q = 0; q < RD_NPU_PIPES; q++) {
        bool there = kinds[k].pipes >> p & kinds[k].pipes >> q & 1;
        unsigned conflict = (r[p].writes & (r[q].reads | r[q].writes)) | (r[p].reads & r[q].writes);
        if (!there || judged_pipes[k][p][q]) continue;
        print_message("%s: %s and %s cannot conflict: %s\n", kinds[k].name,
                      rd_npu_pipe_name((rd_npu_pipe)p), rd_npu_pipe_name((rd_npu_pipe)q),
                      conflict                  ? "wrong, they can"
                      : r[p].reads & r[q].reads ? "what both touch neither writes"
                                                : "no buffer in common");
        assert_int_equal(conflict, 0);
      }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(samples_cover_the_table),
                                     cmocka_unit_test(every_pair),
                                     cmocka_unit_test(others_cannot_meet)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
