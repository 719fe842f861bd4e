/* Slots: in range, written once, and not read by one sequence while another writes. The set of
 * written slots is a bitmap when the pool is not much larger than the batch, else a sorted list, so
 * that the cost follows the batch and not the pool. */
#include "core/slots.h"

#include <inttypes.h>
#include <string.h>

#include "core/context.h"

enum { SLOTS_PER_ENTRY = 64, SLOTS_ALWAYS = 8192 }; /* bitmap up to 64 n + 8192 slots */

size_t rdi_slot_scratch(int64_t n) {
  /* Bitmap and lists alike need 8 bytes an entry. Any real n fits, since its indices are memory. */
  return n > INT64_MAX / 128 ? SIZE_MAX
                             : (size_t)n * (SLOTS_PER_ENTRY / 8) + SLOTS_ALWAYS / 8 + 128;
}

typedef struct slot_set {
  uint64_t *bits;  /* or NULL: */
  int32_t *sorted; /* [n], rising after seal */
  int64_t n;
} slot_set;

static int set_init(rd_context *ctx, slot_set *set, int64_t slots, int64_t n) {
  *set = (slot_set){0};
  if ((slots - SLOTS_ALWAYS) / SLOTS_PER_ENTRY <= n) {
    const size_t bytes = ((size_t)slots + 63) / 64 * 8;
    set->bits = rdi_scratch_take(ctx, bytes);
    if (set->bits) memset(set->bits, 0, bytes);
    return set->bits != NULL;
  }
  set->sorted = rdi_scratch_take(ctx, (size_t)n * 2 * sizeof *set->sorted);
  return set->sorted != NULL;
}

/* 0 when the slot was there already (lists: seal tells). */
static int set_add(slot_set *set, int32_t slot) {
  if (!set->bits) {
    set->sorted[set->n++] = slot;
    return 1;
  }
  uint64_t *word = &set->bits[slot >> 6];
  const uint64_t bit = (uint64_t)1 << (slot & 63);
  if (*word & bit) return 0;
  *word |= bit;
  return 1;
}

/* Radix sort by bytes: linear whatever the input. Returns a slot that appears twice, or -1. */
static int32_t set_seal(slot_set *set) {
  if (set->bits) return -1;
  int32_t *from = set->sorted, *to = from + set->n;
  for (int shift = 0; shift < 32; shift += 8) {
    int64_t start[257] = {0};
    for (int64_t i = 0; i < set->n; i++) start[((uint32_t)from[i] >> shift & 255) + 1]++;
    for (int i = 0; i < 256; i++) start[i + 1] += start[i];
    for (int64_t i = 0; i < set->n; i++) to[start[(uint32_t)from[i] >> shift & 255]++] = from[i];
    int32_t *swap = from;
    from = to;
    to = swap;
  }
  for (int64_t i = 1; i < set->n; i++)
    if (from[i] == from[i - 1]) return from[i];
  return -1;
}

static int set_has(const slot_set *set, int32_t slot) {
  if (set->bits) return (int)(set->bits[slot >> 6] >> (slot & 63) & 1);
  int64_t lo = 0, hi = set->n;
  while (lo < hi) {
    const int64_t mid = lo + (hi - lo) / 2;
    if (set->sorted[mid] < slot)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < set->n && set->sorted[lo] == slot;
}

static int present(const rdi_states *s) { return s && s->base; }

static const char *name_of(const rdi_states *s, const char *name) {
  return s->name ? s->name : name;
}

static int64_t slot_of(const rdi_states *s, int64_t i) { return s->index ? s->index[i] : i; }

static rd_status out_of_range(rd_context *ctx, const char *name, int64_t i, int64_t slot,
                              int64_t slots, int64_t pad) {
  if (pad == RDI_NO_PAD)
    return rdi_fail(ctx, RD_E_SLOT_RANGE,
                    "%s[%" PRId64 "]: expected 0 to %" PRId64 ", got %" PRId64, name, i, slots - 1,
                    slot);
  return rdi_fail(ctx, RD_E_SLOT_RANGE,
                  "%s[%" PRId64 "]: expected 0 to %" PRId64 " or the pad slot %" PRId64
                  ", got %" PRId64,
                  name, i, slots - 1, pad, slot);
}

static rd_status check_range(rd_context *ctx, const char *name, const rdi_states *s, int64_t n,
                             int64_t pad) {
  if (!s->index) {
    if (n <= s->slots) return RD_OK;
    return out_of_range(ctx, name, s->slots, s->slots, s->slots, pad);
  }
  for (int64_t i = 0; i < n; i++)
    if (s->index[i] != pad && (s->index[i] < 0 || s->index[i] >= s->slots))
      return out_of_range(ctx, name, i, s->index[i], s->slots, pad);
  return RD_OK;
}

static rd_status twice(rd_context *ctx, const char *name, int64_t slot) {
  return rdi_fail(ctx, RD_E_SLOT_DUPLICATE, "%s: slot %" PRId64 " is written twice", name, slot);
}

static rd_status crossed(rd_context *ctx, const char *name, int64_t b, int64_t slot) {
  return rdi_fail(ctx, RD_E_SLOT_DUPLICATE,
                  "%s[%" PRId64 "]: slot %" PRId64 " is written by another sequence", name, b,
                  slot);
}

rd_status rdi_check_slots(rd_context *ctx, const char *name, const rdi_states *read,
                          const rdi_states *write, int64_t B, int64_t pad_slot) {
  rd_status status = RD_OK;
  if (present(read)) status = check_range(ctx, name_of(read, name), read, B, pad_slot);
  if (status == RD_OK && present(write))
    status = check_range(ctx, name_of(write, name), write, B, pad_slot);
  if (status != RD_OK || !present(write) || B <= 1) return status;

  const int cross = present(read) && read->base == write->base && read->index != write->index;
  if (!write->index) { /* sequence b writes slot b */
    for (int64_t b = 0; cross && b < B; b++) {
      const int64_t r = slot_of(read, b);
      if (r != pad_slot && r != b && r < B) return crossed(ctx, name_of(read, name), b, r);
    }
    return RD_OK;
  }
  slot_set set;
  if (!set_init(ctx, &set, write->slots, B)) return RD_E_NOMEM;
  for (int64_t b = 0; b < B; b++)
    if (write->index[b] != pad_slot && !set_add(&set, write->index[b]))
      return twice(ctx, name_of(write, name), write->index[b]);
  const int32_t doubled = set_seal(&set);
  if (doubled >= 0) return twice(ctx, name_of(write, name), doubled);
  for (int64_t b = 0; cross && b < B; b++) {
    const int64_t r = slot_of(read, b);
    if (r != pad_slot && r != write->index[b] && set_has(&set, (int32_t)r))
      return crossed(ctx, name_of(read, name), b, r);
  }
  return RD_OK;
}

rd_status rdi_check_apart(rd_context *ctx, const rdi_states *read, const rdi_states *write,
                          int64_t B, int64_t pad_slot) {
  for (int64_t b = 0; b < B; b++)
    if (slot_of(read, b) == slot_of(write, b) && slot_of(read, b) != pad_slot)
      return rdi_fail(ctx, RD_E_SLOT_DUPLICATE,
                      "%s[%" PRId64 "]: slot %" PRId64 " is read and must not be written",
                      name_of(write, "slots"), b, slot_of(write, b));
  return RD_OK;
}

/* First token's place in the per-token index. */
static int64_t first_token(const rdi_seqs *s, int64_t b) {
  return s->cu ? rdi_seq_start(s, b) : b * s->T;
}

static int own_snapshot(const rdi_seqs *seqs, const rdi_states *snapshots, int64_t b,
                        int64_t slot) {
  const int64_t first = first_token(seqs, b), length = rdi_seq_length(seqs, b);
  for (int64_t t = 0; t < length; t++)
    if (slot_of(snapshots, first + t) == slot) return 1;
  return 0;
}

rd_status rdi_check_snapshots(rd_context *ctx, const char *name, const rdi_seqs *seqs,
                              const rdi_states *read, const rdi_states *write,
                              const rdi_states *snapshots, int64_t pad_slot) {
  const char *label = name_of(snapshots, name);
  rd_status status = rdi_check_slots(ctx, name, read, write, seqs->B, pad_slot);
  if (status != RD_OK) return status;
  int64_t most = seqs->B;
  for (int64_t b = 0; b < seqs->B; b++) most += rdi_seq_length(seqs, b);
  slot_set set;
  if (!set_init(ctx, &set, snapshots->slots, most)) return RD_E_NOMEM;
  const int shared = present(write) && write->base == snapshots->base;
  for (int64_t b = 0; b < seqs->B; b++) {
    const int64_t first = first_token(seqs, b), length = rdi_seq_length(seqs, b);
    for (int64_t t = first; t < first + length; t++) {
      const int64_t slot = slot_of(snapshots, t);
      if (slot == pad_slot) continue;
      if (slot < 0 || slot >= snapshots->slots)
        return out_of_range(ctx, label, t, slot, snapshots->slots, pad_slot);
      if (!set_add(&set, (int32_t)slot)) return twice(ctx, label, slot);
    }
    if (!shared || slot_of(write, b) == pad_slot) continue;
    if (!set_add(&set, (int32_t)slot_of(write, b))) return twice(ctx, label, slot_of(write, b));
  }
  const int32_t doubled = set_seal(&set);
  if (doubled >= 0) return twice(ctx, label, doubled);
  if (!present(read) || read->base != snapshots->base) return RD_OK;
  for (int64_t b = 0; b < seqs->B; b++) {
    const int64_t r = slot_of(read, b);
    if (r == pad_slot || !set_has(&set, (int32_t)r)) continue;
    if (own_snapshot(seqs, snapshots, b, r)) continue;
    if (shared && slot_of(write, b) == r) continue;
    return crossed(ctx, name_of(read, name), b, r);
  }
  return RD_OK;
}
