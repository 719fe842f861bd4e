/* Contexts of every kind, and the verbs with their plans. SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kit.h"

/* ------------------------------------------------------------------ memory ------------------- */
int64_t cx_allocations;

/* Fresh memory is full of NaN, so nothing may lean on zeros there. */
static void *dirty_alloc(void *self, size_t size, size_t align) {
  (void)self;
  __atomic_fetch_add(&cx_allocations, 1, __ATOMIC_RELAXED);
  void *p = NULL;
  if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size ? size : 1))
    return NULL;
  memset(p, 0xff, size);
  return p;
}

static void dirty_release(void *self, void *ptr, size_t size) {
  (void)self;
  if (ptr) memset(ptr, 0xff, size);
  free(ptr);
}

/* ------------------------------------------------------------------ executors ---------------- */
static int run_reversed(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  (void)self;
  for (int64_t i = n - 1; i >= 0; i--) fn(arg, i);
  return 0;
}

typedef struct hostile_job {
  rd_slice_fn fn;
  void *arg;
  int64_t n, step, first;
  bool kept;
} hostile_job;

/* Rounding up, with subnormals kept on every other thread and flushed on the rest: nothing of it may
 * reach a result, and all of it has to be there again after each slice. */
static void *hostile_thread(void *p) {
  hostile_job *j = p;
  j->kept = true;
  for (int64_t i = j->first; i < j->n; i += j->step) {
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    unsigned before = (_mm_getcsr() & ~0x8040u) | (j->first & 1 ? 0x8040u : 0);
    _mm_setcsr(before);
    j->fn(j->arg, i);
    if (_mm_getcsr() != before) j->kept = false;
    _mm_setcsr(before & ~0x8040u);
#elif defined(__aarch64__)
    uint64_t before, after;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    before = (before & ~(UINT64_C(1) << 24)) | (uint64_t)(j->first & 1) << 24;
    __asm__ volatile("msr fpcr, %0" ::"r"(before));
    j->fn(j->arg, i);
    __asm__ volatile("mrs %0, fpcr" : "=r"(after));
    if (after != before) j->kept = false;
    __asm__ volatile("msr fpcr, %0" ::"r"(before & ~(UINT64_C(1) << 24)));
#else
    j->fn(j->arg, i);
#endif
    if (fegetround() != FE_UPWARD) j->kept = false;
  }
  fesetround(FE_TONEAREST);
  return NULL;
}

enum { MAX_THREADS = 16 };

static int run_hostile(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  int threads = *(int *)self;
  pthread_t id[MAX_THREADS];
  hostile_job job[MAX_THREADS];
  for (int i = 0; i < threads; i++) {
    job[i] = (hostile_job){fn, arg, n, threads, i, true};
    if (pthread_create(&id[i], NULL, hostile_thread, &job[i])) abort();
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(id[i], NULL);
    if (!job[i].kept) pt_fail("a slice changed the thread's floating-point environment");
  }
  return 0;
}

/* ------------------------------------------------------------------ contexts ----------------- */
rd_context *cx_fresh(uint32_t isa, int threads, ex_kind kind) {
  static int counts[MAX_THREADS + 1];
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = threads;
  o.isa_mask = isa ? isa | RD_ISA_SCALAR : 0;
  o.allocator = (rd_allocator){dirty_alloc, dirty_release, NULL};
  if (kind != EX_POOL) {
    counts[threads] = threads;
    o.executor = (rd_executor){.run = kind == EX_REVERSED ? run_reversed : run_hostile,
                               .self = &counts[threads],
                               .concurrency = threads};
  }
  rd_context *cx = NULL;
  rd_status st = rd_context_create(&o, &cx);
  if (st != RD_OK) {
    printf("no context (isa %u, %d threads): %s\n", isa, threads, rd_status_name(st));
    abort();
  }
  return cx;
}

typedef struct cached {
  uint32_t isa;
  int threads;
  ex_kind kind;
  rd_context *cx;
} cached;
static cached cache[128];
static size_t cached_n;

rd_context *cx_get(uint32_t isa, int threads, ex_kind kind) {
  for (size_t i = 0; i < cached_n; i++)
    if (cache[i].isa == isa && cache[i].threads == threads && cache[i].kind == kind)
      return cache[i].cx;
  if (cached_n == PT_LEN(cache)) cx_drop_cache();
  rd_context *cx = cx_fresh(isa, threads, kind);
  cache[cached_n++] = (cached){isa, threads, kind, cx};
  return cx;
}

void cx_drop_cache(void) {
  while (cached_n) rd_context_destroy(cache[--cached_n].cx);
}

const char *cx_isa_name(uint32_t mask) {
  return rd_isa_name(mask & RD_ISA_AMX ? RD_ISA_AMX : (rd_isa)mask);
}

int cx_isas(uint32_t list[8]) {
  int n = 0;
  uint32_t have = rd_isa_usable() & rd_isa_built();
  for (int b = 0; b < 8; b++)
    if (have >> b & 1) list[n++] = 1u << b | (1u << b == RD_ISA_AMX ? (uint32_t)RD_ISA_AVX512 : 0);
  return n;
}

/* ------------------------------------------------------------------ verbs -------------------- */
static rd_plan *plan_for(rd_context *cx, const rd_problem *p) {
  rd_plan *plan = NULL;
  if (!ck_status("rd_plan_create", cx, rd_plan_create(cx, p, &plan), RD_OK)) return NULL;
  return plan;
}

static bool done(const char *what, rd_context *cx, rd_plan *plan, rd_status st) {
  bool ok = ck_status(what, cx, st, RD_OK);
  if (ok && rd_last_error(cx)[0])
    pt_fail("%s: a message after success: %s", what, rd_last_error(cx));
  rd_plan_destroy(plan);
  return ok;
}

bool do_prefill(rd_context *cx, call *c, const rd_slots *initial, const rd_slots *final) {
  rd_plan *plan = plan_for(cx, &c->p);
  if (!plan) return false;
  bool ok =
      done("rd_prefill", cx, plan, rd_prefill(cx, plan, &c->seq, &c->act, initial, final, NULL));
  if (ok) call_check_rest(c);
  return ok;
}

bool do_decode(rd_context *cx, call *c, const rd_slots *state, const rd_slots *write,
               const rd_slots *snap) {
  rd_plan *plan = plan_for(cx, &c->p);
  if (!plan) return false;
  bool ok = done("rd_decode", cx, plan, rd_decode(cx, plan, &c->seq, &c->act, state, write, snap));
  if (ok) call_check_rest(c);
  return ok;
}

static void check_lengths(const call *c, const recs *r) {
  for (int64_t i = 0; i < c->B; i++) {
    int64_t want = c->pc[i].seq < 0 ? 0 : c->pc[i].len;
    if (r->r.lengths[i] != want)
      pt_fail("record length of sequence %lld: got %d, want %lld", (long long)i, r->r.lengths[i],
              (long long)want);
  }
  if (r->r.made.consumed) pt_fail("fresh records are marked consumed");
}

bool do_verify(rd_context *cx, call *c, const rd_slots *checkpoint, recs *r) {
  rd_plan *plan = plan_for(cx, &c->p);
  if (!plan) return false;
  bool ok = done("rd_verify", cx, plan, rd_verify(cx, plan, &c->seq, &c->act, checkpoint, &r->r));
  if (ok) {
    call_check_rest(c);
    check_lengths(c, r);
    recs_check_suffix(r);
  }
  return ok;
}

bool do_commit(rd_context *cx, const rd_problem *p, recs *r, const int32_t *accepted,
               const rd_slots *state) {
  rd_plan *plan = plan_for(cx, p);
  if (!plan) return false;
  rd_tensor acc = tb_i32(r->B, accepted).t;
  bool ok = done("rd_commit", cx, plan, rd_commit(cx, plan, &r->r, &acc, state));
  if (ok && !r->r.made.consumed) pt_fail("commit does not mark the records");
  return ok;
}

bool do_materialize(rd_context *cx, const rd_problem *p, recs *r, const int32_t *accepted,
                    const rd_slots *from, const rd_slots *to) {
  rd_plan *plan = plan_for(cx, p);
  if (!plan) return false;
  rd_tensor acc = tb_i32(r->B, accepted).t;
  int32_t before = r->r.made.consumed;
  bool ok = done("rd_materialize", cx, plan, rd_materialize(cx, plan, &r->r, &acc, from, to));
  if (r->r.made.consumed != before) pt_fail("materialize changes the consumed mark");
  return ok;
}

bool do_commit_verify(rd_context *cx, call *c, recs *prev, const int32_t *accepted,
                      const rd_slots *state, recs *next) {
  rd_plan *plan = plan_for(cx, &c->p);
  if (!plan) return false;
  rd_tensor acc = tb_i32(prev->B, accepted).t;
  bool ok = done("rd_commit_verify", cx, plan,
                 rd_commit_verify(cx, plan, &prev->r, &acc, &c->seq, &c->act, state, &next->r));
  if (ok) {
    call_check_rest(c);
    check_lengths(c, next);
    recs_check_suffix(next);
    if (!prev->r.made.consumed) pt_fail("commit_verify does not mark the previous records");
  }
  return ok;
}

/* ------------------------------------------------------------------ whole prefills ----------- */
result run_prefill_all(rd_context *cx, const data *d, const callopt *o) {
  result r = {mem_heap(Z(d->n) * sizeof(float *)), mem_heap(Z(d->n) * sizeof(float *))};
  call *c = call_all(d, o);
  pool *from = pool_make(&d->p, d->n, 0), *to = pool_make(&d->p, d->n, 0);
  for (int64_t i = 0; i < d->n; i++) pool_put(from, i, d->s[i].S0);
  mem_readonly(from->t.b);
  rd_slots a = pool_view(from, d->n, NULL), b = pool_view(to, d->n, NULL);
  do_prefill(cx, c, &a, &b);
  for (int64_t i = 0; i < d->n; i++) {
    r.out[i] = fl(d->s[i].len * d->p.Hv * d->p.V);
    r.S[i] = fl(data_state_n(d));
    call_out(c, i, r.out[i]);
    pool_get(to, i, r.S[i]);
  }
  return r;
}

void ck_result(const char *what, const data *d, result got, result want) {
  char name[160];
  for (int64_t i = 0; i < d->n; i++) {
    snprintf(name, sizeof name, "%s: out of sequence %lld", what, (long long)i);
    ck_bits(name, got.out[i], want.out[i], d->s[i].len * d->p.Hv * d->p.V);
    snprintf(name, sizeof name, "%s: state of sequence %lld", what, (long long)i);
    ck_bits(name, got.S[i], want.S[i], data_state_n(d));
  }
}
