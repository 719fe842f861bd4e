/* The kernels against the double oracle, and their bits across every way of cutting and running. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const how checked = {.mode = RD_NPU_CHECKED, .threads = 2};
static const how values = {.mode = RD_NPU_VALUES, .threads = 2};
static const char *const sizes[] = {"8", "24", "28", "32"};

static void capacity(void) {
  const uint32_t ub = rd_npu_arch_get(RD_NPU_950)->capacity[RD_NPU_UB];
  for (uint32_t rows = 32; rows <= 128; rows *= 2) {
    char text[80];
    snprintf(text, sizeof text, "%u rows take %u and %u of %u bytes", rows,
             rdn_replay_verify_ub_bytes(rows), rdn_replay_commit_ub_bytes(rows), ub);
    passed_if(rdn_replay_verify_ub_bytes(rows) <= ub && rdn_replay_commit_ub_bytes(rows) <= ub,
              "UB capacity", text);
  }
}

static void split_rule(void) {
  passed_if(rdn_replay_rows(48, 48) == 128 && rdn_replay_rows(47, 48) == 64 &&
                rdn_replay_rows(24, 48) == 64 && rdn_replay_rows(23, 48) == 32,
            "row block rule", "128, 64 or 32 rows");
}

/* The three layouts of the demo, the smallest call, and sizes that leave programs idle or need waves. */
static void verify_oracle(void) {
  static const char *const shapes[] = {
      "layout=BSND,B=1,N=1,S=8",
      "layout=BNSD,B=2,N=17,S=9",
      "layout=TND,N=8,lengths=5:1:3",
      "layout=BSND,B=1,N=1,S=1,C=1",
      "layout=BNSD,B=1,N=3,S=2",
      "layout=TND,N=6,lengths=1:8:9:16:17",
      "layout=BSND,B=3,N=33,S=3,block_num=8",
      "layout=TND,N=1,lengths=64:1:33,C=64",
  };
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    check_oracle(VERIFY, shapes[i], &checked);
  check_oracle(VERIFY, "layout=BSND,B=1,N=96,S=4", &values);
  for (int length = 1; length <= 20; length++) {
    char shape[64];
    snprintf(shape, sizeof shape, "layout=BSND,B=1,N=2,S=%d,C=20", length);
    check_oracle(VERIFY, shape, &values);
  }
}

static void commit_oracle(void) {
  static const char *const shapes[] = {
      "B=1,N=1,C=10,accepted=8",    "B=2,N=17,C=11,accepted=0:9",
      "B=3,N=8,C=7,accepted=5:0:2", "B=1,N=1,C=1,accepted=1",
      "B=2,N=3,C=20,accepted=20:9", "B=7,N=6,C=8,accepted=0:1:8:4:7:2:5,block_num=8",
      "B=2,N=33,C=3,accepted=3:1",  "B=1,N=1,C=64,accepted=64",
      "B=2,N=2,C=0,accepted=0",
  };
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    check_oracle(COMMIT, shapes[i], &checked);
  check_oracle(COMMIT, "B=2,N=96,C=4,accepted=4:3", &values);
}

/* accepted = 0 leaves the bytes, also of a state no arithmetic would reproduce. */
static void commit_nothing(void) {
  const rdn_kernel_desc *desc = rdn_kernel_find(COMMIT);
  rdn_call call;
  rdn_call_init(&call, RD_NPU_950);
  call.seed = 3;
  bool ok = desc->generate(&call, "B=2,N=1,C=4,accepted=0:0") == RD_NPU_OK;
  rdn_named *state = rdn_call_tensor(&call, "recurrent_state");
  uint32_t *bits = state->data;
  for (int64_t i = 0; i < rdn_named_count(state); i++) bits[i] = 0x7f800001u + (uint32_t)i;
  ok = ok && desc->prepare(&call) == RD_NPU_OK;
  rd_npu_report *report = NULL;
  ok = ok && rd_npu_run(&call.launch, NULL, &report) == RD_NPU_OK;
  for (int64_t i = 0; ok && i < rdn_named_count(state); i++)
    ok = bits[i] == 0x7f800001u + (uint32_t)i;
  passed_if(ok, "commit of nothing", "the state's bytes");
  rd_npu_report_free(report);
  rdn_call_free(&call);
}

/* Launch size, row block, slice, schedule, host threads: none may change a bit. */
static void same_bits(const char *kernel, const char *shape) {
  rdn_call base = run_shape(kernel, shape, &checked);
  static const how ways[] = {
      {.mode = RD_NPU_VALUES, .settings = {"block_num", "8"}},
      {.mode = RD_NPU_VALUES, .settings = {"block_num", "24"}, .threads = 2},
      {.mode = RD_NPU_VALUES, .settings = {"block_num", "28"}, .threads = 5},
      {.mode = RD_NPU_VALUES, .settings = {"block_num", "32"}},
      {.mode = RD_NPU_VALUES, .settings = {"rows", "32"}},
      {.mode = RD_NPU_VALUES, .settings = {"rows", "64"}},
      {.mode = RD_NPU_VALUES, .settings = {"rows", "128"}},
      {.mode = RD_NPU_VALUES, .settings = {"slice", "1"}},
      {.mode = RD_NPU_VALUES, .settings = {"slice", "3", "rows", "64"}},
      {.mode = RD_NPU_VALUES, .schedule = RD_NPU_LAZY, .settings = {"block_num", "8"}},
      {.mode = RD_NPU_CHECKED,
       .schedule = RD_NPU_RANDOM,
       .seed = 1,
       .settings = {"block_num", "8"}},
      {.mode = RD_NPU_VALUES,
       .schedule = RD_NPU_RANDOM,
       .seed = 2,
       .settings = {"block_num", "8"},
       .threads = 3},
      {.mode = RD_NPU_VALUES, .schedule = RD_NPU_RANDOM, .seed = 3, .settings = {"slice", "2"}},
  };
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    char what[160];
    snprintf(what, sizeof what, "%s %s, way %zu", kernel, shape, i);
    rdn_call other = run_shape(kernel, shape, &ways[i]);
    check_same(what, &base, &other);
    rdn_call_free(&other);
  }
  rdn_call_free(&base);
}

/* All four launch sizes and all layouts without a finding. */
static void no_findings(void) {
  static const char *const shapes[] = {"layout=BSND,B=2,N=17,S=9", "layout=BNSD,B=2,N=17,S=9",
                                       "layout=TND,N=17,lengths=20:1:9"};
  for (int s = 0; s < 4; s++) {
    how order = {.mode = RD_NPU_ORDER, .threads = 2, .settings = {"block_num", sizes[s]}};
    for (int i = 0; i < 3; i++) {
      rdn_call call = run_shape(VERIFY, shapes[i], &order);
      rdn_call_free(&call);
    }
    rdn_call call = run_shape(COMMIT, "B=3,N=17,C=20,accepted=20:0:9", &order);
    rdn_call_free(&call);
  }
}

static void refused(const char *kernel, const char *shape, const char *name, const char *value,
                    uint32_t cores, const char *named) {
  const rdn_kernel_desc *desc = rdn_kernel_find(kernel);
  rdn_call call;
  rdn_call_init(&call, RD_NPU_950);
  call.seed = 1;
  call.cores = cores;
  bool ok = desc->generate(&call, shape) == RD_NPU_OK;
  if (name) rdn_call_set(&call, name, value);
  ok = ok && desc->prepare(&call) == RD_NPU_BAD_INPUT && strstr(call.error, named);
  passed_if(ok, "refusal", call.error);
  rdn_call_free(&call);
}

static void refusals(void) {
  const char *verify = "layout=BSND,B=1,N=1,S=4", *commit = "B=1,N=1,C=4,accepted=4";
  refused(VERIFY, verify, "block_num", "16", 0, "block_num");
  refused(VERIFY, verify, "block_num", "32", 28, "block_num");
  refused(VERIFY, verify, NULL, NULL, 4, "block_num");
  refused(VERIFY, verify, "layout_qkv", "NHWC", 0, "layout_qkv");
  refused(VERIFY, verify, "layout_qkv", "TND", 0, "g");
  refused(VERIFY, verify, "scale", "inf", 0, "scale");
  refused(VERIFY, verify, "scale", "1x", 0, "scale");
  refused(VERIFY, verify, "lower_bound", "-5.5", 0, "lower_bound");
  refused(VERIFY, "layout=BSND,B=1,N=1,S=4,C=3", NULL, NULL, 0, "replay_u");
  refused(VERIFY, "layout=BSND,B=1,N=1,S=65", NULL, NULL, 0, "g");
  refused(COMMIT, "B=1,N=1,C=4,accepted=5", NULL, NULL, 0, "num_accepted_tokens");
  refused(COMMIT, commit, "block_num", "24", 8, "block_num");
  refused(COMMIT, commit, "rows", "96", 0, "rows");
}

int main(void) {
  printf("seed 1\n");
  capacity();
  split_rule();
  verify_oracle();
  commit_oracle();
  commit_nothing();
  same_bits(VERIFY, "layout=TND,N=5,lengths=9:1:4");
  same_bits(VERIFY, "layout=BNSD,B=2,N=9,S=5");
  same_bits(COMMIT, "B=3,N=7,C=12,accepted=12:0:5");
  no_findings();
  refusals();
  return summary();
}
