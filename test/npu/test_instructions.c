/* Every vector and scalar instruction against its plain definition, on random operands, masks and
 * strides.  One instruction runs on a UB image that came from GM and goes back to GM. */
#include "plain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static uint64_t seed = 1;

typedef enum shape { VEC3, VEC2, VECS, DUP, CONV, RED, BRCB, TRANS, GATHER, SCALAR } shape;
typedef struct row {
  const char *name;
  shape shape;
  rd_npu_type to, from;
  rd_npu_arch arch;
} row;

typedef struct setup {
  row r;
  uint32_t dst, src0, src1, repeat;
  uint32_t blk[3], rep[3];
  uint64_t hi, lo;
  float scalar;
  int32_t integer;
  uint32_t extra[2];
} setup;

static uint32_t ub_bytes(rd_npu_arch a) { return a == RD_NPU_910B ? 196608 : CHECK_MEMORY; }

#define IS(n) (strcmp(t->r.name, n) == 0)
static void issue_vec3(rd_npu_core *c, const setup *t) {
#define CALL(op)                                                                                   \
  if (IS(#op))                                                                                     \
    op(t->r.to, UB(t->dst), UB(t->src0), UB(t->src1), t->repeat, t->blk[0], t->blk[1], t->blk[2],  \
       t->rep[0], t->rep[1], t->rep[2]);
  CALL(vadd) CALL(vsub) CALL(vmul) CALL(vdiv) CALL(vmax) CALL(vmin) CALL(vmla) CALL(vmadd)
#undef CALL
}
static void issue_vec2(rd_npu_core *c, const setup *t) {
#define AT t->repeat, t->blk[0], t->blk[1], t->rep[0], t->rep[1]
#define CALL(op)                                                                                   \
  if (IS(#op)) op(t->r.to, UB(t->dst), UB(t->src0), AT);
  CALL(vsqrt)
  CALL(vexp)
#undef CALL
#define CALL(op)                                                                                   \
  if (IS(#op)) op(t->r.to, UB(t->dst), UB(t->src0), x, AT);
  rd_npu_scalar x = t->r.to == RD_NPU_S32 ? rd_npu_s32(t->integer) : rd_npu_f32(t->scalar);
  CALL(vmuls)
  CALL(vadds)
  CALL(vmaxs)
  CALL(vmins)
  CALL(vaxpy)
#undef CALL
#define CALL(op)                                                                                   \
  if (IS(#op)) op(UB(t->dst), UB(t->src0), AT);
  CALL(vconv_f162f32)
  CALL(vconv_f322f16)
  CALL(vconv_bf162f32)
  CALL(vconv_f322bf16)
#undef CALL
  if (IS("vector_dup")) vector_dup(t->r.to, UB(t->dst), x, t->repeat, t->blk[0], t->rep[0]);
}
static void issue_other(rd_npu_core *c, const setup *t) {
  if (IS("vcadd"))
    vcadd(t->r.to, UB(t->dst), UB(t->src0), t->repeat, t->rep[0], t->blk[1], t->rep[1]);
  if (IS("vcgadd"))
    vcgadd(t->r.to, UB(t->dst), UB(t->src0), t->repeat, t->rep[0], t->blk[1], t->rep[1]);
  if (IS("vbrcb")) vbrcb(t->r.to, UB(t->dst), UB(t->src0), t->repeat, t->blk[0], t->rep[0]);
  if (IS("vtranspose")) vtranspose(UB(t->dst), UB(t->src0));
  if (IS("v4dtrans"))
    v4dtrans(t->r.to, UB(t->dst), UB(t->src0), t->extra[0], t->extra[1], t->repeat & 1);
  if (IS("vgather"))
    vgather(t->r.to, UB(t->dst), UB(t->src0), UB(t->src1), t->extra[0], t->repeat, t->rep[0]);
  if (IS("copy_ubuf_to_ubuf"))
    copy_ubuf_to_ubuf(UB(t->dst), UB(t->src0), t->repeat, t->extra[0], t->extra[1], t->blk[0]);
}

static void kernel(rd_npu_core *c, const void *args) {
  const setup *t = args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, ub_bytes(t->r.arch) / 32, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  set_vector_mask(t->hi, t->lo);
  if (t->r.shape == VEC3)
    issue_vec3(c, t);
  else if (t->r.shape == VEC2 || t->r.shape == VECS || t->r.shape == DUP || t->r.shape == CONV)
    issue_vec2(c, t);
  else
    issue_other(c, t);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(0), 1, ub_bytes(t->r.arch) / 32, 0, 0);
  pipe_barrier(PIPE_ALL);
}

/* ---- plain definitions
 * ------------------------------------------------------------------------------ */

static uint32_t lane_byte(uint32_t base, uint32_t r, uint32_t l, uint32_t rep, uint32_t blk,
                          uint32_t size) {
  uint32_t e = 32 / size;
  return base + 32 * (r * rep + (l / e) * blk) + (l % e) * size;
}

static bool active(const setup *t, uint32_t l) {
  return (l < 64 ? t->lo >> l : t->hi >> (l - 64)) & 1;
}

/* A result of the architecture: the 310P has neither infinity nor NaN in f16. */
static void put(const setup *t, uint8_t *p, double x) {
  plain_put(p, t->r.to, x);
  if (t->r.to == RD_NPU_F16 && t->r.arch == RD_NPU_310P && t->r.shape != DUP) plain_saturate(p);
}

static double nan_max(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a > b ? a : b; }
static double nan_min(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a < b ? a : b; }

/* One fused rounding to the type: exact in long double for these operand ranges or fmaf for f32. */
static double fused(double a, double b, double d, rd_npu_type t) {
  if (t == RD_NPU_F32) return (double)fmaf((float)a, (float)b, (float)d);
  return (double)((long double)a * (long double)b + (long double)d);
}

static int32_t integer_op(const setup *t, int32_t a, int32_t b) {
  uint32_t x = (uint32_t)a, y = (uint32_t)b;
  if (IS("vadd") || IS("vadds")) return (int32_t)(x + y);
  if (IS("vsub")) return (int32_t)(x - y);
  if (IS("vmul") || IS("vmuls")) return (int32_t)(x * y);
  if (IS("vmax") || IS("vmaxs")) return a > b ? a : b;
  return a < b ? a : b;
}

static double float_op(const setup *t, double a, double b, double d) {
  double s = t->r.to == RD_NPU_F16 ? plain_f16(plain_to_f16((double)t->scalar)) : (double)t->scalar;
  if (IS("vadd")) return a + b;
  if (IS("vsub")) return a - b;
  if (IS("vmul")) return a * b;
  if (IS("vdiv")) return a / b;
  if (IS("vmax")) return nan_max(a, b);
  if (IS("vmin")) return nan_min(a, b);
  if (IS("vmla")) return fused(a, b, d, t->r.to);
  if (IS("vmadd")) return fused(a, d, b, t->r.to);
  if (IS("vsqrt")) return sqrt(a);
  if (IS("vexp")) return (double)expl((long double)a);
  if (IS("vmuls")) return a * s;
  if (IS("vadds")) return a + s;
  if (IS("vmaxs")) return nan_max(a, s);
  if (IS("vmins")) return nan_min(a, s);
  if (IS("vaxpy")) return fused(s, a, d, t->r.to);
  if (IS("vector_dup")) return s;
  return a; /* conversions */
}

static void plain_lanes(const setup *t, const uint8_t *in, uint8_t *out) {
  uint32_t to = plain_size(t->r.to), from = plain_size(t->r.from),
           lanes = to == 4 || from == 4 ? 64 : 128;
  for (uint32_t r = 0; r < t->repeat; r++)
    for (uint32_t l = 0; l < lanes; l++) {
      if (!active(t, l)) continue;
      uint32_t d = lane_byte(t->dst, r, l, t->rep[0], t->blk[0], to);
      uint32_t a = lane_byte(t->src0, r, l, t->rep[1], t->blk[1], from);
      uint32_t b = lane_byte(t->src1, r, l, t->rep[2], t->blk[2], from);
      if (t->r.to == RD_NPU_S32) {
        int32_t x, y = t->integer, z;
        memcpy(&x, in + a, 4);
        if (t->r.shape == VEC3) memcpy(&y, in + b, 4);
        z = t->r.shape == DUP ? y : integer_op(t, x, y);
        memcpy(out + d, &z, 4);
        continue;
      }
      bool src = t->r.shape != DUP, two = t->r.shape == VEC3;
      put(t, out + d,
          float_op(t, src ? plain_get(in + a, t->r.from) : 0,
                   two ? plain_get(in + b, t->r.from) : 0, plain_get(in + d, t->r.to)));
    }
}

static double tree(const setup *t, const double *x, uint32_t n) {
  if (n == 1) return x[0];
  /* adjacent pairs at every level = halves of a power of two, recursively */
  double s = tree(t, x, n / 2) + tree(t, x + n / 2, n / 2);
  uint8_t rounded[4];
  put(t, rounded, s);
  return plain_get(rounded, t->r.to);
}

static void plain_reduce(const setup *t, const uint8_t *in, uint8_t *out) {
  uint32_t size = plain_size(t->r.to), lanes = 256 / size, groups = IS("vcgadd") ? 8 : 1;
  for (uint32_t r = 0; r < t->repeat; r++) {
    double x[128];
    for (uint32_t l = 0; l < lanes; l++)
      x[l] = active(t, l)
                 ? plain_get(in + lane_byte(t->src0, r, l, t->rep[1], t->blk[1], size), t->r.to)
                 : 0;
    for (uint32_t g = 0; g < groups; g++)
      put(t, out + t->dst + r * t->rep[0] * groups * size + g * size,
          tree(t, x + g * (lanes / groups), lanes / groups));
  }
}

static void plain_other(const setup *t, const uint8_t *in, uint8_t *out) {
  uint32_t size = plain_size(t->r.to);
  if (IS("vbrcb"))
    for (uint32_t r = 0; r < t->repeat; r++)
      for (uint32_t j = 0; j < 8; j++)
        for (uint32_t e = 0; e < 32 / size; e++)
          memcpy(out + t->dst + 32 * (r * t->rep[0] + j * t->blk[0]) + e * size,
                 in + t->src0 + (8 * r + j) * size, size);
  if (IS("vtranspose"))
    for (uint32_t i = 0; i < 16; i++)
      for (uint32_t j = 0; j < 16; j++)
        memcpy(out + t->dst + 2 * (16 * j + i), in + t->src0 + 2 * (16 * i + j), 2);
  if (IS("v4dtrans"))
    for (uint32_t m = 0; m < t->extra[0]; m++)
      for (uint32_t ch = 0; ch < t->extra[1]; ch++) {
        uint32_t chw = (ch * t->extra[0] + m) * size, hwc = (m * t->extra[1] + ch) * size;
        if (t->repeat & 1)
          memcpy(out + t->dst + hwc, in + t->src0 + chw, size);
        else
          memcpy(out + t->dst + chw, in + t->src0 + hwc, size);
      }
  if (IS("vgather"))
    for (uint32_t r = 0; r < t->repeat; r++)
      for (uint32_t l = 0; l < 256 / size; l++) {
        uint32_t offset;
        if (!active(t, l)) continue;
        memcpy(&offset, in + t->src0 + 4 * (r * (256 / size) + l), 4);
        memcpy(out + lane_byte(t->dst, r, l, t->rep[0], 1, size), in + t->src1 + offset, size);
      }
  if (IS("copy_ubuf_to_ubuf"))
    for (uint32_t i = 0; i < t->repeat; i++)
      memcpy(out + t->dst + i * (t->extra[0] + t->blk[0]) * 32,
             in + t->src0 + i * (t->extra[0] + t->extra[1]) * 32, t->extra[0] * 32);
}

/* ---- random set-ups
 * ----------------------------------------------------------------------------------- */

static void random_setup(setup *t, const row *r, uint64_t *s, uint8_t *image) {
  memset(t, 0, sizeof *t);
  t->r = *r;
  t->repeat = 1 + rng_below(s, 9);
  if (rng_below(s, 8) == 0) t->repeat = 0;
  uint32_t to = plain_size(r->to), from = plain_size(r->from);
  uint32_t blocks_to = to == 2 && from == 4 ? 4 : 8, blocks_from = from == 2 && to == 4 ? 4 : 8;
  for (int k = 0; k < 3; k++) {
    uint32_t blocks = k ? blocks_from : blocks_to;
    static const uint32_t steps[] = {1, 1, 1, 2, 3, 16};
    t->blk[k] = steps[rng_below(s, 6)];
    if (k && rng_below(s, 6) == 0) t->blk[k] = 0;
    t->rep[k] = rng_below(s, 2) ? blocks * t->blk[k] : blocks * t->blk[k] + rng_below(s, 40);
    if (k && rng_below(s, 6) == 0) t->rep[k] = 0;
  }
  t->dst = 32 * rng_below(s, 64);
  t->src0 = 80 * 1024 + 32 * rng_below(s, 64);
  t->src1 = 160 * 1024 + 32 * rng_below(s, 64);
  bool same = to == from && (r->shape == VEC3 || r->shape == VEC2 || r->shape == VECS);
  if (same && rng_below(s, 3) == 0) t->src0 = t->dst, t->blk[1] = t->blk[0], t->rep[1] = t->rep[0];
  if (same && rng_below(s, 4) == 0) t->src1 = t->dst, t->blk[2] = t->blk[0], t->rep[2] = t->rep[0];
  t->lo = rng_below(s, 2) ? ~0ull : rng_next(s) | 1;
  t->hi = rng_below(s, 2) ? ~0ull : rng_next(s);
  bool all = !~t->lo && !~t->hi; /* the full register serves every type */
  if ((to == 4 || from == 4) && !all) t->hi = 0;
  t->scalar = (float)((double)(int64_t)rng_next(s) * 0x1p-61);
  t->integer = (int32_t)rng_next(s);
  for (uint32_t i = 0; i < CHECK_MEMORY; i += from) plain_random(s, image + i, r->from);
  if (r->shape == TRANS)
    t->extra[0] = 16 * (1 + rng_below(s, 12)), t->extra[1] = 1 + rng_below(s, 20), t->repeat++;
  if (r->shape == GATHER) {
    t->extra[0] = 4096, t->rep[0] = 8;
    for (uint32_t i = 0; i < 8 * 128 * 2; i++) {
      uint32_t offset = rng_below(s, 4096 / to) * to;
      memcpy(image + t->src0 + 4 * i, &offset, 4);
    }
  }
  if (strcmp(r->name, "copy_ubuf_to_ubuf") == 0)
    t->extra[0] = 1 + rng_below(s, 30), t->extra[1] = rng_below(s, 9), t->blk[0] = rng_below(s, 9);
}

static bool compare(const setup *t, const uint8_t *got, const uint8_t *expected) {
  uint32_t size = plain_size(t->r.to);
  for (uint32_t i = 0; i < ub_bytes(t->r.arch); i += size)
    if (!plain_same(got + i, expected + i, t->r.to)) {
      print_error("%s (type %d): byte %u: got %.9g, expected %.9g; dst %u src %u %u repeat %u blk "
                  "%u %u %u rep %u %u %u mask %llx %llx\n",
                  t->r.name, t->r.to, i, plain_get(got + i, t->r.to),
                  plain_get(expected + i, t->r.to), t->dst, t->src0, t->src1, t->repeat, t->blk[0],
                  t->blk[1], t->blk[2], t->rep[0], t->rep[1], t->rep[2], (unsigned long long)t->hi,
                  (unsigned long long)t->lo);
      return false;
    }
  return true;
}

static const row rows[] = {
#define FLOATS(n, s)                                                                               \
  {n, s, RD_NPU_F16, RD_NPU_F16, RD_NPU_310P}, {n, s, RD_NPU_F16, RD_NPU_F16, RD_NPU_950}, {       \
    n, s, RD_NPU_F32, RD_NPU_F32, RD_NPU_310P                                                      \
  }
#define ARITH(n, s)                                                                                \
  FLOATS(n, s), { n, s, RD_NPU_S32, RD_NPU_S32, RD_NPU_310P }
    ARITH("vadd", VEC3),
    ARITH("vsub", VEC3),
    ARITH("vmul", VEC3),
    ARITH("vmax", VEC3),
    ARITH("vmin", VEC3),
    FLOATS("vdiv", VEC3),
    FLOATS("vmla", VEC3),
    FLOATS("vmadd", VEC3),
    FLOATS("vsqrt", VEC2),
    FLOATS("vexp", VEC2),
    ARITH("vmuls", VECS),
    ARITH("vadds", VECS),
    ARITH("vmaxs", VECS),
    ARITH("vmins", VECS),
    FLOATS("vaxpy", VECS),
    ARITH("vector_dup", DUP),
    {"vector_dup", DUP, RD_NPU_BF16, RD_NPU_BF16, RD_NPU_950},
    {"vconv_f162f32", CONV, RD_NPU_F32, RD_NPU_F16, RD_NPU_310P},
    {"vconv_f322f16", CONV, RD_NPU_F16, RD_NPU_F32, RD_NPU_310P},
    {"vconv_f322f16", CONV, RD_NPU_F16, RD_NPU_F32, RD_NPU_910B},
    {"vconv_bf162f32", CONV, RD_NPU_F32, RD_NPU_BF16, RD_NPU_950},
    {"vconv_f322bf16", CONV, RD_NPU_BF16, RD_NPU_F32, RD_NPU_950},
    FLOATS("vcadd", RED),
    FLOATS("vcgadd", RED),
    {"vbrcb", BRCB, RD_NPU_F32, RD_NPU_F32, RD_NPU_950},
    {"vbrcb", BRCB, RD_NPU_F16, RD_NPU_F16, RD_NPU_950},
    {"vtranspose", TRANS, RD_NPU_F16, RD_NPU_F16, RD_NPU_310P},
    {"v4dtrans", TRANS, RD_NPU_F16, RD_NPU_F16, RD_NPU_310P},
    {"v4dtrans", TRANS, RD_NPU_F32, RD_NPU_F32, RD_NPU_310P},
    {"vgather", GATHER, RD_NPU_F16, RD_NPU_F16, RD_NPU_310P},
    {"vgather", GATHER, RD_NPU_F32, RD_NPU_F32, RD_NPU_310P},
    {"vtranspose", TRANS, RD_NPU_F16, RD_NPU_F16, RD_NPU_910B},
    {"v4dtrans", TRANS, RD_NPU_F32, RD_NPU_F32, RD_NPU_910B},
    {"vgather", GATHER, RD_NPU_F16, RD_NPU_F16, RD_NPU_910B},
    {"copy_ubuf_to_ubuf", TRANS, RD_NPU_F16, RD_NPU_F16, RD_NPU_310P},
};

static void every_instruction(void **state) {
  (void)state;
  uint8_t *in = malloc(CHECK_MEMORY), *out = malloc(CHECK_MEMORY), *expected = malloc(CHECK_MEMORY);
  assert_true(in && out && expected);
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
    for (int trial = 0; trial < 12; trial++) {
      setup t;
      uint64_t s = seed * 1000003 + k * 101 + (uint64_t)trial;
      random_setup(&t, &rows[k], &s, in);
      memset(out, 0x55, CHECK_MEMORY);
      memcpy(expected, in, CHECK_MEMORY);
      if (t.r.shape == RED)
        plain_reduce(&t, in, expected);
      else if (t.r.shape >= BRCB)
        plain_other(&t, in, expected);
      else
        plain_lanes(&t, in, expected);
      rd_npu_tensor gm[2] = {{"in", in, CHECK_MEMORY, 2, RD_NPU_IN},
                             {"out", out, CHECK_MEMORY, 2, RD_NPU_OUT}};
      bool split = t.r.arch != RD_NPU_310P;
      rd_npu_launch l = {
          sizeof l, t.r.arch, split ? RD_NPU_VECTOR : RD_NPU_COUPLED, 0, 1, kernel, &t, gm, 2};
      rd_npu_options o = {.size = sizeof o, .mode = split ? RD_NPU_VALUES : RD_NPU_CHECKED};
      rd_npu_report *report;
      rd_npu_status st = rd_npu_run(&l, &o, &report);
      if (st != RD_NPU_OK) {
        char *text = rd_npu_report_text(report);
        print_error("%s trial %d: %s\n", t.r.name, trial, text);
        free(text);
      }
      rd_npu_report_free(report);
      assert_int_equal(st, RD_NPU_OK);
      assert_true(compare(&t, out, expected));
    }
  free(in);
  free(out);
  free(expected);
}

/* In-order accumulation: dst = src1 with zero repeat strides adds the repeats one after the other.
 */
static void accumulate_kernel(rd_npu_core *c, const void *args) {
  (void)args;
  copy_gm_to_ubuf(UB(0), GM(0), 1, 64, 0, 0);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  vadd(F32, UB(0), UB(256), UB(0), 7, 1, 1, 1, 0, 8, 0);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(1), UB(0), 1, 8, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void accumulation_in_order(void **state) {
  (void)state;
  float in[512], out[64];
  for (int i = 0; i < 512; i++) in[i] = (float)(1 + i % 13) * (i % 2 ? 1e6f : 1e-3f);
  rd_npu_tensor gm[2] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                         {"out", out, sizeof out, 4, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, accumulate_kernel, NULL, gm, 2};
  rd_npu_report *r;
  assert_int_equal(rd_npu_run(&l, NULL, &r), RD_NPU_OK);
  rd_npu_report_free(r);
  for (int i = 0; i < 64; i++) {
    float x = in[i];
    for (int k = 1; k < 8; k++) x = in[64 * k + i] + x;
    assert_true(x == out[i]);
  }
}

static void scalar_kernel(rd_npu_core *c, const void *args) {
  (void)args;
  int64_t n = load_gm_int(S32, GM(1));
  float g = load_gm_float(F32, GM(0));
  copy_gm_to_ubuf(UB(0), GM(0), 1, 8, 0, 0);
  set_flag(PIPE_MTE2, PIPE_S, 3);
  wait_flag(PIPE_MTE2, PIPE_S, 3);
  rd_npu_scalar x = load_ub(F32, UB(4)), y = load_ub(F32, UB(8));
  rd_npu_scalar sum = sadd(F32, x, y), product = smul(F32, sum, g), less = scmp_lt(F32, x, y);
  for (int64_t i = 0; i < n; i++)
    store_ub(F32, UB(32 + 4 * (uint64_t)i), ssub(F32, product, (float)i));
  set_flag(PIPE_S, PIPE_V, 1);
  wait_flag(PIPE_S, PIPE_V, 1);
  vmuls(F32, UB(1024), UB(0), less, 1, 1, 1, 8, 8);
  vadds(F32, UB(1280), UB(0), product, 1, 1, 1, 8, 8);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_gm(GM(2), UB(1024), 1, 16, 0, 0);
  pipe_barrier(PIPE_ALL);
}

static void scalar_unit(void **state) {
  (void)state;
  float in[64], out[128];
  int32_t n[8] = {5};
  for (int i = 0; i < 64; i++) in[i] = 0.25f * (float)i + 3;
  rd_npu_tensor gm[3] = {{"in", in, sizeof in, 4, RD_NPU_IN},
                         {"n", n, sizeof n, 4, RD_NPU_IN},
                         {"out", out, sizeof out, 4, RD_NPU_OUT}};
  rd_npu_launch l = {sizeof l, RD_NPU_310P, RD_NPU_COUPLED, 0, 1, scalar_kernel, NULL, gm, 3};
  for (int kind = RD_NPU_EAGER; kind <= RD_NPU_RANDOM; kind++) {
    rd_npu_options o = {.size = sizeof o, .schedule = (rd_npu_schedule)kind, .seed = seed};
    rd_npu_report *r;
    memset(out, 0, sizeof out);
    assert_int_equal(rd_npu_run(&l, &o, &r), RD_NPU_OK);
    rd_npu_report_free(r);
    float product = (in[1] + in[2]) * in[0];
    for (int i = 0; i < 64; i++) {
      float x = i >= 8 && i < 13 ? product - (float)(i - 8) : in[i];
      assert_true(out[i] == x * 1.0f);
      assert_true(out[64 + i] == x + product);
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoull(argv[1], NULL, 0);
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_instruction),
                                     cmocka_unit_test(accumulation_in_order),
                                     cmocka_unit_test(scalar_unit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
