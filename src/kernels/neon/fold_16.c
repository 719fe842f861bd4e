/* fold: k / P, k P and q P for FAST, NEON. */
#include "kernels/neon/column.h"

#include "kernels/fold_columns.h"
#include "kernels/registry.h"

int64_t rdi_fold_neon_16(const rdi_fold_args *g) { return rdi_fold(g); }
