/* The library's verbs against the specification's C1, bit by bit, on random problems: every gate,
 * norm, beta, head map, layout, state layout and element type, strided tensors, slots with pads and
 * gaps. verbs [seed [problems [only]]] */
#include <stdlib.h>
#include <string.h>
#include "ref/ref.h"
#include "random.h"
#include "report.h"

enum { MODE = RDR_C1 | RDR_ROUND, MOST = 200 };

static report tally;
static rng g;
static void *owned[MOST];
static int owned_count;
static char what[256];
static const char *isa_text;

static void *own(size_t bytes) {
  void *p = calloc(1, bytes + 64);
  if (p == NULL || owned_count == MOST) exit((perror("verbs"), 3));
  return owned[owned_count++] = p;
}

static int64_t dice(int64_t n) { return rng_below(&g, n); }
static int32_t any_float(void) { return (rd_dtype)(RD_F32 + dice(3)); }

static void put(const rd_tensor *t, int64_t at, double x) {
  if (t->dtype == RD_F32)
    ((float *)t->data)[at] = (float)x;
  else
    ((uint16_t *)t->data)[at] = rdr_16_of((float)x, t->dtype);
}

static int64_t offset(const rd_tensor *t, int64_t i) {
  int64_t at = 0;
  for (int32_t d = t->rank - 1; d >= 0; d--) at += i % t->shape[d] * t->stride[d], i /= t->shape[d];
  return at;
}

/* A tensor with random gaps between its rows; shapes end at the first negative number. */
static rd_tensor tensor(rd_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
  rd_tensor t = {.dtype = dtype, .shape = {a, b, c, d}};
  while (t.rank < 4 && t.shape[t.rank] >= 0) t.rank++;
  const int gaps = dice(3) == 0;
  int64_t n = 1;
  for (int32_t i = t.rank - 1; i >= 0; i--) {
    t.stride[i] = n;
    n = n * t.shape[i] + (gaps ? dice(5) : 0);
  }
  t.data = own((size_t)(n + 8) * 8);
  return t;
}

/* In every third problem most numbers lie around 2^-126 or multiply to there. */
static int vanishing;

static double vanished(void) {
  static const int exponents[] = {-63, -63, -126, -125, -130, -64, -100};
  const double x = ldexp(1 + (double)(dice(7) - 3) * 0x1p-23, exponents[dice(7)]);
  return dice(2) ? x : -x;
}

static void fill(const rd_tensor *t, double centre, double size) {
  for (int64_t i = 0; i < rdr_elements(t); i++)
    put(t, offset(t, i), vanishing && dice(4) ? vanished() : centre + size * rng_normal(&g));
}

static void fill_uniform(const rd_tensor *t, double low, double high) {
  for (int64_t i = 0; i < rdr_elements(t); i++)
    put(t, offset(t, i), low + (high - low) * rng_unit(&g));
}

static int32_t *indices(rd_tensor *t, int64_t n) {
  *t = (rd_tensor){
      .data = own((size_t)n * 4), .dtype = RD_I32, .rank = 1, .shape = {n}, .stride = {1}};
  return t->data;
}

typedef struct world {
  rd_problem p;
  rd_sequences seq;
  rd_activations act;
  int64_t B, T, rows, ng, size; /* rows of the activations; size: one sequence's states */
  int64_t length[8];
} world;

static rd_tensor activation(const world *w, rd_dtype dtype, int64_t H, int64_t D) {
  return w->p.layout == RD_PADDED ? tensor(dtype, w->B, w->T, H, D)
                                  : tensor(dtype, w->rows, H, D, -1);
}

static void choose(rd_problem *p) {
  rd_problem_init(p);
  p->layout = (rd_layout)(1 + dice(2)), p->gate = (rd_gate)(1 + dice(5));
  p->gate_axis = (rd_gate_axis)(1 + dice(2)), p->beta = (rd_beta)(1 + dice(2));
  p->beta_times = (int32_t)(1 + dice(2)), p->qk_norm = (rd_qk_norm)(1 + dice(2));
  p->lower_bound = -5 * rng_unit(&g), p->head_map = (rd_head_map)(1 + dice(2));
  if (dice(2)) p->has_scale = 1, p->scale = rng_normal(&g);
  p->Hk = 1 + dice(3), p->Hv = p->Hk * (1 + dice(3));
  p->K = 1 + dice(dice(4) ? 40 : 140), p->V = 1 + dice(dice(4) ? 40 : 140);
  p->qkv_dtype = any_float(), p->gate_dtype = any_float(), p->beta_dtype = any_float();
  p->out_dtype = any_float(), p->state_dtype = dice(2) ? RD_F32 : any_float();
  p->state_layout = (rd_state_layout)(1 + dice(2));
  p->record_dtype = dice(2) ? RD_F32 : RD_F16, p->decay_dtype = dice(2) ? RD_F32 : RD_F16;
}

static void lengths(world *w) {
  w->B = 1 + dice(5), w->T = dice(8) ? 1 + dice(20) : 17 + dice(60), w->seq.batch = w->B;
  w->seq.struct_size = sizeof w->seq;
  const int ragged = w->p.layout == RD_PACKED || dice(2);
  for (int64_t b = 0; b < w->B; b++) w->length[b] = ragged ? dice(w->T + 1) : w->T;
  if (!ragged) return;
  const int packed = w->p.layout == RD_PACKED;
  rd_tensor *t = packed ? &w->seq.cu_seqlens : &w->seq.lengths;
  int32_t *v = indices(t, w->B + packed);
  for (int64_t b = 0; b < w->B; b++) v[b + packed] = (int32_t)w->length[b] + (packed ? v[b] : 0);
  w->rows = packed ? v[w->B] + dice(3) : 0; /* rows past the last sequence */
}

static void make(world *w) {
  memset(w, 0, sizeof *w);
  vanishing = dice(3) == 0;
  choose(&w->p);
  lengths(w);
  const rd_problem *p = &w->p;
  rd_activations *a = &w->act;
  w->p.max_batch = w->B, w->p.max_tokens = w->T;
  w->ng = p->gate_axis == RD_PER_CHANNEL ? p->K : -1, w->size = p->Hv * p->V * p->K;
  a->struct_size = sizeof *a;
  a->q = activation(w, p->qkv_dtype, p->Hk, p->K), a->k = activation(w, p->qkv_dtype, p->Hk, p->K);
  a->v = activation(w, p->qkv_dtype, p->Hv, p->V),
  a->beta = activation(w, p->beta_dtype, p->Hv, -1);
  a->out = activation(w, p->out_dtype, p->Hv, p->V);
  fill(&a->q, 0, 1), fill(&a->k, 0, 0.5 / sqrt((double)p->K)), fill(&a->v, 0, 1);
  if (p->beta == RD_BETA_VALUE)
    fill_uniform(&a->beta, 0, 1);
  else
    fill(&a->beta, 0, 2);
  fill_uniform(&a->out, 7, 7);
  if (p->gate != RD_GATE_NONE) a->g = activation(w, p->gate_dtype, p->Hv, w->ng);
  if (p->gate == RD_GATE_LOG)
    fill_uniform(&a->g, vanishing ? -110 : -3, 0);
  else if (p->gate == RD_GATE_DECAY)
    fill_uniform(&a->g, 0, 1);
  else
    fill(&a->g, 0, 3);
  if (p->gate != RD_GATE_LOWER_BOUND && p->gate != RD_GATE_SOFTPLUS) return;
  a->A_log = tensor(RD_F32, p->Hv, -1, -1, -1), a->dt_bias = tensor(RD_F32, p->Hv, w->ng, -1, -1);
  fill(&a->A_log, 0, 1), fill(&a->dt_bias, 0, 1);
}

/* A pool with a few more slots than sequences, each sequence on its own or on the pad slot. */
static rd_slots pool(const world *w, int pads) {
  const rd_problem *p = &w->p;
  const int vk = p->state_layout == RD_STATE_VK;
  const int64_t n = w->B + dice(3);
  rd_slots s = {.struct_size = sizeof(rd_slots),
                .pool = tensor(p->state_dtype, n, p->Hv, vk ? p->V : p->K, vk ? p->K : p->V)};
  fill(&s.pool, 0, 1);
  if (dice(4) == 0) return s;
  int32_t *v = indices(&s.slots, w->B);
  for (int64_t b = 0; b < w->B; b++) v[b] = (int32_t)((b + 1) % n);
  for (int64_t b = 0; pads && b < w->B; b++)
    if (dice(4) == 0) v[b] = p->pad_slot;
  return s;
}

static rd_tensor copy_of(const rd_tensor *t) {
  rd_tensor c = *t;
  size_t n = 1;
  for (int32_t d = 0; d < t->rank; d++) n += (size_t)((t->shape[d] - 1) * t->stride[d]);
  c.data = own(n * 8);
  memcpy(c.data, t->data, n * (t->dtype == RD_F32 ? 4 : 2));
  return c;
}

static double *doubles(int64_t n, double x) {
  double *d = own((size_t)n * sizeof *d);
  for (int64_t i = 0; i < n; i++) d[i] = x;
  return d;
}

static int equal(double x, double y) { return memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y); }

static void same_tensor(const char *name, const rd_tensor *t, const double *want) {
  const int64_t n = rdr_elements(t);
  double *have = doubles(n, 0);
  rdr_dense(t, have);
  int64_t i = 0;
  while (i < n && equal(have[i], want[i])) i++;
  CHECK(&tally, i == n, "%s [%s]: %s element %lld is %a, expected %a", what, isa_text, name,
        (long long)i, have[i], want[i]);
}

/* `after` must be `before`, but for the slots of the sequences, which hold state[b]. Rows of
 * snapshots likewise with one slot per row. */
static void same_pool(const world *w, const char *name, const rd_slots *after,
                      const rd_tensor *before, const double *state, int64_t count) {
  const int64_t K = w->p.K, V = w->p.V, n = rdr_elements(before);
  double *want = doubles(n, 0);
  rdr_dense(before, want);
  for (int64_t b = 0; b < count; b++) {
    const int64_t slot = after->slots.data != NULL ? ((int32_t *)after->slots.data)[b] : b;
    if (slot == w->p.pad_slot) continue;
    for (int64_t i = 0; i < w->size; i++) {
      const int64_t h = i / (V * K), r = i / K % V, c = i % K;
      want[slot * w->size + h * V * K +
           (w->p.state_layout == RD_STATE_VK ? r * K + c : c * V + r)] = state[b * w->size + i];
    }
  }
  same_tensor(name, &after->pool, want);
}

static rd_records records(const world *w, int64_t C) {
  const rd_problem *p = &w->p;
  rd_records r = {.struct_size = sizeof r,
                  .u = tensor(p->record_dtype, w->B, C, p->Hv, p->V),
                  .k = tensor(p->record_dtype, w->B, C, p->Hk, p->K),
                  .lengths = own((size_t)w->B * sizeof(int32_t))};
  if (p->gate != RD_GATE_NONE) r.decay = tensor(p->decay_dtype, w->B, C, p->Hv, w->ng);
  fill_uniform(&r.u, -7, -7), fill_uniform(&r.k, -7, -7), fill_uniform(&r.decay, -7, -7);
  return r;
}

static rdr_results results(const world *w, int64_t C) {
  const rd_problem *p = &w->p;
  return (rdr_results){.out = doubles(rdr_elements(&w->act.out), 7),
                       .C = C,
                       .state = doubles(w->B * w->size, 0),
                       .u = doubles(w->B * C * p->Hv * p->V, -7),
                       .k = doubles(w->B * C * p->Hk * p->K, -7),
                       .decay = doubles(w->B * C * p->Hv * p->K, -7)};
}

static void ok(rd_context *ctx, rd_status s, const char *verb) {
  CHECK(&tally, s == RD_OK, "%s: %s: %s", what, verb, rd_last_error(ctx));
}

static void prefill(rd_context *ctx, const rd_plan *plan, world *w) {
  rd_slots initial = pool(w, 1), final = dice(2) ? initial : pool(w, 1);
  const rd_tensor before = copy_of(&final.pool);
  const int from_zero = final.pool.data != initial.pool.data && dice(3) == 0;
  rdr_results r = results(w, 0);
  const int bad =
      rdr_prefill(MODE, &w->p, &w->seq, &w->act, from_zero ? NULL : &initial, &final, &r);
  /* Zero-length sequences without an initial state: what the library leaves is zeros. */
  ok(ctx, rd_prefill(ctx, plan, &w->seq, &w->act, from_zero ? NULL : &initial, &final, NULL),
     "prefill");
  CHECK(&tally, !bad, "memory");
  same_tensor("prefill out", &w->act.out, r.out);
  same_pool(w, "prefill state", &final, &before, r.state, w->B);
}

static void decode(rd_context *ctx, const rd_plan *plan, world *w) {
  rd_slots state = pool(w, 1), snap = {.struct_size = sizeof(rd_slots)};
  const rd_tensor before = copy_of(&state.pool);
  rdr_results r = results(w, 0);
  const int64_t rows = w->p.layout == RD_PADDED ? w->B * w->T : w->rows;
  rd_tensor snap_before = {0};
  if (dice(2) && rows > 0) {
    const world many = {.p = w->p, .B = rows, .size = w->size};
    snap = pool(&many, 0);
    int32_t *v = indices(&snap.slots, rows);
    for (int64_t i = 0; i < rows; i++) v[i] = dice(5) ? (int32_t)i : w->p.pad_slot;
    if (w->p.layout == RD_PADDED)
      snap.slots.rank = 2, snap.slots.shape[0] = w->B, snap.slots.shape[1] = w->T,
      snap.slots.stride[0] = w->T, snap.slots.stride[1] = 1;
    snap_before = copy_of(&snap.pool);
    r.snapshots = doubles(rows * w->size, 0);
  }
  const int bad = rdr_decode(MODE, &w->p, &w->seq, &w->act, &state, &r);
  ok(ctx, rd_decode(ctx, plan, &w->seq, &w->act, &state, NULL, r.snapshots ? &snap : NULL),
     "decode");
  CHECK(&tally, !bad, "memory");
  same_tensor("decode out", &w->act.out, r.out);
  same_pool(w, "decode state", &state, &before, r.state, r.snapshots ? 0 : w->B);
  if (r.snapshots == NULL) return;
  /* Rows that no token fills keep their slot. */
  int64_t start = 0;
  char *filled = own((size_t)rows);
  for (int64_t b = 0; b < w->B; b++, start += w->p.layout == RD_PADDED ? w->T : w->length[b - 1])
    for (int64_t t = 0; t < w->length[b]; t++)
      filled[start + t] =
          state.slots.data == NULL || ((int32_t *)state.slots.data)[b] != w->p.pad_slot;
  for (int64_t i = 0; i < rows; i++)
    if (!filled[i]) ((int32_t *)snap.slots.data)[i] = w->p.pad_slot;
  same_pool(w, "snapshots", &snap, &snap_before, r.snapshots, rows);
}

static void speculate(rd_context *ctx, const rd_plan *plan, world *w) {
  rd_slots state = pool(w, 1);
  const int64_t C = w->T + dice(3);
  rd_records first = records(w, C), second = records(w, C + 1);
  rd_tensor before = copy_of(&state.pool), accepted;
  rdr_results r = results(w, C), folded = results(w, C + 1);
  int bad = rdr_verify(MODE, &w->p, &w->seq, &w->act, &state, &r);
  ok(ctx, rd_verify(ctx, plan, &w->seq, &w->act, &state, &first), "verify");
  same_tensor("verify out", &w->act.out, r.out);
  same_tensor("record u", &first.u, r.u), same_tensor("record k", &first.k, r.k);
  if (w->p.gate != RD_GATE_NONE) same_tensor("record decay", &first.decay, r.decay);
  same_pool(w, "checkpoint", &state, &before, NULL, 0);
  int32_t *m = indices(&accepted, w->B);
  for (int64_t b = 0; b < w->B; b++) m[b] = (int32_t)dice(first.lengths[b] + 1);
  bad |= rdr_commit(MODE, &w->p, &first, &accepted, &state, &r);
  rd_slots to = pool(w, 0);
  for (int64_t b = 0; state.slots.data && to.slots.data && b < w->B; b++)
    if (((int32_t *)state.slots.data)[b] == w->p.pad_slot)
      ((int32_t *)to.slots.data)[b] = w->p.pad_slot;
  if (!state.slots.data == !to.slots.data) {
    const rd_tensor there = copy_of(&to.pool);
    ok(ctx, rd_materialize(ctx, plan, &first, &accepted, &state, &to), "materialize");
    same_pool(w, "materialized", &to, &there, r.state, w->B);
  }
  if (dice(2)) {
    ok(ctx, rd_commit(ctx, plan, &first, &accepted, &state), "commit");
  } else {
    bad |= rdr_commit_verify(MODE, &w->p, &first, &accepted, &w->seq, &w->act, &state, &folded);
    fill_uniform(&w->act.out, 7, 7);
    ok(ctx, rd_commit_verify(ctx, plan, &first, &accepted, &w->seq, &w->act, &state, &second),
       "folded");
    same_tensor("folded out", &w->act.out, folded.out);
    same_tensor("folded u", &second.u, folded.u), same_tensor("folded k", &second.k, folded.k);
    if (w->p.gate != RD_GATE_NONE) same_tensor("folded decay", &second.decay, folded.decay);
    same_pool(w, "folded state", &state, &before, folded.state, w->B);
  }
  same_pool(w, "committed", &state, &before, r.state, w->B);
  CHECK(&tally, !bad, "memory");
}

static void one(uint64_t seed, rd_context *ctx) {
  world w;
  g.s = seed * 0x9E3779B97F4A7C15u;
  make(&w);
  snprintf(what, sizeof what,
           "case %llu: layout %d gate %d axis %d Hk=%lld Hv=%lld K=%lld V=%lld B=%lld T=%lld",
           (unsigned long long)seed, (int)w.p.layout, (int)w.p.gate, (int)w.p.gate_axis,
           (long long)w.p.Hk, (long long)w.p.Hv, (long long)w.p.K, (long long)w.p.V, (long long)w.B,
           (long long)w.T);
  rd_plan *plan;
  ok(ctx, rd_plan_create(ctx, &w.p, &plan), "plan");
  static void (*const runs[3])(rd_context *, const rd_plan *, world *) = {prefill, decode,
                                                                          speculate};
  if (plan != NULL) runs[dice(3)](ctx, plan, &w);
  rd_plan_destroy(plan);
  while (owned_count > 0) free(owned[--owned_count]);
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const uint64_t problems = argc > 2 ? strtoull(argv[2], NULL, 10) : 300;
  const uint64_t only = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
  printf("seed %llu\n", (unsigned long long)seed);
  rd_context *contexts[8];
  const char *names[8];
  int count = 0;
  for (uint32_t isa = RD_ISA_SCALAR; isa <= RD_ISA_AMX; isa <<= 1) {
    rd_context_options options;
    rd_context_options_init(&options);
    options.threads = 1 + count, options.isa_mask = isa | RD_ISA_SCALAR;
    if (isa == RD_ISA_AMX) options.isa_mask |= RD_ISA_AVX512;
    if ((isa & rd_isa_usable() & rd_isa_built()) == 0) continue;
    names[count] = rd_isa_name((rd_isa)isa);
    if (rd_context_create(&options, &contexts[count++]) != RD_OK) return printf("no context\n"), 3;
  }
  for (uint64_t i = 0; i < problems && tally.failed < 10; i++) {
    const uint64_t id = only != 0 ? only : seed * 1000000 + i;
    isa_text = names[id % (uint64_t)count];
    one(id, contexts[id % (uint64_t)count]);
    if (only != 0) break;
  }
  printf("rows: %s\n", rd_kernel_chosen(contexts[count - 1], 0));
  for (int i = 0; i < count; i++) rd_context_destroy(contexts[i]);
  return report_end(&tally);
}
