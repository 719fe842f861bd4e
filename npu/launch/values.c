/*
 * Kernels that read values while only a recording was asked for: order-only runs, the trace,
 * mutation, and schedules that are run from the recording.
 *
 * Nobody knows that a kernel reads values until it does.  The first read allocates a core's memory and
 * private copies of the tensors that the launch can write, executes what has been recorded so far and
 * leaves execution on: the caller's outputs keep their bytes.
 */
#include "npu/launch/values.h"
#include "npu/schedule/image.h"
#include "npu/schedule/scheduler.h"

#include <stdlib.h>

struct value_run {
  memory mem;
  gm_image image;
};

bool rdn_values_begin(rd_npu_core *c) {
  c->values = calloc(1, sizeof *c->values);
  if (!c->values) return false;
  struct value_run *v = c->values;
  const gm_image from = {c->launch, c->outputs};
  bool ok = rdn_memory_init(&v->mem, c->launch) && rdn_memory_regs(&v->mem, c->prog.regs);
  ok = ok && (c->outputs ? rdn_image_copy(&v->image, &from) : rdn_image_take(&v->image, c->launch));
  if (!ok) return false;
  rdn_image_bind(&v->image, &v->mem);
  if (!rdn_replay_plain(&c->prog, &v->mem)) return false;
  c->mem = &v->mem;
  c->execute = true;
  return true;
}

void rdn_values_end(rd_npu_core *c) {
  if (!c->values) return;
  rdn_memory_free(&c->values->mem);
  rdn_image_free(&c->values->image);
  free(c->values);
  c->values = NULL;
}
