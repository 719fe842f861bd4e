/* Plans: how heads are cut into items, and checks that write nothing. */
#include "mpi/src/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "redelta/redelta.h"

/* Shares of a value head's time. Cutting a key head's items further repeats the work on q, k and gates (71 to
 * 147 of 1300 ns); one key head alone waits for memory, since its rows lie far apart among the others',
 * where the kernels let several heads take turns (1880 against 1600 ns). */
static const double preparation = 0.08, apart = 0.17;

/* Most of an item: 16 states of 128 x 128, so that 32 tokens take less than a millisecond. */
enum { MOST_FLOATS = 16 * 128 * 128 };

static int64_t items_of(const rd_problem *p, int64_t heads, int64_t rows) {
  return p->Hv / heads * (p->V / rows);
}

/* Share of the ranks' time that is used. */
static double efficiency(const rd_problem *p, int64_t heads, int64_t rows, int ranks,
                         int32_t layers) {
  const double items = (double)items_of(p, heads, rows) * layers;
  const int64_t values = p->Hv / p->Hk; /* heads of a key head */
  const double group = (double)values, keys = fmax((double)heads / group, 1);
  const double repeats = fmax(group / (double)heads, 1) * (double)p->V / (double)rows;
  const double cost = 1 + preparation / group * (repeats - 1) + apart / keys;
  return items / (items + ranks - 1) / cost;
}

static void choose_cut(rd_mpi_plan *plan, int ranks, int32_t layers) {
  const rd_problem *p = &plan->problem;
  const int tiled = p->head_map == RD_HEADS_TILED; /* a key head's value heads lie Hk apart */
  const int64_t group = p->Hv / p->Hk;
  double best = 0;
  plan->heads = 1, plan->rows = p->V;
  for (int64_t keys = p->Hk; keys >= 1 && !tiled; keys--) {
    if (p->Hk % keys || (keys > 1 && keys * group * p->V * p->K > MOST_FLOATS)) continue;
    const double e = efficiency(p, keys * group, p->V, ranks, layers);
    if (e > best) best = e, plan->heads = keys * group;
  }
  for (int64_t parts = 1; p->V % parts == 0 && (parts == 1 || p->V / parts >= 32); parts *= 2) {
    const double e = efficiency(p, 1, p->V / parts, ranks, layers);
    if (e > best * 1.01) best = e, plan->heads = 1, plan->rows = p->V / parts;
  }
}

int64_t rdm_keys(const rd_problem *p, int64_t heads) {
  const int64_t group = p->Hv / p->Hk;
  return heads > group ? heads / group : 1;
}

int64_t rdm_items(const rd_mpi_plan *plan) {
  return items_of(&plan->problem, plan->heads, plan->rows);
}

rdm_item rdm_item_at(const rd_mpi_plan *plan, int64_t i) {
  const rd_problem *p = &plan->problem;
  const int64_t blocks = p->V / plan->rows, group = p->Hv / p->Hk;
  rdm_item it = {.heads = plan->heads, .row = i % blocks * plan->rows, .rows = plan->rows};
  it.hv = i / blocks * plan->heads;
  it.hk = p->head_map == RD_HEADS_GROUPED ? it.hv / group : it.hv % p->Hk;
  return it;
}

/* FNV-1a over what must be the same on all ranks. rd_problem has no padding. */
static uint64_t fingerprint_of(const rd_mpi_plan *plan) {
  rd_problem p = plan->problem;
  p.max_batch = p.max_tokens = 0;
  if (!p.has_scale) p.scale = 0;
  p.reserved[0] = plan->heads, p.reserved[1] = plan->rows; /* the cut is part of it */
  uint64_t h = 0xcbf29ce484222325u;
  const unsigned char *bytes = (const unsigned char *)&p;
  for (size_t i = 0; i < sizeof p; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
  for (const char *c = rd_version(); *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
  return h;
}

static rd_status inner_plan(rd_mpi *m, const rd_problem *problem, int64_t heads, int64_t rows,
                            rd_plan **out) {
  rd_problem p = *problem;
  p.layout = RD_PADDED;
  p.head_map = RD_HEADS_GROUPED;
  p.Hk = rdm_keys(problem, heads), p.Hv = heads, p.V = rows;
  p.max_batch = 1;
  p.state_dtype = RD_F32;
  p.state_layout = RD_STATE_VK;
  return rd_plan_create(m->ctx, &p, out);
}

/* ---- the checker: a context whose executor and, once it is made, whose allocator refuse ------------
 * rd_prefill makes all checks before it asks either for anything. */

static int refuse_to_run(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  (void)self, (void)fn, (void)arg, (void)n;
  return 1;
}
static void *checker_alloc(void *self, size_t size, size_t align) {
  const int *refuse = self;
  return *refuse ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
}
static void checker_release(void *self, void *ptr, size_t size) {
  (void)self, (void)size;
  free(ptr);
}

/* The checks of slots need this much of the arena, and a run of the smallest problem needs more. */
static size_t slot_checks(const rd_problem *p) { return (size_t)p->max_batch * 8 + 1216; }

static rd_status make_checker(rd_mpi_plan *plan) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.isa_mask = RD_ISA_SCALAR; /* checks are the same in all */
  o.executor = (rd_executor){.run = refuse_to_run, .concurrency = 2};
  o.allocator = (rd_allocator){checker_alloc, checker_release, &plan->refuse};
  /* A plan reserves scratch in the context it is made in, which must not be the checker. */
  rd_context *maker;
  RDM_TRY(rd_context_create(&o, &maker));
  rd_status status = rd_plan_create(maker, &plan->problem, &plan->checked);
  rd_context_destroy(maker);
  if (status == RD_OK) status = rd_context_create(&o, &plan->checker);
  if (status == RD_OK) status = rd_context_reserve(plan->checker, slot_checks(&plan->problem));
  plan->refuse = 1;
  return status;
}

rd_status rdm_check(rd_mpi *m, const rd_mpi_plan *plan, const rd_sequences *seq,
                    const rd_activations *act, const rd_slots *initial, const rd_slots *final) {
  const rd_status status = rd_prefill(plan->checker, plan->checked, seq, act, initial, final, NULL);
  if (status == RD_OK || status == RD_E_EXECUTOR || status == RD_E_NOMEM) return RD_OK;
  return rdm_fail(m, status, "%s", rd_last_error(plan->checker));
}

rd_status rd_mpi_plan_create(rd_mpi *m, const rd_problem *problem, int32_t layers,
                             rd_mpi_plan **out) {
  if (!out) return RD_E_NULL;
  *out = NULL;
  if (!m) return RD_E_NULL;
  m->message[0] = '\0';
  if (layers < 1) return rdm_fail(m, RD_E_SHAPE, "layers: expected at least 1, got %d", layers);
  rd_plan *whole = NULL; /* judges the problem, too */
  rd_status status = rd_plan_create(m->ctx, problem, &whole);
  if (status != RD_OK) return rdm_fail(m, status, "%s", rd_last_error(m->ctx));
  rd_mpi_plan *plan = calloc(1, sizeof *plan);
  if (!plan) {
    rd_plan_destroy(whole);
    return rdm_fail(m, RD_E_NOMEM, "no memory for a plan");
  }
  rd_problem_init(&plan->problem);
  memcpy(&plan->problem, problem,
         problem->struct_size < sizeof *problem ? problem->struct_size : sizeof *problem);
  plan->problem.struct_size = sizeof plan->problem;
  const rd_problem *p = &plan->problem;
  plan->whole = whole;
  choose_cut(plan, m->ranks, layers);
  plan->fingerprint = fingerprint_of(plan);
  status = inner_plan(m, p, plan->heads, plan->rows, &plan->item);
  if (status == RD_OK && p->numerics == RD_FAST) {
    status = inner_plan(m, p, 1, p->V, &plan->segment);
    if (status == RD_OK) status = inner_plan(m, p, 1, p->K, &plan->transition);
  }
  if (status != RD_OK) {
    rdm_fail(m, status, "%s", rd_last_error(m->ctx));
  } else if ((status = make_checker(plan)) != RD_OK) {
    rdm_fail(m, status, "no memory for the checks");
  }
  if (status == RD_OK)
    *out = plan;
  else
    rd_mpi_plan_destroy(plan);
  return status;
}

void rd_mpi_plan_destroy(rd_mpi_plan *plan) {
  if (!plan) return;
  rd_plan_destroy(plan->whole);
  rd_plan_destroy(plan->item);
  rd_plan_destroy(plan->segment);
  rd_plan_destroy(plan->transition);
  rd_plan_destroy(plan->checked);
  rd_context_destroy(plan->checker);
  free(plan);
}

rd_status rd_mpi_plan_cut(const rd_mpi_plan *plan, rd_mpi_cut *cut) {
  if (!plan || !cut) return RD_E_NULL;
  const int64_t floats = plan->heads * plan->rows * plan->problem.K;
  *cut = (rd_mpi_cut){plan->heads, plan->rows, rdm_items(plan),
                      (int64_t)sizeof(rdm_header) + floats * 4};
  return RD_OK;
}

/* ---------------------------------------------------------------- checked arguments ----------- */

int64_t rdm_number(const rd_tensor *t, int64_t i) {
  const int64_t at = i * t->stride[0];
  return t->dtype == RD_I32 ? ((const int32_t *)t->data)[at] : ((const int64_t *)t->data)[at];
}

int64_t rdm_length(const rd_mpi_plan *plan, const rd_sequences *seq, const rd_activations *act,
                   int64_t b, int64_t *first) {
  if (plan->problem.layout == RD_PACKED) {
    *first = rdm_number(&seq->cu_seqlens, b);
    return rdm_number(&seq->cu_seqlens, b + 1) - *first;
  }
  *first = 0;
  return seq->lengths.dtype == RD_ABSENT ? act->q.shape[1] : rdm_number(&seq->lengths, b);
}

int64_t rdm_slot(const rd_mpi_plan *plan, const rd_slots *slots, int64_t b) {
  if (!slots || slots->pool.dtype == RD_ABSENT) return plan->problem.pad_slot;
  return slots->slots.dtype == RD_ABSENT ? b : rdm_number(&slots->slots, b);
}

int rdm_shared_pool(const rd_slots *initial, const rd_slots *final) {
  return initial && final && initial->pool.dtype != RD_ABSENT &&
         initial->pool.data == final->pool.data && final->pool.dtype != RD_ABSENT;
}
