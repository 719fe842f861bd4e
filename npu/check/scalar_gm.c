/*
 * The scalar unit sees GM that its launch writes through a data cache of 64-byte lines.  Happens-before
 * alone does not make an access safe then:
 *
 *   stale  S touches a line that it holds from before a write by another pipe, although the write is
 *          ordered before the access: it was not ordered before the line was filled.  Reads of the bytes
 *          written count; for a store every byte of the line does, since cleaning writes the line.
 *   lost   another pipe reads bytes that S stored, after the store and while the line is dirty; or the
 *          kernel ends with a dirty line.
 *
 * Where the two accesses are not even ordered, that is a race and reported as one.  Cleaning is a
 * write by S of the dirty bytes, so what reads them has to come after the cleaning, not the store; and
 * of the whole line for what another pipe writes to it.
 * Lines of two cores are compared after the run (report/lines.c).
 */
#include "npu/check/scalar_gm.h"

#include <stdlib.h>
#include <string.h>

/* The first line at or behind (tensor, number). */
static size_t lower(const line_list *g, uint32_t tensor, uint64_t number) {
  size_t low = 0, high = g->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const cached_line *l = &g->list[middle];
    if (l->tensor < tensor || (l->tensor == tensor && l->number < number))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static cached_line *find(line_list *g, uint32_t tensor, uint64_t number) {
  size_t n = lower(g, tensor, number);
  bool there = n < g->count && g->list[n].tensor == tensor && g->list[n].number == number;
  return there ? &g->list[n] : NULL;
}

static cached_line *add(line_list *g, const cached_line *l) {
  if (g->count == g->capacity) {
    size_t capacity = g->capacity ? g->capacity * 2 : 16;
    cached_line *list = realloc(g->list, capacity * sizeof *list);
    if (!list) return NULL;
    g->list = list;
    g->capacity = capacity;
  }
  size_t n = lower(g, l->tensor, l->number); /* mostly the end */
  memmove(&g->list[n + 1], &g->list[n], (g->count - n) * sizeof *g->list);
  g->count++;
  g->list[n] = *l;
  return &g->list[n];
}

static void drop(line_list *g, size_t begin, size_t end) {
  if (begin == end) return; /* the list may not be there */
  memmove(&g->list[begin], &g->list[end], (g->count - end) * sizeof *g->list);
  g->count -= end - begin;
}

void rdn_scalar_gm_free(scalar_gm *g) {
  free(g->held.list);
  free(g->cleaned.list);
}

static uint32_t granule_mask(uint64_t number, uint64_t begin, uint64_t end) {
  uint64_t base = number * GRANULE;
  uint32_t low = begin > base ? (uint32_t)(begin - base) : 0;
  uint32_t high = end < base + GRANULE ? (uint32_t)(end - base) : GRANULE;
  return (uint32_t)(((1ull << high) - 1) & ~((1ull << low) - 1));
}

/* A write by another pipe to [begin, end) that the line does not hold.  `ordered`: only one that is
 * known to have finished, the others being races already. */
static bool stale(const gm_step *s, const cached_line *l, uint64_t begin, uint64_t end,
                  bool ordered, bool *failed) {
  raw_access now = {.pipe = s->i->pipe, .op = s->i->op, .site = s->i->site};
  for (uint64_t n = begin / GRANULE; n * GRANULE < end; n++) {
    const granule *g = rdn_shadow_at(s->shadow, RD_NPU_GM, l->tensor, n);
    *failed |= !g;
    uint32_t mask = granule_mask(n, begin, end);
    for (; g; g = g->more)
      for (unsigned k = 0; k < g->count; k++) {
        const shadow_entry *e = &g->entry[k];
        uint32_t common = e->mask & mask;
        if (!e->write || e->pipe == RD_NPU_PIPE_S || !common) continue;
        if (l->filled.at[e->pipe] >= e->index) continue;
        if (ordered && s->now->at[e->pipe] < e->index) continue;
        raw_access first = s->earlier(s->user, e->pipe, e->index);
        first.buffer = now.buffer = RD_NPU_GM;
        first.tensor = now.tensor = l->tensor;
        first.begin = now.begin = n * GRANULE + (unsigned)__builtin_ctz(common);
        first.end = now.end = n * GRANULE + 32u - (unsigned)__builtin_clz(common);
        bool cleans = rdn_ops[s->i->op].cls == CLASS_S_CACHE;
        *failed |= !rdn_finding_add(
            s->found, RD_NPU_STALE_LINE, &first, &now,
            cleans ? "cleaning writes a line back that S holds from before the write: clean and "
                     "invalidate it before the write, and store after it"
                   : "S holds this line of its data cache from before the write: "
                     "data_cache_clean_and_invalid is missing between the two");
        return true;
      }
  }
  return false;
}

static bool by_scalar(scalar_gm *g, const gm_step *s, const operand *o) {
  uint64_t number = o->base / CACHE_LINE, begin = number * CACHE_LINE;
  bool failed = false, store = o->access & WRITE;
  cached_line *l = find(&g->held, o->tensor, number);
  if (!l) {
    cached_line fresh = {.tensor = o->tensor, .number = number, .filled = *s->now};
    if (!(l = add(&g->held, &fresh))) return false;
  } else if (store)
    stale(s, l, begin, begin + CACHE_LINE, true, &failed);
  else if (!(l->dirty >> (o->base - begin) & 1))
    stale(s, l, o->base, o->base + o->bytes, true, &failed);
  if (!store) return !failed;
  l->dirty |= ((1ull << o->bytes) - 1) << (o->base - begin);
  l->stored = s->i->index;
  l->store = (raw_access){.pipe = s->i->pipe,
                          .op = s->i->op,
                          .site = s->i->site,
                          .buffer = RD_NPU_GM,
                          .tensor = o->tensor,
                          .begin = o->base,
                          .end = o->base + o->bytes};
  return !failed;
}

/* Another pipe reads one run of bytes: is some of it only in the cache? */
static bool read_of(const cached_line *l, const gm_step *s, uint64_t begin, uint64_t end) {
  uint64_t base = l->number * CACHE_LINE;
  if (!l->dirty || end <= base || begin >= base + CACHE_LINE) return true;
  unsigned low = begin > base ? (unsigned)(begin - base) : 0,
           high = end < base + CACHE_LINE ? (unsigned)(end - base) : CACHE_LINE;
  uint64_t mask = (high == 64 ? ~0ull : (1ull << high) - 1) & ~((1ull << low) - 1);
  mask &= l->dirty;
  if (!mask || s->now->at[RD_NPU_PIPE_S] < l->stored) return true; /* the latter is a race */
  raw_access now = {.pipe = s->i->pipe,
                    .op = s->i->op,
                    .site = s->i->site,
                    .buffer = RD_NPU_GM,
                    .tensor = l->tensor,
                    .begin = base + (unsigned)__builtin_ctzll(mask),
                    .end = base + 64u - (unsigned)__builtin_clzll(mask)};
  raw_access first = l->store;
  return rdn_finding_add(s->found, RD_NPU_LOST_LINE, &first, &now,
                         "reads what S has stored and not cleaned: data_cache_clean_and_invalid is "
                         "missing between the two");
}

/* Another pipe writes one run of bytes: may cleaning the line come after it? */
static bool write_of(const cached_line *l, const gm_step *s, uint64_t begin, uint64_t end) {
  uint64_t base = l->number * CACHE_LINE;
  if (end <= base || begin >= base + CACHE_LINE || s->now->at[RD_NPU_PIPE_S] >= l->stored)
    return true;
  raw_access now = {.pipe = s->i->pipe,
                    .op = s->i->op,
                    .site = s->i->site,
                    .buffer = RD_NPU_GM,
                    .tensor = l->tensor,
                    .begin = begin > base ? begin : base,
                    .end = end < base + CACHE_LINE ? end : base + CACHE_LINE};
  return rdn_finding_add(s->found, RD_NPU_RACE_WAW, &l->store, &now,
                         "nothing orders the write after the cleaning of its 64-byte line by S");
}

bool rdn_scalar_gm_access(scalar_gm *g, const gm_step *s, const operand *o) {
  if (s->i->pipe == RD_NPU_PIPE_S) return by_scalar(g, s, o);
  bool ok = true, reads = o->access & READ;
  const line_list *lines = reads ? &g->held : &g->cleaned;
  for (uint64_t u = 0; u < o->units && lines->count; u++) {
    uint64_t begin = o->base + u * o->stride, end = begin + o->bytes;
    for (size_t n = lower(lines, o->tensor, begin / CACHE_LINE); ok && n < lines->count; n++) {
      const cached_line *l = &lines->list[n];
      if (l->tensor != o->tensor || l->number * CACHE_LINE >= end) break;
      ok = (reads ? read_of : write_of)(l, s, begin, end);
    }
  }
  return ok;
}

static bool remember_clean(scalar_gm *g, const gm_step *s, const cached_line *l) {
  cached_line cleaned = *l, *known = find(&g->cleaned, l->tensor, l->number);
  cleaned.stored = s->i->index;
  cleaned.store.op = s->i->op;
  cleaned.store.site = s->i->site;
  cleaned.store.begin = l->number * CACHE_LINE;
  cleaned.store.end = cleaned.store.begin + CACHE_LINE;
  if (known) *known = cleaned;
  return known || add(&g->cleaned, &cleaned);
}

bool rdn_scalar_gm_clean(scalar_gm *g, const gm_step *s,
                         void (*write)(void *user, uint32_t tensor, uint64_t begin, uint64_t end),
                         void *user) {
  bool failed = false, whole = !s->i->s.bytes;
  uint64_t number = addr_offset(s->i->s.addr) / CACHE_LINE;
  line_list *held = &g->held;
  size_t first = whole ? 0 : lower(held, addr_tensor(s->i->s.addr), number), n = first;
  for (; n < held->count; n++) {
    cached_line *l = &held->list[n];
    if (!whole && (l->number != number || l->tensor != addr_tensor(s->i->s.addr))) break;
    uint64_t base = l->number * CACHE_LINE;
    if (l->dirty) {
      stale(s, l, base, base + CACHE_LINE, false, &failed);
      failed |= !remember_clean(g, s, l);
    }
    for (unsigned b = 0; b < CACHE_LINE && l->dirty >> b;) {
      unsigned low = b + (unsigned)__builtin_ctzll(l->dirty >> b), high = low;
      while (high < CACHE_LINE && l->dirty >> high & 1) high++;
      write(user, l->tensor, base + low, base + high);
      b = high;
    }
  }
  drop(held, first, n);
  return !failed;
}

bool rdn_scalar_gm_finish(const scalar_gm *g, finding_list *found) {
  const line_list *held = &g->held;
  bool ok = true;
  for (size_t n = 0; n < held->count && ok; n++)
    if (held->list[n].dirty)
      ok = rdn_finding_add(found, RD_NPU_LOST_LINE, &held->list[n].store, NULL,
                           "the line of the data cache is never cleaned: "
                           "data_cache_clean_and_invalid is missing");
  return ok;
}
