/* prep: k, a, kt = a k, qt = a q, kq = k.q and beta of <= 16 tokens of one value head, NEON. */
#include "kernels/neon/column.h"
#include "kernels/prep_columns.h"
#include "kernels/registry.h"
#include "kernels/neon/flush.h"

static __attribute__((noinline)) void prepare(const rdi_prep_args *g) { rdi_prep(g); }

void rdi_prep_neon_16(const rdi_prep_args *g) {
  underflow_clear();
  prepare(g);
  if (underflow()) rdi_prep_scalar(g);
}
