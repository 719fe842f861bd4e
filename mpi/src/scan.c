/* The scan: each rank's tokens as one map of the state, composed by MPI_Exscan. */
#include <stdlib.h>
#include <string.h>

#include "mpi/src/channel.h"
#include "mpi/src/compose.h"
#include "mpi/src/local.h"
#include "mpi/src/step.h"

typedef struct scan {
  const rdm_layer *x;
  size_t bytes;     /* of one map */
  char *mine, *all; /* [B][Hv] maps: of this rank, of all before it */
  float *zeros;     /* one row of values */
  char *out;        /* outputs that nobody wants */
  int64_t piece;
} scan;

static rdm_map *map_at(const scan *w, char *maps, int64_t b, int64_t h) {
  return (rdm_map *)(void *)(maps + (size_t)(b * w->x->plan->problem.Hv + h) * w->bytes);
}

static rdm_item head(const rd_mpi_plan *plan, int64_t h) {
  const rd_problem *p = &plan->problem;
  const int64_t hk = p->head_map == RD_HEADS_GROUPED ? h / (p->Hv / p->Hk) : h % p->Hk;
  return (rdm_item){.heads = 1, .hv = h, .hk = hk, .row = 0, .rows = p->V};
}

/* A run without outputs from state S [rows,K] to S; values zero where `rows` is K's transition. */
static rd_status segment(const scan *w, const rdm_item *it, int64_t b, float *S, int transition) {
  const rdm_layer *x = w->x;
  const rd_problem *p = &x->plan->problem;
  const int64_t rows = transition ? p->K : p->V, length = rdm_count(x->m, x->m->rank, b);
  rd_sequences one;
  rd_sequences_init(&one);
  one.batch = 1;
  const rd_slots state = rdm_state(S, 1, rows, p->K);
  for (int64_t t = 0; t < length; t += w->piece) {
    const int64_t n = length - t < w->piece ? length - t : w->piece;
    rd_activations a = rdm_views(x, it, b, t, n);
    a.out = rd_tensor_contiguous(w->out, (rd_dtype)p->out_dtype, 4, (int64_t[]){1, n, 1, rows});
    if (transition)
      a.v = (rd_tensor){.data = w->zeros,
                        .dtype = p->qkv_dtype,
                        .rank = 4,
                        .shape = {1, n, 1, rows},
                        .stride = {0, 0, 0, 1}};
    const rd_status status =
        rd_prefill(x->m->ctx, transition ? x->plan->transition : x->plan->segment, &one, &a, &state,
                   &state, NULL);
    if (status != RD_OK) return rdm_fail(x->m, status, "%s", rd_last_error(x->m->ctx));
  }
  return RD_OK;
}

/* This rank's map of one head; where the sequence begins here, the real state is its B. */
static rd_status make_map(const scan *w, int64_t b, int64_t h) {
  const rdm_layer *x = w->x;
  const rd_problem *p = &x->plan->problem;
  rdm_map *map = map_at(w, w->mine, b, h);
  *map = (rdm_map){.K = (int32_t)p->K, .V = (int32_t)p->V, .identity = 1};
  if (x->m->step.pad[b] || rdm_count(x->m, x->m->rank, b) == 0) return RD_OK;
  const rdm_item it = head(x->plan, h);
  map->identity = 0;
  float *A = rdm_map_A(map), *B = rdm_map_B(map);
  memset(A, 0, w->bytes - sizeof *map);
  if (rdm_previous(x->m, b) < 0) {
    RDM_TRY(rdm_load(x, &it, b, B));
  } else {
    for (int64_t c = 0; c < p->K; c++) A[c * p->K + c] = 1;
    if (rdm_next(x->m, b) < 0) return RD_OK; /* nobody needs the last rank's map */
    RDM_TRY(segment(w, &it, b, A, 1));
    rdm_clear_small(A, p->K * p->K);
  }
  return segment(w, &it, b, B, 0);
}

static rd_status each(const scan *w, rd_status (*visit)(const scan *w, int64_t b, int64_t h)) {
  for (int64_t b = 0; b < w->x->m->step.B; b++)
    for (int64_t h = 0; h < w->x->plan->problem.Hv; h++) RDM_TRY(visit(w, b, h));
  return RD_OK;
}

/* The real pass, from the state that the ranks before leave. */
static rd_status real_pass(const scan *w, int64_t b, int64_t h) {
  const rdm_layer *x = w->x;
  rd_mpi *m = x->m;
  if (m->step.pad[b] || rdm_count(m, m->rank, b) == 0) return RD_OK;
  const rdm_item it = head(x->plan, h);
  float *S = rdm_map_B(map_at(w, w->mine, b, h));
  if (rdm_previous(m, b) < 0)
    RDM_TRY(rdm_load(x, &it, b, S));
  else
    memcpy(S, rdm_map_B(map_at(w, w->all, b, h)),
           (size_t)(x->plan->problem.V * x->plan->problem.K) * sizeof *S);
  RDM_TRY(rdm_tokens(x, x->plan->segment, &it, b, S, S));
  return rdm_next(m, b) < 0 ? rdm_store(x, &it, b, S) : RD_OK;
}

static rd_status exscan(const scan *w) {
  rd_mpi *m = w->x->m;
  MPI_Datatype type;
  MPI_Op op;
  const int64_t count = m->step.B * w->x->plan->problem.Hv;
  RDM_TRY(rdm_mpi(m, MPI_Type_contiguous((int)w->bytes, MPI_BYTE, &type), "MPI_Type_contiguous"));
  rd_status status = rdm_mpi(m, MPI_Type_commit(&type), "MPI_Type_commit");
  if (status == RD_OK) status = rdm_mpi(m, MPI_Op_create(rdm_compose, 0, &op), "MPI_Op_create");
  if (status == RD_OK) {
    status = rdm_mpi(m, MPI_Exscan(w->mine, w->all, (int)count, type, op, m->comm), "MPI_Exscan");
    (void)MPI_Op_free(&op);
  }
  (void)MPI_Type_free(&type);
  return status;
}

static rd_status prepare(scan *w) {
  rd_mpi *m = w->x->m;
  const rd_problem *p = &w->x->plan->problem;
  const size_t maps = (size_t)(m->step.B * p->Hv);
  w->bytes = rdm_map_bytes(p->K, p->V);
  w->piece = 512;
  if (maps > (size_t)INT32_MAX || maps > SIZE_MAX / w->bytes / 2)
    return rdm_fail(m, RD_E_OVERFLOW, "seq.batch: sequences times heads do not fit a scan");
  const int64_t rows = p->V > p->K ? p->V : p->K;
  w->mine = calloc(maps + 1, w->bytes);
  w->all = calloc(maps + 1, w->bytes);
  w->zeros = calloc((size_t)p->K, sizeof(float));
  const size_t out_bytes = (size_t)(w->piece * rows) * sizeof(float);
  w->out = malloc(out_bytes);
  if (w->mine && w->all && w->zeros && w->out) return RD_OK;
  return rdm_fail(m, RD_E_NOMEM, "no memory for the maps of a scan");
}

static rd_status run(scan *w) {
  rd_mpi *m = w->x->m;
  char text[sizeof m->message];
  rd_status status = rdm_layer_check(w->x);
  if (status == RD_OK) status = prepare(w);
  if (status == RD_OK) status = each(w, make_map);
  memcpy(text, m->message, sizeof text);
  RDM_TRY(rdm_verdict(m, status, text));
  RDM_TRY(exscan(w));
  status = each(w, real_pass);
  rdm_layer_rest(w->x);
  memcpy(text, m->message, sizeof text);
  return rdm_verdict(m, status, text);
}

rd_status rd_mpi_prefill_scan(rd_mpi *m, const rd_mpi_plan *plan, const rd_activations *act,
                              const rd_slots *initial, const rd_slots *final) {
  if (!m) return RD_E_NULL;
  RDM_TRY(rdm_may_run(m, plan, RD_MPI_SCAN));
  const rdm_layer x = {m, plan, act, initial, final};
  scan w = {.x = &x};
  const rd_status status = run(&w);
  free(w.mine);
  free(w.all);
  free(w.zeros);
  free(w.out);
  if (status != RD_OK) {
    rdm_step_failed(m, status);
    return status;
  }
  m->step.done++;
  return RD_OK;
}
