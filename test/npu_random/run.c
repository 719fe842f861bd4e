/* A random kernel issued to the model, and printed as the C it stands for. */
#include "kernel.h"

#include <inttypes.h>

const random_op_info random_ops[R_COUNT] = {
#define X(name, form, pipe, archs, types, from, to, traits)                                        \
  {#name, form, RD_NPU_PIPE_##pipe, archs, types, RD_NPU_##from, RD_NPU_##to, traits},
    RANDOM_OPS(X)
#undef X
};

/* One line per form: the call. */
#define P(n)                   s->p[n]
#define CALL(name, ...)        rd_npu_##name(c, at, __VA_ARGS__)
#define CALL_FLAG(name)        CALL(name, (rd_npu_pipe)s->src, (rd_npu_pipe)s->dst, s->id)
#define CALL_BARRIER(name)     CALL(name, (rd_npu_pipe)s->dst)
#define CALL_BURST(name)       CALL(name, s->d, s->a, P(0), P(1), P(2), P(3))
#define CALL_ALIGN_LOAD(name)  CALL_BURST(name)
#define CALL_ALIGN_STORE(name) CALL_BURST(name)
#define CALL_FRACTALS(name)    CALL(name, s->d, s->a, P(0), P(1), P(2), P(3), s->yes)
#define CALL_PRODUCT(name)     CALL(name, to, type, s->d, s->a, s->b, P(0), P(1), P(2), s->yes)
#define CALL_L0C_TO_UB(name)   CALL(name, to, type, s->d, s->a, P(0), P(1), P(2), P(3))
#define CALL_L0C_TO_GM(name)   CALL(name, to, s->d, s->a, P(0), P(1), P(2), P(3))
#define CALL_THREE(name)                                                                           \
  CALL(name, type, s->d, s->a, s->b, P(0), P(1), P(2), P(3), P(4), P(5), P(6))
#define CALL_TWO(name)          CALL(name, type, s->d, s->a, P(0), P(1), P(2), P(3), P(4))
#define CALL_SCALED(name)       CALL(name, type, s->d, s->a, x, P(0), P(1), P(2), P(3), P(4))
#define CALL_FILL(name)         CALL(name, type, s->d, x, P(0), P(1), P(2))
#define CALL_CONVERT(name)      CALL(name, s->d, s->a, P(0), P(1), P(2), P(3), P(4))
#define CALL_SUMS(name)         CALL(name, type, s->d, s->a, P(0), P(1), P(2), P(3))
#define CALL_SPREAD(name)       CALL(name, type, s->d, s->a, P(0), P(1), P(2))
#define CALL_TRANSPOSE(name)    CALL(name, s->d, s->a)
#define CALL_TRANSPOSE_4D(name) CALL(name, type, s->d, s->a, P(0), P(1), s->yes)
#define CALL_GATHER(name)       CALL(name, type, s->d, s->a, s->b, P(0), P(1), P(2))
#define CALL_S_GM(name)         (void)CALL(name, type, s->a)
#define CALL_S_LOAD(name)       value = CALL(name, type, s->a)
#define CALL_S_STORE(name)      CALL(name, type, s->d, x)
#define CALL_S_ARITHMETIC(name) value = CALL(name, type, x, y)

#define CALL_S_GET(name)                                                                           \
  value = (rd_npu_scalar) { 0, 0x3F000000u | (uint32_t)(CALL(name, s->a, P(0)) & 0x7FFFFF) }
#define CALL_S_PUT(name) CALL(name, s->d, 0x3FC0000000000000u | x.bits, P(0))

static rd_npu_scalar issue(rd_npu_core *c, rd_npu_site at, const step *s, rd_npu_scalar x,
                           rd_npu_scalar y) {
  rd_npu_type type = (rd_npu_type)s->type, to = (rd_npu_type)s->to;
  rd_npu_scalar value = s->imm;
  switch ((random_op)s->op) {
#define X(name, form, ...)                                                                         \
  case R_##name:                                                                                   \
    CALL_##form(name);                                                                             \
    break;
    RANDOM_OPS(X)
#undef X
  case R_COUNT:
    break;
  }
  return value;
}

static bool masked(const step *s) {
  unsigned f = random_ops[s->op].form;
  return (f >= THREE && f <= SUMS) || f == GATHER;
}

/* The site of step n is line n + 1 of "random". */
void run_kernel(rd_npu_core *c, const void *kernel) {
  const random_kernel *k = kernel;
  if (rd_npu_get_block_idx(c)) return; /* a vector launch has two programs at least */
  rd_npu_scalar value[MOST_STEPS] = {{0, 0}};
  for (uint32_t n = 0; n < k->count; n++) {
    const step *s = &k->list[n];
    rd_npu_site at = rd_npu_site_at(c, "random", (int)n + 1, 0);
    if (masked(s)) rd_npu_set_vector_mask(c, at, s->hi, s->lo);
    value[n] = issue(c, at, s, s->reg >= 0 ? value[s->reg] : s->imm,
                     s->reg2 >= 0 ? value[s->reg2] : s->imm);
  }
}

/* ------------------------------------------------------------------ as C */

static const char *const type_names[] = {"F16", "BF16", "F32", "S32", "S16", "S64"};

static void address(FILE *to, uint64_t a) {
  static const char *const buffers[] = {"GM", "L1", "L0A", "L0B", "L0C", "UB"};
  uint64_t buffer = a >> 60, offset = buffer ? a & ((1ull << 44) - 1) : a & ((1ull << 44) - 1);
  if (buffer)
    fprintf(to, ", %s(%" PRIu64 ")", buffers[buffer], offset);
  else
    fprintf(to, ", GM(%" PRIu64 ") + %" PRIu64, a >> 44, offset);
}

static void scalar(FILE *to, int reg, rd_npu_scalar x) {
  if (reg >= 0)
    fprintf(to, ", x%d", reg + 1);
  else if (x.kind == 1)
    fprintf(to, ", rd_npu_s32(%" PRId32 ")", (int32_t)x.bits);
  else
    fprintf(to, ", (rd_npu_scalar){%u, 0x%08" PRIx32 "}", x.kind, x.bits);
}

static const uint8_t numbers_of[] = {
    [BURST] = 4,     [ALIGN_LOAD] = 4,   [ALIGN_STORE] = 4, [FRACTALS] = 4, [PRODUCT] = 3,
    [L0C_TO_UB] = 4, [L0C_TO_GM] = 4,    [THREE] = 7,       [TWO] = 5,      [SCALED] = 5,
    [FILL] = 3,      [CONVERT] = 5,      [SUMS] = 4,        [SPREAD] = 3,   [TRANSPOSE_4D] = 2,
    [GATHER] = 3,    [S_ARITHMETIC] = 0, [S_GET] = 1,       [S_PUT] = 1};

static void arguments(FILE *to, const step *s, form f) {
  bool reads = f != FILL && f != S_STORE && f != S_ARITHMETIC && f != S_PUT;
  bool writes = f < S_GM || f == S_STORE || f == S_PUT;
  if (f == PRODUCT || f == L0C_TO_UB || f == L0C_TO_GM) fprintf(to, ", %s", type_names[s->to]);
  if (random_ops[s->op].types || f == PRODUCT || f == L0C_TO_UB || f == S_GM)
    fprintf(to, ", %s", type_names[s->type]);
  if (writes) address(to, s->d);
  if (reads) address(to, s->a);
  if (f == PRODUCT || f == THREE || f == GATHER) address(to, s->b);
  if (f == S_PUT) fprintf(to, ", 0x3FC0000000000000 | bits of");
  if (f == SCALED || f == FILL || f == S_STORE || f == S_ARITHMETIC || f == S_PUT)
    scalar(to, s->reg, s->imm);
  if (f == S_ARITHMETIC) scalar(to, s->reg2, s->imm);
  for (unsigned n = 0; n < numbers_of[f]; n++) fprintf(to, ", %" PRIu32, s->p[n]);
  if (f == FRACTALS || f == PRODUCT || f == TRANSPOSE_4D)
    fprintf(to, ", %s", s->yes ? "true" : "false");
}

void print_kernel(FILE *to, const random_kernel *k) {
  static const char *const kinds[] = {"COUPLED", "CUBE", "VECTOR"};
  static const char *const inserted[] = {"", ", auto_sync scalar", ", auto_sync all"};
  fprintf(to, "/* %s, %s%s%s */\nstatic void kernel(rd_npu_core *c, const void *args) {\n",
          rd_npu_arch_get(k->arch)->name, kinds[k->kind], inserted[k->auto_sync],
          k->binary ? ", binary flags" : "");
  for (uint32_t n = 0; n < k->count; n++) {
    const step *s = &k->list[n];
    form f = (form)random_ops[s->op].form;
    if (masked(s))
      fprintf(to, "          rd_npu_set_vector_mask(c, RD_SITE, 0x%" PRIx64 ", 0x%" PRIx64 ");\n",
              s->hi, s->lo);
    fprintf(to, "  /* %2u */ ", n + 1);
    if (f == S_GET) fprintf(to, "uint64_t x%u = ", n + 1);
    if (f == S_LOAD || f == S_ARITHMETIC) fprintf(to, "rd_npu_scalar x%u = ", n + 1);
    fprintf(to, "rd_npu_%s(c, RD_SITE", random_ops[s->op].name);
    if (f == FLAG)
      fprintf(to, ", PIPE_%s, PIPE_%s, %u", rd_npu_pipe_name((rd_npu_pipe)s->src),
              rd_npu_pipe_name((rd_npu_pipe)s->dst), s->id);
    else if (f == BARRIER)
      fprintf(to, ", PIPE_%s", rd_npu_pipe_name((rd_npu_pipe)s->dst));
    else
      arguments(to, s, f);
    fprintf(to, ");\n");
  }
  fprintf(to, "}\n");
}
