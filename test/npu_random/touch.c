/* The bytes each instruction reads and writes, from the text beside its prototype. */
#include "second.h"

#include <string.h>

static uint32_t size_of(unsigned type) { return type == RD_NPU_F32 || type == RD_NPU_S32 ? 4 : 2; }

static const struct {
  uint32_t at, bytes;
} places[] = {[RD_NPU_L1] = {AT_L1, L1_BYTES},
              [RD_NPU_L0A] = {AT_L0A, L0A_BYTES},
              [RD_NPU_L0B] = {AT_L0B, L0B_BYTES},
              [RD_NPU_L0C] = {AT_L0C, L0C_BYTES},
              [RD_NPU_UB] = {AT_UB, UB_BYTES}},
  tensors[] = {{AT_IN, IN_BYTES}, {AT_STATE, STATE_BYTES}, {AT_DUMP, DUMP_BYTES}};

static void mark(bytes *b, uint64_t address, uint64_t count) {
  unsigned buffer = (unsigned)(address >> 60);
  uint64_t offset = address & 0xFFFFFFFFFFFu, tensor = address >> 44 & 0xFFFF;
  if (!buffer && tensor >= GM_TENSORS) tensor = 0, offset = BYTES;
  uint32_t at = buffer ? places[buffer].at : tensors[tensor].at;
  uint32_t size = buffer ? places[buffer].bytes : tensors[tensor].bytes;
  if (offset + count > size) {
    b->outside = true;
    return;
  }
  for (uint64_t n = at + offset; n < at + offset + count; n++) {
    uint32_t w = (uint32_t)(n / 64);
    b->word[w] |= 1ull << n % 64;
    if (w < b->low) b->low = w;
    if (w >= b->high) b->high = w + 1;
  }
}

/* The active lanes of an operand whose elements have `size` bytes. */
static void lanes(bytes *b, const step *s, uint64_t base, uint32_t size, uint32_t count,
                  uint32_t repeats, uint32_t blk, uint32_t rep) {
  for (uint32_t r = 0; r < repeats; r++)
    for (uint32_t l = 0; l < count; l++) {
      if (!((l < 64 ? s->lo >> l : s->hi >> (l - 64)) & 1)) continue;
      uint32_t e = 32 / size;
      mark(b, base + 32ull * (r * rep + l / e * blk) + l % e * size, size);
    }
}

static void blocks(bytes *b, uint64_t base, uint32_t n, uint64_t length, uint64_t apart) {
  for (uint32_t i = 0; i < n; i++) mark(b, base + i * apart, length);
}

static void vector(const step *s, form f, touched *t) {
  uint32_t size = size_of(s->type), count = size == 4 ? 64 : 128;
  uint32_t rep = f == GATHER ? s->p[1] : s->p[0];
  if (f == THREE) {
    lanes(&t->write, s, s->d, size, count, rep, s->p[1], s->p[4]);
    lanes(&t->read, s, s->a, size, count, rep, s->p[2], s->p[5]);
    lanes(&t->read, s, s->b, size, count, rep, s->p[3], s->p[6]);
  } else if (f == TWO || f == SCALED) {
    lanes(&t->write, s, s->d, size, count, rep, s->p[1], s->p[3]);
    lanes(&t->read, s, s->a, size, count, rep, s->p[2], s->p[4]);
  } else if (f == FILL) {
    lanes(&t->write, s, s->d, size, count, rep, s->p[1], s->p[2]);
  } else if (f == CONVERT) {
    bool widens = s->op == R_vconv_f162f32 || s->op == R_vconv_bf162f32;
    lanes(&t->write, s, s->d, widens ? 4 : 2, 64, rep, s->p[1], s->p[3]);
    lanes(&t->read, s, s->a, widens ? 2 : 4, 64, rep, s->p[2], s->p[4]);
  } else if (f == SUMS) {
    lanes(&t->read, s, s->a, size, count, rep, s->p[2], s->p[3]);
    uint32_t sums = s->op == R_vcadd ? 1 : 8;
    blocks(&t->write, s->d, rep, sums * size, (uint64_t)s->p[1] * sums * size);
  } else if (f == GATHER) {
    lanes(&t->write, s, s->d, size, count, rep, 1, s->p[2]);
    for (uint32_t r = 0; r < rep; r++)
      for (uint32_t l = 0; l < count; l++)
        if ((l < 64 ? s->lo >> l : s->hi >> (l - 64)) & 1)
          mark(&t->read, s->a + 4ull * (r * count + l), 4);
    mark(&t->read, s->b, s->p[0]);
  }
  if (random_ops[s->op].traits & UPDATES)
    lanes(&t->read, s, s->d, size, count, rep, s->p[1], f == THREE ? s->p[4] : s->p[3]);
}

static void copy(const step *s, form f, touched *t) {
  uint32_t n = s->p[0], len = s->p[1], block = (len + 31) / 32 * 32;
  if (f == BURST) {
    blocks(&t->read, s->a, n, 32ull * len, 32ull * (len + s->p[2]));
    blocks(&t->write, s->d, n, 32ull * len, 32ull * (len + s->p[3]));
  } else if (f == ALIGN_LOAD) { /* the padding is written too */
    blocks(&t->read, s->a, n, len, len + s->p[2]);
    blocks(&t->write, s->d, n, block, block + 32ull * s->p[3]);
  } else if (f == ALIGN_STORE) {
    blocks(&t->read, s->a, n, len, block + 32ull * s->p[2]);
    blocks(&t->write, s->d, n, len, len + s->p[3]);
  } else if (f == FRACTALS) { /* start, repeat, source stride, destination gap */
    blocks(&t->read, s->a + 512ull * s->p[0], s->p[1], 512, 512ull * s->p[2]);
    blocks(&t->write, s->d, s->p[1], 512, 512ull * (1 + s->p[3]));
  } else if (f == L0C_TO_UB) {
    uint32_t from = 256 * size_of(s->type), to = 256 * size_of(s->to);
    blocks(&t->read, s->a, n, len * from, (uint64_t)(len + s->p[2]) * from);
    blocks(&t->write, s->d, n, len * to, (uint64_t)len * to + 32ull * s->p[3]);
  } else { /* L0C_TO_GM: m, n, rows, leading dimension */
    uint32_t m = s->p[0], cols = s->p[1], rows = s->p[2], ld = s->p[3], to = size_of(s->to);
    for (uint32_t c = 0; c < cols; c += 16) blocks(&t->read, s->a + c * m * 4ull, 1, rows * 64, 0);
    blocks(&t->write, s->d, rows, cols * to, (uint64_t)ld * to);
  }
}

static void whole(const step *s, form f, touched *t) {
  uint32_t size = size_of(s->type);
  if (f == PRODUCT) {
    uint32_t m = s->p[0], k = s->p[1], n = s->p[2], bytes_c = m * n * size_of(s->to);
    mark(&t->read, s->a, 2ull * m * k);
    mark(&t->read, s->b, 2ull * k * n);
    if (!s->yes) mark(&t->read, s->d, bytes_c);
    mark(&t->write, s->d, bytes_c);
  } else if (f == SPREAD) { /* repeat, destination block stride, repeat stride */
    mark(&t->read, s->a, 8ull * s->p[0] * size);
    for (uint32_t r = 0; r < s->p[0]; r++)
      blocks(&t->write, s->d + 32ull * r * s->p[2], 8, 32, 32ull * s->p[1]);
  } else if (f == TRANSPOSE) {
    mark(&t->read, s->a, 512);
    mark(&t->write, s->d, 512);
  } else if (f == TRANSPOSE_4D) {
    mark(&t->read, s->a, (uint64_t)s->p[0] * s->p[1] * size);
    mark(&t->write, s->d, (uint64_t)s->p[0] * s->p[1] * size);
  } else if (f == S_LOAD) {
    mark(&t->read, s->a, 4);
  } else if (f == S_STORE) {
    mark(&t->write, s->d, 4);
  } else if (f == S_GET) {
    mark(&t->read, s->a, s->p[0]);
  } else if (f == S_PUT) {
    mark(&t->write, s->d, s->p[0]);
  }
}

void touch(const step *s, touched *t) {
  memset(t, 0, sizeof *t);
  t->read.low = t->write.low = BYTES / 64;
  form f = (form)random_ops[s->op].form;
  switch (f) {
  case BURST:
  case ALIGN_LOAD:
  case ALIGN_STORE:
  case FRACTALS:
  case L0C_TO_UB:
  case L0C_TO_GM:
    copy(s, f, t);
    break;
  case THREE:
  case TWO:
  case SCALED:
  case FILL:
  case CONVERT:
  case SUMS:
  case GATHER:
    vector(s, f, t);
    break;
  case PRODUCT:
  case SPREAD:
  case TRANSPOSE:
  case TRANSPOSE_4D:
  case S_LOAD:
  case S_STORE:
  case S_GET:
  case S_PUT:
    whole(s, f, t);
    break;
  case FLAG:
  case BARRIER:
  case S_GM: /* a tensor that nothing writes */
  case S_ARITHMETIC:
    break;
  }
}
