/* Three independent computations of one call must agree: the kernel on the model, the oracle of its
 * descriptor, and the specification of the library; and the library's own result for good measure.
 */
#include "chunk_310p.h"

#include "ref/ref.h"
#include "redelta/exec.h"

#define SEED 31u

static rd_tensor view(const rdn_call *call, const char *name) {
  const rdn_named *t = rdn_call_input(call, name);
  if (!t) return (rd_tensor){0};
  rd_dtype type = t->type == RD_NPU_F16 ? RD_F16 : t->type == RD_NPU_F32 ? RD_F32 : RD_I32;
  return rd_tensor_contiguous(t->data, type, (int32_t)t->rank, t->shape);
}

static rd_chunk_gated_delta_rule_params params_of(const rdn_call *call) {
  rd_chunk_gated_delta_rule_params p;
  rd_chunk_gated_delta_rule_init(&p);
  p.query = view(call, "query");
  p.key = view(call, "key");
  p.value = view(call, "value");
  p.beta = view(call, "beta");
  p.state = view(call, "state");
  p.actual_seq_lengths = view(call, "actual_seq_lengths");
  p.g = view(call, "g");
  p.out = view(call, "out");
  p.final_state = view(call, "final_state");
  p.scale_value = strtod(rdn_call_setting(call, "scale_value"), NULL);
  return p;
}

static double distance(const double *a, const double *b, int64_t n) {
  double error = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return n == 0 ? 0 : sqrt(error / (double)n) / fmax(sqrt(size / (double)n), 1e-12);
}

static void three_computations(void **state) {
  (void)state;
  static const char *const shapes[] = {
      "B=2,Hk=1,Hv=2,T=150,K=32,V=48,lengths=150:37",
      "B=3,Hk=2,Hv=4,T=66,K=16,V=48,lengths=66:0:2,gate=none,state=f32",
      "B=1,Hk=1,Hv=2,T=130,K=64,V=32,gate=hard",
      NULL,
  };
  for (const char *const *s = shapes; *s; s++) {
    rdn_call *call = ready_call(*s, SEED);
    rd_chunk_gated_delta_rule_params p = params_of(call);
    rdn_named *named[2] = {rdn_call_tensor(call, "out"), rdn_call_tensor(call, "final_state")};
    double *ref[2], *own[2], *cpu[2], *npu[2];
    int64_t n[2];
    for (int i = 0; i < 2; i++) {
      n[i] = rdn_named_count(named[i]);
      double **all[] = {&ref[i], &own[i], &cpu[i], &npu[i]};
      for (size_t k = 0; k < 4; k++) {
        *all[k] = calloc((size_t)n[i], sizeof(double));
        assert_non_null(*all[k]);
      }
      assert_int_equal(chunk_kernel()->oracle(call, named[i]->name, own[i]), RD_NPU_OK);
    }
    assert_int_equal(rdr_chunk_gated_delta_rule(RDR_F64, &p, ref[0], ref[1]), 0);

    rd_context *ctx = NULL;
    assert_int_equal(rd_context_create(NULL, &ctx), RD_OK);
    assert_int_equal(rd_chunk_gated_delta_rule(ctx, &p), RD_OK);
    rd_context_destroy(ctx);
    for (int i = 0; i < 2; i++)
      for (int64_t k = 0; k < n[i]; k++) cpu[i][k] = rdn_named_value(named[i], k);

    rd_npu_options o = options(RD_NPU_VALUES, RD_NPU_EAGER, 0);
    run_clean(call, &o, *s);
    for (int i = 0; i < 2; i++) {
      for (int64_t k = 0; k < n[i]; k++) npu[i][k] = rdn_named_value(named[i], k);
      double a = distance(own[i], ref[i], n[i]), b = distance(npu[i], ref[i], n[i]),
             d = distance(npu[i], cpu[i], n[i]);
      print_message("  %-66s %-12s oracles %.1e, kernel %.1e, kernel to CPU %.1e\n", *s,
                    named[i]->name, a, b, d);
      assert_true(a < 1e-7); /* the scale is rounded to f32 by one and not by the other */
      assert_true(b <= 1e-3 && d <= 1e-3);
      free(ref[i]);
      free(own[i]);
      free(cpu[i]);
      free(npu[i]);
    }
    drop_call(call);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(three_computations)};
  print_message("seed %u\n", SEED);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
