/* Issuing: an intrinsic's record is checked, executed in reference order when values are wanted, and
 * kept when somebody will ask about other orders. */
#include "npu/core/core.h"
#include "npu/isa/instruction.h"
#include "npu/machine/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rd_npu_site rd_npu_site_at(rd_npu_core *c, const char *file, int line, rd_npu_site caller) {
  rd_npu_site s = rdn_program_site(&c->prog, file, line, caller);
  if (!s) c->out_of_memory = true;
  return s;
}

uint32_t rd_npu_get_block_idx(rd_npu_core *c) { return c->block; }
uint32_t rd_npu_get_block_num(rd_npu_core *c) { return c->programs; }
rd_npu_arch rd_npu_get_arch(rd_npu_core *c) { return c->launch->arch; }

insn rdn_insn(const rd_npu_core *c, op o, rd_npu_site s) {
  insn i;
  memset(&i, 0, sizeof i);
  i.op = (uint8_t)o;
  bool fix = rdn_ops[o].traits & ON_FIX_IF_SPLIT && !c->arch->coupled;
  i.pipe = fix ? RD_NPU_PIPE_FIX : rdn_ops[o].pipe;
  i.site = s;
  return i;
}

static void finding(rd_npu_core *c, rd_npu_finding_kind kind, const insn *i, const char *why) {
  raw_access a = {.pipe = i->pipe, .op = i->op, .site = i->site};
  if (!rdn_finding_add(&c->findings, kind, &a, NULL, why)) c->out_of_memory = true;
}

/* Does this architecture and kind of core have the instruction? */
static bool available(rd_npu_core *c, const insn *i) {
  const op_info *info = &rdn_ops[i->op];
  const char *arch = c->arch->name;
  char why[160];
  if (!(info->archs >> c->launch->arch & 1)) {
    snprintf(why, sizeof why, "%s has no %s", arch, info->name);
    finding(c, RD_NPU_MISSING_INSTRUCTION, i, why);
    return false;
  }
  if (!rdn_pipe_exists(c->launch, i->pipe)) {
    snprintf(why, sizeof why, "%s: this kind of core on %s has no pipe %s", info->name, arch,
             rd_npu_pipe_name(i->pipe));
    finding(c, RD_NPU_MISSING_INSTRUCTION, i, why);
    return false;
  }
  bool bf16 = (i->type_dst == RD_NPU_BF16 || i->type_src == RD_NPU_BF16) && !c->arch->bf16 &&
              !(info->traits & ANY_BITS);
  if ((info->types && !(info->types >> i->type_dst & 1)) || bf16) {
    snprintf(why, sizeof why, "%s has no %s for this type", arch, info->name);
    finding(c, RD_NPU_MISSING_INSTRUCTION, i, why);
    return false;
  }
  return true;
}

/* Flags and barriers: pipes that exist, ids 0..7. */
static bool control_ok(rd_npu_core *c, const insn *i) {
  char why[160];
  if (i->op == OP_pipe_barrier) {
    bool queue = i->barrier.pipe != RD_NPU_PIPE_S && rdn_pipe_exists(c->launch, i->barrier.pipe);
    if (i->barrier.pipe == RD_NPU_PIPE_ALL || queue) return true;
    finding(c, RD_NPU_MISSING_INSTRUCTION, i,
            i->barrier.pipe == RD_NPU_PIPE_S
                ? "no barrier on pipe S: it runs in order, and waits for others by X_S or ALL"
                : "barrier on a pipe this core does not have");
    return false;
  }
  if (!rdn_pipe_exists(c->launch, i->flag.src) || !rdn_pipe_exists(c->launch, i->flag.dst) ||
      i->flag.src == i->flag.dst) {
    snprintf(why, sizeof why, "no event from pipe %s to pipe %s on this core",
             rd_npu_pipe_name(i->flag.src), rd_npu_pipe_name(i->flag.dst));
    finding(c, RD_NPU_MISSING_INSTRUCTION, i, why);
    return false;
  }
  if (i->flag.id >= FLAG_IDS) {
    finding(c, RD_NPU_ID_RANGE, i, "event ids are 0..7");
    return false;
  }
  return true;
}

static void run(void *user, const insn *i, uint32_t position, uint64_t tag) {
  rd_npu_core *c = user;
  (void)position, (void)tag;
  if (!c->execute || i->op == OP_set_flag || i->op == OP_wait_flag || i->op == OP_pipe_barrier)
    return;
  if (!rdn_execute_all(c->mem, i)) finding(c, RD_NPU_BOUNDS, i, "gather offset outside its table");
}

/* The number that a value read gives the kernel, into the recording.  Behind a hang it is 0: nothing
 * would be read there. */
static void take_value(rd_npu_core *c, insn *i) {
  i->s.value = 0;
  if (c->halted) return;
  if (!c->execute && !c->begin_values(c)) {
    c->out_of_memory = true;
    return;
  }
  i->s.value = rdn_value(c->mem, i);
}

void rdn_mark_continuation(rd_npu_core *c) {
  for (; c->marked < c->findings.count; c->marked++)
    c->findings.list[c->marked].continuation = c->doubt;
}

/* Without findings, a value read has one latest write by happens-before and every order gives the same
 * number.  Behind a finding, or where S hangs, another order may give another, and the kernel another program. */
static void judge_value(rd_npu_core *c) {
  rdn_mark_continuation(c);
  if (c->doubt || !(c->findings.count || c->halted)) return;
  c->doubt = true;
  c->doubt_at = c->issued;
}

/* A trip count in doubt may be any number, and a loop may poll what nobody writes: the kernel is left
 * where it stands.  Whatever it holds is lost, which a kernel of the machine does not have. */
#define RUNAWAY (1u << 20)
static void stop_runaway(rd_npu_core *c, const insn *i) {
  bool lost = c->doubt && c->issued - c->doubt_at >= RUNAWAY;
  if (!lost && c->values_read < RUNAWAY) return;
  finding(c, RD_NPU_SCHEDULE_VALUE, i,
          lost ? "1048576 instructions behind a value read in doubt: the kernel is left here"
               : "1048576 value reads, as by a loop that polls: the kernel is left here");
  rdn_mark_continuation(c);
  c->doubt = true;
  longjmp(c->leave, 1);
}

void rdn_core_run(rd_npu_core *c) {
  if (setjmp(c->leave) == 0) c->launch->kernel(c, c->launch->args);
}

void rdn_core_begin(rd_npu_core *c) { rdn_order_init(&c->order, run, c); }

bool rdn_core_finish(rd_npu_core *c) {
  bool ok = !c->order.failed;
  c->halted = rdn_order_hangs(&c->order);
  c->prog.depth = c->order.deepest;
  if (c->halted && !c->check) ok = ok && rdn_order_report(&c->order, &c->findings);
  rdn_order_free(&c->order);
  return ok;
}

/* Keeps events and barriers for check/implied.c; a dropped one takes no place in its queue. */
static void keep_control(rd_npu_core *c, const insn *i, bool dropped) {
  insn k = *i;
  k.index = c->next_index[i->pipe] + !dropped;
  if (i->op == OP_pipe_barrier)
    memcpy(k.barrier.ends, c->next_index, sizeof k.barrier.ends);
  else
    k.flag.dropped = dropped;
  if (!rdn_program_add(&c->control, &k)) c->out_of_memory = true;
}

void rdn_issue(rd_npu_core *c, insn *i) {
  char why[200];
  if (c->out_of_memory) return;
  bool control = i->op == OP_set_flag || i->op == OP_wait_flag || i->op == OP_pipe_barrier;
  if (control) {
    if (!control_ok(c, i)) return;
    bool dropped = i->op != OP_pipe_barrier && c->without[i->flag.src][i->flag.dst];
    if (c->dropping && c->check) keep_control(c, i, dropped);
    if (dropped) return;
  } else {
    if (!available(c, i)) return;
    if (c->arch->empty_is_noop && rdn_empty(i)) return;
    if (!rdn_validate(c->launch, c->slack, i, why, sizeof why)) {
      finding(c, RD_NPU_BOUNDS, i, why);
      return;
    }
    if (rdn_units(i) == 0) return; /* repeat 0 */
  }
  stop_runaway(c, i);
  i->index = ++c->next_index[i->pipe];
  uint32_t position = (uint32_t)c->issued++;
  if (c->check) rdn_checker_step(c->chk, i, position, &c->findings);
  if (rdn_ops[i->op].traits & VALUE) {
    c->values_read++;
    judge_value(c);
    take_value(c, i);
  }
  rdn_order_issue(&c->order, i, position, 0);
  c->halted = c->order.s_stuck;
  if (c->record && !rdn_program_add(&c->prog, i)) c->out_of_memory = true;
}

bool rdn_parse_without(const char *text, uint8_t without[PIPES][PIPES]) {
  memset(without, 0, PIPES * PIPES);
  while (text && *text) {
    bool found = false;
    for (unsigned a = 0; a < PIPES && !found; a++)
      for (unsigned b = 0; b < PIPES && !found; b++) {
        char name[24];
        int n = snprintf(name, sizeof name, "%s_%s", rd_npu_pipe_name(a), rd_npu_pipe_name(b));
        if (a == b || strncmp(text, name, (size_t)n) != 0 || (text[n] && text[n] != ',')) continue;
        without[a][b] = 1;
        text += n;
        found = true;
      }
    if (!found || (*text == ',' && !*++text)) return false; /* nothing behind the comma */
  }
  return true;
}
