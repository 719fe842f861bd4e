#include "npu/check/ranges.h"

#include <stdlib.h>

bool rdn_ranges_add(range_set *s, range r) {
  if (r.begin >= r.end) return true;
  if (s->count) { /* the common case: the next row of the same copy */
    range *last = &s->list[s->count - 1];
    if (r.begin <= last->end && r.end >= last->begin && r.site == last->site) {
      if (r.begin < last->begin) last->begin = r.begin;
      if (r.end > last->end) last->end = r.end;
      return true;
    }
  }
  if (s->count == s->capacity) {
    size_t before = s->count;
    rdn_ranges_merge(s);
    if (s->count * 2 > before || !s->capacity) {
      size_t capacity = s->capacity ? s->capacity * 2 : 64;
      range *list = realloc(s->list, capacity * sizeof *list);
      if (!list) return false;
      s->list = list;
      s->capacity = capacity;
    }
  }
  s->list[s->count++] = r;
  return true;
}

static int by_begin(const void *x, const void *y) {
  const range *a = x, *b = y;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return a->site < b->site ? -1 : a->site > b->site;
}

void rdn_ranges_merge(range_set *s) {
  if (s->count < 2) return;
  qsort(s->list, s->count, sizeof *s->list, by_begin);
  size_t n = 0;
  for (size_t i = 1; i < s->count; i++) {
    if (s->list[i].begin <= s->list[n].end) {
      if (s->list[i].end > s->list[n].end) s->list[n].end = s->list[i].end;
    } else
      s->list[++n] = s->list[i];
  }
  s->count = n + 1;
}
