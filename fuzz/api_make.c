/* Problems and tensors out of bytes. */
#include "api.h"
#include "io/convert.h"
#include "io/rng.h"

#include <math.h>
#include <string.h>

uint32_t feed_below(feed *f, uint32_t n) {
  if (f->left == 0) return 0;
  f->left--;
  return *f->at++ % n;
}

int feed_rarely(feed *f) { return feed_below(f, 256) >= 248; }

void *arena_take(arena *a, size_t bytes) {
  FUZZ_MUST(a->count < ARENA);
  void *block = malloc(bytes > 0 ? bytes : 1);
  if (block == NULL) exit(3);
  memset(block, 0x5a, bytes);
  a->blocks[a->count++] = block;
  return block;
}

void arena_free(arena *a) {
  for (int i = 0; i < a->count; i++) free(a->blocks[i]);
  a->count = 0;
}

rd_tensor arena_tensor(arena *a, rd_dtype dtype, int32_t rank, const int64_t *shape) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= shape[i];
  return rd_tensor_contiguous(arena_take(a, (size_t)n * rd_dtype_size(dtype)), dtype, rank, shape);
}

static int32_t float_type(feed *f) { return (rd_dtype)(1 + feed_below(f, 3)); }

void make_problem(feed *f, rd_problem *p) {
  static const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 64};
  rd_problem_init(p);
  p->layout = (rd_layout)(1 + feed_below(f, 2));
  p->gate = (rd_gate)(1 + feed_below(f, 5));
  p->gate_axis = (rd_gate_axis)(1 + feed_below(f, 2));
  p->beta = (rd_beta)(1 + feed_below(f, 2));
  p->beta_times = 1 + (int32_t)feed_below(f, 2);
  p->qk_norm = (rd_qk_norm)(1 + feed_below(f, 2));
  p->head_map = (rd_head_map)(1 + feed_below(f, 2));
  p->state_layout = (rd_state_layout)(1 + feed_below(f, 2));
  p->Hk = 1 + feed_below(f, 2);
  p->Hv = p->Hk * (1 + feed_below(f, 3));
  p->K = sizes[feed_below(f, 10)];
  p->V = sizes[feed_below(f, 10)];
  p->max_batch = MAX_BATCH;
  p->max_tokens = MAX_TOKENS;
  p->qkv_dtype = float_type(f);
  p->gate_dtype = float_type(f);
  p->beta_dtype = float_type(f);
  p->out_dtype = float_type(f);
  p->state_dtype = feed_below(f, 2) ? RD_F32 : float_type(f);
  p->record_dtype = (rd_dtype)(1 + feed_below(f, 2));
  p->decay_dtype = (rd_dtype)(1 + feed_below(f, 2));
  p->lower_bound = -(double)feed_below(f, 6);
  p->has_scale = 1 - (int32_t)feed_below(f, 2);
  p->scale = 0.25 * feed_below(f, 16);
  if (!feed_rarely(f)) return;
  switch (feed_below(f, 6)) {
  case 0:
    p->Hv = p->Hk * 2 + 1;
    break;
  case 1:
    p->K = 513;
    break;
  case 2:
    p->lower_bound = 1;
    break;
  case 3:
    p->has_scale = 1, p->scale = NAN;
    break;
  case 4:
    p->state_dtype = RD_I32;
    break;
  default:
    p->gate = (rd_gate)7;
  }
}

void make_sequences(feed *f, arena *a, const rd_problem *p, int64_t T, rd_sequences *seq) {
  *seq = (rd_sequences){.struct_size = sizeof *seq, .batch = 1 + feed_below(f, MAX_BATCH)};
  rd_dtype type = feed_below(f, 2) ? RD_I32 : RD_I64;
  int64_t sum = 0;
  if (p->layout == RD_PACKED) {
    seq->cu_seqlens = arena_tensor(a, type, 1, (int64_t[]){seq->batch + 1});
    for (int64_t b = 0; b <= seq->batch; b++) {
      io_set(seq->cu_seqlens.data, type, b, (double)(feed_rarely(f) ? sum - 1 : sum));
      sum += feed_below(f, (uint32_t)T + 1);
    }
  } else if (feed_below(f, 4) != 0) {
    seq->lengths = arena_tensor(a, type, 1, (int64_t[]){seq->batch});
    for (int64_t b = 0; b < seq->batch; b++) {
      io_set(seq->lengths.data, type, b,
             feed_rarely(f) ? (double)T + 1 : feed_below(f, (uint32_t)T + 1));
    }
  }
}

typedef enum fill { NORMAL, UNIFORM, NEGATIVE } fill;

/* Random numbers from one byte of the input; another byte may scatter special ones among them. */
static void fill_tensor(feed *f, const rd_tensor *t, fill kind, double factor) {
  static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-40};
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) n *= t->shape[i];
  rng r = rng_stream(feed_below(f, 256), "fuzz");
  int specials = feed_rarely(f);
  for (int64_t i = 0; i < n; i++) {
    uint64_t at = (uint64_t)i;
    double x = factor * (kind == NORMAL    ? rng_normal(r, at)
                         : kind == UNIFORM ? rng_uniform(r, at)
                                           : -rng_uniform(r, at));
    if (specials && rng_below(r, at + 1000003, 23) == 0) x = special[rng_below(r, at + 2000003, 8)];
    io_set(t->data, t->dtype, i, x);
  }
}

void make_activations(feed *f, arena *a, const rd_problem *p, const rd_sequences *seq, int64_t T,
                      rd_activations *act) {
  int packed = p->layout == RD_PACKED,
      raw = p->gate == RD_GATE_LOWER_BOUND || p->gate == RD_GATE_SOFTPLUS;
  int64_t B = packed ? 1 : seq->batch, N = packed ? T * seq->batch : T;
  int64_t heads[2] = {p->Hk, p->Hv}, sizes[2] = {p->K, p->V};
  int64_t width = p->gate_axis == RD_PER_CHANNEL ? p->K : 1;
  int32_t channel = p->gate_axis == RD_PER_CHANNEL;
  /* PACKED drops the leading dimension: the same shape list from its second number. */
#define ROWS(type, rank, head, size)                                                               \
  arena_tensor(a, type, rank - packed, (int64_t[]){B, N, heads[head], size} + packed)
  *act = (rd_activations){.struct_size = sizeof *act};
  act->q = ROWS(p->qkv_dtype, 4, 0, p->K);
  act->k = ROWS(p->qkv_dtype, 4, 0, p->K);
  act->v = ROWS(p->qkv_dtype, 4, 1, p->V);
  act->beta = ROWS(p->beta_dtype, 3, 1, 1);
  act->out = ROWS(p->out_dtype, 4, 1, sizes[1]);
  if (p->gate != RD_GATE_NONE || feed_rarely(f))
    act->g = ROWS(p->gate_dtype, 3 + channel, 1, width);
#undef ROWS
  if (raw) act->A_log = arena_tensor(a, RD_F32, 1, &p->Hv);
  if (raw) act->dt_bias = arena_tensor(a, RD_F32, 1 + channel, (int64_t[]){p->Hv, width});
  fill_tensor(f, &act->q, NORMAL, 0.3);
  fill_tensor(f, &act->k, NORMAL, 0.3);
  fill_tensor(f, &act->v, NORMAL, 1);
  fill_tensor(f, &act->beta, p->beta == RD_BETA_LOGIT ? NORMAL : UNIFORM, 1);
  if (act->g.dtype != RD_ABSENT) {
    fill_tensor(f, &act->g,
                raw                      ? NORMAL
                : p->gate == RD_GATE_LOG ? NEGATIVE
                                         : UNIFORM,
                raw ? 2 : 1);
  }
  if (raw) fill_tensor(f, &act->A_log, NORMAL, 1);
  if (raw) fill_tensor(f, &act->dt_bias, NORMAL, 1);
}

void make_pool(feed *f, arena *a, const rd_problem *p, rd_tensor *pool) {
  int vk = p->state_layout == RD_STATE_VK;
  *pool = arena_tensor(a, p->state_dtype, 4,
                       (int64_t[]){SLOTS, p->Hv, vk ? p->V : p->K, vk ? p->K : p->V});
  fill_tensor(f, pool, NORMAL, 0.5);
}

void make_slots(feed *f, arena *a, const rd_tensor *pool, int64_t batch, rd_slots *slots) {
  *slots = (rd_slots){.struct_size = sizeof(rd_slots), .pool = *pool};
  if (feed_below(f, 2)) return;
  slots->slots = arena_tensor(a, RD_I32, 1, &batch);
  int32_t *to = slots->slots.data, first = (int32_t)feed_below(f, SLOTS);
  for (int64_t b = 0; b < batch; b++) {
    to[b] = (int32_t)((first + 2 * b) % SLOTS); /* distinct, since 2 and SLOTS share no factor */
    if (feed_rarely(f)) to[b] = -1;
    if (feed_rarely(f)) to[b] = (int32_t)feed_below(f, SLOTS + 1);
  }
}

void make_records(arena *a, const rd_problem *p, int64_t batch, int64_t C, rd_records *records) {
  int per_channel = p->gate_axis == RD_PER_CHANNEL;
  *records = (rd_records){.struct_size = sizeof *records};
  records->lengths = arena_take(a, (size_t)batch * sizeof(int32_t));
  records->u = arena_tensor(a, p->record_dtype, 4, (int64_t[]){batch, C, p->Hv, p->V});
  records->k = arena_tensor(a, p->record_dtype, 4, (int64_t[]){batch, C, p->Hk, p->K});
  if (p->gate != RD_GATE_NONE) {
    records->decay =
        arena_tensor(a, p->decay_dtype, 3 + per_channel, (int64_t[]){batch, C, p->Hv, p->K});
  }
}

void make_accepted(feed *f, arena *a, const rd_records *records, int64_t batch,
                   rd_tensor *accepted) {
  *accepted = arena_tensor(a, RD_I32, 1, &batch);
  int32_t *to = accepted->data;
  for (int64_t b = 0; b < batch; b++) {
    int32_t length = records->lengths[b];
    int known = records->made.magic != 0 && length >= 0 && length <= MAX_TOKENS;
    to[b] = known ? (int32_t)feed_below(f, (uint32_t)length + 1) : 0;
    if (feed_rarely(f)) to[b] = (int32_t)feed_below(f, 2) ? -1 : length + 1;
  }
}
