/* Memory from a caller's allocator. */
#ifndef RDI_UTIL_ALLOCATE_H
#define RDI_UTIL_ALLOCATE_H

#include <stddef.h>
#include <stdint.h>

#include "redelta/exec.h"

/* NULL also when the allocator did not align: aligned vector moves would stop the program. Checked up
 * to a cache line, which is all that correctness needs; huge pages are for speed. */
static inline void *rdi_allocate(const rd_allocator *allocator, size_t size, size_t align) {
  void *p = allocator->alloc(allocator->self, size, align);
  if (!p || (uintptr_t)p % (align < 64 ? align : 64) == 0) return p;
  allocator->release(allocator->self, p, size);
  return NULL;
}

#endif
