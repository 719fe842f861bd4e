#include "npu/check/shadow.h"

#include <stdlib.h>
#include <string.h>

bool rdn_shadow_init(shadow *s, const rd_npu_launch *l) {
  memset(s, 0, sizeof *s);
  s->launch = l;
  const rd_npu_arch_info *a = rd_npu_arch_get(l->arch);
  bool ok = true;
  for (unsigned b = 1; b < RD_NPU_BUFFERS; b++) {
    s->granules[b] = a->capacity[b] / GRANULE;
    s->local[b] = calloc(s->granules[b], sizeof(granule));
    ok = ok && s->local[b];
  }
  s->gm = calloc(l->tensor_count + 1, sizeof *s->gm);
  for (uint32_t t = 0; ok && s->gm && t < l->tensor_count; t++) {
    uint64_t granules = (l->tensors[t].bytes + RDN_GM_SLACK) / GRANULE + 1;
    s->gm[t].page_count = (granules + PAGE_GRANULES - 1) / PAGE_GRANULES;
    s->gm[t].pages = calloc(s->gm[t].page_count, sizeof *s->gm[t].pages);
    ok = s->gm[t].pages != NULL;
  }
  return ok && s->gm;
}

static void drop_more(granule *list, uint64_t count) {
  for (uint64_t n = 0; n < count; n++)
    for (granule *g = list[n].more, *next; g; g = next) {
      next = g->more;
      free(g);
    }
}

shadow_entry *rdn_shadow_entry(shadow *s, granule *g) {
  while (g->count == GRANULE_ENTRIES) {
    if (!g->more) {
      g->more = calloc(1, sizeof *g->more);
      if (!g->more) return NULL;
      s->grown = true;
    }
    g = g->more;
  }
  return &g->entry[g->count++];
}

static void drop_pages(shadow *s) {
  for (uint32_t t = 0; s->gm && t < s->launch->tensor_count; t++)
    for (uint64_t p = 0; s->gm[t].pages && p < s->gm[t].page_count; p++) {
      if (s->grown && s->gm[t].pages[p]) drop_more(s->gm[t].pages[p], PAGE_GRANULES);
      free(s->gm[t].pages[p]);
      s->gm[t].pages[p] = NULL;
    }
}

static void drop_all(shadow *s) {
  for (unsigned b = 1; s->grown && b < RD_NPU_BUFFERS; b++)
    if (s->local[b]) drop_more(s->local[b], s->granules[b]);
  drop_pages(s);
  s->grown = false;
}

void rdn_shadow_reset(shadow *s) {
  drop_all(s);
  for (unsigned b = 1; b < RD_NPU_BUFFERS; b++)
    memset(s->local[b], 0, s->granules[b] * sizeof(granule));
}

void rdn_shadow_free(shadow *s) {
  if (!s->launch) return;
  drop_all(s);
  for (uint32_t t = 0; s->gm && t < s->launch->tensor_count; t++) free(s->gm[t].pages);
  free(s->gm);
  for (unsigned b = 0; b < RD_NPU_BUFFERS; b++) free(s->local[b]);
  memset(s, 0, sizeof *s);
}

static granule *new_page(const rd_npu_tensor *t, uint64_t first) {
  granule *page = calloc(PAGE_GRANULES, sizeof *page);
  if (!page || !(t->mode & RD_NPU_IN)) return page;
  for (uint64_t g = 0; g < PAGE_GRANULES; g++) {
    uint64_t at = (first + g) * GRANULE;
    if (at + GRANULE <= t->bytes)
      page[g].init = UINT32_MAX;
    else if (at < t->bytes)
      page[g].init = (1u << (t->bytes - at)) - 1;
  }
  return page;
}

granule *rdn_shadow_at(shadow *s, unsigned buffer, uint32_t tensor, uint64_t index) {
  if (buffer != RD_NPU_GM) return &s->local[buffer][index];
  gm_shadow *g = &s->gm[tensor];
  uint64_t page = index / PAGE_GRANULES;
  if (!g->pages[page]) g->pages[page] = new_page(&s->launch->tensors[tensor], page * PAGE_GRANULES);
  return g->pages[page] ? g->pages[page] + index % PAGE_GRANULES : NULL;
}

/* Is byte `at` initialised?  Input tensors have no pages: their bytes decide. */
static bool is_init(shadow *s, const operand *o, uint64_t at, bool *failed) {
  if (o->buffer == RD_NPU_GM && !(s->launch->tensors[o->tensor].mode & RD_NPU_OUT))
    return at < s->launch->tensors[o->tensor].bytes;
  granule *g = rdn_shadow_at(s, o->buffer, o->tensor, at / GRANULE);
  if (!g) {
    *failed = true;
    return false;
  }
  return g->init >> (at % GRANULE) & 1;
}

static bool all_init(shadow *s, const operand *o, uint64_t begin, uint64_t end, bool *failed) {
  if (o->buffer == RD_NPU_GM && !(s->launch->tensors[o->tensor].mode & RD_NPU_OUT))
    return end <= s->launch->tensors[o->tensor].bytes;
  while (begin < end) {
    granule *g = rdn_shadow_at(s, o->buffer, o->tensor, begin / GRANULE);
    if (!g) {
      *failed = true;
      return false;
    }
    uint64_t stop = (begin / GRANULE + 1) * GRANULE, n = (stop < end ? stop : end) - begin;
    uint32_t mask = n == 32 ? UINT32_MAX : (uint32_t)(((1ull << n) - 1) << begin % GRANULE);
    if ((g->init & mask) != mask) return false;
    begin += n;
  }
  return true;
}

bool rdn_shadow_move(shadow *s, const insn *i, const operand *src, const operand *dst) {
  bool failed = false;
  for (uint64_t u = 0; u < dst->units && !failed; u++) {
    uint64_t from = src->base + u * src->stride, to = dst->base + u * dst->stride;
    bool padded = dst->bytes > src->bytes;
    if (!padded && all_init(s, src, from, from + src->bytes, &failed)) continue;
    for (uint64_t b = 0; b < dst->bytes && !failed; b++) {
      int64_t at = rdn_source_byte(i, src, b);
      if (at >= 0 && is_init(s, src, from + (uint64_t)at, &failed)) continue;
      granule *g = rdn_shadow_at(s, dst->buffer, dst->tensor, (to + b) / GRANULE);
      if (!g)
        failed = true;
      else
        g->init &= ~(1u << (to + b) % GRANULE);
    }
  }
  return !failed;
}
