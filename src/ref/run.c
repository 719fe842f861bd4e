/* The batch loop: sequence by sequence, head by head, token by token. */
#include <math.h>
#include <stdlib.h>
#include "ref/job.h"

/* Everything of one head that lives across its tokens, in both arithmetics. */
typedef struct head {
  const rdr_job *j;
  int64_t b, hv, hk;
  int c1;     /* state in S (else in St) */
  float *S;   /* [V][K] */
  double *St; /* [K][V] */
  float *q, *k, *g, *dt, *v, *qn, *kn, *a, *kt, *qt, *u, *o;
  double *dq, *dk, *da, *du, *dout;
  float A_log;
} head;

int rdr_job_alloc(rdr_job *j, int64_t B) {
  int64_t *p = calloc(3 * (size_t)B + 1, sizeof *p);
  if (p == NULL) return -1;
  j->B = B, j->start = p, j->length = p + B, j->read_slot = p + 2 * B;
  return 0;
}

void rdr_job_free(rdr_job *j) {
  free(j->start);
  j->start = j->length = j->read_slot = NULL;
}

static int head_alloc(head *h, int64_t K, int64_t V) {
  const size_t n = (size_t)K + (size_t)V;
  h->S = malloc((size_t)(K * V) * sizeof *h->S);
  h->St = malloc((size_t)(K * V) * sizeof *h->St);
  float *f = calloc(12 * n, sizeof *f);
  double *d = calloc(5 * n, sizeof *d);
  h->q = f, h->dq = d; /* owners of the two blocks */
  if (h->S == NULL || h->St == NULL || f == NULL || d == NULL) return -1;
  float **const floats[12] = {&h->q,  &h->k, &h->g,  &h->dt, &h->v, &h->qn,
                              &h->kn, &h->a, &h->kt, &h->qt, &h->u, &h->o};
  double **const doubles[5] = {&h->dq, &h->dk, &h->da, &h->du, &h->dout};
  for (size_t i = 0; i < 12; i++) *floats[i] = f + i * n;
  for (size_t i = 0; i < 5; i++) *doubles[i] = d + i * n;
  return 0;
}

static void head_free(head *h) {
  free(h->S);
  free(h->St);
  free(h->q);
  free(h->dq);
}

static void gather(float *dst, const rdr_view *x, int64_t b, int64_t t, int64_t h, int64_t n) {
  const int64_t at = b * x->sb + t * x->st + h * x->sh;
  for (int64_t i = 0; i < n; i++) dst[i] = (float)rdr_load(x->data, x->dtype, at + i);
}

static double boundary(const rdr_job *j, double x, rd_dtype dtype) {
  return (j->mode & RDR_ROUND) != 0 ? rdr_round(x, dtype) : x;
}

static void scatter(const rdr_job *j, const rdr_sink *x, int64_t b, int64_t t, int64_t h,
                    const float *f, const double *d, int64_t n) {
  if (x->data == NULL) return;
  double *to = x->data + b * x->sb + t * x->st + h * x->sh;
  for (int64_t i = 0; i < n; i++) to[i] = boundary(j, f != NULL ? (double)f[i] : d[i], x->dtype);
}

static void load_state(head *h, int64_t slot) {
  const rdr_job *j = h->j;
  const rdr_pool *p = &j->initial;
  const int zeros = p->data == NULL || slot == RDR_ZEROS;
  for (int64_t r = 0; r < j->V; r++)
    for (int64_t c = 0; c < j->K; c++) {
      const int64_t at = slot * p->ss + h->hv * p->sh + r * p->sv + c * p->sk;
      const double x = zeros     ? 0
                       : j->wide ? ((const double *)p->data)[at]
                                 : rdr_load(p->data, p->dtype, at);
      if (h->c1)
        h->S[r * j->K + c] = (float)x;
      else
        h->St[c * j->V + r] = x;
    }
}

static void store_state(const head *h, const rdr_pool_sink *p, int64_t slot) {
  const rdr_job *j = h->j;
  if (p->data == NULL) return;
  double *to = p->data + slot * p->ss + h->hv * p->sh;
  for (int64_t r = 0; r < j->V; r++)
    for (int64_t c = 0; c < j->K; c++)
      to[r * p->sv + c * p->sk] =
          boundary(j, h->c1 ? (double)h->S[r * j->K + c] : h->St[c * j->V + r], p->dtype);
}

static void copy(double *to, const float *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (double)from[i];
}

/* One token of activations: out and the record. */
static void token(head *h, int64_t t) {
  const rdr_job *j = h->j;
  const int64_t row = j->start[h->b] + t, b = h->b, K = j->K, V = j->V;
  const int64_t ng = j->c.axis == RD_PER_CHANNEL ? K : 1;
  float beta, kq;
  double dbeta;
  gather(h->q, &j->q, b, row, h->hk, K);
  gather(h->k, &j->k, b, row, h->hk, K);
  gather(h->v, &j->v, b, row, h->hv, V);
  gather(&beta, &j->beta, b, row, h->hv, 1);
  if (j->c.gate != RD_GATE_NONE) gather(h->g, &j->g, b, row, h->hv, ng);
  const int mode = j->mode & ~RDR_ROUND;
  if (mode != RDR_F64) {
    rdr_c1_operands(&j->c, K, h->q, h->k, h->g, h->dt, h->A_log, beta, h->kn, h->a, h->qn, &beta);
    rdr_c1_derive(K, h->kn, h->a, h->qn, h->kt, h->qt, &kq);
  }
  if (h->c1) {
    rdr_c1_step(h->S, K, V, h->kn, h->a, h->kt, h->qt, kq, beta, h->v, h->u, h->o);
  } else {
    if (mode == RDR_F64) {
      rdr_f64_operands(&j->c, K, h->q, h->k, h->g, h->dt, (double)h->A_log, (double)beta, h->dk,
                       h->da, h->dq, &dbeta);
    } else {
      copy(h->dk, h->kn, K), copy(h->da, h->a, K), copy(h->dq, h->qn, K);
      dbeta = (double)beta;
    }
    rdr_f64_step(h->St, K, V, h->dk, h->da, h->dq, dbeta, h->v, h->du, h->dout);
  }
  scatter(j, &j->out, b, row, h->hv, h->c1 ? h->o : NULL, h->dout, V);
  scatter(j, &j->u, b, t, h->hv, h->c1 ? h->u : NULL, h->du, V);
  scatter(j, &j->decay, b, t, h->hv, h->c1 ? h->a : NULL, h->da, ng);
  scatter(j, &j->kr, b, t, h->hk, h->c1 ? h->kn : NULL, h->dk, K);
}

/* One record: the state only. */
static void replay(head *h, int64_t i) {
  const rdr_job *j = h->j;
  gather(h->u, &j->ru, h->b, i, h->hv, j->V);
  gather(h->kn, &j->rk, h->b, i, h->hk, j->K);
  for (int64_t c = 0; c < j->K; c++) h->a[c] = 1;
  if (j->rdecay.data != NULL) {
    gather(h->a, &j->rdecay, h->b, i, h->hv, j->c.axis == RD_PER_CHANNEL ? j->K : 1);
    if (j->c.axis != RD_PER_CHANNEL)
      for (int64_t c = 1; c < j->K; c++) h->a[c] = h->a[0];
  }
  if (h->c1) {
    rdr_c1_commit(h->S, j->K, j->V, h->u, h->kn, h->a);
  } else {
    copy(h->du, h->u, j->V), copy(h->dk, h->kn, j->K), copy(h->da, h->a, j->K);
    rdr_f64_commit(h->St, j->K, j->V, h->du, h->dk, h->da);
  }
}

static void raw_gate(head *h) {
  const rdr_job *j = h->j;
  if (j->A_log == NULL || j->A_log->dtype == RD_ABSENT) return;
  h->A_log = ((const float *)j->A_log->data)[h->hv * j->A_log->stride[0]];
  const int64_t n = j->c.axis == RD_PER_CHANNEL ? j->K : 1;
  const float *dt = (const float *)j->dt_bias->data + h->hv * j->dt_bias->stride[0];
  for (int64_t i = 0; i < n; i++) h->dt[i] = dt[i];
}

/* The path from a root to `node`, walked from the initial state on. */
static void one_path(head *h, int64_t node) {
  const rdr_job *j = h->j;
  const int32_t *parents = j->parents + h->b * j->parents_sb + j->start[h->b];
  int64_t depth = 0;
  for (int64_t i = node; i >= 0; i = parents[i]) depth++;
  for (int64_t d = 0; d < depth; d++) {
    int64_t i = node; /* the path's node number d */
    for (int64_t up = depth - 1; up > d; up--) i = parents[i];
    if (j->records)
      replay(h, i);
    else
      token(h, i);
  }
}

/* Every node of a tree has the path to it to itself; of records, one path is replayed. */
static void one_tree(head *h, int64_t slot, int64_t n) {
  for (int64_t i = h->j->records ? n - 1 : 0; i >= 0 && i < n; i++) {
    load_state(h, slot);
    one_path(h, i);
  }
}

static void one_head(head *h) {
  const rdr_job *j = h->j;
  const int64_t slot = j->read_slot[h->b], n = slot == RDR_SKIP ? 0 : j->length[h->b];
  if (slot != RDR_SKIP) {
    load_state(h, slot);
    raw_gate(h);
  }
  if (j->parents != NULL) one_tree(h, slot, n);
  for (int64_t t = 0; j->parents == NULL && t < n; t++) {
    if (j->records)
      replay(h, t);
    else
      token(h, t);
    if (j->snapshots.data != NULL) {
      const int64_t row = j->padded ? h->b * j->T + t : j->start[h->b] + t;
      const int64_t to = j->snapshot_slot != NULL ? j->snapshot_slot[row] : row;
      if (to >= 0) store_state(h, &j->snapshots, to);
    }
  }
  if (slot != RDR_SKIP) store_state(h, &j->state, h->b);
  /* Rows without a token are zero: all of a pad sequence, and past the length where rows are
   * padded. */
  const int64_t rows = j->padded ? j->T : j->length[h->b];
  for (int64_t i = 0; i < j->V; i++) h->dout[i] = 0;
  for (int64_t t = n; !j->records && t < rows; t++)
    scatter(j, &j->out, h->b, j->start[h->b] + t, h->hv, NULL, h->dout, j->V);
}

int rdr_job_run(rdr_job *j) {
  head h = {.j = j};
  const int bad = head_alloc(&h, j->K, j->V);
  h.c1 = (j->mode & ~RDR_ROUND) == RDR_C1;
  for (int64_t b = 0; !bad && b < j->B; b++)
    for (int64_t hv = 0; hv < j->Hv; hv++) {
      h.b = b, h.hv = hv;
      h.hk = j->head_map == RD_HEADS_TILED ? hv % j->Hk : hv / (j->Hv / j->Hk);
      one_head(&h);
    }
  head_free(&h);
  rdr_job_free(j);
  return bad;
}
