#include "redelta/redelta.h"

const char *rd_version(void) { return RD_VERSION_STRING; }

const char *rd_status_name(rd_status status) {
  switch (status) {
#define NAME(s)                                                                                    \
  case s:                                                                                          \
    return #s;
    NAME(RD_OK)
    NAME(RD_E_NULL)
    NAME(RD_E_STRUCT_SIZE)
    NAME(RD_E_ENUM)
    NAME(RD_E_DTYPE)
    NAME(RD_E_RANK)
    NAME(RD_E_SHAPE)
    NAME(RD_E_HEADS)
    NAME(RD_E_STRIDE)
    NAME(RD_E_ALIAS)
    NAME(RD_E_SCALE)
    NAME(RD_E_LOWER_BOUND)
    NAME(RD_E_EPS)
    NAME(RD_E_CU_START)
    NAME(RD_E_CU_ORDER)
    NAME(RD_E_CU_END)
    NAME(RD_E_LENGTH)
    NAME(RD_E_CAPACITY)
    NAME(RD_E_SLOT_RANGE)
    NAME(RD_E_SLOT_DUPLICATE)
    NAME(RD_E_ACCEPTED)
    NAME(RD_E_BLOCK_NUM)
    NAME(RD_E_RECORDS)
    NAME(RD_E_CONSUMED)
    NAME(RD_E_PRESENCE)
    NAME(RD_E_METADATA)
    NAME(RD_E_OVERFLOW)
    NAME(RD_E_NOMEM)
    NAME(RD_E_BUSY)
    NAME(RD_E_ARITHMETIC)
    NAME(RD_E_EXECUTOR)
    NAME(RD_E_ISA)
    NAME(RD_E_PLAN)
    NAME(RD_E_BUFFER)
    NAME(RD_E_SYSTEM)
    NAME(RD_E_TREE)
#undef NAME
  }
  return "RD_E_?";
}
