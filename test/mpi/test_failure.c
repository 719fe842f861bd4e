/* What goes wrong on one rank. usage: mpirun -np P test_mpi_failure arguments|after|early|killed */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static rd_context *ctx;
static rd_mpi *m;
static rd_mpi_plan *plan;
static shape s;
static part whole, mine;
static int calls_left; /* of the executor before it refuses; < 0: never */

static int run_all(void *self, rd_slice_fn fn, void *arg, int64_t n) {
  (void)self;
  if (calls_left == 0) return 1;
  calls_left--;
  for (int64_t i = 0; i < n; i++) fn(arg, i);
  return 0;
}

static void make_shape(int64_t Hk, int64_t Hv, int64_t K, int64_t V, int64_t B) {
  memset(&s, 0, sizeof s);
  rd_problem_init(&s.p);
  s.p.Hk = Hk, s.p.Hv = Hv, s.p.K = K, s.p.V = V;
  s.p.layout = RD_PACKED;
  s.p.gate_axis = RD_PER_HEAD;
  s.p.qk_norm = RD_QK_L2;
  s.p.max_batch = MOST_BATCH;
  s.p.max_tokens = 1024;
  s.B = B;
  s.pools = 1;
  for (int64_t b = 0; b < B; b++) {
    s.lengths[b] = 20 + 7 * b;
    s.slots[b] = (int32_t)(2 * b);
  }
}

/* Sequence 0 on all ranks; 1 on rank 0 and the last one; 2 on the last two. */
static void make_split(void) {
  memset(s.counts, 0, sizeof s.counts);
  for (int r = 0; r < ranks; r++) s.counts[r][0] = 2;
  s.counts[ranks - 1][0] += s.lengths[0] - 2 * ranks;
  if (s.B > 1) s.counts[0][1] = 10, s.counts[ranks - 1][1] += s.lengths[1] - 10;
  if (s.B > 2) s.counts[ranks - 2][2] = 5, s.counts[ranks - 1][2] = s.lengths[2] - 5;
}

static void begin(void) {
  draw_from(7);
  make_whole(&s, &whole);
  make_part(&s, &whole, rank, &mine);
  /* Many layers: no head is cut into rows, so every call has slices for the executor. */
  if (rd_mpi_plan_create(m, &s.p, 100, &plan) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 2);
}
static void end(void) {
  rd_mpi_plan_destroy(plan);
  free_part(&mine);
  free_part(&whole);
}

static rd_mpi_step step_of(int layers) {
  rd_mpi_step step;
  rd_mpi_step_init(&step);
  step.layers = layers;
  step.seq = &mine.seq, step.act = &mine.act;
  step.initial = &mine.initial, step.final = &mine.final;
  return step;
}

/* A step without failure gives the bits of one rank: nothing of the one before is left. */
static void good_step(const char *after) {
  part again, alone = whole;
  make_part(&s, &whole, rank, &again);
  part keep = mine;
  mine = again;
  calls_left = -1;
  const size_t bytes =
      (size_t)whole.initial.pool.stride[0] * SLOTS * rd_dtype_size((rd_dtype)s.p.state_dtype);
  char *pool = malloc(bytes);
  if (!pool) abort();
  memcpy(pool, whole.initial.pool.data, bytes);
  alone.initial.pool.data = alone.final.pool.data = pool;
  rd_plan *one;
  rd_status status = rd_plan_create(ctx, &s.p, &one);
  if (status == RD_OK)
    status = rd_prefill(ctx, one, &alone.seq, &alone.act, &alone.initial, &alone.final, NULL);
  rd_plan_destroy(one);
  rd_mpi_step step = step_of(1);
  if (status == RD_OK) status = rd_mpi_agree(m, plan, &step);
  if (status == RD_OK) status = rd_mpi_prefill(m, plan, &mine.act, &mine.initial, &mine.final);
  if (status == RD_OK) status = rd_mpi_finish(m);
  part want = whole;
  want.final = alone.final;
  const char *bad = status == RD_OK ? compare(&s, &want, &mine, rank, ranks) : rd_mpi_last_error(m);
  verdict(MPI_COMM_WORLD, bad == NULL, "the step after %s: %s", after, bad ? bad : "");
  mine = keep;
  free_part(&again);
  free(pool);
}

/* ---------------------------------------------------------------- before agreement ------------ */

static rd_status with_slip(int slip, rd_mpi_step *step, const rd_mpi_plan **which) {
  static const rd_status expected[] = {RD_E_NULL,  RD_E_NULL,     RD_E_DTYPE,      RD_E_SHAPE,
                                       RD_E_ALIAS, RD_E_CU_START, RD_E_SLOT_RANGE, RD_E_PLAN,
                                       RD_E_PLAN,  RD_E_ENUM,     RD_E_STRUCT_SIZE};
  switch (slip) {
  case 0:
    *which = NULL;
    break;
  case 1:
    step->act = NULL;
    break;
  case 2:
    mine.act.k.dtype = RD_F16;
    break;
  case 3:
    mine.act.v.shape[2]--;
    break;
  case 4:
    mine.act.out.data = mine.act.v.data;
    break;
  case 5:
    mine.cu[0] = 1;
    break;
  case 6:
    ((int32_t *)mine.final.slots.data)[s.B - 1] = SLOTS;
    break;
  case 7:
    step->layers = 2;
    break;
  case 8:
    step->form = RD_MPI_SCAN;
    break;
  case 9:
    step->form = 3;
    break;
  case 10:
    step->struct_size = 8;
    break;
  default:
    return RD_OK;
  }
  return expected[slip];
}

static void arguments(int64_t Hv, int64_t K, int64_t V, int64_t B) {
  make_shape(1, Hv, K, V, B);
  make_split();
  begin();
  for (int culprit = 0; culprit < ranks; culprit++) {
    for (int slip = 0;; slip++) {
      part kept = mine;
      const int32_t slot = ((int32_t *)mine.final.slots.data)[B - 1];
      rd_mpi_step step = step_of(1);
      const rd_mpi_plan *which = plan;
      /* All ranks look up what is expected; one does it. */
      part trial = mine;
      rd_mpi_step unused = step;
      const rd_mpi_plan *none = plan;
      const rd_status want = with_slip(slip, &unused, &none);
      mine = trial;
      mine.cu[0] = 0;
      mine.seq = kept.seq;
      ((int32_t *)mine.final.slots.data)[B - 1] = slot;
      if (rank == culprit) (void)with_slip(slip, &step, &which);
      if (want == RD_OK) break;
      mine.seq.cu_seqlens.data = mine.cu;
      void *before = remember(&s, &kept);
      const rd_status got = rd_mpi_agree(m, which, &step);
      char text[300];
      snprintf(text, sizeof text, "%s", rd_mpi_last_error(m));
      const int same = untouched(&s, &kept, before);
      const int named = rank == culprit || slip == 7 || strncmp(text, "rank ", 5) == 0;
      const rd_status then = rd_mpi_prefill(m, plan, &mine.act, &mine.initial, &mine.final);
      verdict(MPI_COMM_WORLD, got == want && same && named && text[0] && then == RD_E_PRESENCE,
              "slip %d on rank %d: %s, expected %s; \"%s\"; bytes %s; prefill then %s", slip,
              culprit, rd_status_name(got), rd_status_name(want), text, same ? "kept" : "WRITTEN",
              rd_status_name(then));
      mine = kept;
      mine.cu[0] = 0;
      ((int32_t *)mine.final.slots.data)[B - 1] = slot;
    }
  }
  /* A good agreement writes nothing either, whatever the size. */
  void *before = remember(&s, &mine);
  rd_mpi_step step = step_of(1);
  const rd_status got = rd_mpi_agree(m, plan, &step);
  const int same = untouched(&s, &mine, before);
  verdict(MPI_COMM_WORLD, got == RD_OK && same, "agreement: %s, bytes %s", rd_mpi_last_error(m),
          same ? "kept" : "WRITTEN");
  good_step("wrong arguments");
  end();
}

static void plans_that_differ(void) {
  make_shape(1, 2, 16, 8, 2);
  make_split();
  begin();
  rd_problem other = s.p;
  if (rank == ranks - 1) other.qk_norm = RD_QK_AS_IS;
  rd_mpi_plan *odd;
  if (rd_mpi_plan_create(m, &other, 100, &odd) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 2);
  rd_mpi_step step = step_of(1);
  rd_status got = rd_mpi_agree(m, odd, &step);
  verdict(MPI_COMM_WORLD, got == RD_E_PLAN, "another problem: %s", rd_status_name(got));
  rd_mpi_plan_destroy(odd);
  /* RD_FAST refuses borders within its blocks. */
  other = s.p;
  other.numerics = RD_FAST;
  if (rd_mpi_plan_create(m, &other, 100, &odd) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 2);
  got = rd_mpi_agree(m, odd, &step);
  verdict(MPI_COMM_WORLD, got == RD_E_LENGTH && strstr(rd_mpi_last_error(m), "token 2") != NULL,
          "a border of FAST: %s", rd_mpi_last_error(m));
  rd_mpi_plan_destroy(odd);
  /* A pad row on one rank only. */
  if (rank == 0) ((int32_t *)mine.final.slots.data)[1] = s.p.pad_slot;
  got = rd_mpi_agree(m, plan, &step);
  verdict(MPI_COMM_WORLD, got == RD_E_SLOT_RANGE, "a pad row on one rank: %s",
          rd_mpi_last_error(m));
  if (rank == 0) ((int32_t *)mine.final.slots.data)[1] = s.slots[1];
  good_step("plans that differ");
  end();
}

/* ---------------------------------------------------------------- after agreement ------------- */

/* Whether rank r waits, through any sequence, for the culprit. */
static int depends(int r, int culprit) {
  int reached[MOST_RANKS] = {0};
  reached[culprit] = 1;
  for (int to = culprit + 1; to < ranks; to++) {
    for (int64_t b = 0; b < s.B; b++) {
      int from = to - 1;
      while (from >= 0 && s.counts[from][b] == 0) from--;
      if (s.counts[to][b] > 0 && from >= 0 && reached[from]) reached[to] = 1;
    }
  }
  return reached[r];
}

enum { LAYERS = 4 };

/* kind 0: the executor fails in its call `when`; 1: wrong arguments in layer `when`. A rank stops at its
 * first error, as callers do. */
static void fails_after(int culprit, int kind, int when) {
  rd_mpi_step step = step_of(LAYERS);
  calls_left = -1;
  rd_status status = rd_mpi_agree(m, plan, &step);
  if (status != RD_OK) MPI_Abort(MPI_COMM_WORLD, 3);
  if (rank == culprit && kind == 0) calls_left = when;
  int done = 0;
  for (int l = 0; l < LAYERS && status == RD_OK; l++) {
    rd_activations act = mine.act;
    if (rank == culprit && kind == 1 && l == when) act.q.dtype = RD_I32;
    status = rd_mpi_prefill(m, plan, &act, &mine.initial, &mine.final);
    done += status == RD_OK;
  }
  char text[300], expected[32];
  snprintf(text, sizeof text, "%s", rd_mpi_last_error(m));
  calls_left = -1;
  const rd_status finish = rd_mpi_finish(m);
  const rd_status kinds[] = {RD_E_EXECUTOR, RD_E_DTYPE}, want = kinds[kind];
  snprintf(expected, sizeof expected, "rank %d: ", culprit);
  int good = rank == culprit || depends(rank, culprit)
                 ? status == want && finish == want && done < LAYERS &&
                       (rank == culprit || strncmp(text, expected, strlen(expected)) == 0)
                 : status == RD_OK && finish == RD_OK && done == LAYERS;
  verdict(MPI_COMM_WORLD, good, "rank %d fails (%d, %d): %s \"%s\", finish %s, %d layers", culprit,
          kind, when, rd_status_name(status), text, rd_status_name(finish), done);
}

static void ends_early(int culprit, int after) {
  rd_mpi_step step = step_of(LAYERS);
  calls_left = -1;
  rd_status status = rd_mpi_agree(m, plan, &step);
  if (status != RD_OK) MPI_Abort(MPI_COMM_WORLD, 3);
  for (int l = 0; l < (rank == culprit ? after : LAYERS) && status == RD_OK; l++)
    status = rd_mpi_prefill(m, plan, &mine.act, &mine.initial, &mine.final);
  status = rd_mpi_finish(m);
  const int hit = rank == culprit || depends(rank, culprit);
  verdict(MPI_COMM_WORLD, status == (hit ? RD_E_PRESENCE : RD_OK),
          "rank %d stops after %d layers: %s", culprit, after, rd_mpi_last_error(m));
}

static void after_agreement(int early) {
  make_shape(2, 4, 128, 128, 3);
  s.p.head_map = RD_HEADS_TILED; /* an item per value head */
  make_split();
  begin();
  for (int culprit = 0; culprit < ranks; culprit++) {
    for (int when = 0; when < (early ? LAYERS : 8); when++) {
      if (early)
        ends_early(culprit, when);
      else
        fails_after(culprit, when & 1, when & 1 ? when / 2 : when * 2);
    }
    good_step("a failure");
  }
  end();
}

/* Rank 0 fails while the last rank waits for rank 1 only. A failure that nobody waits for would be taken
 * for the first state of the next step, where the last rank does wait for rank 0. */
static void told_are_those_who_wait(void) {
  if (ranks < 3) return;
  make_shape(1, 2, 128, 128, 2);
  s.counts[0][0] = 5, s.counts[1][0] = s.lengths[0] - 5;
  s.counts[1][1] = 5, s.counts[ranks - 1][1] = s.lengths[1] - 5;
  begin();
  fails_after(0, 0, 0);
  end();
  memset(s.counts, 0, sizeof s.counts);
  for (int64_t b = 0; b < s.B; b++) s.counts[0][b] = 5, s.counts[ranks - 1][b] = s.lengths[b] - 5;
  begin();
  good_step("a failure that the last rank was not waiting for");
  end();
}

static void killed(void) {
  make_shape(2, 4, 128, 128, 3);
  make_split();
  begin();
  rd_mpi_step step = step_of(2);
  calls_left = -1;
  if (rd_mpi_agree(m, plan, &step) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 3);
  if (rank == ranks / 2) raise(SIGKILL);
  for (int l = 0; l < 2; l++) (void)rd_mpi_prefill(m, plan, &mine.act, &mine.initial, &mine.final);
  MPI_Barrier(MPI_COMM_WORLD); /* which the dead one never reaches */
  end();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *what = argc > 1 ? argv[1] : "";
  rd_context_options o;
  rd_context_options_init(&o);
  o.executor = (rd_executor){.run = run_all, .concurrency = 2};
  calls_left = -1;
  ctx = make_context(&o);
  if (ranks < 2 || rd_mpi_create(ctx, MPI_COMM_WORLD, &m) != RD_OK) MPI_Abort(MPI_COMM_WORLD, 1);
  if (strcmp(what, "arguments") == 0) {
    arguments(1, 1, 1, 1); /* the smallest: one slice, which runs without an executor */
    arguments(3, 64, 32, 3);
    plans_that_differ();
  }
  if (strcmp(what, "after") == 0) {
    after_agreement(0);
    told_are_those_who_wait();
  }
  if (strcmp(what, "early") == 0) after_agreement(1);
  if (strcmp(what, "killed") == 0) killed();
  rd_mpi_destroy(m);
  rd_context_destroy(ctx);
  if (rank == 0)
    printf("%s, %d ranks: %d passed, %d failed, 0 skipped\n", what, ranks, passes, failures);
  MPI_Finalize();
  return failures != 0 || passes == 0;
}
