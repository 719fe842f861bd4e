/* A report as text, and as one JSON object. */
#include "npu/report/report.h"

#include <math.h>

static void print_access(text *t, const char *role, const rd_npu_access *a) {
  rdn_text_add(t, "    %s %-5s %s", role, rd_npu_pipe_name(a->pipe), a->instruction);
  if (a->buffer)
    rdn_text_add(t, "  %s[0x%llx, 0x%llx)", a->buffer, (unsigned long long)a->begin,
                 (unsigned long long)a->end);
  rdn_text_add(t, "  at %s\n", a->site);
}

/* A NaN's sign says nothing; it should not reach the eye. */
static double plain_nan(double x) { return x != x ? (double)NAN : x; }

static void print_finding(text *t, const rd_npu_finding *f) {
  rdn_text_add(t, "%s: %s\n", rd_npu_finding_name(f->kind), f->message);
  if (f->first.instruction) print_access(t, f->second.instruction ? "first " : "      ", &f->first);
  if (f->second.instruction) print_access(t, "second", &f->second);
  if (f->missing) rdn_text_add(t, "    missing: %s\n", f->missing);
  if (f->trap) rdn_text_add(t, "    hardware trap: %s\n", f->trap);
  rdn_text_add(t, "    core %u, %llu time%s\n", f->core, (unsigned long long)f->count,
               f->count == 1 ? "" : "s");
  if (f->continuation)
    rdn_text_add(t, "    behind a value read in doubt: one possible continuation\n");
  if (f->witness_site)
    rdn_text_add(t, "    witness: in an allowed order S would read %.9g instead of %.9g at %s\n",
                 plain_nan(f->got), plain_nan(f->expected), f->witness_site);
  else if (f->witness == RD_NPU_WITNESS_DIFFERS)
    rdn_text_add(t, "    witness: an allowed order gives %s[%llu] = %.9g instead of %.9g\n",
                 f->witness_tensor, (unsigned long long)f->witness_index, plain_nan(f->got),
                 plain_nan(f->expected));
  else if (f->witness == RD_NPU_WITNESS_SAME)
    rdn_text_add(t, "    witness: race without value effect on this input\n");
}

char *rd_npu_report_text(const rd_npu_report *r) {
  text t = {0};
  for (size_t i = 0; r && i < r->count; i++) {
    rdn_text_add(&t, "%zu. ", i + 1);
    print_finding(&t, &r->list[i]);
  }
  for (size_t i = 0; r && i < r->note_count; i++) {
    rdn_text_add(&t, "note: ");
    print_finding(&t, &r->notes[i]);
  }
  if (r && r->dropped_count)
    rdn_text_add(
        &t, "asked: with all of these left out, do the events that remain give each one's order? "
            "(--mutate asks it of each alone)\n");
  for (size_t i = 0; r && i < r->dropped_count; i++) {
    const rd_npu_dropped *d = &r->dropped[i];
    rdn_text_add(&t, "dropped %s: ", d->place);
    if (d->implied == d->total)
      rdn_text_add(&t, "implied by %s\n", d->implied_by);
    else if (d->implied)
      rdn_text_add(&t, "not implied %llu times of %llu (else by %s)\n",
                   (unsigned long long)(d->total - d->implied), (unsigned long long)d->total,
                   d->implied_by);
    else
      rdn_text_add(&t, "not implied\n");
  }
  if (r && r->schedules)
    rdn_text_add(&t, "schedules explored: %llu%s\n", (unsigned long long)r->schedules,
                 r->capped ? " (capped)" : "");
  rdn_text_add(&t, "%s\n", rd_npu_report_summary(r));
  return rdn_text_take(&t);
}

static void json_access(text *t, const char *key, const rd_npu_access *a) {
  if (!a->instruction) return;
  rdn_text_add(t, ", \"%s\": {\"pipe\": \"%s\", \"instruction\": \"%s\", \"site\": ", key,
               rd_npu_pipe_name(a->pipe), a->instruction);
  rdn_text_json(t, a->site);
  if (a->buffer) {
    rdn_text_add(t, ", \"buffer\": ");
    rdn_text_json(t, a->buffer);
    rdn_text_add(t, ", \"begin\": %llu, \"end\": %llu", (unsigned long long)a->begin,
                 (unsigned long long)a->end);
  }
  rdn_text_add(t, "}");
}

static void json_finding(text *t, const rd_npu_finding *f, bool first) {
  rdn_text_add(
      t, "%s{\"kind\": \"%s\", \"core\": %u, \"count\": %llu, \"message\": ", first ? "" : ", ",
      rd_npu_finding_name(f->kind), f->core, (unsigned long long)f->count);
  rdn_text_json(t, f->message);
  json_access(t, "first", &f->first);
  json_access(t, "second", &f->second);
  if (f->missing) rdn_text_add(t, ", \"missing\": "), rdn_text_json(t, f->missing);
  if (f->trap) rdn_text_add(t, ", \"trap\": \"%s\"", f->trap);
  if (f->continuation) rdn_text_add(t, ", \"continuation\": true");
  if (f->witness == RD_NPU_WITNESS_SAME)
    rdn_text_add(t, ", \"witness\": \"no value effect on this input\"");
  if (f->witness == RD_NPU_WITNESS_DIFFERS) {
    rdn_text_add(t, ", \"witness\": {\"%s\": ", f->witness_site ? "value_read" : "tensor");
    rdn_text_json(t, f->witness_site ? f->witness_site : f->witness_tensor);
    if (!f->witness_site)
      rdn_text_add(t, ", \"index\": %llu", (unsigned long long)f->witness_index);
    rdn_text_add(t, ", \"expected\": ");
    rdn_text_number(t, f->expected);
    rdn_text_add(t, ", \"got\": ");
    rdn_text_number(t, f->got);
    rdn_text_add(t, "}");
  }
  rdn_text_add(t, "}");
}

char *rd_npu_report_json(const rd_npu_report *r) {
  text t = {0};
  rdn_text_add(&t, "{\"summary\": ");
  rdn_text_json(&t, rd_npu_report_summary(r));
  rdn_text_add(&t, ", \"instructions\": %llu, \"schedules\": %llu, \"capped\": %s, \"findings\": [",
               (unsigned long long)rd_npu_report_instructions(r),
               (unsigned long long)(r ? r->schedules : 0), r && r->capped ? "true" : "false");
  for (size_t i = 0; r && i < r->count; i++) json_finding(&t, &r->list[i], i == 0);
  rdn_text_add(&t, "], \"notes\": [");
  for (size_t i = 0; r && i < r->note_count; i++) json_finding(&t, &r->notes[i], i == 0);
  rdn_text_add(&t, "], \"dropped\": [");
  for (size_t i = 0; r && i < r->dropped_count; i++) {
    const rd_npu_dropped *d = &r->dropped[i];
    rdn_text_add(&t, "%s{\"place\": ", i ? ", " : "");
    rdn_text_json(&t, d->place);
    rdn_text_add(&t, ", \"total\": %llu, \"implied\": %llu, \"implied_by\": ",
                 (unsigned long long)d->total, (unsigned long long)d->implied);
    rdn_text_json(&t, d->implied_by);
    rdn_text_add(&t, "}");
  }
  rdn_text_add(&t, "]}");
  return rdn_text_take(&t);
}
