#include "kit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
void draw_from(uint64_t seed) { state = seed * 0x9e3779b97f4a7c15u + 1; }
uint64_t draw(void) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
int64_t draw_below(int64_t n) { return (int64_t)(draw() % (uint64_t)n); }
static float between(float low, float high) {
  return low + (high - low) * (float)(draw() >> 40) / (float)(1 << 24);
}

/* ---------------------------------------------------------------- memory ---------------------- */

static void *block(part *p, size_t bytes) {
  void *b = malloc(bytes + 64);
  if (!b || p->count == 16) abort();
  memset(b, 0xff, bytes + 64);
  return p->blocks[p->count++] = b;
}
void free_part(part *p) {
  for (int i = 0; i < p->count; i++) free(p->blocks[i]);
  p->count = 0;
}

static void put(rd_dtype t, void *data, int64_t i, float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  if (t == RD_F32) ((float *)data)[i] = x;
  if (t == RD_BF16) ((uint16_t *)data)[i] = (uint16_t)(u >> 16);
  if (t == RD_F16) {
    const int e = (int)(u >> 23 & 255) - 112;
    const uint32_t sign = u >> 16 & 0x8000;
    ((uint16_t *)data)[i] = (uint16_t)(e < 1 ? sign : sign | (uint32_t)e << 10 | (u >> 13 & 0x3ff));
  }
}

static rd_tensor tensor(part *p, rd_dtype t, int rank, const int64_t *size) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= size[i];
  return rd_tensor_contiguous(block(p, (size_t)n * rd_dtype_size(t)), t, rank, size);
}

static void fill(rd_tensor *t, float low, float high) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->shape[i];
  for (int64_t i = 0; i < n; i++) put((rd_dtype)t->dtype, t->data, i, between(low, high));
}

/* ---------------------------------------------------------------- problems -------------------- */

void split(shape *s, int ranks, int64_t grain) {
  memset(s->counts, 0, sizeof s->counts);
  for (int64_t b = 0; b < s->B; b++) {
    int64_t left = s->lengths[b];
    for (int r = 0; r < ranks - 1; r++) {
      int64_t n = draw_below(3) == 0 ? 0 : draw_below(2 * s->lengths[b] / ranks + 2);
      n = n / grain * grain;
      if (n > left) n = left / grain * grain;
      s->counts[r][b] = n;
      left -= n;
    }
    s->counts[ranks - 1][b] = left;
    if (grain == 1 && left > 0 && draw_below(3) == 0) { /* nothing on the last rank */
      s->counts[ranks - 1][b] = 0;
      s->counts[draw_below(ranks)][b] += left;
    }
  }
}

static void activations(const shape *s, part *p, int64_t rows, int padded) {
  const rd_problem *d = &s->p;
  const rd_dtype qkv = (rd_dtype)d->qkv_dtype;
  const int64_t lead = padded ? s->B : 0;
  const int channel = d->gate_axis == RD_PER_CHANNEL;
#define T4(type, H, n) tensor(p, type, padded ? 4 : 3, (int64_t[]){lead, rows, H, n} + !padded)
#define T3(type, H)    tensor(p, type, padded ? 3 : 2, (int64_t[]){lead, rows, H} + !padded)
  rd_activations_init(&p->act);
  p->act.q = T4(qkv, d->Hk, d->K);
  p->act.k = T4(qkv, d->Hk, d->K);
  p->act.v = T4(qkv, d->Hv, d->V);
  p->act.beta = T3((rd_dtype)d->beta_dtype, d->Hv);
  if (d->gate != RD_GATE_NONE)
    p->act.g =
        channel ? T4((rd_dtype)d->gate_dtype, d->Hv, d->K) : T3((rd_dtype)d->gate_dtype, d->Hv);
  p->act.out = T4((rd_dtype)d->out_dtype, d->Hv, d->V);
#undef T4
#undef T3
}

static void pools(const shape *s, part *p) {
  const rd_problem *d = &s->p;
  const int vk = d->state_layout == RD_STATE_VK;
  rd_slots_init(&p->initial);
  rd_slots_init(&p->final);
  if (!s->pools) return;
  const int64_t size[4] = {SLOTS, d->Hv, vk ? d->V : d->K, vk ? d->K : d->V};
  p->initial.pool = tensor(p, (rd_dtype)d->state_dtype, 4, size);
  p->initial.slots = tensor(p, RD_I32, 1, &s->B);
  memcpy(p->initial.slots.data, s->slots, (size_t)s->B * sizeof(int32_t));
  p->final = p->initial;
  if (s->separate) p->final.pool = tensor(p, (rd_dtype)d->state_dtype, 4, size);
}

void make_whole(const shape *s, part *whole) {
  memset(whole, 0, sizeof *whole);
  int64_t rows = 0;
  for (int64_t b = 0; b < s->B; b++) {
    whole->starts[b] = rows;
    rows += s->lengths[b];
    whole->cu[b + 1] = (int32_t)rows;
  }
  activations(s, whole, rows, 0);
  rd_sequences_init(&whole->seq);
  whole->seq.batch = s->B;
  whole->seq.cu_seqlens = rd_tensor_contiguous(whole->cu, RD_I32, 1, (int64_t[]){s->B + 1});
  const int gate = s->p.gate;
  fill(&whole->act.q, -1, 1);
  fill(&whole->act.k, -1, 1);
  fill(&whole->act.v, -1, 1);
  fill(&whole->act.beta, 0.1f, s->p.beta == RD_BETA_LOGIT ? 2.0f : 0.95f);
  if (gate == RD_GATE_DECAY) fill(&whole->act.g, s->slow ? 0.995f : 0.7f, 1);
  if (gate == RD_GATE_LOG) fill(&whole->act.g, s->slow ? -0.005f : -0.7f, -0.001f);
  if (gate == RD_GATE_LOWER_BOUND || gate == RD_GATE_SOFTPLUS) {
    fill(&whole->act.g, -3, 1);
    whole->act.A_log = tensor(whole, RD_F32, 1, &s->p.Hv);
    whole->act.dt_bias = tensor(whole, RD_F32, s->p.gate_axis == RD_PER_CHANNEL ? 2 : 1,
                                (int64_t[]){s->p.Hv, s->p.K});
    fill(&whole->act.A_log, -1, 1);
    fill(&whole->act.dt_bias, -1, 1);
  }
  pools(s, whole);
  if (s->pools) fill(&whole->initial.pool, -1, 1);
}

/* Bytes of one token. */
static size_t row_bytes(const rd_tensor *t, int padded) {
  return (size_t)t->stride[padded ? 1 : 0] * rd_dtype_size((rd_dtype)t->dtype);
}
static char *row_at(const rd_tensor *t, const part *p, int padded, int64_t b, int64_t row) {
  const int64_t at = padded ? b * t->shape[1] + row : p->starts[b] + row;
  return (char *)t->data + (size_t)at * row_bytes(t, padded);
}
static int64_t first_token(const shape *s, int rank, int64_t b) {
  int64_t n = 0;
  for (int r = 0; r < rank; r++) n += s->counts[r][b];
  return n;
}

void make_part(const shape *s, const part *whole, int rank, part *mine) {
  memset(mine, 0, sizeof *mine);
  const int padded = s->p.layout == RD_PADDED;
  int64_t rows = 0, longest = 0;
  for (int64_t b = 0; b < s->B; b++) {
    const int64_t n = s->counts[rank][b];
    mine->starts[b] = rows;
    mine->lengths[b] = (int32_t)n;
    rows += n;
    mine->cu[b + 1] = (int32_t)rows;
    if (n > longest) longest = n;
  }
  activations(s, mine, padded ? longest + 1 : rows, padded);
  rd_sequences_init(&mine->seq);
  mine->seq.batch = s->B;
  if (padded)
    mine->seq.lengths = rd_tensor_contiguous(mine->lengths, RD_I32, 1, &s->B);
  else
    mine->seq.cu_seqlens = rd_tensor_contiguous(mine->cu, RD_I32, 1, (int64_t[]){s->B + 1});
  const rd_tensor *from[] = {&whole->act.q, &whole->act.k, &whole->act.v, &whole->act.beta,
                             &whole->act.g};
  const rd_tensor *to[] = {&mine->act.q, &mine->act.k, &mine->act.v, &mine->act.beta, &mine->act.g};
  for (int i = 0; i < 5; i++) {
    if (to[i]->dtype == RD_ABSENT) continue;
    for (int64_t b = 0; b < s->B; b++) {
      const int64_t n = s->counts[rank][b];
      if (n > 0)
        memcpy(row_at(to[i], mine, padded, b, 0),
               row_at(from[i], whole, 0, b, first_token(s, rank, b)),
               (size_t)n * row_bytes(to[i], padded));
    }
  }
  mine->act.A_log = whole->act.A_log;
  mine->act.dt_bias = whole->act.dt_bias;
  pools(s, mine);
  if (!s->pools) return;
  const size_t bytes =
      (size_t)mine->initial.pool.stride[0] * SLOTS * rd_dtype_size((rd_dtype)s->p.state_dtype);
  memcpy(mine->initial.pool.data, whole->initial.pool.data, bytes);
  int needed = rank == 0;
  for (int64_t b = 0; b < s->B; b++) needed |= s->counts[rank][b] > 0;
  if (s->pools == 2 && !needed) {
    rd_slots_init(&mine->initial);
    rd_slots_init(&mine->final);
  }
}

/* ---------------------------------------------------------------- outcomes -------------------- */

static int is_first(const shape *s, int rank, int64_t b) {
  for (int r = 0; r < rank; r++)
    if (s->counts[r][b] > 0) return 0;
  return s->counts[rank][b] > 0;
}
/* The rank that writes the final state. */
static int is_last(const shape *s, int rank, int ranks, int64_t b) {
  for (int r = rank + 1; r < ranks; r++)
    if (s->counts[r][b] > 0) return 0;
  if (s->counts[rank][b] > 0) return 1;
  return rank == 0 && !is_first(s, rank, b) && s->lengths[b] == 0;
}

static int all_zero(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i]) return 0;
  return 1;
}

const char *compare(const shape *s, const part *whole, const part *mine, int rank, int ranks) {
  static char text[128];
  const int padded = s->p.layout == RD_PADDED;
  const size_t row = row_bytes(&whole->act.out, 0);
  for (int64_t b = 0; b < s->B; b++) {
    const int64_t n = s->counts[rank][b];
    for (int64_t t = 0; t < n; t++) {
      const char *got = row_at(&mine->act.out, mine, padded, b, t);
      const char *want = row_at(&whole->act.out, whole, 0, b, first_token(s, rank, b) + t);
      if (memcmp(got, want, row) == 0) continue;
      snprintf(text, sizeof text, "out of sequence %lld, token %lld of rank %d", (long long)b,
               (long long)t, rank);
      return text;
    }
    for (int64_t t = n; padded && t < mine->act.out.shape[1]; t++)
      if (!all_zero(row_at(&mine->act.out, mine, padded, b, t), row)) return "a row past a length";
  }
  if (mine->final.pool.dtype == RD_ABSENT) return NULL;
  const size_t slot =
      (size_t)mine->final.pool.stride[0] * rd_dtype_size((rd_dtype)s->p.state_dtype);
  for (int32_t i = 0; i < SLOTS; i++) {
    int64_t owner = -1;
    for (int64_t b = 0; b < s->B; b++)
      if (s->slots[b] == i && is_last(s, rank, ranks, b)) owner = b;
    if (owner < 0) { /* not this rank's to write */
      const rd_tensor *was = s->separate ? NULL : &whole->initial.pool;
      const char *got = (char *)mine->final.pool.data + (size_t)i * slot;
      for (size_t at = 0; at < slot; at++)
        if (got[at] != (was ? ((char *)was->data)[(size_t)i * slot + at] : (char)0xff))
          return "a slot that this rank does not write";
      continue;
    }
    if (memcmp((char *)mine->final.pool.data + (size_t)i * slot,
               (char *)whole->final.pool.data + (size_t)i * slot, slot) == 0)
      continue;
    snprintf(text, sizeof text, "state of sequence %lld", (long long)owner);
    return text;
  }
  return NULL;
}

static size_t bytes_of(const rd_tensor *t) {
  if (t->dtype == RD_ABSENT) return 0;
  return (size_t)(t->shape[0] * t->stride[0]) * rd_dtype_size((rd_dtype)t->dtype);
}
void *remember(const shape *s, const part *mine) {
  (void)s;
  const size_t a = bytes_of(&mine->act.out), b = bytes_of(&mine->final.pool);
  char *copy = malloc(a + b + 1);
  if (!copy) abort();
  if (a) memcpy(copy, mine->act.out.data, a);
  if (b) memcpy(copy + a, mine->final.pool.data, b);
  return copy;
}
int untouched(const shape *s, const part *mine, void *memory) {
  (void)s;
  const size_t a = bytes_of(&mine->act.out), b = bytes_of(&mine->final.pool);
  const int same = (!a || memcmp(memory, mine->act.out.data, a) == 0) &&
                   (!b || memcmp((char *)memory + a, mine->final.pool.data, b) == 0);
  free(memory);
  return same;
}

int failures, passes;
void verdict(MPI_Comm comm, int good, const char *format, ...) {
  int all, rank;
  MPI_Comm_rank(comm, &rank);
  if (!good) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "rank %d: FAILED: ", rank);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
  }
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, comm);
  *(all ? &passes : &failures) += 1;
}

rd_context *make_context(const rd_context_options *options) {
  rd_context_options o;
  rd_context_options_init(&o);
  o.threads = 1;
  rd_context *ctx;
  if (rd_context_create(options ? options : &o, &ctx) != RD_OK) abort();
  return ctx;
}
