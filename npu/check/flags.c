#include "npu/check/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rdn_flags_reset(rdn_flags *f) {
  flag_use *u = &f->use[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_SLOTS; n++)
    u[n] = (flag_use){.open = u[n].open, .capacity = u[n].capacity};
}

void rdn_flags_free(rdn_flags *f) {
  flag_use *u = &f->use[0][0][0];
  for (unsigned n = 0; n < PIPES * PIPES * FLAG_SLOTS; n++) free(u[n].open);
  memset(f, 0, sizeof *f);
}

static bool open_set(flag_use *u, uint32_t where) {
  if (u->count == u->capacity) {
    uint32_t capacity = u->capacity ? u->capacity * 2 : 4;
    uint32_t *list = malloc(capacity * sizeof *list);
    if (!list) return false;
    for (uint32_t n = 0; n < u->count; n++) list[n] = u->open[(u->head + n) % u->capacity];
    free(u->open);
    u->open = list, u->head = 0, u->capacity = capacity;
  }
  u->open[(u->head + u->count++) % u->capacity] = where;
  return true;
}

static bool double_set(const flag_use *u, const insn *i, finding_list *found) {
  raw_access b = {.pipe = i->pipe, .op = OP_set_flag, .site = i->site, .begin = i->flag.id}, a = b;
  a.site = u->open[(u->head + u->count - 1) % u->capacity];
  char why[160];
  snprintf(why, sizeof why, "flag %s_%s %u is set again and no wait for it has been issued between",
           rd_npu_pipe_name(i->flag.src), rd_npu_pipe_name(i->flag.dst), i->flag.id);
  return rdn_finding_add(found, RD_NPU_DOUBLE_SET, &a, &b, why) != NULL;
}

bool rdn_flags_issue(rdn_flags *f, const insn *i, finding_list *found) {
  flag_use *u = &f->use[i->flag.src][i->flag.dst][i->flag.id];
  if (i->op == OP_set_flag) {
    if (u->owed) {
      u->owed--;
      return true;
    }
    bool counts = i->flag.id == FLAG_IDS; /* options.with's own */
    return (!u->count || counts || double_set(u, i, found)) && open_set(u, i->site);
  }
  if (!u->count) {
    u->owed++;
    return true;
  }
  u->head = (u->head + 1) % u->capacity;
  u->count--;
  return true;
}

/* With binary flags the k-th wait must come before the (k+1)-th set.  A wait by S precedes what S
 * issues later. */
static bool may_be_set(const flag_use *u, const insn *i, const vclock *now) {
  if (i->flag.id == FLAG_IDS) return false; /* options.with's own counts */
  if (u->waits < u->sets) return true;
  if (!u->waits) return false;
  if (i->flag.dst == RD_NPU_PIPE_S) return now->waited < u->wait;
  return now->at[i->flag.dst] < u->wait;
}

static bool note_reuse(const flag_use *u, const insn *i, finding_list *reuse) {
  const char *src = rd_npu_pipe_name(i->flag.src), *dst = rd_npu_pipe_name(i->flag.dst);
  raw_access b = {.pipe = i->pipe, .op = OP_set_flag, .site = i->site, .begin = i->flag.id};
  raw_access a = {
      .pipe = i->flag.dst, .op = OP_wait_flag, .site = u->wait_site, .begin = i->flag.id};
  if (u->waits < u->sets) a.pipe = i->flag.src, a.op = OP_set_flag, a.site = u->set_site;
  char why[200];
  snprintf(why, sizeof why,
           "flag %s_%s %u may still be set when it is set again: a flag that does not count needs "
           "%s_%s from the wait",
           src, dst, i->flag.id, dst, src);
  return rdn_finding_add(reuse, RD_NPU_FLAG_REUSE, &a, &b, why) != NULL;
}

bool rdn_flags_run(rdn_flags *f, const insn *i, const vclock *now, finding_list *reuse) {
  flag_use *u = &f->use[i->flag.src][i->flag.dst][i->flag.id];
  bool ok = true;
  if (i->op == OP_set_flag) {
    if (may_be_set(u, i, now)) ok = note_reuse(u, i, reuse);
    u->sets++;
    u->set_site = i->site;
  } else {
    u->waits++;
    u->wait = i->index, u->wait_site = i->site;
  }
  return ok;
}

static bool left_over(const flag_use *u, unsigned src, unsigned dst, unsigned id,
                      finding_list *found) {
  raw_access set = {.pipe = (uint8_t)src, .op = OP_set_flag, .site = u->open[u->head], .begin = id};
  char why[120];
  snprintf(why, sizeof why,
           "flag %s_%s %u is still set when the kernel ends: %u more set%s than waits",
           rd_npu_pipe_name(src), rd_npu_pipe_name(dst), id, u->count, u->count == 1 ? "" : "s");
  raw_finding *r = rdn_finding_add(found, RD_NPU_LEFTOVER_FLAG, &set, NULL, why);
  if (r) r->count += u->count - 1;
  return r != NULL;
}

bool rdn_flags_finish(const rdn_flags *f, finding_list *found) {
  bool ok = true;
  for (unsigned a = 0; a < PIPES; a++)
    for (unsigned b = 0; b < PIPES; b++)
      for (unsigned id = 0; id < FLAG_SLOTS && ok; id++)
        if (f->use[a][b][id].count) ok = left_over(&f->use[a][b][id], a, b, id, found);
  return ok;
}
