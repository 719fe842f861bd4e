/* A stack of layers over MPI ranks: one agreement, then every layer of a model, rank by rank.
 *
 * Each rank holds a part of the prompt. A real model computes q, k, v and the gates of layer l+1 from the
 * outputs of layer l, token by token, so a rank needs nothing but its own tokens for that; the only thing
 * that crosses ranks is the state. Rank 0 is therefore layers ahead of the last rank. Here "the model" is
 * v of the next layer = output of this one.
 *
 * Heads sharded over ranks (tensor parallelism) need none of this: give each rank's heads to rd_prefill,
 * or, with tokens sharded too, make one communicator per shard of heads (MPI_Comm_split) and one rd_mpi
 * on each.
 *
 *     mpirun -np 3 example_mpi_layer_stack        prints on how many ranks the result has one rank's bits
 */
#include <redelta/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 500, LAYERS = 6, Hk = 2, Hv = 4, K = 64, V = 64 };

static int failed(const char *what, rd_status status, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", what, rd_status_name(status), why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

/* Numbers that every rank can make for itself, in [-1, 1). */
static float number(int layer, int what, int64_t token, int64_t i) {
  uint32_t x =
      (uint32_t)(layer * 31 + what) * 2654435761u + (uint32_t)(token * 4096 + i) * 2246822519u;
  x = (x ^ x >> 15) * 2654435761u;
  return (float)(x >> 8) / 8388608.0f - 1.0f;
}

typedef struct layer { /* the tensors of `n` tokens */
  float *q, *k, *v, *g, *beta, *out;
} layer;

static layer make_layer(int l, int64_t first, int64_t n) {
  const size_t m = (size_t)n + 1;
  layer x = {malloc(m * Hk * K * 4), malloc(m * Hk * K * 4), malloc(m * Hv * V * 4),
             malloc(m * Hv * 4),     malloc(m * Hv * 4),     malloc(m * Hv * V * 4)};
  if (!x.q || !x.k || !x.v || !x.g || !x.beta || !x.out) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int64_t t = 0; t < n; t++) {
    for (int64_t i = 0; i < Hk * K; i++) {
      x.q[t * Hk * K + i] = number(l, 0, first + t, i);
      x.k[t * Hk * K + i] = number(l, 1, first + t, i);
    }
    for (int64_t i = 0; i < Hv * V; i++) x.v[t * Hv * V + i] = number(0, 2, first + t, i);
    for (int64_t h = 0; h < Hv; h++) {
      x.g[t * Hv + h] = 0.1f * number(l, 3, first + t, h) - 0.11f;
      x.beta[t * Hv + h] = 0.4f * number(l, 4, first + t, h) + 0.5f;
    }
  }
  return x;
}

static void free_layer(layer *x) {
  free(x->q), free(x->k), free(x->v), free(x->g), free(x->beta), free(x->out);
}

static rd_activations activations(const layer *x, int64_t n) {
  rd_activations a;
  rd_activations_init(&a);
  a.q = rd_tensor_contiguous(x->q, RD_F32, 4, (int64_t[]){1, n, Hk, K});
  a.k = rd_tensor_contiguous(x->k, RD_F32, 4, (int64_t[]){1, n, Hk, K});
  a.v = rd_tensor_contiguous(x->v, RD_F32, 4, (int64_t[]){1, n, Hv, V});
  a.g = rd_tensor_contiguous(x->g, RD_F32, 3, (int64_t[]){1, n, Hv});
  a.beta = rd_tensor_contiguous(x->beta, RD_F32, 3, (int64_t[]){1, n, Hv});
  a.out = rd_tensor_contiguous(x->out, RD_F32, 4, (int64_t[]){1, n, Hv, V});
  return a;
}

/* All layers for tokens first .. first+n-1, over the ranks of `comm`; the last outputs, [n,Hv,V]. */
static float *stack(rd_context *ctx, MPI_Comm comm, int64_t first, int64_t n) {
  rd_mpi *m;
  rd_status status = rd_mpi_create(ctx, comm, &m);
  if (status != RD_OK) failed("rd_mpi_create", status, "");
  rd_problem p;
  rd_problem_init(&p);
  p.gate_axis = RD_PER_HEAD;
  p.qk_norm = RD_QK_L2;
  p.Hk = Hk, p.Hv = Hv, p.K = K, p.V = V;
  p.max_batch = 1, p.max_tokens = T;
  rd_mpi_plan *plan;
  status = rd_mpi_plan_create(m, &p, LAYERS, &plan);
  if (status != RD_OK) failed("rd_mpi_plan_create", status, rd_mpi_last_error(m));

  layer x = make_layer(0, first, n);
  rd_activations act = activations(&x, n);
  rd_sequences seq;
  rd_sequences_init(&seq);
  seq.batch = 1;
  rd_mpi_step step;
  rd_mpi_step_init(&step);
  step.layers = LAYERS;
  step.seq = &seq, step.act = &act;
  status = rd_mpi_agree(m, plan, &step);
  if (status != RD_OK) failed("rd_mpi_agree", status, rd_mpi_last_error(m));
  for (int l = 0; l < LAYERS; l++) {
    status = rd_mpi_prefill(m, plan, &act, NULL, NULL); /* states: from zero, and not kept */
    if (status != RD_OK) failed("rd_mpi_prefill", status, rd_mpi_last_error(m));
    if (l + 1 == LAYERS) break;
    layer next = make_layer(l + 1, first, n);
    memcpy(next.v, x.out, (size_t)n * Hv * V * 4);
    free_layer(&x);
    x = next;
    act = activations(&x, n);
  }
  status = rd_mpi_finish(m);
  if (status != RD_OK) failed("rd_mpi_finish", status, rd_mpi_last_error(m));
  float *out = x.out;
  x.out = NULL;
  free_layer(&x);
  rd_mpi_plan_destroy(plan);
  rd_mpi_destroy(m);
  return out;
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  rd_context *ctx;
  rd_status status = rd_context_create(NULL, &ctx);
  if (status != RD_OK) return failed("rd_context_create", status, "");
  const int64_t first = T * rank / ranks, n = T * (rank + 1) / ranks - first;
  float *mine = stack(ctx, MPI_COMM_WORLD, first, n);
  float *alone = stack(ctx, MPI_COMM_SELF, 0, T);
  int same = memcmp(mine, alone + first * Hv * V, (size_t)n * Hv * V * 4) == 0, count = 0;
  MPI_Allreduce(&same, &count, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%d of %d ranks have the bits of one machine after %d layers\n", count, ranks, LAYERS);
  free(mine);
  free(alone);
  rd_context_destroy(ctx);
  MPI_Finalize();
  return count != ranks;
}
