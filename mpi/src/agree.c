/* The agreement of a step. */
#include <stdlib.h>
#include <string.h>

#include "mpi/src/channel.h"
#include "mpi/src/plan.h"
#include "mpi/src/step.h"

enum { FAST_BLOCK = 32, PAD_UNKNOWN = 0, PAD_NO = 1, PAD_YES = 2, PAD_BITS = 4 };

/* What a rank tells first; the fields that all must share. */
typedef struct summary {
  uint64_t fingerprint;
  int64_t batch;
  int32_t form, layers;
} summary;

static rd_status check_step(rd_mpi *m, const rd_mpi_plan *plan, const rd_mpi_step *step) {
  if (!plan) return rdm_fail(m, RD_E_NULL, "plan: required, got NULL");
  if (!step) return rdm_fail(m, RD_E_NULL, "step: required, got NULL");
  if (step->struct_size != sizeof *step)
    return rdm_fail(m, RD_E_STRUCT_SIZE, "step.struct_size: expected %zu, got %zu", sizeof *step,
                    step->struct_size);
  for (size_t i = 0; i < sizeof step->reserved / sizeof step->reserved[0]; i++)
    if (step->reserved[i])
      return rdm_fail(m, RD_E_PRESENCE, "step: reserved fields must be zero in this version");
  if (step->form != RD_MPI_PIPELINE && step->form != RD_MPI_SCAN)
    return rdm_fail(m, RD_E_ENUM, "step.form: no such form: %d", step->form);
  if (step->layers < 1)
    return rdm_fail(m, RD_E_SHAPE, "step.layers: expected at least 1, got %d", step->layers);
  if (step->form == RD_MPI_SCAN && plan->problem.numerics != RD_FAST)
    return rdm_fail(m, RD_E_PLAN, "step.form: a scan needs a plan with numerics RD_FAST");
  if (!step->seq) return rdm_fail(m, RD_E_NULL, "step.seq: required, got NULL");
  if (!step->act) return rdm_fail(m, RD_E_NULL, "step.act: required, got NULL");
  return rdm_check(m, plan, step->seq, step->act, step->initial, step->final);
}

/* Everything that may fail on one rank alone, before the first word to the others. */
static rd_status prepare(rd_mpi *m, const rd_mpi_plan *plan, const rd_mpi_step *step) {
  rdm_step *s = &m->step;
  RDM_TRY(check_step(m, plan, step));
  s->plan = plan, s->seq = step->seq;
  s->form = step->form, s->layers = step->layers;
  s->B = step->seq->batch;
  const rd_problem *p = &plan->problem;
  if ((uint64_t)s->B >= SIZE_MAX / 16 / (size_t)m->ranks)
    return rdm_fail(m, RD_E_OVERFLOW, "seq.batch: counts of all ranks do not fit the memory");
  s->counts = calloc((size_t)s->B * (size_t)m->ranks + 1, sizeof *s->counts);
  s->pad = calloc((size_t)s->B + 1, 1);
  if (!s->counts || !s->pad) return rdm_fail(m, RD_E_NOMEM, "no memory for the token counts");
  int64_t *mine = s->counts + (int64_t)m->rank * s->B;
  for (int64_t b = 0, first; b < s->B; b++) {
    int64_t pad = PAD_UNKNOWN;
    if (rdm_shared_pool(step->initial, step->final))
      pad = rdm_slot(plan, step->initial, b) == p->pad_slot &&
                    rdm_slot(plan, step->final, b) == p->pad_slot
                ? PAD_YES
                : PAD_NO;
    mine[b] = rdm_length(plan, step->seq, step->act, b, &first) * PAD_BITS + pad;
  }
  return rdm_reserve(m, (size_t)(plan->heads * plan->rows * p->K));
}

static rd_status same_plans(rd_mpi *m) {
  const rdm_step *s = &m->step;
  const summary mine = {s->plan->fingerprint, s->B, s->form, s->layers};
  summary *all = malloc((size_t)m->ranks * sizeof *all);
  rd_status status =
      rdm_verdict(m, all ? RD_OK : RD_E_NOMEM, "no memory for the plans of the ranks");
  if (status == RD_OK)
    status = rdm_mpi(
        m,
        MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, m->comm),
        "MPI_Allgather");
  for (int r = 1; r < m->ranks && status == RD_OK; r++) {
    const char *what = all[r].fingerprint != all[0].fingerprint ? "problem (or library version)"
                       : all[r].batch != all[0].batch           ? "batch"
                       : all[r].form != all[0].form             ? "form"
                       : all[r].layers != all[0].layers         ? "number of layers"
                                                                : NULL;
    if (what) status = rdm_fail(m, RD_E_PLAN, "rank %d: another %s than rank 0", r, what);
  }
  free(all);
  return status;
}

static rd_status gather_counts(rd_mpi *m) {
  rdm_step *s = &m->step;
  int64_t *mine = malloc(((size_t)s->B + 1) * sizeof *mine);
  rd_status status = rdm_verdict(m, mine ? RD_OK : RD_E_NOMEM, "no memory for the token counts");
  if (status != RD_OK || !mine) {
    free(mine);
    return status;
  }
  memcpy(mine, s->counts + (int64_t)m->rank * s->B, (size_t)s->B * sizeof *mine);
  MPI_Datatype row; /* one row of any length as one element: no count is beyond an int */
  status = rdm_mpi(m, MPI_Type_contiguous((int)s->B, MPI_INT64_T, &row), "MPI_Type");
  if (status == RD_OK) {
    status = rdm_mpi(m, MPI_Type_commit(&row), "MPI_Type_commit");
    if (status == RD_OK)
      status = rdm_mpi(m, MPI_Allgather(mine, 1, row, s->counts, 1, row, m->comm), "MPI_Allgather");
    (void)MPI_Type_free(&row);
  }
  free(mine);
  return status;
}

/* Every rank has the same numbers now, and comes to the same end. */
static rd_status judge_sequence(rd_mpi *m, int64_t b) {
  rdm_step *s = &m->step;
  int64_t before = 0;
  int known = -1;
  for (int r = 0; r < m->ranks; r++) {
    int64_t *count = &s->counts[(int64_t)r * s->B + b];
    const int64_t pad = *count % PAD_BITS;
    *count /= PAD_BITS;
    if (pad != PAD_UNKNOWN && known >= 0 && s->pad[b] != (pad == PAD_YES))
      return rdm_fail(m, RD_E_SLOT_RANGE,
                      "slots: sequence %lld is a pad row on one of the ranks %d and %d only",
                      (long long)b, known, r);
    if (pad != PAD_UNKNOWN) s->pad[b] = pad == PAD_YES, known = r;
  }
  for (int r = 0; r < m->ranks; r++) {
    const int64_t n = s->counts[(int64_t)r * s->B + b];
    if (n > 0 && before % FAST_BLOCK && s->form == RD_MPI_PIPELINE && !s->pad[b] &&
        s->plan->problem.numerics == RD_FAST)
      return rdm_fail(
          m, RD_E_LENGTH,
          "sequence %lld: rank %d begins at token %lld, expected a multiple of %d (RD_FAST)",
          (long long)b, r, (long long)before, FAST_BLOCK);
    before += n;
  }
  return RD_OK;
}

static void count_messages(rd_mpi *m) {
  const rdm_step *s = &m->step;
  const int64_t each = rdm_items(s->plan) * s->layers;
  memset(m->peers, 0, (size_t)m->ranks * sizeof *m->peers);
  for (int64_t b = 0; b < s->B && s->form == RD_MPI_PIPELINE; b++) {
    if (s->pad[b] || rdm_count(m, m->rank, b) == 0) continue;
    const int from = rdm_previous(m, b), to = rdm_next(m, b);
    if (from >= 0) m->peers[from].expected += each;
    if (to >= 0) m->peers[to].owed += each;
  }
}

rd_status rd_mpi_agree(rd_mpi *m, const rd_mpi_plan *plan, const rd_mpi_step *step) {
  if (!m) return RD_E_NULL;
  (void)rd_mpi_finish(m);
  rdm_step_free(m);
  m->message[0] = '\0';
  rd_status status = prepare(m, plan, step);
  char text[RDM_TEXT];
  memcpy(text, m->message, sizeof text - 1);
  text[sizeof text - 1] = '\0';
  status = rdm_verdict(m, status, text);
  if (status == RD_OK) status = same_plans(m);
  if (status == RD_OK) status = gather_counts(m);
  for (int64_t b = 0; status == RD_OK && b < m->step.B; b++) status = judge_sequence(m, b);
  if (status != RD_OK) {
    rdm_step_free(m);
    return status;
  }
  count_messages(m);
  m->step.agreed = 1;
  return RD_OK;
}
