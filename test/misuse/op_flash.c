/* Mistakes with flash_kda and flash_kda_metadata. SPDX-License-Identifier: Apache-2.0 */
#include "op_fixture.h"

typedef struct flash_fix {
  op_fix op;
  rd_flash_kda_params f;
  rd_flash_kda_metadata_params m;
  int64_t n; /* numbers of the metadata */
  int64_t *n_out;
} flash_fix;

static void *flash_make(void) {
  flash_fix *v = op_fix_make(sizeof *v);
  rd_flash_kda_params *f = &v->f;
  rd_flash_kda_init(f);
  f->q = op_input(RD_BF16, 4, SH(2, 1, 5, 128));
  f->k = op_input(RD_BF16, 4, SH(2, 1, 5, 128));
  f->v = op_input(RD_BF16, 4, SH(2, 2, 5, 128));
  f->g = op_input(RD_BF16, 4, SH(2, 2, 5, 128));
  f->beta = op_input(RD_BF16, 3, SH(2, 2, 5));
  tb state = op_zeros(RD_F32, 4, SH(2, 2, 128, 128));
  watch_add(&v->op.w, state.b);
  f->initial_state = state.t;
  f->A_log = op_input(RD_F32, 1, SH(2));
  f->dt_bias = op_input(RD_F32, 2, SH(2, 128));
  f->out = op_watched(&v->op, RD_BF16, 4, SH(2, 2, 5, 128));
  f->final_state = op_watched(&v->op, RD_F32, 4, SH(2, 2, 128, 128));
  rd_flash_kda_metadata_params *m = &v->m;
  rd_flash_kda_metadata_init(m);
  m->q = f->q;
  m->v = f->v;
  m->initial_state = f->initial_state;
  m->layout_qkv = RD_BNSD;
  m->cu_seqlens = op_ints(&v->op, 3, (int32_t[]){0, 5, 8});
  v->n = 0;
  v->n_out = &v->n;
  rd_context *c = cx_get(0, 2, EX_POOL);
  CK_OK(c, rd_flash_kda_metadata_size(c, m, &v->n));
  m->metadata = op_watched(&v->op, RD_I32, 1, SH(v->n));
  return v;
}
/* With metadata for lengths 5 and 3. */
static void *flash_scheduled(void) {
  flash_fix *v = flash_make();
  rd_context *c = cx_get(0, 2, EX_POOL);
  CK_OK(c, rd_flash_kda_metadata(c, &v->m));
  v->f.metadata = v->m.metadata;
  return v;
}
static rd_status flash(void *fixture) {
  flash_fix *v = fixture;
  return rd_flash_kda(v->op.cx, v->op.no_params ? NULL : &v->f);
}
static void flash_slips(void *fixture, slips *s) {
  flash_fix *v = fixture;
  SLIP("no context", RD_E_NULL, NULL, v->op.cx = NULL);
  SLIP("no params", RD_E_NULL, "params", v->op.no_params = true);
  SLIP("struct_size 1", RD_E_STRUCT_SIZE, "struct_size|params", v->f.struct_size = 1);
  SLIP("layout 9", RD_E_ENUM, "layout_qkv", v->f.layout_qkv = (rd_layout_qkv)9);
  SLIP("numerics 0", RD_E_ENUM, "numerics", v->f.numerics = (rd_numerics)0);
  SLIP("has_scale -1", RD_E_ENUM, "has_scale", v->f.has_scale = -1);
  SLIP("q absent", RD_E_NULL, "q", ABSENT(v->f.q));
  SLIP("k absent", RD_E_NULL, "k", ABSENT(v->f.k));
  SLIP("v absent", RD_E_NULL, "v", ABSENT(v->f.v));
  SLIP("g absent", RD_E_NULL, "g", ABSENT(v->f.g));
  SLIP("beta absent", RD_E_NULL, "beta", ABSENT(v->f.beta));
  SLIP("initial_state absent", RD_E_NULL, "initial_state", ABSENT(v->f.initial_state));
  SLIP("A_log absent", RD_E_NULL, "A_log", ABSENT(v->f.A_log));
  SLIP("dt_bias absent", RD_E_NULL, "dt_bias", ABSENT(v->f.dt_bias));
  SLIP("out absent", RD_E_NULL, "out", ABSENT(v->f.out));
  SLIP("final_state absent", RD_E_NULL, "final_state", ABSENT(v->f.final_state));
  SLIP("q f16", RD_E_DTYPE, "q", v->f.q.dtype = RD_F16);
  SLIP("g f32", RD_E_DTYPE, "g", v->f.g.dtype = RD_F32);
  SLIP("initial_state bf16", RD_E_DTYPE, "initial_state", v->f.initial_state.dtype = RD_BF16);
  SLIP("A_log bf16", RD_E_DTYPE, "A_log", v->f.A_log.dtype = RD_BF16);
  SLIP("out f32", RD_E_DTYPE, "out", v->f.out.dtype = RD_F32);
  SLIP("k of rank 3", RD_E_RANK, "k", v->f.k.rank = 3);
  SLIP("beta of rank 2", RD_E_RANK, "beta", v->f.beta.rank = 2);
  SLIP("k with other heads", RD_E_SHAPE, "k", v->f.k.shape[1] = 2);
  SLIP("q 64 wide", RD_E_SHAPE, "q", v->f.q.shape[3] = 64);
  SLIP("v with fewer tokens", RD_E_SHAPE, "v", v->f.v.shape[2] = 4);
  SLIP("g with fewer heads", RD_E_SHAPE, "g", v->f.g.shape[1] = 1);
  SLIP("initial_state with fewer heads", RD_E_SHAPE, "initial_state",
       v->f.initial_state.shape[1] = 1);
  SLIP("final_state of another batch", RD_E_SHAPE, "final_state", v->f.final_state.shape[0] = 1);
  SLIP("dt_bias 127 wide", RD_E_SHAPE, "dt_bias", v->f.dt_bias.shape[1] = 127);
  SLIP("k with gaps", RD_E_STRIDE, "k", v->f.k.stride[0] += 2);
  SLIP("out overlapping itself", RD_E_STRIDE, "out", v->f.out.stride[0] = 1);
  SLIP("heads not divisible", RD_E_HEADS, NULL, {
    rd_flash_kda_params *f = &v->f;
    int64_t three[4] = {2, 3, 5, 128};
    f->q = op_input(RD_BF16, 4, three);
    f->k = op_input(RD_BF16, 4, three);
  });
  SLIP("out on g", RD_E_ALIAS, "out", v->f.out.data = v->f.g.data);
  SLIP("final_state on part of initial_state", RD_E_ALIAS, "final_state",
       v->f.final_state.data = (float *)v->f.initial_state.data + 64);
  SLIP("final_state on dt_bias", RD_E_ALIAS, "final_state",
       v->f.final_state.data = v->f.dt_bias.data);
  SLIP("scale NaN", RD_E_SCALE, "scale", {
    v->f.has_scale = 1;
    v->f.scale = (double)NAN;
  });
  SLIP("lower_bound -6", RD_E_LOWER_BOUND, "lower_bound", v->f.lower_bound = -6);
  SLIP("lower_bound 1", RD_E_LOWER_BOUND, "lower_bound", v->f.lower_bound = 1);
}
static int32_t *meta(flash_fix *v) { return v->f.metadata.data; }
static void schedule_slips(void *fixture, slips *s) {
  flash_fix *v = fixture;
  SLIP("metadata without a type", RD_E_DTYPE, "metadata", UNTYPED(v->f.metadata));
  SLIP("metadata of floats", RD_E_DTYPE, "metadata", v->f.metadata.dtype = RD_F32);
  SLIP("metadata of rank 2", RD_E_RANK, "metadata", {
    v->f.metadata.rank = 2;
    v->f.metadata.shape[1] = v->f.metadata.stride[1] = 1;
  });
  SLIP("another mark", RD_E_METADATA, "metadata", meta(v)[0] ^= 1);
  SLIP("another version", RD_E_METADATA, "metadata", meta(v)[1] += 1);
  SLIP("metadata cut short", RD_E_METADATA, "metadata", v->f.metadata.shape[0]--);
  SLIP("a damaged last number", RD_E_METADATA, "metadata", meta(v)[v->n - 1] ^= 4);
  SLIP("metadata of shorter sequences", RD_E_METADATA, "metadata", {
    int64_t a[4] = {2, 1, 6, 128}, b[4] = {2, 2, 6, 128};
    rd_flash_kda_params *f = &v->f;
    f->q = op_input(RD_BF16, 4, a);
    f->k = op_input(RD_BF16, 4, a);
    f->v = op_input(RD_BF16, 4, b);
    f->g = op_input(RD_BF16, 4, b);
    f->beta = op_input(RD_BF16, 3, SH(2, 2, 6));
    f->out = op_input(RD_BF16, 4, b);
  });
  SLIP("metadata of another layout", RD_E_METADATA, "metadata", {
    int64_t a[4] = {2, 5, 1, 128}, b[4] = {2, 5, 2, 128};
    rd_flash_kda_params *f = &v->f;
    f->layout_qkv = RD_BSND;
    f->q = op_input(RD_BF16, 4, a);
    f->k = op_input(RD_BF16, 4, a);
    f->v = op_input(RD_BF16, 4, b);
    f->g = op_input(RD_BF16, 4, b);
    f->beta = op_input(RD_BF16, 3, SH(2, 5, 2));
    f->out = op_input(RD_BF16, 4, b);
  });
}
static void c_flash(void) {
  misuse_op("flash_kda", flash_slips, flash_make, flash);
  misuse_op("flash_kda with metadata", schedule_slips, flash_scheduled, flash);
}
/* Every number of the metadata is covered. */
static void damaged_metadata(void) {
  flash_fix *v = flash_scheduled();
  for (int64_t i = 0; i < v->n; i++)
    for (int bit = 0; bit < 32; bit += 7) {
      meta(v)[i] ^= (int32_t)(1u << bit);
      rd_status st = flash(v);
      CK(st == RD_E_METADATA, "bit %d of number %lld is not noticed: %s", bit, (long long)i,
         rd_status_name(st));
      meta(v)[i] ^= (int32_t)(1u << bit);
    }
  CK_OK(v->op.cx, flash(v));
  float a = 1, b = 1;
  ck_bits("(teeth need a comparison)", &a, &b, 1);
}

/* The check sum of a schedule: FNV-1a over its bytes, least significant first. */
static void seal(int32_t *words, int64_t n) {
  uint32_t h = 2166136261u;
  for (int64_t i = 0; i < 4 * (n - 1); i++)
    h = (h ^ ((uint32_t)words[i / 4] >> 8 * (i % 4) & 255u)) * 16777619u;
  memcpy(&words[n - 1], &h, sizeof h);
}
/* TND, three sequences of 5, 1 and 2 tokens. */
static flash_fix *packed(void) {
  flash_fix *v = flash_make();
  rd_flash_kda_params *f = &v->f;
  f->layout_qkv = v->m.layout_qkv = RD_TND;
  f->q = v->m.q = op_input(RD_BF16, 3, SH(8, 1, 128));
  f->k = op_input(RD_BF16, 3, SH(8, 1, 128));
  f->v = v->m.v = op_input(RD_BF16, 3, SH(8, 2, 128));
  f->g = op_input(RD_BF16, 3, SH(8, 2, 128));
  f->beta = op_input(RD_BF16, 2, SH(8, 2));
  f->initial_state = v->m.initial_state = op_input(RD_F32, 4, SH(3, 2, 128, 128));
  f->out = op_watched(&v->op, RD_BF16, 3, SH(8, 2, 128));
  f->final_state = op_watched(&v->op, RD_F32, 4, SH(3, 2, 128, 128));
  v->m.cu_seqlens = op_ints(&v->op, 4, (int32_t[]){0, 5, 6, 8});
  CK_OK(v->op.cx, rd_flash_kda_metadata_size(v->op.cx, &v->m, &v->n));
  v->m.metadata = op_watched(&v->op, RD_I32, 1, SH(v->n));
  CK_OK(v->op.cx, rd_flash_kda_metadata(v->op.cx, &v->m));
  f->metadata = v->m.metadata;
  return v;
}
/* Its last numbers replaced, with the right sum: they would become addresses. */
static void forge(flash_fix *v, const char *what, int64_t n, const int32_t *numbers) {
  int32_t *w = meta(v), before[4];
  memcpy(before, w + v->n - 1 - n, (size_t)n * sizeof *w);
  memcpy(w + v->n - 1 - n, numbers, (size_t)n * sizeof *w);
  seal(w, v->n);
  for (int j = 0; j < v->op.w.n; j++) memcpy(v->op.w.copy[j], v->op.w.b[j]->p, v->op.w.b[j]->bytes);
  refused(what, v->op.cx, flash(v), RD_E_METADATA, "metadata");
  watch_check(&v->op.w, what);
  memcpy(w + v->n - 1 - n, before, (size_t)n * sizeof *w);
  seal(w, v->n);
  CK_OK(v->op.cx, flash(v)); /* seal is right */
}
static void forged_metadata(void) {
  flash_fix *v = packed();
  forge(v, "starts that fall", 4, (int32_t[]){0, 6, 5, 8});
  forge(v, "starts that fall at the end", 4, (int32_t[]){0, 5, 9, 8});
  forge(v, "a first start of 1", 4, (int32_t[]){1, 5, 6, 8});
  forge(v, "a first start of -1", 4, (int32_t[]){-1, 5, 6, 8});
  forge(v, "an end before the last token", 4, (int32_t[]){0, 5, 6, 7});
  forge(v, "an end past the last token", 4, (int32_t[]){0, 5, 6, 9});
  v = flash_scheduled();
  forge(v, "a negative length", 2, (int32_t[]){5, -1});
  forge(v, "a length over S", 2, (int32_t[]){6, 3});
}

static rd_status metadata(void *fixture) {
  flash_fix *v = fixture;
  return rd_flash_kda_metadata(v->op.cx, v->op.no_params ? NULL : &v->m);
}
static rd_status metadata_size(void *fixture) {
  flash_fix *v = fixture;
  return rd_flash_kda_metadata_size(v->op.cx, v->op.no_params ? NULL : &v->m, v->n_out);
}
static void both_slips(void *fixture, slips *s) {
  flash_fix *v = fixture;
  SLIP("no context", RD_E_NULL, NULL, v->op.cx = NULL);
  SLIP("no params", RD_E_NULL, "params", v->op.no_params = true);
  SLIP("struct_size 0", RD_E_STRUCT_SIZE, "struct_size|params", v->m.struct_size = 0);
  SLIP("layout 0", RD_E_ENUM, "layout_qkv", v->m.layout_qkv = (rd_layout_qkv)0);
  SLIP("q absent", RD_E_NULL, "q", ABSENT(v->m.q));
  SLIP("v absent", RD_E_NULL, "v", ABSENT(v->m.v));
  SLIP("initial_state absent", RD_E_NULL, "initial_state", ABSENT(v->m.initial_state));
  SLIP("q f32", RD_E_DTYPE, "q", v->m.q.dtype = RD_F32);
  SLIP("v of rank 3", RD_E_RANK, "v", v->m.v.rank = 3);
  SLIP("v 64 wide", RD_E_SHAPE, "v", v->m.v.shape[3] = 64);
  SLIP("heads not divisible", RD_E_HEADS, NULL, {
    v->m.q.shape[1] = 3;
    v->m.q.stride[0] = 3 * 5 * 128;
  });
  SLIP("initial_state with more heads", RD_E_SHAPE, "initial_state",
       v->m.initial_state.shape[1] = 3);
  SLIP("cu_seqlens without a type", RD_E_DTYPE, "cu_seqlens", UNTYPED(v->m.cu_seqlens));
  SLIP("initial_state without a type", RD_E_DTYPE, "initial_state", UNTYPED(v->m.initial_state));
  SLIP("cu_seqlens of floats", RD_E_DTYPE, "cu_seqlens", v->m.cu_seqlens.dtype = RD_F32);
  SLIP("cu_seqlens of rank 2", RD_E_RANK, "cu_seqlens", v->m.cu_seqlens.rank = 2);
  SLIP("cu_seqlens too short", RD_E_SHAPE, "cu_seqlens", v->m.cu_seqlens.shape[0] = 2);
  SLIP("cu_seqlens from 2", RD_E_CU_START, "cu_seqlens", v->op.ints[0] = 2);
  SLIP("cu_seqlens falling", RD_E_CU_ORDER, "cu_seqlens", v->op.ints[2] = 4);
  SLIP("a length over S", RD_E_LENGTH, "cu_seqlens", v->op.ints[2] = 11);
}
static void meta_slips(void *fixture, slips *s) {
  flash_fix *v = fixture;
  SLIP("metadata absent", RD_E_NULL, "metadata", ABSENT(v->m.metadata));
  SLIP("metadata at null", RD_E_NULL, "metadata", v->m.metadata.data = NULL);
  SLIP("metadata i64", RD_E_DTYPE, "metadata", v->m.metadata.dtype = RD_I64);
  SLIP("metadata too short", RD_E_SHAPE, "metadata", v->m.metadata.shape[0]--);
  SLIP("metadata on cu_seqlens", RD_E_ALIAS, "metadata", v->m.metadata.data = v->m.cu_seqlens.data);
}
static void size_slips(void *fixture, slips *s) {
  flash_fix *v = fixture;
  SLIP("nowhere to put the size", RD_E_NULL, "n", v->n_out = NULL);
}
static void c_metadata(void) {
  misuse_op("flash_kda_metadata", both_slips, flash_make, metadata);
  misuse_op("flash_kda_metadata", meta_slips, flash_make, metadata);
  misuse_op("flash_kda_metadata_size", both_slips, flash_make, metadata_size);
  misuse_op("flash_kda_metadata_size", size_slips, flash_make, metadata_size);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"flash", c_flash, PT_QUICK},
      {"damaged_metadata", damaged_metadata, PT_QUICK},
      {"forged_metadata", forged_metadata, PT_QUICK},
      {"metadata", c_metadata, PT_QUICK},
  };
  return pt_main(argc, argv, "misuse_op_flash", cases, PT_LEN(cases));
}
