/* What the compiler's synchronisation looks at. */
#include "npu/check/rules.h"

bool rdn_meet_in_ub(const insn *a, const insn *b) {
  operand x[MAX_OPERANDS], y[MAX_OPERANDS];
  unsigned nx = rdn_operands(a, x), ny = rdn_operands(b, y);
  for (unsigned n = 0; n < nx; n++)
    for (unsigned m = 0; m < ny; m++)
      if (x[n].buffer == RD_NPU_UB && y[m].buffer == RD_NPU_UB &&
          (x[n].access | y[m].access) & WRITE && rdn_operands_meet(&x[n], &y[m]))
        return true;
  return false;
}
