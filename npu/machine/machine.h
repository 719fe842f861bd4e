/* Figures of the machine that everything shares, and the parts of an address. */
#ifndef REDELTA_NPU_MACHINE_MACHINE_H
#define REDELTA_NPU_MACHINE_MACHINE_H

#include <redelta/npu.h>

#define PIPES        RD_NPU_PIPES
#define FLAG_IDS     8
#define FLAG_SLOTS   (FLAG_IDS + 1) /* the last is options.with's, a counter */
#define GRANULE      32u
#define RDN_GM_SLACK 4096u /* most that options.gm_slack may ask for */
#define CACHE_LINE   64u   /* of the scalar unit's data cache */

static inline unsigned addr_buffer(uint64_t a) { return (unsigned)(a >> 60); }
static inline uint32_t addr_tensor(uint64_t a) { return (uint32_t)(a >> 44 & 0xFFFF); }
static inline uint64_t addr_offset(uint64_t a) {
  return a >> 60 ? a & 0x0FFFFFFFFFFFFFFFu : a & 0xFFFFFFFFFFFu;
}
static inline uint32_t type_size(uint8_t t) {
  return t == RD_NPU_F32 || t == RD_NPU_S32 ? 4 : t == RD_NPU_S64 ? 8 : 2;
}

#endif
