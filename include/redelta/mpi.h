/* redelta/mpi.h - one long prefill over the ranks of an MPI communicator. SPDX-License-Identifier: Apache-2.0
 *
 * Library libredelta-mpi, built where MPI is. Each sequence's tokens lie on the ranks in rank order, a
 * contiguous run on each (none is fine); what travels is the state, V*K floats per value head. Equations
 * and tensors are those of rd_prefill (core.h); docs/SCALE.md tells when which form pays.
 *
 * A step, on every rank alike:
 *
 *     rd_mpi_agree(m, plan, &step);                    collective, once for all layers
 *     for each layer: rd_mpi_prefill(m, plan, ...);    no collective: rank 0 is ahead of rank 1
 *     rd_mpi_finish(m);                                waits for what is still being sent
 *
 * Exact pipeline: a sequence's heads are cut into items. An item's state comes from the previous rank
 * that has tokens of the sequence, the tokens run with the ordinary kernels, the state goes on as raw
 * f32 to the next one. With RD_EXACT the bits are those of one machine for any ranks and any split;
 * with RD_FAST too, since borders between ranks must then be multiples of 32 tokens of the sequence.
 * Every rank takes the items in the same order and messages go upwards only, so there is no deadlock.
 *
 * MPI is called by the calling thread alone (MPI_THREAD_FUNNELED is enough), between MPI_Init and
 * MPI_Finalize. Collective here means: all ranks of the communicator make the call, in the same order.
 *
 * Failure. After agreement nothing waits for ever: a rank that fails says so to the later ranks that wait
 * for it, takes what earlier ranks still send in this step, and returns its error from this and every
 * later call of the step; a later rank that depends on it returns the same error, outputs undefined.
 * Earlier ranks do not notice. A rank that dies is the launcher's business: mpirun ends the job.
 */
#ifndef REDELTA_MPI_H
#define REDELTA_MPI_H

#include "redelta/core.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rd_mpi rd_mpi;           /* a communicator, its buffers, the step at hand */
typedef struct rd_mpi_plan rd_mpi_plan; /* a problem and how its heads are cut into items */

/* Collective. Duplicates the communicator (errors are returned on the duplicate, not fatal). `ctx` runs
 * the kernels and must outlive *out; nothing else may use it during a call. Errors: RD_E_NULL (then no
 * other rank must have come), RD_E_NOMEM, RD_E_SYSTEM (MPI refused), also where another rank failed. */
RD_API rd_status rd_mpi_create(rd_context *ctx, MPI_Comm comm, rd_mpi **out);

/* Collective (frees the communicator); ends the step like rd_mpi_finish. NULL is allowed. */
RD_API void rd_mpi_destroy(rd_mpi *m);

/* Message of the last failed call; "" after a successful one. What another rank reported begins with
 * "rank 3: ". Never NULL; valid until the next call. */
RD_API const char *rd_mpi_last_error(const rd_mpi *m);

/* Local. max_batch and max_tokens are this rank's own bounds; all else must be the same on all ranks, `layers`
 * (>= 1) too: of a usual step; it shapes the items and never the bits. RD_E_SHAPE: layers.
 * Errors: those of rd_plan_create; *out is NULL on error. Belongs to `m` and its context. */
RD_API rd_status rd_mpi_plan_create(rd_mpi *m, const rd_problem *problem, int32_t layers,
                                    rd_mpi_plan **out);
RD_API void rd_mpi_plan_destroy(rd_mpi_plan *plan); /* NULL is allowed */

/* How a plan cuts: `heads` value heads (of one key head, or of several whole ones) and `rows` rows of their
 * states are an item. */
typedef struct rd_mpi_cut {
  int64_t heads, rows;
  int64_t items;         /* of one sequence */
  int64_t message_bytes; /* what one item sends to the next rank */
} rd_mpi_cut;
RD_API rd_status rd_mpi_plan_cut(const rd_mpi_plan *plan, rd_mpi_cut *cut); /* RD_E_NULL */

typedef enum rd_mpi_form {
  RD_MPI_PIPELINE = 1, /* exact: rd_mpi_prefill        */
  RD_MPI_SCAN = 2      /* RD_FAST only: rd_mpi_prefill_scan */
} rd_mpi_form;

/* What the ranks agree upon. seq, act, initial and final are those of the first layer, for the checks;
 * seq holds for all layers. seq->batch is the same everywhere, lengths (cu_seqlens) are this rank's. */
typedef struct rd_mpi_step {
  size_t struct_size;
  int32_t form;   /* rd_mpi_form, default RD_MPI_PIPELINE */
  int32_t layers; /* prefill calls of the step, default 1 */
  const rd_sequences *seq;
  const rd_activations *act;
  const rd_slots *initial, *final; /* may be NULL, see rd_mpi_prefill */
  int64_t reserved[8];
} rd_mpi_step;

static inline void rd_mpi_step_init(rd_mpi_step *step) {
  const rd_mpi_step defaults = {sizeof(rd_mpi_step),     RD_MPI_PIPELINE, 1, NULL, NULL, NULL, NULL,
                                {0, 0, 0, 0, 0, 0, 0, 0}};
  *step = defaults;
}

/* Collective, once per step. Ends the step before it (rd_mpi_finish), checks the arguments as rd_prefill
 * would, gathers token counts, plans and every rank's verdict, and reserves the buffers. When any rank's
 * arguments are wrong, every rank returns an error, its own or the first other one's, and nothing has
 * been written anywhere. Errors: those of rd_prefill; RD_E_PLAN: plans, batches, layers or forms differ
 * between ranks, or a scan without RD_FAST; RD_E_LENGTH: a border that RD_FAST refuses; RD_E_SLOT_RANGE: a
 * pad row here and none there; RD_E_SYSTEM: MPI failed. `seq` and what it points to must stay as they
 * are until the end of the step. */
RD_API rd_status rd_mpi_agree(rd_mpi *m, const rd_mpi_plan *plan, const rd_mpi_step *step);

/* One layer of the step, exact pipeline. Returns when this rank's tokens are done and its states are on
 * the way; at most four are, so rank 0 goes on with layer l+1 while others work on layer l. Tensors hold
 * this rank's tokens (shapes as in rd_prefill; a rank without tokens gives tensors of its shape, too).
 *   initial  read for the sequences that begin here: whose first token, or nothing before it, is on
 *            this rank (a sequence of no tokens at all: on rank 0); NULL or pool absent: zeros
 *   final    written for the sequences that end here (no tokens at all: on rank 0); NULL or pool absent:
 *            the state is dropped
 *   Elsewhere pools are neither read nor written and may be absent. Pad slots as in rd_prefill; a pad
 *   row must be one on all ranks that have both pools, and holds for the ranks without.
 * 16-bit states are widened once, where the sequence begins, and rounded once, where it ends. Errors:
 * those of rd_prefill; RD_E_PRESENCE: no agreement, another form, or more layers than agreed. */
RD_API rd_status rd_mpi_prefill(rd_mpi *m, const rd_mpi_plan *plan, const rd_activations *act,
                                const rd_slots *initial, const rd_slots *final);

/* One layer of a step whose form is RD_MPI_SCAN. Collective. Each rank computes its segment's K x K
 * transition and its final state from zero, MPI_Exscan composes them, and the real pass follows: at most
 * 2 + K/V passes and log2(ranks) steps of K^3 + V K^2 products. Bits depend on ranks, split and MPI's
 * grouping. Error bound: docs/SCALE.md. An error of any rank is returned by all, outputs undefined. */
RD_API rd_status rd_mpi_prefill_scan(rd_mpi *m, const rd_mpi_plan *plan, const rd_activations *act,
                                     const rd_slots *initial, const rd_slots *final);

/* Ends the step: waits until what was sent has arrived. After fewer layers than agreed, the ranks that
 * wait for the rest get RD_E_PRESENCE, and so does this one. Returns the step's error if it failed. */
RD_API rd_status rd_mpi_finish(rd_mpi *m);

/* ---- estimates ----------------------------------------------------------------------------------
 * Seconds of one step by the formulas of docs/SCALE.md, for choosing a form. */
typedef struct rd_mpi_model {
  int64_t ranks, tokens, layers;
  int64_t heads, K, V;        /* value heads */
  int64_t items;              /* of one layer: rd_mpi_cut.items times the sequences */
  double seconds_per_token;   /* of one value head on one rank, all its threads */
  double latency;             /* seconds per message */
  double bytes_per_second;    /* of a link */
  double products_per_second; /* multiply-adds of the scan's matrix products on one rank */
} rd_mpi_model;
typedef struct rd_mpi_estimates {
  double one_rank, pipeline, scan;             /* seconds */
  double pipeline_efficiency, scan_efficiency; /* one_rank / (ranks * form) */
} rd_mpi_estimates;
RD_API rd_status rd_mpi_estimate(const rd_mpi_model *model,
                                 rd_mpi_estimates *out); /* RD_E_NULL, RD_E_SHAPE */

#ifdef __cplusplus
}
#endif
#endif
