/* See op.h. SPDX-License-Identifier: Apache-2.0
 *
 * ggml's letters, fastest first: q, k [S,Hk,T,B], v [S,Hv,T,B], g [1 or S,Hv,T,B], beta [1,Hv,T,B], states
 * [S,S,Hv,B]; the result is [S,Hv,T,B] outputs, then `depth` times [S,S,Hv,B]: the states s tokens back, s
 * from 0. Those with s >= T keep their bytes. */
#include "op.h"

#include "redelta/redelta.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXTS = 8, PLANS = 16 };

typedef struct shape {
  int64_t Hk, Hv, S;
  int32_t per_channel;
} shape;

typedef struct team {
  int threads;
  rd_context *ctx;
} team;

struct rdg_runner {
  int threads;
  int next_team, next_plan; /* what is replaced when the cache is full */
  team teams[CONTEXTS];
  struct {
    shape of;
    rd_plan *plan;
  } plans[PLANS];
  int32_t *slots; /* of snapshots and of the cache's rows */
  size_t slots_size;
};

/* Where states are read and written: everything in ggml's own memory. */
typedef struct places {
  rd_tensor from, to; /* pools */
  const int32_t *from_slots;
  int64_t to_first, to_depth_step; /* slot of sequence b, s tokens back: first + s * step + b */
} places;

static bool is(const ggml_tensor *t, const char *op) {
  return strcmp(ggml_op_name(t->op), op) == 0;
}

static bool is_view(const ggml_tensor *t) {
  return is(t, "NONE") || is(t, "VIEW") || is(t, "RESHAPE") || is(t, "PERMUTE") ||
         is(t, "TRANSPOSE");
}

static bool packed_from(const ggml_tensor *t, int dimension) {
  size_t expected = dimension == 0 ? sizeof(float) : t->nb[dimension];
  for (int i = dimension; i < 4; ++i) {
    if (t->ne[i] != 1 && t->nb[i] != expected) {
      return false;
    }
    expected *= (size_t)t->ne[i];
  }
  return true;
}

/* ---------------------------------------------------------------- which nodes ----------------- */

static bool supports_operator(const ggml_tensor *node) {
  for (int i = 0; i < 6; ++i) {
    const ggml_tensor *s = node->src[i];
    if (!s || s->type != GGML_F32) {
      return false;
    }
    for (int d = 0; d < 4; ++d) {
      if (s->ne[d] < 1 || s->nb[d] % sizeof(float)) {
        return false;
      }
    }
    if (s->nb[0] != sizeof(float)) {
      return false;
    }
  }
  const ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *g = node->src[3];
  const ggml_tensor *beta = node->src[4], *s = node->src[5];
  const int64_t S = v->ne[0], Hv = v->ne[1], T = v->ne[2], B = v->ne[3], depth = node->op_params[0];
  bool fits = node->type == GGML_F32 && depth >= 1 && S <= 512 && Hv % q->ne[1] == 0;
  fits = fits && q->ne[0] == S && q->ne[2] == T && q->ne[3] == B;
  fits = fits && memcmp(q->ne, k->ne, sizeof q->ne) == 0;
  fits = fits && (g->ne[0] == 1 || g->ne[0] == S);
  fits = fits && g->ne[1] == Hv && g->ne[2] == T && g->ne[3] == B;
  fits = fits && beta->ne[0] == 1 && beta->ne[1] == Hv && beta->ne[2] == T && beta->ne[3] == B;
  fits = fits && s->ne[0] == S && s->ne[1] == S && s->ne[2] == Hv && s->ne[3] == B &&
         packed_from(s, 0);
  return fits && packed_from(node, 0) && node->ne[0] == S * Hv &&
         node->ne[1] * node->ne[0] == S * Hv * T * B + depth * S * S * Hv * B;
}

/* Rows of a recurrent state cache, which llama.cpp calls cache_s_l0, cache_s_l1, ... */
static bool supports_rows(const ggml_tensor *node) {
  const ggml_tensor *table = node->src[0], *ids = node->src[1];
  if (!table || !ids || node->type != GGML_F32 || table->type != GGML_F32 ||
      ids->type != GGML_I32) {
    return false;
  }
  const char *name = table->view_src ? table->view_src->name : table->name;
  return strncmp(name, "cache_s_l", 9) == 0 && packed_from(table, 0) && table->ne[2] == 1 &&
         table->ne[3] == 1 && ids->ne[1] == 1 && ids->ne[2] == 1 && ids->ne[3] == 1 &&
         ids->nb[0] == sizeof(int32_t) && packed_from(node, 0);
}

/* Whether a CPY takes what the operator wrote behind its outputs: [.., B] or [.., B, s], slot by slot. */
static bool supports_copy(const ggml_tensor *node) {
  const ggml_tensor *from = node->src[0], *gdn = from ? from->view_src : NULL;
  if (!gdn || !is(gdn, "GATED_DELTA_NET") || !supports_operator(gdn)) {
    return false;
  }
  const ggml_tensor *v = gdn->src[2];
  const int64_t row = v->ne[0] * v->ne[0] * v->ne[1], B = v->ne[3];
  const size_t attention = sizeof(float) * (size_t)(v->ne[0] * v->ne[1] * v->ne[2] * B);
  return from->type == GGML_F32 && node->type == GGML_F32 && from->view_offs == attention &&
         packed_from(from, 0) && node->ne[0] == row && node->nb[0] == sizeof(float) &&
         node->ne[1] == B && node->ne[3] == 1 && node->ne[2] <= gdn->op_params[0] &&
         node->ne[2] <= v->ne[2] &&
         from->ne[0] * from->ne[1] * from->ne[2] * from->ne[3] == row * B * node->ne[2] &&
         node->nb[1] % sizeof(float) == 0 && node->nb[1] >= sizeof(float) * (size_t)row &&
         (node->ne[2] == 1 || node->nb[2] % node->nb[1] == 0);
}

bool rdg_supports(const ggml_tensor *node) {
  if (is(node, "GATED_DELTA_NET")) {
    return supports_operator(node);
  }
  return is_view(node) || (is(node, "GET_ROWS") && supports_rows(node)) ||
         (is(node, "CPY") && supports_copy(node));
}

/* ---------------------------------------------------------------- threads and plans ----------- */

/* ggml's own OpenMP team: libgomp keeps one per calling thread, and a second pool would compete with it. */
static int team_run(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  const int threads = ((const team *)self)->threads;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < n; ++i) {
    fn(arg, i);
  }
  return 0;
}

rdg_runner *rdg_runner_new(void) {
  rdg_runner *runner = calloc(1, sizeof *runner);
  if (runner) {
    runner->threads = 1;
  }
  return runner;
}

void rdg_runner_free(rdg_runner *runner) {
  for (int i = 0; i < PLANS; ++i) {
    rd_plan_destroy(runner->plans[i].plan);
  }
  for (int i = 0; i < CONTEXTS; ++i) {
    rd_context_destroy(runner->teams[i].ctx);
  }
  free(runner->slots);
  free(runner);
}

void rdg_runner_threads(rdg_runner *runner, int threads) {
  runner->threads = threads < 1 ? 1 : threads > 1024 ? 1024 : threads;
}

static rd_context *context_of(rdg_runner *runner) {
  for (int i = 0; i < CONTEXTS; ++i) {
    if (runner->teams[i].ctx && runner->teams[i].threads == runner->threads) {
      return runner->teams[i].ctx;
    }
  }
  team *t = &runner->teams[runner->next_team];
  runner->next_team = (runner->next_team + 1) % CONTEXTS;
  rd_context_destroy(t->ctx);
  t->ctx = NULL;
  t->threads = runner->threads;
  rd_context_options options;
  rd_context_options_init(&options);
  options.executor = (rd_executor){.run = team_run, .self = t, .concurrency = t->threads};
  return rd_context_create(&options, &t->ctx) == RD_OK ? t->ctx : NULL;
}

static const rd_plan *plan_of(rdg_runner *runner, rd_context *ctx, const shape *of) {
  for (int i = 0; i < PLANS; ++i) {
    const shape *s = &runner->plans[i].of;
    if (runner->plans[i].plan && s->Hk == of->Hk && s->Hv == of->Hv && s->S == of->S &&
        s->per_channel == of->per_channel) {
      return runner->plans[i].plan;
    }
  }
  rd_problem problem;
  rd_problem_init(&problem);
  problem.gate_axis = of->per_channel ? RD_PER_CHANNEL : RD_PER_HEAD;
  problem.head_map = RD_HEADS_TILED;
  problem.Hk = of->Hk;
  problem.Hv = of->Hv;
  problem.K = problem.V = of->S;
  problem.max_batch = problem.max_tokens = RD_UNLIMITED;
  const int i = runner->next_plan;
  runner->next_plan = (i + 1) % PLANS;
  rd_plan_destroy(runner->plans[i].plan);
  runner->plans[i].plan = NULL;
  runner->plans[i].of = *of;
  return rd_plan_create(ctx, &problem, &runner->plans[i].plan) == RD_OK ? runner->plans[i].plan
                                                                        : NULL;
}

static bool reserve_slots(rdg_runner *runner, size_t n) {
  if (n > runner->slots_size) {
    int32_t *more = realloc(runner->slots, n * sizeof *more);
    if (!more) {
      return false;
    }
    runner->slots = more;
    runner->slots_size = n;
  }
  return true;
}

/* ---------------------------------------------------------------- one operator ---------------- */

static rd_tensor view(const ggml_tensor *t,
                      int rank) { /* [S,H,T,B] -> [B,T,H,S]; rank 3: [B,T,H] */
  rd_tensor r = {.data = t->data, .dtype = RD_F32, .rank = rank};
  for (int i = 0; i < rank; ++i) {
    const int d = 3 - i;
    r.shape[i] = t->ne[d];
    r.stride[i] = (int64_t)(t->nb[d] / sizeof(float));
  }
  return r;
}

static rd_tensor pool(void *data, int64_t rows, size_t row_bytes, int64_t Hv, int64_t S) {
  return (rd_tensor){.data = data,
                     .dtype = RD_F32,
                     .rank = 4,
                     .shape = {rows, Hv, S, S},
                     .stride = {(int64_t)(row_bytes / sizeof(float)), S * S, S, 1}};
}

static rd_status call(rdg_runner *runner, const ggml_tensor *node, const places *at) {
  const ggml_tensor *v = node->src[2], *g = node->src[3];
  const int64_t S = v->ne[0], Hv = v->ne[1], T = v->ne[2], B = v->ne[3], depth = node->op_params[0];
  const shape of = {node->src[0]->ne[1], Hv, S, g->ne[0] != 1};
  rd_context *ctx = context_of(runner);
  const rd_plan *plan = ctx ? plan_of(runner, ctx, &of) : NULL;
  if (!plan || !reserve_slots(runner, (size_t)(B * (T + 1)))) {
    return RD_E_NOMEM;
  }
  rd_sequences seq;
  rd_sequences_init(&seq);
  seq.batch = B;
  rd_activations act;
  rd_activations_init(&act);
  act.q = view(node->src[0], 4);
  act.k = view(node->src[1], 4);
  act.v = view(v, 4);
  act.g = view(g, of.per_channel ? 4 : 3);
  act.beta = view(node->src[4], 3);
  act.out = rd_tensor_contiguous(node->data, RD_F32, 4, (int64_t[]){B, T, Hv, S});

  rd_slots from, to;
  rd_slots_init(&from);
  rd_slots_init(&to);
  from.pool = at->from;
  if (at->from_slots) {
    from.slots = rd_tensor_contiguous((void *)(uintptr_t)at->from_slots, RD_I32, 1, &B);
  }
  to.pool = at->to;
  const bool snapshots = depth > 1;
  const int64_t first = snapshots ? 0 : T - 1; /* without, one slot a sequence */
  int32_t *slot = runner->slots;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = first; t < T; ++t) {
      const int64_t back = T - 1 - t;
      *slot++ = back < depth ? (int32_t)(at->to_first + back * at->to_depth_step + b) : -1;
    }
  }
  to.slots = rd_tensor_contiguous(runner->slots, RD_I32, snapshots ? 2 : 1, (int64_t[]){B, T});
  return rd_prefill(ctx, plan, &seq, &act, &from, snapshots ? NULL : &to, snapshots ? &to : NULL);
}

/* ---------------------------------------------------------------- graphs ---------------------- */

static bool rows_exist(const ggml_tensor *node) {
  const int32_t *ids = node->src[1]->data;
  for (int64_t b = 0; b < node->ne[1]; ++b) {
    if (ids[b] < 0 || ids[b] >= node->src[0]->ne[1]) {
      return false;
    }
  }
  return true;
}

static void copy_rows(const ggml_tensor *node) {
  const ggml_tensor *table = node->src[0];
  const int32_t *ids = node->src[1]->data;
  for (int64_t b = 0; b < node->ne[1]; ++b) {
    memcpy((char *)node->data + (size_t)b * node->nb[1],
           (const char *)table->data + (size_t)ids[b] * table->nb[1],
           (size_t)node->ne[0] * sizeof(float));
  }
}

static void copy_states(const ggml_tensor *node) {
  const char *from = node->src[0]->data;
  const size_t row = (size_t)node->ne[0] * sizeof(float);
  for (int64_t s = 0; s < node->ne[2]; ++s) {
    for (int64_t b = 0; b < node->ne[1]; ++b, from += row) {
      memcpy((char *)node->data + (size_t)s * node->nb[2] + (size_t)b * node->nb[1], from, row);
    }
  }
}

static int next_node(ggml_graph *graph,
                     int i) { /* the next one that computes, or the number of nodes */
  const int n = ggml_graph_n_nodes(graph);
  do {
    ++i;
  } while (i < n && is_view(ggml_graph_node(graph, i)));
  return i;
}

static ggml_tensor *node_at(ggml_graph *graph, int i) {
  return i < ggml_graph_n_nodes(graph) ? ggml_graph_node(graph, i) : NULL;
}

/* The operator with its neighbours `rows` and `copy`, each NULL or a node to be done with it. */
static rd_status run(rdg_runner *runner, const ggml_tensor *node, const ggml_tensor *rows,
                     const ggml_tensor *copy) {
  const ggml_tensor *v = node->src[2], *s = node->src[5];
  const int64_t S = v->ne[0], Hv = v->ne[1], T = v->ne[2], B = v->ne[3], depth = node->op_params[0];
  const size_t row = sizeof(float) * (size_t)(S * S * Hv);
  places at = {.to_depth_step = B};
  at.from = pool(s->data, B, row, Hv, S);
  at.to = pool((float *)node->data + S * Hv * T * B, depth * B, row, Hv, S);
  if (copy) {
    at.to_depth_step = copy->ne[2] > 1 ? (int64_t)(copy->nb[2] / copy->nb[1]) : 0;
    at.to = pool(copy->data, (copy->ne[2] - 1) * at.to_depth_step + B, copy->nb[1], Hv, S);
  }
  if (rows) {
    const ggml_tensor *table = rows->src[0];
    at.from = pool(table->data, table->ne[1], table->nb[1], Hv, S);
    at.from_slots = rows->src[1]->data;
    const ptrdiff_t offset = copy ? (const char *)copy->data - (const char *)table->data : -1;
    if (offset >= 0 && copy->nb[1] == table->nb[1] && (size_t)offset % table->nb[1] == 0 &&
        (size_t)offset / table->nb[1] + (size_t)at.to.shape[0] <= (size_t)table->ne[1]) {
      at.to_first = (int64_t)((size_t)offset / table->nb[1]); /* one pool, updated in place */
      at.to = at.from;
    }
  }
  return call(runner, node, &at);
}

static bool feeds(const ggml_tensor *rows, const ggml_tensor *gdn) { /* nothing but this state */
  const ggml_tensor *s = gdn->src[5];
  return !(rows->flags & GGML_OUTPUT) && s->data == rows->data &&
         (s == rows || s->view_src == rows) && rows->ne[1] == s->ne[3] &&
         rows->ne[0] == s->ne[0] * s->ne[1] * s->ne[2];
}

/* Operator i with what stands around it; returns the last node done, or -1. */
static int run_group(rdg_runner *runner, ggml_graph *graph, int i, const ggml_tensor *rows) {
  const ggml_tensor *node = ggml_graph_node(graph, i);
  const int after = next_node(graph, i);
  const ggml_tensor *copy = node_at(graph, after);
  const int64_t T = node->src[2]->ne[2], depth = node->op_params[0];
  if (copy && (!is(copy, "CPY") || copy->src[0]->view_src != node || node->flags & GGML_OUTPUT ||
               !supports_copy(copy) || copy->ne[2] != (depth < T ? depth : T))) {
    copy = NULL;
  }
  if (copy) {
    const rd_status status = run(runner, node, rows, copy);
    if (status != RD_E_SLOT_DUPLICATE && status != RD_E_ALIAS) {
      return status == RD_OK ? after : -1;
    }
  }
  if (rows) { /* one sequence reads a row that another writes: as ggml does it */
    copy_rows(rows);
  }
  return run(runner, node, NULL, NULL) == RD_OK ? i : -1;
}

int rdg_compute(rdg_runner *runner, ggml_graph *graph) {
  for (int i = next_node(graph, -1); i < ggml_graph_n_nodes(graph); i = next_node(graph, i)) {
    const ggml_tensor *node = ggml_graph_node(graph, i);
    if (is(node, "GET_ROWS")) {
      if (!rows_exist(node)) {
        return GGML_FAILED;
      }
      const int after = next_node(graph, i);
      const ggml_tensor *next = node_at(graph, after);
      if (next && is(next, "GATED_DELTA_NET") && feeds(node, next)) {
        i = run_group(runner, graph, after, node);
      } else {
        copy_rows(node);
      }
    } else if (is(node, "GATED_DELTA_NET")) {
      i = run_group(runner, graph, i, NULL);
    } else if (is(node, "CPY")) {
      copy_states(node);
    } else {
      return GGML_FAILED; /* not claimed */
    }
    if (i < 0) {
      return GGML_FAILED;
    }
  }
  return GGML_OK;
}
