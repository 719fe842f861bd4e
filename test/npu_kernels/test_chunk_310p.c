/* chunk_gated_delta_rule on the model: values, findings, schedules, the two missing events, bad
 * input. */
#include "chunk_310p.h"

#define SEED 20240611u

/* Every run is checked: no race, no leftover, no uninitialised read. */
static void check_shapes(const char *const *shapes) {
  for (; *shapes; shapes++) {
    rdn_call *call = ready_call(*shapes, SEED);
    rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
    run_clean(call, &o, *shapes);
    judge(call, *shapes);
    drop_call(call);
  }
}

static void shapes_and_tails(void **state) {
  (void)state;
  static const char *const shapes[] = {
      "B=1,Hk=1,Hv=1,T=1,K=16,V=16",
      "B=1,Hk=1,Hv=1,T=16,K=16,V=32",
      "B=1,Hk=1,Hv=1,T=17,K=48,V=16",
      "B=1,Hk=1,Hv=1,T=63,K=16,V=128",
      "B=1,Hk=1,Hv=1,T=64,K=112,V=80",
      "B=1,Hk=1,Hv=1,T=65,K=128,V=112",
      "B=1,Hk=1,Hv=1,T=129,K=128,V=128",
      "B=1,Hk=2,Hv=6,T=70,K=32,V=16",                 /* three value heads share a key head */
      "B=3,Hk=2,Hv=4,T=66,K=16,V=48,lengths=66:65:2", /* 12 heads on 8 cores */
      "B=2,Hk=1,Hv=2,T=100,K=32,V=48,lengths=100:37,state=f32",
      "B=2,Hk=1,Hv=2,T=70,K=32,V=48,lengths=70:37,gate=none",
      "B=2,Hk=1,Hv=2,T=70,K=32,V=48,lengths=70:37,gate=zero,s0=0",
      NULL,
  };
  check_shapes(shapes);
}

static void mutation_shapes(void **state) {
  (void)state;
  check_shapes(chunk_kernel()->mutation_shapes);
}

static void correlated_keys(void **state) {
  (void)state;
  static const char *const shapes[] = {
      "B=1,Hk=1,Hv=1,T=192,K=64,V=64,gate=none,cosine=0.95,beta=0.83",
      "B=1,Hk=1,Hv=1,T=192,K=64,V=64,gate=slow,cosine=0.99,beta=0.83",
      "B=1,Hk=1,Hv=1,T=192,K=64,V=64,gate=zero,cosine=0.99,beta=1",
      "B=1,Hk=1,Hv=1,T=192,K=64,V=64,gate=slow,cosine=1,beta=1",
      "B=1,Hk=1,Hv=1,T=192,K=64,V=64,gate=slow,cosine=1,beta=0.83",
      NULL,
  };
  check_shapes(shapes);
}

static void hard_gates(void **state) {
  (void)state;
  static const char *const shapes[] = {
      "B=1,Hk=1,Hv=2,T=150,K=32,V=32,gate=hard",
      "B=1,Hk=1,Hv=1,T=150,K=48,V=32,gate=hard,cosine=0.99,beta=0.83,state=f32",
      NULL,
  };
  check_shapes(shapes);
}

/* Sets every g of a call, or alternates two values. */
static void all_gates(void **state) {
  (void)state;
  static const double gates[][2] = {{-1e-8, -1e-8}, {-5, -5},       {-20, -20},
                                    {-100, -100},   {-2661, -2661}, {-1e4, -1e4},
                                    {0, -5},        {-2661, -1e-3}, {-INFINITY, -INFINITY}};
  const char *shape = "B=1,Hk=1,Hv=1,T=100,K=16,V=32";
  for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
    rdn_call *call = new_call(shape, SEED + i);
    rdn_named *g = rdn_call_tensor(call, "g");
    for (int64_t t = 0; t < rdn_named_count(g); t++) rdn_named_store(g, t, gates[i][t % 2]);
    assert_int_equal(chunk_kernel()->prepare(call), RD_NPU_OK);
    rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
    run_clean(call, &o, shape);
    judge(call, shape);
    drop_call(call);
  }
}

static void fill_bytes(rdn_named *t, int value) {
  memset(t->data, value, (size_t)rdn_named_bytes(t));
}

/* Length 0: the state's bytes, NaN payloads included, and +0 rows; beyond a length: +0, whatever
 * was there. */
static void lengths(void **state) {
  (void)state;
  static const char *const shapes[] = {"B=4,Hk=1,Hv=2,T=80,K=32,V=16,lengths=0:80:5:0",
                                       "B=4,Hk=1,Hv=2,T=80,K=32,V=16,lengths=0:64:33:0,state=f32",
                                       "B=2,Hk=1,Hv=1,T=80,K=128,V=128,lengths=0:0,state=f32",
                                       NULL};
  for (const char *const *s = shapes; *s; s++) {
    rdn_call *call = new_call(*s, SEED);
    rdn_named *n = rdn_call_tensor(call, "actual_seq_lengths");
    rdn_named *s0 = rdn_call_tensor(call, "state");
    int64_t B = n->shape[0], Hv = s0->shape[1];
    size_t head = (size_t)rdn_named_bytes(s0) / (size_t)(B * Hv);
    for (int64_t i = 0; i < B * Hv;
         i++) /* 0x7d..: NaNs with payload in f16, large numbers in f32 */
      if (rdn_named_value(n, i / Hv) == 0)
        for (size_t k = 0; k < head; k++)
          ((unsigned char *)s0->data)[(size_t)i * head + k] = (unsigned char)(125 + k % 3);
    assert_int_equal(chunk_kernel()->prepare(call), RD_NPU_OK);
    rdn_named *out = rdn_call_tensor(call, "out"), *fs = rdn_call_tensor(call, "final_state");
    fill_bytes(out, 0xee);
    fill_bytes(fs, 0xee);
    rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_RANDOM, 7);
    run_clean(call, &o, *s);
    int64_t T = out->shape[2], V = out->shape[3];
    for (int64_t i = 0; i < B * Hv; i++) {
      int64_t length = (int64_t)rdn_named_value(n, i / Hv);
      const uint16_t *rows = (const uint16_t *)out->data + (i * T + length) * V;
      for (int64_t k = 0; k < (T - length) * V; k++) assert_int_equal(rows[k], 0);
      if (length == 0)
        assert_memory_equal((char *)fs->data + (size_t)i * head,
                            (char *)s0->data + (size_t)i * head, head);
    }
    drop_call(call);
  }
}

/* Rows past a length are never read: poison there changes no bit. */
static void poison_past_the_length(void **state) {
  (void)state;
  const char *shape = "B=2,Hk=1,Hv=2,T=150,K=32,V=48,lengths=150:37";
  uint64_t hash[2];
  for (int poison = 0; poison < 2; poison++) {
    rdn_call *call = new_call(shape, SEED);
    static const char *const names[] = {"query", "key", "value", "beta", "g"};
    for (size_t i = 0; poison && i < sizeof names / sizeof names[0]; i++) {
      rdn_named *t = rdn_call_tensor(call, names[i]);
      int64_t heads = t->shape[0] * t->shape[1], row = rdn_named_count(t) / heads / 150;
      for (int64_t h = heads / 2; h < heads; h++)
        for (int64_t k = 37 * row; k < 150 * row; k++) rdn_named_store(t, h * 150 * row + k, NAN);
    }
    assert_int_equal(chunk_kernel()->prepare(call), RD_NPU_OK);
    rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
    run_clean(call, &o, shape);
    hash[poison] = hash_outputs(call);
    drop_call(call);
  }
  assert_true(hash[0] == hash[1]);
}

/* The bits of a head depend neither on the launch size nor on the host's threads. */
static void launch_size(void **state) {
  (void)state;
  uint64_t first = 0;
  static const uint32_t cores[] = {1, 2, 3, 5, 8, 8};
  for (size_t i = 0; i < 6; i++) {
    rdn_call *call = new_call("B=3,Hk=1,Hv=2,T=70,K=32,V=16,lengths=70:1:0", SEED);
    call->cores = cores[i];
    assert_int_equal(chunk_kernel()->prepare(call), RD_NPU_OK);
    assert_int_equal(call->launch.block_num, cores[i] < 6 ? cores[i] : 6);
    rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
    o.threads = i % 2 + 1;
    run_clean(call, &o, "launch size");
    if (i == 0) first = hash_outputs(call);
    assert_true(hash_outputs(call) == first);
    drop_call(call);
  }
}

static void schedules(void **state) {
  (void)state;
  rdn_call *call = ready_call(chunk_kernel()->presets[0].shape, SEED);
  same_bits(call, "default shape");
  drop_call(call);
}

/* ------------------------------------------------------------------ the field's fault */

#define SITES 16
typedef struct sites {
  char text[SITES][128];
  bool differs[SITES]; /* some witness shows another value */
  uint32_t count, witnessed, implied;
} sites;

static void add_site(sites *s, const char *text, bool differs) {
  uint32_t i = 0;
  while (i < s->count && strcmp(s->text[i], text) != 0) i++;
  assert_true(i < SITES);
  if (i == s->count) snprintf(s->text[s->count++], sizeof s->text[0], "%s", text);
  if (differs && !s->differs[i]) s->differs[i] = true, s->witnessed++;
}

/* Sites of the L0C->UB copies in races of one kind that name one event as missing. */
static sites copy_sites(const char *without, rd_npu_finding_kind kind) {
  sites found = {0};
  rdn_call *call = ready_call(chunk_kernel()->presets[0].shape, SEED);
  rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
  o.without = without;
  o.witnesses = true;
  rd_npu_report *report = NULL;
  assert_int_equal(rd_npu_run(&call->launch, &o, &report), RD_NPU_FINDING);
  for (size_t i = 0; i < rd_npu_report_count(report); i++) {
    const rd_npu_finding *f = rd_npu_report_get(report, i);
    if (f->kind != kind || !f->missing || strcmp(f->missing, without) != 0) continue;
    const rd_npu_access *copy = kind == RD_NPU_RACE_RAW ? &f->second : &f->first;
    assert_string_equal(copy->instruction, "copy_matrix_cc_to_ubuf");
    assert_string_equal(copy->buffer, "L0C");
    assert_non_null(f->trap);
    assert_true(f->witness == RD_NPU_WITNESS_DIFFERS || f->witness == RD_NPU_WITNESS_SAME);
    add_site(&found, copy->site, f->witness == RD_NPU_WITNESS_DIFFERS);
  }
  for (size_t i = 0; i < rd_npu_report_dropped_count(report); i++) {
    const rd_npu_dropped *d = rd_npu_report_dropped_get(report, i);
    if (d->implied < d->total) continue;
    print_message("  always implied: %s, by %s\n", d->place, d->implied_by);
    found.implied++;
  }
  rd_npu_report_free(report);
  drop_call(call);
  return found;
}

/* Seven call sites copy from L0C: k k^T, q k^T, k S, T r, q S, P v' and both halves of k^T v''. */
#define COPY_SITES 7

static void without_m_v(void **state) {
  (void)state;
  sites s = copy_sites("M_V", RD_NPU_RACE_RAW);
  assert_int_equal(s.count, COPY_SITES);
  assert_int_equal(s.witnessed, COPY_SITES);
}

/* Before T r and the first half of k^T v'' V_M is implied: these products need a value computed
 * from what was copied out of their slot.  Every other copy can be overtaken. */
static void without_v_m(void **state) {
  (void)state;
  sites s = copy_sites("V_M", RD_NPU_RACE_WAR);
  assert_int_equal(s.count, COPY_SITES - 2);
  assert_int_equal(s.witnessed, COPY_SITES - 2);
  assert_true(s.implied >= 2);
}

/* ------------------------------------------------------------------ bad input */

static void expect_error(rdn_call *call, const char *part) {
  assert_int_equal(chunk_kernel()->prepare(call), RD_NPU_BAD_INPUT);
  if (!strstr(call->error, part)) fail_msg("\"%s\" does not mention \"%s\"", call->error, part);
  drop_call(call);
}

static void bad_input(void **state) {
  (void)state;
  const char *shape = chunk_kernel()->presets[0].shape;
  static const char *const names[] = {
      "query", "key", "value", "beta", "state", "actual_seq_lengths", "g"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    rdn_call *call = new_call(shape, SEED); /* a dtype the 310P has not got */
    rdn_call_tensor(call, names[i])->type = RD_NPU_BF16;
    expect_error(call, names[i]);
    call = new_call(shape, SEED);
    rdn_call_tensor(call, names[i])->rank--;
    expect_error(call, names[i]);
    if (strcmp(names[i], "g") == 0) continue;
    call = new_call(shape, SEED);
    rdn_call_tensor(call, names[i])->name[0] = '_';
    expect_error(call, names[i]);
  }
  rdn_call *call = new_call(shape, SEED);
  rdn_named_store(rdn_call_tensor(call, "actual_seq_lengths"), 1, 151);
  expect_error(call, "actual_seq_lengths[1]");
  call = new_call(shape, SEED);
  rdn_named_store(rdn_call_tensor(call, "actual_seq_lengths"), 0, -1);
  expect_error(call, "actual_seq_lengths[0]");
  call = new_call(shape, SEED);
  rdn_call_tensor(call, "query")->shape[3] = 24;
  expect_error(call, "K (last dimension of query)");
  call = new_call(shape, SEED);
  rdn_call_tensor(call, "value")->shape[3] = 144;
  expect_error(call, "V (last dimension of value)");
  call = new_call("Hk=2,Hv=2,B=1,T=8", SEED);
  rdn_call_tensor(call, "value")->shape[1] = 3;
  expect_error(call, "multiple of the key heads");
  call = new_call(shape, SEED);
  rdn_call_set(call, "scale_value", "1e999");
  expect_error(call, "scale_value");
  call = new_call(shape, SEED);
  call->arch = RD_NPU_950;
  expect_error(call, "310P");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_and_tails),
      cmocka_unit_test(mutation_shapes),
      cmocka_unit_test(correlated_keys),
      cmocka_unit_test(hard_gates),
      cmocka_unit_test(all_gates),
      cmocka_unit_test(lengths),
      cmocka_unit_test(poison_past_the_length),
      cmocka_unit_test(launch_size),
      cmocka_unit_test(schedules),
      cmocka_unit_test(without_m_v),
      cmocka_unit_test(without_v_m),
      cmocka_unit_test(bad_input),
  };
  print_message("seed %u\n", SEED);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
