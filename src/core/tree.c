/* EXACT verify of a draft tree (walk.h). Each node's arithmetic depends on the path to it alone, so the
 * order of the walk shows in no bit. Operands, v, u and o of a piece lie in the lane in the order of the
 * walk; where a segment's nodes follow each other in memory too, v, u and o stay there. */
#include "core/tree.h"

#include "core/block.h"
#include "core/replay.h"
#include "util/checked.h"

/* Segments [first, end) of the walk: its positions [at, at + n), which are those of the lane from 0. */
typedef struct piece {
  const rdi_segment *first, *end;
  const int32_t *order;
  int64_t at, n;
} piece;

static piece piece_from(const rdi_walk *w, const rdi_segment *s) {
  piece p = {s, s, w->order + s->first, s->first, 0};
  while (p.end < w->segments + w->count && p.n + p.end->n <= RDI_TREE_NODES) p.n += p.end++->n;
  return p;
}

/* The stretch from position i on whose nodes follow each other, up to a block of tokens. */
static int64_t stretch(const piece *p, int64_t i) {
  int64_t n = 1;
  while (i + n < p->n && n < RDI_TOKENS && p->order[i + n] == p->order[i] + n) n++;
  return n;
}

/* Nodes of a segment rise. */
static int follow(const piece *p, const rdi_segment *s) {
  const int32_t *node = p->order + (s->first - p->at);
  return node[s->n - 1] - node[0] == s->n - 1;
}

static rdi_operands operands_at(const rdi_item *it, int64_t i) {
  const rdi_operands *op = &it->lane->tree.op;
  const int64_t Kp = it->job->m.Kp;
  return (rdi_operands){op->k + i * Kp,  op->a + i * Kp, op->kt + i * Kp,
                        op->qt + i * Kp, op->kq + i,     op->beta + i};
}

/* ---------------------------------------------------------------- rows of nodes --------------- */

typedef struct rows { /* of a segment's nodes, from the item's first on */
  float *p;
  int64_t stride;
} rows;

/* The node's row in an activation or in records, from the item's first element on. */
static char *node_row(const rdi_item *it, const rdi_view *v, int record, int64_t node) {
  char *row = record ? rdi_record_at(it, v, node, it->h) : rdi_view_at(it, v, node, it->h);
  return rdi_at(row, it->r, v->dtype);
}

static rows rows_of(const rdi_item *it, const piece *p, const rdi_segment *s, const rdi_view *v,
                    int record, float *lane) {
  const int64_t i = s->first - p->at;
  if (v->dtype == RD_F32 && v->si == 1 && follow(p, s))
    return (rows){(float *)(void *)node_row(it, v, record, p->order[i]), v->st};
  return (rows){lane + i * it->lane->Rp, it->lane->Rp};
}

static void open_rows(const rdi_item *it, const piece *p) {
  for (const rdi_segment *s = p->first; s < p->end; s++)
    if (!rdi_values_in_place(it->job) || !follow(p, s))
      for (int64_t i = s->first - p->at; i < s->first - p->at + s->n; i++)
        rdi_open_values(it, p->order[i], 1, it->lane->tree.v + i * it->lane->Rp, it->lane->Rp);
}

static void put_rows(const rdi_item *it, const piece *p, const rdi_view *v, int record,
                     const float *lane) {
  for (const rdi_segment *s = p->first; s < p->end; s++)
    if (v->dtype != RD_F32 || !follow(p, s))
      for (int64_t i = s->first - p->at; i < s->first - p->at + s->n; i++)
        it->k->narrow(node_row(it, v, record, p->order[i]), v->dtype, lane + i * it->lane->Rp,
                      it->R);
}

/* ---------------------------------------------------------------- pieces ---------------------- */

static void open_piece(const rdi_item *it, const piece *p) {
  for (int64_t i = 0, n; i < p->n; i += n) {
    const rdi_operands to = operands_at(it, i);
    n = stretch(p, i);
    rdi_prepare(it, p->order[i], n, &to);
  }
  open_rows(it, p);
}

static void close_piece(const rdi_item *it, const piece *p) {
  put_rows(it, p, &it->job->out, 0, it->lane->tree.o);
  put_rows(it, p, &it->job->next.u, 1, it->lane->tree.u);
  for (int64_t i = 0, n; i < p->n; i += n) {
    const rdi_operands op = operands_at(it, i);
    n = stretch(p, i);
    rdi_put_keys(it, p->order[i], n, op.k, op.a);
  }
}

typedef struct place { /* of the rows at hand */
  const float *base;   /* the state that the roots start from */
  int64_t base_stride;
  float *kept; /* the same rows of block 0 */
  int64_t r, R;
} place;

static void run_segment(const rdi_item *it, const piece *p, const rdi_segment *s, const place *at,
                        const float *next) {
  const int64_t Kp = it->job->m.Kp, block = it->lane->tree.kept_rows * Kp;
  const rdi_operands op = operands_at(it, s->first - p->at);
  const rows v = rows_of(it, p, s, &it->job->v, 0, it->lane->tree.v);
  const rows u = rows_of(it, p, s, &it->job->next.u, 1, it->lane->tree.u);
  const rows o = rows_of(it, p, s, &it->job->out, 0, it->lane->tree.o);
  it->k->rows(&(rdi_rows_args){
      .R = at->R,
      .K = it->job->m.K,
      .Kp = Kp,
      .n = s->n,
      .s_in = s->from < 0 ? at->base : at->kept + s->from * block,
      .s_out = s->to < 0 ? NULL : at->kept + s->to * block,
      .in_stride = s->from < 0 ? at->base_stride : Kp,
      .out_stride = Kp,
      .k = op.k,
      .a = op.a,
      .kt = op.kt,
      .qt = op.qt,
      .kq = op.kq,
      .beta = op.beta,
      .v = v.p + at->r,
      .u = u.p + at->r,
      .o = o.p + at->r,
      .v_stride = v.stride,
      .u_stride = u.stride,
      .o_stride = o.stride,
      .scratch = it->lane->rows,
      .next = next,
  });
}

/* ---------------------------------------------------------------- the walk -------------------- */

/* `base` NULL: the item's own state, which may have to be converted (into the lane's tile). */
static void walk(const rdi_item *it, const float *base, int64_t stride, int64_t commit) {
  const rdi_math *m = &it->job->m;
  const rdi_lane *lane = it->lane;
  const rdi_walk *w = &lane->tree.walk;
  const rdi_segment *end = w->segments + w->count;
  const int loads = !base && !rdi_is_plain(it->src.s);
  if (!base) {
    base = loads ? lane->tile : (const float *)(const void *)it->src.p;
    stride = loads ? m->Kp : it->src.s->sr;
  }
  for (const rdi_segment *s = w->segments; s < end;) {
    const piece p = piece_from(w, s);
    const int first = s == w->segments, only = first && p.end == end;
    open_piece(it, &p);
    for (int64_t r = 0; r < it->R; r += RDI_SUB_ROWS) {
      const int64_t R = rdi_min64(RDI_SUB_ROWS, it->R - r);
      const place at = {base + r * stride, stride, lane->tree.kept + (only ? 0 : r * m->Kp), r, R};
      if (first && commit) rdi_replay_rows(it, commit, r, R);
      if (first && loads)
        rdi_load_native(it->k, lane->tile + r * m->Kp, m->Kp, rdi_rows_from(it->src, r), R, m->K);
      for (s = p.first; s < p.end; s++) {
        const float *next = r + R < it->R ? at.base + R * stride : it->next;
        run_segment(it, &p, s, &at, s + 1 == p.end ? next : NULL);
      }
    }
    close_piece(it, &p);
    s = p.end;
  }
}

void rdi_tree_item(const rdi_item *it, int64_t commit) {
  rdi_lane *lane = it->lane;
  if (lane->tree.walked_b != it->b)
    rdi_walk_make(&lane->tree.walk, it->parents, it->length, 0, -1, RDI_TOKENS);
  lane->tree.walked_b = it->b;
  walk(it, NULL, 0, commit);
}

void rdi_tree_rest(const rdi_item *it, int64_t first, int64_t base, const float *state,
                   int64_t stride) {
  rdi_walk_make(&it->lane->tree.walk, it->parents, it->length, first, base, RDI_TOKENS);
  it->lane->tree.walked_b = -1;
  walk(it, state, stride, 0);
}
