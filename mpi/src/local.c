/* Views, states and tokens of one item. */
#include "mpi/src/local.h"

#include <string.h>
#include <time.h>

#include "mpi/src/channel.h"
#include "mpi/src/step.h"

enum { BLOCK = 32, MOST_TOKENS = 2048 }; /* RD_FAST may be cut at multiples of 32 tokens */
static const double longest = 0.8e-3, shortest = 0.3e-3; /* seconds of one call of the kernels */

/* ---------------------------------------------------------------- views ----------------------- */

/* n tokens of `heads` heads of an activation; `inner` elements per head from `at`, 0: no such dimension. */
static rd_tensor view(const rdm_layer *x, const rd_tensor *t, int64_t b, int64_t row, int64_t n,
                      int64_t head, int64_t heads, int64_t at, int64_t inner) {
  if (t->dtype == RD_ABSENT) return *t;
  const int64_t padded = x->plan->problem.layout == RD_PADDED;
  const int64_t *stride = t->stride + padded;
  int64_t first = 0;
  if (!padded) (void)rdm_length(x->plan, x->m->step.seq, x->act, b, &first);
  int64_t offset =
      (padded ? b * t->stride[0] : first * stride[0]) + row * stride[0] + head * stride[1];
  rd_tensor v = {.dtype = t->dtype, .rank = inner ? 4 : 3, .shape = {1, n, heads}};
  v.stride[0] = n * stride[0], v.stride[1] = stride[0], v.stride[2] = stride[1];
  if (inner) {
    v.shape[3] = inner;
    v.stride[3] = stride[2];
    offset += at * stride[2];
  } else if (heads == 1) {
    v.stride[2] = 1;
  }
  v.data = (char *)t->data + offset * (int64_t)rd_dtype_size((rd_dtype)t->dtype);
  return v;
}

/* Per value head (and key): A_log and dt_bias. */
static rd_tensor weights(const rd_tensor *t, const rdm_item *it) {
  if (t->dtype == RD_ABSENT) return *t;
  rd_tensor v = *t;
  v.shape[0] = it->heads;
  v.data = (char *)t->data + it->hv * t->stride[0] * (int64_t)rd_dtype_size((rd_dtype)t->dtype);
  return v;
}

rd_activations rdm_views(const rdm_layer *x, const rdm_item *it, int64_t b, int64_t t, int64_t n) {
  const rd_problem *p = &x->plan->problem;
  const rd_activations *a = x->act;
  const int64_t per_channel = p->gate_axis == RD_PER_CHANNEL ? p->K : 0;
  const int64_t keys = rdm_keys(p, it->heads);
  rd_activations v;
  rd_activations_init(&v);
  v.q = view(x, &a->q, b, t, n, it->hk, keys, 0, p->K);
  v.k = view(x, &a->k, b, t, n, it->hk, keys, 0, p->K);
  v.v = view(x, &a->v, b, t, n, it->hv, it->heads, it->row, it->rows);
  v.g = view(x, &a->g, b, t, n, it->hv, it->heads, 0, per_channel);
  v.beta = view(x, &a->beta, b, t, n, it->hv, it->heads, 0, 0);
  v.out = view(x, &a->out, b, t, n, it->hv, it->heads, it->row, it->rows);
  v.A_log = weights(&a->A_log, it);
  v.dt_bias = weights(&a->dt_bias, it);
  return v;
}

rd_slots rdm_state(float *S, int64_t heads, int64_t rows, int64_t K) {
  rd_slots s;
  rd_slots_init(&s);
  s.pool = rd_tensor_contiguous(S, RD_F32, 4, (int64_t[]){1, heads, rows, K});
  return s;
}

/* ---------------------------------------------------------------- states ---------------------- */

/* The item's part of a slot, as a pool of one slot. */
static rd_tensor slot_view(const rdm_layer *x, const rd_slots *slots, int64_t slot,
                           const rdm_item *it) {
  const int vk = x->plan->problem.state_layout == RD_STATE_VK;
  rd_tensor v = slots->pool;
  const int64_t offset = slot * v.stride[0] + it->hv * v.stride[1] + it->row * v.stride[vk ? 2 : 3];
  v.shape[0] = 1;
  v.shape[1] = it->heads;
  v.shape[vk ? 2 : 3] = it->rows;
  v.data = (char *)v.data + offset * (int64_t)rd_dtype_size((rd_dtype)v.dtype);
  return v;
}

static rd_status core(const rdm_layer *x, rd_status status) {
  return status == RD_OK ? RD_OK : rdm_fail(x->m, status, "%s", rd_last_error(x->m->ctx));
}

rd_status rdm_load(const rdm_layer *x, const rdm_item *it, int64_t b, float *S) {
  const rd_problem *p = &x->plan->problem;
  const int64_t slot = rdm_slot(x->plan, x->initial, b);
  if (slot == p->pad_slot) {
    memset(S, 0, (size_t)(it->heads * it->rows * p->K) * sizeof *S);
    return RD_OK;
  }
  const rd_tensor from = slot_view(x, x->initial, slot, it);
  const rd_slots to = rdm_state(S, it->heads, it->rows, p->K);
  return core(x, rd_pool_convert(x->m->ctx, &from, (rd_state_layout)p->state_layout, &to.pool,
                                 RD_STATE_VK));
}

rd_status rdm_store(const rdm_layer *x, const rdm_item *it, int64_t b, float *S) {
  const rd_problem *p = &x->plan->problem;
  const int64_t slot = rdm_slot(x->plan, x->final, b);
  if (slot == p->pad_slot) return RD_OK;
  const rd_slots from = rdm_state(S, it->heads, it->rows, p->K);
  const rd_tensor to = slot_view(x, x->final, slot, it);
  return core(x, rd_pool_convert(x->m->ctx, &from.pool, RD_STATE_VK, &to,
                                 (rd_state_layout)p->state_layout));
}

static void pass_through(const rdm_layer *x, int64_t b) {
  const rd_problem *p = &x->plan->problem;
  const int64_t from = rdm_slot(x->plan, x->initial, b), to = rdm_slot(x->plan, x->final, b);
  if (x->m->rank != 0 || to == p->pad_slot) return;
  const rdm_item all = {.heads = p->Hv, .rows = p->V};
  const rd_tensor d = slot_view(x, x->final, to, &all);
  const int have = from != p->pad_slot;
  const rd_tensor s = have ? slot_view(x, x->initial, from, &all) : d;
  if (have && s.data == d.data) return;
  const size_t size = rd_dtype_size((rd_dtype)d.dtype), row = (size_t)d.shape[3] * size;
  for (int64_t h = 0; h < d.shape[1]; h++) {
    for (int64_t i = 0; i < d.shape[2]; i++) {
      char *put = (char *)d.data + (h * d.stride[1] + i * d.stride[2]) * (int64_t)size;
      if (have)
        memcpy(put, (char *)s.data + (h * s.stride[1] + i * s.stride[2]) * (int64_t)size, row);
      else
        memset(put, 0, row);
    }
  }
}

/* ---------------------------------------------------------------- tokens ---------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Calls of the kernels last long enough to be worth it and short enough for MPI. */
static void adapt(rd_mpi *m, int64_t n, double seconds) {
  if (seconds > longest && m->piece > BLOCK) {
    m->piece = m->piece / 2 / BLOCK * BLOCK;
    if (m->piece < BLOCK) m->piece = BLOCK;
  }
  if (seconds < shortest && n == m->piece && m->piece < MOST_TOKENS) m->piece *= 2;
}

rd_status rdm_tokens(const rdm_layer *x, const rd_plan *plan, const rdm_item *it, int64_t b,
                     float *from, float *S) {
  rd_mpi *m = x->m;
  const int64_t length = rdm_count(m, m->rank, b), K = x->plan->problem.K;
  rd_slots initial = rdm_state(from, it->heads, it->rows, K);
  const rd_slots final = rdm_state(S, it->heads, it->rows, K);
  rd_sequences one;
  rd_sequences_init(&one);
  one.batch = 1;
  if (m->piece == 0) m->piece = 128;
  for (int64_t t = 0; t < length;) {
    const int64_t n = length - t < m->piece ? length - t : m->piece;
    const rd_activations a = rdm_views(x, it, b, t, n);
    const double start = now();
    RDM_TRY(core(x, rd_prefill(m->ctx, plan, &one, &a, &initial, &final, NULL)));
    adapt(m, n, now() - start);
    rdm_progress(m);
    initial = final;
    t += n;
  }
  return RD_OK;
}

static void zero_rows(const rdm_layer *x, int64_t b) {
  const rd_problem *p = &x->plan->problem;
  const rd_tensor *out = &x->act->out;
  const int padded = p->layout == RD_PADDED;
  int64_t first, length = rdm_length(x->plan, x->m->step.seq, x->act, b, &first);
  const int64_t end = padded ? out->shape[1] : length;
  if (x->m->step.pad[b]) length = 0;
  const int64_t *stride = out->stride + padded;
  const int64_t size = (int64_t)rd_dtype_size((rd_dtype)out->dtype);
  for (int64_t t = length; t < end; t++)
    for (int64_t h = 0; h < p->Hv; h++) {
      const int64_t at =
          (padded ? b * out->stride[0] : first * stride[0]) + t * stride[0] + h * stride[1];
      memset((char *)out->data + at * size, 0, (size_t)(p->V * size));
    }
}

/* ---------------------------------------------------------------- layers ---------------------- */

rd_status rdm_layer_check(const rdm_layer *x) {
  rd_mpi *m = x->m;
  const rdm_step *s = &m->step;
  const int32_t pad = x->plan->problem.pad_slot;
  RDM_TRY(rdm_check(m, x->plan, s->seq, x->act, x->initial, x->final));
  for (int64_t b = 0; b < s->B; b++) {
    int64_t first;
    const int64_t length = rdm_length(x->plan, s->seq, x->act, b, &first);
    if (length != rdm_count(m, m->rank, b))
      return rdm_fail(m, RD_E_LENGTH, "seq: sequence %lld has %lld tokens, agreed were %lld",
                      (long long)b, (long long)length, (long long)rdm_count(m, m->rank, b));
    const int is_pad =
        rdm_slot(x->plan, x->initial, b) == pad && rdm_slot(x->plan, x->final, b) == pad;
    if (rdm_shared_pool(x->initial, x->final) && is_pad != s->pad[b])
      return rdm_fail(m, RD_E_SLOT_RANGE, "slots: sequence %lld is%s a pad row, other than agreed",
                      (long long)b, is_pad ? "" : " not");
  }
  return RD_OK;
}

void rdm_layer_rest(const rdm_layer *x) {
  const rd_mpi *m = x->m;
  for (int64_t b = 0; b < m->step.B; b++) {
    int64_t tokens = 0;
    for (int r = 0; r < m->ranks; r++) tokens += rdm_count(m, r, b);
    if (tokens == 0) pass_through(x, b);
    zero_rows(x, b);
  }
}
