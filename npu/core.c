/* Issuing: an intrinsic's record is checked, executed in program order when values are wanted, and
 * kept when somebody will ask about other orders. */
#include "model.h"

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
              info->class != CLASS_S_GM;
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
    if (i->barrier.pipe == RD_NPU_PIPE_ALL || rdn_pipe_exists(c->launch, i->barrier.pipe))
      return true;
    finding(c, RD_NPU_MISSING_INSTRUCTION, i, "barrier on a pipe this core does not have");
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

static void run(rd_npu_core *c, const insn *i) {
  if (i->op == OP_set_flag) {
    c->pending[i->flag.src][i->flag.dst][i->flag.id]++;
    return;
  }
  if (i->op == OP_wait_flag) {
    uint16_t *pending = &c->pending[i->flag.src][i->flag.dst][i->flag.id];
    if (*pending)
      --*pending;
    else if (!c->halted) {
      c->halted = true;
      if (!c->check)
        finding(c, RD_NPU_DEADLOCK, i,
                "waits for a flag that no earlier set_flag of the program sets");
    }
    return;
  }
  if (!c->execute || c->halted) return;
  if (!rdn_execute_all(c->mem, i)) finding(c, RD_NPU_BOUNDS, i, "gather offset outside its table");
}

/* Keeps events and barriers for implied.c; a dropped one takes no place in its queue. */
static void keep_control(rd_npu_core *c, const insn *i, bool dropped) {
  insn k = *i;
  k.index = c->next_index[i->pipe] + !dropped;
  if (i->op == OP_pipe_barrier) memcpy(k.barrier.ends, c->next_index, sizeof k.barrier.ends);
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
    if (!rdn_validate(c->launch, i, why, sizeof why)) {
      finding(c, RD_NPU_BOUNDS, i, why);
      return;
    }
    if (rdn_units(i) == 0) return; /* repeat 0 */
  }
  i->index = ++c->next_index[i->pipe];
  uint32_t position = (uint32_t)c->issued++;
  if (c->check) rdn_checker_step(c->chk, i, position, &c->findings);
  run(c, i);
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
        text += n + (text[n] == ',');
        found = true;
      }
    if (!found) return false;
  }
  return true;
}
