/* Random operations: addresses few enough to meet, shapes within the documented limits. */
#include "generate.h"

uint32_t below(uint64_t *s, uint32_t n) {
  uint64_t z = (*s += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ (z >> 31)) >> 32) % n;
}
static uint32_t odds(uint64_t *s, uint32_t n) { return below(s, n) == 0; }

unsigned pipes_of(rd_npu_core_kind kind) {
#define BIT(p) (1u << RD_NPU_PIPE_##p)
  if (kind == RD_NPU_VECTOR) return BIT(S) | BIT(V) | BIT(MTE2) | BIT(MTE3);
  unsigned both = BIT(S) | BIT(M) | BIT(MTE1) | BIT(MTE2) | BIT(MTE3);
  return kind == RD_NPU_CUBE ? both | BIT(FIX) : both | BIT(V);
#undef BIT
}

uint8_t pipe_of(const random_kernel *k, uint8_t op) {
  if (op == R_copy_matrix_cc_to_ubuf && k->arch != RD_NPU_310P) return RD_NPU_PIPE_FIX;
  return random_ops[op].pipe;
}

step blank(const random_kernel *k, random_op op) {
  return (step){.op = (uint8_t)op,
                .pipe = pipe_of(k, (uint8_t)op),
                .type = RD_NPU_F32,
                .to = RD_NPU_F32,
                .reg = -1,
                .reg2 = -1,
                .lo = ~0ull,
                .hi = ~0ull};
}

step burst(const random_kernel *k, random_op op, uint64_t d, uint64_t a, uint32_t blocks) {
  step s = blank(k, op);
  s.d = d, s.a = a, s.p[0] = 1, s.p[1] = blocks;
  return s;
}

/* Bytes an operand of a copy may use, and its base. */
typedef struct area {
  uint64_t base;
  uint32_t bytes;
} area;
static area window(unsigned buffer, bool write) {
  static const uint32_t size[] = {STATE_BYTES, L1_BYTES,  L0A_BYTES,
                                  L0B_BYTES,   L0C_BYTES, UB_WINDOW};
  if (!buffer && !write) return (area){RD_NPU_GM_ADDR(GM_IN, 0), IN_BYTES};
  return (area){buffer ? RD_NPU_ADDR(buffer, 0) : RD_NPU_GM_ADDR(GM_STATE, 0), size[buffer]};
}
/* A multiple of `grain` that leaves room for `need` bytes; mostly a multiple of 256. */
static uint64_t place(uint64_t *s, area w, uint32_t need, uint32_t grain) {
  uint32_t room = w.bytes - need;
  if (grain < 256 && !odds(s, 4)) grain = 256;
  return w.base + below(s, room / grain + 1) * grain;
}
static bool apart(uint64_t a, uint32_t an, uint64_t b, uint32_t bn) {
  return a + an <= b || b + bn <= a;
}

static bool draw_burst(const random_kernel *k, step *x, uint64_t *s) {
  const random_op_info *o = &random_ops[x->op];
  uint32_t n = 1 + odds(s, 3), len = 1 + below(s, 8), sg = below(s, 3), dg = below(s, 3);
  if (o->to == RD_NPU_L1) len = 1 + below(s, 24);
  area from = window(o->from, false), to = window(o->to, true);
  if (!o->from && odds(s, 3)) from = window(o->from, true); /* what the kernel stored */
  if (!k->wide && o->to == RD_NPU_L1) to.bytes = 2048;
  uint32_t need = 32 * (n * len + (n - 1) * sg), room = 32 * (n * len + (n - 1) * dg);
  x->a = place(s, from, need, 32), x->d = place(s, to, room, 32);
  x->p[0] = n, x->p[1] = len, x->p[2] = sg, x->p[3] = dg;
  return apart(x->a, need, x->d, room);
}

static bool draw_align(step *x, uint64_t *s) {
  bool load = x->op == R_copy_gm_to_ubuf_align;
  uint32_t n = 1 + odds(s, 3), len = 32 * (1 + below(s, 6)), gm_gap = 2 * below(s, 20),
           gap = below(s, 3);
  if (!load) len -= 2 * below(s, 16); /* loads of part blocks would leave padding uninitialised */
  uint32_t block = (len + 31) / 32 * 32, gm = n * len + (n - 1) * gm_gap,
           ub = n * block + (n - 1) * gap * 32;
  uint64_t g = place(s, window(RD_NPU_GM, !load || odds(s, 3)), gm, 2),
           u = place(s, window(RD_NPU_UB, true), ub, 32);
  x->d = load ? u : g, x->a = load ? g : u;
  x->p[0] = n, x->p[1] = len, x->p[2] = load ? gm_gap : gap, x->p[3] = load ? gap : gm_gap;
  return true;
}

static bool draw_cube(const random_kernel *k, step *x, form f, uint64_t *s) {
  uint32_t fractals = k->wide ? 12 : 4, b_fractals = k->wide ? 12 : 3;
  if (f == FRACTALS) {
    bool ca = x->op == R_load_cbuf_to_ca;
    uint32_t limit = ca ? 4 : b_fractals, n = 1 + below(s, ca ? 2 : k->wide && odds(s, 2) ? 10 : 2);
    uint32_t gap = n <= 2 ? odds(s, 4) : 0, at = below(s, limit - (n + (n - 1) * gap) + 1);
    x->p[0] = below(s, 2), x->p[1] = n, x->p[2] = 1 + (n <= 2 ? odds(s, 3) : 0), x->p[3] = gap;
    x->d = RD_NPU_ADDR(random_ops[x->op].to, 512 * at), x->a = RD_NPU_ADDR(RD_NPU_L1, 0);
    x->yes = odds(s, 3) && !(ca && k->arch == RD_NPU_950);
    return (x->p[0] + (n - 1) * x->p[2] + 1) * 512 <= (k->wide ? L1_BYTES : 2048u);
  }
  if (f == PRODUCT) {
    uint32_t m = 1 + odds(s, 3), n = k->wide && odds(s, 2) ? 9 + below(s, 3) : 1 + odds(s, 3),
             kk = 1 + odds(s, 4);
    if (m * n > fractals || m * kk > 4 || kk * n > b_fractals) return false;
    x->type = RD_NPU_F16, x->yes = odds(s, 2);
    x->p[0] = 16 * m, x->p[1] = 16 * kk, x->p[2] = 16 * n;
    x->d = RD_NPU_ADDR(RD_NPU_L0C, 1024 * below(s, fractals - m * n + 1));
    x->a = RD_NPU_ADDR(RD_NPU_L0A, 512 * below(s, 4 - m * kk + 1));
    x->b = RD_NPU_ADDR(RD_NPU_L0B, 512 * below(s, b_fractals - kk * n + 1));
    return true;
  }
  if (f == L0C_TO_UB) {
    uint32_t len = 1, n = 1 + odds(s, 3), sg = below(s, 2);
    x->to = odds(s, 2) ? RD_NPU_F16 : RD_NPU_F32;
    uint32_t need = n * len + (n - 1) * sg, block = x->to == RD_NPU_F16 ? 512 : 1024;
    if (n * block > UB_WINDOW) return false;
    x->a = RD_NPU_ADDR(RD_NPU_L0C, 1024 * below(s, fractals - need + 1));
    x->d = place(s, window(RD_NPU_UB, true), n * block, 32);
    x->p[0] = n, x->p[1] = len, x->p[2] = sg;
    return true;
  }
  uint32_t n = 1; /* L0C_TO_GM */
  x->to = odds(s, 2) ? RD_NPU_F16 : RD_NPU_F32;
  x->p[0] = 16, x->p[1] = 16 * n, x->p[2] = 16, x->p[3] = 16 * n + 2 * odds(s, 4);
  uint32_t bytes = 16 * x->p[3] * (x->to == RD_NPU_F16 ? 2 : 4);
  x->a = RD_NPU_ADDR(RD_NPU_L0C, 1024 * below(s, fractals - n + 1));
  x->d = place(s, window(RD_NPU_GM, true), bytes, 32);
  return true;
}

/* ------------------------------------------------------------------ vector */

static void draw_mask(step *x, uint64_t *s) {
  x->lo = x->hi = ~0ull;
  if (odds(s, 3)) x->hi = 0, x->lo = (1ull << (1 + below(s, 63))) - 1;
  if (odds(s, 8)) x->lo = 0xF0F0F0F0F0F0F0F0u, x->hi = 0xFF00FF00FF00FF00u;
}
static uint8_t draw_type(const random_kernel *k, unsigned types, uint64_t *s) {
  if (!rd_npu_arch_get(k->arch)->bf16) types &= ~OF(BF16);
  for (;;) {
    uint32_t t = below(s, 6);
    if (types >> t & 1) return (uint8_t)t;
  }
}
static void draw_scalar(const random_kernel *k, step *x, uint64_t *s) {
  float f = 0.25f + (float)below(s, 1000) * 0.001f;
  x->imm = x->type == RD_NPU_S32 || x->type == RD_NPU_S16 ? rd_npu_s32((int32_t)below(s, 30000) + 3)
                                                          : rd_npu_f32(f);
  for (uint32_t n = 0; n < k->count; n++) {
    unsigned g = random_ops[k->list[n].op].form;
    if ((g == S_LOAD || g == S_ARITHMETIC ||
         (g == S_GET && x->type != RD_NPU_S32 && x->type != RD_NPU_S16)) &&
        (k->list[n].type == x->type || g == S_GET) && odds(s, 2))
      x->reg = (int8_t)n;
  }
}

/* Blocks from a base that `repeats` of 8 blocks (or 4, of the narrow side of a conversion) take. */
typedef struct pattern {
  uint64_t at;
  uint32_t blk, rep, blocks;
} pattern;
static pattern draw_pattern(uint64_t *s, uint32_t per_repeat, uint32_t repeats, bool write) {
  pattern p = {0, 1, per_repeat, 0};
  if (odds(s, 6)) p.blk = 2;
  if (!write && odds(s, 10)) p.blk = 0;
  p.rep = per_repeat * (p.blk ? p.blk : 1);
  if (!write && odds(s, 10)) p.rep = odds(s, 2) ? 0 : 1;
  p.blocks = (repeats - 1) * p.rep + (per_repeat - 1) * p.blk + 1;
  p.at = place(s, window(RD_NPU_UB, true), 32 * p.blocks, 32);
  return p;
}
static bool may_lie(const pattern *a, const pattern *d) {
  if (a->at == d->at && a->blk == d->blk && a->rep == d->rep) return true;
  return apart(a->at, 32 * a->blocks, d->at, 32 * d->blocks);
}

static bool draw_lanes(const random_kernel *k, step *x, form f, uint64_t *s) {
  uint32_t n = 1 + odds(s, 4), dn = 8, an = 8;
  if (random_ops[x->op].types) x->type = draw_type(k, random_ops[x->op].types, s);
  if (f == CONVERT) {
    bool widens = x->op == R_vconv_f162f32 || x->op == R_vconv_bf162f32;
    dn = widens ? 8 : 4, an = widens ? 4 : 8;
    x->lo = ~0ull;
  }
  draw_mask(x, s);
  if (f == CONVERT || x->type == RD_NPU_F32 || x->type == RD_NPU_S32) x->hi = 0;
  pattern d = draw_pattern(s, dn, n, true), a = draw_pattern(s, an, n, false),
          b = draw_pattern(s, 8, n, false);
  if (dn == an && odds(s, 3)) a = d; /* in place */
  if (odds(s, 5)) b = d;
  if (f == FILL) a = d;
  if (f != THREE) b = a;
  x->d = d.at, x->a = a.at, x->b = b.at, x->p[0] = n;
  if (f == THREE) {
    uint32_t p[7] = {n, d.blk, a.blk, b.blk, d.rep, a.rep, b.rep};
    for (unsigned i = 0; i < 7; i++) x->p[i] = p[i];
  } else if (f == FILL) {
    x->p[1] = d.blk, x->p[2] = d.rep;
  } else {
    x->p[1] = d.blk, x->p[2] = a.blk, x->p[3] = d.rep, x->p[4] = a.rep;
  }
  if (f == SCALED || f == FILL) draw_scalar(k, x, s);
  bool narrow = f == CONVERT && (a.at == d.at);
  return may_lie(&a, &d) && may_lie(&b, &d) && !narrow;
}

static bool draw_odd(const random_kernel *k, step *x, form f, uint64_t *s) {
  area ub = window(RD_NPU_UB, true);
  uint32_t size;
  if (random_ops[x->op].types) x->type = draw_type(k, random_ops[x->op].types, s);
  size = x->type == RD_NPU_F32 || x->type == RD_NPU_S32 ? 4 : 2;
  uint32_t need = 512, room = 512, n = 1 + odds(s, 3);
  x->p[0] = n;
  if (f == SUMS) { /* repeat, destination stride in sums, source block and repeat stride */
    draw_mask(x, s);
    if (size == 4) x->hi = 0;
    pattern a = draw_pattern(s, 8, n, false);
    x->a = a.at, x->p[1] = 1 + odds(s, 3), x->p[2] = a.blk, x->p[3] = a.rep;
    need = 32 * a.blocks, room = ((n - 1) * x->p[1] + 1) * (x->op == R_vcadd ? 1 : 8) * size;
    x->d = place(s, ub, room, 32);
    return apart(x->a, need, x->d, room);
  }
  if (f == SPREAD) {
    need = 8 * n * size, room = 32 * 8 * n;
    x->p[1] = 1, x->p[2] = 8;
  } else if (f == TRANSPOSE_4D) {
    x->p[0] = 16, x->p[1] = 1 + below(s, 6), x->yes = odds(s, 2);
    need = room = x->p[0] * x->p[1] * size;
  } else if (f == GATHER) { /* offsets are laid out by the frame: multiples of 4 below 128 */
    draw_mask(x, s);
    if (size == 4) x->hi = 0;
    x->p[0] = 128, x->p[1] = 1, x->p[2] = 8;
    x->d = place(s, ub, 256, 32), x->b = place(s, ub, 128, 32);
    x->a = RD_NPU_ADDR(RD_NPU_UB, UB_OFFSETS);
    return apart(x->b, 128, x->d, 256) && k->arch == RD_NPU_310P;
  }
  x->d = place(s, ub, room, 32), x->a = place(s, ub, need, 32);
  return apart(x->a, need, x->d, room);
}

static bool draw_s(const random_kernel *k, step *x, form f, uint64_t *s) {
  if (f == S_GM) {
    x->type = x->op == R_load_gm_int ? RD_NPU_S32 : RD_NPU_F32;
    x->a = RD_NPU_GM_ADDR(GM_IN, 4 * below(s, 100));
    return true;
  }
  x->type = odds(s, 2) ? RD_NPU_F32 : RD_NPU_S32;
  x->p[0] = 4;
  uint64_t at = place(s, window(RD_NPU_UB, true), 32, 32) + (odds(s, 3) ? 4 * below(s, 8) : 0);
  if (f == S_GET || f == S_PUT) {
    x->p[0] = 1u << below(s, 4);
    at += x->p[0] * below(s, 32 / x->p[0]) - at % 32;
  }
  x->a = x->d = at;
  x->type = f == S_GET || f == S_PUT ? RD_NPU_F32 : x->type;
  if (f == S_PUT) x->imm = rd_npu_s32((int32_t)below(s, 1 << 30));
  if (f != S_GET && f != S_PUT) draw_scalar(k, x, s);
  if (f == S_ARITHMETIC) {
    for (uint32_t n = 0; n < k->count; n++)
      if (random_ops[k->list[n].op].form == S_LOAD && k->list[n].type == x->type)
        x->reg2 = (int8_t)n;
  }
  if (f == S_LOAD) x->reg = -1;
  return true;
}

step draw_operation(const random_kernel *k, uint64_t *s) {
  unsigned pipes = pipes_of(k->kind);
  for (;;) {
    random_op op = (random_op)(R_copy_gm_to_ubuf + below(s, R_COUNT - R_copy_gm_to_ubuf));
    if (odds(s, 2)) op = (random_op)(R_copy_gm_to_ubuf + below(s, R_vadd + 1 - R_copy_gm_to_ubuf));
    if (k->wide && odds(s, 4)) op = R_mad;
    const random_op_info *o = &random_ops[op];
    form f = (form)o->form;
    step x = blank(k, op);
    if (!(o->archs >> k->arch & 1) || !(pipes >> x.pipe & 1)) continue;
    bool on_cube = o->from == RD_NPU_L1 || o->to == RD_NPU_L1 || o->from == RD_NPU_L0A ||
                   o->from == RD_NPU_L0C;
    bool on_ub = o->to == RD_NPU_UB || o->from == RD_NPU_UB;
    if (on_cube && !k->cube) continue;
    if (on_ub && k->kind == RD_NPU_CUBE && k->arch == RD_NPU_910B && f != S_GM) continue;
    bool ok = f == BURST                            ? draw_burst(k, &x, s)
              : f == ALIGN_LOAD || f == ALIGN_STORE ? draw_align(&x, s)
              : f >= FRACTALS && f <= L0C_TO_GM     ? draw_cube(k, &x, f, s)
              : f >= THREE && f <= CONVERT          ? draw_lanes(k, &x, f, s)
              : f >= SUMS && f <= GATHER            ? draw_odd(k, &x, f, s)
                                                    : draw_s(k, &x, f, s);
    if (ok) return x;
  }
}
