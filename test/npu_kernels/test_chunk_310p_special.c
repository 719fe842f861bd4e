/* What one NaN or infinity in an input becomes on the 310P, whose f16 has neither as a result. */
#include "chunk_310p.h"

#define SHAPE "B=2,Hk=1,Hv=2,T=150,K=32,V=48,lengths=150:150,state=f32"
enum { T = 150, TOKEN = 70, CHUNK = 64, HEADS = 2, V = 48 };

typedef struct spread {
  int first, last;     /* tokens of sequence 0, head 0 whose outputs differ from the plain run's */
  bool sibling;        /* another value head of the sequence differs */
  bool other_sequence; /* the other sequence differs */
  bool finite, state_finite;
} spread;

static rdn_call *planted_call(const char *input, double value) {
  rdn_call *call = new_call(SHAPE, 31);
  if (input) {
    rdn_named *t = rdn_call_tensor(call, input);
    int64_t row = rdn_named_count(t) / (t->shape[0] * t->shape[1] * T);
    rdn_named_store(t, TOKEN * row + row / 2, value);
  }
  assert_int_equal(chunk_kernel()->prepare(call), RD_NPU_OK);
  rd_npu_options o = options(RD_NPU_CHECKED, RD_NPU_EAGER, 0);
  run_clean(call, &o, input ? input : "plain");
  return call;
}

static spread compare(const rdn_call *plain, const rdn_call *planted) {
  spread s = {.first = T, .last = -1, .finite = true, .state_finite = true};
  const rdn_named *x = rdn_call_input(plain, "out"), *y = rdn_call_input(planted, "out");
  const uint16_t *a = x->data, *b = y->data;
  for (int i = 0; i < 2 * HEADS * T * V; i++) {
    s.finite = s.finite && isfinite(rdn_named_value(y, i));
    if (a[i] == b[i]) continue;
    int head = i / (T * V), token = i / V % T;
    if (head >= HEADS) s.other_sequence = true;
    if (head == 1) s.sibling = true;
    if (head) continue;
    if (token < s.first) s.first = token;
    if (token > s.last) s.last = token;
  }
  const rdn_named *fs = rdn_call_input(planted, "final_state");
  for (int64_t i = 0; i < rdn_named_count(fs); i++)
    s.state_finite = s.state_finite && isfinite(rdn_named_value(fs, i));
  return s;
}

/* The outputs are numbers whatever comes in, and another head's or sequence's bits never change.  A NaN is
 * not what tells: only a key or gate that is one shows, and only in a state of type f32. */
static void one_bad_token(void **state) {
  (void)state;
  static const struct {
    const char *input;
    double value;
    int first;   /* token that differs: the start of the chunk where its products mix tokens */
    bool within; /* no other token differs */
    bool shared; /* value heads share it */
    bool state;  /* stays finite */
  } rows[] = {
      {"query", NAN, TOKEN, true, true, true},     {"query", INFINITY, TOKEN, true, true, true},
      {"key", NAN, CHUNK, false, true, false},     {"key", INFINITY, CHUNK, false, true, false},
      {"value", NAN, TOKEN, false, false, true},   {"value", INFINITY, TOKEN, false, false, true},
      {"beta", NAN, CHUNK, false, false, true},    {"beta", -INFINITY, CHUNK, false, false, true},
      {"g", NAN, CHUNK, false, false, false},      {"g", INFINITY, CHUNK, false, false, false},
      {"g", -INFINITY, TOKEN, false, false, true}, /* a gate that forgets everything is a gate */
  };
  rdn_call *plain = planted_call(NULL, 0);
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    rdn_call *call = planted_call(rows[n].input, rows[n].value);
    spread s = compare(plain, call);
    bool as_said = s.finite && !s.other_sequence && s.first == rows[n].first &&
                   (rows[n].within ? s.last == TOKEN : s.last > TOKEN) &&
                   s.sibling == rows[n].shared && s.state_finite == rows[n].state;
    if (!as_said)
      print_error("%s %g: tokens %d..%d, sibling %d, other sequence %d, finite %d, state %d\n",
                  rows[n].input, rows[n].value, s.first, s.last, s.sibling, s.other_sequence,
                  s.finite, s.state_finite);
    assert_true(as_said);
    drop_call(call);
  }
  drop_call(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_bad_token)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
