/* Mistakes with contexts, executors and pools of states, and the small functions that cannot fail.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "misuse.h"

static void teeth_need_a_comparison(void) {
  float a = 1, b = 1;
  ck_bits("(teeth need a comparison)", &a, &b, 1);
}

/* ------------------------------------------------------------------ contexts ----------------- */
static int run_serial(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  (void)self;
  for (int64_t i = 0; i < n; i++) fn(arg, i);
  return 0;
}
/* One byte past what is asked: memory that the library has to hand back and count as none. */
static int64_t crooked_out;
static void *crooked(void *self, size_t size, size_t align) {
  (void)self, (void)align;
  void *p = NULL;
  if (posix_memalign(&p, 64, size + 1)) return NULL;
  crooked_out++;
  return (unsigned char *)p + 1;
}
static void straighten(void *self, void *ptr, size_t size) {
  (void)self, (void)size;
  crooked_out--;
  free((unsigned char *)ptr - 1);
}
static void *never(void *self, size_t size, size_t align) {
  return (void)self, (void)size, (void)align, NULL;
}
static void ignore(void *self, void *ptr, size_t size) { (void)self, (void)ptr, (void)size; }

static rd_context_options defaults(void) {
  rd_context_options o;
  memset(&o, 0xff, sizeof o);
  rd_context_options_init(&o);
  return o;
}

static void create(const char *name, const rd_context_options *o, rd_status want) {
  rd_context *cx = (rd_context *)(uintptr_t)0x10;
  refused(name, NULL, rd_context_create(o, &cx), want, NULL);
  CK(cx == NULL, "%s: *out is not NULL", name);
}

static void contexts(void) {
  rd_context *cx = NULL;
  CK(rd_context_create(NULL, &cx) == RD_OK && cx, "default options");
  rd_context_destroy(cx);
  rd_context_destroy(NULL);
  CK(rd_context_create(NULL, NULL) == RD_E_NULL, "no out");
  rd_context_options o = defaults();
  CK(o.struct_size == sizeof o && o.threads == 0 && o.isa_mask == 0 && !o.executor.run &&
         !o.allocator.alloc,
     "defaults are not all zero");
  o.struct_size = 0;
  create("options of size 0", &o, RD_E_STRUCT_SIZE);
  o.struct_size = sizeof o + 8;
  create("options of a later size", &o, RD_E_STRUCT_SIZE);
  o = defaults();
  o.threads = -1;
  create("-1 threads", &o, RD_E_ENUM);
  o.threads = 1025;
  create("1025 threads", &o, RD_E_ENUM);
  o = defaults();
  o.executor.run = run_serial;
  create("an executor of concurrency 0", &o, RD_E_ENUM);
  o.executor.concurrency = -3;
  create("an executor of concurrency -3", &o, RD_E_ENUM);
  o.executor.concurrency = 1025;
  create("an executor of concurrency 1025", &o, RD_E_ENUM);
  o = defaults();
  o.allocator.alloc = never;
  create("alloc without release", &o, RD_E_ENUM);
  o = defaults();
  o.allocator.release = ignore;
  create("release without alloc", &o, RD_E_ENUM);
  o.allocator.alloc = never;
  create("an allocator that never gives", &o, RD_E_NOMEM);
  o.allocator = (rd_allocator){crooked, straighten, NULL};
  create("an allocator that does not align", &o, RD_E_NOMEM);
  CK(crooked_out == 0, "%lld misaligned blocks were kept", (long long)crooked_out);
  o = defaults();
  for (int b = 0; b < 31; b++)
    if (!(rd_isa_usable() >> b & 1) || !(rd_isa_built() >> b & 1)) {
      o.isa_mask = 1u << b;
      create("an instruction set that is not there", &o, RD_E_ISA);
      if (rd_isa_usable() >> b & 1)
        continue; /* the machine has it, the build does not: scalar serves */
      o.isa_mask |= RD_ISA_SCALAR;
      create("scalar and an instruction set that is not there", &o, RD_E_ISA);
    }
  o = defaults();
  o.isa_mask = RD_ISA_ALL;
  CK(rd_context_create(&o, &cx) == RD_OK, "RD_ISA_ALL");
  rd_context_destroy(cx);
  teeth_need_a_comparison();
}

static void reserve(void) {
  rd_context *cx = cx_fresh(0, 1, EX_POOL);
  CK(rd_context_reserve(NULL, 10) == RD_E_NULL, "no context");
  CK(rd_context_reserved(NULL) == 0, "reserved of nothing");
  CK_OK(cx, rd_context_reserve(cx, 1000));
  size_t got = rd_context_reserved(cx);
  CK(got >= 1000, "reserved %zu after reserving 1000", got);
  rd_status st = rd_context_reserve(cx, SIZE_MAX);
  CK(st == RD_E_OVERFLOW || st == RD_E_NOMEM, "reserving SIZE_MAX: %s", rd_status_name(st));
  st = rd_context_reserve(cx, SIZE_MAX - 63);
  CK(st == RD_E_OVERFLOW || st == RD_E_NOMEM, "reserving almost SIZE_MAX: %s", rd_status_name(st));
  CK(rd_last_error(cx)[0] != 0, "no message");
  CK(rd_context_reserved(cx) >= got, "the arena shrank");
  CK_OK(cx, rd_context_reserve(cx, 0));
  CK(rd_context_reserved(cx) >= got, "the arena shrank");
  rd_context_destroy(cx);
  teeth_need_a_comparison();
}

/* ------------------------------------------------------------------ executors ---------------- */
typedef struct meddler {
  fix *f;
  rd_context *cx;
  rd_plan *plan;
  bool fail, nested;
  rd_status seen[6];
} meddler;

static int run_meddling(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  meddler *m = self;
  if (m->nested) {
    rd_tensor view;
    memset(&view, 0, sizeof view);
    m->nested = false;
    m->seen[0] = rd_context_reserve(m->cx, 1);
    m->seen[1] = rd_prefill(m->cx, m->plan, &m->f->seq, &m->f->act, NULL, NULL, NULL);
    m->seen[2] = rd_decode(m->cx, m->plan, &m->f->seq, &m->f->act, &m->f->state, NULL, NULL);
    m->seen[3] = rd_pool_alloc(m->cx, 1, 1, 1, 1, RD_STATE_VK, RD_F32, &view);
    rd_plan *p = NULL;
    m->seen[4] = rd_plan_create(m->cx, &m->f->p, &p);
    rd_chunk_gated_delta_rule_params c;
    rd_chunk_gated_delta_rule_init(&c);
    m->seen[5] = rd_chunk_gated_delta_rule(m->cx, &c);
  }
  for (int64_t i = 0; i < n; i++) fn(arg, i);
  return m->fail ? 7 : 0;
}

static void busy_and_failing_executors(void) {
  fix *f = fix_make(F_LOG);
  meddler m = {.f = f};
  rd_context_options o = defaults();
  o.executor = (rd_executor){.run = run_meddling, .self = &m, .concurrency = 2};
  CK(rd_context_create(&o, &m.cx) == RD_OK, "context");
  CK(rd_context_threads(m.cx) == 2, "threads of an executor of concurrency 2");
  CK_OK(m.cx, rd_plan_create(m.cx, &f->p, &m.plan));
  result want = run_prefill_all(cx_get(0, 1, EX_POOL), f->d, NULL);
  m.nested = true;
  CK_OK(m.cx, rd_prefill(m.cx, m.plan, &f->seq, &f->act, NULL, NULL, NULL));
  for (size_t i = 0; i < PT_LEN(m.seen); i++)
    CK(m.seen[i] == RD_E_BUSY, "call %zu inside a call: %s", i, rd_status_name(m.seen[i]));
  CK(!m.nested, "the executor was not asked");
  /* the outer call was not disturbed */
  f->state.pool = f->write.pool = f->pl->t.t;
  for (int i = 0; i < FB; i++) pool_put(f->pl, 1 + 2 * i, f->d->s[i].S0);
  call_dirty(f->c);
  CK_OK(m.cx, rd_prefill(m.cx, m.plan, &f->seq, &f->act, &f->state, &f->write, NULL));
  for (int i = 0; i < FB; i++) {
    float *S = fl(data_state_n(f->d)), *out = fl(FT * f->p.Hv * f->p.V);
    pool_get(f->pl, 2 + 2 * i, S);
    call_out(f->c, i, out);
    ck_bits("state", S, want.S[i], data_state_n(f->d));
    ck_bits("out", out, want.out[i], FT * f->p.Hv * f->p.V);
  }
  m.fail = true;
  refused("a failing executor", m.cx, rd_prefill(m.cx, m.plan, &f->seq, &f->act, NULL, NULL, NULL),
          RD_E_EXECUTOR, NULL);
  m.fail = false;
  CK_OK(m.cx, rd_prefill(m.cx, m.plan, &f->seq, &f->act, NULL, NULL, NULL));
  rd_plan_destroy(m.plan);
  rd_context_destroy(m.cx);
  rd_plan_destroy(f->plan);
}

/* ------------------------------------------------------------------ memory ------------------- */
static int64_t countdown;
static void *failing_alloc(void *self, size_t size, size_t align) {
  (void)self;
  if (countdown-- <= 0) return NULL;
  void *p = NULL;
  return posix_memalign(&p, align < sizeof p ? sizeof p : align, size ? size : 1) ? NULL : p;
}
static void failing_release(void *self, void *ptr, size_t size) {
  (void)self;
  (void)size;
  free(ptr);
}

/* The allocator fails at its 1st, 2nd, 3rd ... request until everything works. */
static void allocation_failures(void) {
  fix *f = fix_make(F_LOG);
  void *before = blk_copy(f->c->out.b);
  int64_t n = 0;
  for (bool done = false; !done && n < 1000; n++) {
    pt_note("allocation %lld fails", (long long)n + 1);
    countdown = n;
    rd_context_options o = defaults();
    o.threads = 2;
    o.allocator = (rd_allocator){failing_alloc, failing_release, NULL};
    rd_context *cx = NULL;
    rd_plan *plan = NULL;
    rd_status st = rd_context_create(&o, &cx);
    if (st == RD_OK) st = rd_plan_create(cx, &f->p, &plan);
    if (st == RD_OK) st = rd_prefill(cx, plan, &f->seq, &f->act, NULL, NULL, NULL);
    done = st == RD_OK;
    if (!done) {
      CK(st == RD_E_NOMEM, "got %s", rd_status_name(st));
      CK(!cx || rd_last_error(cx)[0], "no message");
      ck_bytes("out", f->c->out.b->p, before, f->c->out.b->bytes);
    }
    rd_plan_destroy(plan);
    rd_context_destroy(cx);
  }
  CK(n > 1 && n < 1000, "%lld allocations", (long long)n);
  rd_plan_destroy(f->plan);
}

/* A context whose arena cannot grow: an execution of a foreign plan must fail cleanly. */
static void cold_context_without_memory(void) {
  fix *f = fix_make(F_LOG);
  countdown = 1000;
  rd_context_options o = defaults();
  o.threads = 1;
  o.allocator = (rd_allocator){failing_alloc, failing_release, NULL};
  rd_context *cx = NULL;
  CK(rd_context_create(&o, &cx) == RD_OK, "context");
  countdown = 0;
  void *before = blk_copy(f->c->out.b);
  rd_status st = rd_prefill(cx, f->plan, &f->seq, &f->act, NULL, NULL, NULL);
  if (st != RD_OK) {
    refused("no memory for scratch", cx, st, RD_E_NOMEM, NULL);
    ck_bytes("out", f->c->out.b->p, before, f->c->out.b->bytes);
  }
  rd_context_destroy(cx);
  rd_plan_destroy(f->plan);
  teeth_need_a_comparison();
}

/* An allocator that stops aligning at its 1st, 2nd, 3rd ... request: as if it had given nothing,
 * and what it gave is given back. */
static int64_t crooked_held;

static void *crooked_alloc(void *self, size_t size, size_t align) {
  const size_t shift = countdown-- > 0 ? 0 : *(const size_t *)self,
               rounded = (size + 3 * align + shift) / align * align;
  char *base = aligned_alloc(align, rounded), *p = base ? base + align + shift : NULL;
  if (!p) return NULL;
  crooked_held++;
  memcpy(p - sizeof base, &base, sizeof base);
  return p;
}
static void crooked_release(void *self, void *ptr, size_t size) {
  char *base;
  (void)self;
  (void)size;
  memcpy(&base, (char *)ptr - sizeof base, sizeof base);
  crooked_held--;
  free(base);
}

static void crooked_allocator(void) {
  static size_t shifts[] = {1, 4, 8, 32};
  for (size_t i = 0; i < PT_LEN(shifts); i++) {
    fix *f = fix_make(F_LOG);
    int64_t n = 0;
    for (bool done = false; !done && n < 1000; n++) {
      pt_note("allocation %lld is %zu bytes off", (long long)n + 1, shifts[i]);
      countdown = n;
      rd_context_options o = defaults();
      o.threads = 2;
      o.allocator = (rd_allocator){crooked_alloc, crooked_release, &shifts[i]};
      rd_context *cx = NULL;
      rd_plan *plan = NULL;
      rd_tensor view = {0};
      rd_status st = rd_context_create(&o, &cx);
      if (st == RD_OK) st = rd_plan_create(cx, &f->p, &plan);
      if (st == RD_OK) st = rd_prefill(cx, plan, &f->seq, &f->act, NULL, NULL, NULL);
      if (st == RD_OK) st = rd_pool_alloc(cx, 2, 1, 3, 5, RD_STATE_VK, RD_F32, &view);
      done = st == RD_OK;
      CK(done || st == RD_E_NOMEM, "got %s", rd_status_name(st));
      CK(done || !cx || rd_last_error(cx)[0], "no message");
      if (done) rd_pool_free(cx, &view);
      rd_plan_destroy(plan);
      rd_context_destroy(cx);
      CK(crooked_held == 0, "%lld blocks are kept", (long long)crooked_held);
    }
    CK(n > 3 && n < 1000, "%lld allocations", (long long)n);
    rd_plan_destroy(f->plan);
  }
  teeth_need_a_comparison();
}

/* ------------------------------------------------------------------ small functions ---------- */
static void names(void) {
  for (int s = RD_OK; s <= RD_E_TREE; s++) {
    const char *n = rd_status_name((rd_status)s);
    CK(n && !strncmp(n, s ? "RD_E_" : "RD_OK", 5) && strcmp(n, "RD_E_?"), "status %d is called %s",
       s, n ? n : "NULL");
    for (int t = RD_OK; t < s; t++)
      CK(strcmp(n, rd_status_name((rd_status)t)), "two statuses are called %s", n);
  }
  CK(!strcmp(rd_status_name(RD_E_DTYPE), "RD_E_DTYPE"), "RD_E_DTYPE");
  CK(!strcmp(rd_status_name((rd_status)36), "RD_E_?") &&
         !strcmp(rd_status_name((rd_status)-1), "RD_E_?"),
     "unknown status");
  static const size_t size[] = {0, 4, 2, 2, 4, 8};
  for (int t = RD_ABSENT; t <= RD_I64; t++)
    CK(rd_dtype_size((rd_dtype)t) == size[t], "size of type %d", t);
  CK(rd_dtype_size((rd_dtype)6) == 0 && rd_dtype_size((rd_dtype)-1) == 0,
     "size of an unknown type");
  CK(rd_layout_qkv_parse("BSND") == RD_BSND && rd_layout_qkv_parse("BNSD") == RD_BNSD &&
         rd_layout_qkv_parse("TND") == RD_TND,
     "layouts");
  CK(!rd_layout_qkv_parse(NULL) && !rd_layout_qkv_parse("") && !rd_layout_qkv_parse("bsnd") &&
         !rd_layout_qkv_parse("TNDX"),
     "no layouts");
  CK(!strcmp(rd_isa_name(RD_ISA_SCALAR), "scalar") &&
         !strcmp(rd_isa_name(RD_ISA_SCALAR_FMA), "scalar_fma") &&
         !strcmp(rd_isa_name(RD_ISA_AVX2), "avx2") &&
         !strcmp(rd_isa_name(RD_ISA_AVX512), "avx512") &&
         !strcmp(rd_isa_name(RD_ISA_NEON), "neon") && !strcmp(rd_isa_name(RD_ISA_AMX), "amx") &&
         !rd_isa_name((rd_isa)3) && !rd_isa_name((rd_isa)0),
     "instruction set names");
  CK(!strcmp(rd_version(), RD_VERSION_STRING), "version %s", rd_version());
  CK(rd_isa_usable() & RD_ISA_SCALAR && rd_isa_built() & RD_ISA_SCALAR, "no scalar kernels");
  rd_context *cx = cx_get(0, 3, EX_POOL);
  CK(rd_context_threads(cx) == 3, "threads");
  int32_t n = rd_kernel_slots();
  CK(n > 0, "no kernel slots");
  for (int32_t i = 0; i < n; i++)
    CK(rd_kernel_slot_name(i) && rd_kernel_chosen(cx, i) &&
           !rd_kernel_isa(cx, i) == !strcmp(rd_kernel_chosen(cx, i), "exact"),
       "kernel slot %d has no kernel", i);
  CK(!rd_kernel_slot_name(-1) && !rd_kernel_slot_name(n) && !rd_kernel_chosen(cx, n) &&
         !rd_kernel_chosen(cx, -1) && !rd_kernel_isa(cx, n) && !rd_kernel_isa(cx, -1),
     "kernel slots out of range");
  teeth_need_a_comparison();
}

static void tensors(void) {
  int64_t shape[4] = {2, 3, 4, 5};
  int x;
  rd_tensor t = rd_tensor_contiguous(&x, RD_F16, 4, shape);
  CK(t.data == &x && t.dtype == RD_F16 && t.rank == 4 && t.stride[3] == 1 && t.stride[2] == 5 &&
         t.stride[1] == 20 && t.stride[0] == 60 && t.shape[0] == 2 && t.shape[3] == 5,
     "strides of a contiguous tensor");
  for (int r = -1; r <= 5; r++)
    if (r < 1 || r > 4)
      CK(rd_tensor_contiguous(&x, RD_F16, r, shape).dtype == RD_ABSENT, "rank %d", r);
  int64_t huge[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
  rd_tensor h =
      rd_tensor_contiguous(&x, RD_F32, 4, huge); /* must not overflow; refused where used */
  fix *f = fix_make(F_LOG);
  f->act.q = h;
  rd_status st = rd_prefill(f->cx, f->plan, &f->seq, &f->act, NULL, NULL, NULL);
  CK(st != RD_OK, "a tensor of 2^252 elements is taken");
  rd_plan_destroy(f->plan);
  teeth_need_a_comparison();
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"contexts", contexts, PT_QUICK},
      {"reserve", reserve, PT_QUICK},
      {"busy_and_failing_executors", busy_and_failing_executors, PT_QUICK},
      {"allocation_failures", allocation_failures, PT_QUICK},
      {"cold_context_without_memory", cold_context_without_memory, PT_QUICK},
      {"crooked_allocator", crooked_allocator, PT_QUICK},
      {"names", names, PT_QUICK},
      {"tensors", tensors, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_context", cases, PT_LEN(cases));
}
