/* What goes into a block of tokens and what comes out of it. */
#include "core/block.h"

#define RDI_SOFT /* exp(A_log) has the same bits whatever kernels the context runs */
#include "kernels/c1.h"
#include "util/checked.h"

static int first_of_group(const rdi_math *m, int64_t h) {
  return m->head_map == RD_HEADS_GROUPED ? h % (m->Hv / m->Hk) == 0 : h < m->Hk;
}

/* ---------------------------------------------------------------- rows that are none ---------- */

/* to[i][c] = from[i * st + c * si] in squares of 16 x 16, so that either side stays in cache, whichever
 * stride is the long one. n <= RDI_TOKENS. */
#define GATHER(type)                                                                               \
  static void gather_##type(type *to, int64_t ld, const type *from, int64_t st, int64_t si,        \
                            int64_t n, int64_t m) {                                                \
    for (int64_t c0 = 0; c0 < m; c0 += 16) {                                                       \
      const int64_t c1 = rdi_min64(c0 + 16, m);                                                    \
      if (st > si) {                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
          for (int64_t c = c0; c < c1; c++) to[i * ld + c] = from[i * st + c * si];                \
      } else {                                                                                     \
        for (int64_t c = c0; c < c1; c++)                                                          \
          for (int64_t i = 0; i < n; i++) to[i * ld + c] = from[i * st + c * si];                  \
      }                                                                                            \
    }                                                                                              \
  }
GATHER(uint16_t)
GATHER(uint32_t)

typedef struct rows { /* of n tokens, each row contiguous */
  const void *p;
  int64_t stride;
} rows;

/* Tokens [t, t+n) of head h, m elements from the first on: where they lie, or gathered into `to` with
 * rows ld apart. */
static rows rows_of(const rdi_item *it, const rdi_view *v, int64_t t, int64_t n, int64_t h,
                    int64_t first, int64_t m, void *to, int64_t ld) {
  if (!v->base) return (rows){0};
  const void *from = rdi_at(rdi_view_at(it, v, t, h), first * v->si, v->dtype);
  if (!rdi_gathers(v)) return (rows){from, v->st};
  if (v->dtype == RD_F32)
    gather_uint32_t(to, ld, from, v->st, v->si, n, m);
  else
    gather_uint16_t(to, ld, from, v->st, v->si, n, m);
  return (rows){to, ld};
}

/* ---------------------------------------------------------------- operands -------------------- */

rdi_prep_args rdi_prep_from(const rdi_item *it, int64_t t, int64_t n) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const int64_t hk = rdi_key_head(m, it->h);
  const int raw = m->gate == RD_GATE_LOWER_BOUND || m->gate == RD_GATE_SOFTPLUS;
  const float A_log = raw ? job->A_log[it->h * job->A_log_stride] : 0.0f;
  rdi_lane *lane = it->lane;
  const rows q = rows_of(it, &job->q, t, n, hk, 0, m->K, lane->gq, m->Kp);
  const rows k = rows_of(it, &job->k, t, n, hk, 0, m->K, lane->gk, m->Kp);
  rows g = {0};
  if (m->axis == RD_PER_CHANNEL)
    g = rows_of(it, &job->g, t, n, it->h, 0, m->K, lane->gg, m->Kp);
  else if (job->g.base)
    g = (rows){rdi_view_at(it, &job->g, t, it->h), job->g.st};
  return (rdi_prep_args){
      .n = n,
      .K = m->K,
      .Kp = m->Kp,
      .q = q.p,
      .k = k.p,
      .q_stride = q.stride,
      .k_stride = k.stride,
      .qk_dtype = job->q.dtype,
      .l2norm = m->l2norm,
      .eps = m->eps,
      .scale = m->scale,
      .gate = m->gate,
      .axis = m->axis,
      .g = g.p,
      .g_stride = g.stride,
      .g_dtype = job->g.dtype,
      .lb = m->lb,
      .A_log = A_log,
      .eA = raw ? rdi_eA_c(A_log) : 0.0f,
      .dt = raw ? job->dt_bias + it->h * job->dt_stride : NULL,
      .beta = rdi_view_at(it, &job->beta, t, it->h),
      .beta_stride = job->beta.st,
      .beta_dtype = job->beta.dtype,
      .beta_kind = m->beta_kind,
      .beta_times = m->beta_times,
  };
}

void rdi_prepare(const rdi_item *it, int64_t t, int64_t n, const rdi_operands *to) {
  rdi_prep_args args = rdi_prep_from(it, t, n);
  args.k_out = to->k, args.a_out = to->a;
  args.kt_out = to->kt, args.qt_out = to->qt;
  args.kq_out = to->kq, args.beta_out = to->beta;
  it->k->prep(&args);
}

const void *rdi_value_rows(const rdi_item *it, int64_t t, int64_t n, int64_t *stride) {
  const rows at = rows_of(it, &it->job->v, t, n, it->h, it->r, it->R, it->lane->gv, it->lane->Rp);
  *stride = at.stride;
  return at.p;
}

void rdi_open_values(const rdi_item *it, int64_t t, int64_t n, float *to, int64_t ld) {
  const rdi_view *v = &it->job->v;
  void *gathered = v->dtype == RD_F32 ? to : it->lane->gv;
  const rows at = rows_of(it, v, t, n, it->h, it->r, it->R, gathered, ld);
  for (int64_t i = 0; i < n && at.p != to; i++)
    it->k->widen(to + i * ld, rdi_at((char *)(uintptr_t)at.p, i * at.stride, v->dtype), v->dtype,
                 it->R);
}

rdi_block rdi_open_block(const rdi_item *it, int64_t t, int64_t n) {
  const rdi_job *job = it->job;
  const int64_t Rp = it->lane->Rp;
  rdi_block blk = {.t = t, .n = n, .v_stride = Rp, .u_stride = Rp, .o_stride = Rp};
  rdi_prepare(it, t, n, &it->lane->op);
  blk.v = it->lane->v;
  if (rdi_values_in_place(job)) {
    blk.v = (float *)(void *)rdi_at(rdi_view_at(it, &job->v, t, it->h), it->r, RD_F32);
    blk.v_stride = job->v.st;
  } else {
    rdi_open_values(it, t, n, it->lane->v, Rp);
  }
  blk.o = it->lane->o;
  if (job->out.dtype == RD_F32) {
    blk.o = (float *)(void *)rdi_at(rdi_view_at(it, &job->out, t, it->h), it->r, RD_F32);
    blk.o_stride = job->out.st;
  }
  blk.u = it->lane->u;
  if (rdi_makes_records(job) && job->next.u.dtype == RD_F32) {
    blk.u = (float *)(void *)rdi_at(rdi_record_at(it, &job->next.u, t, it->h), it->r, RD_F32);
    blk.u_stride = job->next.u.st;
  }
  return blk;
}

void rdi_put_keys(const rdi_item *it, int64_t t, int64_t n, const float *keys,
                  const float *decays) {
  const rdi_math *m = &it->job->m;
  const rdi_recs *recs = &it->job->next;
  const rdi_kernels *k = it->k;
  if (it->r != 0) return;
  if (first_of_group(m, it->h))
    for (int64_t i = 0; i < n; i++)
      k->narrow(rdi_record_at(it, &recs->k, t + i, rdi_key_head(m, it->h)), recs->k.dtype,
                keys + i * m->Kp, m->K);
  if (recs->decay.base)
    for (int64_t i = 0; i < n; i++)
      k->narrow(rdi_record_at(it, &recs->decay, t + i, it->h), recs->decay.dtype,
                decays + i * m->Kp, recs->decay_axis == RD_PER_CHANNEL ? m->K : 1);
}

void rdi_close_block(const rdi_item *it, const rdi_block *blk) {
  const rdi_job *job = it->job;
  const rdi_kernels *k = it->k;
  if (job->out.dtype != RD_F32)
    for (int64_t i = 0; i < blk->n; i++)
      k->narrow(rdi_at(rdi_view_at(it, &job->out, blk->t + i, it->h), it->r, job->out.dtype),
                job->out.dtype, blk->o + i * blk->o_stride, it->R);
  if (!rdi_makes_records(job)) return;
  const rdi_recs *recs = &job->next;
  if (recs->u.dtype != RD_F32)
    for (int64_t i = 0; i < blk->n; i++)
      k->narrow(rdi_at(rdi_record_at(it, &recs->u, blk->t + i, it->h), it->r, recs->u.dtype),
                recs->u.dtype, blk->u + i * blk->u_stride, it->R);
  rdi_put_keys(it, blk->t, blk->n, it->lane->op.k, it->lane->op.a);
}

rdi_rows_args rdi_block_rows(const rdi_item *it, const rdi_block *blk, int64_t s, int64_t n,
                             int64_t r, int64_t R) {
  const int64_t Kp = it->job->m.Kp;
  const rdi_lane *lane = it->lane;
  return (rdi_rows_args){
      .R = R,
      .K = it->job->m.K,
      .Kp = Kp,
      .n = n,
      .k = lane->op.k + s * Kp,
      .a = lane->op.a + s * Kp,
      .kt = lane->op.kt + s * Kp,
      .qt = lane->op.qt + s * Kp,
      .kq = lane->op.kq + s,
      .beta = lane->op.beta + s,
      .v = blk->v + s * blk->v_stride + r,
      .u = blk->u + s * blk->u_stride + r,
      .o = blk->o + s * blk->o_stride + r,
      .v_stride = blk->v_stride,
      .u_stride = blk->u_stride,
      .o_stride = blk->o_stride,
      .scratch = lane->rows,
  };
}

/* Of an input; one that must be gathered is on a page per element, no use to ask for. */
static void prefetch_row(const rdi_item *it, const rdi_view *v, int64_t t, int64_t h, int64_t first,
                         int64_t n) {
  if (!rdi_gathers(v)) rdi_prefetch(rdi_at(rdi_view_at(it, v, t, h), first, v->dtype), n, v->dtype);
}

void rdi_block_prefetch(const rdi_item *it, int64_t t) {
  const rdi_job *job = it->job;
  const rdi_math *m = &job->m;
  const int64_t hk = rdi_key_head(m, it->h), end = rdi_min64(it->length, t + RDI_TOKENS);
  const int channels = m->axis == RD_PER_CHANNEL;
  for (; t < end; t++) {
    prefetch_row(it, &job->q, t, hk, 0, m->K);
    prefetch_row(it, &job->k, t, hk, 0, m->K);
    prefetch_row(it, &job->v, t, it->h, it->r, it->R);
    rdi_prefetch(rdi_at(rdi_view_at(it, &job->out, t, it->h), it->r, job->out.dtype), it->R,
                 job->out.dtype);
    if (job->g.base) prefetch_row(it, &job->g, t, it->h, 0, channels ? m->K : 1);
    if (!rdi_makes_records(job)) continue;
    const rdi_recs *next = &job->next;
    rdi_prefetch(rdi_at(rdi_record_at(it, &next->u, t, it->h), it->r, next->u.dtype), it->R,
                 next->u.dtype);
    rdi_prefetch(rdi_record_at(it, &next->k, t, hk), m->K, next->k.dtype);
    if (next->decay.base)
      rdi_prefetch(rdi_record_at(it, &next->decay, t, it->h), channels ? m->K : 1,
                   next->decay.dtype);
  }
}
