/* Pieces of sequences laid out as the tensors of one call. SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

typedef struct dims {
  bool packed;
  int64_t B, T;
} dims;

/* [B,T,H,X] (X 0: [B,T,H]); PACKED drops B. */
static tb lay(dims g, rd_dtype dtype, int64_t H, int64_t X, stride_mode mode) {
  int64_t inner = X ? X : 1, row = H * inner, shape[4], stride[4];
  int n = 0;
  if (mode == ST_INNER && X) {
    tb wide = lay(g, dtype, H, 3 * X, ST_COMPACT);
    wide.t.shape[wide.t.rank - 1] = X;
    wide.t.stride[wide.t.rank - 1] = 3;
    return wide;
  }
  if (mode == ST_CHANNELS_FIRST) { /* [B,H,X,T] in memory */
    const int64_t T = g.T ? g.T : 1, stride4[] = {T * row, 1, inner * T, T};
    const int64_t shape4[] = {g.B, g.T, H, X};
    return tb_make(dtype, (X ? 4 : 3) - g.packed, shape4 + g.packed, stride4 + g.packed);
  }
  bool heads = mode == ST_HEADS_FIRST && X;
  int64_t token = heads ? inner : mode == ST_TOKEN2 ? 2 * row : row;
  if (!g.packed) {
    shape[n] = g.B;
    stride[n++] =
        (g.T ? g.T : 1) * (mode == ST_TOKEN2 ? 2 * row : row) + (mode == ST_TOKEN2 ? 5 : 0);
  }
  shape[n] = g.T;
  stride[n++] = token;
  shape[n] = H;
  stride[n++] = heads ? (g.T ? g.T : 1) * inner : inner;
  if (X) shape[n] = X, stride[n++] = 1;
  return tb_make(dtype, n, shape, stride);
}

/* q, k and v as views of one packed row per token. */
static void lay_qkv(call *c, dims g) {
  const rd_problem *p = &c->p;
  int64_t row = 2 * p->Hk * p->K + p->Hv * p->V, size = (int64_t)rd_dtype_size(p->qkv_dtype);
  tb all = lay(g, p->qkv_dtype, row, 0, ST_COMPACT);
  tb *part[3] = {&c->q, &c->k, &c->v};
  int64_t H[3] = {p->Hk, p->Hk, p->Hv}, X[3] = {p->K, p->K, p->V}, off = 0;
  for (int i = 0; i < 3; i++) {
    *part[i] = all;
    rd_tensor *t = &part[i]->t;
    t->data = all.b->p + (all.b->bytes ? off * size : 0);
    int d = t->rank++ - 1;
    t->shape[d] = H[i];
    t->stride[d] = X[i];
    t->shape[d + 1] = X[i];
    t->stride[d + 1] = 1;
    off += H[i] * X[i];
  }
}

static void *row_of(const call *c, const rd_tensor *t, int64_t i, int64_t tok, int64_t h) {
  return c->p.layout == RD_PACKED ? tb_at(t, c->row0[i] + tok, h, 0, 0) : tb_at(t, i, tok, h, 0);
}

static void put_row(const call *c, const rd_tensor *t, int64_t i, int64_t tok, int64_t h, int64_t n,
                    const float *x) {
  unsigned char *to = row_of(c, t, i, tok, h);
  int64_t step = (int64_t)rd_dtype_size(t->dtype) * t->stride[t->rank - 1];
  for (int64_t j = 0; j < n; j++) dt_store(t->dtype, to + j * step, x[j]);
}

static void fill_piece(call *c, int64_t i) {
  const piece *pc = &c->pc[i];
  if (pc->seq < 0) return;
  const seqdata *s = &c->d->s[pc->seq];
  const rd_problem *p = &c->p;
  int64_t G = c->d->G;
  for (int64_t t = 0; t < pc->len; t++) {
    int64_t x = pc->t0 + t;
    for (int64_t h = 0; h < p->Hk; h++) {
      put_row(c, &c->q.t, i, t, h, p->K, s->q + (x * p->Hk + h) * p->K);
      put_row(c, &c->k.t, i, t, h, p->K, s->k + (x * p->Hk + h) * p->K);
    }
    for (int64_t h = 0; h < p->Hv; h++) {
      put_row(c, &c->v.t, i, t, h, p->V, s->v + (x * p->Hv + h) * p->V);
      if (G) put_row(c, &c->g.t, i, t, h, G, s->g + (x * p->Hv + h) * G);
      put_row(c, &c->beta.t, i, t, h, 1, s->beta + x * p->Hv + h);
    }
  }
}

static void make_lengths(call *c, const callopt *o) {
  int64_t B = c->B, n = c->p.layout == RD_PACKED ? B + 1 : B;
  int64_t *x = mem_heap(Z(n) * sizeof *x);
  int32_t *y = mem_heap(Z(n) * sizeof *y);
  for (int64_t i = 0; i < B; i++) {
    if (c->p.layout == RD_PACKED)
      x[i + 1] = x[i] + c->pc[i].len;
    else
      x[i] = c->pc[i].len;
  }
  for (int64_t i = 0; i < n; i++) y[i] = (int32_t)x[i];
  c->row0 = mem_heap(Z(B + 1) * sizeof *x);
  if (c->p.layout == RD_PACKED) memcpy(c->row0, x, Z(n) * sizeof *x);
  if (c->p.layout == RD_PADDED && o->lens_absent) return;
  c->lens = o->len_type == RD_I64 ? tb_i64(n, x) : tb_i32(n, y);
  *(c->p.layout == RD_PACKED ? &c->seq.cu_seqlens : &c->seq.lengths) = c->lens.t;
}

static void make_tensors(call *c, const callopt *o) {
  const rd_problem *p = &c->p;
  dims g = {p->layout == RD_PACKED, c->B, c->T};
  stride_mode m = o->strides == ST_QKV ? ST_COMPACT : o->strides;
  if (o->strides == ST_QKV) {
    lay_qkv(c, g);
  } else {
    c->q = lay(g, p->qkv_dtype, p->Hk, p->K, m);
    c->k = lay(g, p->qkv_dtype, p->Hk, p->K, m);
    c->v = lay(g, p->qkv_dtype, p->Hv, p->V, m);
  }
  int64_t G = c->d->G;
  if (G) c->g = lay(g, p->gate_dtype, p->Hv, p->gate_axis == RD_PER_CHANNEL ? p->K : 0, m);
  c->beta = lay(g, p->beta_dtype, p->Hv, 0, m);
  if (o->beta_broadcast)
    for (int i = 0; i < c->beta.t.rank - 1; i++) c->beta.t.stride[i] = 0;
  c->out = lay(g, p->out_dtype, p->Hv, p->V, m < ST_INNER ? m : ST_COMPACT);
  if (p->gate == RD_GATE_LOWER_BOUND || p->gate == RD_GATE_SOFTPLUS) {
    int64_t shape[2] = {p->Hv, p->K};
    c->A = tb_make(RD_F32, 1, shape, NULL);
    c->dt = tb_make(RD_F32, p->gate_axis == RD_PER_CHANNEL ? 2 : 1, shape, NULL);
    memcpy(c->A.b->p, c->d->A, c->A.b->bytes);
    memcpy(c->dt.b->p, c->d->dt, c->dt.b->bytes);
    mem_readonly(c->A.b);
    mem_readonly(c->dt.b);
  }
}

call *call_make(const data *d, const piece *pc, int64_t B, const callopt *opt) {
  static const callopt none = {0};
  const callopt *o = opt ? opt : &none;
  call *c = mem_heap(sizeof *c);
  c->d = d;
  c->p = d->p;
  if (o->layout) c->p.layout = o->layout;
  c->B = B;
  c->pc = mem_heap(Z(B) * sizeof *pc);
  if (B) memcpy(c->pc, pc, Z(B) * sizeof *pc);
  int64_t longest = 0, sum = 0;
  for (int64_t i = 0; i < B; i++) {
    sum += pc[i].len;
    if (pc[i].len > longest) longest = pc[i].len;
  }
  c->T = (c->p.layout == RD_PACKED ? sum : longest) + o->extra_T;
  c->p.max_batch = B;
  c->p.max_tokens = longest;
  c->seq.struct_size = sizeof c->seq;
  c->seq.batch = B;
  c->act.struct_size = sizeof c->act;
  make_lengths(c, o);
  make_tensors(c, o);
  for (int64_t i = 0; i < B; i++) fill_piece(c, i);
  const tb *in[] = {&c->q, &c->k, &c->v, &c->g, &c->beta};
  for (size_t i = 0; i < PT_LEN(in); i++)
    if (in[i]->b) mem_readonly(in[i]->b);
  c->act.q = c->q.t;
  c->act.k = c->k.t;
  c->act.v = c->v.t;
  c->act.g = c->g.t;
  c->act.beta = c->beta.t;
  c->act.A_log = c->A.t;
  c->act.dt_bias = c->dt.t;
  c->act.out = c->out.t;
  return c;
}

call *call_all(const data *d, const callopt *o) {
  piece *pc = mem_heap(Z(d->n) * sizeof *pc);
  for (int64_t i = 0; i < d->n; i++) pc[i] = (piece){i, 0, d->s[i].len};
  return call_make(d, pc, d->n, o);
}

void call_dirty(call *c) { memset(c->out.b->p, 0xff, c->out.b->bytes); }

void call_out(const call *c, int64_t i, float *dst) {
  const rd_problem *p = &c->p;
  size_t size = rd_dtype_size(p->out_dtype);
  for (int64_t t = 0; t < c->pc[i].len; t++)
    for (int64_t h = 0; h < p->Hv; h++) {
      const unsigned char *from = row_of(c, &c->out.t, i, t, h);
      for (int64_t v = 0; v < p->V; v++)
        dst[(t * p->Hv + h) * p->V + v] = dt_load(p->out_dtype, from + Z(v) * size);
    }
}

void call_check_rest(const call *c) {
  const rd_problem *p = &c->p;
  size_t size = rd_dtype_size(p->out_dtype), row = Z(p->V) * size;
  unsigned char *copy = malloc(c->out.b->bytes + 1);
  if (!copy) abort();
  memcpy(copy, c->out.b->p, c->out.b->bytes);
  for (int64_t i = 0; i < c->B; i++) {
    int64_t len = c->pc[i].seq < 0 ? 0 : c->pc[i].len,
            rows = p->layout == RD_PACKED ? c->pc[i].len : c->T;
    for (int64_t t = 0; t < rows; t++)
      for (int64_t h = 0; h < p->Hv; h++) {
        const unsigned char *from = row_of(c, &c->out.t, i, t, h);
        for (size_t b = 0; t >= len && b < row; b++)
          if (from[b]) {
            pt_fail("row without a token is not +0: sequence %lld token %lld", (long long)i,
                    (long long)t);
            break;
          }
        memset(copy + (from - c->out.b->p), 0xff, row);
      }
  }
  for (size_t b = 0; b < c->out.b->bytes; b++)
    if (copy[b] != 0xff) {
      pt_fail("output byte %zu outside the rows was written", b);
      break;
    }
  free(copy);
}

/* ------------------------------------------------------------------ pools -------------------- */
const rd_slots no_slots = {.struct_size = sizeof(rd_slots)};

pool *pool_make(const rd_problem *p, int64_t slots, int64_t gap) {
  pool *pl = mem_heap(sizeof *pl);
  pl->p = *p;
  pl->slots = slots;
  bool vk = p->state_layout == RD_STATE_VK;
  int64_t shape[4] = {slots, p->Hv, vk ? p->V : p->K, vk ? p->K : p->V};
  int64_t n = p->V * p->K, stride[4] = {p->Hv * n + gap, n, shape[3], 1};
  pl->t = tb_make(p->state_dtype, 4, shape, stride);
  return pl;
}

static void *pool_at(const pool *pl, int64_t slot, int64_t h, int64_t v, int64_t k) {
  return pl->p.state_layout == RD_STATE_VK ? tb_at(&pl->t.t, slot, h, v, k)
                                           : tb_at(&pl->t.t, slot, h, k, v);
}

void pool_put(pool *pl, int64_t slot, const float *S) {
  const rd_problem *p = &pl->p;
  for (int64_t h = 0; h < p->Hv; h++)
    for (int64_t v = 0; v < p->V; v++)
      for (int64_t k = 0; k < p->K; k++)
        dt_store(p->state_dtype, pool_at(pl, slot, h, v, k), S[(h * p->V + v) * p->K + k]);
}

void pool_get(const pool *pl, int64_t slot, float *S) {
  const rd_problem *p = &pl->p;
  for (int64_t h = 0; h < p->Hv; h++)
    for (int64_t v = 0; v < p->V; v++)
      for (int64_t k = 0; k < p->K; k++)
        S[(h * p->V + v) * p->K + k] = dt_load(p->state_dtype, pool_at(pl, slot, h, v, k));
}

rd_slots pool_view(const pool *pl, int64_t B, const int32_t *idx) {
  rd_slots s = no_slots;
  s.pool = pl->t.t;
  if (idx) s.slots = tb_i32(B, idx).t;
  return s;
}

void pool_allow(const pool *pl, int64_t slot, void *copy) {
  size_t size = rd_dtype_size(pl->p.state_dtype), n = Z(pl->p.Hv * pl->p.V * pl->p.K) * size;
  size_t at = Z(slot * pl->t.t.stride[0]) * size;
  memcpy((unsigned char *)copy + at, pl->t.b->p + at, n);
}

void pool_check_rest(const char *what, const pool *pl, const void *copy) {
  ck_bytes(what, pl->t.b->p, copy, pl->t.b->bytes);
}

/* ------------------------------------------------------------------ records ------------------ */
recs *recs_make(const rd_problem *p, int64_t B, int64_t C) {
  recs *r = mem_heap(sizeof *r);
  r->p = *p;
  r->B = B;
  r->C = C;
  r->G = data_gate_numbers(p);
  int64_t u[4] = {B, C, p->Hv, p->V}, k[4] = {B, C, p->Hk, p->K}, a[4] = {B, C, p->Hv, p->K};
  r->u = tb_make(p->record_dtype, 4, u, NULL);
  r->k = tb_make(p->record_dtype, 4, k, NULL);
  if (r->G) r->decay = tb_make(p->decay_dtype, p->gate_axis == RD_PER_CHANNEL ? 4 : 3, a, NULL);
  r->lengths = mem_guarded(Z(B) * sizeof(int32_t));
  r->r.struct_size = sizeof r->r;
  r->r.u = r->u.t;
  r->r.k = r->k.t;
  r->r.decay = r->decay.t;
  r->r.lengths = (void *)r->lengths->p;
  return r;
}

void recs_get(const recs *r, int64_t b, int64_t n, float *u, float *k, float *a) {
  const rd_problem *p = &r->p;
  for (int64_t t = 0; t < n; t++) {
    for (int64_t h = 0; h < p->Hv; h++) {
      if (u) tb_get_row(&r->u.t, b, t, h, p->V, u + (t * p->Hv + h) * p->V);
      if (a && r->G == 1 && r->decay.t.rank == 3)
        a[t * p->Hv + h] = tb_get(&r->decay.t, b, t, h, 0);
      if (a && r->decay.t.rank == 4)
        tb_get_row(&r->decay.t, b, t, h, p->K, a + (t * p->Hv + h) * p->K);
    }
    for (int64_t h = 0; k && h < p->Hk; h++)
      tb_get_row(&r->k.t, b, t, h, p->K, k + (t * p->Hk + h) * p->K);
  }
}

void recs_check_suffix(const recs *r) {
  const tb *all[3] = {&r->u, &r->k, &r->decay};
  for (int i = 0; i < 3; i++) {
    const rd_tensor *t = &all[i]->t;
    if (!t->data) continue;
    size_t row = Z(t->shape[2] * (t->rank == 4 ? t->shape[3] : 1)) * rd_dtype_size(t->dtype);
    for (int64_t b = 0; b < r->B; b++)
      for (int64_t c = r->r.lengths[b]; c < r->C; c++) {
        const unsigned char *at = tb_at(t, b, c, 0, 0);
        for (size_t x = 0; x < row; x++)
          if (at[x] != 0xff) {
            pt_fail("record %d past the length was written: sequence %lld slot %lld", i,
                    (long long)b, (long long)c);
            break;
          }
      }
  }
}
