/* P1: every verb x gate x shape has the bits of the float specification, which is within the stated
 * bounds of the double oracle. SPDX-License-Identifier: Apache-2.0 */
#include "kit/world.h"

static void note(const rd_problem *p, int64_t T) {
  char s[320];
  pb_describe(p, s, sizeof s);
  pt_note("%s T=%lld", s, (long long)T);
}

typedef struct gate_kind {
  rd_gate gate;
  rd_gate_axis axis;
} gate_kind;
static const gate_kind gates[] = {
    {RD_GATE_NONE, RD_PER_HEAD},           {RD_GATE_LOG, RD_PER_HEAD},
    {RD_GATE_LOG, RD_PER_CHANNEL},         {RD_GATE_LOWER_BOUND, RD_PER_HEAD},
    {RD_GATE_LOWER_BOUND, RD_PER_CHANNEL}, {RD_GATE_SOFTPLUS, RD_PER_HEAD},
    {RD_GATE_SOFTPLUS, RD_PER_CHANNEL},    {RD_GATE_DECAY, RD_PER_HEAD},
    {RD_GATE_DECAY, RD_PER_CHANNEL},
};

static void one(rd_problem p, int64_t B, const int64_t *len, bool oracle) {
  size_t mark = mem_mark();
  note(&p, len[0]);
  world_all(data_make(&p, B, len), cx_get(0, 2, EX_POOL), NULL, oracle);
  mem_release(mark);
}

static void verbs_by_gates_by_shapes(void) {
  static const int64_t heads[][2] = {{2, 2}, {2, 4}, {1, 3}},
                       kv[][2] = {{64, 32}, {32, 48}, {16, 64}};
  static const int64_t len[3] = {5, 2, 4};
  for (size_t g = 0; g < PT_LEN(gates); g++)
    for (size_t h = 0; h < PT_LEN(heads); h++)
      for (size_t s = 0; s < PT_LEN(kv) && !pt_broken(); s++) {
        rd_problem p = pb_default();
        p.gate = gates[g].gate;
        p.gate_axis = gates[g].axis;
        p.Hk = heads[h][0];
        p.Hv = heads[h][1];
        p.K = kv[s][0];
        p.V = kv[s][1];
        one(p, 3, len, true);
      }
}

static void every_length(const gate_kind *g, bool all) {
  static const int64_t edges[] = {1,  2,  15,  16,  17,  31,  32,  33,  63,
                                  64, 65, 127, 128, 129, 191, 192, 193, 200};
  rd_problem p = pb_default();
  p.gate = g->gate;
  p.gate_axis = g->axis;
  p.Hk = 1;
  p.Hv = 2;
  p.K = 48;
  p.V = 24;
  for (int64_t i = 0; i < (all ? 200 : (int64_t)PT_LEN(edges)) && !pt_broken(); i++) {
    int64_t len = all ? i + 1 : edges[i];
    one(p, 1, &len, true);
  }
}

static void every_length_one_gate(void) { every_length(&gates[4], true); }

static void block_edges_other_gates(void) {
  for (size_t g = 0; g < PT_LEN(gates); g++) every_length(&gates[g], false);
}

static void every_length_every_gate(void) {
  for (size_t g = 0; g < PT_LEN(gates); g++) every_length(&gates[g], true);
}

/* Every choice at once, drawn; the oracle only where a relative error means something (a single
 * number v - S k may cancel to any extent). */
static void drawn(int64_t n) {
  for (int64_t i = 0; i < n && !pt_broken(); i++) {
    rd_problem p = pb_random();
    int64_t B = rng_int(1, 4), len[4];
    for (int j = 0; j < 4; j++) len[j] = rng_int(1, 9);
    bool big = p.K >= 15 && p.V >= 15;
    for (int j = 0; j < 4; j++) big = big && len[j] >= 2;
    one(p, B, len, big);
  }
}

static void drawn_few(void) { drawn(20); }
static void drawn_some(void) { drawn(250); }
static void drawn_many(void) { drawn(3000); }

static void sizes(const int64_t *k, size_t nk, const int64_t *v, size_t nv) {
  for (size_t i = 0; i < nk; i++)
    for (size_t j = 0; j < nv && !pt_broken(); j++) {
      rd_problem p = pb_default();
      p.Hk = p.Hv = 1;
      p.K = k[i];
      p.V = v[j];
      int64_t len = 3;
      one(p, 1, &len, p.K > 8 && p.V > 8);
    }
}

static void extreme_sizes(void) {
  static const int64_t s[] = {1, 7, 16, 17, 511, 512};
  sizes(s, PT_LEN(s), s, PT_LEN(s));
}

static void every_key_size(void) {
  int64_t k[512], v[] = {1, 31, 32, 33};
  for (int i = 0; i < 512; i++) k[i] = i + 1;
  sizes(k, 512, v, PT_LEN(v));
}

static void every_value_size(void) {
  int64_t v[512], k[] = {1, 32, 100};
  for (int i = 0; i < 512; i++) v[i] = i + 1;
  sizes(k, PT_LEN(k), v, 512);
}

/* Zero vectors normalise to zeros; the default scale is the float nearest to K^-1/2. */
static void zero_vectors(void) {
  rd_problem p = pb_default();
  p.qk_norm = RD_QK_L2;
  int64_t len = 4;
  data *d = data_make(&p, 1, &len);
  memset(d->s[0].k, 0, Z(p.Hk * p.K) * sizeof(float));
  memset(d->s[0].q + p.Hk * p.K, 0, Z(p.Hk * p.K) * sizeof(float));
  world_all(d, cx_get(0, 1, EX_POOL), NULL, true);
}

int main(int argc, char **argv) {
  static const pt_case cases[] = {
      {"verbs_by_gates_by_shapes", verbs_by_gates_by_shapes, PT_QUICK},
      {"drawn_few", drawn_few, PT_QUICK},
      {"zero_vectors", zero_vectors, PT_QUICK},
      {"every_length_one_gate", every_length_one_gate, PT_STD},
      {"block_edges_other_gates", block_edges_other_gates, PT_STD},
      {"drawn_some", drawn_some, PT_STD},
      {"extreme_sizes", extreme_sizes, PT_STD},
      {"every_length_every_gate", every_length_every_gate, PT_FULL},
      {"every_key_size", every_key_size, PT_FULL},
      {"every_value_size", every_value_size, PT_FULL},
      {"drawn_many", drawn_many, PT_FULL},
  };
  return pt_main(argc, argv, "p01_oracle", cases, PT_LEN(cases));
}
