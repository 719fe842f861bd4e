/* The list of raw findings of one core. */
#include "npu/check/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7FB5D329728EA185u;
  x ^= x >> 27;
  return (uint32_t)(x ^ x >> 32);
}

void rdn_finding_free(finding_list *f) {
  free(f->list);
  free(f->hash);
  memset(f, 0, sizeof *f);
}

static bool same_finding(const raw_finding *r, uint8_t kind, const raw_access *a,
                         const raw_access *b) {
  return r->kind == kind && r->first.site == a->site && r->first.op == a->op &&
         r->first.buffer == a->buffer && r->second.site == b->site && r->second.op == b->op;
}

static uint32_t finding_slot(const finding_list *f, uint8_t kind, const raw_access *a,
                             const raw_access *b) {
  uint32_t at = mix(kind + a->site * 0x9E3779B97F4A7C15u + b->site * 0xC2B2AE3D27D4EB4Fu + a->op);
  for (;; at++) {
    uint32_t slot = at & (f->hash_size - 1), id = f->hash[slot];
    if (!id || same_finding(&f->list[id - 1], kind, a, b)) return slot;
  }
}

static bool finding_grow(finding_list *f) {
  uint32_t capacity = f->capacity ? f->capacity * 2 : 32;
  raw_finding *list = realloc(f->list, capacity * sizeof *list);
  if (list) f->list = list;
  uint32_t *hash = calloc((size_t)capacity * 2, sizeof *hash);
  if (!list || !hash) {
    free(hash);
    f->out_of_memory = true;
    return false;
  }
  free(f->hash);
  f->hash = hash;
  f->hash_size = capacity * 2;
  f->capacity = capacity;
  for (uint32_t id = 1; id <= f->count; id++)
    hash[finding_slot(f, list[id - 1].kind, &list[id - 1].first, &list[id - 1].second)] = id;
  return true;
}

raw_finding *rdn_finding_add(finding_list *f, rd_npu_finding_kind kind, const raw_access *first,
                             const raw_access *second, const char *why) {
  static const raw_access none = {.op = OP_COUNT};
  const raw_access *b = second ? second : &none;
  if (f->count + 1 >= f->capacity && !finding_grow(f)) return NULL;
  uint32_t slot = finding_slot(f, (uint8_t)kind, first, b);
  if (!f->hash[slot]) {
    raw_finding *r = &f->list[f->count++];
    memset(r, 0, sizeof *r);
    r->kind = (uint8_t)kind;
    r->first = *first;
    r->second = *b;
    if (why) snprintf(r->why, sizeof r->why, "%s", why);
    f->hash[slot] = f->count;
  }
  raw_finding *r = &f->list[f->hash[slot] - 1];
  r->count++;
  return r;
}
