/*
 * Kernels: a frame that fills every buffer before and stores every buffer after, and between the two
 *   - a soup of operations, flags and barriers;
 *   - operations whose conflicts are then ordered, by events where possible, waits also queued before
 *     their sets, and perhaps one piece of that taken out or moved again;
 *   - a loop over two slots, unrolled, perhaps with one piece taken out.
 */
#include "generate.h"
#include "second.h"

#include <string.h>

static uint32_t renumbered(int8_t *reg, uint32_t at, int by) {
  if (*reg >= 0 && (uint32_t)*reg >= at) *reg = (int8_t)(*reg + by);
  return 0;
}
bool insert_step(random_kernel *k, uint32_t at, step s) {
  if (k->count == MOST_STEPS) return false;
  memmove(&k->list[at + 1], &k->list[at], (k->count - at) * sizeof *k->list);
  k->list[at] = s;
  k->count++;
  for (uint32_t n = at + 1; n < k->count; n++)
    renumbered(&k->list[n].reg, at, 1), renumbered(&k->list[n].reg2, at, 1);
  return true;
}
void remove_step(random_kernel *k, uint32_t at) {
  memmove(&k->list[at], &k->list[at + 1], (k->count - at - 1) * sizeof *k->list);
  k->count--;
  for (uint32_t n = at; n < k->count; n++) {
    step *s = &k->list[n];
    if (s->reg == (int)at) s->reg = -1;
    if (s->reg2 == (int)at) s->reg2 = -1;
    renumbered(&s->reg, at + 1, -1), renumbered(&s->reg2, at + 1, -1);
  }
}

static void add(random_kernel *k, step s) { insert_step(k, k->count, s); }
static step barrier(const random_kernel *k, uint8_t pipe) {
  step s = blank(k, R_pipe_barrier);
  s.dst = pipe;
  s.pipe = pipe == RD_NPU_PIPE_ALL ? RD_NPU_PIPE_S : pipe;
  return s;
}
static step flag(const random_kernel *k, random_op op, uint8_t src, uint8_t dst, uint32_t id) {
  step s = blank(k, op);
  s.src = src, s.dst = dst, s.id = (uint8_t)id;
  s.pipe = op == R_set_flag ? src : dst;
  return s;
}

/* ------------------------------------------------------------------ frame */

static bool has_ub(const random_kernel *k) {
  return k->kind != RD_NPU_CUBE || k->arch == RD_NPU_950;
}
static uint32_t fractals(const random_kernel *k) { return k->wide ? 12 : 4; }
static step load(const random_kernel *k, random_op op, uint64_t d, uint32_t n) {
  step s = blank(k, op);
  s.d = d, s.a = RD_NPU_ADDR(RD_NPU_L1, 0), s.p[1] = n, s.p[2] = 1;
  return s;
}

static void begin(random_kernel *k) {
  uint64_t in = RD_NPU_GM_ADDR(GM_IN, 0);
  if (has_ub(k)) {
    add(k, burst(k, R_copy_gm_to_ubuf, RD_NPU_ADDR(RD_NPU_UB, 0), in, UB_WINDOW / 32));
    if (k->arch == RD_NPU_310P)
      add(k,
          burst(k, R_copy_gm_to_ubuf, RD_NPU_ADDR(RD_NPU_UB, UB_OFFSETS), in + IN_BYTES - 512, 16));
  }
  if (k->cube) {
    add(k,
        burst(k, R_copy_gm_to_cbuf, RD_NPU_ADDR(RD_NPU_L1, 0), in, k->wide ? L1_BYTES / 32 : 64));
    add(k, barrier(k, RD_NPU_PIPE_ALL));
    add(k, load(k, R_load_cbuf_to_ca, RD_NPU_ADDR(RD_NPU_L0A, 0), 4));
    add(k, load(k, R_load_cbuf_to_cb, RD_NPU_ADDR(RD_NPU_L0B, 0), k->wide ? 12 : 4));
    add(k, barrier(k, RD_NPU_PIPE_ALL));
    step m = blank(k, R_mad);
    m.type = RD_NPU_F16, m.yes = true;
    m.d = RD_NPU_ADDR(RD_NPU_L0C, 0), m.a = RD_NPU_ADDR(RD_NPU_L0A, 0),
    m.b = RD_NPU_ADDR(RD_NPU_L0B, 0);
    m.p[0] = 16, m.p[1] = 16, m.p[2] = 16 * fractals(k);
    add(k, m);
  }
  add(k, barrier(k, RD_NPU_PIPE_ALL));
  for (uint32_t n = 0; n < k->count; n++) k->list[n].fixed = true;
}

static void finish(random_kernel *k, bool store) {
  uint32_t from = k->count;
  uint64_t dump = RD_NPU_GM_ADDR(GM_DUMP, 0), landing = RD_NPU_ADDR(RD_NPU_UB, UB_LANDING);
  add(k, barrier(k, RD_NPU_PIPE_ALL));
  if (store && has_ub(k))
    add(k, burst(k, R_copy_ubuf_to_gm, dump, RD_NPU_ADDR(RD_NPU_UB, 0), UB_WINDOW / 32));
  if (store && k->cube && k->arch == RD_NPU_310P) {
    step c = blank(k, R_copy_matrix_cc_to_ubuf);
    c.d = landing, c.a = RD_NPU_ADDR(RD_NPU_L0C, 0), c.p[0] = 1, c.p[1] = fractals(k);
    add(k, c);
    add(k, barrier(k, RD_NPU_PIPE_ALL));
    add(k, burst(k, R_copy_ubuf_to_gm, dump + UB_WINDOW, landing, 32 * fractals(k)));
  } else if (store && k->cube) {
    step c = blank(k, R_copy_matrix_cc_to_gm);
    c.d = dump + UB_WINDOW, c.a = RD_NPU_ADDR(RD_NPU_L0C, 0);
    c.p[0] = 16, c.p[1] = c.p[3] = 16 * fractals(k), c.p[2] = 16;
    add(k, c);
  }
  if (store) add(k, barrier(k, RD_NPU_PIPE_ALL));
  for (uint32_t n = from; n < k->count; n++) k->list[n].fixed = true;
}

/* ------------------------------------------------------------------ synchronisation */

static uint8_t draw_pipe(const random_kernel *k, uint64_t *s) {
  unsigned pipes = pipes_of(k->kind);
  for (;;) {
    uint32_t p = below(s, RD_NPU_PIPES);
    if (pipes >> p & 1) return (uint8_t)p;
  }
}

static void soup(random_kernel *k, uint64_t *s, uint32_t operations, uint32_t sync) {
  uint32_t first = k->count;
  step held[8];
  uint32_t holding = 0;
  for (uint32_t n = 0; n < operations && k->count - first + holding < MOST_RANDOM - 4; n++) {
    add(k, draw_operation(k, s));
    for (uint32_t i = below(s, sync + 1); i > 0 && k->count - first + holding < MOST_RANDOM - 3;
         i--) {
      uint8_t a = draw_pipe(k, s), b = draw_pipe(k, s);
      if (a == b) {
        if (a != RD_NPU_PIPE_S) add(k, barrier(k, below(s, 6) ? a : RD_NPU_PIPE_ALL));
        continue;
      }
      uint32_t id = below(s, 3), late = below(s, 4);
      step set = flag(k, R_set_flag, a, b, id), wait = flag(k, R_wait_flag, a, b, id);
      bool early = late == 0 && below(s, 2);
      if (late == 0 && holding < 8) {
        add(k, early ? wait : set);
        held[holding++] = early ? set : wait;
      } else {
        add(k, set);
        if (below(s, 40)) add(k, wait);
      }
    }
    while (holding && below(s, 2)) add(k, held[--holding]);
  }
  while (holding) add(k, held[--holding]);
}

/* Any place after `low` and up to `high` with nothing of the queue between it and `high` (a wait), or
 * between `low` and it (a set). */
static uint32_t draw_place(const random_kernel *k, uint64_t *s, uint32_t low, uint32_t high,
                           uint8_t pipe, bool wait) {
  uint32_t begin = low, end = high;
  if (wait)
    for (uint32_t n = low; n < high; n++)
      if (k->list[n].pipe == pipe || k->list[n].pipe == RD_NPU_PIPE_S) begin = n + 1;
  if (!wait)
    for (uint32_t n = high; n > low; n--)
      if (k->list[n - 1].pipe == pipe || k->list[n - 1].pipe == RD_NPU_PIPE_S) end = n - 1;
  if (begin > end) return wait ? high : low;
  return begin + below(s, end - begin + 1);
}

static uint32_t uses(const random_kernel *k, uint8_t src, uint8_t dst, uint32_t id) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->count; i++)
    n += k->list[i].op == R_set_flag && k->list[i].src == src && k->list[i].dst == dst &&
         k->list[i].id == id;
  return n;
}

/* S waits for its own event to come back from another pipe, before it issues b. */
static bool order_by_round_trip(random_kernel *k, uint64_t *s, uint32_t a, uint32_t b) {
  uint8_t via = draw_pipe(k, s);
  while (via == RD_NPU_PIPE_S) via = draw_pipe(k, s);
  uint32_t at = a + 1 + below(s, b - a), there = 0, back = 0;
  while (there < 8 && uses(k, RD_NPU_PIPE_S, via, there)) there++;
  while (back < 8 && uses(k, via, RD_NPU_PIPE_S, back)) back++;
  if (there == 8 || back == 8) return false;
  return insert_step(k, at, flag(k, R_set_flag, RD_NPU_PIPE_S, via, there)) &&
         insert_step(k, at + 1, flag(k, R_wait_flag, RD_NPU_PIPE_S, via, there)) &&
         insert_step(k, at + 2, flag(k, R_set_flag, via, RD_NPU_PIPE_S, back)) &&
         insert_step(k, at + 3, flag(k, R_wait_flag, via, RD_NPU_PIPE_S, back));
}

/* Orders instruction a before b. */
static bool order(random_kernel *k, uint64_t *s, uint32_t a, uint32_t b, uint32_t frame) {
  uint8_t p = k->list[a].pipe, q = k->list[b].pipe;
  if (p == q) return insert_step(k, a + 1 + below(s, b - a), barrier(k, p));
  if (p == RD_NPU_PIPE_S && below(s, 3) == 0) return order_by_round_trip(k, s, a, b);
  uint32_t id = below(s, 8);
  for (uint32_t n = 0; n < 8 && uses(k, p, q, id); n++) id = (id + 1) % 8;
  if (uses(k, p, q, id) || below(s, 12) == 0)
    return insert_step(k, a + 1 + below(s, b - a), barrier(k, RD_NPU_PIPE_ALL));
  /* the wait first in the list, then the set where a now is: either may come out first */
  uint32_t low = below(s, 2) ? frame : a + 1;
  uint32_t w = draw_place(k, s, low, b, q, true);
  if (!insert_step(k, w, flag(k, R_wait_flag, p, q, id))) return false;
  if (w <= a) a++;
  b++;
  return insert_step(k, draw_place(k, s, a + 1, b, p, false), flag(k, R_set_flag, p, q, id));
}

static void ordered(random_kernel *k, uint64_t *s, uint32_t operations) {
  static verdict v;
  uint32_t frame = k->count;
  for (uint32_t n = 0; n < operations; n++) add(k, draw_operation(k, s));
  for (uint32_t tries = 0; tries < 24; tries++) {
    judge(k, NO_DEFECT, &v);
    if (!v.count || k->count - frame + 4 > MOST_RANDOM || v.deadlock) break;
    const pair *p = &v.pairs[below(s, v.count)];
    if (!order(k, s, p->first, p->second, frame)) break;
  }
}

/* One slot of UB after the other: load, compute in place, store. */
static void loop(random_kernel *k, uint64_t *s) {
  uint32_t tiles = 2 + below(s, 2), frame = k->count;
  bool ids = below(s, 2), back = below(s, 4), prime = below(s, 2);
  uint8_t load_pipe = RD_NPU_PIPE_MTE2, work = RD_NPU_PIPE_V, store = RD_NPU_PIPE_MTE3;
  if (prime && tiles == 2)
    for (uint32_t n = 0; n < 2; n++) add(k, flag(k, R_set_flag, store, load_pipe, n));
  for (uint32_t t = 0; t < tiles; t++) {
    uint32_t slot = t % 2, id = ids ? slot : 0;
    uint64_t ub = RD_NPU_ADDR(RD_NPU_UB, 256 * slot);
    if (back && (t >= 2 || (prime && tiles == 2)))
      add(k, flag(k, R_wait_flag, store, load_pipe, slot));
    add(k, burst(k, R_copy_gm_to_ubuf, ub, RD_NPU_GM_ADDR(GM_IN, 2048 + 256 * t), 8));
    add(k, flag(k, R_set_flag, load_pipe, work, id));
    add(k, flag(k, R_wait_flag, load_pipe, work, id));
    step x = blank(k, below(s, 2) ? R_vadds : R_vmuls);
    x.hi = 0, x.d = x.a = ub, x.imm = rd_npu_f32(1.5f + (float)t);
    x.p[0] = x.p[1] = x.p[2] = 1, x.p[3] = x.p[4] = 8;
    add(k, x);
    add(k, flag(k, R_set_flag, work, store, id));
    add(k, flag(k, R_wait_flag, work, store, id));
    add(k, burst(k, R_copy_ubuf_to_gm, RD_NPU_GM_ADDR(GM_STATE, 256 * t), ub, 8));
    if (back && (t + 2 < tiles || (prime && tiles == 2)))
      add(k, flag(k, R_set_flag, store, load_pipe, slot));
  }
  if (prime && tiles == 2)
    for (uint32_t n = 0; n < 2; n++) add(k, flag(k, R_wait_flag, store, load_pipe, n));
  (void)frame;
}

/* Takes a piece out of [first, count), or moves it by a place. */
static void damage(random_kernel *k, uint64_t *s, uint32_t first) {
  if (k->count <= first) return;
  uint32_t at = first + below(s, k->count - first);
  for (uint32_t n = 0; n < 8 && random_ops[k->list[at].op].form > BARRIER; n++)
    at = first + below(s, k->count - first);
  step x = k->list[at];
  uint32_t what = below(s, 4);
  if (what == 0 && x.op == R_set_flag) { /* the whole edge */
    for (uint32_t n = first; n < k->count; n++)
      if (k->list[n].op == R_wait_flag && k->list[n].src == x.src && k->list[n].dst == x.dst &&
          k->list[n].id == x.id) {
        remove_step(k, n);
        if (n < at) at--;
        break;
      }
  }
  remove_step(k, at);
  if (what >= 2 && random_ops[x.op].form <= BARRIER)
    insert_step(k, first + below(s, k->count - first + 1), x);
}

void generate(random_kernel *k, uint64_t seed) {
  static const struct {
    rd_npu_arch arch;
    rd_npu_core_kind kind;
  } cores[] = {{RD_NPU_310P, RD_NPU_COUPLED}, {RD_NPU_310P, RD_NPU_COUPLED},
               {RD_NPU_910B, RD_NPU_VECTOR},  {RD_NPU_910B, RD_NPU_CUBE},
               {RD_NPU_950, RD_NPU_VECTOR},   {RD_NPU_950, RD_NPU_CUBE}};
  uint64_t s = seed * 0xD1342543DE82EF95u + 1;
  memset(k, 0, sizeof *k);
  uint32_t core = below(&s, 6), mode = below(&s, 8);
  k->arch = cores[core].arch, k->kind = cores[core].kind;
  k->cube = k->kind == RD_NPU_CUBE || core == 1;
  k->wide = k->cube && below(&s, 4) == 0;
  uint32_t inserted = below(&s, 6);
  k->auto_sync = inserted < 3 ? (rd_npu_auto_sync)inserted : RD_NPU_AUTO_SYNC_NONE;
  k->binary = below(&s, 6) == 0;
  begin(k);
  uint32_t first = k->count;
  if (mode < 3) {
    soup(k, &s, 2 + below(&s, 12), below(&s, 5));
  } else if (mode < 7 || k->kind == RD_NPU_CUBE) {
    ordered(k, &s, 2 + below(&s, 8));
    if (below(&s, 3) == 0) damage(k, &s, first);
  } else {
    loop(k, &s);
    if (below(&s, 3)) damage(k, &s, first);
  }
  if (below(&s, 16)) finish(k, below(&s, 16) != 0);
}
