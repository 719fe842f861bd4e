#include "npu/machine/isa.h"

const op_info rdn_ops[OP_COUNT] = {
#define X(name, class, pipe, archs, types, from, to, traits)                                       \
  [OP_##name] = {#name, CLASS_##class, RD_NPU_PIPE_##pipe, archs,                                  \
                 types, RD_NPU_##from, RD_NPU_##to,        traits},
    RDN_OPS(X)
#undef X
};
