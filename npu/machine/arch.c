/* Architecture descriptors: the publicly documented figures (docs/NPU-MODEL.md names the sources).
 */
#include "npu/machine/arch.h"

#define KIB 1024u
static const rd_npu_arch_info archs[RD_NPU_ARCHS] = {
    [RD_NPU_310P] = {.name = "310P",
                     .coupled = true,
                     .cores = 8,
                     .vectors_per_core = 1,
                     .capacity = {0, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB, 256 * KIB},
                     .vector_in_order = false,
                     .bf16 = false,
                     .emulated_vectors = false,
                     .empty_is_noop = false,
                     .saturates = true},
    [RD_NPU_910B] = {.name = "910B",
                     .coupled = false,
                     .cores = 24,
                     .vectors_per_core = 2,
                     .capacity = {0, 512 * KIB, 64 * KIB, 64 * KIB, 128 * KIB, 192 * KIB},
                     .vector_in_order = true,
                     .bf16 = true,
                     .emulated_vectors = false,
                     .empty_is_noop = true,
                     .saturates = false},
    [RD_NPU_950] = {.name = "950",
                    .coupled = false,
                    .cores = 32,
                    .vectors_per_core = 2,
                    .capacity = {0, 512 * KIB, 64 * KIB, 64 * KIB, 256 * KIB, 256 * KIB},
                    .vector_in_order = true,
                    .bf16 = true,
                    .emulated_vectors = true,
                    .empty_is_noop = false,
                    .saturates = false},
};

const rd_npu_arch_info *rd_npu_arch_get(rd_npu_arch arch) {
  return (unsigned)arch < RD_NPU_ARCHS ? &archs[arch] : NULL;
}

const char *rd_npu_pipe_name(rd_npu_pipe pipe) {
  static const char *const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
  return (unsigned)pipe < sizeof names / sizeof names[0] ? names[pipe] : "?";
}

const char *rd_npu_buffer_name(rd_npu_buffer buffer) {
  static const char *const names[] = {"GM", "L1", "L0A", "L0B", "L0C", "UB"};
  return (unsigned)buffer < sizeof names / sizeof names[0] ? names[buffer] : "?";
}

bool rdn_pipe_exists(const rd_npu_launch *l, unsigned pipe) {
  static const uint8_t pipes[3] = {
      [RD_NPU_COUPLED] = 1u << RD_NPU_PIPE_S | 1u << RD_NPU_PIPE_V | 1u << RD_NPU_PIPE_M |
                         1u << RD_NPU_PIPE_MTE1 | 1u << RD_NPU_PIPE_MTE2 | 1u << RD_NPU_PIPE_MTE3,
      [RD_NPU_CUBE] = 1u << RD_NPU_PIPE_S | 1u << RD_NPU_PIPE_M | 1u << RD_NPU_PIPE_MTE1 |
                      1u << RD_NPU_PIPE_MTE2 | 1u << RD_NPU_PIPE_MTE3 | 1u << RD_NPU_PIPE_FIX,
      [RD_NPU_VECTOR] = 1u << RD_NPU_PIPE_S | 1u << RD_NPU_PIPE_V | 1u << RD_NPU_PIPE_MTE2 |
                        1u << RD_NPU_PIPE_MTE3};
  return pipe < PIPES && (pipes[l->kind] >> pipe & 1);
}

uint32_t rdn_launch_programs(const rd_npu_launch *l) {
  return l->block_num * (l->kind == RD_NPU_VECTOR ? archs[l->arch].vectors_per_core : 1);
}
