/* The exact pipeline: states go from rank to rank, item by item. */
#include "mpi/src/channel.h"
#include "mpi/src/local.h"
#include "mpi/src/step.h"

/* Walks the layer's items in the order that all ranks share. */
typedef struct walk {
  const rdm_layer *x;
  int64_t items;            /* of one sequence */
  int64_t b, i;             /* the item at hand; b == B: none is left */
  int64_t received;         /* so far: which buffer is next */
  int64_t ahead_b, ahead_i; /* the first item whose state has not been asked for */
} walk;

static int takes_part(const rd_mpi *m, int64_t b) {
  return rdm_count(m, m->rank, b) > 0 && !m->step.pad[b];
}

/* The next item at or after (*b, *i) on this rank; with `receives` one whose state comes from a rank. */
static void find(const walk *w, int64_t *b, int64_t *i, int receives) {
  const rd_mpi *m = w->x->m;
  if (*i >= w->items) *i = 0, ++*b;
  while (*b < m->step.B && (!takes_part(m, *b) || (receives && rdm_previous(m, *b) < 0)))
    *i = 0, ++*b;
}

/* Asks for a state early: while it travels, the kernels work on the item before. */
static rd_status ask_ahead(walk *w) {
  rd_mpi *m = w->x->m;
  for (int n = 0; n < RDM_RECEIVES; n++) {
    rdm_buffer *buffer = &m->receives[(w->received + n) % RDM_RECEIVES];
    if (buffer->peer >= 0) continue;
    find(w, &w->ahead_b, &w->ahead_i, 1);
    if (w->ahead_b >= m->step.B) return RD_OK;
    RDM_TRY(rdm_receive(m, buffer, rdm_previous(m, w->ahead_b)));
    w->ahead_i++;
  }
  return RD_OK;
}

/* The item's number within the layer, on every rank the same. */
static int64_t number(const walk *w) { return w->b * w->items + w->i; }

static rd_status run_item(walk *w) {
  const rdm_layer *x = w->x;
  rd_mpi *m = x->m;
  const rdm_item it = rdm_item_at(x->plan, w->i);
  const int64_t floats = it.heads * it.rows * x->plan->problem.K;
  const int from = rdm_previous(m, w->b), to = rdm_next(m, w->b);
  rdm_buffer *source = NULL, *target = &m->work;
  if (from >= 0) {
    source = &m->receives[w->received++ % RDM_RECEIVES];
    RDM_TRY(rdm_received(m, source, number(w), floats));
  }
  if (to >= 0 && !(target = rdm_send_buffer(m))) return RD_E_SYSTEM;
  float *S = (float *)(void *)(target->header + 1);
  float *first = source ? (float *)(void *)(source->header + 1) : S;
  if (!source) RDM_TRY(rdm_load(x, &it, w->b, S));
  RDM_TRY(rdm_tokens(x, x->plan->item, &it, w->b, first, S));
  RDM_TRY(ask_ahead(w));
  if (to >= 0) return rdm_send(m, target, to, number(w), floats);
  return rdm_store(x, &it, w->b, S);
}

static rd_status run_layer(const rdm_layer *x) {
  walk w = {.x = x, .items = rdm_items(x->plan)};
  rd_mpi *m = x->m;
  RDM_TRY(ask_ahead(&w));
  for (find(&w, &w.b, &w.i, 0); w.b < m->step.B; find(&w, &w.b, &w.i, 0)) {
    RDM_TRY(run_item(&w));
    w.i++;
  }
  rdm_layer_rest(x);
  return RD_OK;
}

rd_status rd_mpi_prefill(rd_mpi *m, const rd_mpi_plan *plan, const rd_activations *act,
                         const rd_slots *initial, const rd_slots *final) {
  if (!m) return RD_E_NULL;
  RDM_TRY(rdm_may_run(m, plan, RD_MPI_PIPELINE));
  const rdm_layer x = {m, plan, act, initial, final};
  rd_status status;
  if (m->ranks == 1) {
    status = rd_prefill(m->ctx, plan->whole, m->step.seq, act, initial, final, NULL);
    if (status != RD_OK) return rdm_fail(m, status, "%s", rd_last_error(m->ctx));
  } else {
    status = rdm_layer_check(&x);
    if (status == RD_OK) status = run_layer(&x);
    if (status != RD_OK && m->step.failed == RD_OK) status = rdm_fail_step(m, status, m->rank);
    if (status != RD_OK) return status;
  }
  m->step.done++;
  return RD_OK;
}
