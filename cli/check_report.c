/* What check says. SPDX-License-Identifier: Apache-2.0 */
#include "cli/check_report.h"

#include <string.h>

void check_report_begin(check_report *r, const op_call *call, int json) {
  *r = (check_report){call, json, 0, json_array(), json_array()};
  if (!json) printf("%s\n", call->op->name);
}

/* A coordinate as a list of numbers. */
static json_t *place_json(const io_tensor *t, int64_t at) {
  if (at < 0) return json_null();
  json_t *list = json_array();
  for (int32_t d = t->rank - 1; d >= 0; d--) {
    json_array_insert_new(list, 0, json_integer(at % t->shape[d]));
    at /= t->shape[d];
  }
  return list;
}

static json_t *limit_json(double limit) {
  return limit <= -2 || limit == -1 ? json_null() : io_json_real(limit);
}

static void comparison_json(check_report *r, const char *against, const cmp_result *c) {
  const io_tensor *t = io_file_find(&r->call->out, c->name);
  json_t *one =
      json_pack("{s:s, s:s, s:b}", "tensor", c->name, "against", against, "passed", c->passed);
  json_object_set_new(one, "cosine", io_json_real(c->cosine));
  json_object_set_new(one, "cosine_limit", limit_json(c->cosine_limit));
  json_object_set_new(one, "nrmse", io_json_real(c->nrmse));
  json_object_set_new(one, "nrmse_limit", limit_json(c->nrmse_limit));
  json_object_set_new(one, "max_abs", io_json_real(c->max_abs));
  json_object_set_new(one, "max_abs_at", place_json(t, c->max_abs_at));
  json_object_set_new(one, "max_rel", io_json_real(c->max_rel));
  json_object_set_new(one, "max_rel_at", place_json(t, c->max_rel_at));
  json_object_set_new(one, "nan", json_integer(c->nan));
  json_object_set_new(one, "inf", json_integer(c->inf));
  json_object_set_new(one, "elements", json_integer(c->elements));
  json_object_set_new(one, "bad_elements", json_integer(c->bad));
  json_object_set_new(one, "first_bad", place_json(t, c->first_bad));
  if (c->first_bad >= 0) {
    json_object_set_new(one, "first_bad_value", io_json_real(c->first_value));
    json_object_set_new(one, "first_bad_expected", io_json_real(c->first_expected));
  }
  if (c->worst_head_group >= 0) {
    char text[96];
    op_group_text(r->call, c->index, c->worst_head_group, text, sizeof text);
    json_object_set_new(one, "worst_head", json_string(text));
    json_object_set_new(one, "worst_head_error", io_json_real(c->worst_head));
    json_object_set_new(one, "worst_head_limit", io_json_real(c->worst_head_limit));
    json_object_set_new(one, "bad_heads", json_integer(c->heads_bad));
  }
  json_array_append_new(r->comparisons, one);
}

static void limit_text(const char *word, double limit, double none, char *text, size_t size) {
  text[0] = '\0';
  if (limit > none) snprintf(text, size, " (%s %.9g)", word, limit);
}

static void comparison_text(check_report *r, const char *against, const cmp_result *c) {
  const io_tensor *t = io_file_find(&r->call->out, c->name);
  char at[256], limit[64];
  printf("  %s against the %s: %s\n", c->name, against, c->passed ? "ok" : "FAILED");
  limit_text("at least", c->cosine_limit, -2, limit, sizeof limit);
  printf("    cosine    %.9f%s\n", c->cosine, limit);
  limit_text("limit", c->nrmse_limit, -1, limit, sizeof limit);
  printf("    NRMSE     %.3e%s\n", c->nrmse, limit);
  if (c->worst_head_group >= 0) {
    op_group_text(r->call, c->index, c->worst_head_group, at, sizeof at);
    limit_text("limit", c->worst_head_limit, -1e-300, limit, sizeof limit);
    printf("    worst     %.3e%s, %s", c->worst_head, limit, at);
    printf(c->heads_bad > 0 ? "; %d heads outside\n" : "\n", c->heads_bad);
  }
  if (c->max_abs_at >= 0) {
    io_tensor_coordinate(t, c->max_abs_at, at, sizeof at);
    printf("    max abs   %.3e at %s\n", c->max_abs, at);
    io_tensor_coordinate(t, c->max_rel_at, at, sizeof at);
    printf("    max rel   %.3e at %s\n", c->max_rel, at);
  }
  printf("    NaN %lld, infinite %lld of %lld\n", (long long)c->nan, (long long)c->inf,
         (long long)c->elements);
  if (c->first_bad >= 0) {
    io_tensor_coordinate(t, c->first_bad, at, sizeof at);
    printf("    first bad %s: %.9g, expected %.9g; %lld bad elements\n", at, c->first_value,
           c->first_expected, (long long)c->bad);
  }
}

void check_report_comparison(check_report *r, const char *against, const cmp_result *c) {
  r->failed |= !c->passed;
  if (r->json) {
    comparison_json(r, against, c);
  } else {
    comparison_text(r, against, c);
  }
}

void check_report_stability(check_report *r, const char *way, int runs, const char *tensor,
                            int64_t at) {
  r->failed |= tensor != NULL;
  char place[256] = "";
  if (tensor != NULL)
    io_tensor_coordinate(io_file_find(&r->call->out, tensor), at, place, sizeof place);
  if (r->json) {
    json_t *one =
        json_pack("{s:s, s:i, s:b}", "way", way, "compared", runs, "same_bits", tensor == NULL);
    if (tensor != NULL) {
      json_object_set_new(one, "tensor", json_string(tensor));
      json_object_set_new(one, "at", place_json(io_file_find(&r->call->out, tensor), at));
    }
    json_array_append_new(r->stability, one);
  } else if (tensor == NULL) {
    printf("  bits over %s: the same\n", way);
  } else {
    printf("  bits over %s: FAILED, %s first differs at %s\n", way, tensor, place);
  }
}

int check_report_end(check_report *r, const char *command) {
  int status = r->failed ? CLI_FAILED : CLI_OK;
  if (r->json) {
    return cli_finish_json(command, status,
                           json_pack("{s:s, s:b, s:o, s:o}", "operator", r->call->op->name,
                                     "passed", !r->failed, "comparisons", r->comparisons,
                                     "stability", r->stability));
  }
  json_decref(r->comparisons);
  json_decref(r->stability);
  printf("%s\n", r->failed ? "FAILED" : "ok");
  return cli_finish(command, status);
}
