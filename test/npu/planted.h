/* Kernels with a defect planted, and their clean twins: the one must be reported with the right kind,
 * sites and missing event, the other not at all. */
#ifndef TEST_NPU_PLANTED_H
#define TEST_NPU_PLANTED_H

#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

typedef struct variant {
  bool bad;
  int which;
} variant;

typedef struct planted {
  const char *name;
  rd_npu_kernel *kernel;
  rd_npu_arch arch;
  rd_npu_core_kind kind;
  uint32_t block_num;
  rd_npu_finding_kind finding;
  const char *missing; /* NULL: any */
  int which;
} planted;

#define BAD   (((const variant *)args)->bad)
#define WHICH (((const variant *)args)->which)
#define EDGE(a, b, id)                                                                             \
  do {                                                                                             \
    set_flag(PIPE_##a, PIPE_##b, id);                                                              \
    wait_flag(PIPE_##a, PIPE_##b, id);                                                             \
  } while (0)
#define LOAD(ub, gm, blocks)  copy_gm_to_ubuf(UB(ub), RD_NPU_GM_ADDR(0, gm), 1, blocks, 0, 0)
#define STORE(gm, ub, blocks) copy_ubuf_to_gm(RD_NPU_GM_ADDR(1, gm), UB(ub), 1, blocks, 0, 0)
#define ADD(d, a, b)          vadd(F32, UB(d), UB(a), UB(b), 1, 1, 1, 1, 8, 8, 8)

/* Something in L0A and L0B to multiply; a macro, so that the sites are the test's. */
#define FILL_L0()                                                                                  \
  do {                                                                                             \
    copy_gm_to_cbuf(L1(0), GM(0), 1, 512, 0, 0);                                                   \
    EDGE(MTE2, MTE1, 0);                                                                           \
    load_cbuf_to_ca(L0A(0), L1(0), 0, 16, 1, 0, false);                                            \
    load_cbuf_to_cb(L0B(0), L1(0), 0, 16, 1, 0, false);                                            \
    EDGE(MTE1, M, 0);                                                                              \
  } while (0)

/* For cases on one coupled core. */
#define COUPLED RD_NPU_310P, RD_NPU_COUPLED, 1

static uint8_t gm0[32768], gm1[32768], gm2[4096];

static inline rd_npu_report *run_with(rd_npu_kernel *k, rd_npu_arch arch, rd_npu_core_kind kind,
                                      uint32_t blocks, const variant *v, const rd_npu_options *o) {
  for (size_t i = 0; i < sizeof gm0; i += 2) gm0[i] = (uint8_t)(i / 2), gm0[i + 1] = 0x30;
  memset(gm1, 0, sizeof gm1);
  memset(gm2, 0, sizeof gm2);
  rd_npu_tensor gm[3] = {{"in", gm0, sizeof gm0, 2, RD_NPU_IN},
                         {"out", gm1, sizeof gm1, 2, RD_NPU_OUT},
                         {"state", gm2, sizeof gm2, 2, RD_NPU_INOUT}};
  rd_npu_launch l = {sizeof l, arch, kind, 0, blocks, k, v, gm, 3};
  rd_npu_report *r;
  rd_npu_status s = rd_npu_run(&l, o, &r);
  assert_int_equal(s, rd_npu_report_count(r) ? RD_NPU_FINDING : RD_NPU_OK);
  return r;
}

static inline rd_npu_report *run(rd_npu_kernel *k, rd_npu_arch arch, rd_npu_core_kind kind,
                                 uint32_t blocks, const variant *v, rd_npu_mode mode,
                                 uint32_t threads, bool witnesses) {
  rd_npu_options o = {.size = sizeof o, .mode = mode, .threads = threads, .witnesses = witnesses};
  return run_with(k, arch, kind, blocks, v, &o);
}

static inline void dump(const char *name, const rd_npu_report *r) {
  char *t = rd_npu_report_text(r);
  print_error("%s:\n%s", name, t);
  free(t);
}

static inline const rd_npu_finding *find(const rd_npu_report *r, rd_npu_finding_kind kind,
                                         const char *missing) {
  for (size_t i = 0; i < rd_npu_report_count(r); i++) {
    const rd_npu_finding *f = rd_npu_report_get(r, i);
    if (f->kind == kind && (!missing || (f->missing && strcmp(f->missing, missing) == 0))) return f;
  }
  return NULL;
}

static inline const rd_npu_finding *find_note(const rd_npu_report *r, rd_npu_finding_kind kind,
                                              const char *missing) {
  for (size_t i = 0; i < rd_npu_report_note_count(r); i++) {
    const rd_npu_finding *f = rd_npu_report_note_get(r, i);
    if (f->kind == kind && (!missing || (f->missing && strcmp(f->missing, missing) == 0))) return f;
  }
  return NULL;
}

static inline bool find_missing(const rd_npu_report *r, const char *missing) {
  for (size_t i = 0; i < rd_npu_report_count(r); i++)
    if (rd_npu_report_get(r, i)->missing && !strcmp(rd_npu_report_get(r, i)->missing, missing))
      return true;
  return false;
}

static inline bool same_text(const char *a, const char *b) {
  return a && b ? !strcmp(a, b) : a == b;
}

/* The remedy that each finding names, put in alone, cures every finding that names it and causes none. */
static inline void cures(const planted *p, const variant *bad, const rd_npu_report *before) {
  for (size_t n = 0; n < rd_npu_report_count(before); n++) {
    const rd_npu_finding *f = rd_npu_report_get(before, n);
    if (!f->missing || strchr(f->missing, ' ')) continue; /* advice that is no event */
    rd_npu_options o = {.size = sizeof o, .mode = RD_NPU_ORDER, .with = f->missing};
    rd_npu_report *r = run_with(p->kernel, p->arch, p->kind, p->block_num, bad, &o);
    bool good = !find_missing(r, f->missing);
    for (size_t k = 0; k < rd_npu_report_count(r) && good; k++) {
      const rd_npu_finding *left = rd_npu_report_get(r, k);
      /* an ordered read can still be stale: no event cures that, and it is a defect of its own */
      bool known = left->kind == RD_NPU_STALE_LINE;
      for (size_t m = 0; m < rd_npu_report_count(before) && !known; m++) {
        const rd_npu_finding *old = rd_npu_report_get(before, m);
        known = old->kind == left->kind && same_text(old->first.site, left->first.site) &&
                same_text(old->second.site, left->second.site);
      }
      good = known;
    }
    if (!good) {
      print_error("%s: %s does not cure\n", p->name, f->missing);
      dump("without", before), dump("with", r);
    }
    assert_true(good);
    rd_npu_report_free(r);
  }
}

/* `file`: the name that the sites must have. */
static inline void judge_planted(const planted *cases, size_t count, const char *file) {
  for (size_t i = 0; i < count; i++) {
    const planted *p = &cases[i];
    for (int mode = 0; mode < 3; mode += 2) { /* checked, order only */
      variant clean = {false, p->which}, bad = {true, p->which};
      rd_npu_report *r =
          run(p->kernel, p->arch, p->kind, p->block_num, &clean, (rd_npu_mode)mode, 1, false);
      if (rd_npu_report_count(r)) dump(p->name, r);
      assert_int_equal(rd_npu_report_count(r), 0);
      rd_npu_report_free(r);
      r = run(p->kernel, p->arch, p->kind, p->block_num, &bad, (rd_npu_mode)mode, 1, false);
      const rd_npu_finding *f = find(r, p->finding, p->missing);
      if (!f) dump(p->name, r);
      assert_non_null(f);
      assert_non_null(strstr(f->first.site, file));
      assert_true(strlen(f->message) > 0);
      cures(p, &bad, r);
      rd_npu_report_free(r);
    }
  }
}

#endif
